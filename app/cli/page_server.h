// PageServer: one page of text over HTTP, for a monitoring system that fetches it again and again.
// It answers GET and nothing else; no library that we link has an HTTP server.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app::cli {

class PageServer {
 public:
  // `address` is "127.0.0.1:9464", "[::1]:9464", or a port alone, of 127.0.0.1; port 0: any that is
  // free. Errors: kInvalidArgument, and those of the system.
  static Result<PageServer> listen(const std::string& address);

  // "127.0.0.1:9464", with the port that was taken.
  const std::string& address() const { return address_; }
  bool loopback() const { return loopback_; }

  // Answers GET of `path` with what `page` returns, an error with status 500, until `done`, which
  // is called ten times a second or more often. A client that takes longer than five seconds, or
  // has sent more than 8 KiB, is cut off; at most 64 are heard at a time.
  void serve(const std::string& path, const std::string& contentType,
             const std::function<Result<std::string>()>& page, const std::function<bool()>& done);

 private:
  PageServer() = default;

  UniqueFd listener_;
  std::string address_;
  bool loopback_ = false;
};

}  // namespace lockstep::app::cli
