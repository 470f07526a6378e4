// The part of a plan's proof that concerns what its ranks play together, and what both parts share.
#pragma once

#include <string>
#include <utility>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Programs known, copies and messages in order: see the .cc. Precondition: every program holds.
Status verifySchedule(const Plan& plan);

inline Error broken(std::string what) {
  Error error;
  error.code = Code::kInvalidArgument;
  error.what = std::move(what);
  return error;
}
// What the two ends of a message agree on: of rows what each is, not how many.
inline ir::TensorType messageType(const Body& body, const Step& step) {
  ir::TensorType type = payload(body, step);
  if (step.op == ir::Op::kSendRows || step.op == ir::Op::kRecvRows) type.shape[0] = 1;
  return type;
}

}  // namespace lockstep::plan
