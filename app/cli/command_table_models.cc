// Commands on trained models, and on data: names, flags and help.
#include "app/cli/command_table.h"
#include "app/cli/commands.h"

namespace lockstep::app::cli {

const std::vector<Command> kModelCommands{
    {"tokenize",
     {{"vocabulary=", "merges=", "to=", "end-of-text=", "json"},
      1,
      100000,
      "tokenize FILE… --vocabulary FILE --merges FILE --to FILE.npy [--end-of-text TOKEN] "
      "[--json]"},
     "Turns texts, plain, gzip or zstd, into the tokens of a byte-pair vocabulary, for "
     "data.train.tokens.\n"
     "  --vocabulary   tokens and their ids, as GPT-2's vocab.json (encoder.json)\n"
     "  --merges       pairs, a line each, as GPT-2's merges.txt (vocab.bpe)\n"
     "  --to           a NumPy file of 2 bytes a token, or 4 if the vocabulary has more than "
     "65536\n"
     "  --end-of-text  follows each text, as '<|endoftext|>'",
     tokenizeCommand},
    {"export",
     {{"to=", "names=", "type=", "model=", "json"},
      1,
      1,
      "export RUN|FILE|FOLDER --to FILE [--names lockstep|gpt2] [--type f32|bf16|f16] [--model "
      "SPEC] [--json]"},
     "Writes the weights of a run's model, of a model file, or of a checkpoint on this machine to "
     "a "
     "safetensors\nfile, or the model with them to an ONNX file, for other runtimes.\n"
     "  --to     the file; FILE.onnx: the model\n"
     "  --names  lockstep (default), or gpt2: names and layout of Hugging Face's GPT2LMHeadModel\n"
     "  --type   of all weights (default: as they are)\n"
     "  --model  the spec that a file or checkpoint is of, which other names and ONNX need",
     exportCommand},
    {"predict",
     {{"data=", "limit=", "out=", "outputs", "names=", "model=", "json"},
      1,
      1,
      "predict RUN|FILE|FOLDER [--data FILE…] [--limit N] [--out FILE.csv] [--outputs]\n"
      "        [--names lockstep|gpt2] [--model SPEC] [--json]"},
     "Runs a trained model on the samples of a data set, on this machine, and prints a row for "
     "each:\nclass and probability, or the values; of a text, how well it is predicted. Labels "
     "that the data have\nare printed beside, loss and metric over all samples at the end.\n"
     "  RUN…       a run that has ended, a safetensors file, a checkpoint or a folder of them\n"
     "  --data     files in the format of the run's data (default: what it evaluates on); of "
     "images twice,\n             for images and labels, or once\n"
     "  --limit    the first N samples\n"
     "  --out      the rows go to this file\n"
     "  --outputs  the model's outputs as they are, too: logits\n"
     "  --names    of the weights in a file, as for export\n"
     "  --model    the spec that a file or checkpoint is of",
     predictCommand},
    {"generate",
     {{"prompt=", "tokens=", "temperature=", "top-k=", "top-p=", "seed=", "vocabulary=", "merges=",
       "end-of-text=", "names=", "model=", "json"},
      1,
      1,
      "generate RUN|FILE|FOLDER --prompt TEXT [--tokens N] [--temperature T] [--top-k K]\n"
      "         [--top-p P] [--seed S] [--vocabulary FILE --merges FILE] [--end-of-text TOKEN]\n"
      "         [--names lockstep|gpt2] [--model SPEC] [--json]"},
     "Prints how a text goes on by a trained language model, on this machine. The same seed prints "
     "the same\ntext. Of a longer text the model sees as many of the last tokens as its input has; "
     "each token takes a\nrun of the whole model.\n"
     "  --prompt       the beginning of the text\n"
     "  --tokens       how many to generate (default: 100)\n"
     "  --temperature  0: always the likeliest token (default: 1)\n"
     "  --top-k        among the K likeliest tokens only\n"
     "  --top-p        among the likeliest tokens that have probability P together\n"
     "  --vocabulary, --merges  of a model of tokens, as for tokenize; else tokens are bytes\n"
     "  --end-of-text  ends the text, as '<|endoftext|>'\n"
     "  --names, --model  as for predict",
     generateCommand},
};

const std::vector<Command> kDataCommands{
    {"data show",
     {{"split=", "from=", "count=", "random", "seed=", "check", "make", "json"},
      1,
      1,
      "data show SPEC [--split train|evaluate] [--from N | --random [--seed S]] [--count N]\n"
      "               [--check] [--make] [--json]"},
     "Prints samples of the data that a run spec names, their number and labels.\n"
     "  SPEC      a run spec, or the name of an example\n"
     "  --from    the first sample shown, from 0\n"
     "  --random  random samples, the same for the same seed (default 1)\n"
     "  --count   how many (default 8)\n"
     "  --check   reads the files to their ends, checks them as a run does, and compares hashes\n"
     "  --make    makes the data of an example where they are missing",
     dataShowCommand},
    {"make-data ctr",
     {{"rows=", "seed=", "skew=", "out=", "json"},
      0,
      0,
      "make-data ctr [--rows N] [--seed S] [--skew Z] [--out FILE] [--json]"},
     "Generates a click log for the example ctr, and prints the AUC that a perfect model "
     "reaches.\n"
     "  --rows      number of rows (default 1000000)\n"
     "  --skew      exponent of the category frequencies, 1/rank^skew (default 1.5)\n"
     "  --out       file to write (default ctr.tsv)",
     makeDataCommand},
    {"make-data images",
     {{"size=", "grey", "classes=", "skip-damaged", "to=", "json"},
      1,
      1,
      "make-data images SOURCE --size HEIGHTxWIDTH --to PREFIX [--grey] [--classes FILE]\n"
      "                 [--skip-damaged] [--json]"},
     "Makes the IDX files PREFIX-images.idx and PREFIX-labels.idx of JPEG and PNG pictures, and\n"
     "PREFIX-classes.txt with the names of the classes by label. A picture is scaled to cover the\n"
     "size, and what is beyond it at two sides is cut off.\n"
     "  SOURCE          a folder, each folder in which is a class; or a file whose lines have a\n"
     "                  path, relative to that file, a tab or a space, and a class\n"
     "  --size          of all images: 32x32\n"
     "  --grey          one channel in place of red, green and blue\n"
     "  --classes       numbers the classes as this file: that of the training data, for those\n"
     "                  that are evaluated\n"
     "  --skip-damaged  leaves out what cannot be decoded, and names it; reads everything twice",
     makeImagesCommand},
    {"make-data table",
     {{"to=", "columns=", "python=", "json"},
      1,
      100000,
      "make-data table FILE… --to FILE.csv [--columns NAME,…] [--python PROGRAM] [--json]"},
     "Writes the rows of Parquet or TFRecord files (of tf.train.Example) to a CSV file, whose "
     "columns\n"
     "data.csv names. Lists of one length become columns NAME.0, NAME.1, …\n"
     "  --columns  which, in this order (default: all)\n"
     "  --python   has pyarrow, which reads Parquet (default python3): pip install pyarrow",
     makeTableCommand},
};

}  // namespace lockstep::app::cli
