// Commands on the history of runs: names, flags and help.
#include "app/cli/command_table.h"
#include "app/cli/commands.h"

namespace lockstep::app::cli {

const std::vector<Command> kHistoryCommands{
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
     "  tag:A,B -tag:X              one of several; not\n"
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
};

}  // namespace lockstep::app::cli
