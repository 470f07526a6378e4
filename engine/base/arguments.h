// Parses the arguments of a command: flags by name, words in order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep {

// The flags and words of a command. `flags` with a value end in '=': "cluster=", "json", "set=".
struct Grammar {
  std::vector<std::string_view> flags;
  std::size_t minWords = 0, maxWords = 0;
  std::string_view usage;                  // without the name of the program: "run SPEC [--json]"
  std::vector<std::string_view> required;  // of `flags`, without '='
};

class Arguments {
 public:
  // Errors: kInvalidArgument naming the flag, with a suggestion if one is close, and the usage. The
  // value of a flag may not be empty.
  static Result<Arguments> parse(const std::vector<std::string>& words, const Grammar& grammar,
                                 std::string_view program = "lockstep");

  bool has(std::string_view flag) const { return values_.contains(flag); }
  std::string text(std::string_view flag, std::string fallback = {}) const;  // the last one given
  std::vector<std::string> all(std::string_view flag) const;
  // kInvalidArgument if it is not a number in [low, high].
  Result<std::int64_t> integer(std::string_view flag, std::int64_t fallback, std::int64_t low,
                               std::int64_t high) const;
  // kInvalidArgument if it is not a size of parseByteSize() in [low, high].
  Result<std::int64_t> byteSize(std::string_view flag, std::int64_t fallback, std::int64_t low,
                                std::int64_t high) const;
  Result<double> number(std::string_view flag, double fallback, double low, double high) const;
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> words_;
};

}  // namespace lockstep
