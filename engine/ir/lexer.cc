#include "engine/ir/lexer.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep::ir {
namespace {

constexpr std::size_t kMaxList = std::size_t{1} << 20;
constexpr std::size_t kMaxText = std::size_t{1} << 16;

bool isNameChar(char c) { return isName({&c, 1}); }

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void Lexer::skipSpaces() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

bool Lexer::atEnd() {
  skipSpaces();
  return at_ >= text_.size();
}

void Lexer::skipLines() {
  while (!atEnd()) {
    if (text_[at_] == '#')
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    if (at_ >= text_.size() || text_[at_] != '\n') return;
    ++at_;
    ++line_;
    lineBegin_ = at_;
  }
}

Status Lexer::endLine() {
  if (atEnd()) return {};
  if (text_[at_] != '\n') return unexpected("the end of the line");
  return {};
}

bool Lexer::peek(std::string_view token) {
  skipSpaces();
  return text_.substr(at_, token.size()) == token;
}

bool Lexer::take(std::string_view token) {
  if (!peek(token)) return false;
  at_ += token.size();
  return true;
}

Status Lexer::expect(std::string_view token) {
  if (!take(token)) return unexpected(fmt::format("'{}'", token));
  return {};
}

Result<std::string> Lexer::name(std::string_view what) {
  skipSpaces();
  std::size_t end = at_;
  while (end < text_.size() && isNameChar(text_[end])) ++end;
  const std::string_view word = text_.substr(at_, end - at_);
  if (!isName(word)) return unexpected(what);
  at_ = end;
  return std::string(word);
}

Result<std::string> Lexer::quoted(std::string_view what) {
  if (!take("\"")) return unexpected(what);
  std::string out;
  while (at_ < text_.size() && text_[at_] != '\n' && out.size() <= kMaxText) {
    const char c = text_[at_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    const char kind = at_ < text_.size() ? text_[at_++] : '\0';
    if (kind == '"' || kind == '\\') {
      out += kind;
    } else if (kind == 'n') {
      out += '\n';
    } else if (kind == 't') {
      out += '\t';
    } else if (kind == 'x' && at_ + 2 <= text_.size() && hexDigit(text_[at_]) >= 0 &&
               hexDigit(text_[at_ + 1]) >= 0) {
      out += static_cast<char>(hexDigit(text_[at_]) * 16 + hexDigit(text_[at_ + 1]));
      at_ += 2;
    } else {
      --at_;
      return unexpected("\\\" \\\\ \\n \\t or \\xNN after the backslash");
    }
  }
  return unexpected("the closing '\"' of a text");
}

Result<std::int64_t> Lexer::integer(std::string_view what, std::int64_t lowest,
                                    std::int64_t highest) {
  skipSpaces();
  std::int64_t value = 0;
  const auto [end, status] =
      std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (status == std::errc::invalid_argument) return unexpected(what);
  if (status != std::errc() || value < lowest || value > highest)
    return error(
        fmt::format("number out of range, expected {} from {} to {}", what, lowest, highest));
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

Result<double> Lexer::number(std::string_view what) {
  skipSpaces();
  double value = 0;
  const auto [end, status] =
      std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (status == std::errc::invalid_argument) return unexpected(what);
  if (status != std::errc() || !std::isfinite(value))
    return error(fmt::format("number out of range, expected {}", what));
  at_ = static_cast<std::size_t>(end - text_.data());
  return value;
}

Result<std::vector<std::int64_t>> Lexer::list(std::string_view what) {
  if (!take("[")) return unexpected(what);
  std::vector<std::int64_t> out;
  while (!take("]")) {
    if (out.size() >= kMaxList) return error("the list is too long");
    LOCKSTEP_ASSIGN(const std::int64_t item,
                    integer("an integer or ']'", std::numeric_limits<std::int64_t>::min(),
                            std::numeric_limits<std::int64_t>::max()));
    out.push_back(item);
  }
  return out;
}

std::string Lexer::found() {
  if (atEnd()) return "the end";
  if (text_[at_] == '\n') return "the end of the line";
  std::size_t end = at_ + 1;
  if (isNameChar(text_[at_]))
    while (end < text_.size() && end - at_ < 40 && isNameChar(text_[end])) ++end;
  std::string word;
  for (char c : text_.substr(at_, end - at_))
    word += c >= ' ' && c < '\x7f' ? std::string(1, c)
                                   : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return "'" + word + "'";
}

Error Lexer::unexpected(std::string_view expected) {
  const std::string here = found();
  return error(fmt::format("found {}, expected {}", here, expected));
}

Error Lexer::error(std::string_view message) {
  skipSpaces();
  return invalidArgument("{}:{}:{}: {}", file_, line_, at_ - lineBegin_ + 1, message);
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f')
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string numberText(double number) {
  std::string out = fmt::format("{}", number);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

std::string text(const std::vector<std::int64_t>& list) {
  std::string out = "[";
  for (std::int64_t item : list) out += fmt::format("{}{}", out.size() > 1 ? " " : "", item);
  return out + "]";
}

std::string text(const Attrs& attrs) {
  std::string out = "{";
  for (const auto& [key, value] : attrs) {
    if (out.size() > 1) out += ", ";
    out += key + "=";
    if (const auto* whole = std::get_if<std::int64_t>(&value)) out += fmt::format("{}", *whole);
    if (const auto* real = std::get_if<double>(&value)) out += numberText(*real);
    if (const auto* word = std::get_if<std::string>(&value)) out += quote(*word);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) out += text(*list);
  }
  return out + "}";
}

Result<Attrs> parseAttrs(Lexer& in) {
  constexpr std::string_view kWhat = "a number, a \"text\" or a [list]";
  LOCKSTEP_TRY(in.expect("{"));
  Attrs attrs;
  if (in.take("}")) return attrs;
  do {
    LOCKSTEP_ASSIGN(const std::string key, in.name("the name of an attribute"));
    LOCKSTEP_TRY(in.expect("="));
    Attr value;
    if (in.peek("\"")) {
      LOCKSTEP_ASSIGN(value, in.quoted(kWhat));
    } else if (in.peek("[")) {
      LOCKSTEP_ASSIGN(value, in.list(kWhat));
    } else {
      // an integer unless a fraction or an exponent follows
      Lexer ahead = in;
      Result<std::int64_t> whole = ahead.integer(kWhat, std::numeric_limits<std::int64_t>::min(),
                                                 std::numeric_limits<std::int64_t>::max());
      if (whole.ok() && (ahead.peek(",") || ahead.peek("}"))) {
        value = *whole;
        in = ahead;
      } else {
        LOCKSTEP_ASSIGN(value, in.number(kWhat));
      }
    }
    if (!attrs.emplace(key, std::move(value)).second)
      return in.error(fmt::format("attribute {} is there twice, expected once", key));
  } while (in.take(","));
  LOCKSTEP_TRY(in.expect("}"));
  return attrs;
}

Result<TensorType> parseType(Lexer& in) {
  TensorType type;
  constexpr std::string_view kWhat = "a type such as f32[64x10]";
  Lexer before = in;
  LOCKSTEP_ASSIGN(const std::string word, in.name(kWhat));
  const std::optional<DType> dtype = dtypeFromName(word);
  if (!dtype) return before.unexpected(kWhat);
  type.dtype = *dtype;
  LOCKSTEP_TRY(in.expect("["));
  if (!in.take("]")) {
    do {
      if (type.shape.size() >= kMaxRank)
        return in.error(fmt::format("too many dimensions, expected at most {}", kMaxRank));
      LOCKSTEP_ASSIGN(const std::int64_t extent, in.integer("an extent", 1, kMaxCount));
      type.shape.push_back(extent);
    } while (in.take("x"));
    LOCKSTEP_TRY(in.expect("]"));
  }
  if (Status status = checkShape(type.shape); !status.ok())
    return before.error(status.error().what.text());
  return type;
}

namespace {

Result<AxisPlacement> parseAxisPlacement(Lexer& in) {
  AxisPlacement axis;
  constexpr std::string_view kWhat = "split or partial";
  Lexer before = in;
  LOCKSTEP_ASSIGN(const std::string kind, in.name(kWhat));
  if (kind == "split") {
    axis.kind = AxisPlacement::Kind::kSplit;
    LOCKSTEP_ASSIGN(const std::int64_t dim,
                    in.integer("a dimension", 0, static_cast<std::int64_t>(kMaxRank) - 1));
    axis.dim = static_cast<int>(dim);
    LOCKSTEP_ASSIGN(axis.cuts, in.list("cut-points such as [0 32 64]"));
    return axis;
  }
  if (kind != "partial") return before.unexpected(kWhat);
  LOCKSTEP_ASSIGN(const std::string reduction, in.name("sum or max"));
  if (reduction != "sum" && reduction != "max")
    return in.error(fmt::format("reduction {}, expected sum or max", reduction));
  axis.kind =
      reduction == "sum" ? AxisPlacement::Kind::kPartialSum : AxisPlacement::Kind::kPartialMax;
  return axis;
}

}  // namespace

Result<Placement> parsePlacement(Lexer& in) {
  Placement placement;
  LOCKSTEP_TRY(in.expect("<"));
  if (in.take("@")) {
    LOCKSTEP_ASSIGN(placement.submesh, in.name("the name of a submesh"));
  }
  if (in.take("replicated")) {
    LOCKSTEP_TRY(in.expect(">"));
    return placement;
  }
  do {
    LOCKSTEP_ASSIGN(const std::string name, in.name("a mesh axis or replicated"));
    LOCKSTEP_TRY(in.expect(":"));
    LOCKSTEP_ASSIGN(AxisPlacement axis, parseAxisPlacement(in));
    if (!placement.axes.emplace(name, std::move(axis)).second)
      return in.error(fmt::format("axis {} is there twice, expected once", name));
  } while (in.take(";"));
  LOCKSTEP_TRY(in.expect(">"));
  return placement;
}

}  // namespace lockstep::ir
