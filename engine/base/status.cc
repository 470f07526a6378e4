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

Message Error::message() const {
  using lockstep::message;
  Message place;
  const auto at = [&place](Message part) {
    place = place.empty() ? std::move(part) : message("{}, {}", place, part);
  };
  if (!node.empty()) at(message("node {}", node));
  if (rank >= 0) at(message("rank {}", rank));
  if (step >= 0) at(message("step {}", step));
  Message out = what;
  if (!field.empty()) out = message("{}: {}", out, field);
  if (!why.empty()) out = message("{}: {}", out, why);
  // A reason of several lines, as a log's, stands apart from what to do next.
  const bool severalLines = out.text().find('\n') != std::string::npos;
  if (!next.empty())
    out = severalLines ? message("{}\n({})", out, next) : message("{} ({})", out, next);
  return place.empty() ? out : message("{}: {}", place, out);
}

Error withRemedies(Error error, std::vector<Remedy> remedies) {
  error.next = {};
  for (const Remedy& remedy : remedies) {
    Message together;
    for (const auto& [field, value] : remedy) {
      Message one =
          value.empty() ? message("leave {} out", field) : message("set {} to {}", field, value);
      together = together.empty() ? std::move(one) : message("{} and {}", together, one);
    }
    error.next =
        error.next.empty() ? std::move(together) : message("{}, or {}", error.next, together);
  }
  error.remedies = std::move(remedies);
  return error;
}

Error systemError(int errnum, Message what) {
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
