// Requests to S3-compatible stores, signed with AWS Signature Version 4.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/specs/data_url.h"

namespace lockstep::agent {

struct S3Access {
  std::string endpoint;  // "https://s3.eu-west-1.amazonaws.com"
  std::string region;
  std::string keyId, secret, token;  // keyId "": requests are not signed
};

// Returns the value of an environment variable, or null.
using Variables = std::function<const char*(const char* name)>;
// Reads AWS's own variables, then ~/.aws/credentials and ~/.aws/config, for the profile of
// AWS_PROFILE. The default region is us-east-1.
Result<S3Access> s3Access(const Variables& variable);

using Headers = std::vector<std::pair<std::string, std::string>>;  // names in lower case
struct S3Request {
  std::string url;
  Headers headers;
};
// Returns the request for an object, in path style. `signedToo`: further headers that are signed.
S3Request s3Request(const S3Access& access, const specs::DataUrl& object, Nanoseconds now,
                    const Headers& signedToo = {});

// Returns the headers of a GET to `host` with its signature. `path` is percent-encoded.
Headers signGet(const S3Access& access, const std::string& host, const std::string& path,
                Nanoseconds now, Headers headers);

}  // namespace lockstep::agent
