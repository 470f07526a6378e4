// Git: calls the program git for the folder of a person's code, which may be anybody's.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/ssh/run_process.h"
#include "engine/base/status.h"

namespace lockstep::app {

class Git {
 public:
  explicit Git(std::stop_token stop) : stop_(std::move(stop)) {}

  // Runs git in the folder, where no variable of this process's names another repository. It asks
  // nothing, fetches nothing, writes nothing to the index and calls no program that the
  // repository's configuration names as its monitor. Errors: kNotFound, there is no git;
  // kResourceExhausted, it prints more than can be the names of code; kCancelled.
  Result<ProcessResult> run(const std::string& folder, const std::vector<std::string>& words,
                            std::string_view input = {}) const;
  // The same with the first `most` bytes that it prints.
  Result<ProcessResult> beginning(const std::string& folder, const std::vector<std::string>& words,
                                  std::size_t most) const;
  // run(), and the names that were printed. git's own failure is an error, except exit status
  // `none`, which says that there are none.
  Result<std::vector<std::string>> names(const std::string& folder,
                                         const std::vector<std::string>& words,
                                         std::string_view input = {}, int none = 0) const;

  static Error failure(const std::string& folder, const ProcessResult& ran);

 private:
  Result<ProcessResult> process(const std::string& folder, const std::vector<std::string>& words,
                                const ProcessOptions& options) const;

  std::stop_token stop_;
};

// The names in what git prints with -z.
std::vector<std::string> splitNames(std::string_view text);

}  // namespace lockstep::app
