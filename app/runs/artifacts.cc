#include "app/runs/artifacts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/core/idle_timeout.h"
#include "app/core/rpc.h"
#include "app/runs/node_records.h"
#include "app/specs/spec_text.h"
#include "engine/base/below.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/part_file.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"
#include "engine/specs/error_info.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kSilence{30};
constexpr std::chrono::milliseconds kAgain{200}, kTell{100};
constexpr std::int64_t kPart = std::int64_t{8} << 20;
constexpr std::size_t kMostFiles = 200'000;  // of a node, which lists at most half as many
constexpr unsigned kMostAtOnce = 8;          // nodes
constexpr const char* kNotListed = "cannot list the program's files";
constexpr const char* kNotFetched = "cannot fetch a file of the program";

struct Listed {
  std::string path;
  std::int64_t bytes = 0, modified = 0;
};

// Problems and progress of all nodes.
class Log {
 public:
  Log(const ArtifactsObserver& observer) : observer_(observer) {}
  void expect(std::int64_t bytes) { total_ = bytes; }
  void moved(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < kTell && done_ < total_) return;
    told_ = now;
    if (observer_.onBytes) observer_.onBytes(done_, total_);
  }
  void problem(Message what) {
    const std::lock_guard lock(mutex_);
    add(std::move(what));
  }
  // A problem with something that the node may still have.
  void missing(const std::string& node, Message what) {
    const std::lock_guard lock(mutex_);
    add(std::move(what));
    out_.missing.insert(node);
  }
  void fetched(ArtifactFile file) {
    const std::lock_guard lock(mutex_);
    ++out_.files;
    out_.bytes += file.bytes;
    if (observer_.onFile) observer_.onFile(file);
    files_.push_back(std::move(file));
  }
  Artifacts& result() { return out_; }
  const std::vector<ArtifactFile>& files() const { return files_; }

 private:
  // Of very many problems the first.
  void add(Message what) {
    constexpr std::size_t kMost = 1000;
    if (out_.problems.size() < kMost) out_.problems.push_back(std::move(what));
  }

  const ArtifactsObserver& observer_;
  std::mutex mutex_;
  Artifacts out_;
  std::vector<ArtifactFile> files_;
  std::int64_t done_ = 0, total_ = 0;
  std::chrono::steady_clock::time_point told_{};
};

// Sizes that a node tells; of too much the largest number.
std::int64_t sumOf(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? std::numeric_limits<std::int64_t>::max() : out;
}

// The files of one node.
class NodeFiles {
 public:
  NodeFiles(const std::string& run, const RunNode& node, Log& log)
      : run_(run), node_(node), log_(log) {}

  const std::string& node() const { return node_.name; }
  const std::vector<Listed>& listed() const { return listed_; }
  std::int64_t bytes() const {
    std::int64_t out = 0;
    for (const Listed& file : listed_) out = sumOf(out, file.bytes);
    return out;
  }

  // What cannot be fetched is a problem, as is a node that does not answer.
  void list(const std::stop_token& stop) {
    IdleTimeout timeout(stop, kSilence);
    Status listed = connect(timeout.stop());
    if (listed.ok()) listed = readList(timeout);
    if (listed.ok() || stop.stop_requested()) return;
    listed_.clear();
    log_.missing(node_.name, withNode(timeout.ended() ? silent(kNotListed) : listed.error()));
  }

  // Into the folder, which is the node's own; `part` is for the file that is being written.
  void fetch(int folder, int partFolder, const std::string& part, const std::stop_token& stop) {
    for (std::size_t at = 0; at < listed_.size(); ++at) {
      const Listed& file = listed_[at];
      if (stop.stop_requested()) return;
      IdleTimeout timeout(stop, kSilence);
      auto sha256 = fetchFile(file, folder, partFolder, part, timeout);
      if (sha256.ok()) {
        log_.fetched({node_.name, file.path, file.bytes, std::move(*sha256)});
        continue;
      }
      unlinkat(partFolder, part.c_str(), 0);
      if (stop.stop_requested()) return;
      Error error = timeout.ended() ? silent(kNotFetched) : sha256.error();
      log_.missing(node_.name, message("{}: {}", validUtf8(file.path), withNode(error)));
      if (!timeout.ended() && error.code != Code::kResourceExhausted) continue;
      if (const std::size_t more = listed_.size() - at - 1; more > 0)
        log_.missing(node_.name,
                     more == 1
                         ? message("another file of node {} was not fetched", node_.name)
                         : message("{} more files of node {} were not fetched", more, node_.name));
      return;
    }
  }

 private:
  Message withNode(Error error) const {
    if (error.node.empty()) error.node = node_.name;
    return error.message();
  }
  Error silent(const char* what) const {
    return rpcError({grpc::StatusCode::DEADLINE_EXCEEDED, {}}, what, node_.name);
  }

  Status connect(const std::stop_token& stop) {
    LOCKSTEP_ASSIGN(const RunSupervisor supervisor, supervisorOf(run_, node_, stop));
    LOCKSTEP_TRY(supervisor.checkProtocol(node_));
    LOCKSTEP_TRY(specs::checkFeature("the run's supervisor", supervisor.speaks, specs::kArtifacts));
    stub_ = node::v1::Supervisor::NewStub(supervisor.channel);
    return {};
  }

  Status readList(IdleTimeout& timeout) {
    grpc::ClientContext context;
    const CancelOnStop cancel(context, timeout.stop());
    const auto reader = stub_->ListArtifacts(&context, {});
    std::size_t told = 0;
    for (node::v1::ListArtifactsReply reply; reader->Read(&reply);) {
      timeout.moved();
      told += static_cast<std::size_t>(reply.files_size());
      for (const node::v1::Artifact& file : reply.files()) note(file);
      if (told > kMostFiles)
        return makeError(Code::kResourceExhausted, "the node lists more than {} files", kMostFiles);
    }
    return rpcStatus(reader->Finish(), kNotListed, node_.name);
  }

  void note(const node::v1::Artifact& file) {
    const Message why = whyLeftOut(file);
    if (why.empty())
      listed_.push_back({file.path(), file.bytes(), file.modified_ns()});
    else
      log_.problem(message("{} on node {} is left out: {}",
                           validUtf8(std::string_view(file.path()).substr(0, 4096)), node_.name,
                           why));
  }

  static timespec timeOf(const Listed& file) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    return {file.modified / kSecond, file.modified % kSecond};
  }

  // Whether the file is here already.
  static bool isHere(int folder, const std::string& name, const Listed& file) {
    struct stat info {};
    const timespec time = timeOf(file);
    return fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(info.st_mode) && info.st_size == file.bytes &&
           info.st_mtim.tv_sec == time.tv_sec && info.st_mtim.tv_nsec == time.tv_nsec;
  }

  // Returns its SHA-256.
  Result<std::string> fetchFile(const Listed& file, int folder, int partFolder,
                                const std::string& part, IdleTimeout& timeout) {
    const std::string name(partsOf(file.path).back());
    LOCKSTEP_ASSIGN(const UniqueFd parent, openFolderOf(folder, file.path));
    if (isHere(parent.get(), name, file)) {
      log_.moved(file.bytes);
      return sha256File(fmt::format("/proc/self/fd/{}/{}", parent.get(), name));
    }
    unlinkat(partFolder, part.c_str(), 0);
    const UniqueFd out(openat(partFolder, part.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out) return systemError(errno, message("cannot create {}", validUtf8(name)));
    Sha256 hash;
    for (std::int64_t at = 0; at < file.bytes;) {
      LOCKSTEP_ASSIGN(const std::string bytes, fetchPart(file, at, timeout));
      hash.update(std::string_view(bytes));
      LOCKSTEP_TRY(writeAll(out.get(), bytes, name));
      at += static_cast<std::int64_t>(bytes.size());
      log_.moved(static_cast<std::int64_t>(bytes.size()));
    }
    const timespec times[2] = {timeOf(file), timeOf(file)};
    if (futimens(out.get(), times) != 0 || fsync(out.get()) != 0 ||
        renameat(partFolder, part.c_str(), parent.get(), name.c_str()) != 0)
      return systemError(errno, message("cannot write {}", validUtf8(name)));
    return hash.hex();
  }

  static Status writeAll(int fd, std::string_view bytes, const std::string& name) {
    while (!bytes.empty()) {
      const ssize_t count = write(fd, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return systemError(errno, message("cannot write {}", validUtf8(name)));
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }

  // Asks again after a connection was lost.
  Result<std::string> fetchPart(const Listed& file, std::int64_t at, IdleTimeout& timeout) {
    for (;;) {
      auto part = askPart(file, at, timeout);
      if (part.ok() || part.error().code != Code::kUnavailable || timeout.ended()) return part;
      if (!sleepFor(kAgain, timeout.stop())) return part;
      (void)connect(timeout.stop());
    }
  }

  Result<std::string> askPart(const Listed& file, std::int64_t at, IdleTimeout& timeout) {
    node::v1::FetchArtifactRequest request;
    request.set_path(file.path);
    request.set_offset(at);
    request.set_bytes(std::min(kPart, file.bytes - at));
    request.set_modified_ns(file.modified);
    grpc::ClientContext context;
    const CancelOnStop cancel(context, timeout.stop());
    const auto reader = stub_->FetchArtifact(&context, request);
    std::string out, expected;
    for (node::v1::FetchChunk chunk; reader->Read(&chunk);) {
      timeout.moved();
      out += chunk.data();
      if (static_cast<std::int64_t>(out.size()) > request.bytes()) context.TryCancel();
      if (!chunk.sha256().empty()) expected = chunk.sha256();
    }
    const bool isWhole = static_cast<std::int64_t>(out.size()) == request.bytes();
    LOCKSTEP_TRY(rpcStatus(reader->Finish(), kNotFetched, node_.name));
    if (isWhole && sha256Hex(out) == expected) return out;
    return makeError(Code::kDataLoss, "the file was damaged on its way from {}", node_.name);
  }

  const std::string run_;
  const RunNode node_;
  Log& log_;
  std::unique_ptr<node::v1::Supervisor::Stub> stub_;
  std::vector<Listed> listed_;
};

using AllFiles = std::vector<std::unique_ptr<NodeFiles>>;

// Calls `work` for every node, some at once.
void onEach(AllFiles& nodes, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::min<std::size_t>(kMostAtOnce, nodes.size()); ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < nodes.size(); at = next++) work(at);
    });
}

Error tooLarge(const AllFiles& nodes, std::int64_t total, std::int64_t most) {
  constexpr std::size_t kShown = 3;
  struct Large {
    std::int64_t bytes;
    std::string text;
  };
  std::vector<Large> all;
  for (const auto& node : nodes)
    for (const Listed& file : node->listed())
      all.push_back({file.bytes, fmt::format("{} on {} has {} bytes", validUtf8(file.path),
                                             node->node(), file.bytes)});
  std::sort(all.begin(), all.end(),
            [](const Large& a, const Large& b) { return a.bytes > b.bytes; });
  all.resize(std::min(all.size(), kShown));
  std::vector<std::string> shown;
  for (const Large& one : all) shown.push_back(one.text);
  Error error = makeError(Code::kResourceExhausted,
                          "the program's files have {} bytes, more than the {} that may be fetched",
                          total, most);
  error.why = message("the largest: {}", fmt::format("{}", fmt::join(shown, ", ")));
  error.next =
      "narrow workload.artifacts.collect or raise max_bytes; for this run: lockstep artifacts RUN "
      "--max-bytes BYTES";
  return error;
}

using Sums = std::map<std::string, std::string>;  // path below the run's folder → SHA-256

// As sha256sum writes lines; one begins with a backslash where the name has one, or a line end.
std::string sumsText(const Sums& sums) {
  std::string out;
  for (const auto& [path, sha256] : sums) {
    std::string shown;
    for (const char c : path)
      shown += c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\\' ? "\\\\" : std::string(1, c);
    out += fmt::format("{}{}  {}\n", shown == path ? "" : "\\", sha256, shown);
  }
  return out;
}

Sums sumsIn(std::string_view text) {
  constexpr std::size_t kHash = 64, kName = kHash + 2;
  Sums out;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool isEscaped = line.starts_with('\\');
    if (isEscaped) line.remove_prefix(1);
    if (line.size() <= kName) continue;
    std::string path;
    for (std::size_t i = kName; i < line.size(); ++i) {
      const bool isPair = isEscaped && line[i] == '\\' && i + 1 < line.size();
      if (isPair) ++i;
      path += isPair && line[i] == 'n' ? '\n' : isPair && line[i] == 'r' ? '\r' : line[i];
    }
    out[path] = line.substr(0, kHash);
  }
  return out;
}

// What was fetched before keeps its line as long as it is here: its node may have gone.
Status writeSums(const std::string& folder, const std::vector<ArtifactFile>& files) {
  Sums sums;
  for (const ArtifactFile& file : files)
    sums[fmt::format("artifacts/{}/{}", file.node, file.path)] = file.sha256;
  const std::string to = folder + "/SHA256SUMS";
  if (const auto before = readFile(to); before.ok())
    for (const auto& [path, sha256] : sumsIn(*before))
      if (access((folder + "/" + path).c_str(), F_OK) == 0) sums.try_emplace(path, sha256);
  return writeFileAtomically(to, sumsText(sums), 0600);
}

Result<UniqueFd> openFolder(const std::string& path) {
  LOCKSTEP_TRY(makeFolders(path, 0700));
  UniqueFd out(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!out) return systemError(errno, message("cannot open {}", path));
  return out;
}

Status fetchAll(AllFiles& nodes, const std::string& run, const Home& home,
                const std::stop_token& stop, Log& log) {
  LOCKSTEP_ASSIGN(const UniqueFd own, openFolder(home.runFolder(run)));
  const UniqueFd lock(openat(own.get(), ".fetching", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || !holdPart(lock.get()))
    return makeError(Code::kUnavailable, "another program fetches the files of run {}", run);
  LOCKSTEP_ASSIGN(const UniqueFd folder, openFolder(home.artifactsFolder(run)));
  onEach(nodes, [&](std::size_t at) {
    NodeFiles& node = *nodes[at];
    if (node.listed().empty()) return;
    auto target = openFolderOf(folder.get(), node.node() + "/x");
    if (target.ok())
      node.fetch(target->get(), own.get(), fmt::format(".part-{}", at), stop);
    else
      log.missing(node.node(), target.error().message());
  });
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the fetching was cancelled");
  return writeSums(home.runFolder(run), log.files());
}

}  // namespace

Message whyLeftOut(const node::v1::Artifact& file) {
  Message why = specs::fromText(file.problem());
  if (why.empty()) why = whyNotBelow(file.path());
  if (why.empty() && file.bytes() < 0) why = "its size is below 0";
  return why;
}

Result<Artifacts> fetchArtifacts(const std::string& run, const std::vector<RunNode>& nodes,
                                 std::int64_t maxBytes, const Home& home,
                                 const ArtifactsObserver& observer, const std::stop_token& stop) {
  Log log(observer);
  AllFiles all;
  for (const RunNode& node : nodes)
    if (whyNotBelow(node.name).empty() && node.name.find('/') == std::string::npos)
      all.push_back(std::make_unique<NodeFiles>(run, node, log));
  onEach(all, [&](std::size_t at) { all[at]->list(stop); });
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the fetching was cancelled");
  std::int64_t total = 0;
  for (const auto& node : all) total = sumOf(total, node->bytes());
  if (total > maxBytes) return tooLarge(all, total, maxBytes);
  log.expect(total);
  LOCKSTEP_TRY(fetchAll(all, run, home, stop, log));
  log.result().folder = home.artifactsFolder(run);
  return std::move(log.result());
}

KnownArtifacts artifactsIn(const RunStore& store) {
  const std::string text = store.about(kAboutArtifacts);
  KnownArtifacts out;
  if (text.empty()) return out;
  out.wanted = true;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("folder")) return out;
  const auto number = [&](const char* name) {
    const auto at = json.find(name);
    return at != json.end() && at->is_number_integer() ? at->get<std::int64_t>() : 0;
  };
  const auto textOf = [](const nlohmann::json& one) {
    return one.is_string() ? one.get<std::string>() : std::string();
  };
  Artifacts& found = out.found.emplace();
  found.folder = textOf(json["folder"]);
  found.files = number("files");
  found.bytes = number("bytes");
  if (const auto at = json.find("problems"); at != json.end() && at->is_array())
    for (const auto& one : *at) found.problems.emplace_back(textOf(one));
  return out;
}

Status noteArtifactsWanted(RunStore& store) {
  return store.setAbout({{kAboutArtifacts, std::string(kArtifactsWanted)}});
}

Status noteArtifacts(RunStore& store, const Artifacts& artifacts) {
  constexpr std::size_t kMost = 50;  // problems
  nlohmann::json problems = nlohmann::json::array();
  for (const Message& one : artifacts.problems)
    if (problems.size() < kMost) problems.push_back(one.text());
  const nlohmann::json json = {{"folder", artifacts.folder},
                               {"files", artifacts.files},
                               {"bytes", artifacts.bytes},
                               {"problems", problems},
                               {"missing", artifacts.missing}};
  return store.setAbout(
      {{kAboutArtifacts, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}});
}

Result<std::int64_t> artifactsLimit(const RunDocuments& documents) {
  LOCKSTEP_ASSIGN(const RunSpecFile file, completeRunSpec(documents.specResolved, {}));
  return file.spec->workload().artifacts().max_bytes();
}

bool lacksArtifacts(const RunStore& store, const RunRow& row) {
  if (!isFinal(row.phase) || row.startedNs == 0) return false;
  const KnownArtifacts known = artifactsIn(store);
  return known.wanted && !known.found;
}

Result<Artifacts> fetchWanted(const std::string& run, const History& history, RunStore& store,
                              const std::vector<RunNode>& nodes, const Home& home,
                              const ArtifactsObserver& observer, const std::stop_token& stop) {
  Result<Artifacts> fetched = [&]() -> Result<Artifacts> {
    LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
    LOCKSTEP_ASSIGN(const std::int64_t most, artifactsLimit(documents));
    return fetchArtifacts(run, nodes, most, home, observer, stop);
  }();
  const Code code = fetched.status().code();
  if (code == Code::kUnavailable || code == Code::kCancelled) return fetched;
  Artifacts noted;
  if (fetched.ok())
    noted = *fetched;
  else
    noted.problems = {fetched.error().message()};
  if (!fetched.ok())
    for (const RunNode& node : nodes) noted.missing.insert(node.name);
  if (Status kept = noteArtifacts(store, noted); !kept.ok() && fetched.ok()) return kept.error();
  return fetched;
}

}  // namespace lockstep::app
