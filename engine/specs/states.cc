#include "engine/specs/states.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

namespace lockstep::specs {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using run::v1::NodeState;
using run::v1::RunState;

const run::v1::State& stateOf(const EnumDescriptor& type, int number) {
  const EnumValueDescriptor* value = type.FindValueByNumber(number);
  if (value == nullptr) value = type.value(0);  // of a newer version
  return value->options().GetExtension(run::v1::state);
}

Status check(const EnumDescriptor& type, std::string_view what, int from, int to) {
  const EnumValueDescriptor* wanted = type.FindValueByNumber(to);
  const auto& next = stateOf(type, from).next();
  if (from == to ||
      (wanted != nullptr && std::find(next.begin(), next.end(), wanted->name()) != next.end()))
    return {};
  return makeError(Code::kInternal, "a {} that is {} cannot become {}", what,
                   stateOf(type, from).name(), stateOf(type, to).name());
}

}  // namespace

std::string_view stateName(RunState state) {
  return stateOf(*run::v1::RunState_descriptor(), state).name();
}
std::string_view stateName(NodeState state) {
  return stateOf(*run::v1::NodeState_descriptor(), state).name();
}

bool isFinal(RunState state) {
  return stateOf(*run::v1::RunState_descriptor(), state).next().empty();
}

Status checkTransition(RunState from, RunState to) {
  return check(*run::v1::RunState_descriptor(), "run", from, to);
}
Status checkTransition(NodeState from, NodeState to) {
  return check(*run::v1::NodeState_descriptor(), "node", from, to);
}

}  // namespace lockstep::specs
