// The part of a plan's proof that concerns what its ranks play together, and what both parts share.
#pragma once

#include <string>
#include <utility>

#include "engine/plan/plan.h"

namespace lockstep::plan {

// Programs known, copies and messages in order: see the .cc. Precondition: every program holds.
Status verifySchedule(const Plan& plan);

inline bool isSend(const Step& step) {
  return step.op == ir::Op::kSend || step.op == ir::Op::kSendAll;
}
inline bool isMessage(const Step& step) {
  return isSend(step) || step.op == ir::Op::kRecv || step.op == ir::Op::kCollect;
}
inline Error broken(std::string what) {
  Error error;
  error.code = Code::kInvalidArgument;
  error.what = std::move(what);
  return error;
}
// Of a collective.
inline const ir::TensorType& payload(const Body& body, const Step& step) {
  return body.buffers[static_cast<std::size_t>(
                          step.inputs.empty() ? step.outputs[0] : step.inputs[0])]
      .type;
}

}  // namespace lockstep::plan
