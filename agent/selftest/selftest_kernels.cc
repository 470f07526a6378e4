#include <algorithm>
#include <array>

#include "agent/selftest/selftest.h"
#include "engine/backends/case_run.h"
#include "engine/backends/hosted.h"

namespace lockstep::agent {

KernelFindings testKernels(std::unique_ptr<backends::Backend> given) {
  KernelFindings out;
  const auto backend = backends::hosted(std::move(given));
  std::array<KernelFinding, ir::kOpCount> found;
  std::array<bool, ir::kOpCount> isAbsent{};
  for (const backends::Case& one : backends::allCases()) {
    const auto op = static_cast<std::size_t>(one.op);
    if (!backend->supports(one.op, DType::kF32)) {
      isAbsent[op] = true;
      continue;
    }
    KernelFinding& finding = found[op];
    finding.op = ir::info(one.op).name;
    if (!out.failed.ok()) {
      if (finding.cases == 0) finding.why = "not tried: the device has failed";
      continue;
    }
    ++finding.cases;
    const auto blame = [&](const std::string& why) {
      if (!finding.why.empty()) return;
      finding.why = fmt::format("{}: {}", one.name, why);
      finding.where = one.name;
    };
    const backends::CaseOutcome want = backends::expected(one);
    // as training's operands mostly are, and as parameters may be
    for (const auto alignment :
         {backends::CaseAlignment::kSixteen, backends::CaseAlignment::kOnePast}) {
      if (!out.failed.ok()) break;
      const backends::CaseOutcome got = backends::runCase(*backend, one, {.alignment = alignment});
      if (backends::isLost(*backend)) out.failed = backends::failureOf(*backend);
      if (!want.problem.empty() || !got.problem.empty()) {
        blame(want.problem.empty() ? got.problem : want.problem);
        break;
      }
      const backends::CaseDifference apart = backends::difference(want, got);
      if (apart.relative > finding.error) {
        finding.error = apart.relative;
        finding.where = one.name;
      }
      if (apart.share > 1) blame(apart.where);
    }
  }
  for (std::size_t op = 0; op < ir::kOpCount; ++op) {
    if (!found[op].op.empty())
      out.ops.push_back(std::move(found[op]));
    else if (isAbsent[op])
      out.absent.emplace_back(ir::info(static_cast<ir::Op>(op)).name);
  }
  return out;
}

}  // namespace lockstep::agent
