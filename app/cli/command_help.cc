#include "app/cli/command_help.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

namespace lockstep::app::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(' ');
  return from == std::string_view::npos ? std::string_view() : text.substr(from);
}

// "json  everything" is a line of a list, "everything that" goes on with the line before.
bool beginsItem(std::string_view text) {
  const std::size_t gap = text.find("  ");
  return gap != std::string_view::npos &&
         text.find_first_not_of(' ', gap) != std::string_view::npos;
}

// The words of a usage after the command's name; '|' is a word of its own.
std::vector<std::string> usageWords(const Command& command) {
  std::string text(command.grammar.usage.substr(command.name.size()));
  for (const std::string_view dropped : {"[", "]", "…"})
    for (std::size_t at; (at = text.find(dropped)) != std::string::npos;)
      text.erase(at, dropped.size());
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 3)
    text.replace(at, 1, " | ");
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

}  // namespace

std::string HelpBlock::text() const { return fmt::format("{}", fmt::join(lines, " ")); }

std::vector<HelpBlock> helpBlocks(std::string_view help) {
  std::vector<HelpBlock> out;
  std::istringstream stream{std::string(help)};
  for (std::string line; std::getline(stream, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) continue;
    const std::string_view content = trimmed(line);
    if (indent == 2) {
      const std::size_t gap = content.find("  ");
      HelpBlock& block = out.emplace_back();
      block.term = content.substr(0, gap);
      if (gap != std::string_view::npos) block.lines.emplace_back(trimmed(content.substr(gap)));
    } else if (indent > 2 && !out.empty()) {
      std::vector<std::string>& lines = out.back().lines;
      if (lines.empty() || beginsItem(content))
        lines.emplace_back(content);
      else
        lines.back() += fmt::format(" {}", content);
    } else {
      if (out.empty() || !out.back().term.empty()) out.emplace_back();
      std::vector<std::string>& lines = out.back().lines;
      if (lines.empty())
        lines.emplace_back(content);
      else
        lines.back() += fmt::format(" {}", content);
    }
  }
  return out;
}

UsageParts usageParts(const Command& command) {
  UsageParts out;
  const auto takesValue = [&](const std::string& flag) {
    const std::string name = flag.substr(2) + "=";
    const auto& flags = command.grammar.flags;
    return std::find(flags.begin(), flags.end(), name) != flags.end();
  };
  std::vector<std::string>* place = nullptr;  // of the word before
  std::string flag;                           // that the next word is a value of
  bool other = false;                         // after '|'
  for (std::string& word : usageWords(command)) {
    if (word == "|") {
      other = true;
      continue;
    }
    if (word.starts_with("--")) {
      place = nullptr;
      flag = takesValue(word) ? word : std::string();
    } else {
      if (!flag.empty())
        place = &out.flags[flag];
      else if (!other || place == nullptr)
        place = &out.words.emplace_back();
      place->push_back(std::move(word));
      flag.clear();
    }
    other = false;
  }
  return out;
}

std::vector<const Command*> groupOf(std::span<const Command> commands, std::string_view word) {
  const std::string begin = fmt::format("{} ", word);
  std::vector<const Command*> out;
  for (const Command& command : commands)
    if (command.name.starts_with(begin)) out.push_back(&command);
  return out;
}

const Command* findCommand(std::span<const Command> commands, std::vector<std::string>& words) {
  const Command* found = nullptr;
  std::size_t taken = 0;
  for (const Command& command : commands) {
    const std::size_t space = command.name.find(' ');
    const bool two = space != std::string_view::npos;
    if (words.size() < (two ? 2u : 1u) || words[0] != command.name.substr(0, space)) continue;
    if (two && words[1] != command.name.substr(space + 1)) continue;
    found = &command;
    taken = two ? 2 : 1;
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(taken));
  return found;
}

}  // namespace lockstep::app::cli
