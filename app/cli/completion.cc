// `lockstep completion`: scripts for shells, and what can follow a command line, which they ask
// for.
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "app/advice/choice.h"
#include "app/alerts/alert_rules.h"
#include "app/cli/command_help.h"
#include "app/cli/commands.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

constexpr std::string_view kBash =
    R"bash(# Completion of lockstep in bash:  source <(lockstep completion bash)
_lockstep() {
  local line word current=${COMP_WORDS[COMP_CWORD]} i
  local -a before=()
  COMPREPLY=()
  # What bash has split at = and : is a word again, before the one that is being typed.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == [=:] ]] && ((${#before[@]} > 0 && i + 1 < COMP_CWORD)); then
      before[-1]+=$word${COMP_WORDS[++i]}
    else
      before+=("$word")
    fi
  done
  while IFS= read -r line; do
    word=${line%%$'\t'*}
    if [[ $word == :files ]]; then
      compopt -o filenames
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$current")
      continue
    fi
    [[ $word == *= ]] && compopt -o nospace
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]}" completion words -- "${before[@]}" "$current" 2>/dev/null)
}
complete -F _lockstep lockstep
)bash";

constexpr std::string_view kZsh =
    R"zsh(#compdef lockstep
# Completion of lockstep in zsh:  source <(lockstep completion zsh)
_lockstep() {
  local line word files
  local -a lines described open
  lines=("${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    word=${line%%$'\t'*}
    if [[ $word == :files ]]; then
      files=yes
    elif [[ $word == *= ]]; then
      open+=("$word")
    else
      described+=("${word//:/\\:}:${line#*$'\t'}")
    fi
  done
  (( $#described )) && _describe lockstep described
  (( $#open )) && compadd -S '' -- $open
  [[ -n $files ]] && _files
}
if [[ ${funcstack[1]} == _lockstep ]]; then
  _lockstep "$@"
else
  compdef _lockstep lockstep
fi
)zsh";

constexpr std::string_view kFish =
    R"fish(# Completion of lockstep in fish:  lockstep completion fish | source
function __lockstep_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] completion words -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c lockstep -f -a '(__lockstep_words)'
)fish";

constexpr int kMostRuns = 50;
constexpr std::string_view kFiles = ":files";

struct Candidate {
  std::string word, description;
};

std::string firstSentence(const std::string& text) {
  const std::size_t end = std::min(text.find(". "), text.find(": "));
  std::string out = text.substr(0, end);
  if (out.ends_with('.')) out.pop_back();
  return out;
}

void addRuns(const Globals& globals, std::vector<Candidate>& out) {
  const auto history = History::open(globals.home.historyFolder());
  if (!history.ok()) return;
  const auto rows = (*history)->list({}, kMostRuns);
  if (!rows.ok()) return;
  for (const RunRow& row : *rows)
    out.push_back({row.run, fmt::format("{}, {}", row.name, stateText(row))});
}

// Adds what a place of the usage stands for.
void addPlace(const Globals& globals, const std::string& place, std::vector<Candidate>& out) {
  if (place == "RUN") {
    addRuns(globals, out);
  } else if (place == "SPEC") {
    for (const std::string& name : exampleNames()) out.push_back({name, "example"});
    out.push_back({std::string(kFiles), {}});
  } else if (place.starts_with("FILE") || place == "DIR" || place == "LINK" || place == "SOURCE" ||
             place == "PREFIX") {
    out.push_back({std::string(kFiles), {}});
  } else if (place == "path=value") {
    for (const std::string& path : optionPaths(SpecKind::kRun))
      if (path.find("[]") == std::string::npos)  // needs the number of an item
        out.push_back({path + "=", {}});
  } else if (place == "OPTION=VALUE") {
    for (const std::string& path : searchedOptions()) out.push_back({path, {}});
  } else if (place == "RULE") {
    for (const AlertRuleInfo& rule : alertRuleTable())
      out.push_back({std::string(rule.name), rule.title.text()});
  } else if (std::islower(static_cast<unsigned char>(place[0])) != 0) {
    const std::size_t equals = place.find('=');  // the word itself, "csv"; of "ranks=N", "ranks="
    out.push_back({equals == std::string::npos ? place : place.substr(0, equals + 1), {}});
  }
}

void addGlobalFlags(std::vector<Candidate>& out) {
  for (const HelpBlock& block : helpBlocks(kGlobalHelp)) {
    std::string_view terms = block.term;
    for (std::size_t at; (at = terms.find("--")) != std::string_view::npos;) {
      terms.remove_prefix(at);
      out.push_back({std::string(terms.substr(0, terms.find_first_of(", "))), block.text()});
      terms.remove_prefix(2);
    }
  }
}

void addFlags(const Command& command, std::vector<Candidate>& out) {
  const std::vector<HelpBlock> blocks = helpBlocks(command.help);
  for (const std::string_view flag : command.grammar.flags) {
    const std::string word = fmt::format("--{}", flag.substr(0, flag.find('=')));
    const auto block = std::ranges::find_if(blocks, [&](const HelpBlock& one) {
      return fmt::format(" {} ", one.term).find(fmt::format(" {} ", word)) != std::string::npos;
    });
    out.push_back({word, block == blocks.end() ? std::string() : firstSentence(block->text())});
  }
  addGlobalFlags(out);
}

// Adds the commands at the first word, or those of a group at the second.
void addCommands(std::span<const Command> commands, const std::vector<std::string>& before,
                 std::vector<Candidate>& out) {
  for (const Command& command : commands) {
    const std::size_t space = command.name.find(' ');
    const bool two = space != std::string_view::npos;
    const std::string first(command.name.substr(0, space));
    const std::string help = firstSentence(helpBlocks(command.help).front().text());
    if (before.empty()) {
      if (!out.empty() && out.back().word == first) continue;
      out.push_back({first, groupOf(commands, first).empty() ? help : std::string()});
    } else if (two && before[0] == first) {
      out.push_back({std::string(command.name.substr(space + 1)), help});
    }
  }
}

// Adds what can follow the words of a command.
void addArguments(const Globals& globals, const Command& command,
                  const std::vector<std::string>& before, const std::string& current,
                  std::vector<Candidate>& out) {
  const UsageParts parts = usageParts(command);
  std::size_t position = 0;
  const std::vector<std::string>* value = nullptr;  // of the flag before
  for (const std::string& word : before) {
    const auto flag = parts.flags.find(word);
    if (value != nullptr)
      value = nullptr;
    else if (flag != parts.flags.end())
      value = &flag->second;
    else if (!word.starts_with("--"))
      ++position;
  }
  if (value == nullptr && current.starts_with("-")) return addFlags(command, out);
  if (value == nullptr && !parts.words.empty() && position < command.grammar.maxWords)
    value = &parts.words[std::min(position, parts.words.size() - 1)];
  if (value == nullptr) return;
  for (const std::string& place : *value) addPlace(globals, place, out);
}

// Removes flags that every command has. Returns whether the last one still needs a value.
bool dropGlobalFlags(std::vector<std::string>& words) {
  bool open = false;
  std::erase_if(words, [&](const std::string& word) {
    if (std::exchange(open, false)) return true;
    open = word == "--home" || word == "--ssh-config" || word == "--accept-host-key";
    return open || word.starts_with("--home=") || word.starts_with("--ssh-config=") ||
           word.starts_with("--accept-host-key=");
  });
  return open;
}

std::vector<Candidate> candidates(std::span<const Command> commands, const Globals& globals,
                                  std::vector<std::string> before, const std::string& current) {
  std::vector<Candidate> out;
  if (dropGlobalFlags(before)) return {{std::string(kFiles), {}}};
  const bool helps = !before.empty() && before[0] == "help";
  if (helps) before.erase(before.begin());
  if (before.size() <= 1 && !current.starts_with("-")) addCommands(commands, before, out);
  if (before.empty() && current.starts_with("-")) addGlobalFlags(out);
  if (helps) return out;
  if (before.empty() && !current.starts_with("-"))
    out.push_back({"help", "Prints the help of a command"});
  if (const Command* command = findCommand(commands, before))
    addArguments(globals, *command, before, current, out);
  return out;
}

// Prints what can follow, a line each: word, tab, description; ":files" where a file can.
void printWords(std::span<const Command> commands, const Globals& globals,
                std::vector<std::string> words) {
  const std::string current = words.empty() ? std::string() : words.back();
  if (!words.empty()) words.pop_back();
  std::string text;
  for (const Candidate& one : candidates(commands, globals, std::move(words), current))
    if (one.word.starts_with(current) || one.word == kFiles)
      text += one.word + (one.description.empty() ? "" : "\t" + one.description) + "\n";
  put(stdout, text);
}

}  // namespace

int complete(std::span<const Command> commands, const Globals& globals,
             const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  const std::string& what = words.front();
  if (what == "words") {
    printWords(commands, globals, {words.begin() + 1, words.end()});
    return kSucceeded;
  }
  const bool alone = words.size() == 1;
  if (alone && what == "bash")
    putRaw(stdout, kBash);
  else if (alone && what == "zsh")
    putRaw(stdout, kZsh);
  else if (alone && what == "fish")
    putRaw(stdout, kFish);
  else {
    report(alone ? invalidArgument("{} is no shell of bash, zsh and fish", what)
                 : invalidArgument("\"{}\" is too much", words[1]),
           false);
    return kBadInput;
  }
  return kSucceeded;
}

}  // namespace lockstep::app::cli
