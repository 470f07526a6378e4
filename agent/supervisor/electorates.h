// Electorates: the nodes of a run whose votes count. A majority of them decides who coordinates the
// run and what is kept; of two equal halves, the one with the first node, under whose coordination
// they became the electorate. So any two that decide have a node in common.
//
// Each generation that trains has its nodes as the next electorate. Nodes that have not heard of it
// yet still count the one before, and a majority of each may have no node in common. Therefore, as
// in joint consensus (D. Ongaro, J. Ousterhout: In Search of an Understandable Consensus Algorithm,
// USENIX ATC 2014, section 6), a change is a decision: whoever knows of it needs a majority of each
// electorate, until a majority of each has confirmed that it knows. Only then does the coordinator
// count the newest alone, and tells so. A node that takes over counts those that the newest of its
// voters knows.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

using Electorate = std::vector<std::string>;  // nodes
using Electorates = std::vector<Electorate>;  // oldest first; several while they change

// Whether the nodes that count decide: they are a majority of each electorate.
inline bool isQuorum(const Electorates& electorates,
                     const std::function<bool(const std::string& node)>& counts) {
  const auto isMajority = [&](const Electorate& one) {
    const auto present = static_cast<std::size_t>(std::count_if(one.begin(), one.end(), counts));
    return 2 * present > one.size() ||
           (2 * present == one.size() && !one.empty() && counts(one.front()));
  };
  return !electorates.empty() && std::all_of(electorates.begin(), electorates.end(), isMajority);
}

inline Electorates electoratesOf(const node::v1::Decisions& decisions) {
  Electorates out;
  for (const auto& one : decisions.electorates())
    out.emplace_back(one.nodes().begin(), one.nodes().end());
  return out;
}

// The size of the largest.
inline std::size_t largest(const Electorates& electorates) {
  std::size_t out = 0;
  for (const Electorate& one : electorates) out = std::max(out, one.size());
  return out;
}

}  // namespace lockstep::agent
