#include "agent/workload/code_folder.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "engine/base/below.h"
#include "engine/base/memory.h"
#include "engine/base/unique_fd.h"
#include "engine/base/utf8.h"
#include "lockstep/spec/v1/code.pb.h"

namespace lockstep::agent {
namespace {

using spec::v1::CodeFile;
using spec::v1::CodeFiles;

Error wrongPath(std::string_view path, Message why) {
  Error error = invalidArgument("the code has a file {} that cannot be written",
                                validUtf8(path.substr(0, PATH_MAX)));
  error.why = std::move(why);
  return error;
}

Result<CodeFiles> readMessage(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return systemError(errno, message("cannot open {}", path));
  google::protobuf::io::FileInputStream stream(file.get());
  CodeFiles out;
  const bool parsed = out.ParseFromZeroCopyStream(&stream);
  if (stream.GetErrno() != 0)
    return systemError(stream.GetErrno(), message("cannot read {}", path));
  if (!parsed) return makeError(Code::kDataLoss, "{} is not the files of a program", path);
  return out;
}

Status checkPath(std::string_view path) {
  Message why = whyNotBelow(path);
  return why.empty() ? Status() : wrongPath(path, std::move(why));
}

using FilesByPath = std::map<std::string_view, const CodeFile*>;

// Whether following the link stays in the folder, also by way of other links.
bool staysWithin(const FilesByPath& files, std::string_view link) {
  constexpr int kMostLinks = 40;  // the system follows no more
  std::string at;                 // below the folder; "": the folder
  std::vector<std::string_view> left = partsOf(link);
  std::reverse(left.begin(), left.end());
  for (int links = 0; !left.empty();) {
    const std::string_view part = left.back();
    left.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (at.empty()) return false;
      const std::size_t slash = at.rfind('/');
      at.resize(slash == std::string::npos ? 0 : slash);
      continue;
    }
    const std::size_t before = at.size();
    if (!at.empty()) at += '/';
    at += part;
    const auto found = files.find(at);
    if (found == files.end() || found->second->link().empty()) continue;
    if (++links > kMostLinks) return true;
    const std::string_view target = found->second->link();
    if (target.starts_with('/')) return false;
    at.resize(before);
    const std::vector<std::string_view> next = partsOf(target);
    left.insert(left.end(), next.rbegin(), next.rend());
  }
  return true;
}

// Checks all paths and links, and returns the files by path.
Result<FilesByPath> check(const CodeFiles& code) {
  FilesByPath out;
  for (const CodeFile& file : code.files()) {
    LOCKSTEP_TRY(checkPath(file.path()));
    if (!out.emplace(file.path(), &file).second)
      return wrongPath(file.path(), "another has the same path");
  }
  for (const auto& [path, file] : out) {
    for (std::size_t at = path.find('/'); at != path.npos; at = path.find('/', at + 1))
      if (out.contains(path.substr(0, at))) return wrongPath(path, "its folder is a file too");
    if (file->link().size() >= PATH_MAX || file->link().find('\0') != std::string::npos)
      return wrongPath(path, "it is a link to what is no path");
    if (!file->link().empty() && !staysWithin(out, path))
      return wrongPath(path, "it is a link that leaves the folder");
  }
  return out;
}

Status writeEntry(int root, const CodeFile& file) {
  const std::string name(partsOf(file.path()).back());
  const auto failed = [&] {
    return systemError(errno, message("cannot write {}", validUtf8(file.path())));
  };
  LOCKSTEP_ASSIGN(const UniqueFd folder, openFolderOf(root, file.path()));
  if (!file.link().empty()) {
    if (symlinkat(file.link().c_str(), folder.get(), name.c_str()) != 0) return failed();
    return {};
  }
  const UniqueFd out(openat(folder.get(), name.c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                            file.executable() ? 0700 : 0600));
  if (!out) return failed();
  for (std::string_view rest = file.data(); !rest.empty();) {
    const ssize_t count = write(out.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Status writeFiles(const std::string& folder, const FilesByPath& files) {
  const UniqueFd root(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root) return systemError(errno, message("cannot open {}", folder));
  for (const bool links : {false, true})
    for (const auto& [path, file] : files)
      if (file->link().empty() != links) LOCKSTEP_TRY(writeEntry(root.get(), *file));
  return {};
}

Status writeChecked(const FilesByPath& files, const std::string& to) {
  struct stat info {};
  if (lstat(to.c_str(), &info) == 0)
    return makeError(Code::kAlreadyExists, "{} exists already", to);
  std::string temporary = to + ".XXXXXX";
  if (mkdtemp(temporary.data()) == nullptr)
    return systemError(errno, message("cannot create {}", temporary));
  Status written = writeFiles(temporary, files);
  if (written.ok() && rename(temporary.c_str(), to.c_str()) != 0)
    written = systemError(errno, message("cannot rename to {}", to));
  std::error_code ignored;
  if (!written.ok()) std::filesystem::remove_all(temporary, ignored);
  return written;
}

}  // namespace

Status writeCode(const std::string& code, const std::string& to) {
  return withMemoryFor(message("the content of {}", code), 0, [&]() -> Status {
    LOCKSTEP_ASSIGN(const CodeFiles message, readMessage(code));
    LOCKSTEP_ASSIGN(const FilesByPath files, check(message));
    return writeChecked(files, to);
  });
}

std::string programFolder(const RunFolder& folder, const spec::v1::WorkloadSpec& workload) {
  return workload.code().disabled() ? folder.path : folder.code();
}

}  // namespace lockstep::agent
