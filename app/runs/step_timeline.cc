#include "app/runs/step_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "app/runs/median_rank.h"
#include "app/runs/step_events.h"
#include "engine/planner/planner.h"

namespace lockstep::app {
namespace {

constexpr std::int64_t kLeastGap = 2'000;  // ns; shorter ones are between two readings of the clock
constexpr std::int64_t kAbsent = std::numeric_limits<std::int64_t>::min();

SpanKind kindOf(const plan::Event& event) {
  switch (event.kind) {
    case plan::EventKind::kData:
      return SpanKind::kData;
    case plan::EventKind::kWaiting:
      return SpanKind::kWaiting;
    case plan::EventKind::kTransfer:
      return SpanKind::kTransfer;
    case plan::EventKind::kCompute:
      break;
  }
  return event.phase == ir::Phase::kBackward ? SpanKind::kBackward
         : event.phase == ir::Phase::kOptimizer || event.phase == ir::Phase::kWatch
             ? SpanKind::kOptimizer
             : SpanKind::kForward;
}

class Builder {
 public:
  Builder(const plan::Plan& plan, const std::vector<plan::Event>& events)
      : plan_(plan),
        schedule_(plan.schedule),  // no events are of steps before compression begins
        lanes_(static_cast<std::size_t>(plan.mesh.size())) {
    if (!events.empty()) out_.step = events.front().step;
    for (const plan::Event& event : events)
      if (event.rank >= 0 && event.rank < plan.mesh.size() && event.end >= event.begin)
        lanes_[static_cast<std::size_t>(event.rank)].events.push_back(&event);
  }

  StepTimeline build() && {
    out_.lanes.resize(lanes_.size());
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) {
      if (lanes_[rank].events.empty()) continue;
      lanes_[rank].script = scriptOf(static_cast<int>(rank));
      if (lanes_[rank].script == nullptr) return {};  // not a plan of these ranks
      out_.lanes[rank].stage = plan_.stageOf(static_cast<int>(rank));
      out_.lanes[rank].firstName = lanes_[rank].script->firstName;
      noteArrivals(static_cast<int>(rank));
    }
    pairMessages();
    for (auto& collective : out_.collectives) {
      const auto last = std::max_element(collective.arrivals.begin(), collective.arrivals.end(),
                                         [](const auto& a, const auto& b) { return a.at < b.at; });
      if (last != collective.arrivals.end()) collective.last = *last;
    }
    for (std::size_t rank = 0; rank < lanes_.size(); ++rank) addSpans(static_cast<int>(rank));
    shift();
    out_.medians = medianRanks(out_);
    return std::move(out_);
  }

 private:
  struct Script {  // the steps of all entries of a training step, one after another
    std::vector<const plan::Step*> steps;
    std::vector<int> copies;  // ScheduleEntry::copy of each
    std::int32_t firstName = 0;
  };
  struct Lane {
    std::vector<const plan::Event*> events;
    const Script* script = nullptr;
    std::vector<std::int32_t> collective;  // by plan step; -1: it is none
    // When the last message that the step receives was sent, by plan step; kAbsent: not known.
    std::vector<std::int64_t> sent;
    std::vector<std::int32_t> sender;  // of that message; -1: not known
  };
  struct Extent {  // of the events of a plan step
    std::int64_t begin = kAbsent, end = kAbsent;
  };
  struct MessageEnd {
    std::size_t at = 0;  // the plan step
    Extent extent;
  };
  struct Channel {
    std::vector<MessageEnd> sends, receives;  // in order
  };

  const Script* scriptOf(int rank) {
    const auto stage = static_cast<std::size_t>(plan_.stageOf(rank));
    if (stage >= schedule_.size()) return nullptr;
    std::vector<int> key{static_cast<int>(stage)};
    for (const plan::ScheduleEntry& entry : schedule_[stage])
      key.push_back(plan_.find(entry.program)->bodyOfRank[static_cast<std::size_t>(rank)]);
    const auto [known, isNew] = scripts_.try_emplace(std::move(key));
    Script& script = known->second;
    if (!isNew) return &script;
    script.firstName = static_cast<std::int32_t>(out_.names.size());
    for (const plan::ScheduleEntry& entry : schedule_[stage]) {
      for (const plan::Step& step : plan_.find(entry.program, rank)->steps) {
        script.steps.push_back(&step);
        script.copies.push_back(entry.copy);
        out_.names.push_back(step.name);
        out_.bytes.push_back(step.kind == plan::StepKind::kCollective ? step.bytes : 0);
      }
    }
    return &script;
  }

  const std::vector<int>& groupOf(int rank, const std::string& axis) {
    const auto [known, isNew] = groups_.try_emplace({rank, axis});
    if (isNew) known->second = plan_.mesh.group(rank, axis);
    return known->second;
  }

  static std::vector<Extent> extentsOf(const Lane& lane) {
    std::vector<Extent> out(lane.script->steps.size());
    for (const plan::Event* event : lane.events) {
      if (event->planStep < 0 || static_cast<std::size_t>(event->planStep) >= out.size()) continue;
      Extent& extent = out[static_cast<std::size_t>(event->planStep)];
      extent.begin = extent.begin == kAbsent ? event->begin : std::min(extent.begin, event->begin);
      extent.end = std::max(extent.end, event->end);
    }
    return out;
  }

  // When the rank arrived at each of its collectives, and sent and received each of its messages.
  void noteArrivals(int rank) {
    Lane& lane = lanes_[static_cast<std::size_t>(rank)];
    const Script& script = *lane.script;
    const std::vector<Extent> extents = extentsOf(lane);
    lane.collective.assign(extents.size(), -1);
    lane.sent.assign(extents.size(), kAbsent);
    lane.sender.assign(extents.size(), -1);
    std::map<std::string_view, int> ordinals;  // by axis: all ranks run them in one order
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const plan::Step& step = *script.steps[i];
      if (step.kind != plan::StepKind::kCollective) continue;
      if (plan::isMessage(step)) {
        noteMessage(rank, i, extents[i]);
        continue;
      }
      const int ordinal = ordinals[step.axis]++;
      const auto [known, isNew] = collectives_.try_emplace(
          {step.axis, groupOf(rank, step.axis)[0], ordinal}, out_.collectives.size());
      if (isNew)
        out_.collectives.push_back({script.firstName + static_cast<std::int32_t>(i), {}, {}});
      lane.collective[i] = static_cast<std::int32_t>(known->second);
      if (extents[i].begin != kAbsent)
        out_.collectives[known->second].arrivals.push_back({rank, extents[i].begin});
    }
  }

  void noteMessage(int rank, std::size_t at, const Extent& extent) {
    if (plan_.isAsynchronous()) return;  // a server receives in the order of arrival
    const Script& script = *lanes_[static_cast<std::size_t>(rank)].script;
    const plan::Step& step = *script.steps[at];
    const plan::Peers peers = plan::peersOf(step, script.copies[at]);
    const std::vector<int>& group = groupOf(rank, step.axis);
    for (int i = peers.first; i < peers.first + peers.count; ++i) {
      const int peer = group[static_cast<std::size_t>(i)];
      if (plan::isSend(step))
        channels_[{rank, peer}].sends.push_back({at, extent});
      else
        channels_[{peer, rank}].receives.push_back({at, extent});
    }
  }

  // Messages from one rank to another are received in the order in which they are sent.
  void pairMessages() {
    for (const auto& [ranks, channel] : channels_) {
      const auto [from, to] = ranks;
      const std::size_t count = std::min(channel.sends.size(), channel.receives.size());
      for (std::size_t i = 0; i < count; ++i)
        addFlow(from, to, channel.sends[i], channel.receives[i]);
    }
  }

  void addFlow(int from, int to, const MessageEnd& send, const MessageEnd& receive) {
    if (send.extent.begin == kAbsent || receive.extent.begin == kAbsent) return;
    Lane& receiver = lanes_[static_cast<std::size_t>(to)];
    std::int64_t& sent = receiver.sent[receive.at];
    if (send.extent.begin >= sent) {
      sent = send.extent.begin;
      receiver.sender[receive.at] = from;
    }
    const auto nameOf = [](const Lane& lane, std::size_t at) {
      return lane.script->firstName + static_cast<std::int32_t>(at);
    };
    out_.flows.push_back({from, to, nameOf(lanes_[static_cast<std::size_t>(from)], send.at),
                          nameOf(receiver, receive.at), send.extent.begin, receive.extent.begin,
                          receive.extent.end});
  }

  void addSpans(int rank) {
    const Lane& lane = lanes_[static_cast<std::size_t>(rank)];
    StepTimeline::Lane& out = out_.lanes[static_cast<std::size_t>(rank)];
    for (const plan::Event* event : lane.events) {
      TimelineSpan span{event->begin, event->end, -1, -1, kindOf(*event), event->peer};
      std::int64_t ready = event->begin;  // until then it waits
      bool asynchronous = false;
      if (event->planStep >= 0 &&
          static_cast<std::size_t>(event->planStep) < lane.script->steps.size()) {
        const auto at = static_cast<std::size_t>(event->planStep);
        const plan::Step& step = *lane.script->steps[at];
        span.name = lane.script->firstName + event->planStep;
        span.collective = lane.collective[at];
        asynchronous =
            step.stream == plan::kCommunicationStream && span.kind == SpanKind::kTransfer;
        if (span.collective >= 0)
          ready = out_.collectives[static_cast<std::size_t>(span.collective)].last.at;
        else
          ready = std::max(ready, lane.sent[at]);
      }
      auto& to = asynchronous ? out.communication : out.spans;
      if (span.kind == SpanKind::kTransfer && ready > span.begin) {
        TimelineSpan wait = span;
        wait.kind = SpanKind::kWaiting;
        wait.end = std::min(span.end, ready);
        if (wait.length() > 0) to.push_back(wait);
        span.begin = wait.end;
      }
      if (span.length() > 0) to.push_back(span);
    }
    const auto earlier = [](const auto& a, const auto& b) { return a.begin < b.begin; };
    std::stable_sort(out.spans.begin(), out.spans.end(), earlier);
    std::stable_sort(out.communication.begin(), out.communication.end(), earlier);
    addGaps(out);
    for (auto* spans : {&out.spans, &out.communication})
      for (TimelineSpan& span : *spans)
        if (span.kind == SpanKind::kWaiting && span.waitsFor < 0)
          span.waitsFor = awaitedRank(rank, span);
  }

  // The last rank to arrive at a collective, or the sender of a message; -1: not known, or the
  // rank itself, whose transfer takes its time.
  std::int32_t awaitedRank(int rank, const TimelineSpan& wait) const {
    if (wait.name < 0) return -1;
    const Lane& lane = lanes_[static_cast<std::size_t>(rank)];
    const std::int32_t found =
        wait.collective >= 0
            ? out_.collectives[static_cast<std::size_t>(wait.collective)].last.rank
            : lane.sender[static_cast<std::size_t>(wait.name - lane.script->firstName)];
    return found == rank ? -1 : found;
  }

  // A rank that waits for an asynchronous transfer runs nothing until that ends.
  static void addGaps(StepTimeline::Lane& lane) {
    std::vector<TimelineSpan> gaps;
    std::size_t transfer = 0;
    for (std::size_t i = 1; i < lane.spans.size(); ++i) {
      const std::int64_t begin = lane.spans[i - 1].end, end = lane.spans[i].begin;
      if (end - begin < kLeastGap) continue;
      while (transfer < lane.communication.size() && lane.communication[transfer].end <= begin)
        ++transfer;
      std::size_t last = transfer;
      while (last + 1 < lane.communication.size() && lane.communication[last + 1].end <= end)
        ++last;
      if (last >= lane.communication.size()) continue;
      if (lane.communication[last].end > end || lane.communication[last].end <= begin) continue;
      gaps.push_back({begin, lane.communication[last].end, lane.communication[last].name,
                      lane.communication[last].collective, SpanKind::kWaiting});
    }
    const auto middle = static_cast<std::ptrdiff_t>(lane.spans.size());
    lane.spans.insert(lane.spans.end(), gaps.begin(), gaps.end());
    std::inplace_merge(lane.spans.begin(), lane.spans.begin() + middle, lane.spans.end(),
                       [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }

  // Times count from the first rank's begin.
  void shift() {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = 0;
    const auto all = [&](auto f) {
      for (auto& lane : out_.lanes)
        for (auto* spans : {&lane.spans, &lane.communication})
          for (TimelineSpan& span : *spans) f(span);
    };
    all([&](TimelineSpan& span) {
      last =
          first == std::numeric_limits<std::int64_t>::max() ? span.end : std::max(last, span.end);
      first = std::min(first, span.begin);
    });
    if (first == std::numeric_limits<std::int64_t>::max()) return;
    all([&](TimelineSpan& span) {
      span.begin -= first;
      span.end -= first;
    });
    for (auto& collective : out_.collectives) {
      for (auto& arrival : collective.arrivals) arrival.at -= first;
      collective.last.at -= first;
    }
    for (auto& flow : out_.flows)
      for (std::int64_t* at : {&flow.sent, &flow.awaited, &flow.received}) *at -= first;
    out_.length = last - first;
  }

  const plan::Plan& plan_;
  std::vector<std::vector<plan::ScheduleEntry>> schedule_;
  std::vector<Lane> lanes_;
  std::map<std::vector<int>, Script> scripts_;  // by stage and bodies
  std::map<std::pair<int, std::string>, std::vector<int>> groups_;
  std::map<std::tuple<std::string, int, int>, std::size_t> collectives_;
  std::map<std::pair<int, int>, Channel> channels_;  // from, to
  StepTimeline out_;
};

}  // namespace

std::int64_t StepTimeline::bytesOf(const TimelineSpan& span) const {
  const auto at = static_cast<std::size_t>(span.name);
  return span.kind == SpanKind::kTransfer && span.name >= 0 && at < bytes.size() ? bytes[at] : 0;
}

Result<plan::Plan> storedPlan(const std::string& text) {
  LOCKSTEP_ASSIGN(plan::Plan plan, plan::parse(text));
  if (const Status verified = plan::verify(plan); !verified.ok())
    return makeError(Code::kDataLoss, "the plan that the history has of it is damaged: {}",
                     verified.error().text());
  return plan;
}

StepTimeline makeTimeline(const plan::Plan& plan, const std::vector<plan::Event>& events) {
  return Builder(plan, events).build();
}

Result<StepTimeline> readTimeline(const RunStore& store, const plan::Plan& plan,
                                  std::int64_t step) {
  LOCKSTEP_ASSIGN(const StepEvents read, readEvents(store, step));
  StepTimeline out = makeTimeline(plan, read.events);
  out.slow = read.slow;
  return out;
}

Result<StepTimeline> predictTimeline(const plan::Plan& plan, const Preview& prediction) {
  cluster::Cluster cluster = prediction.cluster;
  if (static_cast<int>(cluster.devices.size()) != plan.mesh.size())
    return makeError(Code::kFailedPrecondition,
                     "the plan has {} ranks, but its stored prediction has {}", plan.mesh.size(),
                     cluster.devices.size());
  cluster.mesh = plan.mesh;
  constexpr int kSteps = 2;  // all ranks begin the first one together
  planner::SimulateOptions options;
  options.steps = kSteps;
  const planner::Simulation simulation = planner::simulate(plan, cluster, prediction.cost, options);
  std::vector<plan::Event> events;
  for (const plan::Event& event : simulation.events)
    if (event.step == kSteps) events.push_back(event);
  return makeTimeline(plan, events);
}

StepTimeline simulatedStep(const Preview& preview) {
  std::int64_t last = 0;
  for (const plan::Event& event : preview.simulation.events) last = std::max(last, event.step);
  std::vector<plan::Event> events;
  for (const plan::Event& event : preview.simulation.events)
    if (event.step == std::max<std::int64_t>(1, last - 1)) events.push_back(event);
  return makeTimeline(preview.plan, events);
}

std::int64_t stepToShow(const std::vector<EventStep>& told, std::int64_t wanted) {
  std::vector<std::int64_t> usual, whole;
  const auto first = std::find_if(told.begin(), told.end(), [](const auto& s) { return !s.slow; });
  int ranks = first == told.end() ? 0 : first->ranks;  // of the last sampled step
  for (const EventStep& step : told) {
    if (!step.slow) {
      usual.push_back(step.step);
      ranks = step.ranks;
    }
    if (step.ranks >= ranks) whole.push_back(step.step);
  }
  if (wanted == 0 && !whole.empty()) return usual.empty() ? whole.back() : usual.back();
  return nearestSampled(whole, wanted);
}

std::int64_t nearestSampled(const std::vector<std::int64_t>& sampled, std::int64_t step) {
  if (sampled.empty()) return 0;
  const auto after = std::lower_bound(sampled.begin(), sampled.end(), step);
  if (after == sampled.end()) return sampled.back();
  if (after == sampled.begin()) return *after;
  return *after - step < step - *(after - 1) ? *after : *(after - 1);
}

}  // namespace lockstep::app
