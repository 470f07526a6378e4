#include <algorithm>
#include <cstring>

#include "engine/base/random.h"
#include "engine/data/dataset.h"

namespace lockstep::data {
namespace {

// Separates augmentation from the streams of sample order, which also derive from (seed, epoch).
constexpr std::uint64_t kStream = 0x6175676d656e74;

// Returns a uniform number in [−limit, limit].
std::int64_t shift(std::uint64_t key, std::uint64_t index, std::int64_t limit) {
  const std::int64_t places = 2 * limit + 1;
  return static_cast<std::int64_t>(randomUniform(key, index) * static_cast<double>(places)) - limit;
}

}  // namespace

void augmentImage(const Augment& augment, const ImageSize& size, std::uint64_t seed,
                  std::int64_t epoch, std::int64_t sample, const std::byte* image, std::byte* out) {
  const std::uint64_t key =
      randomKey(randomKey(randomKey(seed, kStream), static_cast<std::uint64_t>(epoch)),
                static_cast<std::uint64_t>(sample));
  const std::int64_t down = shift(key, 0, augment.crop), right = shift(key, 1, augment.crop);
  const bool mirrored = augment.flip && (randomBits(key, 2) & 1) != 0;
  const std::int64_t row = size.width * size.pixelBytes;
  const std::int64_t begin = std::clamp<std::int64_t>(right, 0, size.width);
  const std::int64_t end = std::clamp<std::int64_t>(size.width + right, 0, size.width);
  for (std::int64_t y = 0; y < size.height; ++y, out += row) {
    const std::int64_t from = y - down;
    std::memset(out, 0, static_cast<std::size_t>(row));
    if (from < 0 || from >= size.height || begin >= end) continue;
    const std::byte* pixels = image + from * row;
    if (!mirrored) {
      std::memcpy(out + begin * size.pixelBytes, pixels + (begin - right) * size.pixelBytes,
                  static_cast<std::size_t>((end - begin) * size.pixelBytes));
      continue;
    }
    for (std::int64_t x = begin; x < end; ++x)
      std::memcpy(out + x * size.pixelBytes,
                  pixels + (size.width - 1 - (x - right)) * size.pixelBytes,
                  static_cast<std::size_t>(size.pixelBytes));
  }
}

}  // namespace lockstep::data
