#include "engine/base/arguments.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "engine/base/byte_size.h"
#include "engine/base/suggest.h"

namespace lockstep {
namespace {

template <typename T>
Result<T> parseNumber(std::string_view flag, const std::string& text, T low, T high) {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value >= low && value <= high))
    return invalidArgument("--{} {}: a number from {} to {} was expected", flag, text, low, high);
  return value;
}

// What a usage calls its word number `index`: SPEC, RUN|FILE or NODE, before the first option that
// can be left out.
std::string wordName(std::string_view usage, std::size_t index) {
  std::istringstream words{std::string(usage.substr(0, usage.find('[')))};
  bool isValue = false;  // of the option before
  for (std::string word; words >> word;) {
    const bool isOption = word.find("--") != std::string::npos;  // also RUN|--local
    const bool isName = std::any_of(word.begin(), word.end(),
                                    [](char c) { return (c >= 'A' && c <= 'Z') || c == '|'; });
    if (isName && !isOption && !isValue && index-- == 0) return word.substr(0, word.find("…"));
    isValue = isOption;
  }
  return "a word";
}

}  // namespace

Result<Arguments> Arguments::parse(const std::vector<std::string>& words, const Grammar& grammar,
                                   std::string_view program) {
  Arguments out;
  const auto usageError = [&](Message what) {
    Error error = makeError(Code::kInvalidArgument, "{}", what);
    error.next = message("usage: {} {}", program, grammar.usage);
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
      std::vector<std::string_view> names;
      for (const std::string_view flag : grammar.flags)
        names.push_back(flag.substr(0, flag.find('=')));
      const std::string near = nearest(name, names);
      return usageError(message("unknown option --{}{}", name,
                                near.empty() ? "" : message("; did you mean --{}?", near)));
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
    if (const auto given = out.values_.find(name);
        known->ends_with('=') && given->second.back().empty())
      return usageError(message("--{} is empty", name));
  }
  if (const std::size_t given = out.words_.size(); given < grammar.minWords)
    return usageError(message("{} is missing", wordName(grammar.usage, given)));
  if (out.words_.size() > grammar.maxWords)
    return usageError(message("\"{}\" is too much", out.words_[grammar.maxWords]));
  for (const std::string_view flag : grammar.required)
    if (!out.has(flag)) return usageError(message("--{} is missing", flag));
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
Result<std::int64_t> Arguments::byteSize(std::string_view flag, std::int64_t fallback,
                                         std::int64_t low, std::int64_t high) const {
  if (!has(flag)) return fallback;
  const std::string given = text(flag);
  const auto size = parseByteSize(given);
  if (!size || *size < low || *size > high)
    return invalidArgument("--{} {}: bytes from {} to {} were expected, as 65536 or 64MiB", flag,
                           given, low, high);
  return *size;
}
Result<double> Arguments::number(std::string_view flag, double fallback, double low,
                                 double high) const {
  if (!has(flag)) return fallback;
  return parseNumber(flag, text(flag), low, high);
}

}  // namespace lockstep
