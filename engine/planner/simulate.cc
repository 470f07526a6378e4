// Discrete events in virtual time. A host is a queue under processor sharing: while its ranks ask
// for more cores than it has, all of them advance at one common rate. So a host keeps one clock of
// work done per rank, and a rank's computation ends at a fixed reading of that clock.
//
// Where nothing tells the ranks of a stage apart, they do the same at the same times: then the
// first of each stage is simulated, and stands for the others.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <stop_token>
#include <tuple>
#include <utility>

#include "engine/planner/planner.h"
#include "engine/planner/pricing.h"
#include "engine/planner/replay.h"

namespace lockstep::planner {
namespace {

using plan::Event;
using plan::EventKind;

// What is watched follows the update, and counts as part of it.
bool isOfOptimizer(ir::Phase phase) {
  return phase == ir::Phase::kOptimizer || phase == ir::Phase::kWatch;
}

// Within what can be subtracted: costs that a node tells may be of any size.
std::int64_t nanoseconds(double seconds) { return std::llround(std::min(seconds * 1e9, 0x1p61)); }

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class Simulator {
 public:
  // `schedule` holds what the ranks run, by stage. `measured`, if not null, is in the place of all
  // prices, and `replayed` tells the rest of a replay.
  Simulator(const plan::Plan& plan, const std::vector<std::vector<plan::ScheduleEntry>>& schedule,
            const cluster::Cluster& cluster, const CostModel& cost, const SimulateOptions& options,
            const MeasuredSeconds* measured = nullptr, ReplayOptions replayed = {})
      : plan_(plan),
        cost_(cost),
        prices_(plan, cluster, cost),
        options_(options),
        measured_(measured),
        replay_(std::move(replayed)) {
    std::map<std::string, std::size_t> hosts;
    for (const cluster::Host& host : cluster.hosts) {
      hosts.emplace(host.name, hosts_.size());
      hosts_.push_back({static_cast<double>(std::max(host.cores, 1))});
    }
    ranks_.resize(static_cast<std::size_t>(plan.mesh.size()));
    std::map<cluster::DeviceRates, int> speeds;
    std::map<std::vector<int>, std::size_t> scripts;  // by stage, speed, bodies of the entries
    rates_.reserve(ranks_.size());
    for (int r = 0; r < plan.mesh.size(); ++r) {
      rates_.push_back(ratesOf(std::span(&r, 1), cluster, plan.precision, cost));
      speeds.try_emplace(rates_.back(), static_cast<int>(speeds.size()));
    }
    isMixed_ = speeds.size() > 1;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      rank.stage = plan.stageOf(static_cast<int>(r));
      const auto& entries = schedule[static_cast<std::size_t>(rank.stage)];
      std::vector<int> bodies{rank.stage, speeds.at(rates_[r])};
      for (const plan::ScheduleEntry& entry : entries) {
        bodies.push_back(plan.find(entry.program)->bodyOfRank[r]);
      }
      const auto [known, isFirst] = scripts.emplace(std::move(bodies), scripts_.size());
      if (isFirst) scripts_.push_back(scriptOf(entries, static_cast<int>(r), cluster));
      rank.script = known->second;
      std::string host = fmt::format("rank {}", r);  // unknown: a host of its own
      if (r < cluster.devices.size()) {
        if (cluster.devices[r].kind != "cuda")  // else it has what it computes on for itself
          host =
              cluster.devices[r].host.empty() ? cluster.devices[r].node : cluster.devices[r].host;
        rank.threads = std::max(cluster.devices[r].threads, 1);
      }
      const auto [entry, isNew] = hosts.emplace(host, hosts_.size());
      if (isNew) hosts_.push_back({static_cast<double>(rank.threads)});
      rank.host = entry->second;
      if (r < options.slowdown.size()) rank.slowdown = options.slowdown[r];
    }
    chooseSimulated();
  }

  Simulation run() {
    play();
    return results();
  }
  Replay replayed() {
    play();
    Replay out;
    if (replay_.stop.stop_requested()) return out;
    Simulation simulation = results();
    out.ranks = std::move(simulation.ranks);
    out.events = std::move(simulation.events);
    out.stepSeconds.resize(static_cast<std::size_t>(options_.steps));
    for (const Rank& rank : ranks_) {
      out.slowestSeconds = std::max(out.slowestSeconds, rank.ends.back() / options_.steps);
      for (std::size_t step = 0; step < rank.ends.size(); ++step)
        out.stepSeconds[step] += (rank.ends[step] - (step > 0 ? rank.ends[step - 1] : 0)) /
                                 static_cast<double>(ranks_.size());
    }
    return out;
  }

 private:
  void play() {
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (isSimulated(r)) beginStep(r);
    while (!agenda_.empty() && !replay_.stop.stop_requested()) {
      const Due due = agenda_.top();
      agenda_.pop();
      if (due.kind == Due::Kind::kCollective) {
        now_ = due.time;
        finishCollective(due.index);
      } else if (due.kind == Due::Kind::kMessage) {
        now_ = due.time;
        receive(due.index);
      } else if (due.version == hosts_[due.index].version) {
        now_ = due.time;
        finishWork(due.index);
      }
    }
  }

  // All entries of a rank's step, one after another.
  struct Script {
    std::vector<const plan::Step*> steps;
    std::vector<double> seconds;
    std::vector<plan::Peers> peers;
    // Of what is asynchronous the step, or the end, waits for the last of so many from the
    // beginning.
    std::vector<int> awaited;
  };
  Script scriptOf(const std::vector<plan::ScheduleEntry>& entries, int rank,
                  const cluster::Cluster& cluster) const {
    Script script;
    int asynchronous = 0;
    for (const plan::ScheduleEntry& entry : entries) {
      const plan::Body& body = *plan_.find(entry.program, rank);
      const cluster::DeviceRates& rates = rates_[static_cast<std::size_t>(rank)];
      const cluster::DeviceRates slowest =
          isMixed_ && measured_ == nullptr ? slowestOf(entry.program, rank, cluster) : rates;
      const int before = asynchronous;  // an entry ends when all of it has ended
      std::vector<int> numbers;         // of the asynchronous ones, from 1
      for (const plan::Step& step : body.steps) {
        int awaited = before;
        for (const plan::StepId id : step.after)
          awaited = std::max(awaited, numbers[static_cast<std::size_t>(id)]);
        const bool isAsync = step.stream == plan::kCommunicationStream;
        numbers.push_back(isAsync ? ++asynchronous : 0);
        script.awaited.push_back(isAsync ? 0 : awaited);
        script.steps.push_back(&step);
        script.peers.push_back(plan::peersOf(step, entry.copy));
        if (measured_ != nullptr) continue;
        double seconds = step.seconds > 0 ? step.seconds : prices_.of(body, step, rates);
        if (step.seconds > 0 && step.kind == plan::StepKind::kCompute && rates != slowest)
          seconds *= prices_.of(body, step, rates) / prices_.of(body, step, slowest);
        script.seconds.push_back(seconds * shareOf(step, rank, cluster));
      }
    }
    script.awaited.push_back(asynchronous);
    return script;
  }

  // The rates by which the steps of a rank's body are predicted: those of its slowest rank.
  cluster::DeviceRates slowestOf(std::string_view program, int rank,
                                 const cluster::Cluster& cluster) const {
    const std::vector<int>& bodies = plan_.find(program)->bodyOfRank;
    std::vector<int> alike;
    for (std::size_t r = 0; r < bodies.size(); ++r)
      if (bodies[r] == bodies[static_cast<std::size_t>(rank)]) alike.push_back(static_cast<int>(r));
    return ratesOf(alike, cluster, plan_.precision, cost_);
  }

  // What is watched takes its time in one of so many steps, on a device in each: every step of the
  // simulation has its share.
  double shareOf(const plan::Step& step, int rank, const cluster::Cluster& cluster) const {
    const auto r = static_cast<std::size_t>(rank);
    const bool always = r < cluster.devices.size() && cluster.devices[r].kind == "cuda";
    if (step.phase != ir::Phase::kWatch || plan_.watchEvery < 2 || always) return 1;
    return 1 / static_cast<double>(plan_.watchEvery);
  }

  struct Rank {
    std::size_t script = 0, host = 0;
    std::size_t simulatedAs = 0;  // the rank that is simulated in its place, or itself
    int stage = 0;
    int threads = 1;
    double slowdown = 1;
    int at = -1;            // step of the script; -1: data
    int stepsDone = 0;      // training steps done
    double since = 0;       // when what it does now began
    std::size_t peers = 0;  // from how many it has what it receives now
    std::vector<Event> events;
    std::vector<double> ends;
    Simulation::Breakdown spent;  // in all counted steps
    // Asynchronous work of this step: posted, and done.
    std::vector<int> posted;
    std::size_t completed = 0;
    bool awaits = false;  // something asynchronous
    // seconds of asynchronous transfers that it waited for, and did not
    double exposed = 0, hidden = 0;
  };
  struct Host {
    double cores = 1;
    double demand = 0;  // threads of the ranks at work
    double work = 0;    // seconds of work each rank at work has done since the start
    double updated = 0;
    std::uint64_t version = 0;
    std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>,
                        std::greater<>>
        queue{};  // reading of `work` at the end, rank
    double rate() const { return demand > cores ? cores / demand : 1; }
  };
  struct Group {  // of ranks along an axis
    std::vector<int> members{};
    std::size_t expected = 0;  // those that are simulated
    // of the collective that it is in
    std::vector<std::size_t> arrived{};
    double started = 0;
    bool asynchronous = false;
  };
  struct Due {
    double time;
    std::uint64_t order;  // ties in the order of their making
    enum class Kind : std::uint8_t { kWork, kCollective, kMessage } kind;
    std::size_t index;  // host, group, or the rank that receives
    std::uint64_t version;
    bool operator>(const Due& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };

  // Whether the ranks of a stage cannot be told apart: they run the same, equally fast, and never
  // wait for a core.
  bool areStagesUniform() const {
    if (measured_ != nullptr) return false;
    const std::vector<cluster::Axis>& axes = plan_.mesh.axes();
    if (plan_.mesh.servers() > 0) return false;
    if (plan_.mesh.stages() > 1 && axes.front().name != cluster::kStageAxis) return false;
    std::vector<double> demands(hosts_.size());
    std::vector<const Rank*> firsts(static_cast<std::size_t>(plan_.mesh.stages()));
    for (const Rank& rank : ranks_) {
      demands[rank.host] += rank.threads;
      if (demands[rank.host] > hosts_[rank.host].cores) return false;
      const Rank*& first = firsts[static_cast<std::size_t>(rank.stage)];
      if (first == nullptr) first = &rank;
      if (first->script != rank.script || first->slowdown != rank.slowdown) return false;
    }
    return true;
  }
  void chooseSimulated() {
    const bool uniform = areStagesUniform();
    std::vector<std::size_t> firsts(static_cast<std::size_t>(plan_.mesh.stages()), ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::size_t& first = firsts[static_cast<std::size_t>(ranks_[r].stage)];
      first = std::min(first, r);
      ranks_[r].simulatedAs = uniform ? first : r;
    }
  }
  bool isSimulated(std::size_t r) const { return ranks_[r].simulatedAs == r; }
  // The group of a simulated rank along an axis.
  std::size_t groupOf(std::size_t r, const std::string& axis) {
    std::vector<std::size_t>& ofRank = groupOf_[axis];
    ofRank.resize(ranks_.size(), kNone);
    if (ofRank[r] != kNone) return ofRank[r];
    Group group{plan_.mesh.group(static_cast<int>(r), axis)};
    for (const int member : group.members) {
      const auto m = static_cast<std::size_t>(member);
      ofRank[m] = groups_.size();
      if (isSimulated(m)) ++group.expected;
    }
    groups_.push_back(std::move(group));
    return ofRank[r];
  }

  void advance(Host& host) {
    host.work += (now_ - host.updated) * host.rate();
    host.updated = now_;
  }
  void reschedule(std::size_t index) {
    Host& host = hosts_[index];
    ++host.version;
    if (host.queue.empty()) return;
    const double left = std::max(host.queue.top().first - host.work, 0.0) / host.rate();
    agenda_.push({now_ + left, order_++, Due::Kind::kWork, index, host.version});
  }
  // Of a step of the rank's script in its current training step.
  double secondsOf(std::size_t r, int at) const {
    const Rank& rank = ranks_[r];
    if (measured_ != nullptr) return (*measured_)(static_cast<int>(r), rank.stepsDone, at);
    return at < 0 ? cost_.stepOverheadSeconds
                  : scripts_[rank.script].seconds[static_cast<std::size_t>(at)];
  }
  // Of a message that the rank sends or receives.
  double busySeconds(std::size_t r) const {
    return replay_.busy ? replay_.busy(static_cast<int>(r), ranks_[r].stepsDone, ranks_[r].at) : 0;
  }
  void work(std::size_t r, double seconds) {
    Rank& rank = ranks_[r];
    Host& host = hosts_[rank.host];
    advance(host);
    rank.since = now_;
    host.demand += rank.threads;
    host.queue.emplace(host.work + seconds * rank.slowdown, r);
    reschedule(rank.host);
  }

  void beginStep(std::size_t r) {
    ranks_[r].at = -1;
    ranks_[r].posted.clear();
    ranks_[r].completed = 0;
    work(r, secondsOf(r, -1));
  }

  EventKind kindOf(const Rank& rank) const {  // of its work
    if (rank.at < 0) return EventKind::kData;
    const plan::Step& step = *scripts_[rank.script].steps[static_cast<std::size_t>(rank.at)];
    return step.kind == plan::StepKind::kCompute ? EventKind::kCompute : EventKind::kTransfer;
  }
  void finishWork(std::size_t index) {
    Host& host = hosts_[index];
    advance(host);
    const std::size_t r = host.queue.top().second;
    host.work = std::max(host.work, host.queue.top().first);
    host.queue.pop();
    Rank& rank = ranks_[r];
    host.demand -= rank.threads;
    reschedule(index);
    record(rank, r, kindOf(rank), rank.since, now_);
    next(r);
  }

  void next(std::size_t r) {
    ++ranks_[r].at;
    come(r);
  }
  // To the step that the rank is at now.
  void come(std::size_t r) {
    Rank& rank = ranks_[r];
    const auto& steps = scripts_[rank.script].steps;
    const int awaited = scripts_[rank.script].awaited[static_cast<std::size_t>(rank.at)];
    if (rank.completed < static_cast<std::size_t>(awaited)) {
      rank.since = now_;
      rank.awaits = true;
      return;
    }
    if (static_cast<std::size_t>(rank.at) == steps.size()) {
      rank.ends.push_back(now_);
      if (++rank.stepsDone < options_.steps) beginStep(r);
      return;
    }
    const plan::Step& step = *steps[static_cast<std::size_t>(rank.at)];
    if (step.stream == plan::kCommunicationStream) {
      rank.posted.push_back(rank.at);
      if (rank.posted.size() == rank.completed + 1) issue(r);
      next(r);
    } else if (step.kind == plan::StepKind::kCompute) {
      work(r, secondsOf(r, rank.at));
    } else if (!replay_.waitForStages && plan::isMessage(step) &&
               step.axis == cluster::kStageAxis) {
      next(r);
    } else if (plan::isSend(step)) {
      send(r, step);
    } else if (plan::isMessage(step)) {
      rank.since = now_;
      rank.peers = 0;
      await(r, step);
    } else {
      rank.since = now_;
      arrive(r, step, secondsOf(r, rank.at));
    }
  }
  // The oldest that has been posted and is not done.
  void issue(std::size_t r) {
    Rank& rank = ranks_[r];
    const int at = rank.posted[rank.completed];
    arrive(r, *scripts_[rank.script].steps[static_cast<std::size_t>(at)], secondsOf(r, at));
  }

  // A message travels while its sender goes on; those to one rank travel one after another.
  struct Channel {
    std::vector<double> there;  // when each message has arrived
    std::size_t received = 0;
    std::optional<std::size_t> awaitedBy;
  };
  const plan::Peers& peersOf(const Rank& rank) const {
    return scripts_[rank.script].peers[static_cast<std::size_t>(rank.at)];
  }
  std::size_t peerOf(std::size_t r, const plan::Step& step, std::size_t index) {
    const std::vector<int>& members = groups_[groupOf(r, step.axis)].members;
    return static_cast<std::size_t>(
        members[static_cast<std::size_t>(peersOf(ranks_[r]).first) + index]);
  }
  void send(std::size_t r, const plan::Step& step) {
    Rank& rank = ranks_[r];
    const double seconds = secondsOf(r, rank.at);
    for (std::size_t peer = 0; peer < static_cast<std::size_t>(peersOf(rank).count); ++peer) {
      Channel& channel = channels_[{r, peerOf(r, step, peer)}];
      const double free = channel.there.empty() ? now_ : std::max(now_, channel.there.back());
      channel.there.push_back(free + seconds);
      if (!channel.awaitedBy) continue;
      agenda_.push({channel.there.back(), order_++, Due::Kind::kMessage, *channel.awaitedBy, 0});
      channel.awaitedBy.reset();
    }
    if (const double busy = busySeconds(r); busy > 0) return work(r, busy);
    record(rank, r, EventKind::kTransfer, now_, now_);
    next(r);
  }
  // Wakes the rank when its next message is there; where it has not been sent, its sender does.
  void await(std::size_t r, const plan::Step& step) {
    Channel& channel = channels_[{peerOf(r, step, ranks_[r].peers), r}];
    if (channel.received == channel.there.size()) {
      channel.awaitedBy = r;
    } else {
      const double copied = now_ + busySeconds(r) / peersOf(ranks_[r]).count;
      agenda_.push(
          {std::max(copied, channel.there[channel.received]), order_++, Due::Kind::kMessage, r, 0});
    }
  }
  void receive(std::size_t r) {
    Rank& rank = ranks_[r];
    const plan::Step& step = *scripts_[rank.script].steps[static_cast<std::size_t>(rank.at)];
    const std::size_t peer = peerOf(r, step, rank.peers);
    Channel& channel = channels_[{peer, r}];
    const double there = channel.there[channel.received++];
    if (++rank.peers < static_cast<std::size_t>(peersOf(rank).count)) return await(r, step);
    const double began =
        std::max(rank.since, replay_.busy ? now_ - busySeconds(r) : there - secondsOf(r, rank.at));
    if (began > rank.since)
      record(rank, r, EventKind::kWaiting, rank.since, began, static_cast<std::int32_t>(peer));
    record(rank, r, EventKind::kTransfer, began, now_);
    next(r);
  }

  void arrive(std::size_t r, const plan::Step& step, double seconds) {
    const std::size_t index = groupOf(r, step.axis);
    Group& group = groups_[index];
    group.arrived.push_back(r);
    if (group.arrived.size() < group.expected) return;
    group.started = now_;
    group.asynchronous = step.stream == plan::kCommunicationStream;
    agenda_.push({now_ + seconds, order_++, Due::Kind::kCollective, index, 0});
  }

  void finishCollective(std::size_t index) {
    const std::vector<std::size_t> ranks = std::exchange(groups_[index].arrived, {});
    const double started = groups_[index].started;
    if (groups_[index].asynchronous) {
      for (const std::size_t r : ranks) complete(r, started);
      return;
    }
    for (const std::size_t r : ranks) {
      Rank& rank = ranks_[r];
      if (started > rank.since)
        record(rank, r, EventKind::kWaiting, rank.since, started,
               static_cast<std::int32_t>(ranks.back()));
      record(rank, r, EventKind::kTransfer, started, now_);
    }
    for (const std::size_t r : ranks) next(r);
  }
  // Asynchronous work costs the rank only the time it waits for it.
  void complete(std::size_t r, double started) {
    Rank& rank = ranks_[r];
    const int comesTo = std::exchange(rank.at, rank.posted[rank.completed++]);
    if (rank.awaits && started > rank.since)
      record(rank, r, EventKind::kWaiting, rank.since, started);
    record(rank, r, EventKind::kTransfer, started, now_);
    if (isCounted(rank.stepsDone + 1)) {
      const double exposed = rank.awaits ? now_ - std::max(rank.since, started) : 0;
      rank.exposed += exposed;
      rank.hidden += now_ - started - exposed;
    }
    rank.at = comesTo;
    if (rank.completed < rank.posted.size()) issue(r);
    if (!std::exchange(rank.awaits, false)) return;
    come(r);
  }

  void record(Rank& rank, std::size_t r, EventKind kind, double begin, double end,
              std::int32_t peer = -1) {
    const plan::Step* step =
        rank.at < 0 ? nullptr : scripts_[rank.script].steps[static_cast<std::size_t>(rank.at)];
    Event event;
    event.rank = static_cast<std::int32_t>(r);
    event.step = rank.stepsDone + 1;
    event.planStep = rank.at;
    event.kind = kind;
    event.phase = step == nullptr ? ir::Phase::kData : step->phase;
    if (step != nullptr && kind == EventKind::kTransfer) event.bytes = step->bytes;
    event.peer = peer;
    event.asynchronous = step != nullptr && step->stream == plan::kCommunicationStream;
    event.begin = nanoseconds(begin);
    event.end = nanoseconds(end);
    if (isCounted(event.step)) add(event, rank.spent);
    if (options_.events) rank.events.push_back(event);
  }
  static void add(const Event& event, Simulation::Breakdown& spent) {
    const double seconds = static_cast<double>(event.end - event.begin) * 1e-9;
    switch (event.kind) {
      case EventKind::kData:
        spent.data += seconds;
        break;
      case EventKind::kWaiting:
        spent.waiting += seconds;
        break;
      case EventKind::kTransfer:
        spent.transfer += event.asynchronous ? 0 : seconds;
        break;
      case EventKind::kCompute:
        (event.phase == ir::Phase::kBackward ? spent.backward
         : isOfOptimizer(event.phase)        ? spent.optimizer
                                             : spent.forward) += seconds;
    }
  }

  bool isCounted(std::int64_t step) const { return options_.steps == 1 || step > 1; }

  // The first step is left out of the means where there is another: all ranks begin it together.
  Simulation results() {
    Simulation result;
    const int counted = options_.steps > 1 ? options_.steps - 1 : 1;
    double firstEnd = 0, lastEnd = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[ranks_[r].simulatedAs];
      firstEnd = std::max(firstEnd, rank.ends.front());
      lastEnd = std::max(lastEnd, rank.ends.back());
      Simulation::Breakdown spent = rank.spent;
      spent.transfer += rank.exposed;
      spent.hidden = rank.hidden;
      for (double* part : {&spent.data, &spent.forward, &spent.backward, &spent.waiting,
                           &spent.transfer, &spent.optimizer, &spent.hidden})
        *part /= counted;
      result.ranks.push_back(spent);
      if (isSimulated(r))
        std::stable_sort(rank.events.begin(), rank.events.end(),
                         [](const Event& a, const Event& b) {
                           return std::tie(a.step, a.planStep) < std::tie(b.step, b.planStep);
                         });
      // Stages are the slowest axis: a peer is as far from the rank as from that simulated.
      const auto shift = static_cast<std::int32_t>(r - ranks_[r].simulatedAs);
      for (Event event : rank.events) {
        event.rank += shift;
        if (event.peer >= 0) event.peer += shift;
        result.events.push_back(event);
      }
    }
    result.stepSeconds = options_.steps > 1 ? (lastEnd - firstEnd) / counted : lastEnd;
    return result;
  }

  const plan::Plan& plan_;
  const CostModel& cost_;
  const Prices prices_;
  const SimulateOptions& options_;
  const MeasuredSeconds* const measured_;
  const ReplayOptions replay_;
  std::vector<cluster::DeviceRates> rates_;  // by rank
  bool isMixed_ = false;                     // they differ
  std::vector<Script> scripts_;
  std::vector<Rank> ranks_;
  std::vector<Host> hosts_;
  std::vector<Group> groups_;
  std::map<std::string, std::vector<std::size_t>, std::less<>> groupOf_;  // by axis and rank
  std::map<std::pair<std::size_t, std::size_t>, Channel> channels_;       // from, to
  std::priority_queue<Due, std::vector<Due>, std::greater<>> agenda_;
  std::uint64_t order_ = 0;
  double now_ = 0;
};

}  // namespace

Simulation simulate(const plan::Plan& plan, const cluster::Cluster& cluster, const CostModel& cost,
                    const SimulateOptions& options) {
  std::vector<std::vector<plan::ScheduleEntry>> schedule = plan.schedule;
  if (options.program != "step") {
    if (plan.find(options.program) == nullptr) return {};
    schedule.assign(schedule.size(), {{options.program, 0, 0}});
  }
  if (schedule.empty() || schedule[0].empty() || options.steps < 1 || plan.mesh.size() < 1) {
    return {};
  }
  return Simulator(plan, schedule, cluster, cost, options).run();
}

Replay replay(const plan::Plan& plan, const MeasuredSeconds& seconds,
              const ReplayOptions& options) {
  if (plan.schedule.empty() || plan.schedule[0].empty() || options.steps < 1 ||
      plan.mesh.size() < 1)
    return {};
  SimulateOptions simulated;
  simulated.steps = options.steps;
  simulated.events = options.events;
  const cluster::Cluster ownCores;  // none known: each rank has a host of its own
  const CostModel unpriced;
  return Simulator(plan, plan.schedule, ownCores, unpriced, simulated, &seconds, options)
      .replayed();
}

}  // namespace lockstep::planner
