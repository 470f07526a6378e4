// Prints the values that a pre-flight has measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cluster/preflight.h"

namespace lockstep::app::cli {

// Prints a table with a row for each node, and those of the GPUs and links that were measured; weak
// values are red.
void printTables(const PreflightResult& result, const std::vector<std::string>& nodes);
// Prints a line of JSON for each value.
void printPreflight(std::string_view event, const PreflightResult& result);
// Prints a sentence for each weak value to stderr.
void printWeak(const PreflightResult& result);

}  // namespace lockstep::app::cli
