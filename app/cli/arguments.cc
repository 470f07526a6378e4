#include "app/cli/arguments.h"

#include <algorithm>
#include <charconv>

namespace lockstep::app::cli {
namespace {

std::size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

template <typename T>
Result<T> parseNumber(std::string_view flag, const std::string& text, T low, T high) {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value >= low && value <= high))
    return invalidArgument("--{} {}: a number from {} to {} was expected", flag, text, low, high);
  return value;
}

// What a usage calls its word number `index`: those in capitals, SPEC or RUN, before the first
// option.
std::string_view wordName(std::string_view usage, std::size_t index) {
  for (usage = usage.substr(0, usage.find('[')); !usage.empty();) {
    const std::string_view word = usage.substr(0, usage.find(' '));
    usage.remove_prefix(std::min(usage.size(), word.size() + 1));
    const bool capitals = !word.empty() && std::all_of(word.begin(), word.end(),
                                                       [](char c) { return c >= 'A' && c <= 'Z'; });
    if (capitals && index-- == 0) return word;
  }
  return "a word";
}

}  // namespace

Result<Arguments> Arguments::parse(const std::vector<std::string>& words, const Grammar& grammar) {
  Arguments out;
  const auto usageError = [&](Message what) {
    Error error = makeError(Code::kInvalidArgument, "{}", what);
    error.next = message("usage: lockstep {}", grammar.usage);
    return error;
  };
  bool flagsEnded = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (flagsEnded || !word.starts_with("--")) {
      out.words_.push_back(word);
      continue;
    }
    if (word == "--") {
      flagsEnded = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto known = std::find_if(grammar.flags.begin(), grammar.flags.end(),
                                    [&](auto flag) { return flag == name || flag == name + "="; });
    if (known == grammar.flags.end()) {
      std::string_view nearest;
      std::size_t best = 3;
      for (std::string_view flag : grammar.flags) {
        flag = flag.substr(0, flag.find('='));
        if (const std::size_t distance = editDistance(flag, name); distance < best) {
          best = distance;
          nearest = flag;
        }
      }
      return usageError(message("unknown option --{}{}", name,
                                nearest.empty() ? "" : message("; did you mean --{}?", nearest)));
    }
    if (!known->ends_with('=')) {
      if (equals != std::string::npos) return usageError(message("--{} takes no value", name));
      out.values_[name];
    } else if (equals != std::string::npos) {
      out.values_[name].push_back(word.substr(equals + 1));
    } else if (i + 1 < words.size()) {
      out.values_[name].push_back(words[++i]);
    } else {
      return usageError(message("--{} needs a value", name));
    }
  }
  if (const std::size_t given = out.words_.size(); given < grammar.minWords)
    return usageError(message("{} is missing", wordName(grammar.usage, given)));
  if (out.words_.size() > grammar.maxWords)
    return usageError(message("\"{}\" is too much", out.words_[grammar.maxWords]));
  return out;
}

std::string Arguments::text(std::string_view flag, std::string fallback) const {
  const auto found = values_.find(flag);
  return found == values_.end() || found->second.empty() ? fallback : found->second.back();
}
std::vector<std::string> Arguments::all(std::string_view flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::vector<std::string>() : found->second;
}
Result<std::int64_t> Arguments::integer(std::string_view flag, std::int64_t fallback,
                                        std::int64_t low, std::int64_t high) const {
  if (!has(flag)) return fallback;
  return parseNumber(flag, text(flag), low, high);
}
Result<double> Arguments::number(std::string_view flag, double fallback, double low,
                                 double high) const {
  if (!has(flag)) return fallback;
  return parseNumber(flag, text(flag), low, high);
}

}  // namespace lockstep::app::cli
