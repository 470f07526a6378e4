// Chart: lines over a common x axis, drawn as SVG that needs nothing else. No threads, no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/history/run_data.h"

namespace lockstep::app {

struct ChartLine {
  std::string name;
  std::vector<Span> spans;  // x increasing; a value that is not finite is a gap
  bool dots = false;        // few samples: marks too
  bool dashed = false;      // a prediction
};

struct Chart {
  enum class Unit : std::uint8_t { kPlain, kPercent, kSeconds, kBytes, kDuration };
  std::string title, xTitle;
  Unit x = Unit::kPlain, y = Unit::kPlain;
  bool fromZero = false;
  std::vector<ChartLine> lines;
};

// An <svg> element with title, axes with ticks, and a legend; "xmlns" is set, so that the text is a
// file of its own too. `width` is that of the picture, which grows with its legend, in pixels.
std::string svgOf(const Chart& chart, int width = 720, int height = 300);

// Spans of a curve that has more points than a chart has pixels.
std::vector<Span> spansFor(const std::vector<Point>& points);

// "0.25", "1.2e-05": six digits, without zeros at the end. "–" where not finite.
std::string numberText(double value);
std::string unitText(double value, Chart::Unit unit);  // "42 %", "1.25 ms", "1.5 GB", "1:02:03"

}  // namespace lockstep::app
