// GrowingFile: a file that text is appended to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::app {

class GrowingFile {
 public:
  // `size`: how much of the file counts; what follows is replaced. A file that is empty, or is
  // removed meanwhile, begins with `head`.
  GrowingFile(std::string path, std::int64_t size, std::string head);
  // Appends all of the text or, on an error, nothing. Makes the folder and the file.
  Status append(std::string_view text);
  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }

 private:
  std::string path_, head_;
  std::int64_t size_;
};

}  // namespace lockstep::app
