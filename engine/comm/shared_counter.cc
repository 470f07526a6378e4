#include "engine/comm/shared_counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace lockstep::comm {

void sleepOn(SharedCounter& counter, std::uint32_t seen, Nanoseconds limit) {
  counter.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (counter.value.load(std::memory_order_seq_cst) == seen) {
    const timespec time{limit / 1'000'000'000, limit % 1'000'000'000};
    syscall(SYS_futex, &counter.value, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  counter.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void wakeAll(SharedCounter& counter) {
  syscall(SYS_futex, &counter.value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void publish(SharedCounter& counter, std::uint32_t value) {
  counter.value.store(value, std::memory_order_seq_cst);
  if (counter.sleepers.load(std::memory_order_seq_cst) != 0) wakeAll(counter);
}

}  // namespace lockstep::comm
