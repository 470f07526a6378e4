// A plan with fp64 in the place of fp32, so that the order of its sums changes nothing that shows.
#pragma once

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/plan/plan.h"

namespace lockstep::runtime {

// Returns the plan with every fp32 tensor, sum and message in fp64. Ops, ranks, messages and their
// order stay the same. Matmul operands of 16 bits stay so, and are rounded from fp64: two orders of
// a sum differ by about 1e-16 of it, which moves an operand over a tie between two bf16 values with
// a probability of about 1e-13. Runs on the reference backend, with DoubleFields as inputs.
// Errors: kInvalidArgument where a view has another dtype than its base.
Result<plan::Plan> withDoubleStorage(const plan::Plan& plan);

// A data set whose fp32 fields are in fp64.
class DoubleFields final : public data::Dataset {
 public:
  explicit DoubleFields(const data::Dataset& from);
  std::int64_t size() const override { return from_.size(); }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override;
  Status problem() const override { return from_.problem(); }
  std::int64_t tableSamples() const override { return from_.tableSamples(); }

 private:
  const data::Dataset& from_;
  std::vector<data::Field> fields_;
};

}  // namespace lockstep::runtime
