// Tags of runs, and saved filters: what people keep beside the runs in history.db.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/storage/database.h"

namespace lockstep::app {

// A tag is a word of at most 64 bytes of UTF-8: no spaces, control characters, commas, quotes or
// stars, and not beginning with + or -. Case does not matter in ASCII letters; a run's tag keeps
// the case it was first given.
Status checkTag(std::string_view tag);

struct TagChange {
  std::vector<std::string> add, remove;
  bool empty() const { return add.empty() && remove.empty(); }
};
// Parses "+good", "-old". Errors: kInvalidArgument.
Result<TagChange> parseTagChange(const std::vector<std::string>& words);
// The words of a text in which spaces or commas, also those of Chinese keyboards, separate tags.
std::vector<std::string> tagWords(std::string_view text);

struct TagUse {
  std::string tag;
  int runs = 0;
};
struct SavedFilter {
  std::string name, text;  // text: see app/history/run_filter.h
};
// A name is at most 64 bytes of UTF-8 without control characters, and not blank.
Status checkFilterName(std::string_view name);

// The tables, for History. Statements of the caller's transaction.
Status changeTags(storage::Database& database, const std::string& run, const TagChange& change);
Result<std::vector<TagUse>> tagsInUse(storage::Database& database);  // by name
// The tags of a run as a JSON array, for the run's own file, and back; what is no tag is left out.
std::string tagsAsJson(storage::Database& database, const std::string& run);
Status addTagsFromJson(storage::Database& database, const std::string& run,
                       const std::string& json);
// Likewise the saved filters, for a file beside history.db. What is no filter is left out.
Result<std::string> filtersAsJson(storage::Database& database);
Status addFiltersFromJson(storage::Database& database, const std::string& json);
Status saveFilter(storage::Database& database, const SavedFilter& filter);

}  // namespace lockstep::app
