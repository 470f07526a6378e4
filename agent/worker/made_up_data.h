// Data for measurements: made up, or the run's own many times over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/worker/worker_link.h"
#include "engine/base/random.h"
#include "engine/data/dataset.h"
#include "engine/plan/plan.h"

namespace lockstep::agent {

constexpr std::int64_t kFewBytes = 64 << 10;
constexpr std::int64_t kManyBytes = 48 << 20;  // as data sets usually are: more than caches hold

// Samples that fit the inputs of the plan's step program, made up: bytes that look like images,
// labels within the classes, categories of which few are frequent. Images lie in `bytes` of noise.
class MadeUp final : public data::Dataset {
 public:
  MadeUp(std::vector<data::Field> fields, std::int64_t size, std::int32_t classes,
         std::int64_t categories, std::int64_t bytes)
      : fields_(std::move(fields)), size_(size), classes_(classes), categories_(categories) {
    std::int64_t image = 64;
    for (const data::Field& field : fields_) image = std::max(image, field.bytes());
    places_ = std::max<std::int64_t>(1, bytes / image);
    noise_.resize(static_cast<std::size_t>(places_ * image / 8 + 1));
    for (std::size_t i = 0; i < noise_.size(); ++i) noise_[i] = randomBits(7, i);
  }
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const data::Field& one = fields_[field];
    if (one.dtype == DType::kU8) {
      std::memcpy(out,
                  reinterpret_cast<const std::byte*>(noise_.data()) + index % places_ * one.bytes(),
                  static_cast<std::size_t>(one.bytes()));
    } else if (one.name == "categories") {
      auto* ids = reinterpret_cast<std::int32_t*>(out);
      for (std::int64_t i = 0; i < one.bytes() / 4; ++i) {
        const double u =
            randomUniform(static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(i));
        ids[i] = static_cast<std::int32_t>(u * u * u * u * static_cast<double>(categories_));
      }
    } else if (one.dtype == DType::kI32) {
      const auto label = static_cast<std::int32_t>(
          randomBits(9, static_cast<std::uint64_t>(index)) % static_cast<std::uint64_t>(classes_));
      for (std::int64_t i = 0; i < one.bytes(); i += 4) std::memcpy(out + i, &label, 4);
    } else {
      std::memset(out, 0, static_cast<std::size_t>(one.bytes()));
    }
  }

 private:
  std::vector<data::Field> fields_;
  std::int64_t size_;
  std::int32_t classes_;
  std::int64_t categories_;
  std::int64_t places_ = 1;
  std::vector<std::uint64_t> noise_;
};

// For the inputs of the plan's step program on `rank`.
Result<MadeUp> madeUpData(const plan::Plan& plan, int rank, std::int64_t size,
                          std::int64_t bytes = kFewBytes);

// The training data many times over, so that no epoch ends while the clock runs.
class Repeated final : public data::Dataset {
 public:
  Repeated(const data::Dataset& data, std::int64_t times) : data_(data), times_(times) {}
  std::int64_t size() const override { return data_.size() * times_; }
  const std::vector<data::Field>& fields() const override { return data_.fields(); }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    data_.read(index % data_.size(), field, out);
  }

 private:
  const data::Dataset& data_;
  std::int64_t times_;
};

// The table that the run trains on, where it is here and not too large to be read for this; null
// else.
std::unique_ptr<data::Dataset> tableHere(const node::v1::WorkerStart& start);

}  // namespace lockstep::agent
