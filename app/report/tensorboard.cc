#include "app/report/tensorboard.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "app/core/home.h"
#include "app/history/run_csv.h"
#include "app/history/series_name.h"
#include "app/report/step_times.h"
#include "engine/base/file.h"
#include "engine/base/tf_record.h"
#include "engine/base/utf8.h"
#include "lockstep/run/v1/tensorboard.pb.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

// As the name of a folder: names of nodes come from files, and could be "..". Other characters are
// written as in an address: "a/b" is "a%2Fb".
std::string folderName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !name.starts_with('.'));
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

struct Place {
  std::string folder, tag;
};
Place placeOf(const std::string& series, const SeriesName& name) {
  constexpr std::string_view kReported = "scalar/";
  if (name.rank >= 0) return {fmt::format("rank/{}", name.rank), "rank/" + name.figure};
  if (name.node.empty())
    return {"", series.starts_with(kReported) ? series.substr(kReported.size()) : series};
  const std::string node = "node/" + folderName(name.node);
  if (name.gpu >= 0) return {fmt::format("{}/gpu/{}", node, name.gpu), "gpu/" + name.figure};
  if (!name.to.empty()) return {node + "/to/" + folderName(name.to), "link/" + name.figure};
  return {node, "node/" + name.figure};
}

std::int64_t wholeOf(double x) {
  return std::abs(x) < std::ldexp(1, 62) ? std::llround(x) : 0;  // 0: of a damaged file
}

float floatOf(double y) {
  if (std::abs(y) > std::numeric_limits<float>::max()) return y > 0 ? HUGE_VALF : -HUGE_VALF;
  return static_cast<float>(y);
}

Status writeSeries(const RunStore& store, const std::string& series, const std::string& tag,
                   const StepTimes& times, const Append& append) {
  LOCKSTEP_ASSIGN(const std::vector<Point> points, store.readAll(series));
  const SeriesAxis axis = seriesAxis(series);
  run::v1::TensorBoardValue value;
  value.set_tag(validUtf8(tag));
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto [x, y] = points[i];
    value.set_simple_value(floatOf(y));
    run::v1::TensorBoardEvent event;
    const bool overTime = axis == SeriesAxis::kTime;
    event.set_wall_time(times.ofPoint(axis, x));
    event.set_step(overTime ? static_cast<std::int64_t>(i) : wholeOf(x));
    event.mutable_summary()->add_value(value.SerializeAsString());
    out += tfRecord(event.SerializeAsString());
    if (out.size() < std::size_t{1} << 20 && i + 1 < points.size()) continue;
    LOCKSTEP_TRY(append(out));
    out.clear();
  }
  return {};
}

// Readers skip no events after a restart where the first one has this version.
std::string versionEvent(double time) {
  run::v1::TensorBoardEvent event;
  event.set_wall_time(time);
  event.set_file_version("brain.Event:2");
  return tfRecord(event.SerializeAsString());
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
    LOCKSTEP_TRY(append(versionEvent(start)));
    for (const auto& [series, tag] : file.series)
      LOCKSTEP_TRY(writeSeries(store, series, tag, times, append));
    return {};
  };
  return writeFileAtomically(
      fmt::format("{}/events.out.tfevents.{:010}.lockstep", folder, wholeOf(std::floor(start))),
      fill);
}

Status writeRun(const RunRow& row, const RunStore& store, const std::string& folder,
                const std::stop_token& stop) {
  std::map<std::string, File> files{{"", {}}};  // by the folder below
  for (const SeriesInfo& info : store.series()) {
    const SeriesName name = parseSeriesName(info.name);
    if (name.rank >= 0 && name.figure == "began") continue;
    Place place = placeOf(info.name, name);
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
