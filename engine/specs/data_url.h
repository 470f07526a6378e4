// Data files that nodes fetch at a launch: https://host/path, http://host/path, s3://bucket/key.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::specs {

struct DataUrl {
  std::string scheme;  // "https", "http" or "s3"
  std::string host;    // with its port; of s3 the bucket
  std::string path;    // "/file?query", as it is sent; of s3 the key, not percent-encoded
};

bool isUrl(std::string_view path);
// Errors never quote the URL: what is wrong with it may be a password.
Result<DataUrl> parseUrl(std::string_view url);
// Refuses the wrong URL of a field of a spec; what is no URL is right.
Status checkUrl(const std::string& field, std::string_view path);
// Returns what a message says of a URL: without its query, which may hold a token.
std::string withoutQuery(std::string_view url);
// Refuses a URL where only files of this machine can be read.
Status checkIsPath(std::string_view path);

}  // namespace lockstep::specs
