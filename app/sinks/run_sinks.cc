#include "app/sinks/run_sinks.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>

#include "app/core/shallow_json.h"
#include "app/history/history.h"
#include "app/history/series_name.h"
#include "app/sinks/curve_sink.h"
#include "engine/base/clock.h"

namespace lockstep::app {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using nlohmann::json;

using Wait = std::chrono::milliseconds;
constexpr Wait kFilesEvery = 1000ms, kCollectorEvery = 5000ms;
constexpr Wait kMostBetween = 60'000ms;  // passes
constexpr auto kNotedEvery = 10s;
constexpr auto kFinishLimit = 30s;
constexpr std::size_t kAtOnce = 2000;         // points
constexpr std::int64_t kMostPending = 10000;  // likewise

struct SinkKind {
  std::string key;     // in the run's file
  bool sends = false;  // to another machine, rather than writes
  Wait every;
  // `size` as of CurveSink.
  std::function<std::unique_ptr<CurveSink>(const RunRow& row, std::int64_t size)> make;
};

std::vector<SinkKind> kindsOf(const std::string& run, const spec::v1::SinksSpec& sinks) {
  std::vector<SinkKind> out;
  const auto add = [&](const char* name, bool sends, auto make) {
    out.push_back({std::string(kAboutSink) + name, sends, sends ? kCollectorEvery : kFilesEvery,
                   std::move(make)});
  };
  if (!sinks.tensorboard().empty())
    add("tensorboard", false, [folder = sinks.tensorboard() + "/" + run](const RunRow&, auto) {
      return tensorBoardSink(folder);
    });
  if (!sinks.csv().empty())
    add("csv", false, [path = sinks.csv() + "/" + run + ".csv"](const RunRow&, std::int64_t size) {
      return csvSink(path, size);
    });
  if (!sinks.json().empty())
    add("json", false,
        [path = sinks.json() + "/" + run + ".jsonl"](const RunRow&, std::int64_t size) {
          return jsonSink(path, size);
        });
  if (!sinks.otlp().empty())
    add("otlp", true, [url = sinks.otlp()](const RunRow& row, auto) { return otlpSink(url, row); });
  return out;
}

}  // namespace

// One sink and its thread.
class RunSinks::Feed {
 public:
  Feed(std::string historyFolder, std::string run, SinkKind kind)
      : historyFolder_(std::move(historyFolder)), run_(std::move(run)), kind_(std::move(kind)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  std::vector<Error> warnings() {
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings_, {});
  }
  void beginFinish() {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  void waitDone(Clock::time_point until, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, stop, until, [this] { return done_; });
  }
  void requestStop() { thread_.request_stop(); }
  void join() { thread_.join(); }

 private:
  // How much of a series the sink has taken.
  struct Taken {
    double x = -std::numeric_limits<double>::infinity();
    std::int64_t points = 0;
  };

  void work(const std::stop_token& stop);
  Wait waitAfter(Clock::duration pass) const;
  Status open();
  void note();
  Status pass(const std::stop_token& stop);
  Status passSeries(const SeriesInfo& info, const StepTimes& times, const std::stop_token& stop);
  Result<const StepTimes*> timesOf(int rank);
  std::int64_t left() const;
  void warn(const Error& why);
  void warnRefused();
  void warnLeft();
  void addWarning(Error error);

  const std::string historyFolder_, run_;
  const SinkKind kind_;

  // Of the thread.
  std::unique_ptr<RunStore> store_;
  std::unique_ptr<CurveSink> sink_;
  std::map<std::string, Taken> taken_;  // by series; of what the sink was given
  std::map<int, StepTimes> times_;      // by rank
  Clock::time_point noteDue_;
  bool toldFailure_ = false, toldRefused_ = false;
  Message lastFailure_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Error> warnings_;            // guarded by mutex_
  bool finishing_ = false, done_ = false;  // likewise
  std::jthread thread_;                    // last: it uses the others
};

void RunSinks::Feed::work(const std::stop_token& stop) {
  int failures = 0;
  Wait wait = kind_.every;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const bool last = finishing_;
    lock.unlock();
    const Clock::time_point began = Clock::now();
    const Status passed = pass(stop);
    failures = passed.ok() ? 0 : failures + 1;
    if (passed.ok()) lastFailure_ = {};
    if (!passed.ok() && !stop.stop_requested()) warn(passed.error());
    warnRefused();
    lock.lock();
    if (last && (passed.ok() || failures > 1)) break;
    wait = passed.ok() ? waitAfter(Clock::now() - began) : std::min(2 * wait, kMostBetween);
    changed_.wait_for(lock, stop, last ? kFilesEvery : wait, [&] { return finishing_ && !last; });
  }
  const bool ended = finishing_;
  lock.unlock();
  note();
  if (ended) warnLeft();
  lock.lock();
  done_ = true;
  changed_.notify_all();
}

// The passes of a run with thousands of series take at most a tenth of the time.
Wait RunSinks::Feed::waitAfter(Clock::duration pass) const {
  return std::clamp(10 * std::chrono::duration_cast<Wait>(pass), kind_.every, kMostBetween);
}

Status RunSinks::Feed::open() {
  if (sink_) return {};
  LOCKSTEP_ASSIGN(const auto history, History::open(historyFolder_));
  LOCKSTEP_ASSIGN(const RunRow row, history->row(run_));
  LOCKSTEP_ASSIGN(store_, history->openRun(run_));
  const json noted = parseShallow(store_->about(kind_.key));
  const auto size = noted.is_object() ? noted.find("size") : noted.end();
  sink_ = kind_.make(row, size != noted.end() && size->is_number_integer()
                              ? std::max<std::int64_t>(0, size->get<std::int64_t>())
                              : 0);
  const auto taken = noted.is_object() ? noted.find("taken") : noted.end();
  if (taken == noted.end() || !taken->is_object()) return {};
  for (const auto& [series, at] : taken->items())
    if (at.is_array() && at.size() == 2 && at[0].is_number() && at[1].is_number_integer())
      taken_[series] = {at[0].get<double>(), at[1].get<std::int64_t>()};
  return {};
}

// Only when the sink has handed on all that it was given: a later recorder begins after that.
void RunSinks::Feed::note() {
  if (!sink_ || sink_->pending() > 0) return;
  json taken = json::object();
  for (const auto& [series, at] : taken_) taken[series] = {at.x, at.points};
  const json noted = {{"size", sink_->size()}, {"taken", std::move(taken)}};
  // An error is ignored: the next note, after kNotedEvery, replaces this one anyway.
  (void)store_->setAbout({{kind_.key, noted.dump(-1, ' ', false, json::error_handler_t::replace)}});
  noteDue_ = Clock::now() + kNotedEvery;
}

// A rank's, or those of rank 0 where they are not recorded.
Result<const StepTimes*> RunSinks::Feed::timesOf(int rank) {
  StepTimes& times = times_[rank];
  LOCKSTEP_TRY(times.advance(*store_, rank, static_cast<double>(wallNow()) * 1e-9));
  if (times.empty() && rank != 0) return timesOf(0);
  return &times;
}

// The series of one rank after another, so that the times of few are in memory. What is recorded
// after the series were listed is left for the next pass: its times may come after those read here.
Status RunSinks::Feed::pass(const std::stop_token& stop) {
  LOCKSTEP_TRY(open());
  LOCKSTEP_TRY(sink_->flush(stop));
  std::map<int, std::vector<SeriesInfo>> fresh;  // by rank
  for (SeriesInfo& info : store_->series()) {
    const SeriesName name = parseSeriesName(info.name);
    if (name.rank >= 0 && name.figure == "began") continue;  // the times themselves
    const auto known = taken_.find(info.name);
    if (known == taken_.end() || info.lastX > known->second.x)
      fresh[std::max(name.rank, 0)].push_back(std::move(info));
  }
  for (const auto& [rank, all] : fresh) {
    LOCKSTEP_ASSIGN(const StepTimes* const times, timesOf(rank));
    for (const SeriesInfo& info : all) LOCKSTEP_TRY(passSeries(info, *times, stop));
    if (rank != 0) times_[rank].forgetOld();
  }
  times_[0].forgetOld();  // others may have needed them
  LOCKSTEP_TRY(sink_->flush(stop));
  if (Clock::now() >= noteDue_) note();
  return {};
}

Status RunSinks::Feed::passSeries(const SeriesInfo& info, const StepTimes& times,
                                  const std::stop_token& stop) {
  const auto known = taken_.find(info.name);
  Taken at = known == taken_.end() ? Taken() : known->second;
  LOCKSTEP_ASSIGN(std::vector<Point> points, store_->readAfter(info.name, at.x));
  while (!points.empty() && points.back().x > info.lastX) points.pop_back();
  for (std::span<const Point> rest(points); !rest.empty();) {
    if (stop.stop_requested()) return makeError(Code::kCancelled, "the call was cancelled");
    const auto some = rest.first(std::min(kAtOnce, rest.size()));
    sink_->add({info.name, at.points, some, times});
    at = {some.back().x, at.points + static_cast<std::int64_t>(some.size())};
    taken_[info.name] = at;
    rest = rest.subspan(some.size());
    if (sink_->pending() >= kMostPending) LOCKSTEP_TRY(sink_->flush(stop));
  }
  return {};
}

// How many points of the run the sink lacks.
std::int64_t RunSinks::Feed::left() const {
  if (!sink_) return 0;
  std::int64_t out = sink_->pending() + sink_->refused().count;
  for (const SeriesInfo& info : store_->series()) {
    const SeriesName name = parseSeriesName(info.name);
    if (name.rank >= 0 && name.figure == "began") continue;
    const auto known = taken_.find(info.name);
    const std::int64_t given = known == taken_.end() ? 0 : known->second.points;
    out += std::max<std::int64_t>(0, info.points - given);
  }
  return out;
}

void RunSinks::Feed::addWarning(Error error) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(std::move(error));
}

void RunSinks::Feed::warn(const Error& why) {
  lastFailure_ = why.message();
  if (std::exchange(toldFailure_, true)) return;
  const std::string name = sink_ ? sink_->name() : kind_.key;
  Error error = kind_.sends
                    ? makeError(why.code, "metrics of the run cannot be sent to {} now", name)
                    : makeError(why.code, "curves of the run cannot be written to {} now", name);
  error.why = lastFailure_;
  error.next = "they are tried again while the run is followed; see sinks in its spec";
  addWarning(std::move(error));
}

void RunSinks::Feed::warnRefused() {
  if (!sink_ || sink_->refused().count == 0) return;
  lastFailure_ = sink_->refused().why;
  if (std::exchange(toldRefused_, true)) return;
  Error error =
      makeError(Code::kFailedPrecondition, "{} does not take metrics of the run", sink_->name());
  error.why = lastFailure_;
  error.next = "check sinks.otlp and the collector's settings";
  addWarning(std::move(error));
}

void RunSinks::Feed::warnLeft() {
  const std::int64_t count = left();
  if (count == 0) return;
  Error error = makeError(Code::kUnavailable, "points of the run that {} did not get: {}",
                          sink_->name(), count);
  error.why = lastFailure_;
  error.next = message("the history has them: lockstep history export {}", run_);
  addWarning(std::move(error));
}

RunSinks::RunSinks(const std::string& historyFolder, const std::string& run,
                   const spec::v1::SinksSpec& sinks) {
  for (SinkKind& kind : kindsOf(run, sinks))
    feeds_.push_back(std::make_unique<Feed>(historyFolder, run, std::move(kind)));
}

RunSinks::~RunSinks() {
  for (const auto& feed : feeds_) feed->requestStop();  // all, before one is waited for
}

std::vector<Error> RunSinks::warnings() {
  std::vector<Error> out;
  for (const auto& feed : feeds_)
    for (Error& error : feed->warnings()) out.push_back(std::move(error));
  return out;
}

void RunSinks::finish(const std::stop_token& stop) {
  const Clock::time_point until = Clock::now() + kFinishLimit;
  for (const auto& feed : feeds_) feed->beginFinish();
  for (const auto& feed : feeds_) feed->waitDone(until, stop);
  for (const auto& feed : feeds_) feed->requestStop();
  for (const auto& feed : feeds_) feed->join();
}

}  // namespace lockstep::app
