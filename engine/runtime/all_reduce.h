// Runs an all-reduce built from point-to-point messages over any communicator.
#pragma once

#include <span>

#include "engine/base/status.h"
#include "engine/comm/communicator.h"
#include "engine/plan/all_reduce.h"

namespace lockstep::runtime {

// Received data to be added is staged in `staging` of at least stagingBytes(). Completion, ordering
// and failure: as for the communicator's own calls. Allocates nothing.
Status allReduce(comm::Communicator& group, std::span<const plan::Exchange> exchanges, void* data,
                 DType dtype, comm::ReduceOp op, std::span<std::byte> staging);
std::int64_t stagingBytes(std::span<const plan::Exchange> exchanges, DType dtype);

}  // namespace lockstep::runtime
