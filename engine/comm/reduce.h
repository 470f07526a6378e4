// Reduction of arrays and the checks of arguments that all communicators share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/comm/communicator.h"

namespace lockstep::comm {

// out[i] = inputs[0][i] op inputs[1][i] op …, in that order; out may be one of the inputs. A NaN
// stays a NaN under kMax.
void reduceArrays(std::byte* out, std::span<const std::byte* const> inputs, std::int64_t count,
                  DType dtype, ReduceOp op);

// kInvalidArgument for a type no reduction knows or a negative count.
Status checkReducible(std::int64_t count, DType dtype);
// kInvalidArgument unless cuts has size+1 entries that do not descend from 0 or more.
Status checkCuts(std::span<const std::int64_t> cuts, int size);
// kInvalidArgument for a rank outside the group, or for oneself where `self` is given.
Status checkPeer(int peer, int size, int self = -1);
Status checkBytes(std::int64_t bytes);
Status checkMessage(std::int64_t bytes, int peer, int size, int self);  // both

}  // namespace lockstep::comm
