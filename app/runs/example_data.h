// Makes the data of the shipped examples on first use: kjv.txt (the King James Bible, for gpt-tiny
// and gpt-small) and ctr.tsv (a generated click log, for ctr).
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "engine/base/status.h"

namespace lockstep::spec::v1 {
class RunSpec;
}

namespace lockstep::app {

// Makes each missing data file of `spec` that has the name of an example's, where the spec has it,
// or in `fallbackFolder` where that folder cannot be written. `onMaking` is called with the path
// before one is made. Returns the spec with the paths of the files. Idempotent; a file is there
// whole or not at all. Errors: kFailedPrecondition if a program is missing, kResourceExhausted,
// kCancelled.
Result<std::shared_ptr<const spec::v1::RunSpec>> provideExampleData(
    std::shared_ptr<const spec::v1::RunSpec> spec, const std::string& fallbackFolder,
    const std::function<void(const std::string&)>& onMaking, const std::stop_token& stop);

// The same without making any: the spec with the paths of the files, and whether one is missing.
struct ExampleData {
  std::shared_ptr<const spec::v1::RunSpec> spec;
  bool missing = false;
};
ExampleData findExampleData(const spec::v1::RunSpec& spec, const std::string& fallbackFolder);

}  // namespace lockstep::app
