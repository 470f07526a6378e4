// Wakes a thread that sleeps in poll: readable after notify, until cleared.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "engine/base/status.h"
#include "engine/base/unique_fd.h"

namespace lockstep::app {

class Wake {
 public:
  Wake() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    LOCKSTEP_CHECK(fd_, "no descriptors left");
  }
  int fd() const { return fd_.get(); }
  void notify() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(fd_.get(), &one, sizeof one);
  }
  void clear() const {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t n = ::read(fd_.get(), &count, sizeof count);
  }

 private:
  UniqueFd fd_;
};

}  // namespace lockstep::app
