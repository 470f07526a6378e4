// Trains a model in this process, ranks as threads: what the engine's tests compare.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/base/random.h"
#include "engine/cluster/mesh.h"
#include "engine/comm/communicator.h"
#include "engine/data/dataset.h"
#include "engine/models/model.h"
#include "engine/planner/planner.h"
#include "engine/runtime/trainer.h"

namespace lockstep::test {

inline models::Model fashionMlp() {
  models::Model model;
  model.name = "fashion-mlp";
  model.input = {28, 28, 1};
  models::Layer flatten, hidden, out;
  flatten.kind = models::Layer::Kind::kFlatten;
  flatten.name = "flatten";
  hidden.kind = models::Layer::Kind::kDense;
  hidden.name = "dense1";
  hidden.units = 128;
  hidden.activation = "relu";
  out.kind = models::Layer::Kind::kDense;
  out.name = "dense2";
  out.units = 10;
  model.layers = {flatten, hidden, out};
  return model;
}

inline models::Model fashionCnn() {
  models::Model model;
  model.name = "fashion-cnn";
  model.input = {28, 28, 1};
  models::Layer conv, pool, flatten, out;
  conv.kind = models::Layer::Kind::kConv2d;
  conv.name = "conv";
  conv.units = 32;
  conv.kernel = 3;
  conv.activation = "relu";
  pool.kind = models::Layer::Kind::kMaxPool2d;
  pool.name = "pool";
  pool.kernel = 2;
  pool.stride = 2;
  flatten.kind = models::Layer::Kind::kFlatten;
  flatten.name = "flatten";
  out.kind = models::Layer::Kind::kDense;
  out.name = "dense";
  out.units = 10;
  model.layers = {conv, pool, flatten, out};
  return model;
}

// Pixels with a pattern of their class plus noise: learnable, seeded, needs no file.
class SyntheticImages : public data::Dataset {
 public:
  explicit SyntheticImages(std::int64_t size)
      : size_(size), fields_{{"x", DType::kU8, {28, 28, 1}}, {"label", DType::kU8, {}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const auto key = static_cast<std::uint64_t>(index);
    const auto label = static_cast<std::uint8_t>(mix64(key) % 10);
    if (field == 1) {
      out[0] = std::byte{label};
      return;
    }
    for (std::size_t i = 0; i < 784; ++i) {
      const std::uint64_t noise = randomBits(key, i) % 160;
      const bool on = mix64(label * 784u + i) % 3 == 0;
      out[i] = static_cast<std::byte>(noise + (on ? 90 : 0));
    }
  }

 private:
  std::int64_t size_;
  std::vector<data::Field> fields_;
};

// Debian's dataset-fashion-mnist; null where it is not installed.
inline const data::Dataset* fashionMnist() {
  static const auto dataset = [] {
    const std::string folder = "/usr/share/datasets/fashion-mnist/";
    auto opened = data::openIdx({folder + "train-images-idx3-ubyte.gz",
                                 folder + "train-labels-idx1-ubyte.gz", "", ""}, 10);
    return opened.ok() ? std::move(opened).value() : nullptr;
  }();
  return dataset.get();
}

inline cluster::Cluster oneHost(int ranks, int cores = 2) {
  cluster::Cluster cluster;
  cluster.hosts = {{"host", cores}};
  for (int i = 0; i < ranks; ++i) cluster.devices.push_back({"node", "host", "cpu", i, 1});
  cluster.mesh = cluster::Mesh({{"data", ranks}});
  cluster.link.kind = "in-process";
  return cluster;
}

struct RunSettings {
  models::Model model = fashionMlp();
  int ranks = 1;
  std::int64_t batch = 96;
  std::string backend = "reference";
  DType compute = DType::kF64;
  passes::Optimizer optimizer;
  std::int64_t bucketBytes = 0;
  std::int64_t samples = 960;            // of synthetic images, where no data set is given
  const data::Dataset* train = nullptr;  // e.g. Fashion-MNIST
  runtime::TrainerOptions trainer;
};

inline Result<plan::Plan> planOf(const RunSettings& settings) {
  planner::PlanRequest request;
  LOCKSTEP_ASSIGN(request.step, models::build(settings.model, settings.batch, settings.compute));
  LOCKSTEP_ASSIGN(request.evaluate, models::build(settings.model, 200, settings.compute));
  request.training.optimizer = settings.optimizer;
  request.training.seed = settings.trainer.seed;
  request.strategy = "multi-worker-mirrored";
  request.bucketBytes = settings.bucketBytes;
  return planner::makePlan(request, oneHost(settings.ranks), {});
}

struct RunOutcome {
  std::vector<Result<runtime::TrainerSummary>> ranks;
  std::vector<runtime::StepRecord> steps;      // rank 0's
  std::vector<runtime::EpochRecord> epochs;    // rank 0's
  std::vector<std::vector<plan::Event>> events;  // of each rank, all told steps one after another
  std::vector<std::string> checkpoints;
  bool ok() const {
    for (const auto& rank : ranks)
      if (!rank.ok()) return false;
    return !ranks.empty();
  }
  std::string error() const {
    for (const auto& rank : ranks)
      if (!rank.ok()) return rank.error().text();
    return "";
  }
};

inline RunOutcome run(const RunSettings& settings, const plan::Plan& plan) {
  struct Collect : runtime::TrainerObserver {
    RunOutcome* out = nullptr;
    int rank = 0;
    std::atomic<bool>* stop = nullptr;
    std::int64_t stopAt = 0;
    void onReady(std::int64_t) override {}
    void onStep(const runtime::StepRecord& record) override {
      if (rank == 0) out->steps.push_back(record);
    }
    void onEvents(const std::vector<plan::Event>& events) override {
      auto& mine = out->events[static_cast<std::size_t>(rank)];
      mine.insert(mine.end(), events.begin(), events.end());
    }
    void onEpoch(const runtime::EpochRecord& record) override {
      if (rank == 0) out->epochs.push_back(record);
    }
    void onCheckpoint(std::int64_t, const std::string& folder) override {
      out->checkpoints.push_back(folder);
    }
  };
  const std::size_t ranks = static_cast<std::size_t>(settings.ranks);
  RunOutcome out;
  out.events.resize(ranks);
  out.ranks.assign(ranks, makeError(Code::kInternal, "did not run"));
  const SyntheticImages synthetic(settings.samples), evaluate(200);
  const data::Dataset& train = settings.train != nullptr ? *settings.train : synthetic;
  auto group = comm::makeInProcessGroup(settings.ranks, 30'000'000'000);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < settings.ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto backend = backends::makeBackend(settings.backend, {});
      Collect collect;
      collect.out = &out;
      collect.rank = rank;
      comm::Communicator* mine =
          settings.ranks > 1 ? group[static_cast<std::size_t>(rank)].get() : nullptr;
      auto& result = out.ranks[static_cast<std::size_t>(rank)];
      if (!backend.ok())
        result = backend.error();
      else
        result = runtime::train(plan, rank, settings.trainer, train, evaluate, **backend, mine, stop,
                                collect);
      if (!result.ok() && mine != nullptr) mine->abort();
    });
  for (std::thread& thread : threads) thread.join();
  return out;
}

}  // namespace lockstep::test
