#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "engine/comm/gloo_failure.h"
#include "engine/comm/gloo_mesh.h"
#include "engine/comm/message_waits.h"
#include "engine/comm/reduce.h"

namespace lockstep::comm {
namespace {

// A small all-reduce has at most so many bytes of a rank, and of all ranks together.
constexpr std::int64_t kSmallBytes = 32 << 10, kGatheredBytes = 4 << 20;
constexpr int kRadix = 8;  // a rank sends to one less in a round of a small all-reduce or barrier
constexpr Nanoseconds kSpin = 20'000;              // polling before sleeping
constexpr Nanoseconds kConnectSlice = 20'000'000;  // of waiting for a connection

enum class Operation : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier,
  kMessage
};
constexpr std::array<std::string_view, 7> kOperationNames = {
    "all-reduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all", "barrier", "message"};

using Call = MessageHeader::Call;

Call callOf(Operation operation, std::int64_t bytes, int tag = 0, DType dtype = DType::kU8,
            ReduceOp op = ReduceOp::kSum) {
  return {static_cast<std::uint8_t>(operation),
          static_cast<std::uint8_t>(dtype),
          static_cast<std::uint8_t>(op),
          0,
          tag,
          bytes};
}

Message callText(const Call& call) {
  const auto name = call.operation < kOperationNames.size() ? kOperationNames[call.operation]
                                                            : std::string_view("something");
  if (call.operation == static_cast<std::uint8_t>(Operation::kMessage))
    return message("{} of {} bytes with tag {}", name, call.total, call.tag);
  return message("{} of {} bytes", name, call.total);
}

// Whether the error is of a peer, rather than of this rank, as when it is out of descriptors.
bool isOfPeer(const Error& error) {
  return error.code == Code::kAborted || error.code == Code::kDeadlineExceeded ||
         error.code == Code::kUnavailable;
}

// One direction of a transfer with one peer; a transfer of no bytes is one empty message.
struct Outgoing {
  int peer;
  const std::byte* data;
  std::int64_t bytes;
  std::int64_t done = 0;
  bool finished = false;
};
struct Incoming {
  enum class Into : std::uint8_t { kCopy, kReduce };
  int peer;
  std::byte* data;
  std::int64_t bytes;
  Into into = Into::kCopy;
  std::int64_t done = 0;
  bool finished = false;
};

// Small all-reduces gather everything on every rank, in rounds (gatherBlocks), and reduce in rank
// order. Large ones are a direct reduce-scatter (rank r reduces slice r in the order r, r−1, r−2, …
// around the ring) and an all-gather of the results. Either way each element is summed in one fixed
// order, equal on every rank.
class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(std::unique_ptr<GlooMesh> mesh, const GlooOptions& options)
      : mesh_(std::move(mesh)),
        failure_(*mesh_, options),
        rank_(options.rank),
        size_(options.size),
        timeout_(options.timeout),
        names_(options.names),
        sent_(static_cast<std::size_t>(size_)),
        received_(static_cast<std::size_t>(size_)),
        messageWaits_(size_),
        gathered_(std::make_unique_for_overwrite<std::byte[]>(
            static_cast<std::size_t>(std::min(size_ * kSmallBytes, kGatheredBytes)))),
        inputs_(static_cast<std::size_t>(size_)) {
    outgoing_.reserve(static_cast<std::size_t>(size_));
    incoming_.reserve(static_cast<std::size_t>(size_));
    events_.reserve(2 * static_cast<std::size_t>(size_) + 1);
  }

  std::string_view kind() const override { return "gloo"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status allReduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    LOCKSTEP_TRY(checkReducible(count, dtype));
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    auto* bytes = static_cast<std::byte*>(data);
    begin(callOf(Operation::kAllReduce, count * width, 0, dtype, op));
    if (count * width <= std::min(kSmallBytes, kGatheredBytes / size_)) {
      if (count > 0) std::memcpy(gathered_.get(), bytes, count * width);
      LOCKSTEP_TRY(gatherBlocks(count * width));
      for (int i = 0; i < size_; ++i)
        inputs_[static_cast<std::size_t>((rank_ + i) % size_)] =
            gathered_.get() + i * count * width;
      if (count > 0 && size_ > 1) reduceArrays(bytes, inputs_, count, dtype, op);
      return {};
    }
    const auto begin = [&](int r) { return count * r / size_ * width; };
    const auto length = [&](int r) { return begin(r + 1) - begin(r); };
    LOCKSTEP_TRY(reduceInto(bytes + begin(rank_), length(rank_),
                            [&](int r) { return std::span(bytes + begin(r), length(r)); }));
    for (int r : others()) {
      outgoing_.push_back({r, bytes + begin(rank_), length(rank_)});
      incoming_.push_back({r, bytes + begin(r), length(r)});
    }
    return transfer();
  }

  Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                       ReduceOp op) override {
    LOCKSTEP_TRY(checkReducible(0, dtype));
    LOCKSTEP_TRY(checkCuts(cuts, size_));
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    const auto* from = static_cast<const std::byte*>(in);
    begin(callOf(Operation::kReduceScatter, (cuts[size_] - cuts[0]) * width, 0, dtype, op));
    const auto part = [&](int r) {
      return std::span(from + cuts[r] * width, (cuts[r + 1] - cuts[r]) * width);
    };
    const auto own = part(rank_);
    if (!own.empty() && out != own.data()) std::memmove(out, own.data(), own.size());
    return reduceInto(static_cast<std::byte*>(out), static_cast<std::int64_t>(own.size()), part);
  }

  Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                   DType dtype) override {
    LOCKSTEP_TRY(checkCuts(cuts, size_));
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    auto* to = static_cast<std::byte*>(out);
    begin(callOf(Operation::kAllGather, (cuts[size_] - cuts[0]) * width, 0, dtype));
    const auto bytes = [&](int r) { return (cuts[r + 1] - cuts[r]) * width; };
    std::byte* own = to + cuts[rank_] * width;
    if (bytes(rank_) > 0 && own != in) std::memmove(own, in, bytes(rank_));
    for (int r : others()) {
      outgoing_.push_back({r, own, bytes(rank_)});
      incoming_.push_back({r, to + cuts[r] * width, bytes(r)});
    }
    return transfer();
  }

  Status broadcast(void* data, std::int64_t bytes, int root) override {
    LOCKSTEP_TRY(checkBytes(bytes));
    LOCKSTEP_TRY(checkPeer(root, size_));
    begin(callOf(Operation::kBroadcast, bytes, root));
    auto* to = static_cast<std::byte*>(data);
    if (rank_ != root)
      incoming_.push_back({root, to, bytes});
    else
      for (int r : others()) outgoing_.push_back({r, to, bytes});
    return transfer();
  }

  Status allToAll(const void* in, void* out, std::int64_t bytes) override {
    LOCKSTEP_TRY(checkBytes(bytes));
    begin(callOf(Operation::kAllToAll, bytes));
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    if (bytes > 0) std::memmove(to + rank_ * bytes, from + rank_ * bytes, bytes);
    for (int r : others()) {
      outgoing_.push_back({r, from + r * bytes, bytes});
      incoming_.push_back({r, to + r * bytes, bytes});
    }
    return transfer();
  }

  Status send(const void* data, std::int64_t bytes, int peer, int tag) override {
    LOCKSTEP_TRY(checkMessage(bytes, peer, size_, rank_));
    // May run on another thread than the receiver: shares only the failure state with it.
    const Call call = callOf(Operation::kMessage, bytes, tag);
    Outgoing out{peer, static_cast<const std::byte*>(data), bytes};
    MessageWaits::Mark mark = messageWaits_.sending(peer);
    LOCKSTEP_TRY(connect(call, peer, [&](Nanoseconds now) { mark.begin(now); }));
    for (Nanoseconds since = 0; !out.finished;) {
      if (failure_.isOver()) return refusal(call);
      std::array<pollfd, 2> events = {pollfd{mesh_->descriptor(peer), POLLOUT, 0},
                                      pollfd{mesh_->watch(), POLLIN, 0}};
      poll(events.data(), since == 0 ? 1 : 2, since == 0 ? 0 : 100);
      if (events[0].revents != 0) {
        since = 0;
        if (Status status = sendPart(call, out); !status.ok())
          return broken(std::move(status.error()), call, peer);
        continue;
      }
      if (events[1].revents != 0) LOCKSTEP_TRY(failIfOneIsLate(call));
      const Nanoseconds now = monotonicNow();
      if (since == 0) since = now;
      mark.begin(now);
      if (now - since >= timeout_) return late(call);
    }
    return {};
  }

  Status recv(void* data, std::int64_t bytes, int peer, int tag) override {
    LOCKSTEP_TRY(checkMessage(bytes, peer, size_, rank_));
    // May be one of several receiving threads: state shared among them is locked.
    const Call call = callOf(Operation::kMessage, bytes, tag);
    Incoming in{peer, static_cast<std::byte*>(data), bytes};
    MessageWaits::Mark mark = messageWaits_.receiving(peer);
    LOCKSTEP_TRY(connect(call, peer, [&](Nanoseconds now) { mark.begin(now); }));
    for (Nanoseconds since = 0; !in.finished;) {
      if (failure_.isOver()) return refusal(call);
      const Nanoseconds now = monotonicNow();
      const Nanoseconds waited = since == 0 ? 0 : now - since;
      if (waited >= timeout_) return late(call);
      std::array<pollfd, 2> events = {pollfd{mesh_->descriptor(peer), POLLIN, 0},
                                      pollfd{mesh_->watch(), POLLIN, 0}};
      poll(events.data(), waited < kSpin ? 1 : 2, waited < kSpin ? 0 : 100);
      if (events[0].revents != 0) {
        since = 0;
        LOCKSTEP_TRY(receivePart(call, in));
      } else if (events[1].revents != 0) {
        LOCKSTEP_TRY(failIfOneIsLate(call));
      } else if (since == 0) {
        since = now;
        mark.begin(now);
      } else if (waited < kSpin) {
        sched_yield();
      }
    }
    return {};
  }

  Status exchange(const void* out, std::int64_t outBytes, int to, void* in, std::int64_t inBytes,
                  int from, int tag) override {
    LOCKSTEP_TRY(checkMessage(outBytes, to, size_, rank_));
    LOCKSTEP_TRY(checkMessage(inBytes, from, size_, rank_));
    begin(callOf(Operation::kMessage, inBytes, tag));
    outgoing_.push_back({to, static_cast<const std::byte*>(out), outBytes});
    incoming_.push_back({from, static_cast<std::byte*>(in), inBytes});
    return transfer();
  }

  Status barrier() override {
    begin(callOf(Operation::kBarrier, 0));
    return gatherBlocks(0);
  }

  void abort() override { failure_.abort(); }

 private:
  // Peers in the order rank_+1, rank_+2, … around the ring, so that not all start with rank 0.
  struct Ring {
    struct Iterator {
      int rank, size, step;
      int operator*() const { return (rank + step) % size; }
      Iterator& operator++() { return ++step, *this; }
      bool operator!=(const Iterator& other) const { return step != other.step; }
    };
    int rank, size;
    Iterator begin() const { return {rank, size, 1}; }
    Iterator end() const { return {rank, size, size}; }
  };
  Ring others() const { return {rank_, size_}; }

  void begin(const Call& call) { call_ = call, outgoing_.clear(), incoming_.clear(); }

  // All-gathers a block of `bytes` from each rank. Block i of gathered_ becomes that of rank
  // rank_ + i; block 0 is there. In a round a rank sends the blocks it holds to kRadix − 1 others,
  // and then holds kRadix times as many (Bruck et al., "Efficient Algorithms for All-to-All
  // Communications in Multiport Message-Passing Systems", 1997). No rank sends to another twice.
  Status gatherBlocks(std::int64_t bytes) {
    int held = 1;
    do {
      for (int from = held; from < std::min(size_, kRadix * held); from += held) {
        const std::int64_t part = std::min(held, size_ - from) * bytes;
        outgoing_.push_back({(rank_ + size_ - from) % size_, gathered_.get(), part});
        incoming_.push_back({(rank_ + from) % size_, gathered_.get() + from * bytes, part});
      }
      LOCKSTEP_TRY(transfer());
      held *= kRadix;
    } while (held < size_);
    return {};
  }

  // All-gathers: `out` holds this rank's part and becomes the full result; part(r) is the part that
  // rank r reduced.
  template <typename Part>
  Status reduceInto(std::byte* out, std::int64_t bytes, Part&& part) {
    for (int step = 1; step < size_; ++step) {
      const int to = (rank_ + step) % size_;
      const auto theirs = part(to);
      outgoing_.push_back({to, theirs.data(), static_cast<std::int64_t>(theirs.size())});
      incoming_.push_back({(rank_ + size_ - step) % size_, out, bytes, Incoming::Into::kReduce});
      LOCKSTEP_TRY(transfer());
    }
    return size_ == 1 ? transfer() : Status();
  }

  // Waits until the connection with a peer is open; calls waits(now) if it is not.
  template <typename Waits>
  Status connect(const Call& call, int peer, Waits&& waits) {
    for (Nanoseconds since = 0; !mesh_->isOpen(peer);) {
      if (failure_.isOver()) return refusal(call);
      const Nanoseconds now = monotonicNow();
      if (since == 0) waits(since = now);
      if (now - since >= timeout_) return late(call);
      auto open = mesh_->open(peer, kConnectSlice);
      if (!open.ok()) return broken(std::move(open.error()), call, peer);
      if (!*open) LOCKSTEP_TRY(failIfOneIsLate(call));
    }
    return {};
  }

  // Opens the connections of outgoing_ and incoming_: requests all, then waits for each.
  Status connectAll() {
    const auto forAll = [&](auto&& opens) -> Status {
      for (const Outgoing& out : outgoing_) LOCKSTEP_TRY(opens(out.peer));
      for (const Incoming& in : incoming_) LOCKSTEP_TRY(opens(in.peer));
      return {};
    };
    const auto waits = [&](Nanoseconds now) { began_ = began_ == 0 ? now : began_; };
    LOCKSTEP_TRY(forAll([&](int peer) -> Status {
      if (mesh_->isOpen(peer)) return {};
      const Nanoseconds now = monotonicNow();
      waits(now);
      if (now - began_ >= timeout_) return late(call_);
      if (Status status = mesh_->request(peer); !status.ok())
        return broken(std::move(status.error()), call_, peer);
      return {};
    }));
    return forAll([&](int peer) { return connect(call_, peer, waits); });
  }

  // Completes all of outgoing_ and incoming_, both directions concurrently, and clears them.
  Status transfer() {
    if (failure_.isOver()) return refusal(call_);
    LOCKSTEP_TRY(connectAll());
    Nanoseconds progress = 0;
    for (;;) {
      events_.clear();
      for (const Outgoing& out : outgoing_)
        if (!out.finished) events_.push_back({mesh_->descriptor(out.peer), POLLOUT, 0});
      for (const Incoming& in : incoming_)
        if (!in.finished) events_.push_back({mesh_->descriptor(in.peer), POLLIN, 0});
      if (events_.empty()) break;
      const int ready = poll(events_.data(), events_.size(), 0);
      if (ready == 0) {
        LOCKSTEP_TRY(sleep(&progress));
        continue;
      }
      progress = 0;
      std::size_t next = 0;
      for (Outgoing& out : outgoing_)
        if (!out.finished && events_[next++].revents != 0) {
          if (Status status = sendPart(callOfPart(out), out); !status.ok())
            return broken(std::move(status.error()), call_, out.peer);
        }
      for (Incoming& in : incoming_)
        if (!in.finished && events_[next++].revents != 0) LOCKSTEP_TRY(receivePart(call_, in));
    }
    outgoing_.clear(), incoming_.clear();
    began_ = 0;
    return {};
  }

  // Nothing is ready: yields, then sleeps. `since` is when waiting began, initially 0.
  Status sleep(Nanoseconds* since) {
    const Nanoseconds now = monotonicNow();
    if (*since == 0) *since = now;
    if (began_ == 0) began_ = now;
    if (failure_.isOver()) return refusal(call_);
    if (now - *since < kSpin) {
      sched_yield();
      return {};
    }
    const Nanoseconds left = *since + timeout_ - now;
    if (left <= 0) return late(call_);
    const auto milliseconds = std::clamp<Nanoseconds>(left / 1'000'000, 1, 1000);
    events_.push_back({mesh_->watch(), POLLIN, 0});
    const int ready = poll(events_.data(), events_.size(), static_cast<int>(milliseconds));
    // What has come in is taken first.
    return ready == 1 && events_.back().revents != 0 ? failIfOneIsLate(call_) : Status();
  }

  // A message's length is independent of what is received meanwhile.
  Call callOfPart(const Outgoing& out) const {
    Call call = call_;
    if (call.operation == static_cast<std::uint8_t>(Operation::kMessage)) call.total = out.bytes;
    return call;
  }

  Status sendPart(const Call& call, Outgoing& out) {
    MessageHeader header;
    header.call = call;
    header.sequence = sent_[static_cast<std::size_t>(out.peer)]++;
    header.length = static_cast<std::uint32_t>(std::min(kChunkBytes, out.bytes - out.done));
    std::byte* message = mesh_->outbox(out.peer);
    std::memcpy(message, &header, sizeof header);
    if (header.length > 0) std::memcpy(message + sizeof header, out.data + out.done, header.length);
    LOCKSTEP_TRY(mesh_->sendMessage(out.peer, header.length));
    out.done += header.length;
    out.finished = out.done >= out.bytes;
    return {};
  }

  Status receivePart(const Call& call, Incoming& in) {
    using Received = GlooMesh::Received;
    Result<Received> received = Received::kPart;
    MessageHeader header;
    bool dead = false, expected = false;
    {
      // Holds the lock until the message is read: the search for a culprit reads the same socket.
      const std::lock_guard lock(failure_.reading(in.peer));
      dead = failure_.hasFailed();
      if (!dead) received = mesh_->receiveMessage(in.peer);
      if (!dead && received.ok() && *received == Received::kMessage) {
        std::memcpy(&header, mesh_->inbox(in.peer), sizeof header);
        expected = isNext(header, call, received_[static_cast<std::size_t>(in.peer)]++,
                          in.bytes - in.done);
        if (expected) take(call, mesh_->inbox(in.peer) + sizeof header, header.length, in);
      }
    }
    if (dead) return refusal(call);
    if (!received.ok()) return broken(std::move(received.error()), call, in.peer);
    if (*received == Received::kPart) return {};
    if (*received == Received::kFarewell)
      return broken(makeError(Code::kAborted, "the peer has failed"), call, in.peer);
    if (!expected) {
      Error error = invalidArgument("{} on rank {}", callText(call), names_(rank_));
      error.why = message("rank {} takes part with {}{}", names_(in.peer), callText(header.call),
                          header.call.total == call.total ? " of another type or root" : "");
      Farewell words;
      words.cause = rank_;
      words.differs = 1;
      words.await(in.peer);
      return failure_.fail(std::move(error), words);
    }
    return {};
  }

  static void take(const Call& call, const std::byte* payload, std::uint32_t length, Incoming& in) {
    std::byte* to = in.data + in.done;
    if (in.into == Incoming::Into::kCopy && length > 0) {
      std::memcpy(to, payload, length);
    } else if (in.into == Incoming::Into::kReduce && length > 0) {
      const auto dtype = static_cast<DType>(call.dtype);
      const std::array<const std::byte*, 2> inputs = {to, payload};
      reduceArrays(to, inputs, length / static_cast<std::int64_t>(sizeOf(dtype)), dtype,
                   static_cast<ReduceOp>(call.op));
    }
    in.done += length;
    in.finished = in.done >= in.bytes;
  }

  Error refusal(const Call& call) { return failure_.refusal(callText(call)); }
  Error broken(Error error, const Call& call, int peer) {
    if (failure_.isAborted()) return refusal(call);
    error.what = callText(call);
    Farewell words;
    words.cause = rank_;
    if (isOfPeer(error)) {
      words = failure_.wordsAfter(peer);
      nameAwaited(words);
      if (!words.awaitsAny()) words.await(peer);
    }
    return failure_.fail(std::move(error), words);
  }
  Error late(const Call& call) {
    Farewell words;
    words.cause = rank_;
    words.late = 1;
    nameAwaited(words);
    return failure_.fail(makeError(Code::kDeadlineExceeded, "{}", callText(call)), words);
  }
  // Fails if a rank timed out, so that all learn that this rank is alive, and for whom it waits.
  Status failIfOneIsLate(const Call& call) {
    if (const std::optional<int> peer = failure_.latePeer())
      return broken(makeError(Code::kAborted, "the peer has failed"), call, *peer);
    return {};
  }

  // Names for whom this rank waits: those to which it connects or, where it is connected with all,
  // those from which it receives or, where it receives nothing, those to which it sends. Where it
  // timed out, those that are the reason.
  void nameAwaited(Farewell& words) const {
    if (began_ != 0) words.waited = monotonicNow() - began_;
    for (const Outgoing& to : outgoing_)
      if (!mesh_->isOpen(to.peer)) words.await(to.peer);
    for (const Incoming& in : incoming_)
      if (!mesh_->isOpen(in.peer)) words.await(in.peer);
    if (words.awaitsAny()) return;
    for (const Incoming& in : incoming_)
      if (!in.finished) words.await(in.peer);
    if (words.awaitsAny()) return;
    for (const Outgoing& to : outgoing_)
      if (!to.finished) words.await(to.peer);
    messageWaits_.nameIn(words, words.cause == rank_ ? timeout_ : 0);
  }

  std::unique_ptr<GlooMesh> mesh_;
  GlooFailure failure_;
  int rank_;
  int size_;
  Nanoseconds timeout_;
  RankNames names_;
  Call call_;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::vector<pollfd> events_;
  Nanoseconds began_ = 0;  // of waiting in the current transfer; 0: it has not waited
  std::vector<std::uint32_t> sent_, received_;
  MessageWaits messageWaits_;
  std::unique_ptr<std::byte[]> gathered_;  // by distance from this rank around the ring
  std::vector<const std::byte*> inputs_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> connectGloo(const GlooOptions& options, Store& store) {
  if (options.size < 1) return invalidArgument("a group of {} ranks", options.size);
  LOCKSTEP_TRY(checkPeer(options.rank, options.size));
  if (options.prefix.empty()) return invalidArgument("a group without a name in the store");
  LOCKSTEP_ASSIGN(auto mesh, GlooMesh::join(options, store));
  return std::unique_ptr<Communicator>(new GlooCommunicator(std::move(mesh), options));
}

}  // namespace lockstep::comm
