#include "agent/prepare.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "agent/metrics.h"
#include "agent/peers.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/plan/plan.h"

namespace lockstep::agent {
namespace {

constexpr std::int64_t kSpareBytes = std::int64_t{32} << 20;

std::string expectedHash(const spec::v1::RunSpec& spec, const std::string& name) {
  const auto& data = spec.data();
  if (name == "train.images") return data.train().images_sha256();
  if (name == "train.labels") return data.train().labels_sha256();
  if (name == "evaluate.images") return data.evaluate().images_sha256();
  if (name == "evaluate.labels") return data.evaluate().labels_sha256();
  return {};
}

// The first bytes of an IDX file, plain or gzip.
Status checkMagic(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    Error error = systemError(errno, "cannot open the data file " + path);
    error.next = "put the file there, or correct its path in the run or in the node's `data`";
    return error;
  }
  std::array<unsigned char, 4> head{};
  const ssize_t count = read(fd, head.data(), head.size());
  close(fd);
  const bool gzip = count >= 2 && head[0] == 0x1f && head[1] == 0x8b;
  const bool idx = count == 4 && head[0] == 0 && head[1] == 0 && head[2] == 8 && head[3] >= 1;
  if (gzip || idx) return {};
  Error error = makeError(Code::kDataLoss, "{} is neither an IDX file nor gzip", path);
  error.why = fmt::format("it begins with {:02x} {:02x} {:02x} {:02x}", head[0], head[1], head[2], head[3]);
  error.next = "replace it by the original file";
  return error;
}

}  // namespace

void HashCache::load() {
  if (loaded_) return;
  loaded_ = true;
  auto text = readFile(path_, std::size_t{4} << 20);
  if (!text.ok()) return;
  std::size_t at = 0;
  while (at < text->size()) {
    std::size_t end = text->find('\n', at);
    if (end == std::string::npos) break;
    if (end - at > 65) known_[text->substr(at + 65, end - at - 65)] = text->substr(at, 64);
    at = end + 1;
  }
}

Result<std::string> HashCache::hash(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return systemError(errno, "cannot open the data file " + file);
  const std::string key = fmt::format("{}.{:09} {} {}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                                      info.st_size, file);
  {
    std::lock_guard lock(mutex_);
    load();
    if (auto at = known_.find(key); at != known_.end()) return at->second;
  }
  LOCKSTEP_ASSIGN(std::string hash, sha256File(file));
  std::lock_guard lock(mutex_);
  if (known_.size() > 1000) known_.clear();
  known_[key] = hash;
  std::string text;
  for (const auto& [name, value] : known_) text += value + " " + name + "\n";
  (void)writeFileAtomically(path_, text, 0600);
  return hash;
}

std::map<std::string, std::string> dataPaths(
    const spec::v1::RunSpec& spec, const google::protobuf::Map<std::string, std::string>& given) {
  std::map<std::string, std::string> out;
  const auto& data = spec.data();
  out["train.images"] = data.train().images();
  out["train.labels"] = data.train().labels();
  out["evaluate.images"] = data.evaluate().images();
  out["evaluate.labels"] = data.evaluate().labels();
  for (const auto& [name, path] : given) out[name] = path;
  std::erase_if(out, [](const auto& one) { return one.second.empty(); });
  return out;
}

Status checkPrepare(const node::v1::PrepareRequest& request, const Workdir& workdir,
                    HashCache& cache, std::map<std::string, std::string>& hashes) {
  if (!isPlainName(request.run())) return invalidArgument("\"{}\" is no run id", request.run());
  if (!isPlainName(request.node())) return invalidArgument("\"{}\" is no node name", request.node());
  auto parsed = plan::parse(request.plan());
  if (!parsed.ok()) return parsed.status();
  if (request.plan_hash() != sha256Hex(request.plan()) && request.plan_hash() != plan::hash(*parsed)) {
    Error error = invalidArgument("the plan is not the one that was announced");
    error.why = fmt::format("its hash is {}, announced was {}", plan::hash(*parsed), request.plan_hash());
    error.next = "launch again from one version of the program";
    return error;
  }
  const int world = parsed->mesh.size();
  if (request.ranks().empty()) return invalidArgument("no rank of the run is on node {}", request.node());
  for (int rank : request.ranks())
    if (rank < 0 || rank >= world)
      return invalidArgument("rank {} is not in the plan, which has {}", rank, world);
  const bool several = request.ranks_size() < world;
  if (several && request.comm() != "gloo") {
    Error error = invalidArgument("comm \"{}\" reaches the ranks of one node only", request.comm());
    error.next = "use comm: gloo for a cluster of several nodes";
    return error;
  }
  if (request.comm() == "in-process" && world > 1) {
    Error error = invalidArgument("comm \"in-process\" is for one rank: ranks are processes here");
    error.next = "use comm: shm";
    return error;
  }
  if (request.comm() != "gloo" && request.comm() != "shm" && request.comm() != "in-process")
    return invalidArgument("comm \"{}\" is not known: shm, gloo, in-process are", request.comm());
  if (several) {
    const std::vector<std::string> nodes = workerNodes(request.cluster());
    if (nodes.empty() || (nodes.front() == request.node()) != request.coordinator())
      return invalidArgument("the first node of the cluster coordinates, and no other");
    if (request.tls().key_pem().empty())
      return invalidArgument("a run of several nodes needs keys made for it");
  } else if (!request.coordinator()) {
    return invalidArgument("the only node of a run coordinates it");
  }

  for (const auto& [name, path] : dataPaths(request.spec(), request.data_paths())) {
    LOCKSTEP_TRY(checkMagic(path));
    LOCKSTEP_ASSIGN(hashes[name], cache.hash(path));
    const std::string expected = expectedHash(request.spec(), name);
    if (!expected.empty() && expected != hashes[name]) {
      Error error = makeError(Code::kFailedPrecondition, "the data file {} is another one", path);
      error.why = fmt::format("its SHA-256 is {}, the run expects {}", hashes[name], expected);
      error.next = "copy the right file to this node";
      return error;
    }
  }

  const std::int64_t free = diskFree(workdir.path);
  const bool checkpoints = !request.spec().training().checkpoint().disabled();
  const std::int64_t keep = std::max(2, request.spec().training().checkpoint().keep());
  const std::int64_t needed = kSpareBytes + (checkpoints ? (keep + 1) * parsed->stateBytes : 0);
  if (free >= 0 && free < needed) {
    Error error = makeError(Code::kResourceExhausted, "no space for the run in {}", workdir.path);
    error.why = fmt::format("{} MiB are free, {} MiB are needed", free >> 20, needed >> 20);
    error.next = "free space there, or choose another workdir";
    return error;
  }
  return {};
}

}  // namespace lockstep::agent
