#include "app/runs/run_aggregator.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "app/runs/program_sources.h"
#include "engine/base/statistics.h"
#include "engine/specs/error_info.h"
#include "engine/specs/node_figures.h"
#include "engine/specs/specs.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostDurations = 4000;
constexpr std::size_t kMostReported = 2000;  // series of a program
constexpr std::size_t kMostSources = 10000;  // of all ranks

template <typename List>
double at(const List& list, int index) {
  return index < list.size() ? static_cast<double>(list.Get(index)) : 0.0;
}

// The series of a program's value. What our engine measures too has its name, so that runs of both
// can be compared.
std::string scalarSeries(const std::string& tag) {
  static constexpr std::string_view kShared[] = {
      "loss",    "learning_rate", "gradient_norm",      "update_ratio",
      "samples", "tokens",        "samples_per_second", "tokens_per_second"};
  const bool shared =
      isMetric(tag) || std::find(std::begin(kShared), std::end(kShared), tag) != std::end(kShared);
  return shared ? tag : "scalar/" + tag;
}

// To the millisecond: clocks of nodes differ by about as much, and whole milliseconds take fewer
// bytes in the history.
double secondsOf(std::int64_t wallNs) {
  return std::round(static_cast<double>(wallNs) / 1e6) / 1e3;
}

RunState stateOf(const run::v1::Finished& finished) {
  const int state = finished.state();  // from a node: any number
  const bool known = state >= static_cast<int>(RunState::SUCCEEDED) &&
                     state <= static_cast<int>(RunState::EXPIRED);
  return known ? static_cast<RunState>(state) : RunState::FAILED;
}

}  // namespace

RunAggregator::RunAggregator(RunRow row, const std::vector<NodeCursor>& nodes,
                             plan::BatchShares shares, const std::vector<RunBatch::Fact>& facts)
    : row_(std::move(row)),
      phaseBefore_(row_.phase),
      coordinator_(nodes.front().node),
      shares_(std::move(shares)),
      analyzer_(std::max(row_.world, 1)) {
  for (const NodeCursor& node : nodes) nodes_[node.node].cursor = node.sequence;
  std::vector<std::pair<std::string, run::v1::Record>> known;
  for (const RunBatch::Fact& fact : facts) {
    const std::size_t node = fact.text.find('\n');
    run::v1::Record record;
    if (node == std::string::npos ||
        !google::protobuf::util::JsonStringToMessage(fact.text.substr(node + 1), &record).ok())
      continue;
    known.emplace_back(fact.text.substr(0, node), std::move(record));
  }
  // Ranks may have moved since their nodes started, and once more in a later generation.
  const auto order = [](const run::v1::Record& record) {
    return record.has_started()      ? -1
           : record.has_recovering() ? record.recovering().generation()
                                     : 0;
  };
  std::stable_sort(known.begin(), known.end(),
                   [&](const auto& a, const auto& b) { return order(a.second) < order(b.second); });
  // A node that one generation leaves out may have ranks again in a later one.
  int newest = 0;
  for (const auto& [node, record] : known)
    if (!record.recovering().nodes().empty())
      newest = std::max(newest, record.recovering().generation());
  for (auto& [node, record] : known) {
    if (record.has_recovering() && record.recovering().generation() < newest)
      record.mutable_recovering()->clear_nodes();
    know(node, record);
    if (record.has_started())  // the row may be older than the facts
      addStarted(node, record.started(), bounded(record.wall_ns()));
  }
  const int world = std::max(row_.world, 1);
  analyzer_ = analysis::StepAnalyzer(world, shares_.of(world));
}

// Takes from a record what later ones refer to: ranks, members, boot id and clock.
void RunAggregator::know(const std::string& name, const run::v1::Record& record) {
  if (record.has_started()) {
    nodes_[name].clock.setBootId(record.started().boot_id());
    for (int rank : record.started().ranks()) noteRank(rank, name);
  }
  // A node that is left out may end a rank later than another node starts it.
  if (record.has_rank() && record.rank().state() != "exited") noteRank(record.rank().rank(), name);
  if (record.has_recovering() && noteMembers(record.recovering()))
    row_.world = record.recovering().world();
  if (record.has_clock()) nodes_[name].clock.note(record);
  if (record.has_source()) sources_.insert(sourceKey(record.source()));
  for (const run::v1::Scalar& scalar : record.scalars().scalars())  // as noteReported() notes them
    reported_[scalarSeries(scalar.tag())] = {record.scalars().rank(),
                                             sourceOrder(record.scalars().source())};
  if (record.has_steps())  // as stepsBefore() notes them
    stepsBefore_[record.steps().generation()] = bounded(record.steps().first_step());
}

void RunAggregator::noteFact(std::string key, const std::string& node,
                             const run::v1::Record& record) {
  std::string text;
  if (google::protobuf::util::MessageToJsonString(record, &text).ok())
    batch_.facts.push_back({std::move(key), node + "\n" + text});
}

bool RunAggregator::hasEnded(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.finished;
}

bool RunAggregator::finished(const std::string& node) const {
  return hasEnded(node) || isLeftOut(node);
}

void RunAggregator::addError(const Error& error) {
  batch_.errors.push_back(error);
  update_.errors.push_back(error);
  if (row_.error.empty()) {
    row_.error = error.message();
    errorNode_ = error.node;
    rowChanged_ = true;
  }
}

void RunAggregator::addWarning(const std::string& node, Error warning, std::int64_t wallNs) {
  if (warning.node.empty()) warning.node = node;
  addLine({0, wallNs, node, -1, "warning: " + warning.text()});
  update_.warnings.push_back(std::move(warning));
}

void RunAggregator::fail(const Error& error) {
  endAsAgreed();
  if (ended()) return;
  addError(error);
  end(RunState::FAILED, wallNow());
  ++fresh_;
}

void RunAggregator::warn(Error warning) {
  addWarning({}, std::move(warning), wallNow());
  ++fresh_;
}

void RunAggregator::setUnreachable(std::int64_t sinceNs) {
  if (ended() || alone_ || row_.unreachableNs == sinceNs) return;
  row_.unreachableNs = sinceNs;
  rowChanged_ = true;
  ++fresh_;
  if (sinceNs != 0) endAsAgreed();
}

void RunAggregator::end(RunState phase, std::int64_t wallNs) {
  row_.unreachableNs = 0;
  const RunState before = row_.phase;
  if (const Status set = setState(row_, phase); !set.ok()) {
    addError(set.error());
    return;
  }
  if (!isFinal(before)) phaseBefore_ = before;
  if (before == RunState::RECOVERING && recoveringNs_ > 0)
    row_.figures.lostSeconds += std::max(0.0, static_cast<double>(wallNs - recoveringNs_) * 1e-9);
  row_.finishedNs = wallNs;
  rowChanged_ = true;
}

// The row is handed on once a second, if nothing else changes it.
void RunAggregator::noteHeard(std::int64_t wallNs) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (ended() || wallNs <= row_.heardNs) return;
  rowChanged_ |= wallNs / kSecond != row_.heardNs / kSecond;
  row_.heardNs = wallNs;
}

void RunAggregator::addLine(const LogRow& line) {
  batch_.logs.push_back(line);
  update_.logs.push_back(line);
}

void RunAggregator::addStarted(const std::string& name, const run::v1::Started& started,
                               std::int64_t wallNs) {
  if (name != coordinator_ || row_.startedNs != 0) return;
  row_.startedNs = wallNs;
  if (!isFinal(row_.phase)) (void)setState(row_, RunState::RUNNING);
  row_.version = started.version();
  update_.started = rowChanged_ = true;
}

void RunAggregator::add(const std::string& name, const run::v1::Record& record) {
  Node& node = nodes_[name];
  if (record.sequence() <= node.sequence) return;
  node.sequence = record.sequence();
  if (record.sequence() <= node.cursor && record.body_case() != run::v1::Record::kSteps &&
      record.body_case() != run::v1::Record::kFinished)
    return;
  ++fresh_;
  if (name == coordinator_) noteHeard(bounded(record.wall_ns()));
  switch (record.body_case()) {
    case run::v1::Record::kStarted:
      know(name, record);
      noteFact("started/" + name, name, record);
      addStarted(name, record.started(), bounded(record.wall_ns()));
      break;
    case run::v1::Record::kSteps:
      addSteps(name, node, record);
      break;
    case run::v1::Record::kScalars:
      addScalars(name, record);
      break;
    case run::v1::Record::kSource:
      addSource(name, record.source());
      break;
    case run::v1::Record::kRecovering:
    case run::v1::Record::kRecovered:
      addRestart(name, record);
      break;
    case run::v1::Record::kEpoch:
      addTrained(record.epoch());
      break;
    case run::v1::Record::kEvaluation:
      addEpoch(record.evaluation());
      break;
    case run::v1::Record::kWarning:
      addWarning(name, specs::fromInfo(record.warning()), record.wall_ns());
      break;
    case run::v1::Record::kAwaited:
      update_.awaited = specs::fromText(record.awaited());
      break;
    case run::v1::Record::kLog:
      addLog(name, record);
      break;
    case run::v1::Record::kNodeSample:
      addSample(name, node, record);
      break;
    case run::v1::Record::kEvents:
      addEvents(node, record.events());
      break;
    case run::v1::Record::kError: {
      Error error = specs::fromInfo(record.error());
      if (error.node.empty()) error.node = name;
      if (isLeftOut(name))
        addWarning(name, std::move(error), record.wall_ns());
      else
        addError(error);
      break;
    }
    case run::v1::Record::kFinished:
      node.finished = true;
      addFinished(name, record);
      break;
    case run::v1::Record::kClock:
      know(name, record);
      noteFact("clock/" + name, name, record);
      addClock(name, record);
      break;
    case run::v1::Record::kLost:
      addLine({0, record.wall_ns(), name, -1, "records are lost: " + record.lost().why()});
      break;
    case run::v1::Record::kRank:
      addRank(name, record);
      break;
    case run::v1::Record::kCheckpoint:
      update_.checkpoint = record.checkpoint().step();
      break;
    default:
      break;  // newer kinds are for newer studios
  }
}

void RunAggregator::addLog(const std::string& node, const run::v1::Record& record) {
  const run::v1::LogLines& log = record.log();
  const auto line = [&](const std::string& text) {
    addLine({0, record.wall_ns(), node, log.rank(), text});
  };
  if (log.dropped() > 0) line(fmt::format("… {} lines dropped", log.dropped()));
  for (const std::string& text : log.lines()) line(text);
}

void RunAggregator::addRank(const std::string& node, const run::v1::Record& record) {
  if (record.rank().state() == "exited") return;
  know(node, record);
  noteFact(fmt::format("rank/{}", record.rank().rank()), node, record);
}

void RunAggregator::addClock(const std::string& name, const run::v1::Record& record) {
  const run::v1::ClockOffset& clock = record.clock();
  const double x = secondsOf(record.wall_ns());
  const std::pair<const char*, std::int64_t> values[] = {
      {"/clock_offset", clock.offset_ns()}, {"/clock_uncertainty", clock.uncertainty_ns()}};
  for (const auto& [key, nanoseconds] : values)
    points("node/" + name + key).push_back({x, static_cast<double>(nanoseconds) / 1e9});
}

// Returns whether the record names the members of the new generation.
bool RunAggregator::noteMembers(const run::v1::Recovering& recovering) {
  if (recovering.samples_size() > 0)
    shares_.divideAnew({recovering.samples().begin(), recovering.samples().end()});
  const int world = recovering.world();
  if (recovering.nodes().empty() || world < 1 || world > specs::kMaxRanks) return false;
  members_ = {recovering.nodes().begin(), recovering.nodes().end()};
  std::erase_if(nodeOfRank_, [&](const auto& one) { return one.first >= world; });
  return true;
}

// Updates the run after nodes were replaced or removed, or the batch was divided anew.
void RunAggregator::setMembers(const std::string& name, const run::v1::Record& record,
                               RunRestart& restart) {
  const run::v1::Recovering& recovering = record.recovering();
  const bool others = noteMembers(recovering);
  if (others) {
    restart.nodes.assign(recovering.nodes().begin(), recovering.nodes().end());
    restart.world = row_.world = recovering.world();
    if (isLeftOut(errorNode_)) row_.error = {};
    noteFact(fmt::format("recovering/{}", restart.generation), name, record);
  } else if (recovering.samples_size() > 0) {
    noteFact(fmt::format("divided/{}", restart.generation), name, record);
  } else {
    return;
  }
  restart.samples.assign(recovering.samples().begin(), recovering.samples().end());
  if (earlier_) addParts(earlier_->steps);
  earlier_ = Earlier{std::move(analyzer_)};
  for (const auto& [rank, step] : lastStep_) earlier_->last = std::max(earlier_->last, step);
  const int world = std::max(row_.world, 1);
  analyzer_ = analysis::StepAnalyzer(world, shares_.of(world));
  stragglers_.clear();
}

void RunAggregator::noteRank(int rank, const std::string& node) {
  nodeOfRank_[rank] = node;
  wasMember_.insert(node);
}

bool RunAggregator::isLeftOut(const std::string& node) const {
  return wasMember_.contains(node) && !members_.empty() && !members_.contains(node);
}

void RunAggregator::addRestart(const std::string& name, const run::v1::Record& record) {
  RunRestart restart;
  restart.generation =
      record.has_recovering() ? record.recovering().generation() : record.recovered().generation();
  restart.wallNs = bounded(record.wall_ns());
  restart.ofProgram = ofProgram(row_);
  // Older ones come late from a coordinator from which another one took over: they are kept, and
  // count, but say nothing of the run now.
  const bool current = restart.generation >= row_.generation;
  if (record.has_recovering()) {
    restart.cause = specs::fromInfo(record.recovering().cause());
    if (restart.cause->node.empty()) restart.cause->node = name;
    nodes_[name].lostTime.noteFailure();
    if (current) beginRestart(name, record, restart);
  } else {
    restart.lostSteps = record.recovered().lost_steps();
    restart.seconds = record.recovered().seconds();
    row_.figures.lostSeconds += nodes_[name].lostTime.recovered(record, median(durations_));
    if (current && !isFinal(row_.phase)) (void)setState(row_, RunState::RUNNING);
  }
  row_.generation = std::max(row_.generation, restart.generation);
  rowChanged_ = true;
  batch_.restarts.push_back({restart.generation, restart.begins() ? restart.wallNs : 0,
                             restart.begins() ? 0 : restart.wallNs, restart.cause,
                             restart.lostSteps, restart.seconds});
  if (current) update_.restarts.push_back(std::move(restart));
}

void RunAggregator::beginRestart(const std::string& name, const run::v1::Record& record,
                                 RunRestart& restart) {
  setMembers(name, record, restart);
  if (nodes_.contains(record.recovering().coordinator())) {
    restart.coordinator = coordinator_ = record.recovering().coordinator();
    alone_.reset();
    row_.unreachableNs = 0;
  }
  update_.awaited = Message();  // of a coordinator that is lost
  if (row_.phase != RunState::RECOVERING) recoveringNs_ = bounded(record.wall_ns());
  if (!isFinal(row_.phase)) (void)setState(row_, RunState::RECOVERING);
}

void RunAggregator::addTrained(const run::v1::EpochInfo& epoch) {
  if (epoch.step() <= lastEpochStep_) return;  // trained again after a restart
  lastEpochStep_ = epoch.step();
  points("epoch/train_loss").push_back({static_cast<double>(epoch.epoch()), epoch.train_loss()});
  row_.figures.epochs = epoch.epoch();
  row_.figures.trainLoss = epoch.train_loss();
  addEpoch(epoch);
}

void RunAggregator::addEpoch(const run::v1::EpochInfo& epoch) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const bool later = epoch.evaluated_later();
  const EpochRow row{epoch.epoch(), epoch.step(), epoch.train_loss(),
                     later ? kUnknown : epoch.eval_loss(), later ? kUnknown : epoch.eval_metric()};
  batch_.epochs.push_back(row);
  update_.epochs.push_back(row);
  rowChanged_ = true;
  if (later) return;
  const auto x = static_cast<double>(row.epoch);
  points("epoch/eval_loss").push_back({x, row.evalLoss});
  if (const std::string& metric = row_.figures.metric; !metric.empty())
    points("epoch/eval_" + metric).push_back({x, row.evalMetric});
  row_.figures.evalLoss = row.evalLoss;
  row_.figures.evalMetric = row.evalMetric;
}

// The values of an outline come from several steps, so waiting and transfer cannot be derived from
// it.
void RunAggregator::addOutlined(const analysis::StepSample& sample) {
  const auto x = static_cast<double>(sample.step);
  const std::pair<const char*, double> parts[] = {{"data", sample.data},
                                                  {"forward", sample.forward},
                                                  {"backward", sample.backward},
                                                  {"optimizer", sample.optimizer}};
  for (const auto& [key, seconds] : parts)
    points(fmt::format("rank/{}/{}", sample.rank, key)).push_back({x, seconds});
}

void RunAggregator::addEvents(const Node& node, run::v1::EventChunk events) {
  const std::int64_t offset = node.clock.offsetTo(nodes_[coordinator_].clock);
  for (auto& begin : *events.mutable_begin_ns()) begin = bounded(bounded(begin) + offset);
  for (auto& end : *events.mutable_end_ns()) end = bounded(bounded(end) + offset);
  batch_.events.push_back(
      {events.rank(), events.step(), events.SerializeAsString(), events.slow()});
}

// Values that are equal on all ranks that report them: the first report of a step counts.
void RunAggregator::addWatched(const run::v1::StepChunk& chunk, int index, std::int64_t step) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto value = [index](const auto& column) {
    return index < column.size() ? static_cast<double>(column.Get(index)) : kNone;
  };
  const std::pair<const char*, double> values[] = {{"learning_rate", value(chunk.learning_rate())},
                                                   {"gradient_norm", value(chunk.gradient_norm())},
                                                   {"update_ratio", value(chunk.update_ratio())}};
  for (const auto& [series, y] : values) {
    if (!std::isfinite(y)) continue;
    std::int64_t& last = lastWatched_[series];
    if (step <= last) continue;
    last = step;
    points(series).push_back({static_cast<double>(step), y});
  }
}

// How much has been trained on after each step of the chunk, which says it of the last.
void RunAggregator::addSeen(const run::v1::StepChunk& chunk) {
  const int steps = std::min(chunk.samples_size(), chunk.begin_ns_size());
  std::int64_t& last = lastWatched_["samples"];
  const std::int64_t first = bounded(chunk.first_step());
  if (chunk.samples_seen() <= 0 || steps == 0 || first + steps - 1 <= last) return;
  std::int64_t seen = bounded(chunk.samples_seen());
  for (int i = 0; i < steps; ++i) seen -= chunk.samples(i);
  std::vector<Point>& samples = points("samples");
  std::vector<Point>* const tokens = chunk.sample_tokens() > 0 ? &points("tokens") : nullptr;
  for (int i = 0; i < steps; ++i) {
    seen += chunk.samples(i);
    if (first + i <= last) continue;
    const Point point{static_cast<double>(first + i), static_cast<double>(seen)};
    samples.push_back(point);
    if (tokens != nullptr) tokens->push_back({point.x, point.y * chunk.sample_tokens()});
  }
  last = first + steps - 1;
}

// A step that comes again, after a restart, does not count.
void RunAggregator::addScalars(const std::string& node, const run::v1::Record& record) {
  const run::v1::Scalars& scalars = record.scalars();
  run::v1::ProgramSource source;
  source.set_rank(scalars.rank());
  source.set_name(scalars.source());
  addSource(node, source);
  for (const run::v1::Scalar& scalar : scalars.scalars()) {
    if (scalar.tag().empty() || scalar.step() < 0) continue;
    const std::string series = scalarSeries(scalar.tag());
    if (!reported_.contains(series) && reported_.size() >= kMostReported) continue;
    const int order = sourceOrder(scalars.source());
    const auto [known, first] = reported_.try_emplace(series, Reported{scalars.rank(), order});
    Reported& last = known->second;
    const std::pair reports(scalars.rank(), order), counted(last.rank, last.source);
    if (reports > counted) continue;
    if (first || reports != counted) noteReported(scalar.tag(), node, scalars);
    last.rank = scalars.rank();
    last.source = order;
    const std::int64_t step = bounded(scalar.step());
    if (step <= last.step) continue;
    last.step = step;
    points(series).push_back({static_cast<double>(step), scalar.value()});
    update_.scalars.push_back(
        {scalar.tag(), scalars.source(), scalars.rank(), step, scalar.value()});
    if (std::exchange(countsSteps_, false)) row_.figures.steps = 0;
    row_.figures.steps = std::max(row_.figures.steps, step);
    if (series == "loss") row_.figures.trainLoss = scalar.value();
    rowChanged_ = true;
  }
}

// By which rank and in which way a value that counts is reported.
void RunAggregator::noteReported(const std::string& tag, const std::string& node,
                                 const run::v1::Scalars& scalars) {
  run::v1::Record record;
  record.mutable_scalars()->set_rank(scalars.rank());
  record.mutable_scalars()->set_source(scalars.source());
  record.mutable_scalars()->add_scalars()->set_tag(tag);
  noteFact("scalar/" + tag, node, record);
}

void RunAggregator::addSource(const std::string& node, const run::v1::ProgramSource& source) {
  if (sources_.size() >= kMostSources || !sources_.insert(sourceKey(source)).second) return;
  run::v1::Record record;
  *record.mutable_source() = source;
  noteFact(sourceKey(source), node, record);
  update_.sources.push_back(source);
}

// How many steps a program's ranks have taken before its last start: they count anew.
std::int64_t RunAggregator::stepsBefore(const std::string& node, const run::v1::StepChunk& chunk) {
  if (chunk.generation() == 0) return 0;
  const auto [known, first] = stepsBefore_.try_emplace(chunk.generation(), 0);
  if (!first) return known->second;
  for (const auto& [rank, step] : lastStep_) known->second = std::max(known->second, step);
  run::v1::Record record;
  record.mutable_steps()->set_generation(chunk.generation());
  record.mutable_steps()->set_first_step(known->second);
  noteFact(fmt::format("generation/{}", chunk.generation()), node, record);
  return known->second;
}

// A step of rank 0. Those of a program's values are its own numbers, and replace these.
void RunAggregator::noteStep(std::int64_t step, double seconds) {
  if (reported_.empty()) {
    row_.figures.steps = std::max(row_.figures.steps, step);
    countsSteps_ = true;
  }
  rowChanged_ = true;
  if (++durationSkip_ < durationStride_) return;
  durationSkip_ = 0;
  durations_.push_back(seconds);
  if (durations_.size() < kMostDurations) return;
  for (std::size_t k = 0; k < durations_.size() / 2; ++k) durations_[k] = durations_[2 * k];
  durations_.resize(durations_.size() / 2);
  durationStride_ *= 2;
}

void RunAggregator::addSteps(const std::string& name, Node& node, const run::v1::Record& record) {
  const run::v1::StepChunk& chunk = record.steps();
  const int rank = chunk.rank();
  const bool outlined = record.outline_from() > 0;
  const std::int64_t offset = node.clock.offsetTo(nodes_[coordinator_].clock);
  const std::int64_t wallOffset = bounded(record.wall_ns()) - bounded(record.monotonic_ns());
  const std::int64_t firstStep = bounded(bounded(chunk.first_step()) + stepsBefore(name, chunk));
  if (rank == 0 && record.sequence() > node.cursor) readsAgain_ = false;
  stragglers_.stepCompleted();
  lastWallNs_ = std::max(lastWallNs_, bounded(record.wall_ns()));
  std::int64_t begin = 0;
  std::int64_t& last = lastStep_[rank];
  auto& seconds = points(fmt::format("rank/{}/step", rank));
  auto& began = points(fmt::format("rank/{}/began", rank));
  std::vector<Point>*stale = nullptr, *loss = nullptr, *metric = nullptr, *rate = nullptr,
  *tokenRate = nullptr, *scale = nullptr, *gpuClock = nullptr;
  if (chunk.staleness_size() > 0) stale = &points(fmt::format("rank/{}/staleness", rank));
  const auto gpuClocks = node.gpuClocks.find(rank);
  if (gpuClocks != node.gpuClocks.end()) gpuClock = &points(fmt::format("rank/{}/gpu_clock", rank));
  const bool trains = rank == 0 && chunk.loss_size() > 0;
  if (trains) {
    loss = &points("loss");
    rate = &points("samples_per_second");
    if (chunk.sample_tokens() > 0) tokenRate = &points("tokens_per_second");
    if (!outlined) addSeen(chunk);
    if (chunk.loss_scale_size() > 0) scale = &points("loss_scale");
    if (!row_.figures.metric.empty()) metric = &points(row_.figures.metric);
  }
  for (int i = 0; i < chunk.begin_ns_size(); ++i) {
    begin = bounded(begin + bounded(chunk.begin_ns(i)));
    const std::int64_t duration = i < chunk.duration_ns_size() ? bounded(chunk.duration_ns(i)) : 0;
    node.lostTime.noteStep(firstStep + i, begin + duration);
    if (firstStep + i <= last) continue;
    last = firstStep + i;
    analysis::StepSample sample;
    sample.rank = rank;
    sample.step = last;
    sample.begin = bounded(begin + offset);
    sample.end = bounded(sample.begin + duration);
    if (i < chunk.arrival_ns_size() && chunk.arrival_ns(i) > 0)
      sample.arrival = bounded(sample.begin + bounded(chunk.arrival_ns(i)));
    sample.data = at(chunk.data(), i);
    sample.forward = at(chunk.forward(), i);
    sample.backward = at(chunk.backward(), i);
    sample.communication = at(chunk.communication(), i);
    sample.optimizer = at(chunk.optimizer(), i);
    sample.frozen = at(chunk.frozen(), i);
    sample.frozenArrived = at(chunk.frozen_arrived(), i);
    sample.reading = chunk.generation() > 0 ? -1 : at(chunk.reading(), i);  // < 0: of a program
    sample.elements = at(chunk.elements(), i);
    if (outlined)
      addOutlined(sample);
    else
      (earlier_ && sample.step <= earlier_->last ? earlier_->steps : analyzer_).add(sample);
    const auto x = static_cast<double>(sample.step);
    const double length = static_cast<double>(duration) / 1e9;
    seconds.push_back({x, length});
    began.push_back({x, std::round(static_cast<double>(begin + wallOffset) / 1e3) / 1e6});
    if (gpuClock != nullptr)
      if (const auto clock = gpuClocks->second.take(begin, begin + duration))
        gpuClock->push_back({x, *clock});
    if (stale != nullptr) stale->push_back({x, at(chunk.staleness(), i)});
    addWatched(chunk, i, sample.step);
    if (rank == 0) noteStep(sample.step, length);
    if (!trains) continue;
    loss->push_back({x, at(chunk.loss(), i)});
    if (metric != nullptr) metric->push_back({x, at(chunk.metric(), i)});
    if (scale != nullptr) scale->push_back({x, at(chunk.loss_scale(), i)});
    if (const double skipped = at(chunk.skipped(), i); skipped > 0)
      points("skipped").push_back({x, skipped});
    if (length > 0) rate->push_back({x, at(chunk.samples(), i) / length});
    if (length > 0 && tokenRate != nullptr)
      tokenRate->push_back({x, at(chunk.samples(), i) * chunk.sample_tokens() / length});
  }
}

void RunAggregator::addSample(const std::string& name, Node& node, const run::v1::Record& record) {
  const auto& sample = record.node_sample();
  const double x = std::round(1e3 * secondsOf(record.wall_ns())) / 1e3;  // takes less to keep
  if (x <= node.lastSample) return;
  node.lastSample = x;
  lastWallNs_ = std::max(lastWallNs_, bounded(record.wall_ns()));
  const std::string prefix = "node/" + name + "/";
  for (const specs::NodeFigure& figure : specs::figuresOf(sample))
    points(prefix + std::string(figure.name)).push_back({x, figure.value});
  if (std::exchange(node.cores, sample.core_size()) != sample.core_size())
    points(prefix + "cores").push_back({x, static_cast<double>(sample.core_size())});
  for (const auto& gpu : sample.gpu())
    gpus_.take(name, gpu, [&](const std::string& series, double value) {
      points(series).push_back({x, value});
    });
  for (const auto& link : sample.link()) {
    const std::string to = prefix + "to/" + link.node();
    points(to + "/sent").push_back({x, link.sent()});
    points(to + "/sending").push_back({x, link.sending()});
    if (link.rate() > 0) points(to + "/rate").push_back({x, link.rate()});
    points(to + "/round_trip").push_back({x, link.round_trip()});
  }
  // By the coordinator's clock, since clocks of nodes may differ by more than links are silent.
  const std::int64_t common =
      bounded(record.monotonic_ns()) + node.clock.offsetTo(nodes_[coordinator_].clock);
  stragglers_.take(name, static_cast<double>(common) / 1e9, sample);
  for (Error& warning : gpus_.warnings()) addWarning(name, std::move(warning), record.wall_ns());
  for (const auto& rank : sample.rank()) {
    points(fmt::format("rank/{}/cpu", rank.rank())).push_back({x, rank.cpu()});
    points(fmt::format("rank/{}/memory", rank.rank())).push_back({x, rank.memory()});
    if (!rank.has_gpu()) continue;
    if (const auto clock = gpus_.workingClock(name, rank.gpu()))
      node.gpuClocks[rank.rank()].add(bounded(record.monotonic_ns()), *clock);
  }
}

void RunAggregator::addFinished(const std::string& name, const run::v1::Record& record) {
  const run::v1::Finished& finished = record.finished();
  if (finished.agreed() && !agreed_) agreed_ = record;
  if (name == coordinator_ && finished.alone()) alone_ = stateOf(finished);
  if (alone_) return addLostOthers(bounded(record.wall_ns()));
  if (name != coordinator_) {
    if (row_.unreachableNs != 0) endAsAgreed();
    return;
  }
  if (!finished.agreed()) endAsAgreed();  // its supervisor was lost before it knew
  if (!ended()) end(stateOf(finished), bounded(record.wall_ns()));
  RunFigures& figures = row_.figures;
  figures.steps = std::max(figures.steps, finished.steps());
  figures.epochs = std::max(figures.epochs, finished.epochs());
  if (row_.phase != RunState::FAILED) {
    if (finished.has_train_loss()) figures.trainLoss = finished.train_loss();
    // After a run that succeeded these are its final values, known or not.
    if (row_.phase == RunState::SUCCEEDED || finished.eval_loss() != 0 ||
        finished.eval_metric() != 0) {
      figures.evalLoss = finished.eval_loss();
      figures.evalMetric = finished.eval_metric();
    }
  }
  figures.samplesPerSecond = finished.samples_per_second();
  figures.weightsSha256 = finished.weights_sha256();
}

// As other nodes tell, where the coordinator cannot.
void RunAggregator::endAsAgreed() {
  if (!agreed_ || ended()) return;
  const run::v1::Finished& finished = agreed_->finished();
  end(stateOf(finished), bounded(agreed_->wall_ns()));
  row_.figures.steps = std::max(row_.figures.steps, finished.steps());
  row_.figures.epochs = std::max(row_.figures.epochs, finished.epochs());
  ++fresh_;
}

// The run has failed when all other nodes have ended too, unless they tell otherwise; until then it
// may continue there.
void RunAggregator::addLostOthers(std::int64_t wallNs) {
  endAsAgreed();
  if (ended()) return;
  const bool over = std::all_of(nodes_.begin(), nodes_.end(),
                                [&](const auto& node) { return finished(node.first); });
  if (over && alone_ == RunState::STOPPED) {  // killed, which the others have heard of too late
    end(RunState::STOPPED, wallNs);
  } else if (over) {
    if (row_.error.empty()) {
      Error error = makeError(Code::kAborted, "the run's supervisors ended on all nodes");
      error.why = "they were killed, or the nodes were restarted";
      error.next = "resume the run from its last checkpoint, or launch it again where it has none";
      addError(error);
    }
    end(RunState::FAILED, wallNs);
  } else if (row_.unreachableNs == 0) {
    row_.unreachableNs = wallNs;
    rowChanged_ = true;
  }
}

// The last step of rank 0; a program's values may count others.
std::int64_t RunAggregator::lastStep() const {
  const auto own = lastStep_.find(0);
  return reported_.empty() || own == lastStep_.end() ? row_.figures.steps : own->second;
}

// The parts of the steps that all ranks have reported since the last call.
void RunAggregator::addParts(analysis::StepAnalyzer& analyzer) {
  using analysis::Breakdown;
  constexpr std::pair<const char*, double Breakdown::*> kParts[] = {
      {"data", &Breakdown::data},         {"forward", &Breakdown::forward},
      {"backward", &Breakdown::backward}, {"waiting", &Breakdown::waiting},
      {"transfer", &Breakdown::transfer}, {"optimizer", &Breakdown::optimizer}};
  const std::vector<analysis::StepBreakdown> steps = analyzer.take();
  for (std::size_t r = 0; !steps.empty() && r < steps.front().ranks.size(); ++r)
    for (const auto& [key, part] : kParts) {
      std::vector<Point>& line = points(fmt::format("rank/{}/{}", r, key));
      for (const analysis::StepBreakdown& step : steps)
        line.push_back({static_cast<double>(step.step), step.ranks[r].*part});
    }
  for (const analysis::StepBreakdown& step : steps)
    for (std::size_t r = 0; r < step.ranks.size(); ++r)
      if (step.ranks[r].stalled > 0)
        points(fmt::format("rank/{}/stalled", r))
            .push_back({static_cast<double>(step.step), step.ranks[r].stalled});
}

void RunAggregator::analyse() {
  if (earlier_) addParts(earlier_->steps);
  addParts(analyzer_);
  const analysis::StepBreakdown recent = analyzer_.recent();
  for (std::size_t r = 0; r < recent.ranks.size(); ++r) {
    const analysis::Breakdown& spent = recent.ranks[r];
    update_.breakdown.push_back({static_cast<int>(r), spent.data, spent.forward, spent.backward,
                                 spent.waiting, spent.transfer, spent.optimizer, recent.seconds});
  }
  const bool wasSlow = stragglers_.slow().has_value();
  const auto nodeOf = [&](int rank) {
    const auto node = nodeOfRank_.find(rank);
    return node == nodeOfRank_.end() ? std::string() : node->second;
  };
  update_.stragglers = stragglers_.look(analyzer_, gpus_, nodeOf, lastStep(), ended());
  update_.slow = stragglers_.slow();
  update_.slowChanged = wasSlow || update_.slow;
  // A recorder that takes over reads steps again, and what they say has been told.
  if (readsAgain_)
    std::erase_if(update_.stragglers, [](const StragglerChange& change) {
      return !change.slow.halted && !change.slow.link;
    });
  for (const StragglerChange& change : update_.stragglers) {
    addLine(
        {0, lastWallNs_, change.slow.node, change.slow.rank, "straggler: " + changeText(change)});
    batch_.stragglers.push_back(rowOf(change, lastWallNs_));
  }
}

RunAggregator::Taken RunAggregator::take() {
  analyse();
  Taken out;
  if (!durations_.empty()) row_.measuredStepSeconds = median(durations_);
  for (auto& [name, points] : series_)
    if (!points.empty()) batch_.series.push_back({name, std::move(points)});
  series_.clear();
  for (const auto& [name, node] : nodes_)
    if (node.sequence > node.cursor) batch_.cursors.push_back({name, node.sequence});
  update_.run = row_.run;
  update_.series = batch_.series;
  if (rowChanged_) update_.row = row_;
  if (ended() && update_.row) update_.row->phase = phaseBefore_;
  update_.ending = ended();
  std::set<std::string> leftOut;
  for (const std::string& node : wasMember_)
    if (isLeftOut(node)) leftOut.insert(node);
  if (leftOut != leftOut_) update_.leftOut = leftOut_ = std::move(leftOut);
  out.batch = std::move(batch_);
  out.update = std::move(update_);
  batch_ = {};
  update_ = {};
  rowChanged_ = false;
  fresh_ = 0;
  return out;
}

}  // namespace lockstep::app
