// NumberSet: a set of numbers below a fixed size, 64 to a word.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::specs {

class NumberSet {
 public:
  explicit NumberSet(std::size_t size) : words_((size + kBits - 1) / kBits) {}

  void insert(std::size_t number) { words_[number / kBits] |= bit(number); }
  bool contains(std::size_t number) const { return (words_[number / kBits] & bit(number)) != 0; }
  bool empty() const {
    return std::ranges::all_of(words_, [](std::uint64_t word) { return word == 0; });
  }
  std::size_t count() const {
    std::size_t out = 0;
    for (const std::uint64_t word : words_) out += static_cast<std::size_t>(std::popcount(word));
    return out;
  }
  bool operator==(const NumberSet&) const = default;

  // Both sets are of one size.
  void add(const NumberSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool isWithin(const NumberSet& other) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if ((words_[i] & ~other.words_[i]) != 0) return false;
    return true;
  }
  // Returns the least number that is in both.
  std::optional<std::size_t> firstCommon(const NumberSet& other) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      if (const std::uint64_t word = words_[i] & other.words_[i]; word != 0)
        return i * kBits + static_cast<std::size_t>(std::countr_zero(word));
    return std::nullopt;
  }
  // Calls `each` with the numbers, ascending.
  template <typename Each>
  void forEach(const Each& each) const {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1)
        each(i * kBits + static_cast<std::size_t>(std::countr_zero(word)));
  }

 private:
  static constexpr std::size_t kBits = 64;
  static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % kBits; }

  std::vector<std::uint64_t> words_;
};

}  // namespace lockstep::specs
