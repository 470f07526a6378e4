// The files of a person's own program, collected on this machine for the nodes.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "engine/base/status.h"
#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::app {

struct CollectedCode {
  std::string file;  // of a message spec::v1::CodeFiles, in the folder `to`, named by its SHA-256
  std::string sha256;
  std::int64_t bytes = 0;  // of the files in it
  int files = 0;
  std::string commit;  // of the repository that the folder is in; "": of none
  // Files differ from that commit, are not in it, or could not be compared, as git does not in a
  // folder of another user.
  bool changed = false;
  std::string patch;  // how they differ, without the files that are left out; see codePatch()
};

// Collects the files that git lists (`git ls-files --cached --others --exclude-standard`) below
// code.from, which is absolute, without those that match a pattern of code.exclude if that file is
// there. Tracked files are left out too then. The folder need not be in a repository; one that its
// repository ignores counts as in none. Files of repositories within it, submodules or others, are
// collected like others; `to` is not, if it is within. The bits of the result depend on the files'
// paths, data, kinds and executable bits alone. `to` is made if it is missing; older collections in
// it are removed if they were last used a week ago or more.
// Errors: kNotFound, there is no such folder or no git; kFailedPrecondition, git fails;
// kResourceExhausted, more than code.max_bytes, with the largest files or folders named;
// kInvalidArgument, a link that leaves the folder, or a file that is neither a regular file nor a
// link; kCancelled by `stop`.
Result<CollectedCode> collectCode(const spec::v1::CodeSpec& code, const std::string& to,
                                  const std::stop_token& stop);

}  // namespace lockstep::app
