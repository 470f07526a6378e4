#include "app/history/run_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <optional>
#include <utility>

#include "engine/base/suggest.h"
#include "engine/specs/states.h"

namespace lockstep::app {
namespace {

using run::v1::RunState;

constexpr std::size_t kLongest = 2000;   // bytes
constexpr std::size_t kMostValues = 64;  // words, and values of keys
constexpr int kMostStars = 4;            // each multiplies the time that LIKE may take
constexpr int kUnreachable = -1;         // among states
constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::string_view kIdeographicSpace = "\u3000";

constexpr std::array<std::string_view, 9> kKeys{"tag",   "state",  "model", "strategy", "cluster",
                                                "since", "before", "comm",  "notes"};

// A character of a word; `plain`: it was quoted, and has no meaning of its own.
struct Character {
  char value;
  bool plain;
};
using Characters = std::vector<Character>;

std::string textOf(const Characters& characters) {
  std::string out;
  for (const Character& one : characters) out += one.value;
  return out;
}

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// A pattern of LIKE, whose escape is '\'.
std::string patternOf(const Characters& characters, int& stars) {
  std::string out;
  for (const auto& [value, plain] : characters) {
    if (value == '*' && !plain) {
      if (out.ends_with('%') && !out.ends_with("\\%")) continue;
      out += '%';
      ++stars;
      continue;
    }
    if (value == '%' || value == '_' || value == '\\') out += '\\';
    out += value;
  }
  return out;
}

std::optional<int> stateOf(const std::string& name) {
  if (name == "unreachable") return kUnreachable;
  for (int state = 0; state <= run::v1::RunState_MAX; ++state)
    if (run::v1::RunState_IsValid(state) && specs::stateName(static_cast<RunState>(state)) == name)
      return state;
  return std::nullopt;
}

Error unknownState(const std::string& name) {
  std::vector<std::string_view> names;
  for (int state = 1; state <= run::v1::RunState_MAX; ++state)
    names.push_back(specs::stateName(static_cast<RunState>(state)));
  names.push_back("unreachable");
  Error error = invalidArgument("there is no state \"{}\"", name);
  error.next = message("a state is {}", expectedOneOf(name, names));
  return error;
}

std::optional<int> numberOf(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "2026-11-01", "2026-11-01T12:30" in the local time zone.
std::optional<Nanoseconds> dateOf(std::string_view text) {
  const bool timed = text.size() == 16 && (text[10] == 'T' || text[10] == 't') && text[13] == ':';
  if ((text.size() != 10 && !timed) || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = numberOf(text.substr(0, 4)), month = numberOf(text.substr(5, 2)),
             day = numberOf(text.substr(8, 2));
  const auto hour = timed ? numberOf(text.substr(11, 2)) : 0,
             minute = timed ? numberOf(text.substr(14, 2)) : 0;
  if (!year || !month || !day || !hour || !minute) return std::nullopt;
  if (*year < 1971 || *year > 2200 || *month < 1 || *month > 12 || *hour > 23 || *minute > 59)
    return std::nullopt;
  std::tm local{};
  local.tm_year = *year - 1900;
  local.tm_mon = *month - 1;
  local.tm_mday = *day;
  local.tm_hour = *hour;
  local.tm_min = *minute;
  local.tm_isdst = -1;
  const std::time_t time = std::mktime(&local);
  // The 31st of a month of 30 days would be the 1st of the next.
  if (local.tm_mday != *day || local.tm_mon != *month - 1) return std::nullopt;
  return std::int64_t{time} * kSecond;
}

Nanoseconds midnightBefore(Nanoseconds now) {
  const std::time_t seconds = now / kSecond;
  std::tm local{};
  localtime_r(&seconds, &local);
  local.tm_hour = local.tm_min = local.tm_sec = 0;
  local.tm_isdst = -1;
  return std::int64_t{std::mktime(&local)} * kSecond;
}

std::optional<Nanoseconds> timeOf(const std::string& text, Nanoseconds now) {
  if (text == "today") return midnightBefore(now);
  if (const auto date = dateOf(text)) return date;
  if (text.size() < 2 || text.size() > 6) return std::nullopt;
  const auto count = numberOf(std::string_view(text).substr(0, text.size() - 1));
  const std::string_view units = "mhdw";
  const std::size_t unit = units.find(text.back());
  if (!count || unit == std::string_view::npos) return std::nullopt;
  constexpr Nanoseconds kSeconds[] = {60, 3600, 86400, 7 * 86400};
  return std::max<std::int64_t>(now / kSecond - *count * kSeconds[unit], 0) * kSecond;
}

}  // namespace

class FilterParser {
 public:
  FilterParser(std::string_view text, Nanoseconds now) : text_(text), now_(now) {}

  Result<RunFilter> run() {
    if (text_.size() > kLongest) return invalidArgument("the filter is too long");
    for (const char c : text_)
      if (const auto byte = static_cast<unsigned char>(c);
          (byte < 0x20 && c != '\t' && c != '\n') || byte == 0x7f)
        return invalidArgument("the filter has a control character");
    RunFilter out;
    std::size_t values = 0;
    for (skipSpaces(); at_ < text_.size(); skipSpaces()) {
      LOCKSTEP_ASSIGN(RunFilter::Term term, nextTerm());
      values += term.texts.size() + term.states.size() + 1;
      if (values > kMostValues) return invalidArgument("the filter has too many words");
      out.terms_.push_back(std::move(term));
    }
    return out;
  }

 private:
  using Field = RunFilter::Field;

  // The bytes of a space at `at_`; 0: it is none.
  std::size_t spaceHere() const {
    if (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n') return 1;
    return text_.substr(at_).starts_with(kIdeographicSpace) ? kIdeographicSpace.size() : 0;
  }
  void skipSpaces() {
    while (at_ < text_.size() && spaceHere() > 0) at_ += spaceHere();
  }

  // The rest of a word, to the next space that is not quoted.
  Result<Characters> rest() {
    Characters out;
    bool quoted = false;
    const std::size_t begin = at_;
    while (at_ < text_.size() && (quoted || spaceHere() == 0)) {
      char c = text_[at_++];
      if (c == '"') {
        quoted = !quoted;
        continue;
      }
      if (quoted && c == '\\' && at_ < text_.size()) c = text_[at_++];
      out.push_back({c, quoted});
    }
    if (!quoted) return out;
    Error error = invalidArgument("a quote is not closed: {}", text_.substr(begin));
    error.next = "add the closing quote";
    return error;
  }

  // "tag" of "tag:x"; "" of a word without a key.
  std::string_view keyHere() const {
    std::size_t end = at_;
    while (end < text_.size() && isLetter(text_[end])) ++end;
    const bool is = end > at_ && end < text_.size() && text_[end] == ':';
    return is ? text_.substr(at_, end - at_) : std::string_view();
  }

  Result<RunFilter::Term> nextTerm() {
    RunFilter::Term term;
    if (text_[at_] == '-' && at_ + 1 < text_.size()) {
      ++at_;
      term.negated = spaceHere() == 0;
      if (!term.negated) --at_;  // a dash alone is a word
    }
    const std::string key = lower(std::string(keyHere()));
    if (!key.empty()) {
      at_ += key.size() + 1;
      LOCKSTEP_TRY(readValues(key, term));
      return term;
    }
    LOCKSTEP_ASSIGN(const Characters word, rest());
    if (word.empty()) return invalidArgument("the filter has empty quotes");
    term.texts = {textOf(word)};
    return term;
  }

  Status readValues(const std::string& key, RunFilter::Term& term) {
    const auto known = std::find(kKeys.begin(), kKeys.end(), key);
    if (known == kKeys.end()) {
      Error error = invalidArgument("a filter has no \"{}:\"", key);
      error.next =
          message("a key is {}; put text that has a colon in quotes", expectedOneOf(key, kKeys));
      return error;
    }
    constexpr std::array<Field, kKeys.size()> kFields{
        Field::kTag,   Field::kState,  Field::kModel, Field::kStrategy, Field::kCluster,
        Field::kSince, Field::kBefore, Field::kComm,  Field::kNotes};
    term.field = kFields[static_cast<std::size_t>(known - kKeys.begin())];
    LOCKSTEP_ASSIGN(const Characters all, rest());
    std::vector<Characters> values(1);
    for (const Character& one : all) {
      if (one.value == ',' && !one.plain)
        values.emplace_back();
      else
        values.back().push_back(one);
    }
    for (const Characters& value : values) {
      if (value.empty()) {
        Error error = invalidArgument("\"{}:\" has no value", key);
        error.next = message("write it after the colon, without a space: {}:x", key);
        return error;
      }
      LOCKSTEP_TRY(addValue(key, value, term));
    }
    const bool time = term.field == Field::kSince || term.field == Field::kBefore;
    if (time && values.size() > 1) return invalidArgument("\"{}:\" takes one time", key);
    return {};
  }

  Status addValue(const std::string& key, const Characters& value, RunFilter::Term& term) const {
    const std::string text = textOf(value);
    if (term.field == Field::kState) {
      const auto state = stateOf(lower(text));
      if (!state) return unknownState(text);
      term.states.push_back(*state);
    } else if (term.field == Field::kSince || term.field == Field::kBefore) {
      const auto time = timeOf(lower(text), now_);
      if (!time) {
        Error error = invalidArgument("\"{}\" is not a date or an age", text);
        error.next = message("write {}:2026-11-01, {}:2026-11-01T12:30, {}:today or {}:7d", key,
                             key, key, key);
        return error;
      }
      term.time = *time;
    } else {
      int stars = 0;
      term.texts.push_back(patternOf(value, stars));
      if (stars > kMostStars)
        return invalidArgument("{}:{} has more than {} stars", key, text, kMostStars);
    }
    return {};
  }

  std::string_view text_;
  Nanoseconds now_;
  std::size_t at_ = 0;
};

Result<RunFilter> RunFilter::parse(std::string_view text, Nanoseconds now) {
  return FilterParser(text, now).run();
}

RunFilter RunFilter::containing(std::string_view text) {
  RunFilter out;
  if (!text.empty()) out.terms_.push_back({Field::kText, false, {std::string(text)}, {}, 0});
  return out;
}

RunFilter RunFilter::both(RunFilter a, const RunFilter& b) {
  a.terms_.insert(a.terms_.end(), b.terms_.begin(), b.terms_.end());
  return a;
}

std::string RunFilter::quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

void RunFilter::add(const Term& term, Query& query) {
  // As bytes: names and notes need not be valid UTF-8. The line feeds keep one field's end and the
  // next one's beginning from making a word.
  constexpr std::string_view kText =
      "instr(CAST(lower(run.run||char(10)||coalesce(name,'')||char(10)||coalesce(notes,'')||"
      "char(10)||coalesce(strategy,'')||char(10)||coalesce(cluster,'')||char(10)||"
      "coalesce((SELECT group_concat(tag,char(10)) FROM tag WHERE tag.run=run.run),'')) AS BLOB),"
      "CAST(lower(?) AS BLOB))>0";
  const auto alternatives = [&](std::string_view one, const auto& values) {
    std::string all;
    for (const auto& value : values) {
      all += fmt::format("{}{}", all.empty() ? "" : " OR ", one);
      query.values.emplace_back(value);
    }
    return all;
  };
  const auto column = [&](std::string_view name) {
    return alternatives(fmt::format("coalesce({},'') LIKE ? ESCAPE '\\'", name), term.texts);
  };
  const auto condition = [&]() -> std::string {
    switch (term.field) {
      case Field::kText:
        return alternatives(kText, term.texts);
      case Field::kTag:
        return alternatives(
            "EXISTS(SELECT 1 FROM tag WHERE tag.run=run.run AND tag.tag LIKE ? ESCAPE '\\')",
            term.texts);
      case Field::kModel:
        return column("name");
      case Field::kStrategy:
        return column("strategy");
      case Field::kCluster:
        return column("cluster");
      case Field::kComm:
        return column("comm");
      case Field::kNotes:
        return column("notes");
      case Field::kState: {
        std::string all;
        for (const int state : term.states)
          all += fmt::format("{}{}", all.empty() ? "" : " OR ",
                             state == kUnreachable ? "coalesce(unreachable,0)<>0"
                                                   : fmt::format("coalesce(phase,0)={}", state));
        return all;
      }
      case Field::kSince:
      case Field::kBefore:
        query.values.emplace_back(term.time);
        return term.field == Field::kSince ? "coalesce(created,0)>=?" : "coalesce(created,0)<?";
    }
    return "1";
  };
  query.condition += fmt::format("{}{}({})", query.condition.empty() ? "" : " AND ",
                                 term.negated ? "NOT " : "", condition());
}

RunFilter::Query RunFilter::query() const {
  Query out;
  for (const Term& term : terms_) add(term, out);
  if (out.condition.empty()) out.condition = "1";
  return out;
}

}  // namespace lockstep::app
