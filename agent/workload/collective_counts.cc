#include "agent/workload/collective_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstring>
#include <utility>

#include "agent/workload/counts_file.h"
#include "engine/base/utf8.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kBegin = "Collective ", kGroup = " of group ", kIn = ": in ",
                           kAfter = ": after ";

template <std::size_t size>
std::string nameOf(const char (&bytes)[size]) {
  return oneWord(std::string(bytes, strnlen(bytes, size)));
}

}  // namespace

std::string oneWord(std::string_view text) {
  std::string out = validUtf8(text);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return (c >= 0 && c <= ' ') || c == ':' || c == ','; },
      '_');
  return out;
}

int countingProcess(std::string_view table) {
  std::uint64_t process = 0;
  if (table.size() >= sizeof process) std::memcpy(&process, table.data(), sizeof process);
  return process <= INT_MAX ? static_cast<int>(process) : 0;
}

std::vector<CollectiveCount> countsIn(std::string_view table) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  std::vector<std::pair<std::uint64_t, CollectiveCount>> found;
  const std::size_t end = std::min(table.size(), sizeof(CountsTable));
  for (std::size_t at = offsetof(CountsTable, entries); at + sizeof(CountsEntry) <= end;
       at += sizeof(CountsEntry)) {
    CountsEntry entry;
    std::memcpy(&entry, table.data() + at, sizeof entry);
    CollectiveCount count{nameOf(entry.group), static_cast<std::int64_t>(entry.begun),
                          nameOf(entry.last), entry.inside != 0};
    if (entry.begun == 0 || entry.begun > kMost || count.group.empty() || count.last.empty())
      continue;
    found.emplace_back(entry.order, std::move(count));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CollectiveCount> out;
  for (auto& [order, count] : found) out.push_back(std::move(count));
  return out;
}

std::string countLine(const CollectiveCount& count) {
  return fmt::format("{}{}{}{}{}{}", kBegin, count.begun, kGroup, count.group,
                     count.inside ? kIn : kAfter, count.last);
}

std::optional<CollectiveCount> countOf(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  line.remove_prefix(kBegin.size());
  CollectiveCount out;
  const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), out.begun);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (failed != std::errc() || out.begun < 1 || !line.starts_with(kGroup)) return std::nullopt;
  line.remove_prefix(kGroup.size());
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  out.group = line.substr(0, colon);
  line.remove_prefix(colon);
  out.inside = line.starts_with(kIn);
  if (!out.inside && !line.starts_with(kAfter)) return std::nullopt;
  out.last = line.substr((out.inside ? kIn : kAfter).size());
  return out;
}

}  // namespace lockstep::agent
