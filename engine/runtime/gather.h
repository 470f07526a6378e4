// Gathers a run's state at rank 0, tensor by tensor.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/checkpoint.h"
#include "engine/runtime/whole_tensors.h"
#include "engine/weights/safetensors.h"

namespace lockstep::runtime {

// Rank 0: receives each whole tensor, valid during the call; `index` is that of its place.
using TakeTensor = std::function<void(std::size_t index, std::span<const std::byte> tensor)>;
// Rank 0: writes a file; bytes(i) waits until tensor i has been gathered.
using WriteTensors = std::function<Status(const TensorBytes& bytes)>;

// Collective. Rank 0 passes each tensor to `take` and `write`, which may be null; `write` runs on a
// thread of its own, and the other ranks wait for it however long it takes (see heartbeat.h).
// `task` names the work in errors. `written`: the result of `write`, at rank 0.
Status gather(const RankState& state, const std::vector<Place>& places, const std::string& task,
              const TakeTensor& take, const WriteTensors& write, Status& written);

}  // namespace lockstep::runtime
