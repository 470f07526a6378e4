// WorkdirItems: what this node keeps in its workdir and may forget. Lists runs, uploaded data
// files, decoded copies, programs that were set up, deployed versions and remains of killed
// processes, with size and idle time, and decides what may be removed.
//
// The workdir may be on a shared file system and hold anything: symbolic links are not followed,
// and folders that cannot be read are reported. Blocks on the disk; not for the event loop's
// thread.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/paths.h"
#include "agent/base/run_folder.h"
#include "engine/base/clock.h"
#include "engine/base/message.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// A run under way that starts from a checkpoint: it may read that again at each restart.
struct RunStart {
  std::string run, from;
};
std::vector<RunStart> runStarts(const Workdir& workdir);
// Returns the run that starts from a checkpoint of `folder`; "": none.
std::string runReading(const std::vector<RunStart>& starts, const RunFolder& folder);

class WorkdirItems {
 public:
  // Reads the requests of all runs.
  explicit WorkdirItems(const Workdir& workdir);

  // Lists all items without their sizes.
  std::vector<node::v1::WorkdirItem> list() const;
  // Sets an item's size. Ends at `end` (monotonic clock) or when cancelled: the size is a lower
  // bound then.
  void measure(node::v1::WorkdirItem& item, Nanoseconds end,
               const std::function<bool()>& cancelled) const;
  // Removes an item, which may have been renamed to `aside`. Returns why it could not be removed.
  Message remove(const node::v1::WorkdirItem& item, const std::filesystem::path& aside) const;

 private:
  struct Run {
    RunFolder folder;
    run::v1::RunState state = run::v1::RUN_STATE_UNSPECIFIED;
    bool underWay = false;
    Nanoseconds ended = 0;        // wall clock
    std::set<std::string> files;  // data files and decoded copies
  };
  using Items = std::vector<node::v1::WorkdirItem>;
  void readRuns();
  void listRuns(Items& out) const;
  void listData(Items& out) const;
  void listDecoded(Items& out) const;
  void listVersions(Items& out) const;
  void listPrograms(Items& out) const;
  // Returns the names of a folder's entries, sorted. Adds an item that says so if the folder is a
  // link or cannot be read.
  std::vector<std::string> entriesOf(const std::string& folder, Items& out) const;
  Message removeProgram(const std::string& name) const;
  node::v1::WorkdirItem itemOf(node::v1::WorkdirItem::Kind kind, const std::string& name) const;
  node::v1::WorkdirItem runItem(const std::string& name) const;
  node::v1::WorkdirItem fileItem(node::v1::WorkdirItem::Kind kind, const std::string& name) const;

  const Workdir workdir_;
  const Nanoseconds now_;
  const std::vector<RunStart> starts_;
  std::vector<Run> runs_;
};

// Returns why an item stays that is to be removed after `idleSeconds` without use; empty: it may be
// removed. Nothing is removed within an hour of its last use, as a launch may be about to use it.
Message whyKept(const node::v1::WorkdirItem& item, std::int64_t idleSeconds);

}  // namespace lockstep::agent
