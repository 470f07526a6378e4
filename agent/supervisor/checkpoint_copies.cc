#include "agent/supervisor/checkpoint_copies.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/copy_pace.h"
#include "agent/supervisor/members.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/runtime/heartbeat.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "engine/weights/checkpoint_files.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string node, host;
};

// The nodes with ranks, in their order, with their hosts.
std::vector<Place> placesOf(const node::v1::PrepareRequest& request) {
  std::vector<Place> out;
  for (const auto* node : specs::nodesWithRanks(request.cluster(), request.spec().strategy())) {
    Place place{node->name(), node->name()};
    for (const auto& host : request.hosts())
      if (host.node() == node->name()) place.host = host.host();
    out.push_back(std::move(place));
  }
  return out;
}

// Which nodes keep copies of the node at `index`.
std::vector<std::string> holdersOf(std::size_t index, const std::vector<Place>& places,
                                   const spec::v1::CheckpointSpec& spec) {
  std::set<std::string> hosts;
  for (const Place& place : places) hosts.insert(place.host);
  const bool oneHost = hosts.size() < 2;
  std::size_t copies = oneHost || !spec.path().empty() ? 0 : 1;
  if (spec.has_copies()) copies = static_cast<std::size_t>(std::max(0, spec.copies()));
  std::vector<std::string> out;
  for (std::size_t i = 1; i < places.size() && out.size() < copies; ++i) {
    const Place& other = places[(index + i) % places.size()];
    if (oneHost || other.host != places[index].host) out.push_back(other.node);
  }
  return out;
}

Error errorOf(const grpc::Status& status, const std::string& node) {
  run::v1::ErrorInfo info;
  if (!status.error_details().empty() && info.ParseFromString(status.error_details()))
    return fromInfo(info);
  Error error = makeError(Code::kUnavailable, "node {} does not send its files", node);
  error.why = status.error_message();
  return error;
}

}  // namespace

std::map<std::string, std::vector<std::string>> copiedNodes(
    const node::v1::PrepareRequest& request) {
  std::map<std::string, std::vector<std::string>> out;
  if (!specs::takesCheckpoints(request.spec())) return out;
  const std::vector<Place> places = placesOf(request);
  for (std::size_t i = 0; i < places.size(); ++i)
    for (const std::string& holder : holdersOf(i, places, request.spec().training().checkpoint()))
      out[holder].push_back(places[i].node);
  return out;
}

CheckpointCopies::CheckpointCopies(EventLoop& loop, const node::v1::PrepareRequest& request,
                                   int generation, std::string folder, int keep, Handlers handlers)
    : loop_(loop),
      request_(request),
      generation_(generation),
      folder_(std::move(folder)),
      keep_(std::max(keep, 1)),
      handlers_(std::move(handlers)),
      thread_([this](const std::stop_token& stop) {
        work(stop);
        over_ = true;
      }) {}

CheckpointCopies::~CheckpointCopies() { *alive_ = false; }

void CheckpointCopies::end() {
  *alive_ = false;
  thread_.request_stop();
}

void CheckpointCopies::setSources(std::vector<Source> sources) {
  const std::lock_guard lock(mutex_);
  sources_ = std::move(sources);
}

void CheckpointCopies::copy(std::int64_t step, bool atOnce) {
  const std::lock_guard lock(mutex_);
  atOnce_ = atOnce;
  if (step != current_) next_ = Task{step, sources_};
  changed_.notify_one();
}

void CheckpointCopies::pause(Nanoseconds duration, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, std::chrono::nanoseconds(duration), [this] { return atOnce_; });
}

void CheckpointCopies::post(std::function<void()> work) {
  loop_.post([alive = alive_, work = std::move(work)] {
    if (*alive) work();
  });
}

void CheckpointCopies::work(const std::stop_token& stop) {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return next_.has_value(); })) return;
      task = *std::exchange(next_, std::nullopt);
      current_ = task.step;
    }
    const Status copied = run(task, stop);
    {
      const std::lock_guard lock(mutex_);
      current_ = 0;  // asked for again from here on, it is answered again
    }
    if (stop.stop_requested()) return;
    post([this, step = task.step, copied] { handlers_.onCopied(step, copied); });
  }
}

Status CheckpointCopies::run(const Task& task, const std::stop_token& stop) {
  for (const Source& source : task.sources) {
    const Nanoseconds begin = monotonicNow();
    auto copied = copyFrom(source, task.step, stop);
    if (!copied.ok()) {
      Error error = makeError(copied.error().code,
                              "the checkpoint at step {} has no copy of the files of node {}",
                              task.step, source.node);
      error.why = copied.error().what;
      error.next =
          "the run cannot continue from it if that node is lost; the next one is copied again";
      error.node = request_.node();
      error.step = task.step;
      return error;
    }
    if (copied->files == 0) continue;
    const double seconds = static_cast<double>(monotonicNow() - begin) * 1e-9;
    post([this,
          line = fmt::format(
              "copied {} files of the checkpoint at step {} from node {}: {:.1f} MB in {:.2f} s",
              copied->files, task.step, source.node, static_cast<double>(copied->bytes) * 1e-6,
              seconds)] { handlers_.say(line); });
  }
  removeOld();
  return {};
}

Result<CheckpointCopies::Copied> CheckpointCopies::copyFrom(const Source& source, std::int64_t step,
                                                            const std::stop_token& stop) {
  const fs::path folder = weights::checkpointAt(folder_, step);
  const fs::path path = folder / weights::kManifestFile;
  std::vector<std::string> files;
  std::error_code none;
  if (fs::exists(path, none)) {
    LOCKSTEP_ASSIGN(const std::string text, readFile(path));
    LOCKSTEP_ASSIGN(const weights::Manifest manifest, weights::parseManifest(text, path));
    files = weights::filesOnlyOf(manifest, {source.ranks.begin(), source.ranks.end()});
  } else if (std::find(source.ranks.begin(), source.ranks.end(), 0) != source.ranks.end()) {
    files.emplace_back(weights::kStateFile);  // rank 0 writes the state of all ranks
  }
  std::erase_if(files, [&](const std::string& file) { return fs::exists(folder / file, none); });
  Copied out;
  if (files.empty()) return out;
  const auto channel = peerChannel(request_, source.node, source.address);
  for (const std::string& file : files) {
    CopyPace pace(source.link, runtime::diskWait().limit.count());
    const auto onChunk = [&](const node::v1::FetchChunk& chunk) {
      pause(pace.after(std::ssize(chunk.data()), chunk.total(), monotonicNow()), stop);
    };
    LOCKSTEP_ASSIGN(const std::int64_t bytes, fetch(channel, source, step, file, onChunk, stop));
    ++out.files;
    out.bytes += bytes;
  }
  return out;
}

Result<std::int64_t> CheckpointCopies::fetch(
    const std::shared_ptr<grpc::Channel>& channel, const Source& source, std::int64_t step,
    const std::string& file, const std::function<void(const node::v1::FetchChunk&)>& onChunk,
    const std::stop_token& stop) {
  const fs::path target = weights::checkpointAt(folder_, step) / file;
  const auto stub = node::v1::Peers::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + runtime::diskWait().limit);
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  node::v1::FetchShardRequest request;
  request.set_run(request_.run());
  request.set_node(request_.node());
  request.set_step(step);
  request.set_file(file);
  request.set_generation(generation_);
  const auto reader = stub->FetchShard(&context, request);
  std::int64_t bytes = 0;
  const auto receive = [&](const Append& append) -> Status {
    Sha256 hash;
    std::string expected;
    node::v1::FetchChunk chunk;
    Status written;
    while (written.ok() && reader->Read(&chunk)) {
      written = append(chunk.data());
      hash.update(std::string_view(chunk.data()));
      bytes += static_cast<std::int64_t>(chunk.data().size());
      expected = chunk.sha256();
      onChunk(chunk);
    }
    if (!written.ok()) context.TryCancel();
    const grpc::Status ended = reader->Finish();
    LOCKSTEP_TRY(written);
    if (!ended.ok()) return errorOf(ended, source.node);
    if (hash.hex() == expected) return {};
    return makeError(Code::kDataLoss, "{} was damaged on its way from node {}", file, source.node);
  };
  std::error_code ignored;
  fs::create_directories(target.parent_path(), ignored);
  LOCKSTEP_TRY(writeFileAtomically(target, receive, 0600));
  return bytes;
}

// Where the ranks of this node write no checkpoints themselves, nobody else removes old ones.
void CheckpointCopies::removeOld() const {
  const auto all = weights::checkpointsIn(folder_);
  std::error_code ignored;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < all.size(); ++i)
    if (!fs::exists(all[i].second / weights::kManifestFile, ignored))
      fs::remove_all(all[i].second, ignored);
}

}  // namespace lockstep::agent
