#include "app/history/run_tags.h"

#include <algorithm>
#include <utility>

#include "app/history/run_filter.h"
#include "engine/base/clock.h"
#include "engine/base/utf8.h"

namespace lockstep::app {
namespace {

using storage::Database;
using storage::Statement;

constexpr std::size_t kLongest = 64;  // bytes of a tag or a name
constexpr int kMostTags = 64;         // of a run
constexpr std::string_view kWideComma = "\uff0c", kWideSpace = "\u3000", kHardSpace = "\u00a0";

bool isControl(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0)
      return true;  // U+0080 to U+009F
  }
  return false;
}

// The bytes of what separates tags at the beginning of `text`; 0: nothing does.
std::size_t separatorLength(std::string_view text) {
  if (std::string_view(" \t\n\r,").find(text.front()) != std::string_view::npos) return 1;
  for (const std::string_view wide : {kWideComma, kWideSpace, kHardSpace})
    if (text.starts_with(wide)) return wide.size();
  return 0;
}

// `error` with the reason why `text` is neither a tag nor a name.
Status checkText(std::string_view text, Error error) {
  if (text.empty()) error.why = "it is empty";
  if (text.size() > kLongest) error.why = message("it is longer than {} bytes", kLongest);
  if (isControl(text)) error.why = "it has a control character";
  if (firstNotUtf8(text) != std::string_view::npos) error.why = "it is not UTF-8";
  return error.why.empty() ? Status() : Status(error);
}

}  // namespace

Status checkTag(std::string_view tag) {
  Error error = invalidArgument("a tag cannot be \"{}\"", tag);
  LOCKSTEP_TRY(checkText(tag, error));
  if (tag.starts_with('+') || tag.starts_with('-')) error.why = "it begins with + or -";
  if (tag.find_first_of("\"*\\") != std::string_view::npos)
    error.why = "it has a quote, a star or a backslash";
  for (std::size_t i = 0; i < tag.size(); ++i)
    if (separatorLength(tag.substr(i)) > 0) error.why = "it has a space or a comma";
  return error.why.empty() ? Status() : Status(error);
}

Status checkFilterName(std::string_view name) {
  Error error = invalidArgument("the name of a filter cannot be \"{}\"", name);
  LOCKSTEP_TRY(checkText(name, error));
  if (name.find_first_not_of(' ') != std::string_view::npos) return {};
  error.why = "it is empty";
  return error;
}

Result<TagChange> parseTagChange(const std::vector<std::string>& words) {
  TagChange out;
  for (const std::string& word : words) {
    if (!word.starts_with('+') && !word.starts_with('-')) {
      Error error = invalidArgument("\"{}\" does not say what to do with a tag", word);
      error.next = message("write +{} to add it, -{} to remove it", word, word);
      return error;
    }
    const std::string tag = word.substr(1);
    LOCKSTEP_TRY(checkTag(tag));
    (word[0] == '+' ? out.add : out.remove).push_back(tag);
  }
  return out;
}

std::vector<std::string> tagWords(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) out.push_back(std::exchange(word, {}));
  };
  while (!text.empty()) {
    const std::size_t separator = separatorLength(text);
    if (separator > 0)
      end();
    else
      word += text.front();
    text.remove_prefix(std::max<std::size_t>(separator, 1));
  }
  end();
  return out;
}

Status changeTags(Database& database, const std::string& run, const TagChange& change) {
  for (const std::string& tag : change.remove)
    LOCKSTEP_TRY(Statement(database, "DELETE FROM tag WHERE run=? AND tag=?")
                     .bind(std::string_view(run))
                     .bind(std::string_view(tag))
                     .run());
  for (const std::string& tag : change.add) {
    LOCKSTEP_TRY(checkTag(tag));
    LOCKSTEP_TRY(Statement(database, "INSERT OR IGNORE INTO tag VALUES(?,?)")
                     .bind(std::string_view(run))
                     .bind(std::string_view(tag))
                     .run());
  }
  Statement count(database, "SELECT count(*) FROM tag WHERE run=?");
  const bool counted = count.bind(std::string_view(run)).step();
  LOCKSTEP_TRY(count.status());
  if (counted && count.integer(0) > kMostTags)
    return invalidArgument("run {} would have more than {} tags", run, kMostTags);
  return {};
}

Result<std::vector<TagUse>> tagsInUse(Database& database) {
  Statement rows(database, "SELECT min(tag), count(*) FROM tag GROUP BY tag ORDER BY tag");
  std::vector<TagUse> out;
  while (rows.step()) out.push_back({rows.text(0), static_cast<int>(rows.integer(1))});
  LOCKSTEP_TRY(rows.status());
  return out;
}

std::string tagsAsJson(Database& database, const std::string& run) {
  Statement tags(database, "SELECT json_group_array(tag) FROM tag WHERE run=?");
  return tags.bind(std::string_view(run)).step() ? tags.text(0) : std::string();
}

Status addTagsFromJson(Database& database, const std::string& run, const std::string& json) {
  Statement tags(database,
                 "SELECT value FROM json_each(CASE WHEN json_valid(?1) THEN ?1 ELSE '[]' END) "
                 "WHERE type='text' LIMIT ?2");
  tags.bind(std::string_view(json)).bind(kMostTags);
  TagChange change;
  while (tags.step())
    if (checkTag(tags.text(0)).ok()) change.add.push_back(tags.text(0));
  return changeTags(database, run, change);
}

Result<std::string> filtersAsJson(Database& database) {
  Statement filters(database,
                    "SELECT json_group_array(json_object('name', name, 'text', text)) FROM "
                    "(SELECT name, text FROM filter ORDER BY name)");
  const bool found = filters.step();
  LOCKSTEP_TRY(filters.status());
  return found ? filters.text(0) : std::string("[]");
}

Status addFiltersFromJson(Database& database, const std::string& json) {
  Statement filters(
      database,
      "SELECT json_extract(value, '$.name'), json_extract(value, '$.text') FROM "
      "json_each(CASE WHEN json_valid(?1) THEN ?1 ELSE '[]' END) WHERE type='object' AND "
      "json_type(value, '$.name')='text' AND json_type(value, '$.text')='text'");
  filters.bind(std::string_view(json));
  std::vector<SavedFilter> found;
  while (filters.step()) found.push_back({filters.text(0), filters.text(1)});
  LOCKSTEP_TRY(filters.status());
  for (const SavedFilter& filter : found)
    if (const Status saved = saveFilter(database, filter);
        !saved.ok() && saved.code() != Code::kInvalidArgument)
      return saved;
  return {};
}

Status saveFilter(Database& database, const SavedFilter& filter) {
  LOCKSTEP_TRY(checkFilterName(filter.name));
  LOCKSTEP_TRY(RunFilter::parse(filter.text, wallNow()).status());
  return Statement(database, "INSERT OR REPLACE INTO filter VALUES(?,?)")
      .bind(std::string_view(filter.name))
      .bind(std::string_view(filter.text))
      .run();
}

}  // namespace lockstep::app
