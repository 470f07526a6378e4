// A client of SFTP version 3 over a byte stream, pipelined. One object, one thread at a time.
// Errors: kNotFound, kPermissionDenied, kResourceExhausted (no space), kUnavailable (stream ended),
// kDeadlineExceeded (no progress for `timeout`), kCancelled, kDataLoss (not SFTP).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

class SftpClient {
 public:
  struct Entry {
    std::string name;
    bool folder = false;
    std::uint64_t size = 0;
  };

  // Takes the stream and exchanges versions.
  static Result<std::unique_ptr<SftpClient>> start(
      UniqueFd stream, std::stop_token stop = {},
      std::chrono::milliseconds timeout = std::chrono::seconds(30));
  ~SftpClient();

  Status makeFolder(const std::string& path, int mode);
  Result<std::vector<Entry>> list(const std::string& path);  // without "." and ".."
  // Whole file to `remote`, which must not exist yet; many writes are in flight, flushed to disk
  // where the server can. `progress` gets the bytes acknowledged since the last call.
  Status upload(const std::string& local, const std::string& remote, int mode,
                const std::function<void(std::uint64_t)>& progress);
  Status remove(const std::string& path);
  Status removeFolder(const std::string& path);  // must be empty
  Status removeTree(const std::string& path);
  Status rename(const std::string& from, const std::string& to);  // as rename(2) where offered

 private:
  class Impl;
  explicit SftpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::app
