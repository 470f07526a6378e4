// Lexer for the text forms of graphs and plans. Accepts arbitrary bytes. Errors: kInvalidArgument
// "file:line:column: what, expected …".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/ir/graph.h"

namespace lockstep::ir {

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  // All skip leading spaces and tabs; only skipLines() skips newlines.
  bool atEnd();      // of the text
  void skipLines();  // blank lines and lines that begin with '#'
  Status endLine();  // expects a newline or the end of the text
  bool peek(std::string_view token);
  bool take(std::string_view token);  // consumes the token if it is next
  Status expect(std::string_view token);
  Result<std::string> name(std::string_view what);    // as isName()
  Result<std::string> quoted(std::string_view what);  // "…" with \" \\ \n \t \xNN
  Result<std::int64_t> integer(std::string_view what, std::int64_t lowest, std::int64_t highest);
  Result<double> number(std::string_view what);                   // finite
  Result<std::vector<std::int64_t>> list(std::string_view what);  // [1 2 3], at most 2^20 elements
  // "… but here stands 'x'"
  Error unexpected(std::string_view expected);
  Error error(std::string_view message);  // at the last or the next token

 private:
  void skipSpaces();
  std::string found();

  std::string_view text_, file_;
  std::size_t at_ = 0, line_ = 1, lineBegin_ = 0;
};

std::string quote(std::string_view text);
std::string numberText(double number);  // shortest round-trip form, always with '.' or 'e'
std::string text(const std::vector<std::int64_t>& list);  // "[1 2 3]"
std::string text(const Attrs& attrs);                     // {key=value, …}; "{}" when empty
Result<Attrs> parseAttrs(Lexer& in);                      // from '{' to '}'
Result<TensorType> parseType(Lexer& in);  // f32[64x10], within the limits of checkShape
// Placement::text() in angle brackets.
Result<Placement> parsePlacement(Lexer& in);

}  // namespace lockstep::ir
