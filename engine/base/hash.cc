#include "engine/base/hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "engine/base/hex.h"
#include "engine/base/random.h"
#include "engine/base/unique_fd.h"

namespace lockstep {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  LOCKSTEP_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  LOCKSTEP_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}
void Sha256::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  LOCKSTEP_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1);
  return toHex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string sha256Hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

std::string hmacSha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> digest{};
  LOCKSTEP_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                      digest.data(), nullptr) != nullptr);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Result<std::string> sha256File(const std::string& path, const Progress& progress) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(errno, message("cannot open {}", path));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return systemError(errno, message("cannot read {}", path));
  Sha256 hash;
  std::int64_t done = 0;
  std::vector<std::byte> buffer(1 << 18);
  for (;;) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read {}", path));
    if (count == 0) break;
    hash.update(std::span(buffer.data(), static_cast<std::size_t>(count)));
    LOCKSTEP_TRY(report(progress, done += count, info.st_size));
  }
  return hash.hex();
}

std::uint64_t stableHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return mix64(hash);
}

}  // namespace lockstep
