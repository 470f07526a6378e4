#include "app/deploy/stream_files.h"

#include <utility>

#include "engine/base/file.h"
#include "engine/base/shell_text.h"
#include "engine/base/text.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::minutes kLimit{10};
constexpr std::size_t kAtOnce = std::size_t{4} << 20;  // bytes of a command, or one larger file

// Before each file's bytes stands a line with its mode, size and path. The names are not in the
// command, whose length proxies of an API server limit.
constexpr const char* kTake = R"sh(umask 022; mkdir -p "$1" && cd "$1" || exit 1
while read -r mode size path; do
  mkdir -p "$(dirname "$path")" && head -c "$size" > "$path" && chmod "$mode" "$path" || exit 1
done
)sh";

}  // namespace

Status streamFiles(Host& host, const Bundle& bundle, const std::string& folder,
                   const DeployOptions& options) {
  DeployProgress progress;
  progress.bytesTotal = bundle.totalBytes();
  if (options.onProgress) options.onProgress(progress);
  const std::string command = "sh -c " + shellQuote(kTake) + " sh " + shellQuote(folder);
  ExecOptions exec;
  exec.timeout = kLimit;
  std::uint64_t contained = 0;  // bytes of files in the input
  const auto send = [&]() -> Status {
    LOCKSTEP_ASSIGN(const ExecResult ran, host.exec(command, exec, options.stop));
    if (ran.exitStatus != 0) {
      Error error = makeError(Code::kUnavailable, "copying the agent failed");
      error.why = message("status {}: {}", ran.exitStatus,
                          withoutLineEnds(ran.errorOutput.substr(0, 2000)));
      return error;
    }
    progress.bytesDone += std::exchange(contained, 0);
    if (options.onProgress) options.onProgress(progress);
    exec.input.clear();
    return {};
  };
  const auto add = [&](const std::string& path, int mode) -> Status {
    LOCKSTEP_ASSIGN(const std::string content, readFile(bundle.folder + "/" + path));
    contained += content.size();
    exec.input += fmt::format("{:o} {} {}\n", mode & 0777, content.size(), path) + content;
    return exec.input.size() < kAtOnce ? Status() : send();
  };
  for (const BundleFile& file : bundle.files) LOCKSTEP_TRY(add(file.path, file.mode));
  LOCKSTEP_TRY(add("manifest", 0644));
  return exec.input.empty() ? Status() : send();
}

}  // namespace lockstep::app
