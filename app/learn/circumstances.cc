#include "app/learn/circumstances.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/specs/spec_text.h"
#include "engine/base/suggest.h"

namespace lockstep::app {
namespace {

std::optional<double> numberOf(const std::string& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

const std::vector<CircumstanceInfo>& circumstances() {
  static const std::vector<CircumstanceInfo> kAll{
      {"cluster.ranks", "number of ranks", "1", 1, 256, {}, true},
      {"cluster.ranks_per_node", "ranks of a node; must divide the ranks", "1", 1, 64, {}, true},
      {"cluster.device", "what a rank computes on", "cpu", 0, 0, {"cpu", "cuda"}},
      {"cluster.bandwidth_mbit", "of every link between nodes, Mbit/s", "10000", 1, 1e7},
      {"cluster.latency_us", "of every link between nodes, µs", "100", 1, 1e6},
      {"cluster.slow_link_mbit", "bandwidth of one link, Mbit/s; 0: as the others", "0", 0, 1e7},
      {"cluster.slow_rank", "the slow rank; -1: none", "-1", -1, 255, {}, true},
      {"cluster.slow_factor", "how many times as long it computes", "2", 1, 100},
      {"cluster.riddle", "a slow rank drawn by this number; 0: none", "0", 0, 1e6, {}, true},
      {"cluster.repaired",
       "a rank that is made as fast as the others; -1: none",
       "-1",
       -1,
       255,
       {},
       true},
      {"cluster.jitter", "random part of each rank's compute time, a fraction", "0.02", 0, 1},
      {"step.scaling",
       "strong: the batch stays; weak: it grows with the ranks",
       "strong",
       0,
       0,
       {"strong", "weak"}},
      {"all_reduce.kib", "size of the vector that is summed, KiB", "1024", 1, 1e7},
      {"failures.nodes", "number of nodes", "1000", 1, 1e6, {}, true},
      {"failures.node_mtbf_days", "mean time between two failures of a node, days", "1000", 0.01,
       1e6},
      {"failures.checkpoint_s", "time to write a checkpoint, s", "60", 0.1, 1e5},
      {"failures.restart_s", "time from a failure until training goes on, s", "300", 0, 1e6},
  };
  return kAll;
}

const CircumstanceInfo* circumstance(std::string_view name) {
  const auto& all = circumstances();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Status checkSetting(const std::string& name, const std::string& value) {
  const CircumstanceInfo* info = circumstance(name);
  if (info == nullptr) {
    if (SpecText::field(SpecKind::kRun, name)) return {};
    std::vector<std::string_view> names;
    for (const CircumstanceInfo& one : circumstances()) names.push_back(one.name);
    return invalidArgument("'{}' is no option of a run spec and no circumstance; expected {}", name,
                           expectedOneOf(name, names));
  }
  if (!info->choices.empty()) {
    if (std::find(info->choices.begin(), info->choices.end(), value) != info->choices.end())
      return {};
    return invalidArgument("{} is '{}', expected {}", name, value,
                           expectedOneOf(value, info->choices));
  }
  const auto number = numberOf(value);
  if (!number || *number < info->low || *number > info->high)
    return invalidArgument("{} is '{}', expected a number from {} to {}", name, value, info->low,
                           info->high);
  if (info->whole && *number != std::floor(*number))
    return invalidArgument("{} is '{}', expected a whole number", name, value);
  return {};
}

Result<Circumstances> Circumstances::of(const Lesson& lesson, const LessonState& state) {
  Circumstances out;
  for (const auto& [name, value] : lesson.fixed) out.values_[name] = value;
  for (const auto& [name, value] : state) {
    const Slider* slider = lesson.slider(name);
    if (slider == nullptr) return invalidArgument("the lesson has no slider '{}'", name);
    if (std::find(slider->values.begin(), slider->values.end(), value) == slider->values.end())
      return invalidArgument("slider {} has no value '{}'; expected one of {}", name, value,
                             fmt::join(slider->values, ", "));
  }
  for (const Slider& slider : lesson.sliders) {
    const auto given = state.find(slider.name);
    out.values_[slider.sets] = given == state.end() ? slider.values[slider.start] : given->second;
  }
  return out;
}

std::string Circumstances::text(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found != values_.end() ? found->second : std::string(circumstance(name)->start);
}

double Circumstances::number(std::string_view name) const {
  return numberOf(text(name)).value_or(0);
}

std::vector<std::string> Circumstances::sets() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : values_)
    if (circumstance(name) == nullptr) out.push_back(name + "=" + value);
  return out;
}

std::string Circumstances::option(const std::string& path) const {
  const auto found = values_.find(path);
  return found == values_.end() ? std::string() : found->second;
}

}  // namespace lockstep::app
