#include "app/whatif/sampled_steps.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <tuple>

#include "engine/base/statistics.h"

namespace lockstep::app {

SampledSteps::SampledSteps(MeasuredRun& out) : out_(out) {
  makeScripts();
  findExchanges();
}

void SampledSteps::makeScripts() {
  out_.ranks.resize(static_cast<std::size_t>(out_.plan.mesh.size()));
  for (std::size_t r = 0; r < out_.ranks.size(); ++r) {
    MeasuredRun::Rank& rank = out_.ranks[r];
    const auto& entries = out_.plan.entriesOf(static_cast<int>(r));
    for (std::size_t e = 0; e < entries.size(); ++e)
      for (const plan::Step& step :
           out_.plan.find(entries[e].program, static_cast<int>(r))->steps) {
        rank.script.push_back(&step);
        rank.entryOf.push_back(e);
      }
    rank.exchange.assign(rank.script.size(), -1);
    rank.messages.assign(rank.script.size(), 0);
    rank.seconds.assign(rank.script.size(), 0);
  }
}

const std::vector<int>& SampledSteps::groupOf(int rank, const std::string& axis) {
  const auto [known, isNew] = groups_.try_emplace({rank, axis});
  if (isNew) known->second = out_.plan.mesh.group(rank, axis);
  return known->second;
}

std::vector<int> SampledSteps::peersOf(int rank, std::size_t at) {
  const MeasuredRun::Rank& own = out_.ranks[static_cast<std::size_t>(rank)];
  const plan::Step& step = *own.script[at];
  const int copy = out_.plan.entriesOf(rank)[own.entryOf[at]].copy;
  const plan::Peers peers = plan::peersOf(step, copy);
  const std::vector<int>& group = groupOf(rank, step.axis);
  return {group.begin() + peers.first, group.begin() + peers.first + peers.count};
}

// All ranks of a group run its collectives in one order; messages between two ranks arrive in
// the order in which they are sent.
void SampledSteps::findExchanges() {
  std::map<std::tuple<std::string_view, int, int>, int> collectives;
  std::map<std::pair<int, int>, std::vector<int>> sent;  // exchanges, from and to
  out_.scalesExchanges = true;
  for (int r = 0; r < static_cast<int>(out_.ranks.size()); ++r) {
    MeasuredRun::Rank& rank = out_.ranks[static_cast<std::size_t>(r)];
    std::map<std::string_view, int> ordinals;  // by axis
    for (std::size_t i = 0; i < rank.script.size(); ++i) {
      const plan::Step& step = *rank.script[i];
      if (step.kind != plan::StepKind::kCollective) continue;
      const bool isMessage = plan::isMessage(step);
      if (isMessage || step.stream != plan::kComputeStream) out_.scalesExchanges = false;
      if (isMessage) rank.messages[i] = static_cast<int>(peersOf(r, i).size());
      if (isMessage && !plan::isSend(step)) continue;
      int exchange = static_cast<int>(out_.exchanges.size());
      if (isMessage)
        for (const int peer : peersOf(r, i)) sent[{r, peer}].push_back(exchange);
      else
        exchange =
            collectives
                .try_emplace({step.axis, groupOf(r, step.axis)[0], ordinals[step.axis]++}, exchange)
                .first->second;
      if (exchange == static_cast<int>(out_.exchanges.size())) out_.exchanges.emplace_back();
      if (isMessage) out_.exchanges.back().receivers = peersOf(r, i);
      out_.exchanges[static_cast<std::size_t>(exchange)].places.emplace_back(
          r, static_cast<plan::StepId>(i));
      rank.exchange[i] = exchange;
    }
  }
  if (out_.exchanges.empty()) out_.scalesExchanges = false;
  findReceives(std::move(sent));
}

void SampledSteps::findReceives(std::map<std::pair<int, int>, std::vector<int>> sent) {
  std::map<std::pair<int, int>, std::size_t> received;
  for (int r = 0; r < static_cast<int>(out_.ranks.size()); ++r) {
    const MeasuredRun::Rank& rank = out_.ranks[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < rank.script.size(); ++i) {
      if (!plan::isMessage(*rank.script[i]) || plan::isSend(*rank.script[i])) continue;
      Receive receive{r, static_cast<plan::StepId>(i), {}};
      for (const int peer : peersOf(r, i)) {
        const std::vector<int>& all = sent[{peer, r}];
        if (const std::size_t next = received[{peer, r}]++; next < all.size())
          receive.exchanges.push_back(all[next]);
      }
      for (const int exchange : receive.exchanges)
        for (const int other : receive.exchanges)
          if (other != exchange)
            out_.exchanges[static_cast<std::size_t>(exchange)].alongside.push_back(
                out_.exchanges[static_cast<std::size_t>(other)].places.front().first);
      receives_.push_back(std::move(receive));
    }
  }
}

void SampledSteps::average() {
  const double all = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (MeasuredRun::Rank& rank : out_.ranks)
    for (std::size_t i = 0; i < rank.script.size(); ++i) {
      rank.seconds[i] /= all;
      if (rank.script[i]->kind == plan::StepKind::kCompute)
        rank.usual[static_cast<std::size_t>(ownPartOf(rank.script[i]->phase))] += rank.seconds[i];
    }
  for (MeasuredRun::Exchange& exchange : out_.exchanges)
    for (std::size_t k = 0; k < weights_.size(); ++k)
      exchange.seconds += exchange.inStep[k] * weights_[k] / all;
}

// None where they are not those of all ranks.
std::optional<SampledSteps::Intervals> SampledSteps::intervalsOf(
    const std::vector<plan::Event>& events) const {
  Intervals out(out_.ranks.size());
  for (std::size_t r = 0; r < out.size(); ++r) out[r].resize(out_.ranks[r].script.size());
  for (const plan::Event& event : events) {
    if (event.rank < 0 || static_cast<std::size_t>(event.rank) >= out.size()) continue;
    std::vector<Interval>& ofRank = out[static_cast<std::size_t>(event.rank)];
    if (event.planStep < 0 || static_cast<std::size_t>(event.planStep) >= ofRank.size() ||
        event.end < event.begin)
      continue;
    Interval& one = ofRank[static_cast<std::size_t>(event.planStep)];
    one.begin = one.isKnown ? std::min(one.begin, event.begin) : event.begin;
    one.end = one.isKnown ? std::max(one.end, event.end) : event.end;
    one.isKnown = true;
  }
  for (const auto& ofRank : out)
    if (!std::all_of(ofRank.begin(), ofRank.end(), [](const Interval& i) { return i.isKnown; }))
      return std::nullopt;
  return out;
}

void SampledSteps::add(std::int64_t step, double weight, const std::vector<plan::Event>& events) {
  const auto intervals = intervalsOf(events);
  if (!intervals) return;
  out_.sampled.push_back(step);
  weights_.push_back(weight);
  for (std::size_t r = 0; r < out_.ranks.size(); ++r)
    for (std::size_t i = 0; i < (*intervals)[r].size(); ++i)
      if (out_.ranks[r].script[i]->kind == plan::StepKind::kCompute)
        out_.ranks[r].seconds[i] += weight * (*intervals)[r][i].seconds();
  addCollectives(*intervals);
  addMessages(*intervals);
}

void SampledSteps::addCollectives(const Intervals& intervals) {
  const auto at = [&](int rank, plan::StepId id) {
    return intervals[static_cast<std::size_t>(rank)][static_cast<std::size_t>(id)];
  };
  for (MeasuredRun::Exchange& exchange : out_.exchanges) {
    const auto& [rank, id] = exchange.places.front();
    const plan::Step& first =
        *out_.ranks[static_cast<std::size_t>(rank)].script[static_cast<std::size_t>(id)];
    double seconds = 0;  // of messages: their receivers tell
    if (!plan::isMessage(first)) {
      std::int64_t last = at(rank, id).begin;  // to arrive
      for (const auto& [member, place] : exchange.places)
        last = std::max(last, at(member, place).begin);
      for (const auto& [member, place] : exchange.places)
        seconds += static_cast<double>(at(member, place).end - last) * 1e-9 /
                   static_cast<double>(exchange.places.size());
    }
    exchange.inStep.push_back(std::max(seconds, 0.0));
  }
}

// A message that was sent after its receiver had begun to wait took until the end of the receive.
// Of one that was sent before, that is the most, and the receive itself the least; between these
// it took as long as others of its size.
void SampledSteps::addMessages(const Intervals& intervals) {
  const auto at = [&](int rank, plan::StepId id) {
    return intervals[static_cast<std::size_t>(rank)][static_cast<std::size_t>(id)];
  };
  struct Bounds {
    double least = 0, most = 0;
    std::int64_t bytes = 0;
  };
  std::vector<Bounds> all;
  std::map<std::int64_t, std::vector<double>> exact;  // by size
  for (const Receive& receive : receives_) {
    const Interval own = at(receive.rank, receive.at);
    std::int64_t sent = std::numeric_limits<std::int64_t>::min();
    for (const int exchange : receive.exchanges) {
      const auto& [rank, id] = out_.exchanges[static_cast<std::size_t>(exchange)].places.front();
      sent = std::max(sent, at(rank, id).begin);
    }
    Bounds& bounds = all.emplace_back();
    if (receive.exchanges.empty()) continue;
    const auto until = [&](std::int64_t begin) {
      return std::max(0.0, static_cast<double>(own.end - begin) * 1e-9);
    };
    bounds = {until(std::max(own.begin, sent)), until(sent),
              out_.bytesOfMessage(receive.rank, receive.at)};
    if (sent >= own.begin) exact[bounds.bytes].push_back(bounds.least);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto known = exact.find(all[i].bytes);
    const double usual = known == exact.end() ? all[i].least : lowerMedian(known->second);
    const double seconds = std::clamp(usual, all[i].least, all[i].most);
    if (!receives_[i].exchanges.empty() && all[i].most - all[i].least >= usual)
      out_.busy[all[i].bytes].receiving.push_back(
          all[i].least / static_cast<double>(receives_[i].exchanges.size()));
    for (const int exchange : receives_[i].exchanges) {
      double& longest = out_.exchanges[static_cast<std::size_t>(exchange)].inStep.back();
      longest = std::max(longest, seconds);
    }
  }
  for (const MeasuredRun::Exchange& exchange : out_.exchanges) {
    if (exchange.receivers.empty()) continue;
    const auto& [rank, id] = exchange.places.front();
    out_.busy[out_.bytesOfMessage(rank, id)].sending.push_back(
        at(rank, id).seconds() / static_cast<double>(exchange.receivers.size()));
  }
}

}  // namespace lockstep::app
