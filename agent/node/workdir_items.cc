#include "agent/node/workdir_items.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "agent/workload/program_setup.h"
#include "engine/base/list_folder.h"
#include "engine/base/remove_tree.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using node::v1::WorkdirItem;

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr std::int64_t kShortestIdle = 3600;  // seconds
constexpr int kMostNested = 64;               // folders in folders: more are not Lockstep's

Nanoseconds toNanoseconds(const timespec& time) {
  return static_cast<Nanoseconds>(time.tv_sec) * kSecond + time.tv_nsec;
}

bool look(const std::string& path, struct stat& info) { return lstat(path.c_str(), &info) == 0; }

bool isFolder(const std::string& path) {
  struct stat info {};
  return look(path, info) && S_ISDIR(info.st_mode);
}

Nanoseconds modifiedAt(const std::string& path) {
  struct stat info {};
  return look(path, info) ? toNanoseconds(info.st_mtim) : 0;
}

void setProblem(WorkdirItem& item, const Message& problem) {
  if (!item.has_problem()) *item.mutable_problem() = specs::toText(problem);
}

void setInUse(WorkdirItem& item, const Message& why) {
  if (!item.has_in_use()) *item.mutable_in_use() = specs::toText(why);
}

// Adds up the sizes of the files in a folder.
class Measurement {
 public:
  Measurement(WorkdirItem& item, Nanoseconds end, const std::function<bool()>& cancelled)
      : item_(item), end_(end), cancelled_(cancelled) {}

  void add(const std::string& path) {
    struct stat info {};
    if (!look(path, info)) return;  // removed meanwhile
    device_ = info.st_dev;
    addEntry(path, info, 0);
  }

 private:
  bool isOver() {
    if (over_) return true;
    constexpr int kEvery = 64;
    if (++seen_ % kEvery == 1) over_ = monotonicNow() > end_ || cancelled_();
    if (over_) item_.set_partly_measured(true);
    return over_;
  }
  void addEntry(const std::string& path, const struct stat& info, int depth) {
    if (isOver()) return;
    if (S_ISREG(info.st_mode)) item_.set_bytes(item_.bytes() + info.st_size);
    if (!S_ISDIR(info.st_mode)) return;
    if (info.st_dev != device_) return omit(message("{} is on another file system", path));
    if (depth == kMostNested) return omit(message("{} is nested too deeply", path));
    std::error_code failed;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end && !over_;
         entry.increment(failed)) {
      struct stat inner {};
      if (look(entry->path().string(), inner)) addEntry(entry->path().string(), inner, depth + 1);
    }
    if (failed && failed.value() != ENOENT)
      omit(message("cannot read {}: {}", path, systemError(failed.value(), "").why));
  }
  void omit(const Message& problem) {
    item_.set_partly_measured(true);
    setProblem(item_, problem);
  }

  WorkdirItem& item_;
  const Nanoseconds end_;
  const std::function<bool()>& cancelled_;
  dev_t device_ = 0;
  std::uint64_t seen_ = 0;
  bool over_ = false;
};

// The folders of runs as an agent makes them: reading a pipe would take its time.
std::vector<RunFolder> plainRuns(const Workdir& workdir) {
  std::vector<RunFolder> out = findRuns(workdir, "");
  std::erase_if(out, [](const RunFolder& folder) {
    struct stat request {
    }, state{};
    return !look(folder.request(), request) || !S_ISREG(request.st_mode) ||
           (look(folder.state(), state) && !S_ISREG(state.st_mode));
  });
  return out;
}

bool isUnderWay(const RunFolder& folder) {
  return !isFinal(folder.readState()) && isLocked(folder.lock());
}

// When a run ended: its last state was written then, or its killed supervisor wrote its last
// record.
Nanoseconds endOf(const RunFolder& folder, run::v1::RunState state) {
  const Nanoseconds stated = modifiedAt(folder.state());
  if (isFinal(state)) return stated;
  return std::max({stated, modifiedAt(folder.spool()), modifiedAt(folder.spool() + "-wal")});
}

}  // namespace

std::vector<RunStart> runStarts(const Workdir& workdir) {
  std::vector<RunStart> out;
  for (const RunFolder& folder : plainRuns(workdir)) {
    if (!isUnderWay(folder)) continue;
    const auto request = folder.readRequest();
    if (!request.ok()) continue;
    const std::string& reads = request->resume_from().empty()
                                   ? request->spec().model().init_from().checkpoint()
                                   : request->resume_from();
    if (reads.empty()) continue;
    std::error_code failed;
    const fs::path from = fs::weakly_canonical(reads, failed);
    if (!failed) out.push_back({request->run(), from.string()});
  }
  return out;
}

std::string runReading(const std::vector<RunStart>& starts, const RunFolder& folder) {
  for (const RunStart& start : starts)
    if ((start.from + "/").starts_with(folder.path + "/")) return start.run;
  return {};
}

Message whyKept(const WorkdirItem& item, std::int64_t idleSeconds) {
  if (item.has_in_use()) return specs::fromText(item.in_use());
  if (item.kind() == WorkdirItem::VERSION) return "old versions are removed by the next deployment";
  if (item.idle_seconds() < std::max(idleSeconds, kShortestIdle))
    return "it was used more recently";
  return {};
}

WorkdirItems::WorkdirItems(const Workdir& workdir)
    : workdir_(workdir), now_(wallNow()), starts_(runStarts(workdir)) {
  readRuns();
}

void WorkdirItems::readRuns() {
  for (const RunFolder& folder : plainRuns(workdir_)) {
    Run run{folder, folder.readState(), false, 0, {}};
    run.underWay = !isFinal(run.state) && isLocked(folder.lock());
    run.ended = endOf(folder, run.state);
    if (const auto request = folder.readRequest(); request.ok())
      for (const auto& [name, path] : request->data_paths()) {
        std::error_code failed;
        run.files.insert(path);
        run.files.insert(fs::weakly_canonical(path, failed).string());
      }
    runs_.push_back(std::move(run));
  }
}

std::vector<WorkdirItem> WorkdirItems::list() const {
  Items out;
  listRuns(out);
  listData(out);
  listDecoded(out);
  listVersions(out);
  listPrograms(out);
  return out;
}

std::vector<std::string> WorkdirItems::entriesOf(const std::string& folder, Items& out) const {
  const std::string path = workdir_.path + "/" + folder;
  struct stat info {};
  std::vector<std::string> names;
  if (!look(path, info)) return names;
  std::error_code failed;
  if (S_ISDIR(info.st_mode)) {
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end;
         entry.increment(failed))
      names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    if (!failed || failed.value() == ENOENT) return names;
  }
  WorkdirItem item = itemOf(WorkdirItem::REMAINS, folder);
  if (S_ISLNK(info.st_mode))
    setInUse(item, "it is a symbolic link, which is not followed");
  else if (!S_ISDIR(info.st_mode))
    setInUse(item, "it is not a folder");
  else
    setInUse(item, message("it cannot be read: {}", systemError(failed.value(), "").why));
  setProblem(item, message("cannot read {}: {}", path, specs::fromText(item.in_use())));
  item.set_partly_measured(true);
  out.push_back(std::move(item));
  return names;
}

WorkdirItem WorkdirItems::itemOf(WorkdirItem::Kind kind, const std::string& name) const {
  WorkdirItem item;
  item.set_kind(kind);
  item.set_name(name);
  const Nanoseconds modified = modifiedAt(workdir_.path + "/" + name);
  item.set_idle_seconds(std::max<Nanoseconds>(0, now_ - modified) / kSecond);
  return item;
}

WorkdirItem WorkdirItems::runItem(const std::string& name) const {
  const std::string path = workdir_.path + "/" + name;
  const auto run = std::find_if(runs_.begin(), runs_.end(),
                                [&](const Run& one) { return one.folder.path == path; });
  WorkdirItem item = itemOf(run == runs_.end() ? WorkdirItem::REMAINS : WorkdirItem::RUN, name);
  if (run == runs_.end()) {
    if (isLocked(path + "/lock")) setInUse(item, "a supervisor holds its lock");
    return item;
  }
  item.set_node(fs::path(name).filename().string());
  item.set_run(fs::path(name).parent_path().filename().string());
  item.set_idle_seconds(std::max<Nanoseconds>(0, now_ - run->ended) / kSecond);
  const bool isKilled = !isFinal(run->state) && !run->underWay;
  item.set_state(isKilled ? run::v1::FAILED : run->state);
  if (run->underWay)
    setInUse(item, "the run is under way");
  else if (const std::string reading = runReading(starts_, run->folder); !reading.empty())
    setInUse(item, message("run {} starts from its checkpoint", reading));
  return item;
}

void WorkdirItems::listRuns(Items& out) const {
  for (const std::string& run : entriesOf("runs", out)) {
    const std::string name = "runs/" + run;
    if (run.starts_with(".removed-")) {
      out.push_back(itemOf(WorkdirItem::REMAINS, name));
      continue;
    }
    const std::size_t before = out.size();
    const auto nodes = entriesOf(name, out);
    for (const std::string& node : nodes) {
      if (isFolder(workdir_.path + "/" + name + "/" + node))
        out.push_back(runItem(name + "/" + node));
      else
        (void)entriesOf(name + "/" + node, out);  // adds an item with the problem
    }
    if (out.size() == before) out.push_back(itemOf(WorkdirItem::REMAINS, name));  // empty
  }
}

WorkdirItem WorkdirItems::fileItem(WorkdirItem::Kind kind, const std::string& name) const {
  WorkdirItem item = itemOf(kind, name);
  const std::string path = workdir_.path + "/" + name;
  struct stat info {};
  if (!look(path, info)) return item;
  if (!S_ISREG(info.st_mode)) {
    setInUse(item, "it is not a file");
    return item;
  }
  Nanoseconds used = std::max(toNanoseconds(info.st_mtim), toNanoseconds(info.st_atim));
  for (const Run& run : runs_) {
    if (!run.files.contains(path)) continue;
    used = std::max(used, run.ended);
    if (run.underWay)
      setInUse(item, message("run {} uses it",
                             fs::path(run.folder.path).parent_path().filename().string()));
  }
  item.set_idle_seconds(std::max<Nanoseconds>(0, now_ - used) / kSecond);
  return item;
}

void WorkdirItems::listData(Items& out) const {
  for (const std::string& hash : entriesOf("data", out)) {
    const std::string name = "data/" + hash;
    if (hash.starts_with(".part-")) {
      out.push_back(itemOf(WorkdirItem::REMAINS, name));
      continue;
    }
    const std::size_t before = out.size();
    for (const std::string& file : entriesOf(name, out))
      out.push_back(fileItem(WorkdirItem::DATA, name + "/" + file));
    if (out.size() == before) out.push_back(itemOf(WorkdirItem::REMAINS, name));
  }
}

void WorkdirItems::listDecoded(Items& out) const {
  for (const std::string& host : entriesOf("decoded", out))
    for (const std::string& file : entriesOf("decoded/" + host, out)) {
      const bool part = file.starts_with(".part-");
      out.push_back(fileItem(part ? WorkdirItem::REMAINS : WorkdirItem::DECODED,
                             "decoded/" + host + "/" + file));
    }
}

void WorkdirItems::listVersions(Items& out) const {
  for (const std::string& version : entriesOf("versions", out)) {
    const std::string name = "versions/" + version;
    if (version.starts_with('.')) {
      out.push_back(itemOf(WorkdirItem::REMAINS, name));
      continue;
    }
    WorkdirItem item = itemOf(WorkdirItem::VERSION, name);
    const std::string path = workdir_.path + "/" + name;
    if (!isFolder(path))
      setInUse(item, "it is not a folder");
    else if (versionFolder() == path || !listFolder(path + "/leases").empty())
      setInUse(item, "an agent or a run of this version is under way");
    out.push_back(std::move(item));
  }
}

void WorkdirItems::listPrograms(Items& out) const {
  for (const std::string& key : entriesOf("programs", out)) {
    const std::string name = "programs/" + key;
    const std::string path = workdir_.path + "/" + name;
    if (key.starts_with('.') || !isFolder(path)) {
      out.push_back(itemOf(WorkdirItem::REMAINS, name));
      continue;
    }
    const SetupFolder folder{path};
    WorkdirItem item = itemOf(WorkdirItem::PROGRAM, name);
    const Nanoseconds used = std::max(modifiedAt(folder.done()), modifiedAt(path));
    item.set_idle_seconds(std::max<Nanoseconds>(0, now_ - used) / kSecond);
    if (isLocked(folder.lock())) setInUse(item, "a launch sets it up, or copies it");
    out.push_back(std::move(item));
  }
}

void WorkdirItems::measure(WorkdirItem& item, Nanoseconds end,
                           const std::function<bool()>& cancelled) const {
  if (item.has_problem()) return;  // it cannot be read
  Measurement(item, end, cancelled).add(workdir_.path + "/" + item.name());
}

// Renamed first: whoever waits for it makes a new one.
Message WorkdirItems::removeProgram(const std::string& name) const {
  const SetupFolder folder{workdir_.path + "/" + name};
  const auto held = tryHoldSetup(folder);
  if (!held.ok()) return held.error().message();
  const std::string aside = fmt::format("{}/.removed-{}", workdir_.programs(), monotonicNow());
  std::error_code failed;
  fs::rename(folder.path, aside, failed);
  if (!failed) failed = removeTree(aside);
  return failed ? systemError(failed.value(), message("cannot remove {}", folder.path)).message()
                : Message();
}

Message WorkdirItems::remove(const WorkdirItem& item, const fs::path& aside) const {
  const fs::path path = workdir_.path + "/" + item.name();
  if (item.kind() == WorkdirItem::PROGRAM && aside.empty()) return removeProgram(item.name());
  std::error_code failed;
  // A file may have come into an empty folder of a data file meanwhile.
  if (item.kind() == WorkdirItem::REMAINS && path.parent_path().filename() == "data")
    fs::remove(path, failed);
  else
    failed = removeTree(aside.empty() ? path : aside);
  if (failed)
    return systemError(failed.value(), message("cannot remove {}", path.string())).message();
  // The folder of a data file's hash, or of a run's nodes.
  const fs::path parent = path.parent_path();
  if (item.kind() == WorkdirItem::DATA || parent.parent_path() == workdir_.runs())
    fs::remove(parent, failed);  // if it is empty now
  return {};
}

}  // namespace lockstep::agent
