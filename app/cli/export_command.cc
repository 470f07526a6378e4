// lockstep export: the weights of a model, for other programs.
#include <filesystem>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/history/history.h"
#include "engine/specs/field.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "engine/weights/files.h"

namespace lockstep::app::cli {
namespace {

// Where weights are, and the spec of their model; null: not known.
struct Source {
  std::string path;
  std::shared_ptr<const spec::v1::RunSpec> spec;
};

Result<Source> sourceOf(const Globals& globals, const Arguments& arguments) {
  Source out;
  const std::string& given = arguments.words()[0];
  std::error_code none;
  if (std::filesystem::exists(given, none)) {
    out.path = given;
  } else {
    LOCKSTEP_ASSIGN(const auto history, History::open(globals.home.historyFolder()));
    LOCKSTEP_ASSIGN(const RunRow row, history->find(given));
    if (row.modelFile.empty()) {
      Error error = makeError(Code::kNotFound, "run {} has no model file", row.run);
      error.why = "only a run that has ended has one";
      error.next = "name a checkpoint of the run, a folder";
      return error;
    }
    out.path = row.modelFile;
    LOCKSTEP_ASSIGN(const RunDocuments documents, history->documents(row.run));
    LOCKSTEP_ASSIGN(const RunSpecFile spec, completeRunSpec(documents.specResolved, {}));
    out.spec = spec.spec;
  }
  if (const std::string model = arguments.text("model", ""); !model.empty()) {
    LOCKSTEP_ASSIGN(const RunSpecFile spec, loadRunSpec(modelFile(model)));
    out.spec = spec.spec;
  }
  return out;
}

Result<std::optional<DType>> typeOf(const Arguments& arguments) {
  const std::string type = arguments.text("type", "");
  if (type.empty()) return std::optional<DType>();
  LOCKSTEP_TRY(specs::checkKind("--type", type, {"f32", "bf16", "f16"}));
  return dtypeFromName(type);
}

// Returns the number of tensors.
Result<std::size_t> exportTo(const std::string& to, const Globals& globals,
                             const Arguments& arguments) {
  if (to.empty()) return invalidArgument("--to is missing; expected the file to write");
  const std::string names = arguments.text("names", "lockstep");
  const auto known = specs::valuesOf<spec::v1::InitSpec>("names");
  LOCKSTEP_TRY(specs::checkKind("--names", names, known));
  LOCKSTEP_ASSIGN(const std::optional<DType> type, typeOf(arguments));
  LOCKSTEP_ASSIGN(const Source source, sourceOf(globals, arguments));
  weights::Names named;
  if (names != "lockstep") {
    if (!source.spec) {
      Error error = invalidArgument("--names {} needs the spec of the model", names);
      error.next = "add --model SPEC";
      return error;
    }
    LOCKSTEP_ASSIGN(named, specs::weightNames(source.spec->model(), names));
  }
  LOCKSTEP_ASSIGN(const weights::ModelWeights model, weights::ModelWeights::open(source.path));
  LOCKSTEP_TRY(weights::exportWeights(model, named, type, to));
  return model.tensors().size();
}

}  // namespace

int exportCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const std::string to = arguments.text("to", "");
  const auto count = exportTo(to, globals, arguments);
  if (!count.ok()) {
    report(count.error(), json);
    return exitCodeOf(count.error());
  }
  if (json)
    JsonLine("exported").add("file", to).add("tensors", static_cast<std::int64_t>(*count)).print();
  else
    put(stdout, fmt::format("{} tensors in {}\n", *count, to));
  return kSucceeded;
}

}  // namespace lockstep::app::cli
