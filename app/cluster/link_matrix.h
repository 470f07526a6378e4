// The links of a pre-flight as a matrix of nodes × nodes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "app/cluster/preflight.h"

namespace lockstep::app {

struct LinkMatrix {
  PreflightValue::Kind kind = PreflightValue::Kind::kBandwidth;
  std::vector<std::string> nodes;
  std::vector<std::optional<PreflightValue>> cells;  // by sender, receiver; none: not measured
  double median = 0;                                 // of the cells; 0: there are none

  bool empty() const;  // no link was measured
  const std::optional<PreflightValue>& at(std::size_t from, std::size_t to) const {
    return cells[from * nodes.size() + to];
  }
  // log2 of how much slower a link is than the median: 1 is half its bandwidth or twice its round
  // trip; infinite if nothing passes. 0 if the median is 0.
  double log2Slowdown(const PreflightValue& value) const;
  std::vector<PreflightValue> slowestFirst() const;
};

// `kind`: one of those of pairs.
LinkMatrix linkMatrix(const PreflightResult& result, PreflightValue::Kind kind);

}  // namespace lockstep::app
