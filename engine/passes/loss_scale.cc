#include "engine/passes/loss_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lockstep::passes {

using ir::Op;
using ir::ValueId;

namespace {

// A scale grows no further than 2²⁴ and shrinks no further than 1, but to where it began: beyond,
// what keeps on overflowing is not the scale's doing.
constexpr double kMost = 16777216, kLeast = 1;
constexpr std::int64_t kCount = 16;  // elements of the state: 64 bytes
enum Member : std::int64_t { kScale, kGoodSteps, kSkipped, kMembers };

Result<ValueId> member(GraphBuilder& build, std::string name, ValueId state, Member which) {
  return build.slice(std::move(name), state, which, {1});
}

}  // namespace

Group scalingGroup(const Scaling& scaling) {
  Group group;
  group.members = {{"scale", {1}, kScale, 0},
                   {"good_steps", {1}, kGoodSteps, 0},
                   {"skipped", {1}, kSkipped, kCount - kMembers}};
  group.count = kCount;
  group.kind.stage = scaling.stage;
  return group;
}

Result<ValueId> scalingState(GraphBuilder& build, const Scaling& scaling, bool copied) {
  build.stage = scaling.stage;
  LOCKSTEP_ASSIGN(const ValueId state, build.state(std::string(kScaling), kCount));
  if (!copied) return state;
  return build.add(Op::kScale, "scaling.before", {state}, {{"factor", 1.0}});
}

Result<ValueId> lossSeed(GraphBuilder& build, const Scaling& scaling, ValueId state,
                         std::string name) {
  LOCKSTEP_ASSIGN(const ValueId scale, member(build, name + ".scale", state, kScale));
  const int digits =
      std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(scaling.terms, 1) - 1));
  return build.add(Op::kScale, std::move(name), {scale}, {{"factor", std::ldexp(1.0, -digits)}});
}

Status storeInitialScaling(GraphBuilder& build, const Scaling& scaling) {
  build.stage = scaling.stage;
  const std::string name(kScaling);
  LOCKSTEP_ASSIGN(const ValueId scale, build.fill(name + ".scale", {1}, scaling.how.initial));
  LOCKSTEP_ASSIGN(const ValueId zeros, build.fill(name + ".zeros", {kCount - 1}, 0.0));
  LOCKSTEP_ASSIGN(const ValueId all, build.add(Op::kFlatten, name, {scale, zeros}, {}));
  return build.store(name, all);
}

Result<Judged> judge(GraphBuilder& build, const Scaling& scaling, int everywhere, ValueId state,
                     ValueId norm, ValueId squares, ValueId updates, bool unscaled) {
  Judged out;
  build.stage = everywhere;
  std::vector<ValueId> inputs{norm, squares};
  if (!unscaled) {
    LOCKSTEP_ASSIGN(const ValueId seed, lossSeed(build, scaling, state, "scaling.seed"));
    inputs.push_back(seed);
  }
  LOCKSTEP_ASSIGN(out.norm,
                  build.add(Op::kFiniteNorm, std::string(kFinite), std::move(inputs), {}));
  LOCKSTEP_ASSIGN(const ValueId skipped, member(build, "scaling.skipped", state, kSkipped));
  LOCKSTEP_ASSIGN(const ValueId without,
                  build.add(Op::kScale, "scaling.without", {skipped}, {{"factor", -1.0}}));
  LOCKSTEP_ASSIGN(out.updates, build.add(Op::kAdd, "scaling.updates", {without, updates}, {}));
  LOCKSTEP_ASSIGN(const ValueId scale, member(build, "scaling.scale", state, kScale));
  LOCKSTEP_ASSIGN(const ValueId report,
                  build.add(Op::kFlatten, "scaling.report", {scale, out.norm}, {}));
  LOCKSTEP_TRY(
      build.add(Op::kResult, "scaling.result", {report}, {{"name", std::string("scaling")}})
          .status());

  build.stage = scaling.stage;
  std::vector<ValueId> before;
  for (const auto& [name, which] : {std::pair{"scaling.before.scale", kScale},
                                    {"scaling.before.good", kGoodSteps},
                                    {"scaling.before.skipped", kSkipped}}) {
    LOCKSTEP_ASSIGN(const ValueId value, member(build, name, state, which));
    before.push_back(value);
  }
  before.push_back(out.norm);
  const LossScale& how = scaling.how;
  LOCKSTEP_ASSIGN(const ValueId next,
                  build.add(Op::kLossScale, "scaling.next", std::move(before),
                            {{"interval", static_cast<double>(how.growthInterval)},
                             {"factor", how.fixed ? 1.0 : 2.0},
                             {"least", std::min(kLeast, how.initial)},
                             {"most", std::max(kMost, how.initial)}}));
  LOCKSTEP_ASSIGN(const ValueId padding, build.fill("scaling.padding", {kCount - kMembers}, 0.0));
  // Outputs of one node are numbered in a row.
  LOCKSTEP_ASSIGN(const ValueId after, build.add(Op::kFlatten, "scaling.after",
                                                 {next, next + 1, next + 2, padding}, {}));
  LOCKSTEP_TRY(build.store(std::string(kScaling), after));
  return out;
}

}  // namespace lockstep::passes
