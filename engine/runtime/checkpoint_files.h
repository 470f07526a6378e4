// How checkpoints lie in their folder: step-000000040/state.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::runtime {

inline constexpr std::string_view kCheckpointPrefix = "step-";
inline constexpr std::string_view kStateFile = "state.safetensors";

// Those of a folder with their steps, the newest last.
std::vector<std::pair<std::int64_t, std::filesystem::path>> checkpointsIn(
    const std::filesystem::path& folder);

}  // namespace lockstep::runtime
