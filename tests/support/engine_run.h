// Trains a model in this process, ranks as threads: what the engine's tests compare.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
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
#include "engine/runtime/local_run.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/failing_communicator.h"

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

// Two residual blocks, the second of half the resolution; batch norm with statistics over the whole
// batch, or over `groups` groups of it.
inline models::Model smallResnet(std::int64_t groups = 1) {
  using Kind = models::Layer::Kind;
  models::Model model;
  model.name = "small-resnet";
  model.input = {28, 28, 1};
  const auto conv = [&](const char* name, const char* from, std::int64_t filters,
                        std::int64_t kernel, std::int64_t stride) {
    models::Layer out;
    out.kind = Kind::kConv2d;
    out.name = name;
    out.inputs = {from};
    out.units = filters;
    out.kernel = kernel;
    out.stride = stride;
    out.same = true;
    out.bias = false;
    model.layers.push_back(out);
    models::Layer norm;
    norm.kind = Kind::kBatchNorm;
    norm.name = std::string(name) + "-norm";
    norm.groups = groups;
    norm.activation = kernel == 3 ? "relu" : "";
    model.layers.push_back(norm);
  };
  const auto add = [&](const char* name, const char* a, const char* b) {
    models::Layer out;
    out.kind = Kind::kAdd;
    out.name = name;
    out.inputs = {a, b};
    out.activation = "relu";
    model.layers.push_back(out);
  };
  conv("stem", "input", 3, 3, 4);
  conv("one", "stem-norm", 3, 3, 1);
  add("sum1", "stem-norm", "one-norm");
  conv("two", "sum1", 5, 3, 2);
  conv("short", "sum1", 5, 1, 2);
  add("sum2", "two-norm", "short-norm");
  models::Layer pool, out;
  pool.kind = Kind::kGlobalAveragePool;
  pool.name = "pool";
  out.kind = Kind::kDense;
  out.name = "head";
  out.units = 10;
  model.layers.insert(model.layers.end(), {pool, out});
  return model;
}

// A GPT of two blocks.
inline models::Model smallGpt(std::int64_t vocabulary = 11) {
  using Kind = models::Layer::Kind;
  models::Model model;
  model.name = "small-gpt";
  model.input = {6};
  model.vocabulary = model.classes = vocabulary;
  models::Layer embedding, norm, head;
  embedding.kind = Kind::kEmbedding;
  embedding.name = "embedding";
  embedding.units = 24;
  model.layers = {embedding};
  for (const char* name : {"block1", "block2"}) {
    models::Layer block;
    block.kind = Kind::kTransformer;
    block.name = name;
    block.heads = 4;
    model.layers.push_back(block);
  }
  norm.kind = Kind::kLayerNorm;
  norm.name = "norm";
  head.kind = Kind::kDense;
  head.name = "head";
  head.units = vocabulary;
  head.tied = "embedding";
  model.layers.insert(model.layers.end(), {norm, head});
  return model;
}

// Sequences in which each token mostly follows from the previous one.
class SyntheticText : public data::Dataset {
 public:
  SyntheticText(std::int64_t size, std::int64_t tokens, std::int64_t vocabulary)
      : size_(size),
        tokens_(tokens),
        vocabulary_(vocabulary),
        fields_{{"x", DType::kI32, {tokens}}, {"label", DType::kI32, {tokens}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const auto key = static_cast<std::uint64_t>(index);
    auto* ids = reinterpret_cast<std::int32_t*>(out);
    std::int64_t token = static_cast<std::int64_t>(mix64(key)) & 7;
    for (std::int64_t t = 0; t <= tokens_; ++t) {
      if (field == 0 && t < tokens_) ids[t] = static_cast<std::int32_t>(token);
      token =
          (3 * token + 1 + (randomBits(key, static_cast<std::uint64_t>(t)) % 5 == 0)) % vocabulary_;
      if (field == 1 && t < tokens_) ids[t] = static_cast<std::int32_t>(token);
    }
  }

 private:
  std::int64_t size_, tokens_, vocabulary_;
  std::vector<data::Field> fields_;
};

// Numbers and categories of a table with a skewed distribution; the label mostly follows from some
// of them.
class SyntheticTable : public data::Dataset {
 public:
  SyntheticTable(std::int64_t size, std::int64_t numbers, std::int64_t columns,
                 std::int64_t categories)
      : size_(size),
        numbers_(numbers),
        columns_(columns),
        categories_(categories),
        fields_{{"x", DType::kF32, {numbers}},
                {"categories", DType::kI32, {columns}},
                {"label", DType::kU8, {}}} {}
  std::int64_t size() const override { return size_; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const auto key = static_cast<std::uint64_t>(index);
    double score = -0.5;
    for (std::int64_t c = 0; c < numbers_; ++c) {
      const double x = randomNormal(key, static_cast<std::uint64_t>(c));
      score += x * (c % 3 == 0 ? 1 : -0.5);
      if (field == 0) reinterpret_cast<float*>(out)[c] = static_cast<float>(x);
    }
    for (std::int64_t c = 0; c < columns_; ++c) {
      const double u = randomUniform(key, static_cast<std::uint64_t>(100 + c));
      const auto id = static_cast<std::int64_t>(u * u * u * static_cast<double>(categories_));
      score += randomNormal(77, static_cast<std::uint64_t>(c * categories_ + id));
      if (field == 1)
        reinterpret_cast<std::int32_t*>(out)[c] = static_cast<std::int32_t>(c * categories_ + id);
    }
    if (field == 2)
      out[0] = std::byte{randomUniform(key, 999) < 1 / (1 + std::exp(-score)) ? std::uint8_t{1}
                                                                              : std::uint8_t{0}};
  }

 private:
  std::int64_t size_, numbers_, columns_, categories_;
  std::vector<data::Field> fields_;
};

// 4 numbers and 3 columns of 400 categories.
inline models::Model smallCtr() {
  using Kind = models::Layer::Kind;
  models::Model model;
  model.name = "ctr";
  model.input = {4};
  model.inputDtype = DType::kF32;
  model.inputScale = 1;
  model.columns = 3;
  model.categories = 400;
  model.loss = "binary-cross-entropy";
  models::Layer tables, join;
  tables.kind = Kind::kEmbedding;
  tables.name = "tables";
  tables.inputs = {"categories"};
  tables.units = 4;
  join.kind = Kind::kConcat;
  join.name = "join";
  join.inputs = {"input", "tables"};
  model.layers = {tables, join};
  for (const std::int64_t units : {8, 4, 1}) {
    models::Layer dense;
    dense.name = fmt::format("dense{}", units);
    dense.units = units;
    if (units > 1) dense.activation = "relu";
    model.layers.push_back(dense);
  }
  return model;
}

// Images with a class-specific pattern plus noise: learnable and seeded, without files.
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

// Debian's dataset-fashion-mnist; null if not installed.
inline const data::Dataset* fashionMnist() {
  static const auto dataset = [] {
    const std::string folder = "/usr/share/datasets/fashion-mnist/";
    auto opened = data::openIdx(
        {folder + "train-images-idx3-ubyte.gz", folder + "train-labels-idx1-ubyte.gz", "", ""}, 10);
    return opened.ok() ? std::move(opened).value() : nullptr;
  }();
  return dataset.get();
}

// `model` ranks along axis model, the rest along axis data.
inline cluster::Cluster oneHost(int ranks, int cores = 2, int model = 1, int stages = 1,
                                int servers = 0) {
  cluster::Cluster cluster;
  cluster.hosts = {{"host", cores}};
  for (int i = 0; i < ranks; ++i) cluster.devices.push_back({"node", "host", "cpu", i, 1});
  std::vector<cluster::Axis> axes;
  if (stages > 1) axes.push_back({"stage", stages});
  axes.push_back({"data", (ranks - servers) / model / stages});
  if (model > 1) axes.push_back({"model", model});
  cluster.mesh = cluster::Mesh(std::move(axes), servers);
  cluster.link.kind = "in-process";
  return cluster;
}

struct RunSettings {
  models::Model model = fashionMlp();
  std::string strategy = "multi-worker-mirrored";
  int ranks = 1;       // of which
  int modelRanks = 1;  // along axis model
  int stages = 1;      // along axis stage
  int servers = 0;     // the last ranks
  int staleness = 0;
  std::function<void(int rank, runtime::TrainerOptions& options)> adapt;
  std::string dense = "servers";
  std::vector<std::pair<std::string, int>> pins;
  std::vector<double> shares;
  std::string schedule = "1f1b";  // of pipeline stages
  std::int64_t batch = 96, evaluateBatch = 200;
  int microBatches = 1;
  bool inOrder = false;
  std::string allReduce = "auto";
  int hosts = 1;  // hosts of the ranks, in order
  std::string overlap = "auto";
  std::int64_t gatherBytes = 0;
  std::string recompute = "none";
  std::string compression = "none";
  double topKRatio = 0.01;
  std::int64_t topKAfter = 0;
  std::string backend = "reference";
  std::function<Result<std::unique_ptr<backends::Backend>>(int rank)>
      openBackend;  // overrides the backend
  // rendezvous of the ranks' devices; null: no groups
  comm::Store* rendezvous = nullptr;
  DType compute = DType::kF64;
  DType matmulDtype = DType::kF32;   // operand type of matmuls, if narrower
  std::string activations = "auto";  // how those are stored then
  bool tf32 = false;
  passes::Optimizer optimizer;
  std::vector<std::string> frozen;  // parameters
  std::optional<passes::LossScale> lossScale;
  passes::Watch watch;
  std::int64_t bucketBytes = 0;
  std::int64_t samples = 960;            // of synthetic images, if no data set is given
  const data::Dataset* train = nullptr;  // e.g. Fashion-MNIST
  runtime::TrainerOptions trainer;
  int failingRank = -1, failingCall = 0;
  // counts rank 0's all-gathers among all ranks, of a run with servers; may be null
  std::atomic<std::int64_t>* gathers = nullptr;
  Nanoseconds linkRest = 0;  // before each collective
  Nanoseconds collectiveLimit = 30'000'000'000;
  int slowRank = -1;  // sleeps after each step
  std::chrono::milliseconds slowness{20};
  // Rank 0 asks for a stop after this step; 0: never; -1: before the first step.
  std::int64_t stopAt = 0;
  std::function<void(std::int64_t step)> onCheckpoint;  // rank 0 published one; may be null
};

inline Result<planner::PlanRequest> planRequestOf(const RunSettings& settings) {
  planner::PlanRequest request;
  request.microBatches = settings.microBatches;
  request.inOrder = settings.inOrder;
  LOCKSTEP_ASSIGN(request.step,
                  models::build(settings.model, settings.batch / settings.microBatches,
                                settings.compute, models::Use::kTraining, settings.microBatches));
  for (ir::Parameter& parameter : request.step.parameters)
    parameter.frozen = std::ranges::find(settings.frozen, parameter.name) != settings.frozen.end();
  LOCKSTEP_ASSIGN(request.evaluate, models::build(settings.model, settings.evaluateBatch,
                                                  settings.compute, models::Use::kEvaluation));
  request.matmulDtype = settings.matmulDtype;
  request.activations = settings.activations;
  request.tf32 = settings.tf32;
  request.training.optimizer = settings.optimizer;
  request.training.lossScale = settings.lossScale;
  request.training.watch = settings.watch;
  request.training.seed = settings.trainer.seed;
  request.strategy = settings.strategy;
  request.bucketBytes = settings.bucketBytes;
  request.schedule = settings.schedule;
  request.overlap = settings.overlap;
  request.gatherBytes = settings.gatherBytes;
  request.recompute = settings.recompute;
  request.compression = settings.compression;
  request.topKRatio = settings.topKRatio;
  request.topKAfter = settings.topKAfter;
  request.allReduce = settings.allReduce;
  request.pins = settings.pins;
  request.shares = settings.shares;
  request.staleness = settings.staleness;
  request.dense = settings.dense;
  return request;
}

inline Result<plan::Plan> planOf(const RunSettings& settings) {
  LOCKSTEP_ASSIGN(const planner::PlanRequest request, planRequestOf(settings));
  cluster::Cluster cluster =
      oneHost(settings.ranks, 2, settings.modelRanks, settings.stages, settings.servers);
  for (int rank = 0; settings.hosts > 1 && rank < settings.ranks; ++rank) {
    const int host = rank * settings.hosts / settings.ranks;
    cluster.devices[static_cast<std::size_t>(rank)].host = fmt::format("host{}", host);
  }
  return planner::makePlan(request, cluster, {});
}

struct RunOutcome {
  std::vector<Result<runtime::TrainerSummary>> ranks;
  std::vector<runtime::StepRecord> steps;        // rank 0's
  std::vector<runtime::EpochRecord> epochs;      // rank 0's
  std::vector<std::vector<plan::Event>> events;  // per rank: the recorded steps one after another
  std::vector<std::string> checkpoints;
  std::int64_t spread = 0;  // the most steps that a worker was ahead of another
  bool ok() const {
    for (const auto& rank : ranks)
      if (!rank.ok()) return false;
    return !ranks.empty();
  }
  std::string error() const {
    std::string all;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      if (!ranks[r].ok())
        all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", r, ranks[r].error().text());
    return all;
  }
};

// The ranks' communicators, with the faults and the slow link that the settings ask for.
inline runtime::LocalGroups localGroups(const RunSettings& settings, const plan::Plan& plan) {
  return runtime::LocalGroups::make(
             plan.mesh, settings.collectiveLimit,
             [&](int rank,
                 std::unique_ptr<comm::Communicator> group) -> std::unique_ptr<comm::Communicator> {
               if (settings.gathers != nullptr && rank == 0 && group->size() == settings.ranks)
                 return std::make_unique<tests::CountingCommunicator>(std::move(group),
                                                                      settings.gathers);
               const bool fails = rank == settings.failingRank;
               if (!fails && settings.linkRest == 0) return group;
               return std::make_unique<tests::FailingCommunicator>(
                   std::move(group), fails ? settings.failingCall : -1, settings.linkRest);
             })
      .value();
}

inline RunOutcome run(const RunSettings& settings, const plan::Plan& plan) {
  struct Collect : runtime::TrainerObserver {
    RunOutcome* out = nullptr;
    int rank = 0;
    const RunSettings* settings = nullptr;
    std::atomic<bool>* stop = nullptr;
    std::vector<std::atomic<std::int64_t>>* done = nullptr;  // steps completed by the workers
    void onReady(std::int64_t) override {}
    void onStep(const runtime::StepRecord& record) override {
      if (rank == 0) out->steps.push_back(record);
      if (rank == 0 && record.step == settings->stopAt) stop->store(true);
      if (static_cast<std::size_t>(rank) >= done->size()) return;
      (*done)[static_cast<std::size_t>(rank)] = record.step;
      for (const auto& other : *done)
        if (rank == 0) out->spread = std::max(out->spread, record.step - other);
      if (rank == settings->slowRank) std::this_thread::sleep_for(settings->slowness);
    }
    void onEvents(const std::vector<plan::Event>& events) override {
      auto& mine = out->events[static_cast<std::size_t>(rank)];
      mine.insert(mine.end(), events.begin(), events.end());
    }
    void onEpoch(const runtime::EpochRecord& record) override {
      if (rank == 0) out->epochs.push_back(record);
    }
    void onCheckpoint(std::int64_t step, const std::string& folder) override {
      if (rank != 0) return;
      out->checkpoints.push_back(folder);
      if (settings->onCheckpoint) settings->onCheckpoint(step);
    }
  };
  const std::size_t ranks = static_cast<std::size_t>(settings.ranks);
  RunOutcome out;
  out.events.resize(ranks);
  const models::Model& model = settings.model;
  const SyntheticImages images(settings.samples), evaluateImages(200);
  const SyntheticText text(settings.samples, model.input[0], model.vocabulary),
      evaluateText(200, model.input[0], model.vocabulary);
  const bool isText = model.vocabulary > 0;
  const SyntheticTable table(settings.samples, model.input[0], model.columns, model.categories),
      evaluateTable(200, model.input[0], model.columns, model.categories);
  const auto kind = [&](const data::Dataset& image, const data::Dataset& sequence,
                        const data::Dataset& columns) -> const data::Dataset& {
    return model.columns > 0 ? columns : isText ? sequence : image;
  };
  const data::Dataset& evaluate = kind(evaluateImages, evaluateText, evaluateTable);
  const data::Dataset& synthetic = kind(images, text, table);
  const data::Dataset& train = settings.train != nullptr ? *settings.train : synthetic;
  std::atomic<bool> stop{settings.stopAt < 0};
  std::vector<std::atomic<std::int64_t>> done(static_cast<std::size_t>(plan.mesh.workers()));
  runtime::LocalGroups groups = localGroups(settings, plan);
  std::vector<Collect> observers(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    observers[rank].out = &out;
    observers[rank].rank = static_cast<int>(rank);
    observers[rank].settings = &settings;
    observers[rank].stop = &stop;
    observers[rank].done = &done;
  }
  out.ranks = runtime::trainLocally({plan,
                                     settings.trainer,
                                     train,
                                     evaluate,
                                     settings.backend,
                                     {},
                                     settings.openBackend,
                                     settings.rendezvous,
                                     settings.adapt},
                                    groups, stop, [&](int rank) -> runtime::TrainerObserver& {
                                      return observers[static_cast<std::size_t>(rank)];
                                    });
  return out;
}

// Trains with the plan after a round trip through its text; a planning error is returned as rank
// 0's.
inline RunOutcome trained(const RunSettings& settings) {
  const auto plan = planOf(settings);
  if (!plan.ok()) {
    RunOutcome out;
    out.ranks.push_back(plan.error());
    return out;
  }
  const auto parsed = plan::parse(plan::text(*plan));
  LOCKSTEP_CHECK(parsed.ok() && *parsed == *plan, "the plan's text is another plan");
  return run(settings, *parsed);
}

// Worst relative difference of the losses over all steps; infinite if the numbers of steps differ
// or a loss is not a number.
inline double worstRelative(const RunOutcome& a, const RunOutcome& b) {
  if (a.steps.size() != b.steps.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const double difference =
        std::abs(a.steps[i].loss - b.steps[i].loss) / std::abs(b.steps[i].loss);
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
  }
  return worst;
}

}  // namespace lockstep::test
