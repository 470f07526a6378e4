// How History opens the file of a run.
#pragma once

#include <memory>
#include <string>

#include "app/history/history.h"

namespace lockstep::app {

Result<std::unique_ptr<RunStore>> openRunStore(const std::string& path);
// The recorder's lock of a run's file: an open descriptor, or kAlreadyExists.
Result<int> lockRunStore(const std::string& path);

}  // namespace lockstep::app
