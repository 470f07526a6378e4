// A run's curves as comma-separated values.
#pragma once

#include <string>

#include "app/history/run_store.h"

namespace lockstep::app {

// Steps as rows and series as columns ("step", then series over steps). Series over epochs and over
// time follow in tables of their own, each after an empty line.
Result<std::string> csvOf(const RunStore& store);

}  // namespace lockstep::app
