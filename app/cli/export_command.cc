// lockstep export: the weights of a model, or its graph with them, for other programs.
#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/model_source.h"
#include "app/cli/terminal.h"
#include "engine/onnx/onnx.h"
#include "engine/specs/field.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "engine/weights/files.h"

namespace lockstep::app::cli {
namespace {

Result<std::optional<DType>> typeOf(const Arguments& arguments) {
  const std::string type = arguments.text("type", "");
  if (type.empty()) return std::optional<DType>();
  LOCKSTEP_TRY(specs::checkKind("--type", type, {"f32", "bf16", "f16"}));
  return dtypeFromName(type);
}

// Writes the forward graph with its weights. Returns the number of weights.
Result<std::int64_t> exportOnnx(const std::string& to, const Globals& globals,
                                const Arguments& arguments) {
  for (const char* flag : {"names", "type"})
    if (arguments.has(flag))
      return invalidArgument("--{} is given, and an ONNX file has names and types of its own",
                             flag);
  LOCKSTEP_ASSIGN(const ModelSource source, modelWithSpec(globals, arguments));
  LOCKSTEP_ASSIGN(const models::Model model, specs::toModel(source.spec->model()));
  LOCKSTEP_ASSIGN(const weights::ModelWeights weights, weights::ModelWeights::open(source.path));
  return onnx::exportModel(model, weights, to);
}

// Returns the number of tensors.
Result<std::int64_t> exportTo(const std::string& to, const Globals& globals,
                              const Arguments& arguments) {
  if (to.empty()) return invalidArgument("--to is missing; expected the file to write");
  const std::string names = arguments.text("names", "lockstep");
  const auto known = specs::valuesOf<spec::v1::InitSpec>("names");
  LOCKSTEP_TRY(specs::checkKind("--names", names, known));
  LOCKSTEP_ASSIGN(const std::optional<DType> type, typeOf(arguments));
  LOCKSTEP_ASSIGN(const ModelSource source, modelSource(globals, arguments));
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
  watchInterrupts();
  const Progress goesOn = [](std::int64_t, std::int64_t) { return !isInterrupted(); };
  LOCKSTEP_TRY(weights::exportWeights(model, named, type, to, goesOn));
  return std::ssize(model.tensors());
}

}  // namespace

int exportCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const std::string to = arguments.text("to", "");
  const bool graph = to.ends_with(".onnx");
  const Result<std::int64_t> count =
      graph ? exportOnnx(to, globals, arguments) : exportTo(to, globals, arguments);
  if (!count.ok()) {
    report(count.error(), json);
    return exitCodeOf(count.error());
  }
  const char* const what = graph ? "weights" : "tensors";
  if (json)
    JsonLine("exported").add("file", to).add(what, *count).print();
  else
    put(stdout, fmt::format("{} {} in {}\n", *count, what, to));
  return kSucceeded;
}

}  // namespace lockstep::app::cli
