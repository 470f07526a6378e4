// The usage and help of a command in parts, for completion and the manual page.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/command.h"

namespace lockstep::app::cli {

// A paragraph (no term), or what a term such as "--set" or "--min --max" means.
struct HelpBlock {
  std::string term;
  std::vector<std::string> lines;  // those of a list within the block stand alone
  std::string text() const;        // the lines joined
};
// Splits help: a line without indentation belongs to a paragraph, two spaces begin a term, two more
// spaces end it, deeper lines go on.
std::vector<HelpBlock> helpBlocks(std::string_view help);

// What can stand where, as the usage names it: "RUN", "FILE", "train", "path=value".
struct UsageParts {
  std::vector<std::vector<std::string>> words;            // by position; the last one may repeat
  std::map<std::string, std::vector<std::string>> flags;  // by flag, "--set": its value
};
UsageParts usageParts(const Command& command);

// Returns the commands with two words that begin with this one: those of "cluster", "history".
std::vector<const Command*> groupOf(std::span<const Command> commands, std::string_view word);
// Returns the command that the words begin with, and removes its words; nullptr if there is none.
const Command* findCommand(std::span<const Command> commands, std::vector<std::string>& words);

}  // namespace lockstep::app::cli
