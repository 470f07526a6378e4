#include "app/sinks/tensorboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "app/core/home.h"
#include "app/history/series_name.h"
#include "app/sinks/step_times.h"
#include "app/sinks/tensorboard_events.h"
#include "engine/base/file.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

Status writeSeries(const RunStore& store, const std::string& series, const std::string& tag,
                   const StepTimes& times, const Append& append) {
  constexpr std::size_t kAtOnce = 16384;
  LOCKSTEP_ASSIGN(const std::vector<Point> points, store.readAll(series));
  const std::span<const Point> all(points);
  for (std::size_t at = 0; at < all.size(); at += kAtOnce)
    LOCKSTEP_TRY(
        append(tensorBoardEvents(series, tag, static_cast<std::int64_t>(at),
                                 all.subspan(at, std::min(kAtOnce, all.size() - at)), times)));
  return {};
}

struct File {
  int rank = 0;                                             // whose times it has
  std::vector<std::pair<std::string, std::string>> series;  // with their tags
};

Status writeFile(const RunRow& row, const RunStore& store, const File& file,
                 const std::string& folder) {
  LOCKSTEP_TRY(makeFolders(folder, 0755));
  LOCKSTEP_ASSIGN(const StepTimes times, StepTimes::of(row, store, file.rank));
  const double start = times.ofStep(0);
  const auto fill = [&](const Append& append) -> Status {
    LOCKSTEP_TRY(append(tensorBoardHeader(start)));
    for (const auto& [series, tag] : file.series)
      LOCKSTEP_TRY(writeSeries(store, series, tag, times, append));
    return {};
  };
  return writeFileAtomically(folder + "/" + tensorBoardFile(start), fill);
}

Status writeRun(const RunRow& row, const RunStore& store, const std::string& folder,
                const std::stop_token& stop) {
  std::map<std::string, File> files{{"", {}}};  // by the folder below
  for (const SeriesInfo& info : store.series()) {
    const SeriesName name = parseSeriesName(info.name);
    if (name.rank >= 0 && name.figure == "began") continue;
    TensorBoardPlace place = tensorBoardPlace(info.name);
    File& file = files[place.folder];
    file.rank = std::max(name.rank, 0);
    file.series.emplace_back(info.name, std::move(place.tag));
  }
  for (const auto& [below, file] : files) {
    if (stop.stop_requested()) return makeError(Code::kCancelled, "the export was cancelled");
    LOCKSTEP_TRY(writeFile(row, store, file, below.empty() ? folder : folder + "/" + below));
  }
  return {};
}

Error cannotMake(const std::string& path, const std::error_code& why) {
  return systemError(why.value(), message("cannot create {}", path));
}

// In a folder beside the final one, which is renamed when it is complete.
Status writeWhole(const RunRow& row, const RunStore& store, const std::string& folder,
                  const std::stop_token& stop) {
  std::string part = fmt::format("{}/.{}.XXXXXX", folder, row.run);
  const std::string path = folder + "/" + row.run;
  if (::mkdtemp(part.data()) == nullptr)
    return systemError(errno, message("cannot create {}", part));
  std::error_code failed;
  Status written = writeRun(row, store, part, stop);
  if (written.ok()) {
    fs::permissions(part,
                    fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                        fs::perms::others_read | fs::perms::others_exec,
                    failed);
    if (!failed) fs::rename(part, path, failed);
    if (failed) written = cannotMake(path, failed);
  }
  std::error_code ignored;
  if (!written.ok()) fs::remove_all(part, ignored);
  return written;
}

}  // namespace

Status writeTensorBoard(const History& history, const std::vector<std::string>& runs,
                        const std::string& folder, const std::stop_token& stop) {
  const std::set<std::string> once(runs.begin(), runs.end());
  for (const std::string& run : once) {
    std::error_code unknown;
    if (!fs::exists(fs::symlink_status(folder + "/" + run, unknown))) continue;
    Error error = makeError(Code::kAlreadyExists, "the folder {}/{} is there already", folder, run);
    error.next = "remove it, or choose another folder";
    return error;
  }
  LOCKSTEP_TRY(makeFolders(folder, 0755));
  for (const std::string& run : once) {
    LOCKSTEP_ASSIGN(const RunRow row, history.row(run));
    LOCKSTEP_ASSIGN(const auto store, history.openRun(run));
    LOCKSTEP_TRY(writeWhole(row, *store, folder, stop));
  }
  return {};
}

}  // namespace lockstep::app
