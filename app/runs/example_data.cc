#include "app/runs/example_data.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <vector>

#include "app/ssh/run_process.h"
#include "engine/base/file.h"
#include "engine/data/click_log.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

Status makeText(const std::string& path, const std::stop_token& stop) {
  constexpr std::size_t kLeast = 4'000'000;  // the whole Bible has 4.4 MB
  const auto printed =
      runProcess({"bible", "-l", "0", "gen1:1-rev22:21"}, std::chrono::minutes(2), stop);
  if (printed.ok() && printed->exitStatus == 0 && printed->output.size() >= kLeast)
    return writeFileAtomically(path, printed->output, 0644);
  if (!printed.ok() && printed.error().code == Code::kCancelled) return printed.error();
  Error error = makeError(Code::kFailedPrecondition,
                          "the data file {} does not exist and cannot be made", path);
  error.why = !printed.ok() && printed.error().code == Code::kNotFound
                  ? "the program bible is not installed"
                  : "the program bible does not print the whole text";
  error.next =
      "install the Debian packages bible-kjv and bible-kjv-text, or set data.train.text and "
      "data.evaluate.text to another text";
  return error;
}

Status makeClickLog(const std::string& path, const std::stop_token& stop) {
  data::ClickLog log;
  log.rows = 1'000'000;
  const auto goesOn = [&](std::int64_t, std::int64_t) { return !stop.stop_requested(); };
  return data::writeClickLog(log, path, goesOn).status();
}

struct ExampleFile {
  std::string_view name;
  Status (*make)(const std::string& path, const std::stop_token& stop);
};
constexpr std::array kFiles{ExampleFile{"kjv.txt", makeText}, ExampleFile{"ctr.tsv", makeClickLog}};

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool isWritable(const fs::path& folder) {
  return faccessat(AT_FDCWD, folder.c_str(), W_OK, AT_EACCESS) == 0;
}

// Returns where the file is, or can be made. A folder that does not exist is a mistake in the spec.
std::string placeOf(const std::string& path, const std::string& fallbackFolder) {
  const fs::path wanted(path);
  const fs::path folder = wanted.parent_path();
  if (exists(path) || !exists(folder.string()) || isWritable(folder)) return path;
  return fallbackFolder + "/" + wanted.filename().string();
}

}  // namespace

namespace {

// A data file of the spec with the name of an example's, and where it is or can be made.
struct Named {
  std::string* path;
  const ExampleFile* file;
};
std::vector<Named> namedIn(spec::v1::RunSpec& spec, const std::string& fallbackFolder) {
  std::vector<Named> out;
  for (auto* files :
       {spec.mutable_data()->mutable_train(), spec.mutable_data()->mutable_evaluate()})
    for (std::string* path : {files->mutable_text(), files->mutable_table()}) {
      const std::string name = fs::path(*path).filename().string();
      for (const ExampleFile& file : kFiles) {
        if (name != file.name) continue;
        *path = placeOf(*path, fallbackFolder);
        out.push_back({path, &file});
      }
    }
  return out;
}

}  // namespace

Result<std::shared_ptr<const spec::v1::RunSpec>> provideExampleData(
    std::shared_ptr<const spec::v1::RunSpec> spec, const std::string& fallbackFolder,
    const std::function<void(const std::string&)>& onMaking, const std::stop_token& stop) {
  auto out = std::make_shared<spec::v1::RunSpec>(*spec);
  for (const auto& [path, file] : namedIn(*out, fallbackFolder)) {
    if (exists(*path)) continue;
    const fs::path folder = fs::path(*path).parent_path();
    std::error_code ignored;
    if (folder == fallbackFolder) fs::create_directories(folder, ignored);
    if (!exists(folder.string())) continue;  // whoever reads the file says so
    onMaking(*path);
    LOCKSTEP_TRY(file->make(*path, stop));
  }
  return std::shared_ptr<const spec::v1::RunSpec>(std::move(out));
}

ExampleData findExampleData(const spec::v1::RunSpec& spec, const std::string& fallbackFolder) {
  auto out = std::make_shared<spec::v1::RunSpec>(spec);
  bool missing = false;
  for (const auto& [path, file] : namedIn(*out, fallbackFolder))
    missing = missing || !exists(*path);
  return {std::move(out), missing};
}

}  // namespace lockstep::app
