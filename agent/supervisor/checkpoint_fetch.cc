#include "agent/supervisor/checkpoint_fetch.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>

#include "agent/base/grpc_status.h"
#include "agent/supervisor/peers.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
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

}  // namespace

Result<std::int64_t> fetchCheckpointFile(const std::shared_ptr<grpc::Channel>& channel,
                                         const std::string& node,
                                         const node::v1::FetchShardRequest& asked,
                                         const fs::path& target, const std::stop_token& stop,
                                         const OnChunk& onChunk) {
  const auto stub = node::v1::Peers::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + runtime::diskWait().limit);
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  const auto reader = stub->FetchShard(&context, asked);
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
      if (onChunk) onChunk(chunk);
    }
    if (!written.ok()) context.TryCancel();
    const grpc::Status ended = reader->Finish();
    LOCKSTEP_TRY(written);
    if (!ended.ok()) return errorOf(ended, node);
    if (hash.hex() == expected) return {};
    return makeError(Code::kDataLoss, "{} was damaged on its way from node {}", asked.file(), node);
  };
  std::error_code ignored;
  fs::create_directories(target.parent_path(), ignored);
  LOCKSTEP_TRY(writeFileAtomically(target, receive, 0600));
  return bytes;
}

Status fetchWeights(const node::v1::PrepareRequest& request, int generation,
                    const node::v1::Evaluate& checkpoint, const fs::path& folder,
                    const std::stop_token& stop) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  node::v1::FetchShardRequest asked;
  asked.set_run(request.run());
  asked.set_node(request.node());
  asked.set_step(checkpoint.epoch().step());
  asked.set_generation(generation);
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;  // by node
  const auto fetch = [&](const std::string& file, const node::v1::FileSource& from) -> Status {
    std::shared_ptr<grpc::Channel>& channel = channels[from.node()];
    if (!channel) channel = peerChannel(request, from.node(), from.address());
    asked.set_file(file);
    return fetchCheckpointFile(channel, from.node(), asked, folder / file, stop).status();
  };
  std::map<std::string, const node::v1::FileSource*> sources;  // by file
  for (const node::v1::FileSource& source : checkpoint.sources())
    for (const int rank : source.ranks()) sources[weights::shardFile(rank)] = &source;
  const fs::path path = folder / weights::kManifestFile;
  if (sources.empty()) return makeError(Code::kNotFound, "there is no file {}", path.string());
  // A run of one rank writes one file, without a manifest.
  if (sources.size() == 1) return fetch(std::string(weights::kStateFile), *sources.begin()->second);
  LOCKSTEP_TRY(fetch(std::string(weights::kManifestFile), *sources.begin()->second));
  LOCKSTEP_ASSIGN(const std::string text, readFile(path));
  LOCKSTEP_ASSIGN(const weights::Manifest manifest, weights::parseManifest(text, path));
  for (const std::string& file : weights::filesOfWeights(manifest))
    if (const auto source = sources.find(file); source != sources.end())
      LOCKSTEP_TRY(fetch(file, *source->second));
  return {};
}

}  // namespace lockstep::agent
