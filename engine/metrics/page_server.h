// PageServer: one page of text over HTTP, for a monitoring system that fetches it again and again.
// It answers GET and nothing else; no library that we link has an HTTP server.
#pragma once

#include <functional>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"
#include "engine/metrics/page_request.h"

namespace lockstep::metrics {

class PageServer {
 public:
  // `address` is "127.0.0.1:9464", "[::1]:9464", or a port alone, of 127.0.0.1; port 0: any that is
  // free. Errors: kInvalidArgument, and those of the system.
  static Result<PageServer> listen(const std::string& address);

  // "127.0.0.1:9464", with the port that was taken.
  const std::string& address() const { return address_; }
  bool loopback() const { return loopback_; }

  // Answers GET of the page until `done`, which is called ten times a second or more often. A
  // client that takes longer than five seconds to ask, or to receive the answer, or whose request
  // is too long, is cut off; at most 64 are heard at a time.
  void serve(const Page& page, const std::function<bool()>& done);

 private:
  PageServer() = default;

  UniqueFd listener_;
  std::string address_;
  bool loopback_ = false;
};

}  // namespace lockstep::metrics
