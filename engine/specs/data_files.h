// How the files of a run are read. `train`: those of training, else those of evaluation; they are
// at `path` on this machine.
#pragma once

#include <string>

#include "engine/data/dataset.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

data::TextFile textFile(const spec::v1::RunSpec& run, bool train, const std::string& path);
data::TableFile tableFile(const spec::v1::RunSpec& run, bool train, const std::string& path);
data::TokenFiles tokenFiles(const spec::v1::RunSpec& run, bool train, const std::string& path);

}  // namespace lockstep::specs
