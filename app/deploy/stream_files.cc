#include "app/deploy/stream_files.h"

#include "engine/base/file.h"
#include "engine/base/text.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::minutes kLimit{10};
constexpr std::size_t kAtOnce = std::size_t{4} << 20;  // bytes of a command, or one larger file

}  // namespace

Status streamFiles(Host& host, const Bundle& bundle, const std::string& folder,
                   const DeployOptions& options) {
  DeployProgress progress;
  progress.bytesTotal = bundle.totalBytes();
  if (options.onProgress) options.onProgress(progress);
  ExecOptions exec;
  exec.timeout = kLimit;
  std::string script;
  const auto send = [&]() -> Status {
    const std::string command = "umask 022; mkdir -p " + shellQuote(folder) + " && cd " +
                                shellQuote(folder) + script + " && cat > /dev/null";
    auto ran = host.exec(command, exec, options.stop);
    if (ran.ok() && ran->exitStatus != 0) {
      Error error = makeError(Code::kUnavailable, "copying the agent failed");
      error.why = message("status {}: {}", ran->exitStatus,
                          withoutLineEnds(ran->errorOutput.substr(0, 2000)));
      return error;
    }
    LOCKSTEP_TRY(ran.status());
    progress.bytesDone += exec.input.size();
    if (options.onProgress) options.onProgress(progress);
    exec.input.clear();
    script.clear();
    return {};
  };
  const auto add = [&](const std::string& path, int mode) -> Status {
    LOCKSTEP_ASSIGN(const std::string content, readFile(bundle.folder + "/" + path));
    const std::string quoted = shellQuote(path);
    script += fmt::format(" && mkdir -p \"$(dirname {0})\" && head -c {1} > {0} && chmod {2:o} {0}",
                          quoted, content.size(), mode & 0777);
    exec.input += content;
    return exec.input.size() < kAtOnce ? Status() : send();
  };
  for (const BundleFile& file : bundle.files) LOCKSTEP_TRY(add(file.path, file.mode));
  LOCKSTEP_TRY(add("manifest", 0644));
  return script.empty() ? Status() : send();
}

}  // namespace lockstep::app
