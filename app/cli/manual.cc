// `lockstep manual`: the manual page, in the macros of man(7), from the table of commands.
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "app/cli/command_help.h"
#include "app/cli/commands.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

constexpr std::string_view kBegin = R"(.SH NAME
lockstep \- train neural networks on a cluster
.SH SYNOPSIS
.B lockstep
.I COMMAND
[\fIARGUMENT\fR]\&.\|.\|.
.SH DESCRIPTION
Plans, launches and follows training runs on the machines of a cluster, which it reaches over SSH, or
on agents on this machine.
A run goes on when the command that follows it ends.
.PP
A
.I SPEC
is the YAML file of a run, or the name of an example in
.IR /usr/share/lockstep/examples ;
.B lockstep options
lists what it can set.
A
.I RUN
is the id of a run, its beginning, or
.B last
for the newest run.
)";

constexpr std::string_view kEnd = R"(.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
The run failed.
.TP
.B 2
The command line or a file is wrong.
.TP
.B 3
A node or this machine lacks what is needed.
.TP
.B 130
Stopped by Ctrl-C.
.SH ENVIRONMENT
.TP
.B LOCKSTEP_HOME
Folder of the run history and of local agents.
.TP
.B LOCKSTEP_EXAMPLES
Folder of example specs.
.TP
.B LOCKSTEP_BUNDLE
Folder of the agent and its libraries, which is copied to nodes.
.TP
.B NO_COLOR
No colours.
.SH FILES
.TP
.I ~/.local/share/lockstep
The home folder, unless
.B \-\-home
or
.B LOCKSTEP_HOME
names another.
.TP
.I ~/.lockstep
On a node: the agent, data and runs.
.TP
.I /usr/share/lockstep/examples
Specs of runs and clusters.
.SH EXAMPLES
.nf
lockstep run fashion\-cnn \-\-local 3
lockstep cluster check lab.yaml
lockstep plan fashion\-cnn \-\-cluster lab.yaml \-\-set strategy.kind=zero\-3
.fi
.SH SEE ALSO
.BR lockstep\-studio (1),
.BR lockstep\-agent (1)
)";

// What is a command of roff stands as text.
std::string escaped(std::string_view text) {
  std::string out;
  bool begins = true;  // a line
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

std::string blocksText(std::string_view help) {
  std::string out;
  for (const HelpBlock& block : helpBlocks(help)) {
    out += block.term.empty() ? ".PP\n" : fmt::format(".TP\n\\fB{}\\fR\n", escaped(block.term));
    for (std::size_t i = 0; i < block.lines.size(); ++i)
      out += (i > 0 ? ".br\n" : "") + escaped(block.lines[i]) + "\n";
  }
  return out;
}

// A usage that breaks between what stands in brackets, not within.
std::string usageText(std::string_view usage) {
  std::string out;
  int depth = 0;
  for (const char c : escaped(usage)) {
    if (c == '\n') continue;  // blanks follow
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    const bool blank = c == ' ';
    if (blank && depth == 0 && out.ends_with(' ')) continue;
    out += blank && depth > 0 ? "\\ " : std::string(1, c);
  }
  return out;
}

std::string commandText(const Command& command) {
  return fmt::format(".SS {}\n.ad l\n.HP 4\nlockstep {}\n.ad b\n{}", escaped(command.name),
                     usageText(command.grammar.usage), blocksText(command.help));
}

}  // namespace

std::string manualPage(std::span<const Command> commands, std::string_view version) {
  std::string out = fmt::format(".TH LOCKSTEP 1 \"\" \"Lockstep {}\" \"User Commands\"\n", version);
  out += kBegin;
  out += ".SH OPTIONS\nof every command:\n" + blocksText(kGlobalHelp);
  out += ".SH COMMANDS\n";
  for (const Command& command : commands) out += commandText(command);
  out += kEnd;
  return out;
}

}  // namespace lockstep::app::cli
