// Commands that measure this machine: names, flags and help.
#include "app/cli/command_table.h"
#include "app/cli/commands.h"

namespace lockstep::app::cli {

const std::vector<Command> kBenchCommands{
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
};

}  // namespace lockstep::app::cli
