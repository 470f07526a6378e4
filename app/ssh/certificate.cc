#include "app/ssh/certificate.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "app/ssh/wire.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kLargestFile = 256 << 10;
constexpr std::string_view kSuffix = "-cert-v01@openssh.com";

// How many strings the public key of a type has.
std::size_t keyFields(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::size_t>, 8> kFields = {{
      {"ssh-ed25519", 1},
      {"ssh-rsa", 2},
      {"ecdsa-sha2-nistp256", 2},
      {"ecdsa-sha2-nistp384", 2},
      {"ecdsa-sha2-nistp521", 2},
      {"sk-ssh-ed25519@openssh.com", 2},
      {"sk-ecdsa-sha2-nistp256@openssh.com", 3},
      {"ssh-dss", 4},
  }};
  for (const auto& [name, fields] : kFields)
    if (name == type) return fields;
  return 0;
}

std::string utc(std::uint64_t seconds) {
  constexpr std::uint64_t kLatest = 9'223'372'036;  // as many as nanoseconds have room for: 2262
  const std::string text =
      isoTime(Nanoseconds(static_cast<std::int64_t>(std::min(seconds, kLatest)) * 1000000000));
  return text.substr(0, 10) + " " + text.substr(11, 5) + " UTC";
}

}  // namespace

std::string decodeBlob(std::string base64) {
  if (base64.empty() || base64.size() % 4 != 0) return "";
  std::string blob(base64.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(blob.data()),
                                   reinterpret_cast<const unsigned char*>(base64.data()),
                                   static_cast<int>(base64.size()));
  const auto padding = std::count(base64.begin(), base64.end(), '=');
  if (size < padding) return "";
  blob.resize(static_cast<std::size_t>(size - padding));
  return blob;
}

std::optional<Certificate> parseCertificate(std::string_view blob) {
  std::string_view rest = blob;
  const auto type = takeString(&rest);
  if (!type || !type->ends_with(kSuffix)) return std::nullopt;
  // "sk-ssh-ed25519-cert-v01@openssh.com" certifies "sk-ssh-ed25519@openssh.com".
  std::string keyType(type->substr(0, type->size() - kSuffix.size()));
  if (keyType.starts_with("sk-")) keyType += "@openssh.com";
  const std::size_t fields = keyFields(keyType);
  if (fields == 0 || !takeString(&rest)) return std::nullopt;  // the nonce
  Certificate certificate;
  certificate.blob = blob;
  certificate.key = wireString(keyType);
  for (std::size_t i = 0; i < fields; ++i) {
    const auto field = takeString(&rest);
    if (!field) return std::nullopt;
    certificate.key += wireString(*field);
  }
  const bool named = takeU64(&rest) && takeU32(&rest) && takeString(&rest);  // serial, type, id
  auto principals = named ? takeString(&rest) : std::nullopt;
  const auto after = principals ? takeU64(&rest) : std::nullopt;
  const auto before = after ? takeU64(&rest) : std::nullopt;
  if (!before) return std::nullopt;
  while (!principals->empty()) {
    const auto principal = takeString(&*principals);
    if (!principal) return std::nullopt;
    certificate.principals.emplace_back(*principal);
  }
  certificate.after = *after;
  certificate.before = *before;
  return certificate;
}

Result<Certificate> readCertificate(const std::string& file) {
  if (::access(file.c_str(), F_OK) != 0) return makeError(Code::kNotFound, "{} is absent", file);
  LOCKSTEP_ASSIGN(const std::string text, readFile(file, kLargestFile));
  std::istringstream words(text);
  std::string type, base64;
  words >> type >> base64;
  auto certificate = parseCertificate(decodeBlob(base64));
  if (!certificate) return invalidArgument("{} is not a user certificate", file);
  certificate->file = file;
  return std::move(*certificate);
}

Message certificateNote(const Certificate& certificate, std::uint64_t now) {
  if (now >= certificate.before)
    return message("the certificate expired on {}", utc(certificate.before));
  if (now < certificate.after)
    return message("the certificate is not valid before {}", utc(certificate.after));
  std::string list;
  for (const std::string& one : certificate.principals) list += (list.empty() ? "" : ", ") + one;
  return list.empty() ? Message("the certificate was not accepted")
                      : message("the certificate, for {}, was not accepted", list);
}

}  // namespace lockstep::app
