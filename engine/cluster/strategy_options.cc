#include "engine/cluster/strategy_options.h"

#include <utility>

namespace lockstep::cluster {
namespace {

Error refusal(std::string field, Message what, std::vector<Remedy> remedies) {
  Error error = invalidArgument("{}", what);
  error.field = std::move(field);
  return withRemedies(std::move(error), std::move(remedies));
}

}  // namespace

Status checkOptions(const Strategy& strategy, const StrategyOptions& options) {
  if (!strategy.servers && options.servers > 0)
    return refusal("strategy.servers",
                   message("strategy.servers is {}, but {} has none; expected 0", options.servers,
                           strategy.name),
                   {{{"strategy.servers", "0"}}});
  for (const auto& [name, size] : {std::pair{"tensor", options.tensor}, {"stages", options.stages}})
    // a server sums the gradients of workers that have the same parameters
    if (strategy.servers && size > 1)
      return refusal(
          fmt::format("strategy.{}", name),
          message("strategy {} cannot divide layers: strategy.{} is {}", strategy.name, name, size),
          {{{"strategy.tensor", "1"}, {"strategy.stages", "1"}}});
  if (options.deterministicParts > 0 &&
      (strategy.local || strategy.servers || strategy.splitOptimizer ||
       strategy.axis == kStageAxis || options.stages > 1))
    return refusal(
        "strategy.deterministic_parts",
        message(
            "strategy.deterministic_parts is {}, but {}{} cannot add up gradients in one order; "
            "expected 0",
            options.deterministicParts, strategy.name, options.stages > 1 ? " with stages" : ""),
        {{{"strategy.deterministic_parts", "0"}}});
  if (options.deterministicParts > 0 && options.shares)
    return refusal(
        "strategy.shares",
        "strategy.shares and strategy.deterministic_parts exclude each other; expected one of them",
        {{{"strategy.shares", ""}}, {{"strategy.deterministic_parts", "0"}}});
  if (options.staleness != 0 && !strategy.staleness)
    return refusal(
        "strategy.staleness",
        message(
            "strategy.staleness is {}, but {} is synchronous; expected 0, or kind parameter-server",
            options.staleness, strategy.name),
        {{{"strategy.staleness", "0"}}});
  if (options.staleness != 0 && options.microBatches > 1)
    return refusal("strategy.staleness",
                   message("strategy.staleness is {} and strategy.micro_batches {}, but "
                           "servers take what a worker "
                           "sends as one update; expected one of them left out",
                           options.staleness, options.microBatches),
                   {{{"strategy.micro_batches", "1"}}, {{"strategy.staleness", "0"}}});
  return {};
}

}  // namespace lockstep::cluster
