// A data file on its way to <workdir>/data/<SHA-256>/<name>.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/hash.h"
#include "engine/base/status.h"

namespace lockstep::agent {

bool isSha256(std::string_view text);
// The names of this host's parts begin so: on a shared file system other hosts have theirs beside
// them.
std::string partPrefix();

// A file that is being written; removed unless it is kept. Errors: kResourceExhausted if the disk
// is full.
class Part {
 public:
  Part(std::string name, std::string folder);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // `bytes`: -1 if unknown. All of its space is taken at once where the file system can.
  Status create(std::int64_t bytes);
  Status append(std::string_view bytes);
  Status startOver(std::int64_t bytes);  // without what was written
  std::int64_t written() const { return written_; }
  std::string sha256() { return hash_->hex(); }  // call once
  // Gives it its name under its hash; returns its path. The file is complete then.
  Result<std::string> keep(const std::string& sha256);

 private:
  Status reserve(std::int64_t bytes);

  const std::string name_, folder_;
  std::string path_;
  int fd_ = -1;
  std::int64_t bytes_ = 0, written_ = 0, checked_ = 0;
  std::unique_ptr<Sha256> hash_;
};

}  // namespace lockstep::agent
