#include "app/runs/staging.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <set>
#include <thread>

#include "app/core/rpc.h"
#include "app/runs/for_all.h"
#include "engine/base/hash.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::app {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPiece = std::size_t{256} << 10;
// Sending may take so long, and a millisecond more for so many bytes: 0.1 MB/s.
constexpr milliseconds kSendLimit{60000};
constexpr std::int64_t kSendBytes = 100;

Error cancelledError() { return makeError(Code::kCancelled, "the launch was cancelled"); }

// A file here, open.
class LocalFile {
 public:
  LocalFile() = default;
  ~LocalFile() {
    if (fd_ >= 0) close(fd_);
  }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;

  Status open(const std::string& path) {
    path_ = path;
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info {};
    if (fd_ < 0 || fstat(fd_, &info) != 0) return failure(errno);
    if (!S_ISREG(info.st_mode)) {
      Error error = failure(EINVAL);
      error.why = "it is not a file";
      return error;
    }
    bytes_ = info.st_size;
    version_ = fmt::format("{}.{:09} {}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size);
    return {};
  }
  std::int64_t bytes() const { return bytes_; }
  const std::string& version() const { return version_; }  // another one once it is written to
  // At most kPiece bytes; none at the end.
  Status read(std::string& piece) {
    piece.resize(kPiece);
    ssize_t count = -1;
    do count = ::read(fd_, piece.data(), piece.size());
    while (count < 0 && errno == EINTR);
    if (count < 0) return failure(errno);
    piece.resize(static_cast<std::size_t>(count));
    return {};
  }

 private:
  Error failure(int errnum) const {
    Error error =
        systemError(errnum, message("cannot read the data file {} on this machine", path_));
    error.next =
        "correct its path in the run, or leave data.copy_to_nodes out and put it on the nodes";
    return error;
  }

  std::string path_, version_;
  int fd_ = -1;
  std::int64_t bytes_ = 0;
};

Error changed(const std::string& path) {
  Error error = makeError(Code::kFailedPrecondition,
                          "the data file {} has changed since the launch began", path);
  error.next = "check whether something writes to it, and launch again";
  return error;
}

// One content; several names of a run may have it.
struct Content {
  std::string path;  // here
  std::string sha256;
  std::int64_t bytes = -1;  // < 0: not known
  std::string version;      // of the file that was hashed; "" before
};

Status hashHere(Content& content, const TellData& tell, const std::stop_token& stop) {
  LocalFile file;
  LOCKSTEP_TRY(file.open(content.path));
  Sha256 hash;
  DataActivity activity{DataActivity::Kind::kHashing, "", content.path, 0, file.bytes()};
  for (std::string piece;;) {
    if (stop.stop_requested()) return cancelledError();
    LOCKSTEP_TRY(file.read(piece));
    if (piece.empty()) break;
    hash.update(piece);
    activity.bytesDone += std::ssize(piece);
    tell(activity);
  }
  activity.kind = DataActivity::Kind::kNone;
  tell(activity);
  const std::string found = hash.hex();
  if (!content.sha256.empty() && content.sha256 != found) {
    Error error =
        makeError(Code::kFailedPrecondition, "the data file {} is not the run's", content.path);
    error.why = message("its SHA-256 is {}, the run expects {}", found, content.sha256);
    error.next = "correct the file on this machine, or its hash in the run";
    return error;
  }
  content.sha256 = found;
  content.bytes = file.bytes();
  content.version = file.version();
  return {};
}

// A name that is one on every node: letters, digits, '.', '_' and '-' of the file's own.
std::string nameOf(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
          c == '-'))
      c = '_';
  if (name.size() > 128) name = name.substr(name.size() - 128);
  if (name.empty() || name.front() == '.') name = "data" + name.substr(0, 120);
  return name;
}

Result<std::string> find(NodeAccess& node, const Content& content, const std::string& path,
                         const TellData& tell, const std::stop_token& stop) {
  node::v1::FindFileRequest request;
  request.set_sha256(content.sha256);
  if (content.bytes >= 0) request.set_bytes(content.bytes);
  request.set_path(path);
  LOCKSTEP_ASSIGN(
      const node::v1::FindFileReply reply,
      callFindFile(node, request, message("cannot look for the data file {}", content.path), tell,
                   stop));
  return reply.path();
}

Result<std::string> send(NodeAccess& node, const Content& content,
                         const std::function<void(std::int64_t)>& moved,
                         const std::stop_token& stop) {
  LocalFile file;
  LOCKSTEP_TRY(file.open(content.path));
  if (file.version() != content.version) return changed(content.path);
  LOCKSTEP_ASSIGN(const auto channel, node.agent());
  const auto stub = node::v1::Agent::NewStub(channel);
  grpc::ClientContext context;
  setLimit(context, kSendLimit + milliseconds(content.bytes / kSendBytes));
  const CancelOnStop cancel(context, stop);
  node::v1::StageFileReply reply;
  const auto writer = stub->StageFile(&context, &reply);
  node::v1::StageFileRequest piece;
  piece.set_sha256(content.sha256);
  piece.set_bytes(content.bytes);
  piece.set_name(nameOf(content.path));
  Status status;
  // The first message goes without data: the node may have the file by now.
  for (std::int64_t sent = 0; writer->Write(piece) && sent < content.bytes;) {
    piece.Clear();
    status = file.read(*piece.mutable_data());
    if (status.ok() && piece.data().empty()) status = changed(content.path);
    if (!status.ok()) break;
    sent += static_cast<std::int64_t>(piece.data().size());
    moved(static_cast<std::int64_t>(piece.data().size()));
  }
  if (!status.ok()) {
    context.TryCancel();
    (void)writer->Finish();
    return status.error();
  }
  writer->WritesDone();
  LOCKSTEP_TRY(rpcStatus(writer->Finish(),
                         message("cannot copy the data file {} to the node", content.path),
                         node.name()));
  return reply.path();
}

// A file for all nodes: `names` of the run have this content.
struct Task {
  Content content;
  std::vector<std::string> names;
};

std::vector<Task> tasksOf(const std::vector<specs::DataFile>& files) {
  std::vector<Task> out;
  for (const specs::DataFile& file : files) {
    auto task = std::find_if(out.begin(), out.end(), [&](const Task& one) {
      return one.content.path == file.path && one.content.sha256 == file.sha256;
    });
    if (task == out.end()) {
      out.push_back({{file.path, file.sha256, -1, ""}, {}});
      task = out.end() - 1;
    }
    task->names.push_back(file.name);
  }
  return out;
}

}  // namespace

Result<std::map<std::string, std::string>> stageData(const std::vector<specs::DataFile>& files,
                                                     std::vector<StagingNode>& nodes,
                                                     const StagingObserver& observer,
                                                     std::stop_token stop) {
  std::vector<Task> tasks = tasksOf(files);
  std::map<std::string, std::string> hashes;
  for (Task& task : tasks) {
    if (task.content.sha256.empty()) LOCKSTEP_TRY(hashHere(task.content, observer.data, stop));
    for (const std::string& name : task.names) hashes[name] = task.content.sha256;
  }
  // By node the tasks whose file it lacks.
  std::vector<std::set<std::size_t>> lacking(nodes.size());
  LOCKSTEP_TRY(
      forAll(nodes.size(), stop, [&](std::size_t at, const std::stop_token& others) -> Status {
        for (std::size_t i = 0; i < tasks.size(); ++i)
          for (const std::string& name : tasks[i].names) {
            if (!nodes[at].paths.contains(name)) continue;  // it does not read it
            LOCKSTEP_ASSIGN(const std::string path,
                            find(*nodes[at].access, tasks[i].content, nodes[at].paths[name],
                                 observer.data, others));
            if (path.empty())
              lacking[at].insert(i);
            else
              nodes[at].paths[name] = path;
          }
        if (lacking[at].empty()) observer.came(nodes[at].access->name());
        return {};
      }));
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto copies = std::count_if(lacking.begin(), lacking.end(),
                                      [i](const auto& one) { return one.contains(i); });
    if (copies > 0 && tasks[i].content.version.empty())
      LOCKSTEP_TRY(hashHere(tasks[i].content, observer.data, stop));
    total += copies * std::max<std::int64_t>(0, tasks[i].content.bytes);
  }
  std::atomic<std::int64_t> done = 0;
  const auto moved = [&](std::int64_t bytes) { observer.moved(done += bytes, total); };
  LOCKSTEP_TRY(
      forAll(nodes.size(), stop, [&](std::size_t at, const std::stop_token& others) -> Status {
        for (const std::size_t i : lacking[at]) {
          LOCKSTEP_ASSIGN(const std::string path,
                          send(*nodes[at].access, tasks[i].content, moved, others));
          for (const std::string& name : tasks[i].names)
            if (const auto place = nodes[at].paths.find(name); place != nodes[at].paths.end())
              place->second = path;
        }
        if (!lacking[at].empty()) observer.came(nodes[at].access->name());
        return {};
      }));
  return hashes;
}

}  // namespace lockstep::app
