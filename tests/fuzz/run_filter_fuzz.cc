// Words that say which runs of the history are meant: filters, tags, names of series. What is
// accepted as a filter has a value for each place in its query, and is looked for as it is once it
// is quoted.
#include "app/history/run_filter.h"

#include <algorithm>

#include "app/history/run_tags.h"
#include "app/history/series_name.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {"tag:good,better -state:failed,unreachable mlp \"two words\"",
          "since:2026-11-01T12:30 before:today model:fashion* comm:shm",
          "since:7d -notes:\"a \\\" b\" cluster:lab\xe3\x80\x80strategy:zero-3",
          "+good",
          "rank/3/loss",
          "node/n1/gpu/0/utilization",
          "node/n1/to/n2/bytes"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  constexpr Nanoseconds kNow = 1'800'000'000'000'000'000;
  constexpr std::size_t kLongest = 2000;  // of a filter; quotes may double a text
  const std::string_view text = fuzz::textOf(bytes, size);
  if (const auto filter = app::RunFilter::parse(text, kNow); filter.ok()) {
    const auto query = filter->query();
    const auto places = std::count(query.condition.begin(), query.condition.end(), '?');
    LOCKSTEP_CHECK(places == std::ssize(query.values), "{}", query.condition);
    if (!text.empty() && 2 * text.size() + 2 <= kLongest) {
      const auto quoted = app::RunFilter::parse(app::RunFilter::quoted(text), kNow);
      LOCKSTEP_CHECK(quoted.ok() && quoted->query().values ==
                                        std::vector<app::RunFilter::Value>{std::string(text)});
    }
  }
  if (const auto change = app::parseTagChange({std::string(text)}); change.ok())
    for (const auto* tags : {&change->add, &change->remove})
      for (const std::string& tag : *tags) {
        LOCKSTEP_CHECK(app::checkTag(tag).ok());
        LOCKSTEP_CHECK(app::RunFilter::parse("tag:" + app::RunFilter::quoted(tag), kNow).ok());
      }
  const app::SeriesName name = app::parseSeriesName(text);
  LOCKSTEP_CHECK(text.ends_with(name.figure) && name.rank >= -1 && name.gpu >= -1);
  return 0;
}
