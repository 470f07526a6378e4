// A communicator that fails call k: callers are run with every k, to show that they pass each
// error on and leave nothing half done.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "engine/comm/communicator.h"

namespace lockstep::tests {

// Call number `failing` (from 0) and all after it return kAborted without reaching the inner
// communicator, which is aborted, so that its peers see a death. -1 never fails.
class FailingCommunicator final : public comm::Communicator {
 public:
  // Each call rests first, as on a slow link.
  FailingCommunicator(std::unique_ptr<comm::Communicator> inner, int failing, Nanoseconds rest = 0)
      : inner_(std::move(inner)), failing_(failing), rest_(rest) {}

  int calls() const { return calls_; }

  std::string_view kind() const override { return inner_->kind(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Status allReduce(void* data, std::int64_t count, DType dtype, comm::ReduceOp op) override {
    return due() ? failure() : inner_->allReduce(data, count, dtype, op);
  }
  Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                       comm::ReduceOp op) override {
    return due() ? failure() : inner_->reduceScatter(in, out, cuts, dtype, op);
  }
  Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                   DType dtype) override {
    return due() ? failure() : inner_->allGather(in, out, cuts, dtype);
  }
  Status broadcast(void* data, std::int64_t bytes, int root) override {
    return due() ? failure() : inner_->broadcast(data, bytes, root);
  }
  Status allToAll(const void* in, void* out, std::int64_t bytes) override {
    return due() ? failure() : inner_->allToAll(in, out, bytes);
  }
  Status send(const void* data, std::int64_t bytes, int peer, int tag) override {
    return due() ? failure() : inner_->send(data, bytes, peer, tag);
  }
  Status recv(void* data, std::int64_t bytes, int peer, int tag) override {
    return due() ? failure() : inner_->recv(data, bytes, peer, tag);
  }
  Status exchange(const void* out, std::int64_t outBytes, int to, void* in, std::int64_t inBytes,
                  int from, int tag) override {
    return due() ? failure() : inner_->exchange(out, outBytes, to, in, inBytes, from, tag);
  }
  Status barrier() override { return due() ? failure() : inner_->barrier(); }
  void abort() override { inner_->abort(); }

 private:
  bool due() {
    const int call = calls_++;
    if (rest_ > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(rest_));
    if (call == failing_) inner_->abort();
    return failing_ >= 0 && call >= failing_;
  }
  Status failure() const {
    Error error = makeError(Code::kAborted, "call {} of rank {}", failing_, rank());
    error.why = "it fails on request";
    error.rank = rank();
    return error;
  }

  std::unique_ptr<comm::Communicator> inner_;
  int failing_;
  Nanoseconds rest_;
  std::atomic<int> calls_ = 0;
};

}  // namespace lockstep::tests
