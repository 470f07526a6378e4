#include "agent/workload/output_metrics.h"

#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "engine/base/utf8.h"
#include "engine/specs/workload.h"

namespace lockstep::agent {
namespace {

using run::v1::Scalar;

constexpr char kEscape = '\x1b', kBell = '\a';
constexpr std::string_view kBlanks = " \t\r\n";

bool isIn(char c, char first, char last) { return first <= c && c <= last; }

// The end of the control sequence that begins with the escape at `at` (ECMA-48). One that is cut
// off ends with the text.
std::size_t endOfSequence(std::string_view text, std::size_t at) {
  const auto skip = [&](char first, char last) {
    while (at < text.size() && isIn(text[at], first, last)) ++at;
  };
  if (++at == text.size()) return at;
  if (text[at] == ']') {  // a command to the terminal, as a title or a link
    const std::size_t end = text.find_first_of("\a\x1b", at);
    if (end == std::string_view::npos) return text.size();
    return text[end] == kBell ? end + 1 : text.substr(end).starts_with("\x1b\\") ? end + 2 : end;
  }
  if (text[at] == '[') {
    ++at;
    skip('0', '?');  // parameters
  }
  skip(' ', '/');
  if (at < text.size() && isIn(text[at], '0', '~')) ++at;  // the final byte
  return at;
}

// What a terminal shows of the line, except that a shorter text after a carriage return replaces a
// longer one.
std::string shown(std::string_view line) {
  line = line.substr(0, line.find_last_not_of("\r\n") + 1);
  line.remove_prefix(line.find_last_of('\r') + 1);  // npos + 1 is 0
  std::string out;
  out.reserve(line.size());
  for (std::size_t at = 0; at < line.size();) {
    if (line[at] == kEscape)
      at = endOfSequence(line, at);
    else
      out += line[at++];
  }
  return validUtf8(out);
}

// The whole text as a number, but for blanks and a sign '+'.
template <typename T>
std::optional<T> numberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return {};
  }
  T number{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// Where a progress bar stands: "7/10 [=>..]" of tqdm and Keras 2, "7/10 ━━" of Keras 3, and
// "10/10 - 2s" of their lines without a bar.
struct Bar {
  std::int64_t at = 0, of = 0;
};

std::optional<Bar> barIn(const std::string& text) {
  static const RE2 expression(R"((?:^|[^\w./])(\d{1,15})/(\d{1,15}) (?:\[|━|- \d+m?s))");
  Bar bar;
  if (!RE2::PartialMatch(text, expression, &bar.at, &bar.of) || bar.at > bar.of) return {};
  return bar;
}

struct Pattern {
  std::unique_ptr<RE2> expression;
  std::map<int, std::string> names;  // of groups
};

struct Found {
  std::vector<std::pair<const std::string*, double>> values;
  std::optional<std::int64_t> step;
};

void findAll(const Pattern& pattern, const std::string& text, Found& found) {
  const int count = pattern.expression->NumberOfCapturingGroups() + 1;
  std::vector<re2::StringPiece> groups(static_cast<std::size_t>(count));
  std::size_t at = 0;
  for (std::size_t matches = 0; matches < OutputMetrics::kMostValues && at <= text.size();
       ++matches) {
    if (!pattern.expression->Match(text, at, text.size(), RE2::UNANCHORED, groups.data(), count))
      return;
    for (const auto& [index, name] : pattern.names) {
      const re2::StringPiece& group = groups[static_cast<std::size_t>(index)];
      if (group.data() == nullptr) continue;  // of an alternative that did not match
      const std::string_view digits(group.data(), group.size());
      if (name == "step") {
        const auto step = numberIn<std::int64_t>(digits);
        if (!found.step && step && *step >= 0) found.step = step;
      } else if (const auto value = numberIn<double>(digits);
                 value && found.values.size() < OutputMetrics::kMostValues) {
        found.values.emplace_back(&name, *value);
      }
    }
    const auto end = static_cast<std::size_t>(groups[0].data() - text.data()) + groups[0].size();
    at = groups[0].empty() ? end + 1 : end;
  }
}

}  // namespace

struct OutputMetrics::Impl {
  std::vector<Pattern> patterns;
  std::map<std::string, std::int64_t, std::less<>> last;  // steps, by tag
  std::int64_t before = 0, at = 0;  // steps of earlier bars, and of the one under way

  // The step of a bar's values; none of a whole one that is drawn again.
  std::optional<std::int64_t> stepOf(const Bar& bar, bool replaced) {
    if (bar.at < at) endBar();
    if (bar.at == bar.of && replaced) return {};
    at = bar.at;
    const std::int64_t step = before + at;
    if (bar.at == bar.of) endBar();
    return step;
  }
  void endBar() {
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    before = std::min(before + std::exchange(at, 0), kMost);
  }
};

OutputMetrics::OutputMetrics(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OutputMetrics::OutputMetrics(OutputMetrics&&) noexcept = default;
OutputMetrics& OutputMetrics::operator=(OutputMetrics&&) noexcept = default;
OutputMetrics::~OutputMetrics() = default;

Result<OutputMetrics> OutputMetrics::make(const std::vector<std::string>& patterns) {
  std::vector<std::string> texts = patterns;
  if (texts.empty()) texts.assign(specs::kDefaultPatterns.begin(), specs::kDefaultPatterns.end());
  auto impl = std::make_unique<Impl>();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    LOCKSTEP_TRY(specs::checkPattern(fmt::format("workload.metrics.stdout[{}]", i), texts[i]));
    // Of UTF-8, as checkPattern() reads it: a class of characters such as [损失] would be one of
    // bytes in Latin-1.
    auto expression = std::make_unique<RE2>(texts[i], RE2::Quiet);
    auto names = expression->CapturingGroupNames();
    impl->patterns.push_back({std::move(expression), std::move(names)});
  }
  return OutputMetrics(std::move(impl));
}

std::vector<Scalar> OutputMetrics::of(std::string_view line) {
  const std::string text = shown(line);
  Found found;
  for (const Pattern& pattern : impl_->patterns) findAll(pattern, text, found);
  if (const auto bar = barIn(text); bar && !found.step && !found.values.empty()) {
    found.step = impl_->stepOf(*bar, line.ends_with('\r'));
    if (!found.step) return {};
  }
  std::vector<Scalar> out;
  out.reserve(found.values.size());
  for (const auto& [tag, value] : found.values) {
    std::int64_t& last = impl_->last[*tag];
    if (found.step)
      last = *found.step;
    else if (last < std::numeric_limits<std::int64_t>::max())
      ++last;
    Scalar& scalar = out.emplace_back();
    scalar.set_tag(*tag);
    scalar.set_step(last);
    scalar.set_value(value);
  }
  return out;
}

}  // namespace lockstep::agent
