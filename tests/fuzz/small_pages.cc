#include "tests/fuzz/small_pages.h"

#include <sqlite3.h>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::string withSmallPages(const std::string& path) {
  // The size of pages is fixed while there is a write-ahead log.
  constexpr const char* kRewrite =
      "PRAGMA journal_mode=DELETE; PRAGMA page_size=512; VACUUM; PRAGMA journal_mode=WAL";
  sqlite3* database = nullptr;
  LOCKSTEP_CHECK(sqlite3_open(path.c_str(), &database) == SQLITE_OK, "{}", path);
  LOCKSTEP_CHECK(sqlite3_exec(database, kRewrite, nullptr, nullptr, nullptr) == SQLITE_OK, "{}",
                 sqlite3_errmsg(database));
  sqlite3_close(database);
  return fileBytes(path);
}

}  // namespace lockstep::fuzz
