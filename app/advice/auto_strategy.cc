#include "app/advice/auto_strategy.h"

#include <algorithm>
#include <utility>

#include "app/runs/quantity_text.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

std::vector<std::string> setsWith(const RunSpecFile& spec, const Remedy& settings) {
  std::vector<std::string> out = spec.sets;
  for (const auto& [path, value] : settings) out.push_back(fmt::format("{}={}", path, value));
  return out;
}

// Whether batch norm takes statistics of the whole batch: several micro-batches would each have
// their own, which changes results.
bool needsWholeBatch(const spec::v1::ModelSpec& model) {
  return std::any_of(model.layers().begin(), model.layers().end(), [](const auto& layer) {
    return layer.has_batch_norm() && layer.batch_norm().groups() == 1;
  });
}

Message chosenText(const Advice& advice) {
  const AdvisedStrategy& best = advice.best.front();
  const Message ranks = best.ranks == 1 ? message("1 rank") : message("{} ranks", best.ranks);
  Message text = message("auto chose {} with {}: {} per step predicted ({})", textOf(best.choice),
                         ranks, milliseconds(best.stepSeconds), best.why);
  if (advice.best.size() > 1) {
    const AdvisedStrategy& next = advice.best[1];
    text = message("{}; next best: {}, {} ({})", text, textOf(next.choice),
                   milliseconds(next.stepSeconds), next.why);
  }
  if (advice.unknownMemory > 0)
    text = message("{}; {}", text, unknownMemoryText(advice.unknownMemory));
  if (!advice.timeWasUp) return text;
  return message("{}; the time for the search was up: a new search may choose another", text);
}

// Few enough to be planned in time, so that it is not the time that decides what is found.
std::size_t mostPlansFor(const spec::v1::ClusterSpec& cluster) {
  int ranks = 0;
  for (const spec::v1::NodeSpec& node : cluster.nodes()) ranks += specs::deviceCount(node);
  return static_cast<std::size_t>(std::clamp(32768 / std::max(ranks, 1), 32, 256));
}

}  // namespace

SpecWith specWith(RunSpecFile spec) {
  return [spec = std::move(spec)](
             const Remedy& settings) -> Result<std::shared_ptr<const spec::v1::RunSpec>> {
    LOCKSTEP_ASSIGN(const RunSpecFile made,
                    completeRunSpec(spec.yaml, spec.file, setsWith(spec, settings)));
    return made.spec;
  };
}

Result<SearchStart> searchStart(const RunSpecFile& spec) {
  const spec::v1::StrategySpec& strategy = spec.spec->strategy();
  SearchStart out{spec, specs::isOpen(strategy), {}, {}};
  if (!out.open) return out;
  std::vector<const google::protobuf::FieldDescriptor*> written;
  strategy.GetReflection()->ListFields(strategy, &written);
  for (const auto* field : written) {
    const std::string path = "strategy." + field->name();
    if (field->name() == "kind") continue;
    if (isSearched(path))
      out.pinned.push_back({path, specs::fieldText(strategy, *field)});
    else
      out.kept.insert(path);
  }
  if (strategy.micro_batches() == 0 && needsWholeBatch(spec.spec->model()))
    out.pinned.push_back({"strategy.micro_batches", "1"});
  LOCKSTEP_ASSIGN(
      out.spec,
      completeRunSpec(
          spec.yaml, spec.file,
          setsWith(spec, {{"strategy.kind", std::string(specs::plainestKind(strategy))}})));
  return out;
}

Status pin(SearchStart& start, const std::vector<std::string>& pins) {
  for (const std::string& text : pins) {
    const std::size_t equals = text.find('=');
    Setting one{text.substr(0, equals),
                equals == std::string::npos ? std::string() : text.substr(equals + 1)};
    const bool isPinned =
        std::any_of(start.pinned.begin(), start.pinned.end(),
                    [&](const Setting& other) { return other.field == one.field; });
    if (start.open && one.value.empty() && !isPinned && one.field.starts_with("strategy.") &&
        isSearched(one.field))
      return invalidArgument("strategy.kind is auto, which leaves {} open; give --pin {}=VALUE",
                             one.field, one.field);
    start.pinned.push_back(std::move(one));
  }
  return {};
}

Result<Advice> advise(LaunchRequest request, const SearchStart& start,
                      const std::vector<HostFacts>& hosts, AdviceOptions options) {
  options.pinned = start.pinned;
  options.kept = start.kept;
  request.spec = start.spec.spec;
  const SpecWith with = specWith(start.spec);
  LOCKSTEP_ASSIGN(Advice advice, advise(request, with, hosts, options));
  noteLinks(advice, request, with, hosts, options);
  if (!start.open) return advice;
  advice.current.reset();
  advice.currentRefusal.reset();
  for (AdvisedStrategy& one : advice.best)
    if (std::none_of(one.settings.begin(), one.settings.end(),
                     [](const Setting& setting) { return setting.field == "strategy.kind"; }))
      one.settings.insert(one.settings.begin(), {"strategy.kind", one.choice.kind});
  return advice;
}

Result<LaunchRequest> withStrategyChosen(LaunchRequest request, const RunSpecFile& spec,
                                         const std::vector<HostFacts>& hosts,
                                         AdviceOptions options) {
  if (!specs::isOpen(request.spec->strategy())) return request;
  LOCKSTEP_ASSIGN(SearchStart start, searchStart(spec));
  if (options.mostPlans == 0) options.mostPlans = mostPlansFor(*request.cluster);
  options.pinned = std::move(start.pinned);
  options.kept = std::move(start.kept);
  request.spec = start.spec.spec;
  const SpecWith with = specWith(std::move(start.spec));
  LOCKSTEP_ASSIGN(const Advice advice, advise(request, with, hosts, options));
  LOCKSTEP_ASSIGN(request.spec, with(advice.best.front().settings));
  request.chosen = chosenText(advice);
  return request;
}

}  // namespace lockstep::app
