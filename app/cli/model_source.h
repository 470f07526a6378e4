// The trained models that commands take: of a run, a model file or a checkpoint.
#pragma once

#include <memory>
#include <string>

#include "app/cli/command.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {

// Where weights are on this machine, and the spec of their model; null: not known.
struct ModelSource {
  std::string path;
  std::shared_ptr<const spec::v1::RunSpec> spec;
};
// Returns what the command's first word names, with the spec of --model in place of the run's own.
// Errors: kNotFound if it is neither a path nor a run with a model file.
Result<ModelSource> modelSource(const Globals& globals, const Arguments& arguments);
// Returns it too, or kInvalidArgument where its spec is not known or is a program's.
Result<ModelSource> modelWithSpec(const Globals& globals, const Arguments& arguments);

}  // namespace lockstep::app::cli
