#include "app/cli/model_source.h"

#include <filesystem>

#include "app/cli/commands.h"
#include "app/history/history.h"

namespace lockstep::app::cli {
namespace {

Error noModelFile(const RunRow& row, const RunDocuments& documents) {
  Error error = makeError(Code::kNotFound, "run {} has no model file", row.run);
  error.why = "only a run that has ended has one";
  error.next = "name a checkpoint of the run, a folder";
  const auto spec = completeRunSpec(documents.specResolved, {});
  if (!spec.ok() || !spec->spec->has_workload()) return error;
  error.why = "its program saves its model itself";
  error.next =
      message("`lockstep artifacts {}` fetches the files that workload.artifacts names", row.run);
  return error;
}

}  // namespace

Result<ModelSource> modelSource(const Globals& globals, const Arguments& arguments) {
  ModelSource out;
  const std::string& given = arguments.words()[0];
  std::error_code none;
  if (std::filesystem::exists(given, none)) {
    out.path = given;
  } else {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(const RunRow row, history->find(given));
    LOCKSTEP_ASSIGN(const RunDocuments documents, history->documents(row.run));
    if (row.modelFile.empty()) return noModelFile(row, documents);
    out.path = row.modelFile;
    LOCKSTEP_ASSIGN(const RunSpecFile spec, completeRunSpec(documents.specResolved, {}));
    out.spec = spec.spec;
  }
  if (const std::string model = arguments.text("model", ""); !model.empty()) {
    LOCKSTEP_ASSIGN(const RunSpecFile spec, loadRunSpec(modelFile(model)));
    out.spec = spec.spec;
  }
  return out;
}

Result<ModelSource> modelWithSpec(const Globals& globals, const Arguments& arguments) {
  LOCKSTEP_ASSIGN(ModelSource out, modelSource(globals, arguments));
  if (!out.spec) {
    Error error = invalidArgument("the model in {} is not known", out.path);
    error.next = "add --model SPEC";
    return error;
  }
  if (out.spec->has_workload())
    return invalidArgument("{} is a program of your own, whose model Lockstep does not know",
                           arguments.words()[0]);
  return out;
}

}  // namespace lockstep::app::cli
