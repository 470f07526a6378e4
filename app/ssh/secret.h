// A passphrase or password: wiped when it goes, never printed, never copied by accident.
#pragma once

#include <string.h>

#include <string>
#include <string_view>
#include <utility>

namespace lockstep::app {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text) {
    text_.reserve(kCapacity);  // no growth leaves a copy behind
    text_.assign(text);
  }
  ~Secret() { wipe(); }
  Secret(const Secret& other) : Secret(std::string_view(other.text_)) {}
  Secret(Secret&& other) noexcept { *this = std::move(other); }
  Secret& operator=(const Secret& other) {
    if (this != &other) *this = Secret(other);
    return *this;
  }
  Secret& operator=(Secret&& other) noexcept {
    if (this == &other) return *this;
    wipe();
    text_ = std::move(other.text_);
    other.wipe();
    return *this;
  }
  const char* c_str() const { return text_.c_str(); }
  bool empty() const { return text_.empty(); }
  bool operator==(const Secret& other) const { return text_ == other.text_; }

 private:
  static constexpr std::size_t kCapacity = 128;
  void wipe() {
    ::explicit_bzero(text_.data(), text_.capacity());
    text_.clear();
  }
  std::string text_;
};

}  // namespace lockstep::app
