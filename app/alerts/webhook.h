// Sends alerts to an HTTP server.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "engine/base/status.h"

namespace lockstep::app {

// POSTs JSON to an http:// or https:// URL. Redirects are not followed, certificates are checked.
// Completion: the server has answered with a status below 300. Errors name the host only:
// kCancelled, kDeadlineExceeded, kUnavailable. Thread-safe.
Status postJson(const std::string& url, const std::string& json, std::chrono::milliseconds limit,
                const std::stop_token& stop = {});

}  // namespace lockstep::app
