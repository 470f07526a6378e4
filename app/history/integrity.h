// Opens the databases of the history, and sets damaged ones aside.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/storage/database.h"

namespace lockstep::app {

// As storage::Database::open, with the studio's advice in errors.
Result<std::unique_ptr<storage::Database>> openDatabase(
    const std::string& path, const std::vector<std::string_view>& schema);
// Whether a process that wrote `path` ended without closing it, or still has it open.
bool hasLog(const std::string& path);
// Renames a database and its log to "<path>.damaged-<date>-<time>" and returns that name. Nobody
// else may have it open.
Result<std::string> setAside(const std::string& path);
// The files that were set aside in a history's folder, in order.
std::vector<std::string> filesSetAside(const std::string& folder);

// A shared lock on "<path>.open", held while a database is open. It is exclusive at first where
// nobody else holds one, so that the database may be set aside.
class OpenLock {
 public:
  explicit OpenLock(const std::string& path);
  ~OpenLock();
  OpenLock(const OpenLock&) = delete;
  OpenLock& operator=(const OpenLock&) = delete;
  bool alone() const { return alone_; }
  void share();  // lets others in

 private:
  int fd_ = -1;
  bool alone_ = false;
};

}  // namespace lockstep::app
