// Row-sparse gradients: the distinct ids of a batch, and the table rows it touched. Every backend
// adds rows in one order and type, so that the sums are bit-identical with those of a dense
// gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/random.h"
#include "engine/ir/ops.h"

namespace lockstep::backends {

// Implements kUnique. Memory is allocated once.
class Unique {
 public:
  Unique(std::int64_t count, std::int64_t most, std::vector<std::int64_t> cuts)
      : most_(most),
        cuts_(std::move(cuts)),
        table_(static_cast<std::size_t>(ir::rowTable(count))),
        found_(static_cast<std::size_t>(count)),
        next_(cuts_.size()) {}
  std::int64_t bytes() const { return std::ssize(table_) * 4 + std::ssize(found_) * 4; }

  void run(const std::int32_t* ids, std::int32_t* each, std::int32_t* counts,
           std::int32_t* places) {
    const auto parts = cuts_.size() - 1;
    std::fill(table_.begin(), table_.end(), -1);
    std::fill_n(counts, parts, 0);
    // Numbers ids by first occurrence.
    const auto mask = static_cast<std::uint64_t>(table_.size() - 1);
    std::size_t known = 0;
    for (std::size_t i = 0; i < found_.size(); ++i) {
      auto slot = mix64(static_cast<std::uint64_t>(ids[i])) & mask;
      while (table_[slot] >= 0 && found_[static_cast<std::size_t>(table_[slot])] != ids[i])
        slot = (slot + 1) & mask;
      if (table_[slot] < 0) {
        table_[slot] = static_cast<std::int32_t>(known);
        found_[known++] = ids[i];
        ++counts[partOf(ids[i])];
      }
      places[i] = table_[slot];
    }
    next_[0] = 0;
    for (std::size_t part = 0; part < parts; ++part) next_[part + 1] = next_[part] + counts[part];
    for (std::size_t i = 0; i < known; ++i) {
      const std::int32_t at = next_[partOf(found_[i])]++;
      each[at] = found_[i];
      found_[i] = at;
    }
    std::fill(each + known, each + most_, -1);
    for (std::size_t i = 0; i < found_.size(); ++i)
      places[i] = found_[static_cast<std::size_t>(places[i])];
  }

 private:
  // Ids are within the cuts: the data was validated.
  std::size_t partOf(std::int32_t id) const {
    const auto inner = std::span(cuts_).subspan(1, cuts_.size() - 2);
    return static_cast<std::size_t>(std::upper_bound(inner.begin(), inner.end(), id) -
                                    inner.begin());
  }
  std::int64_t most_;  // capacity of `each`
  std::vector<std::int64_t> cuts_;
  std::vector<std::int32_t> table_, found_, next_;
};

// Prefetch distance in rows.
inline constexpr std::int64_t kRowsAhead = 16;

template <typename T>
struct CombineRows {
  std::int64_t count = 0, channels = 0;
  std::int64_t entries = 0;  // of `table`, a power of two above `count`
  const T* rows = nullptr;
  const std::int32_t* ids = nullptr;
  T* sums = nullptr;  // may alias `rows`
  std::int32_t* first = nullptr;
  std::int32_t* table = nullptr;
};

// Hash table with linear probing: the first position of each id.
template <typename T>
void combineRows(const CombineRows<T>& a) {
  if (a.sums != a.rows) std::copy_n(a.rows, a.count * a.channels, a.sums);
  std::fill_n(a.table, a.entries, -1);
  const auto mask = static_cast<std::uint64_t>(a.entries - 1);
  for (std::int64_t i = 0; i < a.count; ++i) {
    if (i + kRowsAhead < a.count)
      __builtin_prefetch(
          a.table + (mix64(static_cast<std::uint64_t>(a.ids[i + kRowsAhead])) & mask), 1);
    const std::int32_t id = a.ids[i];
    if (id < 0) {
      a.first[i] = -1;
      continue;
    }
    auto slot = mix64(static_cast<std::uint64_t>(id)) & mask;
    while (a.table[slot] >= 0 && a.first[a.table[slot]] != id) slot = (slot + 1) & mask;
    if (a.table[slot] < 0) {
      a.table[slot] = static_cast<std::int32_t>(i);
      a.first[i] = id;
    } else {
      a.first[i] = -1;
      const T* from = a.sums + i * a.channels;
      T* to = a.sums + a.table[slot] * a.channels;
      for (std::int64_t c = 0; c < a.channels; ++c) to[c] += from[c];
    }
  }
}

// Calls update(element of the part, element of `sums`, count) for the range of each row that lies
// in the part [first, first + elements); prefetches upcoming rows with fetch(element).
template <typename Fetch, typename Update>
void forRows(std::int64_t count, std::int64_t channels, std::int64_t first, std::int64_t elements,
             const std::int32_t* ids, Fetch fetch, Update update) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) {
      const std::int64_t at = ids[i + kRowsAhead] * channels - first;
      if (ids[i + kRowsAhead] >= 0 && at >= 0 && at < elements) fetch(at);
    }
    if (ids[i] < 0) continue;
    const std::int64_t at = ids[i] * channels - first;
    const std::int64_t begin = std::max<std::int64_t>(at, 0);
    const std::int64_t end = std::min(at + channels, elements);
    if (begin < end) update(begin, i * channels + begin - at, end - begin);
  }
}

}  // namespace lockstep::backends
