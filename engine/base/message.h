// Sentences for a person. A Message keeps its pattern and its arguments beside the English text:
// the pattern is the id under which catalogues hold its translations, so no text is ever parsed
// back.
#pragma once

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class Message {
 public:
  Message() = default;
  // A text without arguments is its own id.
  Message(std::string text) : text_(std::move(text)), id_(text_) {}  // NOLINT: a text is a Message
  Message(std::string_view text) : Message(std::string(text)) {}     // NOLINT
  Message(const char* text) : Message(std::string(text == nullptr ? "" : text)) {}  // NOLINT
  // Deserialized: `text` is what the sender formatted. An argument that was no Message (a number, a
  // name) has no id.
  Message(std::string text, std::string id, std::vector<Message> arguments)
      : text_(std::move(text)), id_(std::move(id)), arguments_(std::move(arguments)) {}

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }                     // in English
  const std::string& id() const { return id_; }                         // "node %1 was lost"
  const std::vector<Message>& arguments() const { return arguments_; }  // [0] stands at %1
  operator const std::string&() const { return text_; }                 // NOLINT
  // Messages are equal if their texts are.
  bool operator==(const Message& other) const { return text_ == other.text_; }
  bool operator==(const std::string& text) const { return text_ == text; }
  bool operator==(std::string_view text) const { return text_ == text; }
  bool operator==(const char* text) const { return text_ == text; }

 private:
  std::string text_, id_;
  std::vector<Message> arguments_;
};

namespace detail {
inline const Message* nested(const Message& argument) { return &argument; }
template <typename T>
const Message* nested(const T&) {
  return nullptr;
}
Message makeMessage(fmt::string_view pattern, fmt::format_args arguments,
                    std::span<const Message* const> nested);
}  // namespace detail

// message("node {} was lost: {}", name, why): as fmt::format, with at most nine arguments. Message
// arguments stay Messages.
template <typename... Args>
Message message(fmt::format_string<Args...> pattern, Args&&... args) {
  const std::array<const Message*, sizeof...(Args)> nested = {detail::nested(args)...};
  return detail::makeMessage(pattern, fmt::make_format_args(args...), nested);
}

}  // namespace lockstep

template <>
struct fmt::formatter<lockstep::Message> : fmt::formatter<fmt::string_view> {
  auto format(const lockstep::Message& message, fmt::format_context& context) const {
    return fmt::formatter<fmt::string_view>::format(message.text(), context);
  }
};
