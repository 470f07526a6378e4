#include "app/runs/git.h"

#include <algorithm>
#include <chrono>

#include "engine/base/text.h"
#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostNames = std::size_t{16} << 20;  // bytes

}  // namespace

std::vector<std::string> splitNames(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Result<ProcessResult> Git::process(const std::string& folder, const std::vector<std::string>& words,
                                   const ProcessOptions& options) const {
  std::vector<std::string> argv = {"env"};
  for (const char* name :
       {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS",
        "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS"})
    argv.insert(argv.end(), {"-u", name});
  argv.insert(argv.end(),
              {"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1",
               "GIT_ALLOW_PROTOCOL=none", "git", "-c", "core.fsmonitor=false", "-C", folder});
  argv.insert(argv.end(), words.begin(), words.end());
  constexpr auto kLimit = std::chrono::minutes(10);
  auto ran = runProcess(argv, kLimit, stop_, options);
  if (ran.status().code() == Code::kCancelled)
    return makeError(Code::kCancelled, "collecting the code was cancelled");
  if (ran.status().code() == Code::kDeadlineExceeded)
    return makeError(Code::kDeadlineExceeded, "git did not end within {} minutes in {}",
                     kLimit.count(), validUtf8(folder));
  constexpr int kNoProgram = 127;
  if (!ran.ok() || ran->exitStatus != kNoProgram) return ran;
  Error error = makeError(Code::kNotFound, "the program git is not installed");
  error.next = "install git on this machine, or set workload.code.disabled";
  return error;
}

Result<ProcessResult> Git::run(const std::string& folder, const std::vector<std::string>& words,
                               std::string_view input) const {
  LOCKSTEP_ASSIGN(ProcessResult ran,
                  process(folder, words, {.input = input, .ownGroup = true, .kept = kMostNames}));
  if (ran.output.size() < kMostNames) return ran;
  Error error =
      makeError(Code::kResourceExhausted, "{} has too many files to be code", validUtf8(folder));
  error.field = "workload.code.from";
  error.next = "leave data out with .gitignore or workload.code.exclude";
  return error;
}

Result<ProcessResult> Git::beginning(const std::string& folder,
                                     const std::vector<std::string>& words,
                                     std::size_t most) const {
  return process(folder, words, {.ownGroup = true, .kept = most});
}

Result<std::vector<std::string>> Git::names(const std::string& folder,
                                            const std::vector<std::string>& words,
                                            std::string_view input, int none) const {
  LOCKSTEP_ASSIGN(const ProcessResult ran, run(folder, words, input));
  if (ran.exitStatus != 0 && ran.exitStatus != none) return failure(folder, ran);
  return splitNames(ran.output);
}

Error Git::failure(const std::string& folder, const ProcessResult& ran) {
  Error error =
      makeError(Code::kFailedPrecondition, "git cannot list the files of {}", validUtf8(folder));
  error.field = "workload.code.from";
  error.why = validUtf8(withoutLineEnds(ran.errorOutput));
  return error;
}

}  // namespace lockstep::app
