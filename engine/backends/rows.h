// Row-sparse gradients: rows of a table that a batch touched, with their ids. Every backend adds rows
// up in one order and type, so that the sums have the same bits as a dense gradient's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/random.h"

namespace lockstep::backends {

template <typename T>
struct CombineRows {
  std::int64_t count = 0, channels = 0;
  std::int64_t entries = 0;  // of `table`, a power of two above `count`
  const T* rows = nullptr;
  const std::int32_t* ids = nullptr;
  T* sums = nullptr;         // may be `rows`
  std::int32_t* first = nullptr;
  std::int32_t* table = nullptr;
};

// The table holds the first place of each id, found by linear probing.
template <typename T>
void combineRows(const CombineRows<T>& a) {
  if (a.sums != a.rows) std::copy_n(a.rows, a.count * a.channels, a.sums);
  std::fill_n(a.table, a.entries, -1);
  const auto mask = static_cast<std::uint64_t>(a.entries - 1);
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::int32_t id = a.ids[i];
    auto slot = mix64(static_cast<std::uint64_t>(id)) & mask;
    while (a.table[slot] >= 0 && a.first[a.table[slot]] != id) slot = (slot + 1) & mask;
    if (id < 0) {
      a.first[i] = -1;
    } else if (a.table[slot] < 0) {
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

// Calls update(element of the part, element of `sums`, elements) for what of each row is in the part
// of `elements` elements from `first` on; rows that come are fetched ahead by fetch(element).
template <typename Fetch, typename Update>
void forRows(std::int64_t count, std::int64_t channels, std::int64_t first, std::int64_t elements,
             const std::int32_t* ids, Fetch fetch, Update update) {
  constexpr std::int64_t kAhead = 16;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) {
      const std::int64_t at = ids[i + kAhead] * channels - first;
      if (ids[i + kAhead] >= 0 && at >= 0 && at < elements) fetch(at);
    }
    if (ids[i] < 0) continue;
    const std::int64_t at = ids[i] * channels - first;
    const std::int64_t begin = std::max<std::int64_t>(at, 0);
    const std::int64_t end = std::min(at + channels, elements);
    if (begin < end) update(begin, i * channels + begin - at, end - begin);
  }
}

}  // namespace lockstep::backends
