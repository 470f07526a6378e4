// The batches that plans are compared on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace lockstep::runtime {

// The first `steps` batches of a run as a data set of its own, to be read without shuffling: the
// samples of a batch one after another, as they are after augmentation. The last batch is half
// full, so that padding is met.
class KeptBatches final : public data::Dataset {
 public:
  struct Options {
    std::int64_t batch = 1, steps = 1;
    std::uint64_t seed = 1;
    bool shuffle = true;
    data::Augment augment;
  };
  // Errors: kResourceExhausted where there is no memory for them.
  static Result<KeptBatches> make(const data::Dataset& from, const Options& options);
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override;

 private:
  KeptBatches() = default;
  std::vector<data::Field> fields_;
  std::vector<std::vector<std::byte>> bytes_;  // by field
  std::int64_t size_ = 0;
};

}  // namespace lockstep::runtime
