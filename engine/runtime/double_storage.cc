#include "engine/runtime/double_storage.h"

#include <cstring>

namespace lockstep::runtime {
namespace {

// Of arenas and of all offsets in them: what did not overlap does not overlap now. An offset of a
// view is one of elements of its base.
constexpr std::int64_t kGrowth = 2;

std::int64_t growthOf(DType dtype) { return dtype == DType::kF32 ? kGrowth : 1; }
void grow(ir::TensorType& type) {
  if (type.dtype == DType::kF32) type.dtype = DType::kF64;
}

Status grow(plan::Body& body) {
  for (plan::Buffer& buffer : body.buffers) {
    if (buffer.base < 0) {
      buffer.offset *= kGrowth;
      continue;
    }
    const DType own = buffer.type.dtype;
    if (own != body.buffers[static_cast<std::size_t>(buffer.base)].type.dtype)
      return invalidArgument("{} is a view of another dtype than its base", buffer.name);
    buffer.offset *= growthOf(own);
    buffer.stride *= growthOf(own);
  }
  for (plan::Buffer& buffer : body.buffers) grow(buffer.type);
  body.arenaBytes *= kGrowth;
  return {};
}

}  // namespace

Result<plan::Plan> withDoubleStorage(const plan::Plan& plan) {
  plan::Plan out = plan;
  out.precision = "fp64";
  for (plan::StateSlot& slot : out.state) {
    slot.offset *= kGrowth;
    grow(slot.type);
  }
  out.stateBytes *= kGrowth;
  for (plan::Program& program : out.programs)
    for (plan::Body& body : program.bodies) LOCKSTEP_TRY(grow(body));
  return out;
}

DoubleFields::DoubleFields(const data::Dataset& from) : from_(from), fields_(from.fields()) {
  for (data::Field& field : fields_)
    if (field.dtype == DType::kF32) field.dtype = DType::kF64;
}

void DoubleFields::read(std::int64_t index, std::size_t field, std::byte* out) const {
  from_.read(index, field, out);
  if (from_.fields()[field].dtype != DType::kF32) return;
  // In place, from the last element on.
  for (std::int64_t i = elementCount(fields_[field].shape) - 1; i >= 0; --i) {
    float single = 0;
    std::memcpy(&single, out + i * static_cast<std::int64_t>(sizeof single), sizeof single);
    const double value = static_cast<double>(single);
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
  }
}

}  // namespace lockstep::runtime
