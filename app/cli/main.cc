// lockstep, the command line: main(), the flags that every command has, and usage.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "app/cli/command_help.h"
#include "app/cli/command_table.h"
#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/deploy/bundle.h"

namespace lockstep::app::cli {
namespace {

void printUsage(std::FILE* to) {
  std::string text = "lockstep trains neural networks on a cluster.\n\nusage:\n";
  for (const Command& command : allCommands())
    text += fmt::format("  lockstep {}\n", command.grammar.usage);
  text += fmt::format("\nalways:\n{}\nlockstep COMMAND --help prints the help of a command.\n",
                      kGlobalHelp);
  put(to, text);
}

void printGroupUsage(const std::string& word) {
  std::string text = "usage:\n";
  for (const Command& command : allCommands())
    if (command.name == word) text += fmt::format("  lockstep {}\n", command.grammar.usage);
  for (const Command* command : groupOf(allCommands(), word))
    text += fmt::format("  lockstep {}\n", command->grammar.usage);
  put(stdout,
      fmt::format("{}\nalways:\n{}\nlockstep {} COMMAND --help prints the help of a command.\n",
                  text, kGlobalHelp, word));
}

Error unknownCommand(const std::vector<std::string>& words) {
  const bool alone = words.size() < 2 || words[1].starts_with("-");
  const std::vector<const Command*> group = groupOf(allCommands(), words[0]);
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
  if (line->help && groupAlone && !groupOf(allCommands(), line->words[0]).empty()) {
    printGroupUsage(line->words[0]);
    return kSucceeded;
  }
  std::vector<std::string> words = line->words;
  const Command* command = findCommand(allCommands(), words);
  if (command == nullptr) return refuse(unknownCommand(line->words), line->json, false);
  if (line->help) {
    put(stdout, fmt::format("usage: lockstep {}\n\n{}\n\nalways:\n{}", command->grammar.usage,
                            command->help, kGlobalHelp));
    return kSucceeded;
  }
  const auto tells = {runCommand, rerunCommand, resumeCommand, attachCommand};
  const bool tellsRun = std::find(tells.begin(), tells.end(), command->run) != tells.end();
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
