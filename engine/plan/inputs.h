// Classifies program inputs by name (see runtime/trainer.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Returns whether the input holds samples of the batch, which are known ahead; the others belong to
// the update: learning rate, step number, stop request.
inline bool isOfSamples(const Buffer& input) {
  return input.name != "lr" && input.name != "t" && input.name != "stop";
}

// Returns the inputs of a program that hold samples, in the body's order; views are left out.
inline std::vector<const Buffer*> sampleInputs(const Body& body) {
  std::vector<const Buffer*> out;
  for (const Buffer& buffer : body.buffers)
    if (buffer.kind == BufferKind::kInput && buffer.base < 0 && isOfSamples(buffer))
      out.push_back(&buffer);
  return out;
}

// Returns the bytes of a device's staging buffers for prefetched samples, over all programs of the
// rank.
std::int64_t waitingSampleBytes(const Plan& plan, int rank);

}  // namespace lockstep::plan
