#include "app/runs/launch_data.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "app/runs/code_files.h"
#include "app/runs/data_calls.h"
#include "app/runs/example_data.h"
#include "app/runs/for_all.h"
#include "app/runs/staging.h"
#include "engine/specs/data_url.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

Status makeExampleData(LaunchRequest& request, const Home& home, const Tell& tell,
                       const std::stop_token& stop) {
  if (request.spec->has_workload()) return {};
  const auto& nodes = request.cluster->nodes();
  const bool here =
      request.spec->data().copy_to_nodes() ||
      (!specs::isKubernetes(request.cluster->placement()) &&
       std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return !node.has_ssh(); }));
  if (!here) return {};
  std::unique_ptr<StageProgress> awaiting;
  const auto onMaking = [&](const std::string& path) {
    awaiting.reset();
    awaiting = std::make_unique<StageProgress>(Stage::kMakingData, std::vector{path}, tell);
  };
  LOCKSTEP_ASSIGN(request.spec,
                  provideExampleData(request.spec, home.root + "/data", onMaking, stop));
  return {};
}

namespace {

// What a run reads: one that resumes does not start from other weights.
std::vector<specs::DataFile> filesOf(const LaunchRequest& request) {
  std::vector<specs::DataFile> out = specs::dataFiles(*request.spec);
  if (!request.resumeFrom.empty())
    std::erase_if(out, [](const specs::DataFile& file) { return file.name == specs::kInitFile; });
  return out;
}

}  // namespace

void findData(const LaunchRequest& request, Participants& participants) {
  const std::vector<specs::DataFile> files = filesOf(request);
  const bool apart = std::any_of(files.begin(), files.end(), [](const specs::DataFile& file) {
    return file.name.starts_with("evaluate.") && !file.path.empty();
  });
  for (Participant& participant : participants)
    for (const specs::DataFile& file : files) {
      if (participant.evaluates && apart && file.name.starts_with("train.")) continue;
      if (participant.evaluates && file.name == specs::kInitFile) continue;
      participant.paths[file.name] = file.path;
      for (const auto& node : request.cluster->nodes())
        if (const auto own = node.data().find(file.path);
            node.name() == participant.name && own != node.data().end())
          participant.paths[file.name] = own->second;
    }
}

namespace {

// Copies files to the nodes that lack them. Afterwards the participants have their paths there.
Result<DataHashes> copyFiles(const std::vector<specs::DataFile>& files, Participants& participants,
                             const Tell& tell, std::stop_token stop) {
  StageProgress awaiting(Stage::kCopying, namesOf(participants), tell);
  std::vector<StagingNode> nodes;
  for (const Participant& participant : participants)
    nodes.push_back({participant.access, participant.paths});
  LOCKSTEP_ASSIGN(
      DataHashes copied,
      stageData(files, nodes,
                {[&](const std::string& node) { awaiting.came(node); },
                 [&](std::int64_t done, std::int64_t total) { awaiting.moved(done, total); },
                 [&](const DataActivity& activity) { awaiting.reads(activity); }},
                std::move(stop)));
  for (std::size_t i = 0; i < participants.size(); ++i)
    participants[i].paths = std::move(nodes[i].paths);
  return copied;
}

}  // namespace

Result<DataHashes> copyData(const LaunchRequest& request, Participants& participants,
                            const Tell& tell, std::stop_token stop) {
  findData(request, participants);
  if (!request.spec->data().copy_to_nodes()) return DataHashes();
  std::vector<specs::DataFile> files = filesOf(request);
  std::erase_if(files, [](const specs::DataFile& file) { return specs::isUrl(file.path); });
  return files.empty() ? DataHashes() : copyFiles(files, participants, tell, std::move(stop));
}

namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{64} << 30;  // of a file, where the run has no limit

// What the nodes found at each URL. The first answer is what the others are compared with.
class FetchedFiles {
 public:
  Status add(const std::string& node, const std::string& field, const std::string& url,
             const node::v1::FetchFileReply& reply) {
    const std::lock_guard lock(mutex_);
    const auto [first, isNew] = hashes_.try_emplace(url, node, reply.sha256());
    if (first->second.second != reply.sha256()) {
      Error error = makeError(Code::kFailedPrecondition, "its file for {} is not that of {}", field,
                              first->second.first);
      error.node = node;
      error.why = message("{} has SHA-256 {} here, {} there", specs::withoutQuery(url),
                          reply.sha256(), first->second.second);
      error.next = "check whether something writes to it, and launch again";
      return error;
    }
    if (isNew)
      said_.push_back(fmt::format("{}: {} bytes of {}, SHA-256 {}", field, reply.bytes(),
                                  specs::withoutQuery(url), reply.sha256()));
    return {};
  }
  std::vector<std::string> said() {
    std::sort(said_.begin(), said_.end());
    return std::move(said_);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::pair<std::string, std::string>> hashes_;  // URL → node, SHA-256
  std::vector<std::string> said_;
};

}  // namespace

Result<std::vector<std::string>> fetchData(const LaunchRequest& request, Participants& participants,
                                           const Tell& tell, std::stop_token stop) {
  const auto hasUrls = [](const Participant& participant) {
    return std::ranges::any_of(participant.paths,
                               [](const auto& one) { return specs::isUrl(one.second); });
  };
  if (std::ranges::none_of(participants, hasUrls)) return std::vector<std::string>();
  StageProgress awaiting(Stage::kFetching, namesOf(participants), tell);
  FetchedFiles fetched;
  const std::int64_t limit = request.spec->data().max_bytes();
  const auto fetch = [&](std::size_t at, const std::stop_token& others) -> Status {
    Participant& participant = participants[at];
    for (const specs::DataFile& file : filesOf(request)) {
      const auto path = participant.paths.find(file.name);
      if (path == participant.paths.end() || !specs::isUrl(path->second)) continue;
      node::v1::FetchFileRequest asked;
      asked.set_url(path->second);
      asked.set_sha256(file.sha256);
      asked.set_max_bytes(limit > 0 ? limit : kMaxBytes);
      LOCKSTEP_ASSIGN(
          const node::v1::FetchFileReply reply,
          callFetchFile(
              *participant.access, asked,
              message("cannot fetch the data file {}", specs::withoutQuery(path->second)),
              [&](const DataActivity& activity) { awaiting.reads(activity); }, others));
      LOCKSTEP_TRY(fetched.add(participant.name, specs::fieldOf(file.name), path->second, reply));
      path->second = reply.path();
    }
    awaiting.came(participant.name);
    return {};
  };
  LOCKSTEP_TRY(forAll(participants.size(), stop, fetch));
  return fetched.said();
}

Result<CopiedCode> copyCode(const LaunchRequest& request, const Home& home,
                            Participants& participants, const Tell& tell, std::stop_token stop) {
  const spec::v1::RunSpec& spec = *request.spec;
  if (!spec.has_workload() || spec.workload().code().disabled()) return CopiedCode();
  LOCKSTEP_ASSIGN(CollectedCode code,
                  collectCode(spec.workload().code(), home.root + "/code", stop));
  const std::string name(specs::kCodeFile);
  for (Participant& participant : participants) participant.paths[name];
  LOCKSTEP_TRY(
      copyFiles({{name, code.file, code.sha256}}, participants, tell, std::move(stop)).status());
  const std::string commit =
      code.commit.empty()
          ? "of no repository"
          : fmt::format("{} commit {}", code.changed ? "changed since" : "of", code.commit);
  return CopiedCode{fmt::format("{} files, {} bytes, {}, SHA-256 {}", code.files, code.bytes,
                                commit, code.sha256),
                    std::move(code.patch)};
}

namespace {

// A node may tell of files that it was not asked for.
std::string pathOn(const Participant& participant, const std::string& name) {
  const auto path = participant.paths.find(name);
  return path == participant.paths.end() ? std::string() : path->second;
}

}  // namespace

Status checkSameData(const Participants& participants, const DataHashes& copied) {
  for (const Participant& participant : participants)
    for (const auto& [name, hash] : copied) {
      const auto at = participant.data.find(name);
      if (at == participant.data.end() || at->second == hash) continue;
      Error error = makeError(Code::kFailedPrecondition, "the data file {} is not the run's",
                              pathOn(participant, name));
      error.node = participant.name;
      error.why = message("its SHA-256 is {}, the run expects {}", at->second, hash);
      error.next = "check whether something writes to it, and launch again";
      return error;
    }
  for (const auto& [name, first] : participants.front().data) {
    const auto holders = [&](const std::string& hash) {
      return std::count_if(participants.begin(), participants.end(),
                           [&](const Participant& participant) {
                             const auto at = participant.data.find(name);
                             return at != participant.data.end() && at->second == hash;
                           });
    };
    const Participant* usual = &participants.front();
    for (const Participant& participant : participants) {
      const auto at = participant.data.find(name);
      if (at != participant.data.end() && holders(at->second) > holders(usual->data.at(name)))
        usual = &participant;
    }
    for (std::size_t i = 0; i < participants.size(); ++i) {
      const auto at = participants[i].data.find(name);
      if (at == participants[i].data.end() ? participants[i].evaluates
                                           : at->second == usual->data.at(name))
        continue;
      Error error = makeError(Code::kFailedPrecondition, "its file for {} is not that of {}",
                              specs::fieldOf(name), usual->name);
      error.node = participants[i].name;
      error.why = message("{} has SHA-256 {} here, {} there", pathOn(participants[i], name),
                          at == participants[i].data.end() ? message("none") : Message(at->second),
                          usual->data.at(name));
      error.next = "copy the same file to every node, or set data.copy_to_nodes";
      return error;
    }
  }
  return {};
}

Status checkSameVersions(const Participants& participants) {
  const Participant* first = nullptr;
  for (const Participant& participant : participants) {
    if (participant.versions.empty()) continue;
    if (first == nullptr) first = &participant;
    std::map<std::string, std::string> names = first->versions;
    names.insert(participant.versions.begin(), participant.versions.end());
    for (const auto& [name, any] : names) {
      const auto versionOn = [&](const Participant& node) {
        const auto found = node.versions.find(name);
        return found == node.versions.end() ? std::string("none") : found->second;
      };
      if (versionOn(participant) == versionOn(*first)) continue;
      Error error =
          makeError(Code::kFailedPrecondition, "its {} is not that of {}", name, first->name);
      error.node = participant.name;
      error.why =
          message("the version is {} here, {} there", versionOn(participant), versionOn(*first));
      error.next = "install the same version on all nodes, or set workload.python.mixed";
      return error;
    }
  }
  return {};
}

}  // namespace lockstep::app
