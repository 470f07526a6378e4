#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/comm/reduce.h"
#include "engine/comm/shared_group.h"
#include "engine/comm/shared_segment.h"
#include "engine/comm/stream_copy.h"

namespace lockstep::comm {
namespace {

constexpr std::int64_t kOneRoundBytes = 16
                                        << 10;  // all-reduces up to this size exchange everything
constexpr Nanoseconds kNap = 100'000;           // sleep of a rank that waits for two events

enum class Operation : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier
};
constexpr std::array<std::string_view, 6> kOperationNames = {
    "all-reduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all", "barrier"};

Call callOf(Operation operation, std::int64_t bytes, int root = 0, DType dtype = DType::kU8,
            ReduceOp op = ReduceOp::kSum) {
  return {static_cast<std::uint64_t>(operation) | static_cast<std::uint64_t>(dtype) << 8 |
              static_cast<std::uint64_t>(op) << 16 | static_cast<std::uint64_t>(root) << 32,
          static_cast<std::uint64_t>(bytes)};
}

Message callText(const Call& call) {
  const auto name = kOperationNames[std::min<std::size_t>(call.kind & 0xff, 5)];
  return message("{} of {} bytes", name, call.bytes);
}

// Every collective is a sequence of rounds: write to one's own half, publish, wait until all have
// published, read the others' halves. Halves alternate. A half is rewritten two rounds later, after
// every rank has published the round in between, which it does only after it finished reading; so a
// round needs a single wait.
class SharedMemoryCommunicator final : public Communicator {
 public:
  SharedMemoryCommunicator(std::string_view kind, std::shared_ptr<Segment> segment, int rank,
                           int size, bool oversubscribed, Nanoseconds timeout,
                           const RankNames& names = {})
      : kind_(kind),
        segment_(std::move(segment)),
        rank_(rank),
        size_(size),
        group_(segment_, rank, size, oversubscribed, timeout, names) {}

  std::string_view kind() const override { return kind_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Status allReduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    LOCKSTEP_TRY(checkReducible(count, dtype));
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    auto* bytes = static_cast<std::byte*>(data);
    call_ = callOf(Operation::kAllReduce, count * width, 0, dtype, op);
    if (size_ == 1) return group_.failed() ? Status(group_.failure(callText(call_))) : Status();
    if (count * width <= kOneRoundBytes) return reduceInOneRound(bytes, count, dtype, op);
    const std::int64_t perRound = kHalfBytes / width;
    for (std::int64_t first = 0; first < count; first += perRound) {
      const std::int64_t length = std::min(perRound, count - first);
      LOCKSTEP_TRY(reduceBySlices(bytes + first * width, length, dtype, op));
    }
    return {};
  }

  Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                       ReduceOp op) override {
    LOCKSTEP_TRY(checkReducible(0, dtype));
    LOCKSTEP_TRY(checkCuts(cuts, size_));
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    call_ = callOf(Operation::kReduceScatter, (cuts[size_] - cuts[0]) * width, 0, dtype, op);
    const std::int64_t piece = pieceBytes() / width;
    std::int64_t first = 0;
    do {  // at least one round: a rank without data still proves that it is alive
      std::byte* mine = segment_->half(rank_, round_);
      for (int r = 0; r < size_; ++r) {
        const std::int64_t length =
            std::clamp<std::int64_t>(cuts[r + 1] - cuts[r] - first, 0, piece);
        if (r != rank_ && length > 0)
          streamCopy(mine + r * pieceBytes(), from + (cuts[r] + first) * width, length * width);
      }
      LOCKSTEP_TRY(finishRound());
      const std::int64_t length =
          std::clamp<std::int64_t>(cuts[rank_ + 1] - cuts[rank_] - first, 0, piece);
      if (length > 0) {
        reduceFromHalves(to + first * width, from + (cuts[rank_] + first) * width,
                         rank_ * pieceBytes(), length, dtype, op);
      }
      first += piece;
    } while (first < longest(cuts));
    return {};
  }

  Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                   DType dtype) override {
    LOCKSTEP_TRY(checkCuts(cuts, size_));
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    call_ = callOf(Operation::kAllGather, (cuts[size_] - cuts[0]) * width, 0, dtype);
    const std::int64_t own = (cuts[rank_ + 1] - cuts[rank_]) * width;
    if (own > 0 && to + cuts[rank_] * width != from)
      std::memmove(to + cuts[rank_] * width, from, static_cast<std::size_t>(own));
    from = to + cuts[rank_] * width;
    const std::int64_t most = longest(cuts) * width;
    std::int64_t first = 0;
    do {
      const auto part = [&](int r) {
        return std::clamp<std::int64_t>((cuts[r + 1] - cuts[r]) * width - first, 0, kHalfBytes);
      };
      streamCopy(segment_->half(rank_, round_), from + first, part(rank_));
      LOCKSTEP_TRY(finishRound());
      for (int r = 0; r < size_; ++r)
        if (r != rank_ && part(r) > 0)
          std::memcpy(to + cuts[r] * width + first, segment_->half(r, round_ - 1), part(r));
      first += kHalfBytes;
    } while (first < most);
    return {};
  }

  Status broadcast(void* data, std::int64_t bytes, int root) override {
    LOCKSTEP_TRY(checkBytes(bytes));
    LOCKSTEP_TRY(checkPeer(root, size_));
    call_ = callOf(Operation::kBroadcast, bytes, root);
    auto* to = static_cast<std::byte*>(data);
    std::int64_t first = 0;
    do {
      const std::int64_t length = std::min(kHalfBytes, bytes - first);
      if (rank_ == root) streamCopy(segment_->half(rank_, round_), to + first, length);
      LOCKSTEP_TRY(finishRound());
      if (rank_ != root && length > 0)
        std::memcpy(to + first, segment_->half(root, round_ - 1), length);
      first += kHalfBytes;
    } while (first < bytes);
    return {};
  }

  Status allToAll(const void* in, void* out, std::int64_t bytes) override {
    LOCKSTEP_TRY(checkBytes(bytes));
    call_ = callOf(Operation::kAllToAll, bytes);
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    std::int64_t first = 0;
    do {
      const std::int64_t length = std::min(pieceBytes(), bytes - first);
      std::byte* mine = segment_->half(rank_, round_);
      for (int r = 0; r < size_ && length > 0; ++r)
        streamCopy(mine + r * pieceBytes(), from + r * bytes + first, length);
      LOCKSTEP_TRY(finishRound());
      for (int r = 0; r < size_ && length > 0; ++r)
        std::memcpy(to + r * bytes + first, segment_->half(r, round_ - 1) + rank_ * pieceBytes(),
                    length);
      first += pieceBytes();
    } while (first < bytes);
    return {};
  }

  Status send(const void* data, std::int64_t bytes, int peer, int tag) override {
    LOCKSTEP_TRY(beginMessage("send", bytes, peer));
    Sending out{segment_->mailbox(rank_, peer), static_cast<const std::byte*>(data), bytes, tag};
    while (!out.finished) {
      LOCKSTEP_TRY(inCall(group_.await(out.box.read, out.target(), peer), "send", bytes));
      sendPiece(out);
    }
    return {};
  }

  Status recv(void* data, std::int64_t bytes, int peer, int tag) override {
    LOCKSTEP_TRY(beginMessage("recv", bytes, peer));
    Receiving in{segment_->mailbox(peer, rank_), static_cast<std::byte*>(data), bytes, tag};
    while (!in.finished) {
      LOCKSTEP_TRY(inCall(group_.await(in.box.written, in.target(), peer), "recv", bytes));
      LOCKSTEP_TRY(receivePiece(in, peer));
    }
    return {};
  }

  Status exchange(const void* out, std::int64_t outBytes, int to, void* in, std::int64_t inBytes,
                  int from, int tag) override {
    LOCKSTEP_TRY(beginMessage("exchange", outBytes, to));
    LOCKSTEP_TRY(beginMessage("exchange", inBytes, from));
    Sending sending{segment_->mailbox(rank_, to), static_cast<const std::byte*>(out), outBytes,
                    tag};
    Receiving receiving{segment_->mailbox(from, rank_), static_cast<std::byte*>(in), inBytes, tag};
    const auto canSend = [&] {
      return !sending.finished &&
             reached(sending.box.read.value.load(std::memory_order_acquire), sending.target());
    };
    const auto canReceive = [&] {
      return !receiving.finished &&
             reached(receiving.box.written.value.load(std::memory_order_acquire),
                     receiving.target());
    };
    while (!sending.finished || !receiving.finished) {
      if (canSend()) {
        sendPiece(sending);
      } else if (canReceive()) {
        LOCKSTEP_TRY(receivePiece(receiving, from));
      } else {
        // Sleeps on one of the two and polls the other.
        const bool receives = !receiving.finished;
        SharedCounter& awaited = receives ? receiving.box.written : sending.box.read;
        const Nanoseconds nap = receives && !sending.finished ? kNap : SharedGroup::kCheckInterval;
        LOCKSTEP_TRY(inCall(group_.awaitUntil([&] { return canSend() || canReceive(); }, awaited,
                                              receives ? from : to, nap),
                            "exchange", inBytes));
      }
    }
    return {};
  }

  Status barrier() override {
    call_ = callOf(Operation::kBarrier, 0);
    return finishRound();
  }

  void abort() override { group_.abort(); }

  // Once per group.
  Status join() { return group_.join(); }

 private:
  std::int64_t pieceBytes() const { return kHalfBytes / size_ & ~std::int64_t{63}; }

  static std::int64_t longest(std::span<const std::int64_t> cuts) {
    std::int64_t most = 0;
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r) most = std::max(most, cuts[r + 1] - cuts[r]);
    return most;
  }

  Status reduceInOneRound(std::byte* data, std::int64_t count, DType dtype, ReduceOp op) {
    const auto bytes = static_cast<std::size_t>(count) * sizeOf(dtype);
    streamCopy(segment_->half(rank_, round_), data, bytes);
    LOCKSTEP_TRY(finishRound());
    if (bytes > 0) reduceFromHalves(data, data, 0, count, dtype, op);
    return {};
  }

  // Rank r reduces slice r; count elements fit a half.
  Status reduceBySlices(std::byte* data, std::int64_t count, DType dtype, ReduceOp op) {
    const auto width = static_cast<std::int64_t>(sizeOf(dtype));
    const std::int64_t line = 64 / width;
    const std::int64_t slice = ((count + size_ - 1) / size_ + line - 1) / line * line;
    const auto begin = [&](int r) { return std::min(count, r * slice) * width; };
    const auto bytes = [&](int r) { return static_cast<std::size_t>(begin(r + 1) - begin(r)); };
    std::byte* mine = segment_->half(rank_, round_);
    streamCopy(mine, data, begin(rank_));
    streamCopy(mine + begin(rank_ + 1), data + begin(rank_ + 1), count * width - begin(rank_ + 1));
    LOCKSTEP_TRY(finishRound());
    if (bytes(rank_) > 0) {
      reduceFromHalves(data + begin(rank_), data + begin(rank_), begin(rank_),
                       static_cast<std::int64_t>(bytes(rank_)) / width, dtype, op);
      streamCopy(segment_->half(rank_, round_) + begin(rank_), data + begin(rank_), bytes(rank_));
    }
    LOCKSTEP_TRY(finishRound());
    for (int r = 0; r < size_; ++r)
      if (r != rank_ && bytes(r) > 0)
        std::memcpy(data + begin(r), segment_->half(r, round_ - 1) + begin(r), bytes(r));
    return {};
  }

  // Reduces the halves of ranks 0, 1, … at `offset` in the finished round, with this rank's own
  // data from `own`.
  void reduceFromHalves(std::byte* out, const std::byte* own, std::int64_t offset,
                        std::int64_t count, DType dtype, ReduceOp op) {
    std::array<const std::byte*, kMaxSharedRanks> inputs;
    for (int r = 0; r < size_; ++r)
      inputs[static_cast<std::size_t>(r)] =
          r == rank_ ? own : segment_->half(r, round_ - 1) + offset;
    reduceArrays(out, std::span(inputs).first(static_cast<std::size_t>(size_)), count, dtype, op);
  }

  Status finishRound() {
    if (group_.failed()) return group_.failure(callText(call_));
    RankBlock& own = segment_->rank(rank_);
    own.calls[round_ & 1] = call_;
    publish(own.round, ++round_);
    for (int i = 1; i < size_; ++i) {
      const int r = (rank_ + i) % size_;
      RankBlock& peer = segment_->rank(r);
      if (auto status = group_.await(peer.round, round_, r); !status.ok())
        return inCall(std::move(status), callText(call_));
      const Call theirs = peer.calls[(round_ - 1) & 1];
      if (theirs != call_) {
        Error error = invalidArgument("{} on rank {}", callText(call_), group_.names()(rank_));
        error.why = message("rank {} takes part with {}{}", group_.names()(r), callText(theirs),
                            theirs.bytes == call_.bytes ? " of another type or root" : "");
        return group_.fail(std::move(error), r);
      }
    }
    return {};
  }

  Status beginMessage(std::string_view what, std::int64_t bytes, int peer) {
    LOCKSTEP_TRY(checkMessage(bytes, peer, size_, rank_));
    return group_.failed() ? inCall(group_.failure({}), what, bytes) : Status();
  }

  // A message being sent to a mailbox, and one being received from it.
  struct Sending {
    Mailbox& box;
    const std::byte* data;
    std::int64_t bytes;
    int tag;
    std::int64_t done = 0;
    bool finished = false;
    std::uint32_t written() const { return box.written.value.load(std::memory_order_relaxed); }
    std::uint32_t target() const {
      return written() - kPieces + 1;
    }  // value of `read` that frees a slot
  };
  struct Receiving {
    Mailbox& box;
    std::byte* data;
    std::int64_t bytes;
    int tag;
    std::int64_t done = 0;
    bool finished = false;
    std::uint32_t read() const { return box.read.value.load(std::memory_order_relaxed); }
    std::uint32_t target() const { return read() + 1; }  // value of `written`
  };
  void sendPiece(Sending& out) {
    const std::uint32_t written = out.written();
    Piece& piece = out.box.pieces[written % kPieces];
    piece.total = out.bytes;
    piece.tag = out.tag;
    piece.length = static_cast<std::int32_t>(std::min(kPieceBytes, out.bytes - out.done));
    streamCopy(piece.data, out.data + out.done, static_cast<std::size_t>(piece.length));
    out.done += piece.length;
    out.finished = out.done >= out.bytes;
    publish(out.box.written, written + 1);
  }
  Status receivePiece(Receiving& in, int peer) {
    const std::uint32_t read = in.read();
    const Piece& piece = in.box.pieces[read % kPieces];
    if (piece.total != in.bytes || piece.tag != in.tag) {
      Error error = invalidArgument("recv of {} bytes with tag {} from rank {}", in.bytes, in.tag,
                                    group_.names()(peer));
      error.why = message("rank {} sent {} bytes with tag {}", group_.names()(peer), piece.total,
                          piece.tag);
      return group_.fail(std::move(error), peer);
    }
    if (piece.length > 0) std::memcpy(in.data + in.done, piece.data, piece.length);
    in.done += piece.length;
    in.finished = in.done >= in.bytes;
    publish(in.box.read, read + 1);
    return {};
  }

  template <typename... Args>
  Status inCall(Status status, Args&&... call) {
    if (status.ok()) return status;
    status.error().what = describe(std::forward<Args>(call)...);
    return status;
  }
  static Message describe(Message text) { return text; }
  static Message describe(std::string_view name, std::int64_t bytes) {
    return message("{} of {} bytes", name, bytes);
  }

  std::string_view kind_;
  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  SharedGroup group_;
  std::uint32_t round_ = 0;
  Call call_;
};

int availableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

Status checkGroup(int rank, int size) {
  if (size < 1 || size > kMaxSharedRanks)
    return invalidArgument("a group of {} ranks in one memory; expected 1 to {}", size,
                           kMaxSharedRanks);
  return checkPeer(rank, size);
}

}  // namespace

Result<std::unique_ptr<Communicator>> openSharedMemory(int fd, std::int64_t offset, int rank,
                                                       int size, bool oversubscribed,
                                                       Nanoseconds timeout,
                                                       const RankNames& names) {
  LOCKSTEP_TRY(checkGroup(rank, size));
  LOCKSTEP_ASSIGN(auto segment, mapSegment(fd, offset, size));
  auto communicator = std::make_unique<SharedMemoryCommunicator>("shm", segment, rank, size,
                                                                 oversubscribed, timeout, names);
  LOCKSTEP_TRY(communicator->join());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

Result<std::vector<std::unique_ptr<Communicator>>> makeInProcessGroup(int size,
                                                                      Nanoseconds timeout) {
  LOCKSTEP_TRY(checkGroup(0, size));
  LOCKSTEP_ASSIGN(auto segment, makeSegment(size));
  std::vector<std::unique_ptr<Communicator>> group;
  for (int rank = 0; rank < size; ++rank) {
    auto communicator = std::make_unique<SharedMemoryCommunicator>(
        "in-process", segment, rank, size, size > availableCores(), timeout);
    LOCKSTEP_TRY(communicator->join());
    group.push_back(std::move(communicator));
  }
  return group;
}

}  // namespace lockstep::comm
