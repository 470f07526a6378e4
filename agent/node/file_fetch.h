// The transfer of one data file from its URL, over as many connections as it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/node/data_part.h"
#include "agent/node/http_transfer.h"
#include "agent/worker/prepare.h"
#include "engine/base/status.h"
#include "engine/specs/data_url.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class FileFetch {
 public:
  // `folder`: where the file is written. `known`: the ETag of the copy that the node has, or "".
  FileFetch(const node::v1::FetchFileRequest& request, specs::DataUrl url, std::string folder,
            std::string known, const DataObserver& observer);

  // Fetches the file. A broken transfer goes on where it broke off, where the server can and the
  // ETag or the run's hash shows that it is the same file; five tries without a new byte end it.
  // Errors: kCancelled; kResourceExhausted: it is too large, or the disk is full; kNotFound;
  // kPermissionDenied; kUnavailable.
  Status run();
  bool isUnchanged() const { return unchanged_; }  // the known copy is the file; there is no part
  const std::string& etag() const { return etag_; }
  Part& part() { return *part_; }

 private:
  enum class Next : std::uint8_t { kDone, kRetry, kGiveUp };
  struct Attempt {
    Next next = Next::kDone;
    Error error = {};
  };
  Result<HttpRequest> request() const;
  Result<Attempt> attempt();
  Status begin(const HttpHead& head);
  Status receive(std::string_view bytes);
  Status beginWhole(const HttpHead& head);
  Status checkSize(std::int64_t bytes) const;
  bool goesOn(const HttpHead& head) const;
  Attempt refused() const;
  Attempt broken(const HttpEnd& end) const;
  Error failure(Code code, Message why, Message next) const;
  bool tell() const;
  Status pause(int failures) const;

  const node::v1::FetchFileRequest& request_;
  const specs::DataUrl url_;
  const std::string name_, folder_, known_;
  const DataObserver& observer_;
  std::optional<Part> part_;
  std::string etag_;
  std::int64_t total_ = -1, furthest_ = 0;
  int status_ = 0;       // of this attempt
  std::string told_;     // by a server that refuses
  bool resumes_ = true;  // the server has not sent another part than was asked for
  bool unchanged_ = false;
};

}  // namespace lockstep::agent
