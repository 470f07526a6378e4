#include "engine/runtime/checkpoint_inventory.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/file.h"
#include "engine/base/list_folder.h"
#include "engine/runtime/agree.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json toJson(const Error& error) {
  return {static_cast<int>(error.code), error.what.text(), error.why.text()};
}

Error errorOf(const json& row) {
  Error error =
      makeError(static_cast<Code>(row.at(0).get<int>()), "{}", row.at(1).get<std::string>());
  error.why = row.at(2).get<std::string>();
  return error;
}

// {"known": [[step, id, rank, folder, [rank with the manifest, …], {file: [rank, …]}], …],
//  "problems": [[step, error], …]}; the ranks' join is that of their sets.
json joinedRows(const std::vector<std::string>& texts) {
  std::map<CheckpointKey, json> known;
  std::set<json> problems;
  json out;
  const auto unite = [](json& into, const json& more) {
    std::set<int> ranks = into.get<std::set<int>>();
    ranks.merge(more.get<std::set<int>>());
    into = ranks;
  };
  for (const std::string& text : texts) {
    const json one = json::parse(text);
    for (const json& row : one.at("problems")) problems.insert(row);
    for (const json& row : one.at("known")) {
      const CheckpointKey key(row.at(0).get<std::int64_t>(), row.at(1).get<std::string>());
      const auto [entry, isNew] = known.emplace(key, row);
      if (isNew) continue;
      json& into = entry->second;
      if (row.at(2).get<int>() < into.at(2).get<int>()) {
        into[2] = row.at(2);
        into[3] = row.at(3);
      }
      unite(into[4], row.at(4));
      for (const auto& [file, ranks] : row.at(5).items())
        if (into[5].contains(file))
          unite(into[5][file], ranks);
        else
          into[5][file] = ranks;
    }
  }
  out["problems"] = problems;
  out["known"] = json::array();
  for (auto& [key, row] : known) out["known"].push_back(std::move(row));
  return out;
}

}  // namespace

void Inventory::note(std::int64_t step, Error error) {
  problems_[step].push_back(std::move(error));
}

// Lists this rank's files of a checkpoint. Files of other checkpoints of the same step may exist.
void Inventory::look(const fs::path& folder, std::int64_t step) {
  std::error_code none;
  const auto open = [&](const fs::path& path) -> std::shared_ptr<TensorReader> {
    auto reader = TensorReader::open(path);
    if (reader.ok()) return std::make_shared<TensorReader>(std::move(*reader));
    note(step, reader.error());
    return nullptr;
  };
  if (!fs::exists(folder / kManifestFile, none) && fs::exists(folder / kStateFile, none)) {
    const auto whole = open(folder / kStateFile);
    if (!whole) return;
    SeenCheckpoint& seen = seen_[{step, ""}];
    seen.folder = folder;
    seen.manifest = weights::manifestOf(*whole);
    seen.files.emplace(kStateFile, whole);
    return;
  }
  const std::string path = folder / kManifestFile;
  const auto text = readFile(path);
  auto manifest = text.ok() ? parseManifest(*text, path) : Result<Manifest>(text.error());
  if (manifest.ok()) {
    SeenCheckpoint& seen = seen_[{step, manifest->id}];
    seen.folder = folder;
    seen.manifest = std::move(*manifest);
  } else {
    note(step, manifest.error());
  }
  for (const fs::path& file : listFolder(folder)) {
    if (file.extension() != ".safetensors" || file.filename() == kStateFile) continue;
    const auto reader = open(file);
    const auto id = reader ? reader->metadata().find("id") : Metadata::const_iterator();
    if (!reader || id == reader->metadata().end()) continue;
    SeenCheckpoint& seen = seen_[{step, id->second}];
    seen.folder = folder;
    seen.files.emplace(file.filename(), reader);
  }
}

std::string Inventory::text(int rank) const {
  json out{{"known", json::array()}, {"problems", json::array()}};
  for (const auto& [step, errors] : problems_)
    for (const Error& error : errors) out["problems"].push_back({step, toJson(error)});
  for (const auto& [key, seen] : seen_) {
    json files = json::object();
    for (const auto& [name, reader] : seen.files) files[name] = {rank};
    json with = json::array();
    if (seen.manifest) with.push_back(rank);
    out["known"].push_back({key.first, key.second, rank, seen.folder.string(), with, files});
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Inventory> Inventory::make(const std::string& path, const RankState& state) {
  Inventory out;
  LOCKSTEP_ASSIGN(const Together looked,
                  doTogether(state.groups, state.rank, "reading " + path, [&](std::int64_t&) {
                    if (isCheckpoint(path)) {
                      out.look(path, 0);
                    } else {
                      for (const auto& [step, folder] : checkpointsIn(path)) out.look(folder, step);
                    }
                    return Status();
                  }));
  LOCKSTEP_TRY(looked.result());
  LOCKSTEP_ASSIGN(const std::string all,
                  joinedTexts(out.text(state.rank), state.groups,
                              [](const auto& texts) { return joinedRows(texts).dump(); }));
  const json joined = json::parse(all);
  out.problems_.clear();
  for (const json& row : joined.at("problems"))
    out.problems_[row.at(0).get<std::int64_t>()].push_back(errorOf(row.at(1)));
  for (const json& row : joined.at("known"))
    out.known_[{row.at(0).get<std::int64_t>(), row.at(1).get<std::string>()}] = {
        row.at(3).get<std::string>(), row.at(4).get<std::set<int>>(),
        row.at(5).get<std::map<std::string, std::set<int>>>()};
  return out;
}

Result<Manifest> Inventory::manifestOf(const CheckpointKey& key, const RankState& state) const {
  const KnownCheckpoint& known = known_.at(key);
  const std::string path = fs::path(known.folder) / kManifestFile;
  if (known.withManifest.empty()) return makeError(Code::kDataLoss, "no rank can read {}", path);
  const int from = *known.withManifest.begin();
  std::string text = state.rank == from ? textOf(*seen(key)->manifest) : std::string();
  std::int64_t size = std::ssize(text);
  const cluster::Mesh& mesh = state.plan.mesh;
  LOCKSTEP_TRY(state.groups.broadcast(&size, sizeof size, mesh, from));
  text.resize(static_cast<std::size_t>(size));
  LOCKSTEP_TRY(state.groups.broadcast(text.data(), size, mesh, from));
  return parseManifest(text, path);
}

const SeenCheckpoint* Inventory::seen(const CheckpointKey& key) const {
  const auto found = seen_.find(key);
  return found == seen_.end() ? nullptr : &found->second;
}

void Inventory::strike(const CheckpointKey& key, const std::string& file, int rank) {
  known_.at(key).holders.at(file).erase(rank);
}

}  // namespace lockstep::runtime
