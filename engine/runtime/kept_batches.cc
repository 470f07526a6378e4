#include "engine/runtime/kept_batches.h"

#include <cstring>

#include "engine/base/memory.h"

namespace lockstep::runtime {

Result<KeptBatches> KeptBatches::make(const data::Dataset& from, const Options& options) {
  KeptBatches out;
  out.fields_ = from.fields();
  out.bytes_.resize(out.fields_.size());
  out.size_ = options.batch * options.steps - (options.steps > 1 ? options.batch / 2 : 0);
  data::Loader::Options load;
  load.globalBatch = load.end = options.batch;
  load.seed = options.seed;
  load.shuffle = options.shuffle;
  load.augment = options.augment;
  load.lastStep = options.steps;
  LOCKSTEP_ASSIGN(const auto loader, data::Loader::make(from, load));
  std::int64_t bytes = 0;
  for (const data::Field& field : out.fields_)
    bytes += options.batch * options.steps * field.bytes();
  LOCKSTEP_TRY(withMemoryFor(
      fmt::format("{} batches to verify with", options.steps), bytes, [&]() -> Status {
        while (const data::Batch* batch = loader->next())
          for (std::size_t f = 0; f < out.fields_.size(); ++f)
            out.bytes_[f].insert(out.bytes_[f].end(), batch->fields[f].begin(),
                                 batch->fields[f].end());
        return from.problem();
      }));
  return out;
}

void KeptBatches::read(std::int64_t index, std::size_t field, std::byte* out) const {
  const auto bytes = static_cast<std::size_t>(fields_[field].bytes());
  std::memcpy(out, bytes_[field].data() + static_cast<std::size_t>(index) * bytes, bytes);
}

}  // namespace lockstep::runtime
