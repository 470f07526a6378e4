// What a run drew, as `lockstep energy` and `history show` tell it.
#pragma once

#include <string>

#include "app/cli/json_line.h"
#include "app/runs/energy.h"

namespace lockstep::app::cli {

// Its parts by what ranks do, of a step, an epoch and a point of accuracy, and as predicted: a line
// for each that is known.
std::string energyPartsText(const RunRow& row, const RunEnergy& drawn);
void addEnergy(JsonLine& line, const RunRow& row, const RunEnergy& drawn);

}  // namespace lockstep::app::cli
