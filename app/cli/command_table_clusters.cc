// Commands on clusters and their nodes, and those that debug on nodes: names, flags and help.
#include "app/cli/command_table.h"
#include "app/cli/commands.h"

namespace lockstep::app::cli {

const std::vector<Command> kClusterCommands{
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
    {"cluster set",
     {{"json"}, 1, 4096, "cluster set FILE [NODE] FIELD=VALUE… [--json]"},
     "Sets fields of a node, or of the cluster without NODE; comments in the file stay. An empty "
     "value\n"
     "leaves the field out. `lockstep options --cluster` lists the fields.\n"
     "  NODE   its name; of nodes in a range the range, as \"n[1-3]\"\n"
     "  FIELD  address, workdir, ssh.user, devices (VALUE is YAML: devices=\"[{kind: cuda, count: "
     "8}]\")",
     clusterSetCommand},
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
};

const std::vector<Command> kDebugCommands{
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
};

}  // namespace lockstep::app::cli
