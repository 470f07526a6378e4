#include "app/cluster/all_reduce_bench.h"

#include <grpcpp/channel.h>
#include <grpcpp/support/sync_stream.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "app/core/rpc.h"
#include "engine/base/clock.h"
#include "engine/specs/error_info.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

using node::v1::BenchTogetherReply;
using node::v1::BenchTogetherRequest;

constexpr std::int64_t kBytes = 8 << 20;
constexpr double kLeastSeconds = 1e-9, kMostSeconds = 1e6;  // that an all-reduce can take
constexpr const char* kNotMeasured = "all-reduce could not be measured";
constexpr double kBesides = 90;  // seconds to start, to end, and for slow links

class Rank {
 public:
  explicit Rank(NodeAccess& node) : node_(node) {}

  Status start(const BenchTogetherRequest& request, double seconds, const std::stop_token& stop) {
    LOCKSTEP_ASSIGN(const auto channel, node_.agent());
    setLimit(context_, std::chrono::milliseconds(static_cast<int>((seconds + kBesides) * 1e3)));
    cancel_.emplace(context_, stop);
    stub_ = node::v1::Agent::NewStub(channel);
    stream_ = stub_->BenchTogether(&context_);
    stream_->Write(request);  // if it fails, finish() says so
    return {};
  }
  bool read(BenchTogetherReply& reply) { return stream_->Read(&reply); }
  void relay(const node::v1::KvSet& published) {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    BenchTogetherRequest request;
    *request.mutable_published() = published;
    stream_->Write(request);
  }
  void endRequests() {
    const std::lock_guard lock(mutex_);
    if (!over_) stream_->WritesDone();
    over_ = true;
  }
  void cancel() { context_.TryCancel(); }
  Status finish() { return rpcStatus(stream_->Finish(), kNotMeasured, node_.name()); }
  const std::string& name() const { return node_.name(); }

  std::atomic<bool> announced = false;  // has published something

 private:
  NodeAccess& node_;
  grpc::ClientContext context_;
  std::optional<CancelOnStop> cancel_;
  std::unique_ptr<node::v1::Agent::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<BenchTogetherRequest, BenchTogetherReply>> stream_;
  std::mutex mutex_;
  bool over_ = false;  // mutex_: no more requests
};

class AllReduceBench {
 public:
  Result<double> run(const std::vector<BenchedRank>& ranks, double seconds,
                     const std::stop_token& stop) {
    LOCKSTEP_TRY(start(ranks, seconds, stop));
    {
      std::vector<std::jthread> threads;
      for (const auto& rank : ranks_) threads.emplace_back([this, &rank] { follow(*rank); });
    }
    if (stop.stop_requested()) return makeError(Code::kCancelled, "the measurement was cancelled");
    if (failed_) return *failed_;
    const double count = static_cast<double>(ranks_.size());
    return 2 * (count - 1) / count * static_cast<double>(kBytes) / (seconds_ / count);
  }

 private:
  Status start(const std::vector<BenchedRank>& ranks, double seconds, const std::stop_token& stop) {
    BenchTogetherRequest request;
    auto& start = *request.mutable_start();
    start.set_id(fmt::format("bench-{}-{}", getpid(), monotonicNow()));
    start.set_world(static_cast<int>(ranks.size()));
    start.set_seconds(seconds);
    start.mutable_collectives()->add_kinds("all-reduce");
    start.mutable_collectives()->set_min_bytes(kBytes);
    start.mutable_collectives()->set_max_bytes(kBytes);
    for (const BenchedRank& rank : ranks) {
      start.set_rank(static_cast<int>(ranks_.size()));
      start.set_address(rank.address);
      const auto& made = ranks_.emplace_back(std::make_unique<Rank>(*rank.node));
      Status started = made->start(request, seconds, stop);
      if (started.ok()) continue;
      ranks_.pop_back();
      for (const auto& one : ranks_) one->cancel();
      for (const auto& one : ranks_) (void)one->finish();
      return started;
    }
    return {};
  }

  // Reads a rank's replies to their end.
  void follow(Rank& rank) {
    BenchTogetherReply reply;
    bool answered = false;
    while (rank.read(reply)) {
      if (reply.has_published()) {
        rank.announced = true;
        for (const auto& other : ranks_)
          if (other.get() != &rank) other->relay(reply.published());
        continue;
      }
      const auto seconds = allReduceSecondsOf(reply);
      if (!seconds.ok())
        fail(causeOf(seconds.error(), rank), rank);
      else if (!std::exchange(answered, true))
        take(*seconds);
      rank.endRequests();
    }
    rank.endRequests();
    const Status ended = rank.finish();
    if (!ended.ok()) fail(ended.error(), rank);
    if (ended.ok() && !answered) fail(makeError(Code::kUnavailable, kNotMeasured), rank);
  }
  void take(double seconds) {
    const std::lock_guard lock(mutex_);
    seconds_ += seconds;
  }
  // A rank that announced itself has waited for one that did not: the error is of that one.
  Error causeOf(Error error, const Rank& rank) const {
    const auto silent =
        std::ranges::find_if(ranks_, [](const auto& one) { return !one->announced; });
    if (error.code != Code::kUnavailable || !rank.announced || silent == ranks_.end()) return error;
    error.what = kNotMeasured;
    error.node = (*silent)->name();
    error.rank = -1;
    return error;
  }
  // The others would wait for the rank that failed.
  void fail(Error error, const Rank& rank) {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    if (error.node.empty()) error.node = rank.name();
    failed_ = std::move(error);
    for (const auto& one : ranks_)
      if (one.get() != &rank) one->cancel();
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::mutex mutex_;
  double seconds_ = 0;           // mutex_: of one all-reduce, summed over ranks
  std::optional<Error> failed_;  // mutex_: the first
};

}  // namespace

Result<double> allReduceSecondsOf(const BenchTogetherReply& reply) {
  if (reply.has_failed()) return specs::fromInfo(reply.failed());
  const auto& costs = reply.result().collectives();
  if (costs.size() == 1 && costs[0].seconds() >= kLeastSeconds && costs[0].seconds() < kMostSeconds)
    return costs[0].seconds();
  return makeError(Code::kUnavailable, kNotMeasured);
}

Result<double> measureAllReduce(const std::vector<BenchedRank>& ranks, double seconds,
                                const std::stop_token& stop) {
  return AllReduceBench().run(ranks, seconds, stop);
}

}  // namespace lockstep::app
