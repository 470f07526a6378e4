// A fuzz target is one file that defines the two functions below. Clang links it with libFuzzer
// (preset fuzz); other compilers link it with driver.cc, which runs it briefly as a test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

// Runs one input and returns 0. Errors are expected; a crash, a hang, a leak or an allocation of
// more than 256 MiB is a defect.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace lockstep::fuzz {

// Returns valid inputs, made by the program's own writers, from which mutations start.
std::vector<std::string> seeds();

inline std::string_view textOf(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// Returns the text up to `end`, or all of it, and removes both from it.
inline std::string_view takeUntil(std::string_view& text, char end) {
  const std::string_view out = text.substr(0, text.find(end));
  text.remove_prefix(std::min(out.size() + 1, text.size()));
  return out;
}

// Whether a name can stand in a command of a shell as it is.
inline bool isSafeWord(std::string_view name) {
  return !name.empty() && name.front() != '-' &&
         name.find_first_of(" '\"`$;&|<>()\n\\") == std::string_view::npos;
}

// Returns this process's temporary folder, which is removed at exit.
std::string scratchFolder();
// Writes a file of that name into the folder and returns its path.
std::string scratchFile(std::string_view name, std::string_view bytes);
std::string fileBytes(const std::string& path);
std::string gzipOf(std::string_view bytes);
std::string zstdOf(std::string_view bytes);

}  // namespace lockstep::fuzz
