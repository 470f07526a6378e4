// The files of the history: of all runs ('h' and the file), of a run ('r' and the file). Pages of a
// damaged file are SQLite's to refuse; what is in rows and blobs is ours.
#include "app/history/history.h"

#include <filesystem>
#include <optional>

#include "app/history/integrity.h"
#include "engine/base/crc32c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/small_pages.h"

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

struct Files {
  std::string history, run;
};
Files makeFiles() {
  const std::string folder = scratchFolder() + "/seed";
  std::filesystem::create_directory(folder);
  {
    auto history = app::History::open(folder);
    LOCKSTEP_CHECK(history.ok());
    auto store = (*history)->begin(row(), {"spec", "spec", "cluster", "plan", "{}", "[]"});
    LOCKSTEP_CHECK(store.ok() && (*store)->append(batch()).ok());
  }
  return {withSmallPages(folder + "/history.db"), withSmallPages(folder + "/runs/r1.db")};
}
const Files& files() {
  static const Files made = makeFiles();
  return made;
}

// The history's folder, without a file.
std::string emptyHome() {
  const std::string home = scratchFolder() + "/home";
  std::filesystem::create_directories(home + "/runs");
  for (const std::string& folder : {home, home + "/runs"})
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (!entry.is_directory()) std::filesystem::remove(entry.path());
  return home;
}

void openRun(std::string_view file) {
  const auto store = app::openRunStore(scratchFile("home/runs/r1.db", file));
  if (!store.ok()) return;
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
  (void)app::lacksFiles(**store, "n1");
  if ((*store)->lockForRecording().ok()) (void)(*store)->append(batch());
}

// Beside the file is that of a run. Another program has the history open, except for one input in
// 16: then a damaged file is renamed and a new one made, which takes ten times as long.
void openHistory(const std::string& home, std::string_view file) {
  const std::string path = scratchFile("home/history.db", file);
  scratchFile("home/runs/r1.db", files().run);
  std::optional<app::OpenLock> other;
  if (crc32c(std::as_bytes(std::span(file))) % 16 != 0) other.emplace(path).share();
  const auto history = app::History::open(home);
  if (!history.ok()) return;
  if (const auto rows = (*history)->list(); rows.ok())
    for (const app::RunRow& one : *rows) (void)(*history)->documents(one.run);
  (void)(*history)->find("last");
  (void)(*history)->leftOnNodes();
  (void)(*history)->add(row(), {});
}

}  // namespace

std::vector<std::string> seeds() { return {"h" + files().history, "r" + files().run}; }

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string home = fuzz::emptyHome();
  const std::string_view file = fuzz::textOf(bytes + 1, size - 1);
  if (*bytes == 'r')
    fuzz::openRun(file);
  else
    fuzz::openHistory(home, file);
  return 0;
}
