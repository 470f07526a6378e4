// Commands that plan and predict, and those that help to write a run spec: names, flags and help.
#include "app/cli/command_table.h"
#include "app/cli/commands.h"

namespace lockstep::app::cli {

const std::vector<Command> kPlanCommands{
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
     "  --steps     number of steps compared (default 10; 100 where the strategy does not compute "
     "the same by design)",
     verifyCommand},
};

const std::vector<Command> kSpecCommands{
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
};

}  // namespace lockstep::app::cli
