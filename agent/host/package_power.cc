#include "agent/host/package_power.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "engine/base/file.h"

namespace lockstep::agent {
namespace {

std::string lineOf(const std::string& path) {
  auto text = readFile(path, 256);
  if (!text.ok()) return {};
  return text->substr(0, text->find('\n'));
}
std::optional<std::uint64_t> numberOf(const std::string& path) {
  const std::string text = lineOf(path);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || text.empty()) return {};
  return value;
}

}  // namespace

// Zones are "intel-rapl:0" with the name "package-0", and of a package "intel-rapl:0:1" with the
// name "dram". "core" and "uncore" are parts of a package; "psys" contains packages.
PackagePower::PackagePower(const std::string& folder) {
  std::error_code failed;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator zone(folder, failed); !failed && zone != end;
       zone.increment(failed)) {
    const std::string name = lineOf(zone->path() / "name");
    if (!name.starts_with("package") && name != "dram") continue;
    // intel-rapl-mmio counts packages that intel-rapl counts too.
    if (!zone->path().filename().string().starts_with("intel-rapl:")) continue;
    const auto range = numberOf(zone->path() / "max_energy_range_uj");
    if (range) counters_.push_back({zone->path() / "energy_uj", *range});
  }
}

std::optional<double> PackagePower::watts(Nanoseconds now) {
  std::uint64_t microjoules = 0;
  for (Counter& counter : counters_) {
    const auto read = numberOf(counter.file);
    const bool again = read && *read < counter.before;
    if (!read || (again && counter.before > counter.range)) {
      before_ = 0;
      counter.before = 0;
      return {};
    }
    microjoules += again ? counter.range - counter.before + *read : *read - counter.before;
    counter.before = *read;
  }
  const Nanoseconds before = std::exchange(before_, now);
  if (counters_.empty() || before == 0 || now <= before) return {};
  constexpr double kMostWatts = 1e4;  // a counter that was set back would tell more
  const double watts = static_cast<double>(microjoules) * 1e3 / static_cast<double>(now - before);
  if (watts > kMostWatts) return {};
  return watts;
}

}  // namespace lockstep::agent
