// Verifies the schedule that all ranks run together; also holds what the verifiers share.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Checks that scheduled programs exist, stashed copies are written before they are read, and
// messages match without deadlock. Precondition: every program verifies by itself.
Status verifySchedule(const Plan& plan);

inline constexpr std::int64_t kAlignment = 64;  // of buffers and states, bytes

inline Error broken(std::string what) {
  Error error;
  error.code = Code::kInvalidArgument;
  error.what = std::move(what);
  return error;
}
// Returns the type that both ends of a message must agree on; for rows of tables that of one row.
inline ir::TensorType messageType(const Body& body, const Step& step) {
  ir::TensorType type = payload(body, step);
  if (step.op == ir::Op::kSendRows || step.op == ir::Op::kRecvRows) type.shape[0] = 1;
  return type;
}

}  // namespace lockstep::plan
