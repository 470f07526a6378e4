// How the files of a run are read. `train`: those of training, else those of evaluation; they are
// at `path` on this machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/data/dataset.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::specs {

data::TextFile textFile(const spec::v1::RunSpec& run, bool train, const std::string& path);
data::TableFile tableFile(const spec::v1::RunSpec& run, bool train, const std::string& path);
data::TokenFiles tokenFiles(const spec::v1::RunSpec& run, bool train, const std::string& path);

// Opens the set that a run trains on or evaluates on. `path` gives the path of a file here by its
// name, "train.images" or "decoded.train.images" (of its decoded form), "" where there is none: of
// images without labels the set has no field "label"; where no file is to be evaluated on, those of
// training are. Errors: those of data/dataset.h.
inline constexpr std::string_view kDecoded = "decoded.";
Result<std::unique_ptr<data::Dataset>> openData(
    const spec::v1::RunSpec& run, bool train,
    const std::function<std::string(const std::string& name)>& path);

}  // namespace lockstep::specs
