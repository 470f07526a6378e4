#include "app/runs/median_rank.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "engine/base/statistics.h"

namespace lockstep::app {
namespace {

using Lane = StepTimeline::Lane;

// The median, at most 2^61: nodes may report any times, and sums of two of them must not overflow.
std::int64_t nanoseconds(std::vector<double> values) {
  constexpr double kFar = 0x1p61;
  return std::llround(std::min(lowerMedian(std::move(values)), kFar));
}

class Stage {
 public:
  explicit Stage(const StepTimeline& timeline) : timeline_(timeline) {}

  void add(const Lane& lane) {
    if (first_ == nullptr) first_ = &lane;
    ++ranks_;
    std::int32_t data = -1;  // counts down: spans that are no plan steps
    for (const TimelineSpan& span : lane.spans)
      addSpan(false, span.name < 0 ? data-- : span.name - lane.firstName, span);
    for (const TimelineSpan& span : lane.communication)
      addSpan(true, span.name - lane.firstName, span);
  }

  int ranks() const { return ranks_; }

  Lane median() {
    Lane out;
    out.stage = first_->stage;
    out.firstName = first_->firstName;
    for (auto& [key, samples] : samples_) {
      samples.lengths.resize(static_cast<std::size_t>(ranks_), 0);
      const std::int64_t length = nanoseconds(std::move(samples.lengths));
      if (length <= 0) continue;
      const auto [asynchronous, offset, kind] = key;
      const std::int64_t begin = nanoseconds(std::move(samples.begins));
      auto& spans = asynchronous ? out.communication : out.spans;
      spans.push_back({begin, begin + length, offset < 0 ? -1 : out.firstName + offset, -1, kind});
    }
    for (auto* spans : {&out.spans, &out.communication}) separate(*spans);
    return out;
  }

 private:
  struct Samples {  // of the ranks that have such spans; of each rank its spans together
    std::vector<double> begins, lengths;  // ns
    int lastRank = 0;
  };

  void addSpan(bool asynchronous, std::int32_t offset, const TimelineSpan& span) {
    if (offset >= 0 && !isOfFirst(offset, span.name)) return;
    Samples& samples = samples_[{asynchronous, offset, span.kind}];
    const auto length = static_cast<double>(span.length());
    if (std::exchange(samples.lastRank, ranks_) == ranks_) {
      samples.lengths.back() += length;
      return;
    }
    samples.begins.push_back(static_cast<double>(span.begin));
    samples.lengths.push_back(length);
  }

  // Ranks with unequal shares of the batch have bodies of their own, with the same steps.
  bool isOfFirst(std::int32_t offset, std::int32_t name) const {
    const auto& names = timeline_.names;
    const auto own = static_cast<std::size_t>(first_->firstName + offset);
    return own < names.size() && names[own] == names[static_cast<std::size_t>(name)];
  }

  // Medians of neighbouring spans may overlap: the later one then begins where the earlier ends.
  static void separate(std::vector<TimelineSpan>& spans) {
    std::stable_sort(spans.begin(), spans.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::int64_t end = 0;
    for (TimelineSpan& span : spans) {
      span.begin = std::max(span.begin, end);
      end = std::max(end, span.end);
    }
    std::erase_if(spans, [](const TimelineSpan& span) { return span.length() <= 0; });
  }

  const StepTimeline& timeline_;
  const Lane* first_ = nullptr;
  int ranks_ = 0;
  std::map<std::tuple<bool, std::int32_t, SpanKind>, Samples> samples_;
};

}  // namespace

std::vector<StepTimeline::Lane> medianRanks(const StepTimeline& timeline) {
  std::map<int, Stage> stages;
  for (const Lane& lane : timeline.lanes)
    if (!lane.spans.empty()) stages.try_emplace(lane.stage, timeline).first->second.add(lane);
  std::vector<Lane> out;
  for (auto& [number, stage] : stages)
    if (stage.ranks() > 1) out.push_back(stage.median());
  return out;
}

}  // namespace lockstep::app
