#include "engine/base/status.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 13> kCodeNames = {"ok",
                                                         "invalid-argument",
                                                         "not-found",
                                                         "already-exists",
                                                         "failed-precondition",
                                                         "permission-denied",
                                                         "unavailable",
                                                         "deadline-exceeded",
                                                         "resource-exhausted",
                                                         "data-loss",
                                                         "aborted",
                                                         "cancelled",
                                                         "internal"};

Code codeOfErrno(int errnum) {
  switch (errnum) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return Code::kResourceExhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
      return Code::kInvalidArgument;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EAGAIN:
    case EADDRINUSE:
      return Code::kUnavailable;
    case EIO:
      return Code::kDataLoss;
    default:
      return Code::kInternal;
  }
}

std::string_view nextOfErrno(int errnum) {
  switch (errnum) {
    case ENOENT:
    case ENOTDIR:
      return "check that path";
    case EACCES:
    case EPERM:
      return "check who owns it and its permissions";
    case EROFS:
      return "choose a place that can be written";
    case ENOSPC:
    case EDQUOT:
      return "free space there";
    case ENOMEM:
      return "free memory";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    case EIO:
      return "check the disk";
    default:
      return {};
  }
}

}  // namespace

std::string_view codeName(Code code) { return kCodeNames[static_cast<std::size_t>(code)]; }

std::optional<Code> codeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kCodeNames.size(); ++i)
    if (kCodeNames[i] == name) return static_cast<Code>(i);
  return std::nullopt;
}

std::string Error::text() const {
  std::string out;
  auto place = [&out](std::string part) {
    if (!out.empty()) out += ", ";
    out += part;
  };
  if (!node.empty()) place("node " + node);
  if (rank >= 0) place(fmt::format("rank {}", rank));
  if (step >= 0) place(fmt::format("step {}", step));
  if (!out.empty()) out += ": ";
  out += what;
  if (!why.empty()) out += ": " + why;
  if (!next.empty()) out += " (" + next + ")";
  return out;
}

Error withRemedies(Error error, std::vector<Remedy> remedies) {
  error.next.clear();
  for (const Remedy& remedy : remedies) {
    if (!error.next.empty()) error.next += ", or ";
    for (std::size_t i = 0; i < remedy.size(); ++i) {
      const auto& [field, value] = remedy[i];
      if (i > 0) error.next += " and ";
      error.next += value.empty() ? fmt::format("leave {} out", field)
                                  : fmt::format("set {} to {}", field, value);
    }
  }
  error.remedies = std::move(remedies);
  return error;
}

Error systemError(int errnum, std::string what) {
  Error error;
  error.code = codeOfErrno(errnum);
  error.what = std::move(what);
  std::array<char, 128> buffer{};
  error.why = strerror_r(errnum, buffer.data(), buffer.size());
  error.next = nextOfErrno(errnum);
  return error;
}

void checkFailed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s %s\n", file, line, condition, message.c_str());
  std::abort();
}

}  // namespace lockstep
