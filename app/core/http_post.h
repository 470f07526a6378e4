// POSTs to HTTP servers, by libcurl.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct HttpPost {
  std::string url;  // http:// or https://
  std::string body;
  std::vector<std::string> headers;  // "Content-Type: application/json"
  std::chrono::milliseconds limit{10000};
};
struct HttpAnswer {
  int status = 0;
  std::string body;  // its first 64 KiB
};

// Redirects are not followed, certificates are checked. Errors, whose text names no URL:
// kCancelled, kDeadlineExceeded, kUnavailable. Thread-safe.
Result<HttpAnswer> httpPost(const HttpPost& post, const std::stop_token& stop = {});

}  // namespace lockstep::app
