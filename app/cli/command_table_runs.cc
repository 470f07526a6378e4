// Commands that launch, follow, look into and end runs, and alert rules: names, flags and help.
#include "app/cli/command_table.h"
#include "app/cli/commands.h"

namespace lockstep::app::cli {

const std::vector<Command> kRunCommands{
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
     "it; if there is none, the remaining nodes divide the batch. A program of the user's own is "
     "started again\n"
     "at once, without a checkpoint.",
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
     "Asks a run to take a checkpoint now, and to restart all its ranks from it. A program of the "
     "user's own is\n"
     "started again at once: it takes no checkpoint.",
     restartCommand},
    {"profile",
     {{"steps=", "json"}, 1, 1, "profile RUN [--steps N] [--json]"},
     "Records all events of the run's next steps (20, at most 200), for the timeline.",
     profileCommand},
    {"steps",
     {{"last=", "json"}, 1, 1, "steps RUN [--last N] [--json]"},
     "Shows how long each rank took for the steps of a run, as the studio's heat map does: means, "
     "and own\n"
     "time over the steps; with the clocks of GPUs, where they are known. --json: every step, or "
     "the\n"
     "longest of several, and the lowest clock, where there are many.\n"
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
};

const std::vector<Command> kAlertCommands{
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
};

}  // namespace lockstep::app::cli
