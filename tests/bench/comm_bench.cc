// lockstep_comm_bench [RANKS [SIDE…]]: the f32 all-reduce of our communicators beside Gloo's own
// algorithms, ranks as processes of this host, each on a core of its own where there are enough.
// For each size the sides run in turn, three rounds; the median of the rounds' medians counts.
// Prints a line a size and side: bytes, side, µs, bus bandwidth (bytes × 2 (n - 1) / n over the
// time), and for ours how many times that of Gloo's best.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/base/statistics.h"
#include "engine/base/threads.h"
#include "tests/support/communicator_groups.h"

namespace lockstep::tests {
namespace {

constexpr Nanoseconds kRound = 120'000'000;  // of one side with one size
constexpr int kRounds = 3;
constexpr std::int64_t kSizes[] = {4,       4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                   1 << 20, 4 << 20, 16 << 20, 64 << 20};

struct Side {
  std::string name;
  std::function<void(float* data, std::int64_t count)> reduce;
  std::function<void()> rest = [] {};  // forgets what it keeps of a size
  std::vector<double> medians = {};
};

void add(float* to, const float* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

// One of Gloo's classes, which are made for memory of one size.
template <typename Algorithm>
Side glooSide(std::string name, const std::shared_ptr<gloo::Context>& context) {
  auto made = std::make_shared<std::unique_ptr<Algorithm>>();
  return {std::move(name),
          [made, context](float* data, std::int64_t count) {
            if (!*made)
              *made = std::make_unique<Algorithm>(context, std::vector<float*>{data},
                                                  static_cast<int>(count));
            (*made)->run();
          },
          [made] { made->reset(); }};
}

Side ours(comm::Communicator& group) {
  return {std::string(group.kind()), [&group](float* data, std::int64_t count) {
            const auto status = group.allReduce(data, count, DType::kF32, comm::ReduceOp::kSum);
            LOCKSTEP_CHECK(status.ok(), "{}", status.error().text());
          }};
}

// All ranks run equally often: rank 0's clock decides.
double measure(comm::Communicator& group, const Side& side, float* data, std::int64_t count) {
  std::vector<double> times;
  for (int i = 0; i < 2; ++i) side.reduce(data, count);
  const Nanoseconds begin = monotonicNow();
  for (std::int64_t going = 1; going != 0;) {
    for (int i = 0; i < 5; ++i) {
      const Nanoseconds start = monotonicNow();
      side.reduce(data, count);
      times.push_back(static_cast<double>(monotonicNow() - start) * 1e-9);
    }
    going = monotonicNow() - begin < kRound ? 1 : 0;
    LOCKSTEP_CHECK(group.broadcast(&going, sizeof going, 0).ok(), "broadcast");
  }
  return median(std::move(times));
}

void compare(comm::Communicator& group, std::vector<Side>& sides, std::int64_t bytes) {
  const std::int64_t count = bytes / 4;
  std::vector<float> data(static_cast<std::size_t>(count), 0.0f);
  for (int round = 0; round < kRounds; ++round)
    for (Side& side : sides) {
      side.medians.resize(static_cast<std::size_t>(round));
      side.medians.push_back(measure(group, side, data.data(), count));
    }
  for (Side& side : sides) side.rest();
  if (group.rank() != 0) return;
  double best = 0;  // seconds of Gloo's best
  for (const Side& side : sides)
    if (side.name.starts_with("gloo::"))
      best = best == 0 ? median(side.medians) : std::min(best, median(side.medians));
  for (const Side& side : sides) {
    const double seconds = median(side.medians);
    const double moved = static_cast<double>(bytes) * 2 * (group.size() - 1) / group.size();
    auto line = fmt::format("{:10} {:26} {:12.1f} {:8.2f}", bytes, side.name, seconds * 1e6,
                            moved / seconds * 1e-9);
    if (best > 0 && !side.name.starts_with("gloo::"))
      line += fmt::format("  {:.1f}x", best / seconds);
    std::puts(line.c_str());
  }
  std::fflush(stdout);
}

void rankOf(int rank, const GroupOptions& options, const GroupSetup& setup,
            const std::string& folder, const std::vector<std::string>& wanted) {
  const auto open = [&](const char* kind) {
    auto made = groupKind(kind).open(options, rank, setup);
    LOCKSTEP_CHECK(made.ok(), "{}", made.error().text());
    return std::move(*made);
  };
  const auto shm = open("shm"), mesh = open("gloo");
  gloo::transport::tcp::attr attributes("127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, options.size);
  context->connectFullMesh(store, device);

  std::vector<Side> sides{ours(*shm), ours(*mesh)};
  sides.push_back(glooSide<gloo::AllreduceRing<float>>("gloo::AllreduceRing", context));
  sides.push_back(
      glooSide<gloo::AllreduceRingChunked<float>>("gloo::AllreduceRingChunked", context));
  sides.push_back(
      glooSide<gloo::AllreduceHalvingDoubling<float>>("gloo::AllreduceHalvingDoubling", context));
  if (options.size <= 2)  // of more ranks than cores it takes seconds
    sides.push_back({"gloo::allreduce", [context](float* data, std::int64_t count) {
                       gloo::AllreduceOptions call(context);
                       call.setOutput(data, static_cast<std::size_t>(count));
                       call.setReduceFunction(
                           [](void* to, const void* a, const void* b, std::size_t n) {
                             std::memmove(to, a, n * sizeof(float));
                             add(static_cast<float*>(to), static_cast<const float*>(b), n);
                           });
                       gloo::allreduce(call);
                     }});
  if (!wanted.empty())
    std::erase_if(sides, [&](const Side& side) {
      return std::find(wanted.begin(), wanted.end(), side.name) == wanted.end();
    });
  const std::vector<int> cores = givenCores();
  if (options.size <= static_cast<int>(cores.size()))
    pinThread(0, std::span(cores).subspan(static_cast<std::size_t>(rank), 1));
  for (const std::int64_t bytes : kSizes) compare(*shm, sides, bytes);
  LOCKSTEP_CHECK(shm->barrier().ok(), "the end");
}

}  // namespace
}  // namespace lockstep::tests

int main(int argc, char** argv) {
  using namespace lockstep::tests;
  GroupOptions options;
  options.size = argc > 1 ? std::atoi(argv[1]) : 2;
  options.oversubscribed = options.size > static_cast<int>(lockstep::givenCores().size());
  options.timeout = 60'000'000'000;
  const std::vector<std::string> wanted(argv + std::min(argc, 2), argv + argc);
  std::printf("%10s %-26s %12s %8s   of %d ranks\n", "bytes", "", "us", "GB/s", options.size);
  std::fflush(stdout);
  std::string folder = (std::filesystem::temp_directory_path() / "lockstep-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  FolderStore store(folder);
  const GroupSetup setup(options.size, store);
  const std::string own = folder + "/gloo";
  std::filesystem::create_directory(own);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      rankOf(rank, options, setup, own, wanted);
      _exit(0);
    }
    ranks.push_back(pid);
  }
  bool well = true;
  for (const pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    well = well && status == 0;
  }
  std::filesystem::remove_all(folder);
  return well ? 0 : 1;
}
