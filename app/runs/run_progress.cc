#include "app/runs/run_progress.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "app/core/time_left.h"
#include "app/specs/spec_text.h"
#include "engine/data/content.h"
#include "engine/data/range.h"
#include "engine/data/samples.h"
#include "engine/specs/data_files.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostKept = 4096;  // steps
constexpr double kPaceSeconds = 3;       // of training that a pace is the mean of
constexpr std::size_t kPaceSteps = 8;    // or that many steps, where they take longer
constexpr double kLeastStall = 3;        // seconds
constexpr double kStallSteps = 8;        // steps' time without one

// Returns the unpacked size of a file; 0 if it cannot be read.
std::int64_t bytesOf(const std::string& path) {
  std::int64_t out = 0;
  const auto read = data::readContent(path, false, [&](std::string_view piece) -> Status {
    out += std::ssize(piece);
    return {};
  });
  return read.ok() ? out : 0;
}

// Returns the number of images by the header of an IDX file; 0 if it cannot be read.
std::int64_t imagesOf(const std::string& path) {
  std::string head;
  const Status read = data::readBeginning(path, [&](std::string_view bytes) -> Result<bool> {
    head += bytes.substr(0, 8 - head.size());
    return head.size() < 8;
  });
  if (!read.ok() || head.size() < 8 || head[0] != 0 || head[1] != 0 || head[3] == 0) return 0;
  std::int64_t out = 0;
  for (std::size_t i = 4; i < 8; ++i) out = out << 8 | static_cast<unsigned char>(head[i]);
  return out;
}

}  // namespace

// Of text by its bytes, of a table by its rows, of an IDX file by its header, of tokens by their
// number.
std::int64_t trainingSamples(const spec::v1::RunSpec& spec, std::uintmax_t mostRead) {
  const spec::v1::DataFiles& files = spec.data().train();
  if (spec.data().format() == "tokens") {
    const auto tokens = data::openTokens(specs::tokenFiles(spec, true, files.tokens()));
    return tokens.ok() ? (*tokens)->size() : 0;
  }
  const std::string& data = spec.data().format() == "text"    ? files.text()
                            : spec.data().format() == "table" ? files.table()
                                                              : files.images();
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(data, unknown)) return 0;  // a pipe would be waited for
  if (&data != &files.images() && std::filesystem::file_size(data, unknown) > mostRead) return 0;
  if (spec.data().format() == "text") {
    const std::int64_t tokens =
        spec.model().input().shape_size() > 0 ? spec.model().input().shape(0) : 0;
    const std::int64_t all = tokens > 0 ? bytesOf(files.text()) : 0;
    const std::int64_t part = data::placeOf(files.to(), all) - data::placeOf(files.from(), all);
    return part > 0 ? (part - 1) / tokens : 0;  // the last byte is only a label
  }
  if (spec.data().format() == "table") {
    const auto rows = data::readTableSamples(specs::tableFile(spec, true, files.table()));
    return rows.ok() && (*rows)->count({}).ok() ? (*rows)->size() : 0;
  }
  return imagesOf(files.images());
}

RunScope scopeOf(const History& history, const RunRow& row, const RunDocuments& documents) {
  RunScope out;
  const std::string& yaml = documents.specAsRun();
  if (const auto file = completeRunSpec(yaml, "run " + row.run); file.ok()) {
    const auto& training = file->spec->training();
    out.epochs = training.epochs();
    out.maxSteps = training.max_steps();
    out.batch = training.batch();
    out.samples = trainingSamples(*file->spec);
  }
  std::string earlier = row.resumedFrom;
  for (int depth = 0; !earlier.empty() && depth < 100; ++depth) {
    const auto store = history.openRun(earlier);
    if (!store.ok()) break;
    const auto epochs = (*store)->epochs();
    out.before.insert(out.before.begin(), epochs.begin(), epochs.end());
    const auto before = history.row(earlier);
    earlier = before.ok() ? before->resumedFrom : std::string();
  }
  return out;
}

void RunProgress::begin(RunScope scope) {
  *this = RunProgress();
  for (const EpochRow& row : scope.before) addEpoch(row);
  scope_ = std::move(scope);
}

void RunProgress::keep(std::deque<Sample>& samples, const Point& point) {
  const auto step = static_cast<std::int64_t>(std::llround(point.x));
  if (!samples.empty() && step <= samples.back().step) return;
  samples.push_back({step, point.y});
  if (samples.size() > kMostKept) samples.pop_front();
}

void RunProgress::addSeries(const RunBatch::Series& series, Nanoseconds now) {
  if (series.points.empty()) return;
  if (series.name == "loss") {
    const auto first = static_cast<std::int64_t>(std::llround(series.points.front().x));
    const auto last = static_cast<std::int64_t>(std::llround(series.points.back().x));
    if (firstStep_ == 0 || first < firstStep_) firstStep_ = first;
    if (last <= step_) return;
    step_ = last;
    arrived_ = now;
  } else if (series.name == "rank/0/step") {
    for (const Point& point : series.points) {
      if (!seconds_.empty() && point.x <= static_cast<double>(seconds_.back().step)) continue;
      keep(seconds_, point);
      sumSeconds_ += point.y;
      ++timedSteps_;
    }
  } else if (series.name == "samples_per_second") {
    for (const Point& point : series.points) keep(rates_, point);
  }
}

void RunProgress::addEpoch(const EpochRow& row) {
  const auto known = std::find_if(epochs_.begin(), epochs_.end(), [&](const EpochRow& other) {
    return other.epoch == row.epoch && other.step == row.step;
  });
  if (known != epochs_.end()) {
    *known = row;
    return;
  }
  // Steps of an earlier run after the one that this run resumed from are repeated by this run.
  std::erase_if(epochs_, [&](const EpochRow& other) { return other.epoch >= row.epoch; });
  epochs_.push_back(row);
}

std::int64_t RunProgress::stepsPerEpoch() const {
  if (scope_.samples > 0 && scope_.batch > 0)
    return (scope_.samples + scope_.batch - 1) / scope_.batch;
  // A limit of steps may end an epoch before its end: the most that was seen is nearest.
  std::int64_t most = 0;
  for (const EpochRow& row : epochs_)
    if (row.epoch > 0) most = std::max(most, (row.step + row.epoch - 1) / row.epoch);
  return most;
}

std::int64_t RunProgress::totalSteps() const {
  const std::int64_t byEpochs = stepsPerEpoch() * scope_.epochs;
  if (scope_.maxSteps > 0)
    return byEpochs > 0 ? std::min(scope_.maxSteps, byEpochs) : scope_.maxSteps;
  return byEpochs;
}

std::int64_t RunProgress::epochOf(std::int64_t step) const {
  if (scope_.samples > 0 && scope_.batch > 0)
    return step > 0 ? (step - 1) / stepsPerEpoch() + 1 : 1;
  for (auto row = epochs_.rbegin(); row != epochs_.rend(); ++row)
    if (row->step < step) return row->epoch + 1;
  return 1;
}

bool RunProgress::isBetweenEpochs() const {
  if (step_ == 0) return false;
  if (step_ == totalSteps()) return true;
  const std::int64_t each = stepsPerEpoch();
  if (each == 0 || step_ % each != 0) return false;
  return epochs_.empty() || epochs_.back().step < step_;
}

double RunProgress::fraction() const {
  const std::int64_t total = totalSteps();
  return total > 0 ? std::min(1.0, static_cast<double>(step_) / static_cast<double>(total)) : 0;
}

double RunProgress::secondsLeft(double elapsed) const {
  const std::int64_t total = totalSteps(), own = step_ - firstStep_ + 1;
  if (total <= 0 || firstStep_ == 0) return -1;
  return secondsFor(static_cast<double>(std::max<std::int64_t>(0, total - step_)),
                    static_cast<double>(own), elapsed);
}

Pace RunProgress::pace() const {
  double seconds = 0, samples = 0;
  std::size_t steps = 0;
  auto rate = rates_.rbegin();
  for (auto one = seconds_.rbegin(); one != seconds_.rend(); ++one) {
    if (steps >= kPaceSteps && seconds + one->value > kPaceSeconds) break;
    while (rate != rates_.rend() && rate->step > one->step) ++rate;
    if (rate == rates_.rend()) break;
    if (rate->step != one->step) continue;
    seconds += one->value;
    samples += rate->value * one->value;
    ++steps;
  }
  if (steps == 0 || seconds <= 0) return {};
  return {seconds / static_cast<double>(steps), samples / seconds};
}

double RunProgress::meanStepSeconds() const {
  return timedSteps_ > 0 ? sumSeconds_ / static_cast<double>(timedSteps_) : 0;
}

double RunProgress::stalledSeconds(Nanoseconds now) const {
  if (step_ == 0) return 0;
  const double silent = static_cast<double>(now - arrived_) * 1e-9;
  return silent > std::max(kLeastStall, kStallSteps * pace().stepSeconds) ? silent : 0;
}

}  // namespace lockstep::app
