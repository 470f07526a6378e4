// PageRequest: a request of HTTP/1 for a page, as its bytes arrive, and the answer to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::metrics {

// What is served.
struct Page {
  std::string path, contentType;
  std::function<Result<std::string>()> text;
};

class PageRequest {
 public:
  enum class State : std::uint8_t { kIncomplete, kComplete, kTooLong };

  // Returns kComplete once the head of the request has come; kTooLong where it has more than 8 KiB.
  State add(std::string_view bytes);
  // Returns the answer to a complete request. To GET of the page's path: the page, or its error
  // with status 500. To all else: status 400, 404 or 405.
  std::string answer(const Page& page) const;

 private:
  std::string head_;
};

}  // namespace lockstep::metrics
