#include "app/runs/relaunch.h"

#include <nlohmann/json.hpp>

#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

Result<std::string> checkpointFolderOf(const std::string& run, const RunDocuments& documents) {
  const auto nodes = nlohmann::json::parse(documents.nodes, nullptr, false);
  if (!nodes.is_array() || nodes.empty() || !nodes[0].is_object() || !nodes[0].contains("folder") ||
      !nodes[0]["folder"].is_string()) {
    Error error = makeError(Code::kFailedPrecondition, "run {} cannot be resumed", run);
    error.why = "the history does not know on which nodes it ran";
    error.next = "launch it anew";
    return error;
  }
  return nodes[0]["folder"].get<std::string>() + "/checkpoints";
}

Result<Relaunch> relaunchOf(const History& history, const std::string& run, RelaunchKind kind) {
  LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
  LOCKSTEP_ASSIGN(const RunDocuments documents, history.documents(run));
  Relaunch out;
  out.run = row.run;
  out.name = row.name;
  out.clusterYaml = documents.clusterYaml;
  out.clusterName = row.clusterName;
  if (kind == RelaunchKind::kResume) {
    LOCKSTEP_ASSIGN(out.checkpoints, checkpointFolderOf(row.run, documents));
  }
  if (documents.specYaml.empty() || documents.clusterYaml.empty()) {
    Error error = makeError(Code::kFailedPrecondition, "run {} cannot be launched again", run);
    error.why = "the history does not have its spec and cluster";
    error.next = "launch it anew with `lockstep run SPEC`";
    return error;
  }
  out.specYaml = documents.specYaml;
  if (!documents.specResolved.empty()) {
    const auto written = completeRunSpec(documents.specYaml, {});
    const auto ran = completeRunSpec(documents.specResolved, {});
    if (!written.ok() || !ran.ok() || toYaml(*written->spec) != toYaml(*ran->spec))
      out.specYaml = documents.specResolved;
  }
  return out;
}

}  // namespace lockstep::app
