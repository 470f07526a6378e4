#include "app/ssh/known_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <sstream>

#include "engine/base/file.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::size_t kHashBytes = 20;  // of SHA-1

struct Line {
  std::string file;
  int number = 0;
  std::string marker;  // "@revoked", "@cert-authority", or ""
  std::string type;
  std::string base64;
};

std::string encode(const unsigned char* bytes, std::size_t size) {
  std::string out(4 * ((size + 2) / 3) + 1, '\0');
  out.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                                      bytes, static_cast<int>(size))));
  return out;
}

std::string decodeHash(const std::string& base64) {
  if (base64.size() != 28) return "";
  unsigned char out[21];
  if (EVP_DecodeBlock(out, reinterpret_cast<const unsigned char*>(base64.data()), 28) != 21)
    return "";
  return std::string(reinterpret_cast<char*>(out), kHashBytes);
}

std::string hmacSha1(const std::string& key, const std::string& text) {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out, &size);
  return std::string(reinterpret_cast<char*>(out), size);
}

bool matchesGlob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool matchesHost(const std::string& patterns, const std::string& name) {
  if (patterns.starts_with("|1|")) {
    const auto bar = patterns.find('|', 3);
    if (bar == std::string::npos) return false;
    const std::string salt = decodeHash(patterns.substr(3, bar - 3));
    const std::string hash = decodeHash(patterns.substr(bar + 1));
    if (salt.empty() || hash.empty()) return false;
    const std::string ours = hmacSha1(salt, name);
    return ours.size() == hash.size() && CRYPTO_memcmp(ours.data(), hash.data(), hash.size()) == 0;
  }
  bool matched = false;
  std::istringstream list(patterns);
  for (std::string pattern; std::getline(list, pattern, ',');) {
    std::transform(pattern.begin(), pattern.end(), pattern.begin(),
                   [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    const bool negated = pattern.starts_with("!");
    if (!matchesGlob(negated ? pattern.substr(1) : pattern, name)) continue;
    if (negated) return false;
    matched = true;
  }
  return matched;
}

// Calls `visit` with every line for the host, in the files' order.
Status visitLines(const std::vector<std::string>& files, const std::string& name,
                  const std::function<void(const Line&)>& visit) {
  for (const std::string& file : files) {
    if (::access(file.c_str(), F_OK) != 0) continue;
    LOCKSTEP_ASSIGN(const std::string text, readFile(file, kLargestFile));
    std::istringstream lines(text);
    int number = 0;
    for (std::string row; std::getline(lines, row);) {
      Line line;
      line.file = file;
      line.number = ++number;
      std::istringstream fields(row);
      std::string patterns;
      if (!(fields >> patterns) || patterns.starts_with("#")) continue;
      if (patterns.starts_with("@")) {
        line.marker = patterns;
        if (!(fields >> patterns)) continue;
      }
      if (!(fields >> line.type >> line.base64) || !matchesHost(patterns, name)) continue;
      visit(line);
    }
  }
  return {};
}

}  // namespace

Result<KnownHostsAnswer> lookUpHostKey(const std::vector<std::string>& files,
                                       const std::string& name, const HostKey& key) {
  KnownHostsAnswer known, changed, otherType, revoked;
  std::string authority;
  LOCKSTEP_TRY(visitLines(files, name, [&](const Line& line) {
    const bool same = line.type == key.type && line.base64 == key.base64;
    const auto take = [&](KnownHostsAnswer* answer, HostKeyVerdict verdict) {
      if (answer->line == 0) *answer = {verdict, line.file, line.number};
    };
    if (line.marker == "@revoked") {
      if (same) take(&revoked, HostKeyVerdict::kRevoked);
    } else if (line.marker == "@cert-authority") {
      if (authority.empty()) authority = fmt::format("{}:{}", line.file, line.number);
    } else if (line.marker.empty()) {
      if (same)
        take(&known, HostKeyVerdict::kKnown);
      else
        take(line.type == key.type ? &changed : &otherType, HostKeyVerdict::kChanged);
    }
  }));
  KnownHostsAnswer decided;
  for (const auto& answer : {revoked, known, changed, otherType}) {
    if (answer.line == 0) continue;
    decided = answer;
    break;
  }
  decided.authority = authority;
  return decided;
}

Result<std::vector<std::string>> knownKeyTypes(const std::vector<std::string>& files,
                                               const std::string& name) {
  std::vector<std::string> types;
  LOCKSTEP_TRY(visitLines(files, name, [&](const Line& line) {
    if (line.marker.empty() && std::find(types.begin(), types.end(), line.type) == types.end())
      types.push_back(line.type);
  }));
  return types;
}

Status addHostKey(const std::string& file, const std::string& name, const HostKey& key,
                  bool hashed) {
  if (const auto slash = file.rfind('/'); slash != std::string::npos && slash > 0) {
    const std::string folder = file.substr(0, slash);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return systemError(errno, message("cannot create {}", folder));
  }
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return systemError(errno, message("cannot write {}", file));
  std::string host = name;
  if (hashed) {
    unsigned char salt[kHashBytes];
    if (RAND_bytes(salt, sizeof salt) != 1)
      return makeError(Code::kInternal, "no random bytes for a hashed known_hosts entry");
    const std::string hash =
        hmacSha1(std::string(reinterpret_cast<char*>(salt), sizeof salt), name);
    host = fmt::format("|1|{}|{}", encode(salt, sizeof salt),
                       encode(reinterpret_cast<const unsigned char*>(hash.data()), hash.size()));
  }
  std::string line = fmt::format("{} {} {}\n", host, key.type, key.base64);
  struct stat info {};
  char last = '\n';
  if (::fstat(fd.get(), &info) == 0 && info.st_size > 0 &&
      ::pread(fd.get(), &last, 1, info.st_size - 1) == 1 && last != '\n')
    line.insert(line.begin(), '\n');
  // One write to a file opened for appending: whole lines, whoever else appends.
  if (::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return systemError(errno, message("cannot write {}", file));
  return {};
}

}  // namespace lockstep::app
