#include "app/runs/straggler.h"

#include <fmt/format.h>

namespace lockstep::app {

namespace {

std::string diskText(const SlowEvidence& evidence) {
  std::string text;
  if (evidence.reading.own > 0)
    text = fmt::format("it waited {:.1f} ms a step for its data files, the others {:.1f} ms",
                       1e3 * evidence.reading.own, 1e3 * evidence.reading.others);
  if (const auto& busy = evidence.diskBusy)
    text += fmt::format("{}its node's disk was busy {:.0f} % of the time, the others' {:.0f} %",
                        text.empty() ? "" : "; ", 100 * busy->own, 100 * busy->others);
  return text;
}

// "; it ran at 900 MHz, the others' at 1980 MHz", where that is known.
std::string clockText(const SlowEvidence& evidence) {
  const auto& [own, others] = evidence.clock;
  if (own <= 0 || others <= 0) return {};
  return fmt::format("; it ran at {:.0f} MHz, the others' at {:.0f} MHz", own, others);
}

}  // namespace

std::string evidenceText(const SlowEvidence& evidence) {
  const double percent = 100 * evidence.share;
  switch (evidence.cause) {
    case SlowCause::kStopped:
      return fmt::format("its process was stopped {:.0f} % of the time", percent);
    case SlowCause::kThrottled:
      return fmt::format("a CPU quota held it back {:.0f} % of the time", percent);
    case SlowCause::kCrowded:
      return fmt::format("other work had its cores {:.0f} % of the time", percent);
    case SlowCause::kFrozen:
      return fmt::format("its process did not run {:.0f} % of the time", percent);
    case SlowCause::kPaging:
      return fmt::format("it read {:.0f} pages a second from a disk (swap or mapped files)",
                         evidence.diskFaults);
    case SlowCause::kDisk:
      return diskText(evidence);
    case SlowCause::kMoreData:
      return fmt::format("its batches had {:.0f} elements, the others' {:.0f}",
                         evidence.elements.own, evidence.elements.others);
    case SlowCause::kGpuHeat:
      return fmt::format("its GPU {} was slowed down for heat {:.0f} % of the time{}", evidence.gpu,
                         percent, clockText(evidence));
    case SlowCause::kGpuPower:
      return fmt::format("its GPU {} was held at its power limit {:.0f} % of the time{}",
                         evidence.gpu, percent, clockText(evidence));
    case SlowCause::kGpuClock:
      return fmt::format("its GPU {} ran at {:.0f} MHz, the others' at {:.0f} MHz", evidence.gpu,
                         evidence.clock.own, evidence.clock.others);
    case SlowCause::kGpuLink:
      return fmt::format("the PCIe link of its GPU {} has {} of {} lanes", evidence.gpu,
                         evidence.lanes, evidence.lanesMax);
    case SlowCause::kUnknown:
      break;
  }
  return evidence.cores > 0 ? fmt::format("it had {:.2f} cores", evidence.cores) : std::string();
}

bool isSame(const Straggler& a, const Straggler& b) {
  if (a.link.has_value() != b.link.has_value()) return false;
  return a.link ? a.link->from == b.link->from && a.link->to == b.link->to : a.rank == b.rank;
}

std::string stragglerName(const Straggler& slow) {
  return slow.link ? fmt::format("link {} → {}", slow.link->from, slow.link->to)
                   : fmt::format("rank {} ({})", slow.rank, slow.node);
}

std::string stragglerText(const Straggler& slow) {
  std::string text = stragglerName(slow);
  if (slow.halted)
    return text + fmt::format(" is stopped: no step has ended since step {}", slow.sinceStep);
  if (slow.link) {
    text += fmt::format(
        " is slow: {:.1f} MB/s, usually {:.1f}; round trip {:.2f} ms, usually {:.2f}; since step "
        "{}",
        1e-6 * slow.link->rate, 1e-6 * slow.link->usualRate, 1e3 * slow.link->roundTrip,
        1e3 * slow.link->usualTrip, slow.sinceStep);
    if (losesPackets(*slow.link))
      text += fmt::format("; {:.2g} % of its packets are sent again", 100 * slow.link->resent);
    if (!slow.link->common.empty())
      text += fmt::format("; all slow links are {}'s", slow.link->common);
  } else {
    text += fmt::format(" is slow: {:.1f} times the others' time in {} since step {}", slow.factor,
                        slow.phase, slow.sinceStep);
  }
  if (const std::string why = evidenceText(slow.evidence); !why.empty()) text += "; " + why;
  if (slow.withoutSeconds > 0) {
    const std::string with = fmt::format("{:.1f}", 1e3 * slow.stepSeconds),
                      without = fmt::format("{:.1f}", 1e3 * slow.withoutSeconds);
    text += fmt::format(
        "; a step takes {} ms, {} without {}", with,
        slow.withoutSeconds >= slow.stepSeconds || with == without ? "as long" : without,
        slow.slowRanks > 1 ? fmt::format("the {} slow ranks", slow.slowRanks) : "it");
  }
  return text;
}

}  // namespace lockstep::app
