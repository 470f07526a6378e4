#include "app/deploy/deploy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "app/deploy/stream_files.h"
#include "app/ssh/run_process.h"
#include "app/ssh/sftp.h"
#include "engine/base/shell_text.h"
#include "engine/base/text.h"

namespace lockstep::app {
namespace {

constexpr int kKeptVersions = 2;
constexpr int kLeaseMinutes = 3 * 24 * 60;  // renewed each hour
constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20;
constexpr std::chrono::seconds kScriptLimit{60};
constexpr std::chrono::seconds kStartLimit{30}, kAwaitLimit{30};
constexpr const char* kLocalIdleSeconds = "600";
constexpr std::string_view kReachedAt = "ssh-connection ";

Error onNode(Error error, const DeployOptions& options) {
  error.node = options.node;
  return error;
}

// Runs a script, and takes a status other than 0 as an error.
Result<std::string> mustRun(Host& host, const std::string& script, const Message& what,
                            const DeployOptions& options) {
  ExecOptions exec;
  exec.timeout = kScriptLimit;
  auto run = host.script(script, exec, options.stop);
  if (!run.ok()) return onNode(run.error(), options);
  if (run->exitStatus != 0) {
    Error error = makeError(Code::kFailedPrecondition, "{} failed", what);
    const std::string said = withoutLineEnds(run->errorOutput.substr(0, 2000));
    error.why = said.empty() ? message("status {}", run->exitStatus) : Message(said);
    if (said.find("No space left") != std::string::npos) error.code = Code::kResourceExhausted;
    if (said.find("Permission denied") != std::string::npos) error.code = Code::kPermissionDenied;
    error.next = "fix it on the node, and connect again";
    return onNode(error, options);
  }
  return run->output;
}

// Sets W to the absolute working folder on the node, "" standing for ~/.lockstep.
std::string workdirLines(const std::string& workdir) {
  if (workdir.empty()) return "W=\"$HOME/.lockstep\"\n";
  if (workdir == "~" || workdir.starts_with("~/"))
    return "W=\"$HOME\"" + shellQuote(workdir.substr(1)) + "\n";
  return "W=" + shellQuote(workdir) + "\ncase $W in /*) ;; *) W=\"$HOME/$W\";; esac\n";
}

// A command that prints the KiB that are free where a path is, quoted for the shell. The name of a
// file system may have blanks.
std::string freeKib(const std::string& path) {
  return "df -Pk " + path +
         " 2>/dev/null | sed -n '$s/.* \\([0-9][0-9]*\\)  *[0-9][0-9]*% .*/\\1/p'";
}

struct NodeFacts {
  std::string machine, glibc, workdir;
  std::uint64_t freeBytes = 0;
  bool freeKnown = false;
  bool writable = false;
  bool deployed = false;
  std::string newest;  // version deployed last; "": none
};

// `version` "": any.
Result<NodeFacts> lookAtNode(Host& host, const std::string& version, const DeployOptions& options) {
  std::string script = workdirLines(options.workdir) + "V=\"$W/versions\"\n";
  if (options.copy)
    script +=
        "mkdir -p \"$V\" || exit 1\n"
        "chmod go-w \"$W\" \"$V\" 2>/dev/null\n";
  script +=
      "echo \"workdir $W\"\n"
      "echo \"machine $(uname -m)\"\n"
      "G=$(getconf GNU_LIBC_VERSION 2>/dev/null) && echo \"glibc ${G#glibc }\"\n"
      "P=\"$V\"\n"
      "while [ ! -d \"$P\" ] && [ \"$P\" != / ]; do P=$(dirname \"$P\"); done\n"
      "[ -w \"$P\" ] && echo writable\n"
      "echo \"free $(" +
      freeKib("\"$P\"") +
      ")\"\n"
      "for v in $(ls -1t \"$V\" 2>/dev/null); do\n"
      "  case $v in *[!0-9a-f]*) continue;; esac\n"
      "  [ ${#v} -eq 64 ] && [ -x \"$V/$v/lockstep-agent\" ] && [ -f \"$V/$v/manifest\" ] || "
      "continue\n"
      "  echo \"newest $v\"\n"
      "  break\n"
      "done\n";
  if (!version.empty()) {
    script += "D=\"$V/" + version +
              "\"\n"
              "if [ -x \"$D/lockstep-agent\" ] && [ -f \"$D/manifest\" ]; then echo deployed; " +
              (options.copy ? "touch \"$D\"; " : "") + "fi\n";
  }
  LOCKSTEP_ASSIGN(const std::string output,
                  mustRun(host, script + "exit 0\n", "looking at the node", options));
  NodeFacts facts;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "workdir")
      facts.workdir = value;
    else if (key == "machine")
      facts.machine = value;
    else if (key == "glibc")
      facts.glibc = value;
    else if (key == "writable")
      facts.writable = true;
    else if (key == "deployed")
      facts.deployed = true;
    else if (key == "newest")
      facts.newest = value;
    else if (key == "free") {
      std::uint64_t kib = 0;
      const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), kib);
      facts.freeKnown = fault == std::errc() && end != value.data();
      facts.freeBytes = kib * 1024;
    }
  }
  if (facts.workdir.empty())
    return onNode(makeError(Code::kDataLoss, "the node's shell gives no usable answer"), options);
  return facts;
}

std::pair<int, int> versionNumbers(const std::string& text) {
  int major = 0, minor = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ptr != end && *first.ptr == '.') std::from_chars(first.ptr + 1, end, minor);
  return {major, minor};
}

Status checkNode(const NodeFacts& facts, const Bundle& bundle, const DeployOptions& options) {
  Error error = makeError(Code::kFailedPrecondition, "the agent cannot run on this node");
  if (facts.machine != bundle.machine) {
    error.why = message("its processor is {}, the bundle is for {}", facts.machine, bundle.machine);
    error.next = "make a bundle for this kind of machine";
    return onNode(error, options);
  }
  if (facts.glibc.empty() || versionNumbers(facts.glibc) < versionNumbers(bundle.glibc)) {
    error.why = facts.glibc.empty()
                    ? message("it has no glibc (a musl system?), and {} is needed", bundle.glibc)
                    : message("its glibc is {}, and {} is needed", facts.glibc, bundle.glibc);
    error.next = "use a node with a newer system, or build the bundle on an older one";
    return onNode(error, options);
  }
  return {};
}

Error noSpace(const NodeFacts& facts, const Bundle& bundle, const DeployOptions& options,
              std::uint64_t freeBytes) {
  Error error = makeError(Code::kResourceExhausted,
                          "no space on {} for the agent: {} bytes needed, {} free in {}",
                          options.node.empty() ? "the node" : options.node,
                          bundle.totalBytes() + kSpareBytes, freeBytes, facts.workdir);
  error.next = "free space there, or give the node another workdir";
  return onNode(error, options);
}

std::optional<std::uint64_t> freeNow(Host& host, const NodeFacts& facts,
                                     const DeployOptions& options) {
  DeployOptions quiet = options;
  quiet.stop = {};
  const auto output = mustRun(host, freeKib(shellQuote(facts.workdir)) + "\n", "df", quiet);
  std::uint64_t kib = 0;
  if (!output.ok() ||
      std::from_chars(output->data(), output->data() + output->size(), kib).ec != std::errc())
    return std::nullopt;
  return kib * 1024;
}

Status uploadFiles(SftpClient& sftp, const Bundle& bundle, const std::string& folder,
                   const DeployOptions& options) {
  LOCKSTEP_TRY(sftp.makeFolder(folder, 0755));
  std::set<std::string> made;
  for (const BundleFile& file : bundle.files)
    for (auto slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1))
      if (made.insert(file.path.substr(0, slash)).second)
        LOCKSTEP_TRY(sftp.makeFolder(folder + "/" + file.path.substr(0, slash), 0755));
  DeployProgress progress;
  progress.bytesTotal = bundle.totalBytes();
  if (options.onProgress) options.onProgress(progress);
  const auto onBytes = [&](std::uint64_t bytes) {
    progress.bytesDone += bytes;
    if (options.onProgress) options.onProgress(progress);
  };
  for (const BundleFile& file : bundle.files)
    LOCKSTEP_TRY(
        sftp.upload(bundle.folder + "/" + file.path, folder + "/" + file.path, file.mode, onBytes));
  return sftp.upload(bundle.folder + "/manifest", folder + "/manifest", 0644, onBytes);
}

// The same where the host's files are this machine's.
Status copyFiles(Host& host, const Bundle& bundle, const std::string& folder,
                 const DeployOptions& options) {
  const std::string script = "mkdir -m 0755 " + shellQuote(folder) + " && cp -R " +
                             shellQuote(bundle.folder + "/.") + " " + shellQuote(folder) + "\n";
  return mustRun(host, script, "copying the agent", options).status();
}

Status upload(Host& host, const Bundle& bundle, const std::string& folder,
              const DeployOptions& options) {
  if (host.here()) return copyFiles(host, bundle, folder, options);
  if (host.onlyCommands()) return streamFiles(host, bundle, folder, options);
  LOCKSTEP_ASSIGN(UniqueFd stream, host.openSubsystem("sftp", options.stop));
  LOCKSTEP_ASSIGN(const auto sftp, SftpClient::start(std::move(stream), options.stop));
  return uploadFiles(*sftp, bundle, folder, options);
}

Status verifyFiles(Host& host, const Bundle& bundle, const std::string& folder,
                   const DeployOptions& options) {
  std::string script =
      "command -v sha256sum >/dev/null || { echo 'sha256sum (coreutils) is not "
      "there' >&2; exit 1; }\ncd " +
      shellQuote(folder) + " || exit 1\nsha256sum manifest";
  for (const BundleFile& file : bundle.files) script += " " + file.path;
  LOCKSTEP_ASSIGN(const std::string output,
                  mustRun(host, script + "\n", "checking what was copied", options));
  std::map<std::string, std::string> hashes;
  std::istringstream lines(output);
  for (std::string hash, path; lines >> hash >> path;) hashes[path] = hash;
  const auto compare = [&](const std::string& path, const std::string& expected) -> Status {
    if (hashes[path] == expected) return {};
    Error error = makeError(Code::kDataLoss, "{} arrived damaged", path);
    error.why = message("its SHA-256 is {}, expected {}", hashes[path], expected);
    error.next = "deploy again; if it stays so, make the bundle again and check the node's disk";
    return onNode(error, options);
  };
  LOCKSTEP_TRY(compare("manifest", bundle.version));
  for (const BundleFile& file : bundle.files) LOCKSTEP_TRY(compare(file.path, file.sha256));
  return {};
}

// Removes temporary folders left by lost links (old ones only: another deploy may be under way),
// and all versions but the newest two, those a process here runs from, and those with a lease of
// another host that shares the folder (agent/host/version_lease.h). Renamed before they are
// removed, so that nobody meets half a version.
std::string cleanScript(const std::string& workdir) {
  return "cd " + shellQuote(workdir + "/versions") + " || exit 0\n" +
         "find . -maxdepth 1 -name '.*' -type d -mmin +60 ! -name . -exec rm -rf {} +\n"
         "here=$(pwd -P)\n"
         "space=$(readlink /proc/self/ns/pid 2>/dev/null)\n"
         "space=${space#*[}\n"
         "own=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null).${space%]}.\n"
         "used=$(for e in /proc/[0-9]*/exe; do readlink \"$e\"; done 2>/dev/null)\n"
         "kept=0\n"
         "for v in $(ls -1t); do\n"
         "  case $v in *[!0-9a-f]*) continue;; esac\n"
         "  [ ${#v} -eq 64 ] || continue\n"
         "  case $used in *\"$here/$v/\"*) continue;; esac\n"
         "  rm -f \"$v/leases/$own\"*\n"  // of processes here that were killed
         "  find \"$v/leases\" -type f -mmin +" +
         std::to_string(kLeaseMinutes) +
         " -exec rm -f {} + 2>/dev/null\n"
         "  [ -n \"$(ls -A \"$v/leases\" 2>/dev/null)\" ] && continue\n"
         "  kept=$((kept + 1))\n"
         "  [ $kept -le " +
         std::to_string(kKeptVersions) +
         " ] && continue\n"
         "  mv \"$v\" \".$v.old-$$\" && rm -rf \".$v.old-$$\"\n"
         "done\n"
         "exit 0\n";
}

// One flat JSON object of strings and numbers, as an agent prints it; nothing where it is not one.
// Numbers are given as their text; of escapes, those of ASCII are known.
std::optional<std::map<std::string, std::string>> parseFlatObject(std::string_view text) {
  std::size_t at = 0;
  const auto skip = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) ++at;
  };
  const auto take = [&](char c) {
    skip();
    if (at == text.size() || text[at] != c) return false;
    return ++at, true;
  };
  const auto string = [&]() -> std::optional<std::string> {
    if (!take('"')) return std::nullopt;
    std::string out;
    while (at < text.size() && text[at] != '"') {
      char c = text[at++];
      if (c == '\\' && at < text.size()) {
        c = text[at++];
        if (c == 'n')
          c = '\n';
        else if (c == 't')
          c = '\t';
        else if (c == 'u') {
          unsigned code = 0;
          if (at + 4 > text.size() ||
              std::from_chars(&text[at], &text[at] + 4, code, 16).ptr != &text[at] + 4 ||
              code > 127)
            return std::nullopt;
          at += 4;
          c = static_cast<char>(code);
        } else if (c != '"' && c != '\\' && c != '/') {
          return std::nullopt;
        }
      }
      out += c;
    }
    if (!take('"')) return std::nullopt;
    return out;
  };
  std::map<std::string, std::string> fields;
  if (!take('{')) return std::nullopt;
  if (take('}')) return fields;
  do {
    const auto key = string();
    if (!key || !take(':')) return std::nullopt;
    skip();
    if (at < text.size() && text[at] == '"') {
      const auto value = string();
      if (!value) return std::nullopt;
      fields[*key] = *value;
    } else {
      const std::size_t end = std::min(text.find_first_of(",} \t", at), text.size());
      fields[*key] = std::string(text.substr(at, end - at));
      at = end;
    }
  } while (take(','));
  if (!take('}')) return std::nullopt;
  return fields;
}

// The third word of SSH_CONNECTION, in the line that says it.
std::string reachedAt(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kReachedAt)) continue;
    std::istringstream words(line.substr(kReachedAt.size()));
    std::string client, clientPort, server;
    words >> client >> clientPort >> server;
    if (server.starts_with("::ffff:")) server.erase(0, 7);
    return server.substr(0, server.find('%'));
  }
  return {};
}

std::string serveFlags(const DeployOptions& options) {
  std::string out = options.allowRoot ? "--allow-root" : "";
  if (options.leavesIdle) out += std::string(" --idle-exit ") + kLocalIdleSeconds;
  return out;
}

Result<AgentInfo> parseAnnouncement(const std::string& output, const std::string& errorOutput,
                                    int exitStatus, const DeployOptions& options) {
  // The last line that is an object: a login shell may have printed something before.
  std::istringstream lines(output);
  std::string object;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("{")) object = line;
  const auto fields = parseFlatObject(object);
  if (exitStatus == 0 && fields && fields->count("socket") && fields->count("version")) {
    AgentInfo info;
    info.socket = fields->at("socket");
    info.version = fields->at("version");
    if (const auto pid = fields->find("pid"); pid != fields->end())
      std::from_chars(pid->second.data(), pid->second.data() + pid->second.size(), info.pid);
    info.reachedAt = reachedAt(output);
    if (!info.socket.empty()) return info;
  }
  Error error = makeError(Code::kFailedPrecondition, "the agent does not start");
  const std::string& said = errorOutput.empty() ? output : errorOutput;
  error.why = message("status {}: {}", exitStatus, withoutLineEnds(said.substr(0, 2000)));
  error.next = "fix what it names on the node, and connect again";
  return onNode(error, options);
}

}  // namespace

Result<Deployed> deploy(Host& host, const Bundle& bundle, const DeployOptions& options) {
  LOCKSTEP_ASSIGN(const NodeFacts facts, lookAtNode(host, bundle.version, options));
  LOCKSTEP_TRY(checkNode(facts, bundle, options));
  Deployed deployed;
  deployed.workdir = facts.workdir;
  const std::string versions = facts.workdir + "/versions";
  deployed.folder = versions + "/" + bundle.version;
  if (facts.deployed) {
    if (options.onProgress) options.onProgress({});
    return deployed;
  }
  if (facts.freeKnown && facts.freeBytes < bundle.totalBytes() + kSpareBytes)
    return noSpace(facts, bundle, options, facts.freeBytes);
  if (!options.copy) {
    Error error = makeError(Code::kNotFound, "{}", kNoAgentYet);
    error.next = "deploy it: lockstep cluster deploy, or Connect on the cluster's page";
    if (!facts.writable) {
      error = makeError(Code::kPermissionDenied, "the agent cannot be copied to {}", facts.workdir);
      error.why = "this account may not write there";
      error.next = "give the node another workdir";
    }
    return onNode(error, options);
  }

  std::random_device device;
  const std::string temporary =
      fmt::format("{}/.{}.tmp-{:08x}{:08x}", versions, bundle.version, device(), device());
  Status status = upload(host, bundle, temporary, options);
  if (status.ok()) status = verifyFiles(host, bundle, temporary, options);
  if (status.ok()) {
    status =
        mustRun(host, "mv -T " + shellQuote(temporary) + " " + shellQuote(deployed.folder) + "\n",
                "renaming what was copied", options)
            .status();
    deployed.uploaded = status.ok();
    if (!status.ok()) {
      // Another deploy of the same version was first: its folder is as good.
      auto again = lookAtNode(host, bundle.version, options);
      if (again.ok() && again->deployed) {
        status = {};
        (void)mustRun(host, "rm -rf " + shellQuote(temporary) + "\n", "cleaning", options);
      }
    }
  }
  if (!status.ok()) {
    // For a full disk the server says only "Failure": the free space tells.
    std::optional<std::uint64_t> freeBytes;
    if (status.code() == Code::kUnavailable) freeBytes = freeNow(host, facts, options);
    DeployOptions cleaning = options;
    cleaning.stop = {};
    (void)mustRun(host, "rm -rf " + shellQuote(temporary) + "\n", "cleaning", cleaning);
    if (freeBytes && *freeBytes < kSpareBytes) return noSpace(facts, bundle, options, *freeBytes);
    return onNode(status.error(), options);
  }
  (void)mustRun(host, cleanScript(facts.workdir), "removing old versions", options);
  return deployed;
}

Result<Deployed> findDeployed(Host& host, const DeployOptions& options) {
  DeployOptions looking = options;
  looking.copy = false;
  LOCKSTEP_ASSIGN(const NodeFacts facts, lookAtNode(host, "", looking));
  if (facts.newest.empty()) return onNode(makeError(Code::kNotFound, "{}", kNoAgentYet), options);
  if (options.onProgress) options.onProgress({});
  return Deployed{facts.workdir, facts.workdir + "/versions/" + facts.newest, false};
}

Result<AgentInfo> startAgent(Host& host, const Deployed& deployed, const DeployOptions& options) {
  const std::string script =
      "echo \"" + std::string(kReachedAt) + "$SSH_CONNECTION\"\n" +
      agentStartScript(deployed.folder, deployed.workdir, serveFlags(options), options.start);
  ExecOptions exec;
  exec.timeout = kStartLimit;
  auto run = host.script(script, exec, options.stop);
  if (!run.ok()) return onNode(run.error(), options);
  if (auto error = systemdError(run->exitStatus, run->errorOutput)) return onNode(*error, options);
  return parseAnnouncement(run->output, run->errorOutput, run->exitStatus, options);
}

Result<AgentInfo> awaitAgent(Host& host, const Deployed& deployed, const DeployOptions& options) {
  const std::string script = "A=" + shellQuote(deployed.folder + "/lockstep-agent") +
                             "\nW=" + shellQuote(deployed.workdir) + "\nfor half in $(seq " +
                             std::to_string(2 * kAwaitLimit.count()) +
                             "); do\n"
                             "  said=$(\"$A\" serve --workdir \"$W\" --find " +
                             (options.allowRoot ? "--allow-root " : "") +
                             "</dev/null) && echo \"$said\" && exit\n"
                             "  sleep 0.5\n"
                             "done\n"
                             "echo \"no agent serves $W\" >&2\nexit 1\n";
  ExecOptions exec;
  exec.timeout = kAwaitLimit + kStartLimit;
  auto run = host.script(script, exec, options.stop);
  if (!run.ok()) return onNode(run.error(), options);
  return parseAnnouncement(run->output, run->errorOutput, run->exitStatus, options);
}

Result<AgentInfo> startLocalAgent(const std::string& executable, const DeployOptions& options) {
  std::string workdir = options.workdir;
  if (workdir.empty() || workdir == "~" || workdir.starts_with("~/")) {
    const char* home = ::getenv("HOME");
    if (!home || !*home)
      return onNode(makeError(Code::kFailedPrecondition, "HOME is not set"), options);
    workdir = home + (workdir.empty() ? "/.lockstep" : workdir.substr(1));
  }
  std::vector<std::string> words = {executable, "serve",       "--workdir",      workdir,
                                    "--detach", "--idle-exit", kLocalIdleSeconds};
  if (options.allowRoot) words.emplace_back("--allow-root");
  // Ctrl-C at a terminal is for whoever starts it.
  auto run = runProcess(words, kStartLimit, options.stop, {.ownGroup = true});
  if (!run.ok()) return onNode(run.error(), options);
  return parseAnnouncement(run->output, run->errorOutput, run->exitStatus, options);
}

std::string bridgeCommand(const Deployed& deployed, const std::string& socket) {
  return "exec " + shellQuote(deployed.folder + "/lockstep-agent") + " bridge --socket " +
         shellQuote(socket);
}

}  // namespace lockstep::app
