// A communicator that counts what it is given to carry: the payload of each call, as plans count
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/comm/communicator.h"

namespace lockstep::tests {

class CountingCommunicator final : public comm::Communicator {
 public:
  // `gathers`: counts the all-gathers, also once this is gone; may be null.
  explicit CountingCommunicator(std::unique_ptr<comm::Communicator> inner,
                                std::atomic<std::int64_t>* gathers = nullptr)
      : inner_(std::move(inner)), gathers_(gathers) {}

  std::int64_t bytes() const { return bytes_; }
  // Of messages and broadcasts, what has come to this rank.
  std::int64_t received() const { return received_; }

  std::string_view kind() const override { return inner_->kind(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Status allReduce(void* data, std::int64_t count, DType dtype, comm::ReduceOp op) override {
    bytes_ += count * width(dtype);
    return inner_->allReduce(data, count, dtype, op);
  }
  Status reduceScatter(const void* in, void* out, std::span<const std::int64_t> cuts, DType dtype,
                       comm::ReduceOp op) override {
    bytes_ += cuts.back() * width(dtype);
    return inner_->reduceScatter(in, out, cuts, dtype, op);
  }
  Status allGather(const void* in, void* out, std::span<const std::int64_t> cuts,
                   DType dtype) override {
    bytes_ += cuts.back() * width(dtype);
    if (gathers_ != nullptr) ++*gathers_;
    return inner_->allGather(in, out, cuts, dtype);
  }
  Status broadcast(void* data, std::int64_t bytes, int root) override {
    bytes_ += bytes;
    if (root != rank()) received_ += bytes;
    return inner_->broadcast(data, bytes, root);
  }
  Status allToAll(const void* in, void* out, std::int64_t bytes) override {
    bytes_ += bytes * size();
    return inner_->allToAll(in, out, bytes);
  }
  Status send(const void* data, std::int64_t bytes, int peer, int tag) override {
    bytes_ += bytes;
    return inner_->send(data, bytes, peer, tag);
  }
  Status recv(void* data, std::int64_t bytes, int peer, int tag) override {
    bytes_ += bytes;
    received_ += bytes;
    return inner_->recv(data, bytes, peer, tag);
  }
  Status exchange(const void* out, std::int64_t outBytes, int to, void* in, std::int64_t inBytes,
                  int from, int tag) override {
    bytes_ += outBytes + inBytes;
    received_ += inBytes;
    return inner_->exchange(out, outBytes, to, in, inBytes, from, tag);
  }
  Status barrier() override { return inner_->barrier(); }
  void abort() override { inner_->abort(); }

 private:
  static std::int64_t width(DType dtype) { return static_cast<std::int64_t>(sizeOf(dtype)); }
  std::unique_ptr<comm::Communicator> inner_;
  std::atomic<std::int64_t>* const gathers_;
  std::int64_t bytes_ = 0, received_ = 0;
};

}  // namespace lockstep::tests
