// Opens the databases of the history; detects and renames damaged ones.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/storage/database.h"

namespace lockstep::app {

// As storage::Database::open, with the studio's advice in errors.
Result<std::unique_ptr<storage::Database>> openDatabase(const std::string& path,
                                                        const std::vector<std::string_view>& schema,
                                                        bool create);
// Returns whether a process that wrote `path` ended without closing it, or still has it open; with
// a rollback journal, within a transaction.
bool hasLog(const std::string& path);
// Renames a database and its log to "<path>.damaged-<date>-<time>" and returns that name.
// Precondition: no other process has it open.
Result<std::string> setAside(const std::string& path);
// Returns the renamed files in a history's folder, sorted.
std::vector<std::string> filesSetAside(const std::string& folder);

// A shared lock on "<path>.open", held while a database is open. It starts as an exclusive lock if
// no other process holds it, so that a damaged database can be renamed.
class OpenLock {
 public:
  explicit OpenLock(const std::string& path);
  ~OpenLock();
  OpenLock(const OpenLock&) = delete;
  OpenLock& operator=(const OpenLock&) = delete;
  bool alone() const { return alone_; }
  void share();  // downgrades an exclusive lock

 private:
  int fd_ = -1;
  bool alone_ = false;
};

}  // namespace lockstep::app
