#include "app/runs/code_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "app/runs/code_patch.h"
#include "app/runs/git.h"
#include "app/runs/quantity_text.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/memory.h"
#include "engine/base/text.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"
#include "lockstep/spec/v1/code.pb.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = "part-";  // names in the folder of collections begin so

Error cancelled() { return makeError(Code::kCancelled, "collecting the code was cancelled"); }

// A folder that is removed at the end.
struct Scratch {
  std::string path;
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// Makes git read a folder that someone else owns. Commands with it call no program that the
// repository's configuration names.
constexpr const char* kAnyOwner = "safe.directory=*";

struct Entry {
  std::int64_t size = 0;
  bool executable = false;
  std::string link;
};

// The files of a folder and of the repositories in it.
class Listing {
 public:
  Listing(const Git& git, std::string root, std::string scratch)
      : git_(git), root_(std::move(root)), scratch_(std::move(scratch)) {}

  // `exclude`: file of patterns, absolute; "": none. Files below the folder `besides` are not
  // listed.
  Status make(const std::string& exclude, const std::string& besides) {
    exclude_ = exclude;
    besides_ = besides;
    LOCKSTEP_TRY(addFolder("", true));
    if (!exclude_.empty()) LOCKSTEP_TRY(removeExcluded());
    for (const auto& [path, entry] : entries_) LOCKSTEP_TRY(checkLink(path, entry));
    return {};
  }

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::string& commit() const { return commit_; }
  bool changed() const { return !commit_.empty() && !differing_.empty(); }
  CodeChanges changes() const;

 private:
  Status addFolder(const std::string& below, bool ofCommit);
  Status addPath(const std::string& path, bool ofCommit, bool differs);
  Status addDiffering(const std::string& below, const std::string& prefix);
  Status removeExcluded();
  Status checkLink(const std::string& path, const Entry& entry) const;
  bool isBelowFolders(const std::string& path);
  bool isAlsoFolder(const std::string& path) const;
  Result<std::optional<std::string>> prefixOf(const std::string& folder) const;
  Result<std::vector<std::string>> list(const std::string& below, bool inRepository,
                                        const std::vector<std::string>& which) const;

  const Git& git_;
  const std::string root_;     // canonical
  const std::string scratch_;  // an empty repository, for folders that are in none
  std::string exclude_, besides_;
  std::map<std::string, Entry> entries_;  // by path below the root
  std::set<std::string> differing_;       // from the commit, or not in it
  // The folder of its repository, of each file that git tracks and that differs: also of those that
  // are left out.
  std::map<std::string, std::string> tracked_;
  std::map<std::string, bool> folders_;  // whether the path is a folder, not a link to one
  std::string commit_;
};

// Path of the folder in the work tree of its repository, with '/' at the end; nullopt: in none.
Result<std::optional<std::string>> Listing::prefixOf(const std::string& folder) const {
  LOCKSTEP_ASSIGN(
      const ProcessResult ran,
      git_.run(folder, {"-c", kAnyOwner, "rev-parse", "--is-inside-work-tree", "--show-prefix"}));
  constexpr std::string_view kInside = "true\n";
  if (ran.exitStatus == 0 && ran.output.starts_with(kInside))
    return std::optional(ran.output.substr(kInside.size(), ran.output.size() - kInside.size() - 1));
  if (ran.exitStatus == 0 || ran.errorOutput.find("not a git repository") != std::string::npos)
    return std::optional<std::string>();
  return Git::failure(folder, ran);
}

Result<std::vector<std::string>> Listing::list(const std::string& below, bool inRepository,
                                               const std::vector<std::string>& which) const {
  const std::string folder = root_ + "/" + below;
  std::vector<std::string> words = {"-c", kAnyOwner};
  if (!inRepository) words.insert(words.end(), {"--git-dir=" + scratch_, "--work-tree=" + folder});
  words.insert(words.end(), {"ls-files", "-z"});
  words.insert(words.end(), which.begin(), which.end());
  return git_.names(folder, words);
}

// Adds the files of a folder "" or "folder/". `ofCommit`: its commit belongs to that of the root.
Status Listing::addFolder(const std::string& below, bool ofCommit) {
  const bool isRoot = below.empty();
  LOCKSTEP_ASSIGN(const std::optional<std::string> prefix, prefixOf(root_ + "/" + below));
  bool inRepository = prefix && (isRoot || prefix->empty());
  const bool isTop = !prefix || prefix->empty();
  std::vector<std::string> others = {"--others"};
  // Only here are the patterns relative to the right folder. Elsewhere removeExcluded() alone uses
  // them; this spares git the files of excluded folders. In this order they bring back nothing that
  // git ignores.
  if (isRoot && isTop && !exclude_.empty()) others.push_back("--exclude-from=" + exclude_);
  others.push_back("--exclude-standard");
  std::vector<std::string> tracked, untracked;
  if (inRepository) {
    LOCKSTEP_ASSIGN(tracked, list(below, true, {"--cached"}));
    LOCKSTEP_ASSIGN(untracked, list(below, true, others));
    // A folder that its repository ignores, as all in a home folder, is not the repository's.
    inRepository = isTop || !tracked.empty() || !untracked.empty();
  }
  if (!inRepository) {
    LOCKSTEP_ASSIGN(untracked, list(below, false, others));
  }
  std::string commit;
  if (inRepository && ofCommit) {
    LOCKSTEP_ASSIGN(const ProcessResult head,
                    git_.run(root_ + "/" + below,
                             {"-c", kAnyOwner, "rev-parse", "--verify", "--quiet", "HEAD"}));
    if (head.exitStatus == 0) commit = withoutLineEnds(head.output);
  }
  if (isRoot) commit_ = commit;
  if (!commit.empty()) LOCKSTEP_TRY(addDiffering(below, *prefix));
  for (const std::string& path : tracked)
    LOCKSTEP_TRY(addPath(below + path, !commit.empty(), commit.empty()));
  for (const std::string& path : untracked) LOCKSTEP_TRY(addPath(below + path, false, true));
  return {};
}

// Adds a path that git lists: of a file, or of a repository within its own.
Status Listing::addPath(const std::string& listed, bool ofCommit, bool differs) {
  const bool endsInSlash = listed.ends_with('/');
  const std::string path = listed.substr(0, listed.size() - (endsInSlash ? 1 : 0));
  if ((path + "/").starts_with(besides_)) return {};
  struct stat info {};
  const std::string full = root_ + "/" + path;
  // A deleted file may be named by the index still.
  if (!isBelowFolders(path) || lstat(full.c_str(), &info) != 0) return {};
  if (S_ISDIR(info.st_mode)) return addFolder(path + "/", ofCommit);
  Entry entry;
  if (S_ISLNK(info.st_mode)) {
    char target[PATH_MAX];
    const ssize_t size = readlink(full.c_str(), target, sizeof target);
    if (size < 0) return systemError(errno, message("cannot read {}", validUtf8(full)));
    entry.link.assign(target, static_cast<std::size_t>(size));
  } else if (S_ISREG(info.st_mode)) {
    entry.size = info.st_size;
    entry.executable = (info.st_mode & S_IXUSR) != 0;
  } else {
    Error error = invalidArgument("{} is neither a file nor a link", validUtf8(full));
    error.field = "workload.code.from";
    return error;
  }
  entries_[path] = std::move(entry);
  if (differs) differing_.insert(path);
  return {};
}

// A file whose folder was replaced by a link is gone, though a file may be found through the link.
bool Listing::isBelowFolders(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return true;
  const std::string folder = path.substr(0, slash);
  if (const auto known = folders_.find(folder); known != folders_.end()) return known->second;
  struct stat info {};
  const bool is = isBelowFolders(folder) && lstat((root_ + "/" + folder).c_str(), &info) == 0 &&
                  S_ISDIR(info.st_mode);
  return folders_[folder] = is;
}

// Adds the tracked files that differ from the commit. git may call filters to compare them, so it
// does not where someone else owns the folder; they count as different then.
Status Listing::addDiffering(const std::string& below, const std::string& prefix) {
  LOCKSTEP_ASSIGN(
      const ProcessResult ran,
      git_.run(root_ + "/" + below, {"status", "--porcelain", "-z", "--untracked-files=no",
                                     "--no-renames", "--ignore-submodules=dirty", "--", "."}));
  if (ran.exitStatus != 0) {
    differing_.insert(below);
    return {};
  }
  const std::size_t begin = std::string_view("XY ").size() + prefix.size();
  for (const std::string& line : splitNames(ran.output)) {
    if (line.size() <= begin) continue;
    const std::string path = below + line.substr(begin);
    tracked_[path] = below;
    if (!path.starts_with(besides_)) differing_.insert(path);
  }
  return {};
}

// A file that has become a folder, or a folder that has become a file: to git, its path names the
// files in the folder too, which may be left out.
bool Listing::isAlsoFolder(const std::string& path) const {
  const auto next = tracked_.lower_bound(path + "/");
  return next != tracked_.end() && next->first.starts_with(path + "/") &&
         next->second == tracked_.at(path);
}

CodeChanges Listing::changes() const {
  CodeChanges out;
  if (commit_.empty()) return out;
  for (const std::string& path : differing_) {
    const auto tracked = tracked_.find(path);
    if (tracked != tracked_.end() && !isAlsoFolder(path))
      out.tracked[tracked->second].push_back(path.substr(tracked->second.size()));
    else
      out.others.push_back(path);
  }
  return out;
}

// Removes what the patterns match, in an empty folder: no .gitignore there says otherwise. "./"
// before a path keeps git from taking one that begins with ':' for a pattern.
Status Listing::removeExcluded() {
  std::string input;
  for (const auto& [path, entry] : entries_) input += "./" + path + '\0';
  for (const std::string& path : differing_)
    if (!path.empty() && !entries_.contains(path)) input += "./" + path + '\0';
  const std::string empty = scratch_ + "/empty";
  constexpr int kNone = 1;
  LOCKSTEP_ASSIGN(
      const std::vector<std::string> matching,
      git_.names(empty,
                 {"-c", "core.excludesFile=" + exclude_, "--git-dir=" + scratch_,
                  "--work-tree=" + empty, "check-ignore", "--no-index", "-z", "--stdin"},
                 input, kNone));
  for (const std::string& path : matching) {
    entries_.erase(path.substr(2));
    differing_.erase(path.substr(2));
  }
  return {};
}

// The folder has another name on a node, so a link that leaves it and comes back by its name leads
// nowhere there.
Status Listing::checkLink(const std::string& path, const Entry& entry) const {
  if (entry.link.empty()) return {};
  const fs::path target = fs::path(path).parent_path() / entry.link;
  std::error_code failed;  // of a loop, which leads nowhere
  const fs::path found = fs::weakly_canonical(root_ / target, failed);
  if (target.is_relative() && *target.lexically_normal().begin() != ".." &&
      (failed || (found.string() + "/").starts_with(root_ + "/")))
    return {};
  Error error = invalidArgument("the link {} leaves the folder of the code", validUtf8(path));
  error.field = "workload.code.from";
  error.why = message("it leads to {}", validUtf8(entry.link));
  error.next =
      "list it in .gitignore or in the file of workload.code.exclude; what it leads to must be on "
      "the nodes";
  return error;
}

// Returns the error of too much code, which names the largest of what is in the folder.
Status checkSize(const spec::v1::CodeSpec& code, const std::map<std::string, Entry>& entries) {
  std::int64_t total = 0;
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [path, entry] : entries) {
    const std::size_t slash = path.find('/');
    sizes[path.substr(0, slash == std::string::npos ? slash : slash + 1)] += entry.size;
    total += entry.size;
  }
  if (total <= code.max_bytes()) return {};
  std::vector<std::pair<std::int64_t, std::string>> largest;
  for (const auto& [name, size] : sizes) largest.emplace_back(size, name);
  std::sort(largest.rbegin(), largest.rend());
  constexpr std::size_t kMostNames = 5;
  if (largest.size() > kMostNames) largest.resize(kMostNames);
  std::string list;
  for (const auto& [size, name] : largest)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", validUtf8(name), mebibytes(size));
  Error error =
      makeError(Code::kResourceExhausted, "the code in {} is too large", validUtf8(code.from()));
  error.field = "workload.code.max_bytes";
  error.why = message("it has {}, and {} are allowed; the largest: {}", mebibytes(total),
                      mebibytes(code.max_bytes()), list);
  error.next = message(
      "list what the program does not need in .gitignore or {} "
      "(workload.code.exclude), or raise workload.code.max_bytes",
      code.exclude().empty() ? ".lockstepignore" : code.exclude());
  return error;
}

// Reads at most `size` bytes of a file: those it had when it was listed. nullopt: it is gone.
Result<std::optional<std::string>> readListed(const std::string& path, std::int64_t size) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::optional<std::string>();
  if (!file) return systemError(errno, message("cannot open {}", validUtf8(path)));
  std::string data(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t count = read(file.get(), data.data() + done, data.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, message("cannot read {}", validUtf8(path)));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  data.resize(done);
  return std::optional(std::move(data));
}

// Writes the message to `file`, a part for each file of the code: parsed one after another, they
// are one message. Without maps, equal messages have equal bits.
Status writeMessage(const std::string& root, const std::map<std::string, Entry>& entries,
                    const std::string& file, const std::stop_token& stop, CollectedCode* out) {
  Sha256 hash;
  const auto fill = [&](const Append& append) -> Status {
    for (const auto& [path, entry] : entries) {
      if (stop.stop_requested()) return cancelled();
      spec::v1::CodeFiles part;
      spec::v1::CodeFile& added = *part.add_files();
      added.set_path(path);
      added.set_executable(entry.executable);
      added.set_link(entry.link);
      if (entry.link.empty()) {
        LOCKSTEP_ASSIGN(std::optional<std::string> data, readListed(root + "/" + path, entry.size));
        if (!data) continue;
        added.set_data(std::move(*data));
      }
      out->bytes += static_cast<std::int64_t>(added.data().size());
      ++out->files;
      const std::string bits = part.SerializeAsString();
      hash.update(bits);
      LOCKSTEP_TRY(append(bits));
    }
    return {};
  };
  LOCKSTEP_TRY(writeFileAtomically(file, fill, 0600));
  out->sha256 = hash.hex();
  return {};
}

// Removes collections, and what killed processes left, that are a week old.
void removeOld(const std::string& folder) {
  constexpr std::size_t kHashDigits = 64;
  const auto oldest = fs::file_time_type::clock::now() - std::chrono::days(7);
  std::error_code failed;
  for (const fs::path& path : listFolder(folder)) {
    const std::string name = path.filename().string();
    const bool isHash = name.size() == kHashDigits &&
                        name.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!isHash && !name.starts_with(kTemporary)) continue;
    const auto time = fs::last_write_time(path, failed);
    if (!failed && time <= oldest) fs::remove_all(path, failed);
  }
}

// Returns a new folder in `folder`, which is made if it is missing. It is an empty repository.
Result<std::string> makeScratch(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return systemError(failed.value(), message("cannot create {}", validUtf8(folder)));
  std::string path = fmt::format("{}/{}XXXXXX", folder, kTemporary);
  if (mkdtemp(path.data()) == nullptr)
    return systemError(errno, message("cannot create {}", validUtf8(path)));
  for (const char* part : {"objects", "refs", "empty"})
    if (mkdir(fmt::format("{}/{}", path, part).c_str(), 0700) != 0)
      return systemError(errno, message("cannot create {}", validUtf8(path)));
  std::ofstream head(path + "/HEAD");
  head << "ref: refs/heads/main\n";
  head.close();
  if (!head) return systemError(errno, message("cannot write {}", validUtf8(path)));
  return path;
}

// Returns the file of patterns; "": there is none.
Result<std::string> excludeFile(const spec::v1::CodeSpec& code, const fs::path& root) {
  if (code.exclude().empty()) return std::string();
  const std::string path = (root / code.exclude()).string();
  if (access(path.c_str(), R_OK) == 0) return path;
  if (errno == ENOENT || errno == ENOTDIR) return std::string();
  Error error = systemError(errno, message("cannot read {}", validUtf8(path)));
  error.field = "workload.code.exclude";
  return error;
}

}  // namespace

Result<CollectedCode> collectCode(const spec::v1::CodeSpec& code, const std::string& to,
                                  const std::stop_token& stop) {
  if (stop.stop_requested()) return cancelled();
  std::error_code failed;
  const fs::path root = fs::canonical(code.from(), failed);
  if (!failed && !fs::is_directory(root, failed)) failed = {ENOTDIR, std::generic_category()};
  if (failed) {
    Error error = systemError(failed.value(), message("cannot open {}", validUtf8(code.from())));
    error.field = "workload.code.from";
    return error;
  }
  LOCKSTEP_ASSIGN(const std::string exclude, excludeFile(code, root));
  LOCKSTEP_ASSIGN(const std::string scratch, makeScratch(fs::absolute(to).string()));
  const Scratch removed{scratch};
  removeOld(to);

  const Git git(stop);
  Listing listing(git, root.string(), scratch);
  const fs::path besides = fs::canonical(to, failed).lexically_relative(root);
  LOCKSTEP_TRY(listing.make(exclude, besides.string() + "/"));
  LOCKSTEP_TRY(checkSize(code, listing.entries()));
  CollectedCode out;
  const std::string part = scratch + "/code";
  LOCKSTEP_TRY(withMemoryFor("the files of the code", 0, [&] {
    return writeMessage(root.string(), listing.entries(), part, stop, &out);
  }));
  out.file = fmt::format("{}/{}", to, out.sha256);
  if (rename(part.c_str(), out.file.c_str()) != 0)
    return systemError(errno, message("cannot rename to {}", validUtf8(out.file)));
  out.commit = listing.commit();
  out.changed = listing.changed();
  LOCKSTEP_ASSIGN(out.patch, codePatch(git, root.string(), listing.changes()));
  return out;
}

}  // namespace lockstep::app
