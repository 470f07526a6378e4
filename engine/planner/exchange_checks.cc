// Of the checks of a request those of what ranks exchange of gradients: no more than without
// compression, and ordered sums of few parts.
#include "engine/ir/ops.h"
#include "engine/planner/refusal.h"
#include "engine/planner/request_checks.h"

namespace lockstep::planner {

namespace {

// Ranks that all-reduce gather each other's payloads instead: ranks − 1 of them, where the
// all-reduce moves 2·(ranks − 1)/ranks of the gradients: the mean of the ranks, whatever its
// algorithm. Of what they reduce-scatter they exchange (ranks − 1)/ranks, coded or not.
Status checkSaves(const PlanRequest& request, const Strategy& strategy, int ranks,
                  const passes::Compression& how) {
  std::int64_t count = 0;
  for (const ir::Parameter& parameter : request.step.parameters)
    if (!parameter.frozen) count += elementCount(parameter.shape);
  if (count == 0) return {};
  const bool inParts = strategy.splitOptimizer;
  const std::int64_t payload = ir::payloadBytes(how.coding, count, how.kept(count)),
                     bytes = count * static_cast<std::int64_t>(sizeOf(request.step.compute)),
                     coded = inParts ? payload : ranks * payload,
                     plain = inParts ? bytes : 2 * bytes;
  if (coded <= plain) return {};
  const auto times = [&](std::int64_t moved) {  // the gradients
    return static_cast<double>(moved) * (ranks - 1) / ranks / static_cast<double>(bytes);
  };
  const double ratio = static_cast<double>(bytes) / static_cast<double>(payload);
  const bool isSmaller = payload <= bytes;
  std::vector<Remedy> remedies = set("strategy.compression", "none");
  if (strategy.axis == kDataAxis && isSmaller) remedies.push_back({{"strategy.kind", "zero-1"}});
  return refusal(
      message("gradients sent as {} would take more of the network than uncompressed ones: each of "
              "{} ranks would receive {:.3f} times the gradients a step, where uncompressed ones "
              "take {:.3f} times",
              request.compression, ranks, times(coded), times(plain)),
      isSmaller
          ? message("a rank receives the gradients of every other, each {:.2f} times smaller: "
                    "expected at most {} ranks",
                    ratio, 2 * bytes / payload)
          : message("sent so they are {:.2f} times as large", 1 / ratio),
      std::move(remedies));
}

}  // namespace

Result<std::optional<passes::Compression>> compressionOf(const PlanRequest& request,
                                                         const Strategy& strategy, int ranks) {
  if (request.compression == "none") return std::optional<passes::Compression>();
  const auto coding = ir::codingFromName(request.compression);
  if (!coding) {
    return refusal(message("unknown compression {}", request.compression),
                   "strategy.compression is one of none, fp16, bf16, int8, top-k",
                   set("strategy.compression", "none"));
  }
  if (!(request.topKRatio > 0 && request.topKRatio <= 1)) {
    return refusal(message("top-k cannot send {} of the gradients", request.topKRatio),
                   "strategy.top_k_ratio is more than 0 and at most 1",
                   set("strategy.top_k_ratio", "0.01"));
  }
  if (strategy.servers || strategy.local) {
    return refusal(
        message("strategy {} cannot send gradients as {}", strategy.name, request.compression),
        strategy.local ? "its ranks exchange parameters, not gradients"
                       : "its servers sum whole gradients as they arrive",
        {{{"strategy.compression", "none"}}, toMirrored(request, strategy)});
  }
  if (ranks == 1) return std::optional<passes::Compression>();
  const passes::Compression how{*coding, request.topKRatio};
  LOCKSTEP_TRY(checkSaves(request, strategy, ranks, how));
  return std::optional(how);
}

namespace {

// Ordered sums are for verification on few ranks: a rank gathers at most so many times what a plain
// all-reduce moves.
constexpr int kMostGathered = 64;

// With so many parts on R ranks a rank gathers (R − 1)·parts/R gradients a step; an all-reduce
// moves 2·(R − 1)/R of them.
Status checkParts(const PlanRequest& request, int ranks) {
  constexpr std::int64_t kMostParts = 2 * kMostGathered;
  const std::int64_t parts = std::int64_t{request.microBatches} * ranks,
                     batch = request.step.batch * request.microBatches;
  if (ranks == 1 || parts <= kMostParts) return {};
  std::int64_t fewer = kMostParts / ranks * ranks;
  while (fewer > 0 && batch % fewer != 0) fewer -= ranks;
  std::vector<Remedy> remedies;
  if (fewer > 0) remedies = setNumber("strategy.deterministic_parts", fewer);
  remedies.push_back({{"strategy.deterministic_parts", "0"}});
  return refusal(
      message("strategy.deterministic_parts is {}: each of {} ranks would receive {} times the "
              "gradients a step, {:.1f} times what a plain all-reduce moves; expected at most {} "
              "parts",
              parts, ranks, parts - request.microBatches, static_cast<double>(parts) / 2,
              kMostParts),
      "every rank receives the gradients of all parts and sums them in one order, which is for "
      "verification on few ranks",
      std::move(remedies));
}

}  // namespace

Status checkOrder(const PlanRequest& request, int ranks) {
  if (!request.inOrder) return {};
  if (request.compression != "none") {
    return refusal(
        message("gradients sent as {} cannot be summed in a fixed order", request.compression),
        "with strategy.deterministic_parts every rank sums all parts of the batch, one after "
        "another",
        {{{"strategy.deterministic_parts", "0"}}, {{"strategy.compression", "none"}}});
  }
  LOCKSTEP_TRY(checkParts(request, ranks));
  if (request.step.batch % ranks == 0) return {};
  const std::int64_t multiple = ranks * request.microBatches,
                     batch = request.step.batch * request.microBatches;
  return refusal(
      message("a micro-batch of {} cannot be divided evenly over {} ranks", request.step.batch,
              ranks),
      "with strategy.deterministic_parts gradients are summed in a fixed order of equal parts",
      setNumber("training.batch", (batch + multiple - 1) / multiple * multiple));
}

}  // namespace lockstep::planner
