#include "agent/workload/artifacts.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "engine/base/below.h"
#include "engine/base/list_folder.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 100'000;

Nanoseconds modifiedAt(const struct stat& info) {
  return static_cast<Nanoseconds>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// The path without links; "" where it is not in the folder, whose own path has none.
std::string canonicalBelow(const std::string& root, const std::string& path) {
  std::error_code failed;
  const std::string out = fs::canonical(root + "/" + path, failed).string();
  return !failed && out.starts_with(root + "/") ? out : std::string();
}

class Search {
 public:
  explicit Search(std::string root) : root_(std::move(root)) {}

  void add(const std::string& pattern) { expand("", partsOf(pattern), 0); }
  std::map<std::string, ArtifactFile>& found() { return found_; }
  bool isTooMuch() const { return found_.size() > kMostFiles; }

 private:
  using Parts = std::vector<std::string_view>;

  // The entries of a folder whose names match.
  std::vector<std::string> entriesOf(const std::string& folder, const std::string& part) const {
    if (part.find_first_of("*?[\\") == std::string::npos) return {part};
    std::vector<std::string> out;
    for (const fs::path& entry : listFolder(root_ + "/" + folder)) {
      const std::string name = entry.filename().string();
      if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) out.push_back(name);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Adds what is below `folder`, "" for the root, by the parts from `at` on.
  void expand(const std::string& folder, const Parts& parts, std::size_t at) {
    if (isTooMuch() || !whyNotBelow(folder + "x").empty()) return;
    const bool isLast = at + 1 == parts.size();
    if (parts[at] == "**") {
      // Several ** lead to the same folder in many ways. Parts are views of one pattern.
      const std::string_view last = parts.back();
      const std::string rest(parts[at].data(), last.data() + last.size());
      if (!expanded_.emplace(folder, rest).second) return;
      if (!isLast) expand(folder, parts, at + 1);
      for (const std::string& name : entriesOf(folder, "*")) {
        if (isOwnFolder(folder + name))
          expand(folder + name + "/", parts, at);
        else if (isLast)
          take(folder + name, false);
      }
      return;
    }
    for (const std::string& name : entriesOf(folder, std::string(parts[at]))) {
      if (isLast)
        take(folder + name, true);
      else if (isFolder(folder + name))
        expand(folder + name + "/", parts, at + 1);
    }
  }

  bool isOwnFolder(const std::string& path) const {  // no link to one
    struct stat info {};
    return lstat((root_ + "/" + path).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  // Also by a link, which may not leave the root.
  bool isFolder(const std::string& path) {
    struct stat info {};
    if (stat((root_ + "/" + path).c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    return staysBelow(path);
  }

  bool staysBelow(const std::string& path) {
    if (!canonicalBelow(root_, path).empty()) return true;
    found_[path] = {path, 0, 0, "it is a link that leaves the folder of the code"};
    return false;
  }

  void take(const std::string& path, bool withFolders) {
    struct stat info {};
    if (isTooMuch() || stat((root_ + "/" + path).c_str(), &info) != 0) return;
    if (S_ISDIR(info.st_mode) && withFolders && staysBelow(path)) expand(path + "/", {"**"}, 0);
    if (S_ISREG(info.st_mode) && staysBelow(path))
      found_[path] = {path, info.st_size, modifiedAt(info), {}};
  }

  const std::string root_;  // without links
  std::map<std::string, ArtifactFile> found_;
  std::set<std::pair<std::string, std::string>> expanded_;  // folders, and patterns below them
};

}  // namespace

Result<std::vector<ArtifactFile>> findArtifacts(const std::string& folder,
                                                const std::vector<std::string>& patterns) {
  std::error_code failed;
  const std::string root = fs::canonical(folder, failed).string();
  if (failed) return systemError(failed.value(), message("cannot read {}", folder));
  Search search(root);
  for (const std::string& pattern : patterns)
    if (whyNotBelow(pattern).empty()) search.add(pattern);
  if (search.isTooMuch()) {
    Error error = makeError(Code::kResourceExhausted,
                            "more than {} files match workload.artifacts.collect", kMostFiles);
    error.next = "name fewer, or have the program pack them into an archive";
    return error;
  }
  std::vector<ArtifactFile> out;
  for (auto& [path, file] : search.found()) out.push_back(std::move(file));
  return out;
}

Result<UniqueFd> openArtifact(const std::string& folder, const std::string& path,
                              Nanoseconds modified) {
  const std::string shown = validUtf8(path.substr(0, 4096));
  std::error_code failed;
  const std::string root = fs::canonical(folder, failed).string();
  if (failed) return systemError(failed.value(), message("cannot read {}", folder));
  if (Message why = whyNotBelow(path); !why.empty()) {
    Error error = invalidArgument("the file {} cannot be fetched", shown);
    error.why = std::move(why);
    return error;
  }
  struct stat info {};
  if (stat((root + "/" + path).c_str(), &info) != 0)
    return systemError(errno, message("cannot open {}", shown));
  const std::string canonical = canonicalBelow(root, path);
  if (canonical.empty()) {
    Error error = invalidArgument("the file {} cannot be fetched", shown);
    error.why = "it is a link that leaves the folder of the code";
    return error;
  }
  UniqueFd file(open(canonical.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file || fstat(file.get(), &info) != 0)
    return systemError(errno, message("cannot open {}", shown));
  if (S_ISREG(info.st_mode) && modifiedAt(info) == modified) return file;
  Error error = makeError(Code::kFailedPrecondition, "the file {} has changed", shown);
  error.next = "wait until nothing writes to it, and fetch it again";
  return error;
}

}  // namespace lockstep::agent
