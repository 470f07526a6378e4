// User certificates of OpenSSH. Format: PROTOCOL.certkeys of OpenSSH.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct Certificate {
  std::string file;                     // "": held by an agent
  std::string blob;                     // as the protocols carry it
  std::string key;                      // the blob of the public key that it certifies
  std::uint64_t after = 0, before = 0;  // valid in [after, before), in seconds since 1970
  std::vector<std::string> principals;  // none: valid for every account
};

// Nothing where the blob is no certificate, as for a plain key.
std::optional<Certificate> parseCertificate(std::string_view blob);
// Errors: kNotFound (no such file), kInvalidArgument (no certificate), of reading.
Result<Certificate> readCertificate(const std::string& file);

// What a person should know where a server did not accept it: that it has expired, or is not valid
// yet, or whom it is for. `now` in seconds since 1970.
Message certificateNote(const Certificate& certificate, std::uint64_t now);

// The public key of base64 text, as a blob; "" where it is none.
std::string decodeBlob(std::string base64);

}  // namespace lockstep::app
