// Rows of tables, one by one.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

// Errors: kInvalidArgument if the table has no numbers, or columns without categories.
Status checkTableShape(const TableFile& file);
// Returns the separator of a file that begins with `bytes`.
char tableSeparator(std::string_view bytes);
// Checks line `number`, counted from 1, as openTable() does. Errors: kDataLoss.
Status checkTableRow(const TableFile& file, std::string_view line, char separator,
                     std::int64_t number);

}  // namespace lockstep::data
