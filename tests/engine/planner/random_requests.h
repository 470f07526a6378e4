// Requests drawn at random, with their clusters: shapes, strategies and options as people combine
// them. Equal seeds draw equal ones.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/cluster/strategies.h"
#include "tests/engine/planner/requests.h"

namespace lockstep::testing {

struct Drawn {
  std::string text;  // what was drawn
  planner::PlanRequest request;
  cluster::Cluster cluster;
  bool evaluatesLikeSteps = false;  // as many samples at once as it trains on
};

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}

  Drawn operator()() {
    Drawn drawn;
    microBatches_ = of({1, 1, 1, 2, 3, 8});
    const models::Model model = this->model();
    const int stages = chance(5) ? of({2, 3, 4}) : 1;
    const int modelRanks = chance(6) ? 2 : 1;
    std::vector<cluster::Strategy> strategies;  // the others are stages and modelRanks
    for (const cluster::Strategy& one : cluster::strategies())
      if (one.axis == cluster::kDataAxis)
        strategies.insert(strategies.end(), one.splitParameters ? 2u : 1u, one);
    const cluster::Strategy& strategy = strategies[random_() % strategies.size()];
    const int servers = !strategy.servers ? 0 : strategy.oneServer ? 1 : of({1, 2, 3});
    const int data = of({1, 2, 2, 3, 4, 5, 8});
    planner::PlanRequest& asked = drawn.request;
    asked.microBatches = microBatches_;
    const std::int64_t batch = data * of({1, 2, 3, 8}) + (stages > 1 ? 0 : of({0, 0, 0, 1}));
    const DType compute = chance(8) ? DType::kF64 : DType::kF32;
    const auto built = [&](std::int64_t samples, models::Use use, int parts) {
      auto graph = models::build(model, samples, compute, use, parts);
      if (!graph.ok()) qFatal("%s", graph.error().text().c_str());
      return std::move(graph).value();
    };
    asked.step = built(batch, models::Use::kTraining, asked.microBatches);
    drawn.evaluatesLikeSteps = chance(2);
    asked.evaluate =
        built(drawn.evaluatesLikeSteps ? batch : data * of({1, 4}), models::Use::kEvaluation, 1);
    asked.strategy = strategy.name;
    if (compute == DType::kF32)
      asked.matmulDtype = of({DType::kF32, DType::kF32, DType::kBf16, DType::kF16});
    if (asked.matmulDtype == DType::kF16) asked.training.lossScale.emplace();
    asked.training.optimizer.kind = of<const char*>({"adam", "adam", "sgd", "adagrad"});
    asked.training.optimizer.clipNorm = chance(3) ? 1 : 0;
    asked.training.optimizer.decayMatricesOnly = chance(3);
    if (chance(3)) asked.training.optimizer.weightDecay = 0.1;
    asked.bucketBytes = of<std::int64_t>({0, 0, 1, 1 << 12, 1 << 20, 10'000'000});
    asked.overlap = of<const char*>({"auto", "always", "always", "never"});
    asked.gatherBytes = of<std::int64_t>({0, 0, 1, 1 << 16, 1 << 24});
    asked.recompute = of<const char*>({"none", "none", "selective", "full"});
    asked.schedule = of<const char*>({"1f1b", "gpipe", "zb-h1"});
    asked.allReduce = chance(8) ? "ring" : "auto";
    if (chance(8)) asked.compression = of<const char*>({"int8", "fp16", "top-k"});
    asked.topKAfter = of({0, 5});
    asked.inOrder = chance(12);
    if (strategy.servers) asked.staleness = of({0, 0, 2, -1});
    if (strategy.servers && chance(3)) asked.dense = "all-reduce";
    if (chance(8)) {
      for (int i = 0; i < data; ++i) asked.shares.push_back(of({1, 2}));
    }
    asked.training.watch = {of<std::int64_t>({0, 1, 10}), chance(2)};
    cluster::Cluster& cluster = drawn.cluster;
    const int ranks = data * stages * modelRanks + servers;
    cluster = clusterOf(ranks, of({1, 4}),
                        chance(2) || (strategy.oneNode && !strategy.servers) ? ranks : of({1, 2}));
    if (strategy.oneNode)
      for (cluster::Device& device : cluster.devices) device.node = "n0";
    std::vector<cluster::Axis> axes;
    if (stages > 1) axes.push_back({"stage", stages});
    axes.push_back({"data", data});
    if (modelRanks > 1) axes.push_back({"model", modelRanks});
    cluster.mesh = cluster::Mesh(std::move(axes), servers);
    cluster.link =
        of<cluster::Link>({{"shm", 5e-6, 5e9}, {"gloo", 1e-4, 1e9}, {"nccl", 1e-5, 1e11}});
    if (chance(4))  // all but the last, or some
      for (std::size_t i = 0; i + 1 < asked.step.parameters.size(); ++i)
        asked.step.parameters[i].frozen = stages > 1 || chance(2);
    const auto frozen = std::ranges::count(asked.step.parameters, true, &ir::Parameter::frozen);
    // A step without gradients may need less memory than an evaluation.
    drawn.evaluatesLikeSteps = drawn.evaluatesLikeSteps && frozen == 0;
    drawn.text = fmt::format(
        "{} batch {} x {} {} data {} stages {} model {} servers {} {} {} buckets {} overlap {} "
        "gather {} recompute {} "
        "schedule {} compression {} staleness {} dense {} inOrder {} link {} clip {} frozen {}",
        modelText_, batch, asked.microBatches, strategy.name, data, stages, modelRanks, servers,
        dtypeName(compute), dtypeName(asked.matmulDtype), asked.bucketBytes, asked.overlap,
        asked.gatherBytes, asked.recompute, asked.schedule, asked.compression, asked.staleness,
        asked.dense, asked.inOrder, cluster.link.kind, asked.training.optimizer.clipNorm, frozen);
    return drawn;
  }

  // So many blocks of so many channels.
  models::Model gpt(int blocks, std::int64_t width, std::int64_t vocabulary, std::int64_t context) {
    using Kind = models::Layer::Kind;
    models::Model model;
    model.name = "gpt";
    model.input = {context};
    model.vocabulary = model.classes = vocabulary;
    models::Layer embedding = layer(Kind::kEmbedding, "embedding"),
                  head = dense("head", vocabulary);
    embedding.units = width;
    if (chance(2)) head.tied = "embedding";
    model.layers = {embedding};
    for (int i = 0; i < blocks; ++i) {
      models::Layer block = layer(Kind::kTransformer, fmt::format("block{}", i));
      block.heads = 4;
      if (chance(6)) block.dropout = 0.1;
      model.layers.push_back(block);
    }
    model.layers.push_back(layer(Kind::kLayerNorm, "norm"));
    model.layers.push_back(head);
    modelText_ = fmt::format("gpt {} x {} vocabulary {} context {}{}", blocks, width, vocabulary,
                             context, head.tied.empty() ? "" : " tied");
    return model;
  }

  template <typename T>
  T of(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_() % choices.size()));
  }
  bool chance(unsigned ofSoMany) { return random_() % ofSoMany == 0; }

 private:
  models::Model model() {
    switch (random_() % 5) {
      case 0:
        return mlp();
      case 1:
        return cnn();
      default:
        return gpt(of({1, 2, 3, 5}), of({16, 64, 256, 768}), of({12, 300, 8192, 50304}),
                   of({8, 100, 512}));
    }
  }
  models::Model mlp() {
    models::Model model = fashionMlp();
    model.layers = {layer(models::Layer::Kind::kFlatten, "flatten")};
    const int hidden = of({1, 2, 6, 12});
    for (int i = 0; i < hidden; ++i)
      model.layers.push_back(dense(fmt::format("hidden{}", i), of({10, 64, 777}), "relu"));
    model.layers.push_back(dense("head", 10));
    modelText_ = fmt::format("mlp of {}", hidden + 1);
    return model;
  }
  models::Model cnn() {
    models::Model model = fashionCnn();
    model.layers.clear();
    const int convolutions = of({1, 2, 3});
    for (int i = 0; i < convolutions; ++i) {
      const bool norm = chance(3);
      model.layers.push_back(conv2d(fmt::format("conv{}", i), of({4, 16, 48}), of({1, 3, 5}),
                                    norm ? "" : "relu", true));
      if (norm) {
        model.layers.push_back(layer(models::Layer::Kind::kBatchNorm, fmt::format("norm{}", i)));
        model.layers.back().groups = microBatches_;  // of each micro-batch its own
      }
      if (chance(2)) model.layers.push_back(maxPool2d(fmt::format("pool{}", i), 2));
    }
    model.layers.push_back(layer(models::Layer::Kind::kFlatten, "flatten"));
    model.layers.push_back(dense("head", 10));
    modelText_ = fmt::format("cnn of {}", convolutions);
    return model;
  }

  std::mt19937 random_;
  int microBatches_ = 1;
  std::string modelText_;
};

}  // namespace lockstep::testing
