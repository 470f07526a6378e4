// Data files that tests make up where the real ones are not needed.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "engine/base/random.h"

namespace lockstep::testing {

// Words of some fifty kinds; 200,000 bytes of them. Returns the file's path.
inline std::string madeUpText(const std::string& folder) {
  std::string text;
  for (std::uint64_t i = 0; text.size() < 200'000; ++i) {
    const std::uint64_t bits = randomBits(11, i);
    for (std::uint64_t letter = 0; letter < 2 + bits % 6; ++letter)
      text += static_cast<char>('a' + randomBits(bits % 50, letter) % 26);
    text += bits % 11 == 0 ? ".\n" : " ";
  }
  const std::string path = folder + "/made-up.txt";
  std::ofstream(path) << text;
  return path;
}

// IDX files of grey images, side x side, whose rows are brighter where the label says so.
inline void madeUpImages(const std::string& images, const std::string& labels, std::uint32_t count,
                         std::uint32_t side, std::uint32_t classes) {
  std::ofstream pixels(images, std::ios::binary), kinds(labels, std::ios::binary);
  const auto number = [](std::ofstream& out, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(value >> shift));
  };
  for (const std::uint32_t value : {std::uint32_t{0x803}, count, side, side}) number(pixels, value);
  for (const std::uint32_t value : {std::uint32_t{0x801}, count}) number(kinds, value);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::uint32_t>(randomBits(12, i) % classes);
    kinds.put(static_cast<char>(label));
    for (std::uint32_t pixel = 0; pixel < side * side; ++pixel)
      pixels.put(static_cast<char>(randomBits(13 + i, pixel) %
                                   (pixel / side == label % side ? 256 : 128)));
  }
}

}  // namespace lockstep::testing
