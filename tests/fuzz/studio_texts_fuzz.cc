// Texts that the studio is given by others: links to a place, and dashboards. What is accepted is
// written as a text that means the same.
#include "tests/fuzz/fuzz.h"
#include "ui/studio/dashboard.h"
#include "ui/studio/place.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  ui::Dashboard dashboard = ui::defaultDashboard();
  dashboard.plots << ui::DashboardPlot{"Loss", {"loss", "rank/*/loss"}, 2, 1, true};
  return {"lockstep:run/20261101-120000-ab12?part=steps&rank=3&step=1200",
          "lockstep:learn/pipelines?batch=64&ranks=4&a%20b=%E4%B8%AD",
          ui::dashboardText(dashboard).toStdString(),
          R"({"version": 1, "columns": 99, "plots": [{"series": ["a", 1], "width": -3}, 7]})"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const QString text =
      QString::fromUtf8(reinterpret_cast<const char*>(bytes), static_cast<qsizetype>(size));
  if (const auto place = ui::placeOf(text)) {
    const QString link = ui::linkOf(*place);
    LOCKSTEP_CHECK(ui::placeOf(link) == place, "{}", link.toStdString());
  }
  bool damaged = false;
  if (const auto dashboard = ui::dashboardFromText(text, &damaged)) {
    LOCKSTEP_CHECK(dashboard->plots.size() <= ui::Dashboard::kMostPlots);
    LOCKSTEP_CHECK(ui::dashboardFromText(ui::dashboardText(*dashboard), &damaged) == dashboard);
    for (const auto& at : ui::placesOf(*dashboard))
      LOCKSTEP_CHECK(at.column >= 0 && at.column + at.columns <= dashboard->columns);
  }
  return 0;
}
