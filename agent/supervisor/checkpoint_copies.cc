#include "agent/supervisor/checkpoint_copies.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "agent/base/run_folder.h"
#include "agent/supervisor/checkpoint_fetch.h"
#include "agent/supervisor/copy_pace.h"
#include "agent/supervisor/members.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/runtime/heartbeat.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "engine/weights/checkpoint_files.h"

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

// Which nodes keep copies of what the node at `index` has. `isShared`: all nodes have it, unless
// the spec says how many copies there are.
std::vector<std::string> holdersOf(std::size_t index, const std::vector<Place>& places,
                                   const spec::v1::CheckpointSpec& spec, bool isShared) {
  std::set<std::string> hosts;
  for (const Place& place : places) hosts.insert(place.host);
  const bool oneHost = hosts.size() < 2;
  std::size_t copies = oneHost || isShared ? 0 : 1;
  if (spec.has_copies()) copies = static_cast<std::size_t>(std::max(0, spec.copies()));
  std::vector<std::string> out;
  for (std::size_t i = 1; i < places.size() && out.size() < copies; ++i) {
    const Place& other = places[(index + i) % places.size()];
    if (oneHost || other.host != places[index].host) out.push_back(other.node);
  }
  return out;
}

}  // namespace

std::map<std::string, std::vector<std::string>> copiedNodes(
    const node::v1::PrepareRequest& request) {
  std::map<std::string, std::vector<std::string>> out;
  if (!specs::takesCheckpoints(request.spec())) return out;
  const std::vector<Place> places = placesOf(request);
  const auto& spec = request.spec().training().checkpoint();
  for (std::size_t i = 0; i < places.size(); ++i)
    for (const std::string& holder : holdersOf(i, places, spec, !spec.path().empty()))
      out[holder].push_back(places[i].node);
  return out;
}

std::vector<std::string> modelHolders(const node::v1::PrepareRequest& request,
                                      const std::string& node) {
  const std::vector<Place> places = placesOf(request);
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i].node == node)
      return holdersOf(i, places, request.spec().training().checkpoint(), false);
  return {};
}

CheckpointCopies::CheckpointCopies(EventLoop& loop, const node::v1::PrepareRequest& request,
                                   int generation, std::string folder, std::string model, int keep,
                                   Handlers handlers)
    : loop_(loop),
      request_(request),
      generation_(generation),
      folder_(std::move(folder)),
      model_(std::move(model)),
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

void CheckpointCopies::copyModel(Source source) {
  const std::lock_guard lock(mutex_);
  next_ = Task{0, {std::move(source)}, true};
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
    const Status copied = task.model ? runModel(task.sources.front(), stop) : run(task, stop);
    {
      const std::lock_guard lock(mutex_);
      current_ = 0;  // asked for again from here on, it is answered again
    }
    if (stop.stop_requested()) return;
    post([this, step = task.step, model = task.model, copied] {
      model ? handlers_.onModelCopied(copied) : handlers_.onCopied(step, copied);
    });
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

Status CheckpointCopies::runModel(const Source& source, const std::stop_token& stop) {
  const Nanoseconds begin = monotonicNow();
  const auto bytes = fetchCheckpointFile(peerChannel(request_, source.node, source.address),
                                         source.node, shardRequest(0, kModelFile), model_, stop);
  if (!bytes.ok()) {
    Error error =
        makeError(bytes.error().code, "the trained model of node {} has no copy", source.node);
    error.why = bytes.error().what;
    error.next = "if that node is lost, resume the run: it ends with the same model";
    error.node = request_.node();
    return error;
  }
  post([this, line = fmt::format("copied the trained model from node {}: {:.1f} MB in {:.2f} s",
                                 source.node, static_cast<double>(*bytes) * 1e-6,
                                 static_cast<double>(monotonicNow() - begin) * 1e-9)] {
    handlers_.say(line);
  });
  return {};
}

node::v1::FetchShardRequest CheckpointCopies::shardRequest(std::int64_t step,
                                                           const std::string& file) const {
  node::v1::FetchShardRequest out;
  out.set_run(request_.run());
  out.set_node(request_.node());
  out.set_step(step);
  out.set_generation(generation_);
  out.set_file(file);
  return out;
}

Result<CheckpointCopies::Copied> CheckpointCopies::copyFrom(const Source& source, std::int64_t step,
                                                            const std::stop_token& stop) {
  const fs::path folder = weights::checkpointAt(folder_, step);
  const fs::path path = folder / weights::kManifestFile;
  LOCKSTEP_ASSIGN(const std::string text, readFile(path));
  LOCKSTEP_ASSIGN(const weights::Manifest manifest, weights::parseManifest(text, path));
  std::vector<std::string> files =
      weights::filesOnlyOf(manifest, {source.ranks.begin(), source.ranks.end()});
  std::error_code none;
  std::erase_if(files, [&](const std::string& file) { return fs::exists(folder / file, none); });
  Copied out;
  if (files.empty()) return out;
  const auto channel = peerChannel(request_, source.node, source.address);
  CopyPace pace(source.link, runtime::diskWait().limit.count());
  for (const std::string& file : files) {
    const auto onChunk = [&, came = std::int64_t{0}](const node::v1::FetchChunk& chunk) mutable {
      came += std::ssize(chunk.data());
      const Nanoseconds wait = pace.after(std::ssize(chunk.data()), chunk.total(), monotonicNow());
      if (came < chunk.total() || file != files.back()) pause(wait, stop);
    };
    LOCKSTEP_ASSIGN(const std::int64_t bytes,
                    fetchCheckpointFile(channel, source.node, shardRequest(step, file),
                                        folder / file, stop, onChunk));
    ++out.files;
    out.bytes += bytes;
  }
  return out;
}

// A checkpoint that the ranks removed while a file of it was copied: nobody else removes the copy.
void CheckpointCopies::removeOld() const {
  const auto all = weights::checkpointsIn(folder_);
  std::error_code ignored;
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep_) < all.size(); ++i)
    if (!fs::exists(all[i].second / weights::kManifestFile, ignored))
      fs::remove_all(all[i].second, ignored);
}

}  // namespace lockstep::agent
