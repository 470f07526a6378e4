#include "engine/runtime/feed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/base/random.h"
#include "engine/ir/watch.h"

namespace lockstep::runtime {
namespace {

// Separates dropout from the streams of sample order and augmentation.
constexpr std::uint64_t kDropoutStream = 0x64726f706f7574;
constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Result<std::unique_ptr<Feed>> Feed::bind(const plan::Plan& plan, std::string_view program, int rank,
                                         std::span<const std::int64_t> cuts,
                                         const data::Dataset& dataset, backends::Backend& backend,
                                         const Groups& groups, StateArena& state, std::byte* arena,
                                         int copy) {
  auto feed = std::unique_ptr<Feed>(new Feed);
  LOCKSTEP_ASSIGN(feed->executor_,
                  Executor::bind(plan, program, rank, backend, groups, state, copy, arena));
  const auto coordinate = static_cast<std::size_t>(std::max(plan.mesh.coordinate(rank, "data"), 0));
  if (coordinate + 1 >= cuts.size())
    return invalidArgument("the plan's cut-points of program \"{}\" do not reach rank {}", program,
                           rank);
  feed->begin_ = cuts[coordinate];
  // Servers read no samples.
  feed->end_ = plan.mesh.isServer(rank) ? feed->begin_ : cuts[coordinate + 1];
  for (const data::Field& field : dataset.fields()) {
    const backends::Operand to = feed->executor_->input(field.name);
    if (to.data != nullptr) {
      const std::int64_t expected = (feed->end_ - feed->begin_) * elementCount(field.shape);
      const bool widened = field.dtype == DType::kU8 && to.type.dtype == DType::kI32;
      if (to.type.count() != expected || (to.type.dtype != field.dtype && !widened))
        return invalidArgument(
            "the data's field \"{}\" ({}[{}] a sample) does not fit the model's input {}",
            field.name, dtypeName(field.dtype), shapeText(field.shape), to.type.text());
    }
    feed->fields_.push_back(to);
  }
  feed->weight_ = feed->executor_->input("weight");
  feed->learningRate_ = feed->executor_->input("lr");
  feed->updates_ = feed->executor_->input("t");
  feed->stop_ = feed->executor_->input("stop");
  feed->dropout_ = feed->executor_->input("dropout");
  feed->metrics_ = feed->executor_->result(
      plan.metric().empty() ? "metrics" : fmt::format("metrics.{}", plan.metric()));
  feed->control_ = feed->executor_->result("control");
  feed->scaling_ = feed->executor_->result("scaling");
  feed->plan_ = &plan;
  feed->gradientSquares_ = feed->watched(ir::kGradientSquares);
  feed->gradientDivisor_ = feed->watched(ir::kGradientDivisor);
  feed->updateSquares_ = feed->watched(ir::kUpdateSquares);
  feed->parameterSquares_ = feed->watched(ir::kParameterSquares);
  return feed;
}

Feed::Watched Feed::watched(std::string_view result) const {
  Watched out{executor_->result(result)};
  const plan::Body& body = executor_->body();
  for (const plan::ResultSlot& slot : body.results) {
    if (slot.name != result) continue;
    for (const plan::Step& step : body.steps)
      if (std::find(step.outputs.begin(), step.outputs.end(), slot.buffer) != step.outputs.end())
        out.sampled = step.phase == ir::Phase::kWatch;
  }
  return out;
}

bool Feed::isThere(const Watched& one, std::int64_t step) const {
  return one.value.data != nullptr && (!one.sampled || plan_->isWatched(step));
}

void Feed::addWatched(std::int64_t step, StepRecord& record) const {
  if (learningRate_.data != nullptr) record.learningRate = readFloat(learningRate_, 0);
  if (const double norm = gradientNorm(step); std::isfinite(norm))
    record.gradientNorm = static_cast<float>(norm);
  if (const double ratio = updateRatio(step); std::isfinite(ratio))
    record.updateRatio = static_cast<float>(ratio);
}

double Feed::gradientNorm(std::int64_t step) const {
  if (!isThere(gradientSquares_, step) || !isThere(gradientDivisor_, step)) return kNotMeasured;
  const double divisor = readFloat(gradientDivisor_.value, 0);
  const double norm = std::sqrt(readFloat(gradientSquares_.value, 0)) / divisor;
  return divisor > 0 && std::isfinite(norm) ? norm : kNotMeasured;
}

double Feed::updateRatio(std::int64_t step) const {
  if (!isThere(updateSquares_, step) || !isThere(parameterSquares_, step)) return kNotMeasured;
  const double ratio =
      std::sqrt(readFloat(updateSquares_.value, 0) / readFloat(parameterSquares_.value, 0));
  return std::isfinite(ratio) ? ratio : kNotMeasured;
}

bool Feed::readsSamples() const {
  return weight_.data != nullptr || std::any_of(fields_.begin(), fields_.end(),
                                                [](const auto& f) { return f.data != nullptr; });
}

void Feed::write(const data::Batch& batch, int micro, int micros, std::int64_t size,
                 std::uint64_t seed) {
  executor_->beginSamples();
  const auto part = static_cast<std::size_t>(micro);
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const backends::Operand& to = fields_[f];
    if (to.data == nullptr) continue;
    const std::size_t bytes = batch.fields[f].size() / static_cast<std::size_t>(micros);
    const std::byte* from = batch.fields[f].data() + part * bytes;
    if (static_cast<std::int64_t>(bytes) == to.type.bytes()) {
      std::memcpy(to.data, from, bytes);
    } else {  // u8 labels widened to i32
      auto* out = static_cast<std::int32_t*>(to.data);
      for (std::size_t i = 0; i < bytes; ++i) out[i] = std::to_integer<std::int32_t>(from[i]);
    }
  }
  const std::size_t samples = batch.weights.size() / static_cast<std::size_t>(micros);
  if (weight_.data != nullptr)
    for (std::size_t i = 0; i < samples; ++i)
      writeFloat(weight_, i, static_cast<double>(batch.weights[part * samples + i]));
  const std::uint64_t key =
      randomKey(randomKey(seed, kDropoutStream), static_cast<std::uint64_t>(batch.step));
  auto* numbers = static_cast<std::int32_t*>(dropout_.data);
  for (std::int64_t i = 0; numbers != nullptr && i < dropout_.type.count(); ++i)
    numbers[i] = static_cast<std::int32_t>(
        randomBits(key, static_cast<std::uint64_t>(micro * size + begin_ + i)));
  executor_->endSamples();
}

void Feed::writeScalars(double learningRate, double updates, Request request) {
  writeFloat(learningRate_, 0, learningRate);
  writeFloat(updates_, 0, updates);
  writeFloat(stop_, 0, inputOf(request));
}

void Feed::writeMadeUp() {
  executor_->beginSamples();
  // Fills all inputs: their memory may hold leftovers of the previous run that are no valid labels
  // or indices. Views of inputs have no memory of their own.
  for (const plan::Buffer& buffer : executor_->body().buffers) {
    if (buffer.kind != plan::BufferKind::kInput || buffer.base >= 0) continue;
    const backends::Operand to = executor_->input(buffer.name);
    std::memset(to.data, 0, static_cast<std::size_t>(to.type.bytes()));
  }
  for (std::int64_t i = 0; weight_.data != nullptr && i < weight_.type.count(); ++i)
    writeFloat(weight_, static_cast<std::size_t>(i), 1);
  executor_->endSamples();
  writeScalars(0, 1, Request::kNone);
}

}  // namespace lockstep::runtime
