// The files of the history: of all runs ('h' and the file), of a run ('r' and the file). Pages of a
// damaged file are SQLite's to refuse; what is in rows and blobs is ours.
#include "app/history/history.h"

#include <filesystem>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

app::RunBatch batch() {
  app::RunBatch out;
  out.series.push_back({"loss", {}});
  for (int i = 0; i < 40; ++i)
    out.series[0].points.push_back({static_cast<double>(i), 1.0 / (i + 1)});
  out.logs = {{0, 1, "n1", 0, "line"}};
  out.epochs = {{1, 40, 0.5, 0.4, 0.9}};
  out.errors = {makeError(Code::kAborted, "rank {} ended", 1)};
  out.events = {{0, 3, "packed"}};
  out.cursors = {{"n1", 7}};
  return out;
}

app::RunRow row() {
  app::RunRow out;
  out.run = "r1";
  out.name = "mlp";
  out.error = message("rank {} ended", 1);
  return out;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string folder = scratchFolder() + "/seed";
  std::filesystem::create_directory(folder);
  {
    auto history = app::History::open(folder);
    LOCKSTEP_CHECK(history.ok());
    auto store = (*history)->begin(row(), {"spec", "spec", "cluster", "plan", "{}", "[]"});
    LOCKSTEP_CHECK(store.ok() && (*store)->append(batch()).ok());
  }
  return {"h" + fileBytes(folder + "/history.db"), "r" + fileBytes(folder + "/runs/r1.db")};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string folder = fuzz::scratchFolder() + "/home";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/runs");
  const std::string_view file = fuzz::textOf(bytes + 1, size - 1);
  if (*bytes == 'r') {
    const auto store = app::openRunStore(fuzz::scratchFile("home/runs/r1.db", file));
    if (!store.ok()) return 0;
    for (const app::SeriesInfo& series : (*store)->series())
      for (const int most : {1, 5, 1000}) {
        (void)(*store)->read(series.name, 3, 30, most);
        (void)(*store)->readAll(series.name);
      }
    (void)(*store)->logs({}, 0, 10);
    (void)(*store)->epochs();
    (void)(*store)->errors();
    (void)(*store)->events(0, 10);
    (void)(*store)->cursor("n1");
    if ((*store)->lockForRecording().ok()) (void)(*store)->append(fuzz::batch());
    return 0;
  }
  fuzz::scratchFile("home/history.db", file);
  const auto history = app::History::open(folder);
  if (!history.ok()) return 0;
  if (const auto rows = (*history)->list(); rows.ok())
    for (const app::RunRow& one : *rows) (void)(*history)->documents(one.run);
  (void)(*history)->find("last");
  (void)(*history)->leftOnNodes();
  (void)(*history)->add(fuzz::row(), {});
  return 0;
}
