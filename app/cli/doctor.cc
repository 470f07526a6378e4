// doctor: what this machine needs, looked at and tried.
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stop_token>
#include <vector>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/deploy/bundle.h"
#include "app/ssh/run_process.h"
#include "engine/base/file.h"

namespace lockstep::app::cli {
namespace {

struct Finding {
  std::string name;
  bool well = true, needed = true;
  std::string found;
  std::string next;  // what to do where it is not well
};

std::string besideUs(const std::string& name) {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path() / name).string();
}

Finding checkHome(const Home& home) {
  Finding out{"home", true, true, home.root, {}};
  const std::string path = home.root + "/.doctor";
  if (Status written = writeFileAtomically(path, "lockstep\n", 0600); !written.ok()) {
    out.well = false;
    out.found = written.error().text();
    out.next = "make " + home.root + " writable, or choose another with --home";
  }
  ::unlink(path.c_str());
  return out;
}

Finding checkDisk(const Home& home) {
  Finding out{"free disk", true, true, {}, {}};
  struct statvfs info {};
  if (statvfs(home.root.c_str(), &info) != 0)
    return {"free disk", false, true, "unknown", "check " + home.root};
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  out.found = bytesText(free);
  out.well = free > 512.0 * 1024 * 1024;
  out.next = "free at least 512 MiB below " + home.root;
  return out;
}

Finding checkBundle() {
  Finding out{"bundle", true, false, {}, {}};
  const auto folder = findBundle();
  if (!folder.ok()) {
    out.well = false;
    out.found = folder.error().what;
    out.next = folder.error().next.text() + " (needed for nodes over SSH only)";
    return out;
  }
  const auto bundle = readBundle(*folder);
  out.well = bundle.ok();
  out.found = bundle.ok() ? fmt::format("{}, {}", bundle->version.substr(0, 12),
                                        bytesText(static_cast<double>(bundle->totalBytes())))
                          : bundle.error().text();
  out.next = "build Lockstep again, which makes the package";
  return out;
}

// What a program says of its version.
Finding checkProgram(const char* name, const char* program, const char* option, const char* next) {
  Finding out{name, true, false, {}, next};
  const auto ran = runProcess({program, option}, std::chrono::seconds(10));
  if (!ran.ok() || ran->exitStatus != 0) {
    out.well = false;
    out.found = ran.ok() ? fmt::format("{} {} failed", program, option) : ran.error().text();
    return out;
  }
  const std::string& said = ran->errorOutput.empty() ? ran->output : ran->errorOutput;
  out.found = said.substr(0, said.find('\n'));
  return out;
}

Finding checkData() {
  Finding out{
      "Fashion-MNIST", true, false, {}, "apt-get install dataset-fashion-mnist (for the examples)"};
  const std::string path = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";
  out.well = ::access(path.c_str(), R_OK) == 0;
  out.found = out.well ? path : "there is no " + path;
  return out;
}

Finding checkCpu() {
  Finding out{"processor", true, true, {}, "Lockstep's kernels need AVX2"};
  std::ifstream file("/proc/cpuinfo");
  std::string line, flags, name;
  while (std::getline(file, line) && (flags.empty() || name.empty())) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("flags")) flags = " " + line.substr(colon + 2) + " ";
    if (line.starts_with("model name")) name = line.substr(colon + 2);
  }
  out.found = fmt::format("{}, {} usable cores", name, usableCores());
  for (const char* flag : {"avx2", "avx512f", "avx512_bf16"})
    if (flags.find(fmt::format(" {} ", flag)) != std::string::npos)
      out.found += fmt::format(", {}", flag);
  out.well = flags.find(" avx2 ") != std::string::npos;
  return out;
}

// As workers would find it: this process opens no driver. Then what each GPU needs, if anything.
std::vector<Finding> checkGpus() {
  Finding out{"GPU", true, false, {}, "needed for devices of kind cuda only"};
  const auto ran =
      runProcess({besideUs("lockstep-agent"), "selftest", "--device", "cuda", "--quick"},
                 std::chrono::seconds(180));
  out.well = ran.ok() && ran->exitStatus == 0;
  out.found = ran.ok() ? ran->output.substr(0, ran->output.find('\n')) : ran.error().text();
  if (out.found.starts_with("cuda: ")) out.found.erase(0, 6);
  std::vector<Finding> all{out};
  std::istringstream lines(ran.ok() ? ran->output : std::string());
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (!line.starts_with("  GPU ") || colon == std::string::npos) continue;
    Finding gpu{line.substr(2, colon - 2), true, false, line.substr(colon + 2),
                "see the node's kernel messages, its cooling and the GPU's slot"};
    gpu.well = gpu.found.find("; attention: ") == std::string::npos;
    all.push_back(std::move(gpu));
  }
  return all;
}

Finding checkMemfd() {
  const int fd = memfd_create("lockstep-doctor", MFD_CLOEXEC);
  if (fd < 0)
    return {"shared memory", false, true, "memfd_create fails",
            "a kernel of 3.17 or newer is needed"};
  close(fd);
  return {"shared memory", true, true, "memfd", {}};
}

// Starts an agent as a launch would, asks it who it is, and lets it leave again.
Finding checkAgent(const Globals& globals) {
  Finding out{"local agent", true, true, {}, {}};
  ClusterSpecFile cluster = localCluster(1, globals.home.root + "/doctor", {});
  Inbox inbox;
  {
    ClusterSession session(cluster.spec, sessionOptions(globals, 0), inbox);
    session.connect();
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    drainUntil(inbox, [&] {
      const NodeState phase = session.status(0).phase;
      return phase == NodeState::CONNECTED || phase == NodeState::UNAVAILABLE ||
             session.status(0).error.has_value() || std::chrono::steady_clock::now() > end;
    });
    const NodeStatus& node = session.status(0);
    out.well = node.phase == NodeState::CONNECTED;
    if (out.well) {
      out.found = fmt::format("{} answers", node.inventory.agentVersion.substr(0, 12));
    } else {
      out.found = node.error ? node.error->text() : "it did not answer within 30 s";
      out.next = node.error && !node.error->next.empty()
                     ? node.error->next.text()
                     : "see " + globals.home.root + "/doctor/1/agent.log";
    }
  }
  const std::string workdir = globals.home.root + "/doctor";
  (void)runProcess({besideUs("lockstep-agent"), "leave", "--workdir", workdir + "/1"},
                   std::chrono::seconds(20));
  std::error_code ignored;
  if (out.well) std::filesystem::remove_all(workdir, ignored);
  return out;
}

}  // namespace

int doctorCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const Style style(wantsColour(STDOUT_FILENO));
  bool well = true;
  const auto tell = [&](const Finding& finding) {
    well = well && (finding.well || !finding.needed);
    if (json) {
      JsonLine("check")
          .add("name", finding.name)
          .add("ok", finding.well)
          .add("needed", finding.needed)
          .add("found", finding.found)
          .add("next", finding.well ? std::string() : finding.next)
          .print();
      return;
    }
    const std::string mark = finding.well     ? style.green("ok  ")
                             : finding.needed ? style.red("FAIL")
                                              : style.yellow("miss");
    put(stdout, fmt::format("{}  {}  {}\n", mark, padded(finding.name, 14), finding.found));
    if (!finding.well) put(stdout, fmt::format("      {}  {}\n", padded("", 14), finding.next));
  };
  tell(checkHome(globals.home));
  tell(checkDisk(globals.home));
  tell(checkCpu());
  const std::vector<Finding> gpus = checkGpus();
  if (interrupts() > 0) return kStoppedByUser;  // which may have ended the check
  for (const Finding& finding : gpus) tell(finding);
  tell(checkMemfd());
  tell(checkData());
  tell(checkProgram("ssh client", "ssh", "-V",
                    "install openssh-client (needed for nodes over SSH only)"));
  tell(checkProgram("curl", "curl", "--version",
                    "install curl (needed for data files that are a URL only, on each node: see "
                    "lockstep cluster check FILE)"));
  tell(checkBundle());
  const Finding agent = checkAgent(globals);
  if (interrupts() > 0) return kStoppedByUser;  // the agent may not have had its time
  tell(agent);
  return well ? kSucceeded : kNode;
}

}  // namespace lockstep::app::cli
