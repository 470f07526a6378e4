#include "agent/supervisor/spool.h"

#include <algorithm>
#include <chrono>

#include "agent/base/heartbeat.h"
#include "engine/base/log.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kTailRecords = 4096;
constexpr std::int64_t kTailBytes = std::int64_t{8} << 20;
constexpr std::size_t kBatch = 256;
constexpr auto kCommitDelay = std::chrono::milliseconds(250);

constexpr Nanoseconds kExpireInterval = 60'000'000'000;

}  // namespace

Spool::Spool(SpoolOptions options) : options_(std::move(options)) {}

Result<std::unique_ptr<Spool>> Spool::open(const std::string& path, SpoolOptions options) {
  std::unique_ptr<Spool> spool(new Spool(std::move(options)));
  LOCKSTEP_TRY(spool->openFile(path));
  spool->thread_ = std::thread([raw = spool.get()] { raw->work(); });
  return spool;
}

Status Spool::openFile(const std::string& path) {
  LOCKSTEP_ASSIGN(file_, SpoolFile::open(path, options_.limitBytes, options_.maxPages));
  LOCKSTEP_ASSIGN(const auto lost, file_->lost());
  for (const SpoolFile::Lost& one : lost) {
    lost_.push_back({{one}, true});
    last_ = std::max(last_, one.to);
  }
  LOCKSTEP_ASSIGN(const std::optional<Kept> newest, file_->newest());
  run::v1::Record record;
  if (newest) {
    last_ = std::max(last_, newest->sequence);
    finished_ = record.ParseFromString(newest->bytes) && record.has_finished();
    alone_ = finished_ && record.finished().alone();
  }
  wall_ = SteadyWall(options_.clock(), record.wall_ns());
  return expire();
}

Spool::~Spool() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    pendingChanged_.notify_all();
    thread_.join();
    (void)flush();
  }
}

std::uint64_t Spool::append(run::v1::Record record) {
  std::lock_guard lock(mutex_);
  record.set_sequence(++last_);
  record.set_monotonic_ns(monotonicNow());
  record.set_wall_ns(wall_.now());
  finished_ = record.has_finished();
  alone_ = record.finished().alone();
  tail_.push_back({last_, record.wall_ns(), record.SerializeAsString()});
  const auto size = static_cast<std::int64_t>(tail_.back().bytes.size());
  tailBytes_ += size;
  pending_.push_back(last_);
  pendingBytes_ += size;
  if (pendingBytes_ > options_.pendingBytes) {
    const std::uint64_t from = pending_.front();
    std::uint64_t to = from;
    while (pendingBytes_ > options_.pendingBytes * 3 / 4 && pending_.size() > 1) {
      to = pending_.front();
      pending_.pop_front();
      pendingBytes_ -= static_cast<std::int64_t>(tailFrom(to)->bytes.size());
    }
    noteLost(from, to, "the disk of the node's workdir took no more");
  }
  while (!tail_.empty() && (tail_.size() > kTailRecords || tailBytes_ > kTailBytes) &&
         (pending_.empty() || tail_.front().sequence < pending_.front())) {
    tailBytes_ -= static_cast<std::int64_t>(tail_.front().bytes.size());
    tail_.pop_front();
  }
  if (finished_) woken_.notify_all();
  if (idle_ || pending_.size() >= kBatch) pendingChanged_.notify_all();
  return last_;
}

void Spool::noteLost(std::uint64_t from, std::uint64_t to, std::string why) {
  for (Lost& lost : lost_)
    if (!lost.written && lost.to + 1 == from && lost.why == why) {
      lost.to = to;
      return;
    }
  lost_.push_back({{from, to, std::move(why)}, false});
}

std::deque<Spool::Kept>::const_iterator Spool::tailFrom(std::uint64_t sequence) const {
  return std::lower_bound(tail_.begin(), tail_.end(), sequence,
                          [](const Kept& a, std::uint64_t b) { return a.sequence < b; });
}

// The records are committed.
void Spool::noteGone(std::optional<SpoolFile::Lost> range) {
  if (!range) return;
  std::lock_guard lock(mutex_);
  std::erase_if(lost_, [&](const Lost& lost) { return lost.from == range->from; });
  lost_.insert(lost_.begin(), Lost{std::move(*range), true});
}

Spool::Kept Spool::lostRecord(std::uint64_t from, std::uint64_t to, const std::string& why) const {
  run::v1::Record record;
  record.set_sequence(to);
  record.set_monotonic_ns(monotonicNow());
  record.set_wall_ns(wall_.now());
  record.mutable_lost()->set_from(from);
  record.mutable_lost()->set_to(to);
  record.mutable_lost()->set_why(why);
  return {to, record.wall_ns(), record.SerializeAsString()};
}

// Returns the `lost` record for a gap in the numbers; none if the records became an outline.
std::optional<Spool::Kept> Spool::gap(std::uint64_t from, std::uint64_t to) const {
  std::uint64_t first = to + 1, last = 0;
  std::string why = "no longer stored";
  for (const Lost& lost : lost_)
    if (lost.from <= to && lost.to >= from) {
      first = std::min(first, std::max(from, lost.from));
      last = std::max(last, std::min(to, lost.to));
      why = lost.why;
    }
  if (to > file_->thinnedTo()) return lostRecord(std::min(first, from), to, why);
  if (last == 0) return std::nullopt;
  return lostRecord(first, last, why);
}

Result<std::vector<Spool::Kept>> Spool::read(std::uint64_t after, std::size_t count,
                                             Nanoseconds wait) {
  std::unique_lock lock(mutex_);
  const std::uint64_t wakes = wakes_;
  const auto woken = [&] { return finished_ || wakes_ != wakes; };
  const Nanoseconds end = monotonicNow() + wait;
  for (Nanoseconds now = end - wait; last_ <= after && now < end && !woken();
       now = monotonicNow()) {
    const Nanoseconds next = nextMultiple(now - kHeartbeatGrace, kHeartbeat) + kHeartbeatGrace;
    woken_.wait_for(lock, std::chrono::nanoseconds(std::min(next, end) - now), woken);
  }
  if (last_ <= after) return std::vector<Kept>();
  std::vector<Kept> found;
  if (tail_.empty() || tail_.front().sequence > after + 1) {
    lock.unlock();
    auto kept = file_->read(after, count);
    lock.lock();
    LOCKSTEP_TRY(kept.status());
    found = std::move(*kept);
  }
  if (found.empty()) {
    for (auto at = tailFrom(after + 1); at != tail_.end() && found.size() < count; ++at)
      found.push_back(*at);
  }
  // Nothing there although numbers went past: all of it is lost.
  if (found.empty()) return std::vector{lostRecord(after + 1, last_, "no longer stored")};
  std::vector<Kept> out;
  for (Kept& kept : found) {
    if (kept.sequence > after + 1)
      if (auto lost = gap(after + 1, kept.sequence - 1)) out.push_back(std::move(*lost));
    after = kept.sequence;
    out.push_back(std::move(kept));
  }
  return out;
}

std::uint64_t Spool::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}
bool Spool::finished() const {
  std::lock_guard lock(mutex_);
  return finished_;
}
bool Spool::alone() const {
  std::lock_guard lock(mutex_);
  return alone_;
}
void Spool::skip(std::uint64_t count, std::string why) {
  std::lock_guard lock(mutex_);
  noteLost(last_ + 1, last_ + count, std::move(why));
  last_ += count;
}

void Spool::wakeReaders() {
  std::lock_guard lock(mutex_);
  ++wakes_;
  woken_.notify_all();
}

Status Spool::expire() {
  expireDue_ = monotonicNow() + std::min(kExpireInterval, options_.maxAge / 4);
  LOCKSTEP_ASSIGN(auto gone, file_->expire(wall_.now() - options_.maxAge));
  noteGone(std::move(gone));
  return {};
}

// Downsamples old records until the file is below its limit.
void Spool::trim() {
  if (monotonicNow() > expireDue_) (void)expire();
  if (file_->bytes() <= options_.limitBytes) return;
  while (file_->bytes() > options_.limitBytes - options_.limitBytes / 32) {
    auto gone = file_->thin();
    if (!gone.ok()) return logWarning("{}", gone.error().text());
    noteGone(std::move(*gone));
  }
}

Status Spool::flush() {
  std::lock_guard alone(flushMutex_);
  for (;;) {
    std::vector<Kept> batch;
    std::vector<SpoolFile::Lost> lost;
    {
      std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < pending_.size() && i < 4 * kBatch; ++i)
        batch.push_back(*tailFrom(pending_[i]));
      for (const Lost& one : lost_)
        if (!one.written) lost.push_back(one);
      if (batch.empty() && lost.empty()) break;
    }
    LOCKSTEP_TRY(file_->commit(batch, lost));
    std::lock_guard lock(mutex_);
    for (const SpoolFile::Lost& one : lost)
      for (Lost& noted : lost_)
        if (noted.from == one.from && noted.to == one.to) noted.written = true;
    const std::uint64_t done = batch.empty() ? 0 : batch.back().sequence;
    while (!pending_.empty() && pending_.front() <= done) {
      pendingBytes_ -= static_cast<std::int64_t>(tailFrom(pending_.front())->bytes.size());
      pending_.pop_front();
    }
  }
  trim();
  return {};
}

void Spool::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      pendingChanged_.wait_for(lock, kCommitDelay,
                               [&] { return stop_ || pending_.size() >= kBatch; });
      if (stop_) return;
      if (pending_.empty()) {
        idle_ = true;
        pendingChanged_.wait(lock, [&] { return stop_ || !pending_.empty(); });
        idle_ = false;
        continue;
      }
    }
    const Status status = flush();
    if (status.ok()) {
      troubled_ = false;
      continue;
    }
    if (!troubled_) {
      troubled_ = true;
      logWarning("{}", status.error().text());
      if (options_.onTrouble) options_.onTrouble(status.error());
    }
    std::unique_lock lock(mutex_);
    pendingChanged_.wait_for(lock, std::chrono::seconds(1), [&] { return stop_; });
    if (stop_) return;
  }
}

}  // namespace lockstep::agent
