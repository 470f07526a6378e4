#include <cmath>
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "engine/data/click_log.h"

namespace lockstep::app::cli {

namespace {

std::string aucText(double value) { return std::isnan(value) ? "–" : fmt::format("{:.4f}", value); }

}  // namespace

int makeDataCommand(const Globals&, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto made = [&]() -> Result<data::ClickLogFacts> {
    data::ClickLog log;
    constexpr std::int64_t kMostRows = 16'000'000;  // of a file that can be read as data, 4 GiB
    LOCKSTEP_ASSIGN(log.rows, arguments.integer("rows", 1'000'000, 1, kMostRows));
    LOCKSTEP_ASSIGN(const std::int64_t seed,
                    arguments.integer("seed", 1, 0, std::int64_t{1} << 62));
    LOCKSTEP_ASSIGN(log.skew, arguments.number("skew", log.skew, 0, 10));
    log.seed = static_cast<std::uint64_t>(seed);
    const Progress goesOn = [](std::int64_t, std::int64_t) { return !isInterrupted(); };
    return data::writeClickLog(log, arguments.text("out", "ctr.tsv"), goesOn);
  }();
  if (!made.ok()) {
    report(made.error(), json);
    return exitCodeOf(made.error());
  }
  if (json) {
    JsonLine("data")
        .add("sha256", made->sha256)
        .add("ones", made->ones)
        .add("auc_ceiling", made->ceiling)
        .add("auc_ceiling_last_tenth", made->tailCeiling)
        .print();
    return kSucceeded;
  }
  put(stdout, fmt::format("AUC of the true probabilities: {}, of the last tenth of the rows {}\n"
                          "{}{:.2f} % of the labels are 1; SHA-256 {}\n",
                          aucText(made->ceiling), aucText(made->tailCeiling),
                          std::isnan(made->tailCeiling)
                              ? "–: all labels of these rows are the same, so there is no AUC\n"
                              : "",
                          100 * made->ones, made->sha256));
  return kSucceeded;
}

}  // namespace lockstep::app::cli
