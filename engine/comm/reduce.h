// Array reduction and argument checks, shared by all communicators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// out[i] = inputs[0][i] op inputs[1][i] op …, in this order; `out` may alias an input. kMax
// propagates NaN.
void reduceArrays(std::byte* out, std::span<const std::byte* const> inputs, std::int64_t count,
                  DType dtype, ReduceOp op);

// Returns kInvalidArgument for a type that cannot be reduced or for a negative count.
Status checkReducible(std::int64_t count, DType dtype);
// Returns kInvalidArgument unless cuts has size+1 non-negative, non-decreasing entries.
Status checkCuts(std::span<const std::int64_t> cuts, int size);
// Returns kInvalidArgument for a rank outside the group, or for oneself where `self` is given.
Status checkPeer(int peer, int size, int self = -1);
Status checkBytes(std::int64_t bytes);
Status checkMessage(std::int64_t bytes, int peer, int size, int self);  // both

}  // namespace lockstep::comm
