#include "agent/supervisor/checkpoint_fetch.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/peers.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/runtime/heartbeat.h"
#include "engine/weights/files.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

Error errorOf(const grpc::Status& status, const std::string& node) {
  run::v1::ErrorInfo info;
  if (!status.error_details().empty() && info.ParseFromString(status.error_details()))
    return fromInfo(info);
  Error error = makeError(Code::kUnavailable, "node {} does not send its files", node);
  error.why = status.error_message();
  return error;
}

// A node cannot send its file now, does not have it, or has a damaged one.
bool mayBeElsewhere(Code code) {
  return code == Code::kUnavailable || code == Code::kNotFound || code == Code::kDataLoss;
}

// kNotFound says that a node does not have a file: not that this node's own folder is gone.
Error ofOwnDisk(Error error) {
  if (error.code == Code::kNotFound) error.code = Code::kFailedPrecondition;
  return error;
}

// A file that a node sends. Once its first chunk is there, the node keeps it open, whatever its
// ranks remove.
class SentFile {
 public:
  SentFile(const std::shared_ptr<grpc::Channel>& channel, std::string node,
           const node::v1::FetchShardRequest& asked, const std::stop_token& stop)
      : node_(std::move(node)),
        file_(asked.file()),
        stub_(node::v1::Peers::NewStub(channel)),
        cancel_(stop, [this] { context_.TryCancel(); }) {
    context_.set_deadline(std::chrono::system_clock::now() + runtime::diskWait().limit);
    reader_ = stub_->FetchShard(&context_, asked);
  }
  ~SentFile() {
    if (hasEnded_) return;
    context_.TryCancel();
    reader_->Finish();
  }
  SentFile(const SentFile&) = delete;
  SentFile& operator=(const SentFile&) = delete;

  // Waits for the first chunk.
  Status begin() {
    if (reader_->Read(&chunk_)) return {};
    LOCKSTEP_TRY(end());
    return damaged();
  }

  // Writes the file, of which the first chunk is there. Returns its size.
  Result<std::int64_t> writeTo(const fs::path& target, Durability durability,
                               const OnChunk& onChunk) {
    std::int64_t bytes = 0;
    Status received;
    const auto receive = [&](const Append& append) -> Status {
      Sha256 hash;
      const std::int64_t total = chunk_.total();
      std::string expected;
      do {
        bytes += static_cast<std::int64_t>(chunk_.data().size());
        if (bytes > total) return received = damaged();
        LOCKSTEP_TRY(append(chunk_.data()));
        hash.update(std::string_view(chunk_.data()));
        expected = chunk_.sha256();
        if (onChunk) onChunk(chunk_);
      } while (reader_->Read(&chunk_));
      received = end();
      if (received.ok() && hash.hex() != expected) received = damaged();
      return received;
    };
    std::error_code ignored;
    fs::create_directories(target.parent_path(), ignored);
    const Status written = writeFileAtomically(target, receive, 0600, PageCache::kUse, durability);
    LOCKSTEP_TRY(received);
    if (!written.ok()) return ofOwnDisk(written.error());
    return bytes;
  }

 private:
  Status end() {
    hasEnded_ = true;
    const grpc::Status ended = reader_->Finish();
    return ended.ok() ? Status() : errorOf(ended, node_);
  }
  Error damaged() const {
    return makeError(Code::kDataLoss, "{} was damaged on its way from node {}", file_, node_);
  }

  const std::string node_, file_;
  const std::unique_ptr<node::v1::Peers::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<node::v1::FetchChunk>> reader_;
  node::v1::FetchChunk chunk_;
  bool hasEnded_ = false;
  const std::stop_callback<std::function<void()>> cancel_;
};

class WeightsFetch {
  using Sources = std::vector<const node::v1::FileSource*>;

 public:
  WeightsFetch(const node::v1::PrepareRequest& request, int generation,
               const node::v1::Evaluate& checkpoint, fs::path folder, std::stop_token stop)
      : request_(request), folder_(std::move(folder)), stop_(std::move(stop)) {
    asked_.set_run(request.run());
    asked_.set_node(request.node());
    asked_.set_step(checkpoint.epoch().step());
    asked_.set_generation(generation);
    Sources all;
    for (const node::v1::FileSource& source : checkpoint.sources()) {
      all.push_back(&source);
      for (const int rank : source.ranks()) sources_[weights::shardFile(rank)].push_back(&source);
    }
    isOfOneRank_ = sources_.size() == 1;
    for (const std::string_view file : {weights::kStateFile, weights::kManifestFile})
      sources_[std::string(file)] = all;
  }

  Status run() {
    // One rank writes one file, without a manifest.
    if (isOfOneRank_) return fetch({std::string(weights::kStateFile)});
    const auto before = manifest();
    LOCKSTEP_TRY(fetch({std::string(weights::kManifestFile)}));
    LOCKSTEP_ASSIGN(const weights::Manifest manifest, this->manifest());
    if (!before.ok() || before->id != manifest.id) removeOthers();
    std::vector<std::string> files = weights::filesOfWeights(manifest);
    std::error_code none;
    std::erase_if(files, [&](const std::string& file) { return fs::exists(folder_ / file, none); });
    return fetch(files);
  }

 private:
  struct Wanted {
    std::string file;
    Sources sources;
    std::size_t next = 0;            // of them
    std::unique_ptr<SentFile> sent;  // by the one before
    Status failed;                   // if none sends it
  };

  Result<weights::Manifest> manifest() const {
    const fs::path path = folder_ / weights::kManifestFile;
    const auto text = readFile(path);
    if (!text.ok()) return ofOwnDisk(text.error());
    return weights::parseManifest(*text, path);
  }

  // All begin before the first is read to its end: their nodes keep them open.
  Status fetch(const std::vector<std::string>& files) {
    std::vector<Wanted> wanted;
    for (const std::string& file : files) {
      Wanted& one = wanted.emplace_back();
      one.file = file;
      one.sources = sources_[file];
      one.failed = makeError(Code::kNotFound, "no node of the run has the file {}", file);
      LOCKSTEP_TRY(begin(one));
    }
    for (Wanted& one : wanted) LOCKSTEP_TRY(receive(one));
    return {};
  }

  // Asks one source after the other, until one sends the file.
  Status begin(Wanted& one) {
    asked_.set_file(one.file);
    while (one.next < one.sources.size()) {
      const node::v1::FileSource& source = *one.sources[one.next++];
      std::shared_ptr<grpc::Channel>& channel = channels_[source.node()];
      if (!channel) channel = peerChannel(request_, source.node(), source.address());
      one.sent = std::make_unique<SentFile>(channel, source.node(), asked_, stop_);
      const Status begun = one.sent->begin();
      if (begun.ok()) return {};
      LOCKSTEP_TRY(note(begun.error(), one));
    }
    return one.failed;
  }

  Status receive(Wanted& one) {
    for (;;) {
      const auto bytes = one.sent->writeTo(folder_ / one.file, Durability::kNone, {});
      one.sent.reset();
      if (bytes.ok()) return {};
      LOCKSTEP_TRY(note(bytes.error(), one));
      LOCKSTEP_TRY(begin(one));
    }
  }

  // The file is not there any more only if no source has it.
  static Status note(const Error& error, Wanted& one) {
    if (!mayBeElsewhere(error.code)) return error;
    if (one.failed.code() == Code::kNotFound && error.code != Code::kNotFound) one.failed = error;
    return {};
  }

  void removeOthers() const {
    std::error_code ignored;
    for (const fs::path& file : listFolder(folder_))
      if (file.filename() != weights::kManifestFile) fs::remove(file, ignored);
  }

  const node::v1::PrepareRequest& request_;
  const fs::path folder_;
  const std::stop_token stop_;
  node::v1::FetchShardRequest asked_;
  std::map<std::string, Sources> sources_;  // by file
  bool isOfOneRank_ = false;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels_;  // by node
};

}  // namespace

Result<std::int64_t> fetchCheckpointFile(const std::shared_ptr<grpc::Channel>& channel,
                                         const std::string& node,
                                         const node::v1::FetchShardRequest& asked,
                                         const fs::path& target, const std::stop_token& stop,
                                         const OnChunk& onChunk) {
  SentFile file(channel, node, asked, stop);
  LOCKSTEP_TRY(file.begin());
  return file.writeTo(target, Durability::kSynced, onChunk);
}

Status fetchWeights(const node::v1::PrepareRequest& request, int generation,
                    const node::v1::Evaluate& checkpoint, const fs::path& folder,
                    const std::stop_token& stop) {
  return WeightsFetch(request, generation, checkpoint, folder, stop).run();
}

}  // namespace lockstep::agent
