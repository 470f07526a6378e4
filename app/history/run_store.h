// Opens the file of a run, for History.
#pragma once

#include <memory>
#include <string>

#include "app/history/history.h"

namespace lockstep::app {

Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path);
// Takes the recorder lock of a run's file. Returns an open descriptor, or kAlreadyExists.
Result<int> lockRunStore(const std::string& path);

}  // namespace lockstep::app
