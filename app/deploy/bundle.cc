#include "app/deploy/bundle.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "engine/base/file.h"
#include "engine/base/hash.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kLargestManifest = std::size_t{4} << 20;
constexpr std::size_t kMostFiles = 10000;
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 40;

bool isHash(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Allows only characters that no shell and no line-based tool can misread.
bool isPlainPath(const std::string& path) {
  if (path.empty() || path.front() == '/' || path.back() == '/') return false;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '_' || c == '-' || c == '+';
    if (!plain) return false;
  }
  const std::string bounded = "/" + path + "/";
  return bounded.find("//") == std::string::npos && bounded.find("/./") == std::string::npos &&
         bounded.find("/../") == std::string::npos && bounded.find("/-") == std::string::npos;
}

template <typename T>
bool parseNumber(const std::string& text, int base, T* out) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), *out, base);
  return fault == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::uint64_t Bundle::totalBytes() const {
  std::uint64_t total = manifest.size();
  for (const BundleFile& file : files) total += file.bytes;
  return total;
}

Result<Bundle> parseManifest(const std::string& text, const std::string& folder) {
  Bundle bundle;
  bundle.folder = folder;
  bundle.manifest = text;
  bundle.version = sha256Hex(text);
  std::istringstream lines(text);
  int number = 0;
  const auto bad = [&](const Message& why) {
    Error error =
        makeError(Code::kDataLoss, "the bundle's manifest {}/manifest is damaged", folder);
    error.why = message("line {}: {}", number, why);
    error.next = "make the bundle again";
    return error;
  };
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream fields(line);
    std::string key;
    fields >> key;
    if (number == 1) {
      if (line != "lockstep-bundle 1") return bad("expected \"lockstep-bundle 1\"");
    } else if (key == "machine") {
      fields >> bundle.machine;
    } else if (key == "glibc") {
      fields >> bundle.glibc;
    } else if (key == "file") {
      BundleFile file;
      std::string bytes, mode;
      if (!(fields >> file.sha256 >> bytes >> mode >> file.path) || !isHash(file.sha256) ||
          !parseNumber(bytes, 10, &file.bytes) || !parseNumber(mode, 8, &file.mode) ||
          file.mode < 0 || file.mode > 0777 || file.bytes > kLargestFile ||
          !isPlainPath(file.path) || bundle.files.size() >= kMostFiles)
        return bad("expected: file <sha256> <bytes> <mode> <path>");
      bundle.files.push_back(std::move(file));
    } else {
      return bad("an unknown keyword");
    }
  }
  const bool agent =
      std::any_of(bundle.files.begin(), bundle.files.end(),
                  [](const BundleFile& file) { return file.path == "lockstep-agent"; });
  if (bundle.machine.empty() || bundle.glibc.empty() || !agent)
    return bad("machine, glibc or lockstep-agent is missing");
  return bundle;
}

Result<Bundle> readBundle(const std::string& folder) {
  auto text = readFile(folder + "/manifest", kLargestManifest);
  if (!text.ok()) {
    Error error = makeError(Code::kNotFound, "there is no agent package in {}", folder);
    error.why = text.error().why;
    error.next = "build Lockstep again, which makes the package, then connect again";
    return error;
  }
  return parseManifest(*text, folder);
}

Result<std::string> findBundle() {
  std::vector<std::string> places;
  if (const char* given = ::getenv("LOCKSTEP_BUNDLE"); given && *given) {
    places.push_back(given);
  } else {
    std::string self(4096, '\0');
    const ssize_t size = ::readlink("/proc/self/exe", self.data(), self.size());
    self.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    const std::string folder = self.substr(0, self.rfind('/'));
    const std::string above = folder.substr(0, folder.rfind('/'));
    places = {above + "/bundle", above + "/lib/lockstep/bundle"};
  }
  std::string searched;
  for (const std::string& place : places) {
    if (::access((place + "/manifest").c_str(), R_OK) == 0) return place;
    searched += (searched.empty() ? "" : ", ") + place;
  }
  Error error = makeError(Code::kNotFound, "the agent package was not found");
  error.why = message("searched: {}", searched);
  error.next = "build Lockstep again, which makes the package, then connect again";
  return error;
}

}  // namespace lockstep::app
