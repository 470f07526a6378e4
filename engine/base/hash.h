// SHA-256, the content address of bundles, data files, plans and sets of weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/progress.h"
#include "engine/base/status.h"

namespace lockstep {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string hex();  // 64 lower-case digits; call once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256Hex(std::string_view text);
// Returns the 32 bytes of HMAC-SHA-256.
std::string hmacSha256(std::string_view key, std::string_view text);
Result<std::string> sha256File(const std::string& path, const Progress& progress = {});

// Returns 64 bits of SplitMix-finalized FNV-1a over the text: a stable key for random streams and
// maps.
std::uint64_t stableHash(std::string_view text);

}  // namespace lockstep
