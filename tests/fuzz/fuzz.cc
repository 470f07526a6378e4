#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/base/log.h"

namespace lockstep::fuzz {
namespace {

struct Folder {
  std::string path;
  Folder() : path((std::filesystem::temp_directory_path() / "lockstep-fuzz-XXXXXX").string()) {
    LOCKSTEP_CHECK(mkdtemp(path.data()) != nullptr, "{}", path);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::string scratchFolder() {
  static const Folder folder;
  return folder.path;
}

std::string scratchFile(std::string_view name, std::string_view bytes) {
  const std::string path = scratchFolder() + "/" + std::string(name);
  unlink(path.c_str());  // a file that is truncated may be written to the disk at once
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  LOCKSTEP_CHECK(fd >= 0 && write(fd, bytes.data(), bytes.size()) == std::ssize(bytes), "{}", path);
  close(fd);
  return path;
}

std::string fileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string gzipOf(std::string_view bytes) {
  z_stream stream{};
  LOCKSTEP_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) ==
                 Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  LOCKSTEP_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstdOf(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
  LOCKSTEP_CHECK(ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

}  // namespace lockstep::fuzz

#ifdef LOCKSTEP_FUZZ
// Freed memory is kept from reuse up to 4 MB, more than an execution frees, instead of 256 MB,
// which no cache holds: a third quicker.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64";
}
// With LOCKSTEP_FUZZ_SEEDS=FOLDER the fuzzer writes its seeds there and exits.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  lockstep::setLogLevel(lockstep::LogLevel::kError);
  const char* const folder = getenv("LOCKSTEP_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : lockstep::fuzz::seeds())
    std::ofstream(fmt::format("{}/seed-{}", folder, number++), std::ios::binary) << seed;
  exit(0);
}
#endif
