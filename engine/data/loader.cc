#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/threads.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

// A ring of depth + 1 batches: one held by the caller, the others filled or being filled. `filled`
// and `taken` count batches; slot i belongs to the filler while i ≥ filled and taken ≤ i < taken +
// ring size.
struct Loader::State {
  State(const Dataset& data, const Options& chosen)
      : dataset(data),
        options(chosen),
        order(data.size(), chosen.seed, chosen.shuffle, data.tableSamples()) {
    const std::int64_t share = (options.end - options.begin) * options.microBatches;
    ring.resize(static_cast<std::size_t>(options.depth) + 1);
    for (Batch& batch : ring) {
      for (const Field& field : dataset.fields())
        batch.fields.emplace_back(static_cast<std::size_t>(share * field.bytes()));
      batch.weights.resize(static_cast<std::size_t>(share));
    }
    for (const Field& field : dataset.fields())
      if (isAugmented(field))
        image.resize(std::max(image.size(), static_cast<std::size_t>(field.bytes())));
  }

  bool isAugmented(const Field& field) const {
    return options.augment.any() && field.shape.size() == 3;
  }
  void read(std::int64_t sample, std::size_t field, std::byte* out) {
    const Field& kind = dataset.fields()[field];
    if (!isAugmented(kind)) return dataset.read(sample, field, out);
    dataset.read(sample, field, image.data());
    const ImageSize size{kind.shape[0], kind.shape[1],
                         kind.bytes() / (kind.shape[0] * kind.shape[1])};
    augmentImage(options.augment, size, options.seed, epoch, sample, image.data(), out);
  }

  Batch& slot(std::int64_t index) { return ring[static_cast<std::size_t>(index) % ring.size()]; }

  // An epoch's order is made with its first batch.
  void fill(Batch& batch, std::int64_t step) {
    const ThreadTime begin = ThreadTime::now();
    batch.step = step;
    batch.position = batchPosition(dataset.size(), options.globalBatch, step);
    if (batch.position.epoch != epoch) {
      epoch = batch.position.epoch;
      order.begin(epoch);
    }
    const auto& fields = dataset.fields();
    const std::int64_t micro = options.globalBatch / options.microBatches;
    const std::int64_t share = options.end - options.begin;
    for (std::int64_t place = 0; place < share * options.microBatches; ++place) {
      const std::int64_t i = place / share * micro + options.begin + place % share;
      const bool real = i < batch.position.count;
      const std::int64_t sample = real ? order.at(batch.position.first + i) : 0;
      for (std::size_t f = 0; f < fields.size(); ++f)
        read(sample, f, batch.fields[f].data() + place * fields[f].bytes());
      batch.weights[static_cast<std::size_t>(place)] = real ? 1.0f : 0.0f;
    }
    batch.readingSeconds = static_cast<double>(ThreadTime::now().blockedSince(begin)) * 1e-9;
  }

  // Returns the number of free slots for batches from `index` on; the batch last returned stays
  // untouched until the next call.
  std::int64_t room(std::int64_t index) const {
    return std::max<std::int64_t>(taken - 1, 0) + std::ssize(ring) - index;
  }
  std::int64_t half() const { return std::max<std::int64_t>(1, std::ssize(ring) / 2); }

  void run() {
    const std::int64_t count = options.lastStep - options.firstStep;
    for (std::int64_t index = 0; index < count; ++index) {
      {
        std::unique_lock lock(mutex);
        // When the ring is full, sleeps until half of it is free: a wake-up per batch would cost a
        // short step more than the batch.
        if (room(index) == 0) {
          resting = true;
          changed.wait(lock, [&] { return ending || room(index) >= half(); });
          resting = false;
        }
        if (ending) return;
      }
      fill(slot(index), options.firstStep + index);
      const std::lock_guard lock(mutex);
      filled = index + 1;
      changed.notify_all();
    }
  }

  const Dataset& dataset;
  const Options options;
  std::vector<Batch> ring;
  SampleOrder order;
  std::vector<std::byte> image;  // as stored in the data set
  std::int64_t epoch = -1;
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t filled = 0;
  std::int64_t taken = 0;
  bool resting = false;
  bool ending = false;
  std::thread thread;
};

Loader::Loader(const Dataset& dataset, const Options& options) {
  LOCKSTEP_CHECK(dataset.size() > 0 && options.globalBatch > 0 && options.begin >= 0 &&
                     options.begin <= options.end && options.microBatches >= 1 &&
                     options.globalBatch % options.microBatches == 0 &&
                     options.end <= options.globalBatch / options.microBatches &&
                     options.firstStep >= 0 && options.depth >= 1,
                 "samples [{}, {}) of batches of {}", options.begin, options.end,
                 options.globalBatch);
  state_ = std::make_unique<State>(dataset, options);
  state_->thread = helperThread("loader", [state = state_.get()] { state->run(); });
}

Result<std::unique_ptr<Loader>> Loader::make(const Dataset& dataset, const Options& options) {
  std::int64_t sample = static_cast<std::int64_t>(sizeof(float));
  for (const Field& field : dataset.fields()) sample += field.bytes();
  const std::int64_t bytes =
      (options.end - options.begin) * options.microBatches * (options.depth + 1) * sample +
      (options.shuffle && dataset.size() <= dataset.tableSamples() ? 4 * dataset.size() : 0);
  return withMemoryFor(message("{} batches of samples", options.depth + 1), bytes,
                       [&]() -> Result<std::unique_ptr<Loader>> {
                         return std::make_unique<Loader>(dataset, options);
                       });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
  }
  state_->thread.join();
}

void Loader::awaitFull() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const std::int64_t count = state.options.lastStep - state.options.firstStep;
  state.changed.wait(lock, [&] { return state.filled >= count || state.room(state.filled) <= 0; });
}

const Batch* Loader::next() {
  State& state = *state_;
  if (state.taken >= state.options.lastStep - state.options.firstStep) return nullptr;
  std::unique_lock lock(state.mutex);
  const std::int64_t index = state.taken++;
  if (state.resting && state.room(state.filled) >= state.half()) state.changed.notify_all();
  state.changed.wait(lock, [&] { return state.filled > index; });
  return &state.slot(index);
}

}  // namespace lockstep::data
