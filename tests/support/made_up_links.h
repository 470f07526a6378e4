// Links of a pre-flight as they might have been measured.
#pragma once

#include <string>
#include <vector>

#include "app/cluster/preflight.h"

namespace lockstep::tests {

// Among nodes n1, n2, … each link has 100 MB/s and a round trip of 1 ms, but that from n1 to n2 a
// fifth of the bandwidth and twice the round trip. Graded among each other.
inline app::PreflightResult madeUpLinks(int nodes) {
  using Kind = app::PreflightValue::Kind;
  app::PreflightResult out;
  for (int i = 1; i <= nodes; ++i) out.nodes.push_back("n" + std::to_string(i));
  for (const std::string& from : out.nodes)
    for (const std::string& to : out.nodes) {
      if (from == to) continue;
      const bool isSlow = from == "n1" && to == "n2";
      out.values.push_back({Kind::kBandwidth, from, to, isSlow ? 20e6 : 100e6});
      out.values.push_back({Kind::kRoundTrip, from, to, isSlow ? 2e-3 : 1e-3});
    }
  app::grade(out, {});
  return out;
}

inline void forgetLink(app::PreflightResult& result, const std::string& from,
                       const std::string& to) {
  std::erase_if(result.values, [&](const app::PreflightValue& value) {
    return value.node == from && value.peer == to;
  });
}

// One version of this kind for each of the nodes n1, n2, …; graded.
inline std::vector<app::NodeVersion> madeUpVersions(app::NodeVersion::Kind kind,
                                                    const std::vector<std::string>& versions) {
  std::vector<app::NodeVersion> out;
  for (const std::string& version : versions)
    out.push_back({kind, "n" + std::to_string(out.size() + 1), version});
  app::gradeVersions(out);
  return out;
}

}  // namespace lockstep::tests
