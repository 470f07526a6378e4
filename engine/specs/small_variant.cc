#include <algorithm>
#include <numeric>

#include "engine/cluster/cuts.h"
#include "engine/cluster/strategies.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

using spec::v1::LayerSpec;
using spec::v1::RunSpec;

constexpr std::int64_t kBatch = 8, kTokens = 16, kHeadChannels = 8, kFilters = 4,
                       kCategories = 1000, kHiddenUnits = 512;

class Shrink {
 public:
  Shrink(const RunSpec& spec, int tensorRanks) : out_{spec, {}}, tensorRanks_(tensorRanks) {}

  SmallRun run(int dataRanks) {
    out_.spec.mutable_model()->clear_init_from();
    batch(dataRanks);
    if (out_.spec.model().input().vocabulary() > 0)
      text();
    else
      dense();
    images();
    tables();
    return std::move(out_);
  }

 private:
  void say(std::string_view what, std::int64_t before, std::int64_t after) {
    if (before != after) out_.changes.push_back(fmt::format("{} {} → {}", what, before, after));
  }

  void batch(int dataRanks) {
    auto& training = *out_.spec.mutable_training();
    const std::int64_t before = training.batch();
    // Chosen for the original batch.
    auto& strategy = *out_.spec.mutable_strategy();
    const cluster::Strategy* const kind = cluster::findStrategy(strategy.kind());
    if (const auto parts = microBatches(out_.spec, dataRanks);
        kind != nullptr && kind->local && parts.ok())
      strategy.set_local_steps(*parts);
    training.set_batch(smallBatch(out_.spec, dataRanks));
    training.set_evaluate_batch(training.batch());
    say("batch", before, training.batch());
  }

  // Layers that no longer fit together stay as they are.
  bool take(spec::v1::ModelSpec narrow) {
    if (!toModel(narrow).ok()) return false;
    *out_.spec.mutable_model() = std::move(narrow);
    return true;
  }

  // Fewer tokens and channels; the same heads and blocks.
  void text() {
    auto& model = *out_.spec.mutable_model();
    if (model.input().shape_size() == 1) {
      const std::int64_t before = model.input().shape(0);
      model.mutable_input()->set_shape(0, std::min(before, kTokens));
      say("tokens", before, model.input().shape(0));
    }
    std::int64_t parts = tensorRanks_, channels = 0;  // into which ranks and heads divide channels
    for (const LayerSpec& layer : model.layers()) {
      if (layer.has_transformer())
        parts = std::lcm(parts, std::max<std::int64_t>(1, layer.transformer().heads()));
      if (layer.has_embedding()) channels = std::max(channels, layer.embedding().units());
    }
    const std::int64_t fewer = parts * kHeadChannels;
    if (channels <= fewer) return;
    spec::v1::ModelSpec narrow = model;
    for (LayerSpec& layer : *narrow.mutable_layers()) {
      if (layer.has_embedding() && layer.embedding().units() == channels)
        layer.mutable_embedding()->set_units(fewer);
      if (layer.has_transformer() && layer.transformer().feed_forward() > 4 * fewer)
        layer.mutable_transformer()->set_feed_forward(4 * fewer);
    }
    for (int i = 0; i + 1 < narrow.layers_size(); ++i)  // the last has the classes
      if (LayerSpec& layer = *narrow.mutable_layers(i);
          layer.has_dense() && layer.dense().units() % channels == 0)
        layer.mutable_dense()->set_units(layer.dense().units() / channels * fewer);
    if (take(std::move(narrow))) say("channels", channels, fewer);
  }

  // Narrower hidden layers that tensor ranks divide as before.
  void dense() {
    const std::int64_t fewer = kHiddenUnits / tensorRanks_ * tensorRanks_;
    if (fewer == 0) return;
    spec::v1::ModelSpec narrow = out_.spec.model();
    std::int64_t widest = 0;
    for (int i = 0; i + 1 < narrow.layers_size(); ++i) {
      LayerSpec& layer = *narrow.mutable_layers(i);
      if (!layer.has_dense() || layer.dense().units() <= kHiddenUnits ||
          layer.dense().units() % tensorRanks_ != 0)
        continue;
      widest = std::max(widest, layer.dense().units());
      layer.mutable_dense()->set_units(fewer);
    }
    if (widest > 0 && take(std::move(narrow))) say("units", widest, fewer);
  }

  // All convolutions keep the same fraction of their filters.
  void images() {
    std::int64_t common = 0, least = 0;
    for (const LayerSpec& layer : out_.spec.model().layers()) {
      if (!layer.has_conv2d()) continue;
      common = std::gcd(common, layer.conv2d().filters());
      least = least == 0 ? layer.conv2d().filters() : std::min(least, layer.conv2d().filters());
    }
    std::int64_t divisor = 1;
    while (common % (2 * divisor) == 0 && least / (2 * divisor) >= kFilters) divisor *= 2;
    if (common == 0 || divisor == 1) return;
    spec::v1::ModelSpec narrow = out_.spec.model();
    for (LayerSpec& layer : *narrow.mutable_layers())
      if (layer.has_conv2d())
        layer.mutable_conv2d()->set_filters(layer.conv2d().filters() / divisor);
    if (take(std::move(narrow)))
      out_.changes.push_back(fmt::format("filters divided by {}", divisor));
  }

  void tables() {
    auto& input = *out_.spec.mutable_model()->mutable_input();
    if (input.columns() == 0) return;
    const std::int64_t before = input.categories();
    input.set_categories(std::min(before, kCategories));
    say("categories", before, input.categories());
  }

  SmallRun out_;
  const std::int64_t tensorRanks_;
};

}  // namespace

std::int64_t smallBatch(const RunSpec& spec, int dataRanks) {
  const std::int64_t batch = spec.training().batch();
  const auto parts = microBatches(spec, dataRanks);
  if (!parts.ok() || batch % *parts != 0) return batch;  // the planner refuses it with the reason
  const std::vector<double> shares(spec.strategy().shares().begin(),
                                   spec.strategy().shares().end());
  const auto cuts = [&](std::int64_t samples) {
    return shares.empty() ? cluster::evenCuts(samples, dataRanks)
                          : cluster::cutsBy(samples, shares);
  };
  std::vector<std::int64_t> groups;  // statistics groups of a micro-batch
  for (const LayerSpec& layer : spec.model().layers())
    if (layer.has_batch_norm())
      groups.push_back(std::max<std::int64_t>(1, layer.batch_norm().groups() / *parts));
  const std::int64_t whole = batch / *parts;  // samples of a micro-batch
  const auto fits = [&](std::int64_t samples) {
    if (samples * *parts < kBatch || (whole % dataRanks == 0 && samples % dataRanks != 0))
      return false;
    if (!cluster::leaveNoneEmpty(cuts(samples)) || !cluster::leaveNoneEmpty(cuts(samples * *parts)))
      return false;
    return std::all_of(groups.begin(), groups.end(), [&](std::int64_t count) {
      if (samples % count != 0) return false;
      const std::vector<std::int64_t> all = cuts(samples);
      return count == 1 || std::all_of(all.begin(), all.end(), [&](std::int64_t cut) {
               return cut % (samples / count) == 0;
             });
    });
  };
  for (std::int64_t samples = 1; samples < whole; ++samples)
    if (fits(samples)) return samples * *parts;
  return batch;
}

SmallRun smallVariant(const RunSpec& spec, int dataRanks, int tensorRanks) {
  return Shrink(spec, tensorRanks).run(dataRanks);
}

}  // namespace lockstep::specs
