// Errors as values. No exception crosses a module boundary of the engine: an operation that can
// fail returns Status or Result<T>; a violated invariant aborts with a message (LOCKSTEP_CHECK).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/message.h"

namespace lockstep {

// Error codes, classified by what the caller can do about them.
enum class Code : std::uint8_t {
  kOk,
  kInvalidArgument,     // the input is wrong: correct it
  kNotFound,            // a named thing is absent
  kAlreadyExists,       // a named thing is there already
  kFailedPrecondition,  // a prerequisite is missing on this host or node
  kPermissionDenied,    // identity or rights: key, host key, file mode
  kUnavailable,         // not reachable now: try again
  kDeadlineExceeded,    // no answer in time
  kResourceExhausted,   // disk, memory, descriptors
  kDataLoss,            // data that was read is corrupt
  kAborted,             // a peer failed; the group must be re-formed
  kCancelled,           // stopped on request
  kInternal,            // a bug in Lockstep
};
std::string_view codeName(Code code);  // "invalid-argument", as in protocols and logs
std::optional<Code> codeFromName(std::string_view name);

// Path of a spec field and the value it should have, as `--set FIELD=VALUE` takes them:
// {"training.batch", "20"}. An empty value removes the field.
struct Setting {
  std::string field, value;
  bool operator==(const Setting&) const = default;
};
using Remedy = std::vector<Setting>;  // applied together

// An error: what failed, why, what to do next, and where, as far as known.
struct Error {
  Code code = Code::kInternal;
  Message what;
  std::string field;  // path of the spec field that is wrong: "training.batch"
  Message why;
  Message next;
  std::vector<Remedy> remedies;  // alternatives, each of which resolves the error; withRemedies()
                                 // spells them out in `next`
  std::string node;
  int rank = -1;
  std::int64_t step = -1;

  // Returns "node n2, rank 1, step 40: what: field: why (next)", omitting unknown parts; after
  // several lines, (next) is a line of its own.
  Message message() const;
  std::string text() const { return message().text(); }
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: an Error is a Status
  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }
  Error& error() { return *error_; }
  Code code() const { return error_ ? error_->code : Code::kOk; }

 private:
  std::optional<Error> error_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: a value is a Result
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: an Error is a Result
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T operator*() && { return std::get<0>(std::move(state_)); }  // a value: nothing to dangle
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }
  Error& error() { return std::get<1>(state_); }
  Status status() const { return ok() ? Status() : Status(error()); }

 private:
  std::variant<T, Error> state_;
};

template <typename... Args>
Error makeError(Code code, fmt::format_string<Args...> what, Args&&... args) {
  Error error;
  error.code = code;
  error.what = message(what, std::forward<Args>(args)...);
  return error;
}
template <typename... Args>
Error invalidArgument(fmt::format_string<Args...> what, Args&&... args) {
  return makeError(Code::kInvalidArgument, what, std::forward<Args>(args)...);
}
// Attaches `remedies` and spells them out in `next`: "set training.batch to 20, or leave
// strategy.shares out".
Error withRemedies(Error error, std::vector<Remedy> remedies);
Error systemError(int errnum, Message what);  // code, `why`, `next` from errno

[[noreturn]] void checkFailed(const char* file, int line, const char* condition,
                              const std::string& message);

}  // namespace lockstep

#define LOCKSTEP_CHECK(condition, ...)                                                        \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::lockstep::checkFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

#define LOCKSTEP_CONCAT_IMPL(a, b) a##b
#define LOCKSTEP_CONCAT(a, b) LOCKSTEP_CONCAT_IMPL(a, b)
// LOCKSTEP_TRY(expression): returns the error of a Status from the enclosing function.
#define LOCKSTEP_TRY(expression)                                  \
  do {                                                            \
    if (auto lockstepStatus = (expression); !lockstepStatus.ok()) \
      return std::move(lockstepStatus.error());                   \
  } while (false)
// LOCKSTEP_ASSIGN(declaration, expression): the value of a Result, or returns its error.
#define LOCKSTEP_ASSIGN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                 \
  if (!temporary.ok()) return std::move(temporary.error());      \
  declaration = std::move(temporary).value()
#define LOCKSTEP_ASSIGN(declaration, expression) \
  LOCKSTEP_ASSIGN_IMPL(LOCKSTEP_CONCAT(lockstepResult, __LINE__), declaration, expression)
