// What ranks read of each other in their store before their GPUs form groups: reports, and the
// decision of rank 0, with NCCL's unique id. An input is the decision and the reports, a line each.
#include "engine/runtime/device_agreement.h"

#include <set>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  using runtime::DeviceDecision;
  using runtime::DeviceReport;
  const std::string yes = DeviceDecision{"", std::string(128, '\3')}.text();
  const std::string no = DeviceDecision{"of rank 1: there is no NCCL", ""}.text();
  const std::string first = DeviceReport{"", "GPU-1", "2.28.9"}.text();
  const std::string second = DeviceReport{"", "GPU-2", "2.28.9"}.text();
  const std::string none = DeviceReport{"there is no NCCL", "", ""}.text();
  return {yes + "\n" + first + "\n" + second, no + "\n" + first + "\n" + none,
          "can\n" + first + "\n" + first};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  std::string_view text = fuzz::textOf(bytes, size);
  const auto line = [&text] { return fuzz::takeUntil(text, '\n'); };
  if (const auto decision = runtime::DeviceDecision::parse(line()); decision.ok()) {
    LOCKSTEP_CHECK(decision->whyNot.empty() != decision->id.empty());
    const auto again = runtime::DeviceDecision::parse(decision->text());
    LOCKSTEP_CHECK(again.ok() && again->id == decision->id && again->whyNot == decision->whyNot);
  }
  std::vector<runtime::DeviceReport> reports;
  while (!text.empty() && reports.size() < 100) {
    reports.push_back(runtime::DeviceReport::parse(line()));
    const auto again = runtime::DeviceReport::parse(reports.back().text());
    LOCKSTEP_CHECK(again.whyNot == reports.back().whyNot);
  }
  if (!runtime::reasonAgainst(reports).empty()) return 0;
  std::set<std::string> devices;
  for (const auto& report : reports) {
    LOCKSTEP_CHECK(report.whyNot.empty() && report.version == reports.front().version);
    LOCKSTEP_CHECK(devices.insert(report.device).second, "two ranks have {}", report.device);
  }
  return 0;
}
