// lockstep, the command line: the table of commands with their flags and help, and main().
#include <algorithm>
#include <cstdio>
#include <limits>

#include "app/cli/command_help.h"
#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/deploy/bundle.h"

namespace lockstep::app::cli {
namespace {

int completionCommand(const Globals& globals, const Arguments& arguments);
int manualCommand(const Globals& globals, const Arguments& arguments);

// Names, flags and help of all commands.
const std::vector<Command> kCommands{
    {"run",
     {{"cluster=", "local=", "ranks=", "comm=", "set=", "detach", "resume=", "no-benchmark",
       "requeue", "no-requeue", "every=", "json"},
      1,
      1,
      "run SPEC [--cluster FILE | --local N] [--ranks NODE=N]… [--comm KIND] [--set "
      "path=value]…\n"
      "             [--detach] [--resume RUN|DIR] [--no-benchmark] [--requeue | --no-requeue] "
      "[--every N]\n"
      "             [--json]"},
     "Trains a run spec on a cluster, or on N agents on this machine (default 1).\n"
     "  SPEC        a file, or the name of an example\n"
     "  --set       sets an option, as training.max_steps=100; `lockstep options` lists them\n"
     "  --ranks     overrides the number of ranks on a node\n"
     "  --comm      overrides the communicator: shm, gloo or nccl\n"
     "  --detach    returns once the run has started and prints its id\n"
     "  --resume    continues from a run's last checkpoint, or from a checkpoint folder\n"
     "  --no-benchmark  plans with built-in costs instead of a benchmark of the first node\n"
     "  --requeue, --no-requeue  override placement.requeue of the cluster\n"
     "  --every     reports every N-th step instead of at most ten per second\n"
     "Ctrl-C stops the run with a checkpoint; a second one kills it.",
     runCommand},
    {"resume",
     {{"ranks=", "comm=", "set=", "detach", "no-benchmark", "requeue", "no-requeue",
       "every=", "json"},
      1,
      1,
      "resume RUN [--ranks NODE=N]… [--comm KIND] [--set path=value]… [--detach] "
      "[--no-benchmark]\n"
      "             [--requeue | --no-requeue] [--every N] [--json]"},
     "Continues from a run's last checkpoint as a new run: same spec, same cluster.",
     resumeCommand},
    {"rerun",
     {{"ranks=", "comm=", "set=", "detach", "no-benchmark", "requeue", "no-requeue",
       "every=", "json"},
      1,
      1,
      "rerun RUN [--ranks NODE=N]… [--comm KIND] [--set path=value]… [--detach] [--no-benchmark]\n"
      "             [--requeue | --no-requeue] [--every N] [--json]"},
     "Launches a run again from its start: same spec, same cluster.",
     rerunCommand},
    {"attach",
     {{"every=", "json"}, 1, 1, "attach RUN [--every N] [--json]"},
     "Follows a run from its first step to its end.",
     attachCommand},
    {"checkpoint",
     {{"json"}, 1, 1, "checkpoint RUN [--json]"},
     "Asks a run to take a checkpoint now.",
     checkpointCommand},
    {"exclude",
     {{"json"}, 2, 2, "exclude RUN NODE [--json]"},
     "Asks a run to take a checkpoint now, and to continue from it without the node. A spare node "
     "replaces\n"
     "it; if there is none, the remaining nodes divide the batch.",
     excludeCommand},
    {"rebalance",
     {{"shares=", "last=", "apply", "json"},
      1,
      1,
      "rebalance RUN [--shares N,N…] [--last N] [--apply] [--json]"},
     "Shows with which division of the batch the ranks of a run would compute equally long, by its "
     "last\n"
     "steps (--last 50), and what a step would take. --shares: with those, one for each rank that "
     "the\n"
     "batch is divided among. --apply: asks the run to take a checkpoint now, and to continue from "
     "it so.",
     rebalanceCommand},
    {"restart",
     {{"json"}, 1, 1, "restart RUN [--json]"},
     "Asks a run to take a checkpoint now, and to restart all its ranks from it.",
     restartCommand},
    {"profile",
     {{"steps=", "json"}, 1, 1, "profile RUN [--steps N] [--json]"},
     "Records all events of the run's next steps (20, at most 200), for the timeline.",
     profileCommand},
    {"steps",
     {{"last=", "json"}, 1, 1, "steps RUN [--last N] [--json]"},
     "Shows how long each rank took for the steps of a run, as the studio's heat map does: means, "
     "and own\n"
     "time over the steps. --json: every step, or the longest of several where there are many.\n"
     "  --last  the last N steps alone",
     stepsCommand},
    {"timeline",
     {{"step=", "predicted", "json"}, 1, 1, "timeline RUN [--step N] [--predicted] [--json]"},
     "Shows what each rank did in a step of a run: the newest of which the events were recorded, "
     "as "
     "they\n"
     "are of samples, slow steps and those that `lockstep profile` asks for.\n"
     "  --step       the recorded step that is nearest to N\n"
     "  --predicted  as the plan was predicted instead",
     timelineCommand},
    {"traffic",
     {{"json"}, 1, 1, "traffic RUN [--json]"},
     "Shows what ranks and nodes send each other in a step of a run: as planned, and between nodes "
     "as\n"
     "measured.",
     trafficCommand},
    {"stragglers",
     {{"last=", "nodes", "json"}, 1, 1, "stragglers RUN [--last N] [--nodes] [--json]"},
     "Lists a run's ranks, or nodes, by the time that the others waited for them, and shows the "
     "first rank\n"
     "beside its peers.",
     stragglersCommand},
    {"whatif",
     {{"cluster=", "local=", "ranks=", "comm=", "set=", "measure",
       "without=", "link=", "ideal-network", "no-bubble", "with=", "last=", "json"},
      1,
      1,
      "whatif RUN|SPEC [--cluster FILE | --local N] [--ranks NODE=N]… [--comm KIND]\n"
      "             [--set path=value]… [--measure] [--without RANK]… [--link NODE-NODE=RATE]…\n"
      "             [--ideal-network] [--no-bubble] [--with ranks=N|path=value]… [--last N] "
      "[--json]"},
     "Replays the steps of a run as they were measured, had something been otherwise: step time,\n"
     "samples a second, and the error, which a replay of what did happen has. Of a spec, with\n"
     "--cluster or --local, the predicted step instead. Without a change, prints those that every\n"
     "one can have.\n"
     "  --without        a rank is as fast as its peers\n"
     "  --link           a link between two nodes has another rate: n1-n2=10Gbit/s, n1-n2=1.2GB/s\n"
     "  --ideal-network  nothing takes time to travel\n"
     "  --no-bubble      the stages of a pipeline do not wait for each other\n"
     "  --with           another option, as training.precision=bf16, or other ranks, as ranks=16:\n"
     "                   further hosts are copies of those that there are. It is planned anew, "
     "with\n"
     "                   costs as the run, or --measure, measured them\n"
     "  --last           the last N steps alone, with the events of those that were sampled, or of "
     "the\n"
     "                   last sampled step before them\n"
     "  --measure        connects to the nodes and benchmarks them instead of using built-in costs",
     whatIfCommand},
    {"energy",
     {{"json"}, 1, 1, "energy RUN [--json]"},
     "Says what a run drew in all, and for computing, communication and waiting, and what that "
     "cost, by the\n"
     "prices in its cluster spec (energy). Measured where the nodes have counters, else modelled.",
     energyCommand},
    {"stop",
     {{"json"}, 1, 1, "stop RUN [--json]"},
     "Stops a run after its current step, with a checkpoint and copies of it on other nodes.\n"
     "A second stop does not wait for the copies.",
     stopCommand},
    {"kill",
     {{"give-up", "json"}, 1, 1, "kill RUN [--give-up] [--json]"},
     "Kills a run.\n"
     "  --give-up   if the coordinator cannot be reached: ends the run in the history and on all "
     "nodes "
     "that answer",
     killCommand},
    {"artifacts",
     {{"max-bytes=", "json"}, 1, 1, "artifacts RUN [--max-bytes BYTES] [--json]"},
     "Fetches the files that workload.artifacts names from the nodes of an ended run, to "
     "HOME/runs/RUN/artifacts.\n"
     "Those that are there already are kept. `lockstep run` and the studio do this when a run "
     "ends.\n"
     "  --max-bytes  instead of workload.artifacts.max_bytes, as 20GiB",
     artifactsCommand},
    {"logs",
     {{"follow", "rank=", "node=", "level=", "contains=", "first-error", "json"},
      1,
      1,
      "logs RUN [--follow] [--rank R] [--node NAME] [--level LEVEL | --first-error]\n"
      "             [--contains TEXT] [--json]"},
     "Prints the logs of all ranks and supervisors of a run.\n"
     "  --level        lines of this level and above: debug, info, warning, error. Of programs "
     "that "
     "know\n"
     "                 no levels, words as error and Traceback say it\n"
     "  --first-error  the first line of level error alone",
     logsCommand},
    {"runs", {{"json"}, 0, 0, "runs [--json]"}, "Lists running runs.", runsCommand},
    {"metrics",
     {{"listen=", "once"}, 0, 1, "metrics [RUN] [--listen ADDRESS:PORT] [--once]"},
     "Serves the current values of a run, or of all that are under way, for Prometheus, at "
     "/metrics.\n"
     "They are those that the studio, `lockstep run` and `lockstep attach` record while they "
     "follow "
     "a run.\n"
     "  --listen  a numeric address and a port, or a port (default: 127.0.0.1:9464)\n"
     "  --once    prints them instead",
     metricsCommand},
    {"plan",
     {{"cluster=", "local=", "ranks=", "comm=", "set=", "measure", "passes",
       "dump-after=", "diff=", "whole", "json"},
      1,
      1,
      "plan SPEC [--cluster FILE | --local N] [--ranks NODE=N]… [--comm KIND] [--set "
      "path=value]…\n"
      "             [--measure | --passes | --dump-after PASS] [--diff SPEC] [--whole] [--json]"},
     "Prints the plan of a run, and to stderr its predicted cost and all that would be run.\n"
     "  --diff        prints its figures beside those of another spec on the same cluster; --set "
     "holds for the\n"
     "                first alone\n"
     "  --measure     connects to the nodes and benchmarks them instead of using built-in costs\n"
     "  --passes      lists the passes of the planner, with time and node counts\n"
     "  --dump-after  prints the graph of each program after a pass\n"
     "  --whole       prints plans of more than a mebibyte in full, with stages that differ from "
     "others in the\n"
     "                numbers of their layers alone",
     planCommand},
    {"simulate",
     {{"cluster=", "local=", "ranks=", "comm=", "set=", "measure", "slow=", "json"},
      1,
      1,
      "simulate SPEC [--cluster FILE | --local N] [--ranks NODE=N]… [--comm KIND]\n"
      "             [--set path=value]… [--measure] [--slow RANK=FACTOR]… [--json]"},
     "Simulates a plan in virtual time and prints one step of every rank.\n"
     "  --slow      makes a rank FACTOR times slower",
     simulateCommand},
    {"advise",
     {{"run=", "cluster=", "local=", "ranks=", "comm=", "set=", "pin=", "precision=", "seconds=",
       "top=", "all", "measure", "show=", "apply=", "detach", "json"},
      0,
      1,
      "advise SPEC | --run RUN [--cluster FILE | --local N] [--ranks NODE=N]… [--comm KIND] [--set "
      "path=value]…\n"
      "             [--pin OPTION[=VALUE]]… [--precision TYPE]… [--seconds N | --all] [--top N]\n"
      "             [--measure] [--show N | --apply N [--detach]] [--json]"},
     "Finds the strategies with which a run's step takes the least time, and says why.\n"
     "  --run        of a run, under way or ended: for its nodes and links as it measured them\n"
     "  --pin        keeps an option as the spec has it, or at VALUE\n"
     "  --precision  also tries this precision, which changes results\n"
     "  --seconds    how long to search (default 8)\n"
     "  --all        plans every strategy, however long it takes\n"
     "  --top        number of strategies shown (default 10)\n"
     "  --measure    connects to the nodes and benchmarks the best ones there\n"
     "  --show       prints the command that launches the N-th of them (default 1, the fastest); "
     "--json\n"
     "               has that of each\n"
     "  --apply      resumes the run with the N-th of them, 1 being the fastest, as a new run: one "
     "that is\n"
     "               under way is stopped first, after its step and with a checkpoint. Ctrl-C "
     "before it has\n"
     "               stopped leaves it to stop, and it is not resumed. Reruns a run that has "
     "trained to\n"
     "               its end, and an ended one without checkpoints\n"
     "  --detach     returns once the new run has started and prints its id\n"
     "wire is what rank 0 sends and receives in a step, link what the busiest link between two\n"
     "nodes carries, both ways (of at most 256 ranks). With prices in the cluster spec, a column\n"
     "tells what 1000 steps cost.",
     adviseCommand},
    {"learn",
     {{"list", "set=", "page=", "state=", "save=", "language=", "check", "spec", "run", "json"},
      0,
      1,
      "learn [LESSON] [--set SLIDER=VALUE]… [--page N] [--state FILE] [--save FILE]\n"
      "             [--language en|zh] [--list | --check | --spec | --run] [--json]"},
     "Shows a lesson on distributed training: text, picture, figures and exercises; without one, "
     "lists them.\n"
     "  LESSON      its number, its name, or a file; resources/lessons/README.md says how to write "
     "one\n"
     "  --set       moves a slider\n"
     "  --page      shows a page, in the state that it sets\n"
     "  --state     begins in the state of a file that --save or the studio wrote\n"
     "  --check     plays the lesson through: every page and the solution of every exercise\n"
     "  --spec      prints the run spec of the real run, with the sliders that were moved\n"
     "  --run       runs it on agents of this machine, as `lockstep run` does",
     learnCommand},
    {"verify",
     {{"ranks=", "cluster=", "steps=", "set=", "json"},
      1,
      1,
      "verify SPEC --ranks N [--cluster FILE] [--steps K] [--set path=value]… [--json]"},
     "Checks that the strategy computes on N ranks what one rank computes; exit 0 if it does.\n"
     "Runs both on this machine: a small variant of the model in fp64 on the reference backend, "
     "where\n"
     "losses, gradients and weights may differ by 1e-9; and the model itself in fp32.\n"
     "  SPEC        a run spec, or the name of an example\n"
     "  --cluster   the cluster that the ranks are planned for\n"
     "  --steps     number of steps compared (default 10)",
     verifyCommand},
    {"history list",
     {{"filter=", "contains=", "limit=", "json"},
      0,
      64,
      "history list [WORD…] [--filter NAME] [--contains TEXT] [--limit N] [--json]"},
     "Lists all runs, newest first; with words those that match all of them:\n"
     "  word \"two words\"            in the id, model, notes, strategy, cluster or a tag\n"
     "  tag:X model:X strategy:X cluster:X comm:X notes:X    * stands for any text\n"
     "  state:failed                a state, or unreachable\n"
     "  since:2026-11-01 before:T   when it was created: a date, 2026-11-01T12:30, today, 12h, 7d, "
     "2w\n"
     "  tag:A,B  -tag:X             one of several; not\n"
     "  --filter    a saved filter, see `lockstep history filter`\n"
     "  --contains  the text as it is, with all its characters",
     historyListCommand},
    {"history tag",
     {{"json"}, 0, 1000, "history tag [RUN… [+TAG | -TAG]…] [--json]"},
     "Adds tags to runs and removes them, and prints the tags of the runs; without a run, all "
     "tags.",
     historyTagCommand},
    {"history note",
     {{"json"}, 1, 2, "history note RUN [TEXT] [--json]"},
     "Prints the notes of a run, or replaces them; with an empty text there are none.",
     historyNoteCommand},
    {"history filter",
     {{"delete", "json"}, 0, 64, "history filter [NAME [WORD…]] [--delete] [--json]"},
     "Saves the words as a filter for `history list --filter` and the studio; without words, "
     "prints "
     "it, and\nwithout a name all.",
     historyFilterCommand},
    {"history show",
     {{"document=", "json"},
      1,
      1,
      "history show RUN [--document spec|resolved|cluster|plan|code] [--json]"},
     "Prints a run's metrics, stragglers, restarts, epochs, environment and spec, or one of its\n"
     "documents alone.\n"
     "  --document  spec      the spec as written\n"
     "              resolved  the spec as it ran\n"
     "              cluster   the spec of the cluster\n"
     "              plan      what each rank did in a step\n"
     "              code      the changes since the commit, for git apply",
     historyShowCommand},
    {"history diff",
     {{"json"}, 2, 24, "history diff RUN RUN… [--json]"},
     "Prints the options in which the specs of runs differ, as they ran, and what differs of "
     "their\n"
     "environment: system, hardware, driver, agent, and versions of a program.",
     historyDiffCommand},
    {"history export",
     {{"format=", "curve=", "axis=", "out="},
      1,
      24,
      "history export RUN [RUN…] [--format csv|json|html|svg|yaml|otlp|tensorboard]\n"
      "               [--curve NAME] [--axis AXIS] [--out FILE]"},
     "Exports a run, or a curve of one run or several.\n"
     "  --format  csv   all curves, or the one of --curve (default)\n"
     "            json  everything that was recorded\n"
     "            html  a report that needs no network: figures, curves, prediction and "
     "measurement,\n"
     "                  stragglers, restarts, errors, spec and plan\n"
     "            svg   a picture of the curve of --curve (default: loss)\n"
     "            yaml  the spec as it ran, for a new run\n"
     "            otlp  all curves as metrics of OpenTelemetry: a request of OTLP/HTTP in JSON a "
     "line\n"
     "            tensorboard  event files of all curves: a folder for each run in --out FOLDER, "
     "with\n"
     "                  one for each rank and node in it\n"
     "  --curve   loss, accuracy, samples_per_second, rank/0/step, …; `history show --json` lists "
     "them\n"
     "  --axis    what a curve is over: step, time, samples or tokens\n"
     "  --out     the file, whose ending is the format where --format is left out",
     historyExportCommand},
    {"history check",
     {{"json"}, 0, 1, "history check [RUN] [--json]"},
     "Checks the history files. Damaged files are renamed, the list of runs is rebuilt from the "
     "files of\nthe runs, and damaged runs are read again from their nodes if these can be "
     "reached.",
     historyCheckCommand},
    {"history delete",
     {{"force"}, 1, 1, "history delete RUN [--force]"},
     "Deletes a run from the history.\n"
     "  --force     even if the run has not ended, for example because its nodes are gone",
     historyDeleteCommand},
    {"tokenize",
     {{"vocabulary=", "merges=", "to=", "end-of-text=", "json"},
      1,
      100000,
      "tokenize TEXT… --vocabulary FILE --merges FILE --to FILE.npy [--end-of-text TOKEN] "
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
    {"cluster hosts",
     {{"json"}, 0, 0, "cluster hosts [--json]"},
     "Lists the hosts that the SSH configuration names, for `lockstep cluster add`.",
     clusterHostsCommand},
    {"cluster import",
     {{"name=", "to=", "json"}, 1, 1, "cluster import FILE|- [--name NAME] [--to FILE] [--json]"},
     "Makes a cluster spec of a hostfile (MPI, DeepSpeed) or of TensorFlow's TF_CONFIG, and prints "
     "it.\n"
     "  -       reads it from stdin: echo \"$TF_CONFIG\" | lockstep cluster import -\n"
     "  --name  of the cluster (default: the file's)\n"
     "  --to    a new file that it goes to",
     clusterImportCommand},
    {"cluster add",
     {{"name=", "address=", "user=", "port=", "identity=", "workdir=", "device=", "ranks=", "json"},
      1,
      4096,
      "cluster add FILE [HOST…] [--name NAME] [--address ADDRESS] [--user USER] [--port N]\n"
      "            [--identity FILE] [--workdir FOLDER] [--device cpu|cuda] [--ranks N] [--json]"},
     "Adds nodes to a cluster spec; comments in it stay. FILE is made where there is none.\n"
     "  HOST        a Host of the SSH configuration, a name, an address, or user@host; without "
     "one, this\n"
     "              machine under --name\n"
     "  --name      of the node (default: the host's first part)\n"
     "  --address   where the other nodes reach it, where that is another\n"
     "  --user, --port, --identity  of SSH, where the SSH configuration has none\n"
     "  --workdir   on the node (default: ~/.lockstep)\n"
     "  --device    what ranks compute on: cpu (default) or cuda, a GPU each\n"
     "  --ranks     of each node (default 1)",
     clusterAddCommand},
    {"cluster remove",
     {{"json"}, 2, 4096, "cluster remove FILE NODE… [--json]"},
     "Takes nodes out of a cluster spec.",
     clusterRemoveCommand},
    {"cluster check",
     {{"json"}, 1, 1, "cluster check FILE [--json]"},
     "Connects to every node and prints its hardware and software, and whether the nodes reach "
     "each "
     "other.\n"
     "Copies nothing to nodes.",
     clusterCheckCommand},
    {"cluster deploy",
     {{"start=", "json"}, 1, 1, "cluster deploy FILE [--start HOW] [--json]"},
     "Installs Lockstep on every node and starts its agent.\n"
     "  --start HOW   how each node's agent starts, now and later: detached (at first), systemd "
     "(a\n"
     "                unit of the account's systemd, which must linger), or auto (systemd where\n"
     "                that works)",
     clusterDeployCommand},
    {"cluster load",
     {{"local=", "every=", "json"}, 0, 1, "cluster load FILE | --local N [--every S] [--json]"},
     "Prints the load of every node: processors, memory, network, disk, GPUs. The agent is "
     "deployed "
     "where\n"
     "it is missing.\n"
     "  --local  the agents of this machine instead of a cluster\n"
     "  --every  again every S seconds, until Ctrl-C",
     clusterLoadCommand},
    {"cluster script",
     {{}, 1, 1, "cluster script FILE"},
     "Prints what a run on a cluster with a placement submits: the batch script of Slurm, or the\n"
     "objects of Kubernetes as JSON, for `kubectl create -f`, whose job has the number 0.",
     clusterScriptCommand},
    {"cluster preflight",
     {{"local=", "seconds=", "json"},
      0,
      1,
      "cluster preflight FILE | --local N [--seconds S] [--json]"},
     "Measures a cluster before a run: matrix products, memory and disk writes of each node, free "
     "disk,\n"
     "clocks; matrix products, memory and PCIe lanes of each GPU; bandwidth and round trip between "
     "each\n"
     "two nodes, and all-reduce over all. Compares with earlier results on the cluster, the first "
     "time\n"
     "with the other nodes, GPUs and links; exit 1 if something is weak. Warns where the agent, "
     "kernel,\n"
     "GPU driver, CUDA or NCCL of a node differs from that of the others.\n"
     "  --local     the agents of this machine instead of a cluster\n"
     "  --seconds   of each measurement (default 0.5)",
     clusterPreflightCommand},
    {"gc",
     {{"local=", "node=", "older-than=", "dry-run", "json"},
      0,
      1,
      "gc FILE | --local N [--node NAME]… [--older-than DAYS] [--dry-run] [--json]"},
     "Lists what the nodes of a cluster keep, and removes the runs that were deleted from this "
     "history.\n"
     "  --local       the agents of this machine instead of a cluster\n"
     "  --node        only these nodes\n"
     "  --older-than  also removes runs that ended, and data that was last used, more than DAYS "
     "days ago.\n"
     "                Includes runs that are not listed in this history: another person or "
     "computer "
     "may\n"
     "                have launched them with the same account\n"
     "  --dry-run     removes nothing\n"
     "Runs under way, and what they use, always stay.",
     gcCommand},
    {"open",
     {{}, 0, 64, "open [LINK | FILE]…"},
     "Opens the studio: at the place of a link, which its command \"Copy link to this place\" "
     "makes, "
     "or with\nfiles.",
     openCommand},
    {"debug stacks",
     {{"json"}, 2, 2, "debug stacks RUN RANK [--json]"},
     "Prints the stacks of all threads of a rank that trains, with symbols.\n"
     "Each thread is stopped while its own stack is read, usually for less than a millisecond.",
     debugStacksCommand},
    {"debug processes",
     {{"local=", "seconds=", "limit=", "json"},
      0,
      2,
      "debug processes RUN|FILE|--local N [NODE] [--seconds S] [--limit N] [--json]"},
     "Lists the busiest processes of the nodes of a run or cluster, and those of Lockstep.\n"
     "  --local    the agents of this machine\n"
     "  --seconds  the interval that the CPU share is measured over (default 1)\n"
     "  --limit    number of processes besides Lockstep's (default 30)",
     debugProcessesCommand},
    {"debug kernel",
     {{"local=", "lines=", "json"},
      0,
      2,
      "debug kernel RUN|FILE|--local N [NODE] [--lines N] [--json]"},
     "Prints the newest messages of the kernels of the nodes.\n"
     "  --local  the agents of this machine\n"
     "  --lines  number of messages (default 200)",
     debugKernelCommand},
    {"debug bench",
     {{"local=", "seconds=", "json"},
      1,
      2,
      "debug bench RUN|FILE|--local N NODE [--seconds S] [--json]"},
     "Measures matrix products of the processor, memory and disk writes of a node beside the other "
     "nodes of\n"
     "the run or cluster, all at once. Training on them is slowed meanwhile. Exit 1 if the node is "
     "weaker\n"
     "than the others.\n"
     "  --local    the agents of this machine\n"
     "  --seconds  of each measurement (default 0.5)",
     debugBenchCommand},
    {"debug gdb",
     {{"wait=", "json"}, 2, 2, "debug gdb RUN RANK [--wait S] [--json]"},
     "Lets a debugger attach to a rank: prints the command of GDB to run on this machine.\n"
     "Training stands still while the debugger holds the rank; it goes on when the debugger "
     "leaves, "
     "and\n"
     "when this command ends. The node needs gdbserver.\n"
     "  --wait  seconds to wait for the debugger (default 600)",
     debugGdbCommand},
    {"debug terminal",
     {{"local=", "print", "json"},
      1,
      2,
      "debug terminal RUN|FILE|--local N NODE [--print] [--json]"},
     "Opens a shell on a node, with the SSH options of the cluster.\n"
     "  --print  prints the command instead",
     debugTerminalCommand},
    {"alerts",
     {{"markdown", "json"}, 0, 0, "alerts [--markdown | --json]"},
     "Lists the alert rules of runs with their thresholds, and what their actions are.",
     alertsCommand},
    {"alerts set",
     {{"defaults", "json"}, 0, 64, "alerts set [--defaults] [RULE.FIELD=VALUE]… [--json]"},
     "Changes alert rules. Fields are enabled, threshold, window, hold and actions.\n"
     "  --defaults  restores the defaults first\n"
     "  loss-spike.threshold=6 loss-plateau.enabled=true gpu-temperature.actions=command,webhook\n"
     "  actions.command='PROGRAM ARGUMENT…'  runs a program with the alert as a line of JSON on "
     "its "
     "stdin\n"
     "  actions.webhook=https://HOST/PATH    posts the same JSON\n"
     "  actions.notification=false           no desktop notifications from the studio",
     alertsSetCommand},
    {"alerts test",
     {{"json"}, 1, 1, "alerts test RULE [--json]"},
     "Runs the command and calls the webhook of a rule with a test alert.",
     alertsTestCommand},
    {"bench train",
     {{"model=", "batch=", "ranks=", "threads=", "seconds=", "comm=", "set=", "profile=",
       "communication", "json"},
      0,
      0,
      "bench train [--model SPEC] [--batch B] [--ranks N] [--threads T] [--seconds S]\n"
      "             [--comm KIND] [--set path=value]… [--profile FILE | --communication] "
      "[--json]"},
     "Measures training speed on this machine: samples per second, milliseconds per op.\n"
     "  --profile   writes one step of all ranks as a Chrome trace, and prints the time of each "
     "kind "
     "of op\n"
     "              beside the machine's peak, measured in the same run\n"
     "  --communication\n"
     "              measures the cost of communication: steps as planned, with barriers instead "
     "of "
     "collectives,\n"
     "              and without either, interleaved on the same ranks\n"
     "  --model     a run spec, or an example: fashion-mlp, fashion-cnn, fashion-resnet",
     benchTrainCommand},
    {"bench collective",
     {{"ranks=", "comm=", "min=", "max=", "seconds=", "algorithm=", "json"},
      0,
      7,
      "bench collective [KIND…] [--ranks N] [--comm KIND] [--min BYTES] [--max BYTES] [--seconds "
      "S]\n"
      "                 [--algorithm NAME] [--json]"},
     "Measures collectives between ranks on this machine, by size. As in nccl-tests, algbw is "
     "size "
     "over median\n"
     "time, and busbw the bandwidth of each link.\n"
     "  KIND         all-reduce, reduce-scatter, all-gather, broadcast, all-to-all, send-recv, "
     "barrier;\n"
     "               default: all\n"
     "  --comm       shm or gloo\n"
     "  --min --max  smallest and largest size, from 4KiB to 64MiB in factors of 4\n"
     "  --seconds    total time (default 5)\n"
     "  --algorithm  all-reduce algorithm: direct, ring, halving-doubling or tree",
     benchCollectiveCommand},
    {"bench gemm",
     {{"threads=", "backend=", "min=", "max=", "seconds=", "json"},
      0,
      4,
      "bench gemm [PRECISION…] [--threads T] [--backend KIND] [--min SIDE] [--max SIDE] "
      "[--seconds S] [--json]"},
     "Measures matmuls of square matrices on this machine, by size.\n"
     "  PRECISION    of the operands: fp32, tf32, bf16, fp16; default: fp32 and bf16\n"
     "  --backend    onednn, reference or cuda\n"
     "  --min --max  smallest and largest side, from 128 to 2048 in factors of 2\n"
     "  --seconds    total time (default 5)",
     benchGemmCommand},
    {"bench memory",
     {{"threads=", "backend=", "min=", "max=", "seconds=", "json"},
      0,
      0,
      "bench memory [--threads T] [--backend KIND] [--min BYTES] [--max BYTES] [--seconds S] "
      "[--json]"},
     "Measures memory bandwidth on this machine: reading, scaling and summing arrays of floats, "
     "by "
     "size.\n"
     "  --backend    onednn, reference or cuda\n"
     "  --min --max  smallest and largest size, from 16KiB to 64MiB in factors of 2\n"
     "  --seconds    total time (default 5)",
     benchMemoryCommand},
    {"new",
     {{"name=", "data=", "json"}, 0, 2, "new [KIND FILE [--name NAME] [--data FILE]] [--json]"},
     "Writes a complete run spec to start from, FILE.yaml; without a kind, lists the kinds.\n"
     "  --name  of the model (default: the file's)\n"
     "  --data  the text of gpt, or the table of ctr, to train on; as seen from FILE's folder",
     newCommand},
    {"layers",
     {{"ranks=", "json"}, 1, 1, "layers SPEC [--ranks N] [--json]"},
     "Lists the layers of a model: inputs, output shape, parameters, and FLOP and memory for one "
     "sample.\n"
     "  SPEC     a run spec, or the name of an example\n"
     "  --ranks  as planned on so many ranks: stage and state of each layer on a rank",
     layersCommand},
    {"options",
     {{"cluster", "paths", "markdown", "json"},
      0,
      1,
      "options [TEXT] [--cluster] [--paths | --markdown | --json]"},
     "Lists the options of a run spec with values and defaults; with TEXT those that mention it.\n"
     "  --cluster   the options of a cluster spec",
     optionsCommand},
    {"completion",
     {{}, 1, 100000, "completion bash|zsh|fish | words -- [WORD]…"},
     "Prints a script for a shell that completes commands, flags, options, examples and runs:\n"
     "  bash  source <(lockstep completion bash)\n"
     "  zsh   source <(lockstep completion zsh)\n"
     "  fish  lockstep completion fish | source\n"
     "The scripts ask for what can follow with `lockstep completion words`.",
     completionCommand},
    {"manual", {{}, 0, 0, "manual"}, "Prints the manual page lockstep(1).", manualCommand},
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
    {"doctor",
     {{"json"}, 0, 0, "doctor [--json]"},
     "Checks this machine for what Lockstep needs, and says how to fix what is missing.",
     doctorCommand},
};

int completionCommand(const Globals& globals, const Arguments& arguments) {
  return complete(kCommands, globals, arguments);
}

int manualCommand(const Globals&, const Arguments&) {
  put(stdout, manualPage(kCommands, LOCKSTEP_VERSION));
  return kSucceeded;
}

void printUsage(std::FILE* to) {
  std::string text = "lockstep trains neural networks on a cluster.\n\nusage:\n";
  for (const Command& command : kCommands)
    text += fmt::format("  lockstep {}\n", command.grammar.usage);
  text += fmt::format("\nalways:\n{}\nlockstep COMMAND --help prints the help of a command.\n",
                      kGlobalHelp);
  put(to, text);
}

void printGroupUsage(const std::string& word) {
  std::string text = "usage:\n";
  for (const Command& command : kCommands)
    if (command.name == word) text += fmt::format("  lockstep {}\n", command.grammar.usage);
  for (const Command* command : groupOf(kCommands, word))
    text += fmt::format("  lockstep {}\n", command->grammar.usage);
  put(stdout,
      fmt::format("{}\nalways:\n{}\nlockstep {} COMMAND --help prints the help of a command.\n",
                  text, kGlobalHelp, word));
}

Error unknownCommand(const std::vector<std::string>& words) {
  const bool alone = words.size() < 2 || words[1].starts_with("-");
  const std::vector<const Command*> group = groupOf(kCommands, words[0]);
  if (group.empty()) {
    Error error = invalidArgument("unknown command {}", words[0]);
    error.next = "lockstep --help lists the commands";
    return error;
  }
  std::vector<std::string_view> names;
  for (const Command* command : group) names.push_back(command->name.substr(words[0].size() + 1));
  Error error = alone ? invalidArgument("lockstep {} needs a command", words[0])
                      : invalidArgument("lockstep {} has no command {}", words[0], words[1]);
  error.next =
      message("expected {}; lockstep {} --help says more", fmt::join(names, ", "), words[0]);
  return error;
}

std::string version() {
  std::string out = "lockstep " LOCKSTEP_VERSION;
  if (const auto folder = findBundle(); folder.ok())
    if (const auto bundle = readBundle(*folder); bundle.ok())
      out += fmt::format(" (agents {})", bundle->version.substr(0, 12));
  return out;
}

// Global flags may stand anywhere before "--"; the rest belongs to the command.
struct Line {
  std::vector<std::string> words;
  std::string home, sshConfig;
  std::vector<std::string> hostKeys;
  bool help = false, version = false, json = false;
};
Result<Line> parseLine(const std::vector<std::string>& all) {
  Line out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& word = all[i];
    if (word == "--") {
      out.words.insert(out.words.end(), all.begin() + static_cast<std::ptrdiff_t>(i), all.end());
      break;
    }
    const std::string name = word.substr(0, word.find('='));
    if (name == "--home" || name == "--ssh-config" || name == "--accept-host-key") {
      std::string value;
      if (name.size() < word.size())
        value = word.substr(name.size() + 1);
      else if (i + 1 < all.size())
        value = all[++i];
      else
        return invalidArgument("{} needs a value", name);
      if (value.empty()) return invalidArgument("{} is empty", name);
      if (name == "--home") out.home = value;
      if (name == "--ssh-config") out.sshConfig = absolutePath(value, {});
      if (name == "--accept-host-key") {
        if (!value.starts_with("SHA256:"))
          return invalidArgument("--accept-host-key {}: a fingerprint SHA256:… was expected",
                                 value);
        out.hostKeys.push_back(value);
      }
    } else if (word == "--help" || word == "-h") {
      out.help = true;
    } else if (word == "--version") {
      out.version = true;
    } else {
      out.json = out.json || word == "--json";
      out.words.push_back(word);
    }
  }
  return out;
}

// Reports an invalid command line; with --json, followed by the "finished" line that ends every
// run.
int refuse(const Error& error, bool json, bool tellsRun) {
  report(error, json);
  if (json && tellsRun) {
    JsonLine line("finished");
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    line.add("status", "failed").add("steps", 0).add("epochs", 0).add("train_loss", unknown);
    line.add("eval_loss", unknown).add("eval_accuracy", unknown);
    line.add("samples_per_second", unknown).add("weights_sha256", "").print();
  }
  return kBadInput;
}

int main(const std::vector<std::string>& all) {
  auto line = parseLine(all);
  const bool wantsJson = std::find(all.begin(), all.end(), "--json") != all.end();
  if (!line.ok()) return refuse(line.error(), wantsJson, false);
  if (line->version) {
    put(stdout, version() + "\n");
    return kSucceeded;
  }
  if (!line->words.empty() && line->words[0] == "help") {  // help run: as run --help
    line->help = true;
    line->words.erase(line->words.begin());
  }
  if (line->words.empty()) {
    printUsage(line->help ? stdout : stderr);
    return line->help ? kSucceeded : kBadInput;
  }
  const bool groupAlone =
      std::all_of(line->words.begin() + 1, line->words.end(),
                  [](const std::string& word) { return word.starts_with("-"); });
  if (line->help && groupAlone && !groupOf(kCommands, line->words[0]).empty()) {
    printGroupUsage(line->words[0]);
    return kSucceeded;
  }
  std::vector<std::string> words = line->words;
  const Command* command = findCommand(kCommands, words);
  if (command == nullptr) return refuse(unknownCommand(line->words), line->json, false);
  if (line->help) {
    put(stdout, fmt::format("usage: lockstep {}\n\n{}\n\nalways:\n{}", command->grammar.usage,
                            command->help, kGlobalHelp));
    return kSucceeded;
  }
  const bool tellsRun = command->run == runCommand || command->run == attachCommand;
  const auto arguments = Arguments::parse(words, command->grammar);
  if (!arguments.ok()) return refuse(arguments.error(), line->json, tellsRun);
  auto home = openHome(line->home);
  if (!home.ok()) {
    refuse(home.error(), line->json, tellsRun);
    return kNode;
  }
  return command->run({std::move(*home), line->sshConfig, line->hostKeys}, *arguments);
}

}  // namespace
}  // namespace lockstep::app::cli

int main(int argc, char** argv) {
  using namespace lockstep::app::cli;
  const int code = lockstep::app::cli::main(std::vector<std::string>(argv + 1, argv + argc));
  const lockstep::Status written = outputStatus();
  if (written.ok()) return code;
  report(written.error(), false);  // stdout takes nothing
  return code == kSucceeded ? exitCodeOf(written.error()) : code;
}
