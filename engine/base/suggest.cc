#include "engine/base/suggest.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace lockstep {

std::size_t editDistance(std::string_view a, std::string_view b) {
  constexpr std::size_t kLimit = 64;
  a = a.substr(0, kLimit);
  b = b.substr(0, kLimit);
  std::array<std::size_t, kLimit + 1> row{};
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string_view> known) {
  std::size_t best = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::string_view found;
  for (std::string_view candidate : known) {
    const std::size_t distance = editDistance(word, candidate);
    if (distance >= best || distance >= std::max(word.size(), candidate.size())) continue;
    best = distance;
    found = candidate;
  }
  if (!found.empty() || word.size() < 3) return std::string(found);
  for (std::string_view candidate : known)
    if (candidate.starts_with(word) || candidate.ends_with(word) ||
        (candidate.size() >= 3 && word.starts_with(candidate)))
      return std::string(candidate);
  return {};
}

Message expectedOneOf(std::string_view word, std::span<const std::string_view> known) {
  std::string first;
  for (std::size_t i = 0; i + 1 < known.size(); ++i)
    first += (i > 0 ? ", " : "") + std::string(known[i]);
  Message out = known.empty()   ? Message()
                : first.empty() ? Message(known.back())
                                : message("{} or {}", first, known.back());
  if (const std::string near = nearest(word, known); !near.empty())
    out = message("{}; did you mean {}?", out, near);
  return out;
}

}  // namespace lockstep
