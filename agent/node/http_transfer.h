// Downloads by the node's own curl, which has the node's certificates and proxies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "agent/node/s3.h"
#include "engine/base/status.h"

namespace lockstep::agent {

struct HttpRequest {
  std::string url;
  Headers headers;              // not seen in lists of processes
  bool followRedirects = true;  // from https to https only
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case
  std::string field(const std::string& name) const;
  std::int64_t number(const std::string& name) const;  // -1: there is none
};

// Parses the heads that curl writes, in pieces, of which all but the last are of redirects.
class HttpHeadParser {
 public:
  explicit HttpHeadParser(bool followsRedirects) : follows_(followsRedirects) {}
  void add(std::string_view piece);
  bool complete() const { return complete_; }
  bool tooLong() const;
  const HttpHead& head() const { return head_; }  // as far as it has come

 private:
  void addLine(std::string_view line);

  const bool follows_;
  std::string rest_;  // a line that has not ended
  std::size_t bytes_ = 0;
  HttpHead head_;
  bool complete_ = false;
};

struct HttpReceiver {
  std::function<Status(const HttpHead&)> head;   // once, before the body
  std::function<Status(std::string_view)> body;  // its next bytes
  std::function<bool()> cancelled;               // asked at least 4 times a second
};

struct HttpEnd {
  int code = 0;      // curl's exit code; 0: the whole body came
  std::string said;  // by curl
};

// GETs a URL. The transfer ends with an error of the receiver, whose it returns; kCancelled;
// kNotFound where there is no curl. A connection that stands still for a minute is an end.
Result<HttpEnd> httpGet(const HttpRequest& request, const HttpReceiver& receiver);

}  // namespace lockstep::agent
