#include "app/cluster/link_matrix.h"

#include <algorithm>
#include <cmath>

#include "engine/base/statistics.h"

namespace lockstep::app {

bool LinkMatrix::empty() const {
  return std::ranges::none_of(cells, [](const auto& cell) { return cell.has_value(); });
}

double LinkMatrix::log2Slowdown(const PreflightValue& value) const {
  if (!(median > 0)) return 0;
  const double more = std::log2(value.value / median);
  return kind == PreflightValue::Kind::kBandwidth ? -more : more;
}

std::vector<PreflightValue> LinkMatrix::slowestFirst() const {
  std::vector<PreflightValue> out;
  for (const auto& cell : cells)
    if (cell) out.push_back(*cell);
  std::ranges::stable_sort(out, [this](const PreflightValue& a, const PreflightValue& b) {
    return kind == PreflightValue::Kind::kBandwidth ? a.value < b.value : a.value > b.value;
  });
  return out;
}

LinkMatrix linkMatrix(const PreflightResult& result, PreflightValue::Kind kind) {
  LinkMatrix out;
  out.kind = kind;
  out.nodes = result.nodes;
  out.cells.resize(out.nodes.size() * out.nodes.size());
  const auto placeOf = [&](const std::string& node) {
    return static_cast<std::size_t>(std::ranges::find(out.nodes, node) - out.nodes.begin());
  };
  std::vector<double> values;
  for (const PreflightValue& value : result.values) {
    if (value.kind != kind) continue;
    const std::size_t from = placeOf(value.node), to = placeOf(value.peer);
    if (from >= out.nodes.size() || to >= out.nodes.size()) continue;
    out.cells[from * out.nodes.size() + to] = value;
    values.push_back(value.value);
  }
  out.median = median(std::move(values));
  return out;
}

}  // namespace lockstep::app
