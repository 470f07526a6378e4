#include "app/specs/spec_diff.h"

#include <algorithm>
#include <set>

#include "app/specs/spec_text.h"

namespace lockstep::app {
namespace {

constexpr int kDeepest = 12;

void collect(const SpecText& spec, const std::string& path, int depth, SpecFields& out) {
  if (depth > kDeepest) return;
  if (!path.empty()) {
    if (const auto value = spec.value(path)) {
      out[path] = *value;
      return;
    }
    // A layer may have nothing but its kind.
    if (path.back() == ']')
      if (std::string kind = spec.layerKind(path); !kind.empty()) out[path] = std::move(kind);
  }
  if (const auto keys = spec.keys(path); !keys.empty()) {
    for (const std::string& key : keys)
      collect(spec, path.empty() ? key : path + "." + key, depth + 1, out);
    return;
  }
  for (int i = 0; i < spec.count(path); ++i)
    collect(spec, path + "[" + std::to_string(i) + "]", depth + 1, out);
}

}  // namespace

SpecFields specFields(const std::string& yaml) {
  SpecFields out;
  const auto spec = SpecText::parse(yaml, {}, SpecKind::kRun);
  if (spec.readable()) collect(spec, {}, 0, out);
  return out;
}

std::vector<SpecDifference> specDifferences(const std::vector<SpecFields>& specs) {
  std::set<std::string> fields;
  for (const SpecFields& spec : specs)
    for (const auto& [field, value] : spec) fields.insert(field);
  std::vector<SpecDifference> out;
  for (const std::string& field : fields) {
    SpecDifference one{field, {}};
    for (const SpecFields& spec : specs) {
      const auto found = spec.find(field);
      one.values.push_back(found == spec.end() ? std::string() : found->second);
    }
    if (std::ranges::count(one.values, one.values.front()) != std::ssize(one.values))
      out.push_back(std::move(one));
  }
  return out;
}

}  // namespace lockstep::app
