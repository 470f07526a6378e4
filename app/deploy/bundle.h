// A bundle: the folder made by packaging/bundle, with lockstep-agent, lib/*.so (all shared
// libraries except glibc's) and `manifest`. Relocatable (RPATH $ORIGIN/lib).
//
// manifest, text:   lockstep-bundle 1
//                   machine x86_64
//                   glibc 2.36                       (the newest symbol version needed)
//                   file <sha256> <bytes> <mode, octal> <path>     (sorted by path)
// The version is the SHA-256 of the manifest's bytes: an agent finds its own with
// sha256File(<folder of its executable>/manifest).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct BundleFile {
  std::string path;  // relative, '/' between parts, no part "." or ".."
  std::string sha256;
  std::uint64_t bytes = 0;
  int mode = 0644;
};

struct Bundle {
  std::string folder;
  std::string version;            // 64 hexadecimal digits
  std::string machine;            // as `uname -m`
  std::string glibc;              // "2.36"
  std::vector<BundleFile> files;  // without the manifest
  std::string manifest;           // its text
  std::uint64_t totalBytes() const;
};

// Reads and validates the manifest, not the files. Errors: kNotFound, kDataLoss.
Result<Bundle> readBundle(const std::string& folder);
Result<Bundle> parseManifest(const std::string& text, const std::string& folder);

// Finds the bundle: $LOCKSTEP_BUNDLE, else `bundle` next to the folder of the running executable
// (in a build), else ../lib/lockstep/bundle (installed). kNotFound lists the places searched.
Result<std::string> findBundle();

}  // namespace lockstep::app
