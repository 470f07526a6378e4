#include "app/runs/relaunch.h"

#include <nlohmann/json.hpp>

#include "app/core/shallow_json.h"
#include "app/specs/spec_text.h"
#include "engine/specs/placement.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

Result<CheckpointFolders> checkpointFoldersOf(const std::string& run,
                                              const RunDocuments& documents) {
  CheckpointFolders out;
  const auto spec = completeRunSpec(documents.specResolved, {});
  if (spec.ok() && !specs::takesCheckpoints(*spec->spec)) {
    const bool ofProgram = spec->spec->has_workload();
    Error error = makeError(Code::kFailedPrecondition, "run {} cannot be resumed", run);
    error.why = ofProgram ? "its program writes its own checkpoints"
                          : "training.checkpoint.disabled is set";
    error.next = ofProgram
                     ? "launch it again; the program may continue from what it saved elsewhere"
                     : "launch it again from the start";
    return error;
  }
  const auto nodes = nlohmann::json::parse(documents.nodes, nullptr, false);
  if (nodes.is_array())
    for (const auto& node : nodes) {
      const std::string folder = textOf(node, "folder");
      if (folder.empty()) continue;
      const std::string own = folder + "/checkpoints";
      const std::string kept = spec.ok() ? specs::checkpointFolder(*spec->spec, run, own) : own;
      if (out.first.empty()) out.first = kept;
      out.ofNode[textOf(node, "node")] = kept;
    }
  if (!out.first.empty()) return out;
  Error error = makeError(Code::kFailedPrecondition, "run {} cannot be resumed", run);
  error.why = "the history does not record which nodes it ran on";
  error.next = "launch it again from the start";
  return error;
}

Status mustHaveStopped(const RunRow& row) {
  if (row.phase == RunState::STOPPED) return {};
  Error error = makeError(Code::kFailedPrecondition, "run {} is not resumed", row.run);
  if (row.phase == RunState::SUCCEEDED) {
    error.why = "it had trained to its end before it could be stopped";
    return error;
  }
  error.why = isFinal(row.phase) ? "it ended before it could be stopped" : "it has not stopped";
  error.next = "resume it from its last checkpoint once it has ended";
  return error;
}

Result<Relaunch> relaunchOf(const History& history, const std::string& run, RelaunchKind kind) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  Relaunch out;
  out.run = row.run;
  out.name = row.name;
  out.clusterYaml = documents.clusterYaml;
  out.clusterName = row.clusterName;
  out.isUnderWay = !isFinal(row.phase);
  if (kind == RelaunchKind::kResume ||
      (kind == RelaunchKind::kFaster && row.phase != RunState::SUCCEEDED)) {
    auto checkpoints = checkpointFoldersOf(row.run, documents);
    if (checkpoints.ok())
      out.checkpoints = *std::move(checkpoints);
    else if (kind == RelaunchKind::kResume || out.isUnderWay)
      return checkpoints.error();
  }
  if (documents.specYaml.empty() || documents.clusterYaml.empty()) {
    Error error = makeError(Code::kFailedPrecondition, "run {} cannot be launched again", run);
    error.why = "the history does not have its spec and cluster";
    error.next = "launch it again from the start with `lockstep run SPEC`";
    return error;
  }
  if (const auto cluster = completeClusterSpec(out.clusterYaml, {});
      cluster.ok() && cluster->spec->placement().job() != 0)
    out.clusterYaml = toYaml(specs::withoutAllocation(*cluster->spec));
  out.specYaml = documents.specYaml;
  if (!documents.specResolved.empty()) {
    const auto written = completeRunSpec(documents.specYaml, {});
    const auto ran = completeRunSpec(documents.specResolved, {});
    if (!written.ok() || !ran.ok() || toYaml(*written->spec) != toYaml(*ran->spec))
      out.specYaml = ran.ok() ? toYaml(*ran->spec) : documents.specResolved;  // no remarks of then
  }
  return out;
}

}  // namespace lockstep::app
