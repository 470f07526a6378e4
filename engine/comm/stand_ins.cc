#include "engine/comm/stand_ins.h"

#include <atomic>

namespace lockstep::comm {
namespace {

class Alone final : public Communicator {
 public:
  Alone(int rank, int size) : rank_(rank), size_(size) {}
  std::string_view kind() const override { return "alone"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Status allReduce(void*, std::int64_t, DType, ReduceOp) override { return {}; }
  Status reduceScatter(const void*, void*, std::span<const std::int64_t>, DType,
                       ReduceOp) override {
    return {};
  }
  Status allGather(const void*, void*, std::span<const std::int64_t>, DType) override { return {}; }
  Status broadcast(void*, std::int64_t, int) override { return {}; }
  Status allToAll(const void*, void*, std::int64_t) override { return {}; }
  Status send(const void*, std::int64_t, int, int) override { return {}; }
  Status recv(void*, std::int64_t, int, int) override { return {}; }
  Status exchange(const void*, std::int64_t, int, void*, std::int64_t, int, int) override {
    return {};
  }
  Status barrier() override { return {}; }
  void abort() override {}

 private:
  int rank_, size_;
};

class Switched final : public SwitchedCommunicator {
 public:
  explicit Switched(Communicator& group) : group_(group) {}
  void setCommunication(Communication as) override { as_.store(as, std::memory_order_relaxed); }

  std::string_view kind() const override { return group_.kind(); }
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  Status allReduce(void* data, std::int64_t count, DType dtype, ReduceOp op) override {
    return perform([&] { return group_.allReduce(data, count, dtype, op); });
  }
  Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                       ReduceOp op) override {
    return perform([&] { return group_.reduceScatter(in, out, cuts, dtype, op); });
  }
  Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                   DType dtype) override {
    return perform([&] { return group_.allGather(in, out, cuts, dtype); });
  }
  Status broadcast(void* data, std::int64_t bytes, int root) override {
    return perform([&] { return group_.broadcast(data, bytes, root); });
  }
  Status allToAll(const void* in, void* out, std::int64_t bytes) override {
    return perform([&] { return group_.allToAll(in, out, bytes); });
  }
  Status send(const void* data, std::int64_t bytes, int peer, int tag) override {
    return perform([&] { return group_.send(data, bytes, peer, tag); });
  }
  Status recv(void* data, std::int64_t bytes, int peer, int tag) override {
    return perform([&] { return group_.recv(data, bytes, peer, tag); });
  }
  Status exchange(const void* out, std::int64_t outBytes, int to, void* in, std::int64_t inBytes,
                  int from, int tag) override {
    return perform([&] { return group_.exchange(out, outBytes, to, in, inBytes, from, tag); });
  }
  Status barrier() override {
    return perform([&] { return group_.barrier(); });
  }
  void abort() override { group_.abort(); }

 private:
  template <typename Call>
  Status perform(Call call) {
    switch (as_.load(std::memory_order_relaxed)) {
      case Communication::kReal:
        return call();
      case Communication::kBarrier:
        return group_.barrier();
      case Communication::kNone:
        break;
    }
    return {};
  }

  Communicator& group_;
  std::atomic<Communication> as_{Communication::kReal};
};

}  // namespace

std::unique_ptr<Communicator> makeAlone(int rank, int size) {
  return std::make_unique<Alone>(rank, size);
}

std::unique_ptr<SwitchedCommunicator> makeSwitched(Communicator& group) {
  return std::make_unique<Switched>(group);
}

}  // namespace lockstep::comm
