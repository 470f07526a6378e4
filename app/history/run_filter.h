// RunFilter: which runs of the history a person wants to see, as "tag:good -state:failed mlp".
//
//   word "two words"             in the id, model, notes, strategy, cluster or a tag
//   tag:x  model:x  strategy:x  cluster:x  comm:x  notes:x      equal; `*` stands for any text
//   state:failed                 a state, or unreachable
//   since:2026-11-01  before:T   when the run was created; T is a date, 2026-11-01T12:30, today,
//                                or an age: 12h, 7d, 2w
//   tag:a,b                      one of several values
//   -tag:x  -word                not
//
// All terms of a filter must hold. Case does not matter in ASCII letters. Quotes make spaces,
// commas, colons and `*` plain text; in quotes a backslash precedes a quote or a backslash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace lockstep::app {

class RunFilter {
 public:
  RunFilter() = default;  // all runs

  // Dates are in the local time zone; ages are before `now`, by the wall clock. Errors:
  // kInvalidArgument, which names the word that is wrong.
  static Result<RunFilter> parse(std::string_view text, Nanoseconds now);
  // Runs with this text, whatever its characters, in a place that words are looked for in.
  static RunFilter containing(std::string_view text);

  static RunFilter both(RunFilter a, const RunFilter& b);  // runs that match both

  bool empty() const { return terms_.empty(); }
  // A condition on table `run` of history.db, with a "?" for each value.
  using Value = std::variant<std::int64_t, std::string>;
  struct Query {
    std::string condition;
    std::vector<Value> values;
  };
  Query query() const;
  // A word that quotes `text`, so that parse() takes it as it is: for filters made by programs.
  static std::string quoted(std::string_view text);

 private:
  friend class FilterParser;
  enum class Field : std::uint8_t {
    kText,
    kTag,
    kModel,
    kStrategy,
    kCluster,
    kComm,
    kNotes,
    kState,
    kSince,
    kBefore
  };
  struct Term {
    Field field = Field::kText;
    bool negated = false;
    std::vector<std::string> texts;  // kText: one; kTag to kNotes: patterns of LIKE
    std::vector<int> states;         // of kState; kUnreachable
    std::int64_t time = 0;           // of kSince and kBefore
  };
  static void add(const Term& term, Query& query);
  std::vector<Term> terms_;
};

}  // namespace lockstep::app
