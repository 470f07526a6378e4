// Run specs whose data are of interest, whatever is wrong with their layers, training or strategy.
#pragma once

#include <string>

#include "app/specs/spec_text.h"

namespace lockstep::app {

// As loadRunSpec() and completeRunSpec(), but of a spec with other problems only data, model.input,
// model.loss and model.classes are complete. Errors: the first problem of these.
Result<RunSpecFile> loadDataSpec(const std::string& path);
Result<RunSpecFile> completeDataSpec(const std::string& yaml, const std::string& file);

}  // namespace lockstep::app
