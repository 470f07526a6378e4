#include "engine/runtime/checkpoint.h"

#include <algorithm>

#include "engine/base/hash.h"
#include "engine/runtime/gather.h"

namespace lockstep::runtime {

Result<std::string> exportModel(const std::string& path, const RankState& state,
                                const TensorSink& sink) {
  std::vector<Place> places = placesOf(state.plan, [](const plan::StateSlot& slot) {
    return slot.role == plan::StateRole::kParameters || slot.role == plan::StateRole::kStatistics;
  });
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.member().name < b.member().name; });
  std::vector<TensorInfo> tensors;
  for (const Place& place : places)
    tensors.push_back({place.member().name, place.slot->type.dtype, place.member().shape});
  Sha256 hash;
  const auto note = [&](std::size_t index, std::span<const std::byte> data) {
    const TensorInfo& tensor = tensors[index];
    hash.update(
        fmt::format("{} {}[{}]\n", tensor.name, dtypeName(tensor.dtype), shapeText(tensor.shape)));
    hash.update(data);
    if (sink) sink(tensor, data);
  };
  WriteTensors write;
  if (!path.empty())
    write = [&](const TensorBytes& bytes) {
      return writeTensors(path, tensors,
                          {{"format", "lockstep"},
                           {"model", state.plan.name},
                           {"layout", std::string(kWeightLayout)}},
                          bytes, Checksums::kNone, 0600);
    };
  Status written;
  LOCKSTEP_TRY(gather(state, places, "writing " + path, note, write, written));
  LOCKSTEP_TRY(written);
  return state.rank == 0 ? hash.hex() : std::string();
}

}  // namespace lockstep::runtime
