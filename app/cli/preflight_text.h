// What a pre-flight has measured, as tables and as JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/cluster/preflight.h"

namespace lockstep::app::cli {

// A table with a row for each node, and those of the GPUs, versions and links that are known. The
// links of up to 16 nodes are a matrix, of more nodes the slowest alone. Weak values are red,
// versions unlike those of other nodes yellow.
std::string preflightTables(const PreflightResult& result, const Style& style);
// A line for each value, and one of event "<event>_version" for each version.
std::vector<JsonLine> preflightLines(std::string_view event, const PreflightResult& result);

// Prints the lines or the tables.
void printPreflight(std::string_view event, const PreflightResult& result, bool json);
// Prints a sentence for each weak value and each version unlike the others to stderr.
void printWarnings(const PreflightResult& result);

}  // namespace lockstep::app::cli
