// The packed form of curves. Values come back bit for bit.
//
// A curve is packed by columns: all x, all y. Many curves may share one column of x. A column whose
// values are decimal fractions, as most measured values are, is kept as integers, multiples of a
// unit: they themselves or their first or second differences, with a variable number of bytes each.
// Other columns are kept as doubles, byte by byte. Columns are deflated (zlib, RFC 1950). Regular
// times and slowly changing values thus take less than a byte each. (Second differences of times
// are from Pelkonen et al., Gorilla, VLDB 2015.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/history/run_data.h"
#include "engine/base/status.h"

namespace lockstep::app {

std::string packColumn(std::span<const double> values);
std::string packSpans(std::span<const Span> spans);

struct CurvePoints {
  std::int64_t series = 0;
  std::vector<Point> points;
};
std::string packCurves(std::span<const CurvePoints> curves);

// kDataLoss if the bytes are damaged, or are not of `count` values.
Result<std::vector<double>> unpackColumn(std::span<const std::byte> packed, std::size_t count);
// The points of a chunk as earlier versions packed them: a varint with their number, then the
// columns of x and of y.
Result<std::vector<Point>> unpackPoints(std::span<const std::byte> packed);
Result<std::vector<Span>> unpackSpans(std::span<const std::byte> packed);
Result<std::vector<CurvePoints>> unpackCurves(std::span<const std::byte> packed);

}  // namespace lockstep::app
