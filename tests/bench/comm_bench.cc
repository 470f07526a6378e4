// lockstep_comm_bench [RANKS [KIND…]]: latency and bus bandwidth of the f32 all-reduce by size and
// kind of communicator, ranks as processes. Prints a median a line: kind, ranks, bytes, µs, GB/s.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

constexpr Nanoseconds kLeast = 300'000'000;  // time spent on a size

// Bus bandwidth as NCCL's tests define it: bytes × 2 (n - 1) / n over the time.
void measure(comm::Communicator& group, std::int64_t bytes) {
  std::vector<float> data(static_cast<std::size_t>(bytes / 4), 1.0f);
  const auto reduce = [&] {
    const auto status =
        group.allReduce(data.data(), bytes / 4, DType::kF32, comm::ReduceOp::kMax);
    LOCKSTEP_CHECK(status.ok(), "{}", status.error().text());
  };
  for (int i = 0; i < 5; ++i) reduce();
  std::vector<Nanoseconds> times;
  // All ranks play the same number of rounds: rank 0's time decides.
  Nanoseconds spent = 0;
  std::int64_t going = 1;
  while (going != 0) {
    for (int i = 0; i < 20; ++i) {
      const Nanoseconds start = monotonicNow();
      reduce();
      times.push_back(monotonicNow() - start);
      spent += times.back();
    }
    going = spent < kLeast ? 1 : 0;
    LOCKSTEP_CHECK(group.broadcast(&going, sizeof going, 0).ok(), "broadcast");
  }
  if (group.rank() != 0) return;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  const double seconds = static_cast<double>(times[times.size() / 2]) * 1e-9;
  const double moved = static_cast<double>(bytes) * 2 * (group.size() - 1) / group.size();
  const auto line = fmt::format("{:10} {:3} {:10} {:12.1f} {:8.2f}\n", group.kind(), group.size(),
                                bytes, seconds * 1e6, moved / seconds * 1e-9);
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

std::string measureAll(comm::Communicator& group) {
  for (const std::int64_t bytes : {4, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 64 << 20})
    measure(group, bytes);
  return {};
}

}  // namespace
}  // namespace lockstep::tests

int main(int argc, char** argv) {
  using namespace lockstep::tests;
  GroupOptions options;
  options.size = argc > 1 ? std::atoi(argv[1]) : 2;
  options.oversubscribed = options.size > static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::string> kinds(argv + std::min(argc, 2), argv + argc);
  if (kinds.empty()) kinds = {"in-process", "shm", "gloo"};
  std::printf("%-10s %3s %10s %12s %8s\n", "kind", "n", "bytes", "us", "GB/s");
  std::fflush(stdout);
  std::string folder = (std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  for (const auto& kind : kinds) {
    options.kind = kind;
    if (kind == "in-process") {
      runAsThreads(options, measureAll);
      continue;
    }
    ProcessGroup group(options, folder,
                       [](auto& own, const ProcessGroup::Say&) { return measureAll(own); });
    for (int r = 0; r < options.size; ++r)
      if (const auto answer = group.answer(r); !answer.empty()) std::puts(answer.c_str());
  }
  std::filesystem::remove_all(folder);
  return 0;
}
