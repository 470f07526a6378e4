// Measures what a run's file costs: lockstep_history_bench [--nodes 64] [--gpus 8] [--metrics 12]
// [--rate 10] [--seconds 3600] [--judge] [FOLDER]
//
// Writes the samples that the GPUs of a cluster would send, a batch every quarter of a second, as
// fast as they can be written; values and times have the resolution and the noise of a driver's.
// Prints seconds of the processor per second of the run, bytes per value, and how long a view of
// one GPU, and of the whole cluster, takes to read. FOLDER: where the file goes; the temporary one
// if it is missing. With --judge it exits 1 if a value takes more than 2 bytes.
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>

#include "app/history/run_store.h"
#include "engine/base/clock.h"
#include "tests/bench/judge.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

double processorSeconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(use.ru_utime) + of(use.ru_stime);
}

double residentMegabytes() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_maxrss) / 1024;
}

struct Load {
  int nodes = 64, gpus = 8, metrics = 12, rate = 10, seconds = 3600;
};

// A metric of a GPU: a share, a count of bytes, degrees, watts, a clock, traffic.
double sample(int metric, std::mt19937& random) {
  const auto noise = [&](double width) {
    return std::floor(std::uniform_real_distribution<double>(0, width)(random));
  };
  switch (metric % 6) {
    case 0:
      return (90 + noise(11)) / 100;
    case 1:
      return 60e9 + noise(4) * 2097152;
    case 2:
      return 60 + noise(3);
    case 3:
      return static_cast<double>(static_cast<float>((3500 + noise(400)) / 10));
    case 4:
      return 1980 - 15 * noise(3);
    default:
      return 1000 * (20'000 + noise(2000));
  }
}

double milliseconds(Nanoseconds since) {
  return static_cast<double>(monotonicNow() - since) * 1e-6;
}

int run(const Load& load, const std::string& path, test::Judge& judge) {
  auto made = makeRunStore(path);
  if (!made.ok() || !(*made)->lockForRecording().ok()) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return 1;
  }
  RunStore& store = **made;
  std::mt19937 random(1);
  std::vector<std::string> names;
  for (int node = 0; node < load.nodes; ++node)
    for (int gpu = 0; gpu < load.gpus; ++gpu)
      for (int metric = 0; metric < load.metrics; ++metric)
        names.push_back("node/n" + std::to_string(node) + "/gpu/" + std::to_string(gpu) + "/m" +
                        std::to_string(metric));
  std::int64_t values = 0, samples = 0;
  double appending = 0, longest = 0;
  constexpr int kBatches = 4;  // a second
  for (int batch = 0; batch < load.seconds * kBatches; ++batch) {
    RunBatch out;
    const std::int64_t until = static_cast<std::int64_t>(batch + 1) * load.rate / kBatches;
    for (std::size_t i = 0; i < names.size(); ++i) {
      RunBatch::Series series{names[i], {}};
      for (std::int64_t at = samples; at < until; ++at) {
        const double late = std::uniform_real_distribution<double>(0, 2)(random);
        const double x = 1.79e12 + static_cast<double>(at) * 1000 / load.rate + late;
        series.points.push_back(
            {std::round(x) / 1e3, sample(static_cast<int>(i) % load.metrics, random)});
      }
      values += static_cast<std::int64_t>(series.points.size());
      out.series.push_back(std::move(series));
    }
    samples = until;
    const double before = processorSeconds();
    const Nanoseconds began = monotonicNow();
    if (!store.append(out).ok()) return 1;
    appending += processorSeconds() - before;
    longest = std::max(longest, milliseconds(began));
  }
  const Nanoseconds opening = monotonicNow();
  auto reader = openRunStore(path);
  const std::size_t curves = (*reader)->series().size();
  std::printf("opened, %zu curves listed: %.1f ms\n", curves, milliseconds(opening));
  const Nanoseconds one = monotonicNow();
  for (int metric = 0; metric < load.metrics; ++metric)
    (void)(*reader)->read(names[static_cast<std::size_t>(metric)], 0, 1e12, 1000);
  std::printf("all of one GPU, 1000 pixels: %.1f ms\n", milliseconds(one));
  const Nanoseconds all = monotonicNow();
  for (int gpu = 0; gpu < load.nodes * load.gpus; ++gpu)
    (void)(*reader)->read(names[static_cast<std::size_t>(gpu * load.metrics)], 0, 1e12, 1000);
  std::printf("one metric of all GPUs, 1000 pixels: %.1f ms\n", milliseconds(all));
  made->reset();
  reader->reset();  // the last one to close the file puts its log into it
  const double bytes =
      static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(values);
  std::printf("%lld values of %d s: %.2f bytes a value\n", static_cast<long long>(values),
              load.seconds, bytes);
  judge.atMost("disk per value", bytes, 2, "bytes");
  std::printf("writing: %.3f s of a processor per second of the run, longest write %.0f ms\n",
              appending / load.seconds, longest);
  std::printf("greatest memory: %.0f MB\n", residentMegabytes());
  return judge.verdict();
}

}  // namespace

int main(int argc, char** argv) {
  test::Judge judge(argc, argv);
  Load load;
  std::string folder = std::filesystem::temp_directory_path();
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::pair<const char*, int*> numbers[] = {{"--nodes", &load.nodes},
                                                    {"--gpus", &load.gpus},
                                                    {"--metrics", &load.metrics},
                                                    {"--rate", &load.rate},
                                                    {"--seconds", &load.seconds}};
    bool known = false;
    for (const auto& [name, number] : numbers) {
      if (word != name || i + 1 >= argc) continue;
      *number = std::max(1, std::atoi(argv[++i]));
      known = true;
      break;
    }
    if (!known && word.starts_with("-")) {
      std::fprintf(stderr, "unknown option %s\n", word.c_str());
      return 2;
    }
    if (!known) folder = word;
  }
  const std::string path = folder + "/lockstep-history-bench.db";
  std::filesystem::remove(path);
  const int code = run(load, path, judge);
  for (const char* rest : {"", "-wal", "-shm", ".lock", ".open"})
    std::filesystem::remove(path + rest);
  return code;
}
