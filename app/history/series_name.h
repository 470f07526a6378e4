// SeriesName: what a series of a run is of, by its name (app/runs/run_update.h).
#pragma once

#include <string>
#include <string_view>

namespace lockstep::app {

struct SeriesName {
  int rank = -1;       // "rank/<r>/…"
  std::string node;    // "node/<n>/…"; a name has no '/'
  int gpu = -1;        // "node/<n>/gpu/<i>/…"
  std::string to;      // "node/<n>/to/<m>/…": the link to another node
  std::string figure;  // "cpu"; of a series of the run itself, all of the name
};
SeriesName parseSeriesName(std::string_view series);

}  // namespace lockstep::app
