#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "engine/cluster/cuts.h"
#include "engine/cluster/strategies.h"
#include "engine/cluster/strategy_options.h"
#include "engine/specs/field.h"
#include "engine/specs/model_spec.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

std::span<const std::string_view> backendKinds() {
  static constexpr std::array<std::string_view, 4> kKinds{"onednn", "cuda", "reference", "timed"};
  return kKinds;
}

std::span<const std::string_view> precisions() {
  static constexpr std::array<std::string_view, 5> kKinds{"fp32", "tf32", "bf16", "fp16", "fp64"};
  return kKinds;
}

namespace {

using spec::v1::DataFiles;
using spec::v1::DataSpec;
using spec::v1::OptimizerSpec;
using spec::v1::RunSpec;
using spec::v1::ScheduleSpec;
using spec::v1::TrainingSpec;

constexpr double kMaxShare = 1e6;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 24;
constexpr std::int64_t kMaxGathered = std::int64_t{1} << 40;  // bytes
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
constexpr std::int64_t kUsualSteps = 1000;  // suggested if a number of steps is missing
constexpr int kMaxScaleDigits = 64;
constexpr std::int64_t kMaxScaleInterval = 1 << 24;  // exact in f32
constexpr double kAnyNumber = std::numeric_limits<double>::max();

Status checkHash(const std::string& path, const std::string& hash) {
  const bool hex = std::all_of(hash.begin(), hash.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (hash.empty() || (hash.size() == 64 && hex)) return {};
  return wrongField(path, "not a SHA-256; expected 64 digits of 0-9 and a-f", {{{path, ""}}});
}

// Checks a text or a table, of which a part may be used.
Status checkPart(const std::string& path, const char* kind, const std::string& file,
                 const std::string& sha256, DataFiles& files) {
  if (file.empty())
    return wrongField(fmt::format("{}.{}", path, kind),
                      fmt::format("{} is missing; expected the path of a {} file", kind, kind));
  if (files.to() == 0) files.set_to(1);
  LOCKSTEP_TRY(checkNumber(path + ".from", files.from(), 0, 1));
  if (!(files.to() > files.from() && files.to() <= 1))
    return wrongField(path + ".to",
                      fmt::format("{}.to is {}; expected more than {}.from, {}, and at most 1",
                                  path, files.to(), path, files.from()),
                      {{{path + ".to", "1"}}});
  return checkHash(fmt::format("{}.{}_sha256", path, kind), sha256);
}
Status checkPart(const std::string& path, DataFiles& files, bool isText) {
  return isText ? checkPart(path, "text", files.text(), files.text_sha256(), files)
                : checkPart(path, "table", files.table(), files.table_sha256(), files);
}

Status checkFiles(const std::string& path, const DataFiles& files) {
  for (const auto& [field, value] : {std::pair("from", files.from()), std::pair("to", files.to())})
    if (value != 0)
      return wrongField(fmt::format("{}.{}", path, field),
                        "images are used whole, texts and tables in part; expected it left out",
                        {{{fmt::format("{}.{}", path, field), ""}}});
  if (files.images().empty())
    return wrongField(path + ".images", "images is missing; expected the path of an IDX file");
  if (files.labels().empty())
    return wrongField(path + ".labels", "labels is missing; expected the path of an IDX file");
  LOCKSTEP_TRY(checkHash(path + ".images_sha256", files.images_sha256()));
  return checkHash(path + ".labels_sha256", files.labels_sha256());
}

Status fillData(DataSpec& data, const spec::v1::InputSpec& input) {
  const bool isText = input.vocabulary() > 0, isRows = isTable(input);
  if (data.format().empty()) data.set_format(isText ? "text" : isRows ? "table" : "idx");
  LOCKSTEP_TRY(checkKind("data.format", data.format(), {"idx", "text", "table"}));
  const std::vector<Remedy> right{{{"data.format", isText ? "text" : isRows ? "table" : "idx"}}};
  if (isText != (data.format() == "text"))
    return wrongField(
        "data.format",
        isText ? "the model takes text; expected format text"
               : "the model takes no text; expected another format, or model.input.vocabulary",
        right);
  if (isRows != (data.format() == "table"))
    return wrongField(
        "data.format",
        isRows
            ? "the model takes rows of numbers; expected format table"
            : "the model takes no table; expected another format, or model.input.shape [numbers]",
        right);
  if (data.format() != "idx" && (data.augment().crop() != 0 || data.augment().flip()))
    return wrongField("data.augment", "only images are augmented; expected it left out",
                      {{{"data.augment", ""}}});
  LOCKSTEP_TRY(checkRange("data.augment.crop", data.augment().crop(), 0, 1024));
  if (isText || isRows) {
    LOCKSTEP_TRY(checkPart("data.train", *data.mutable_train(), isText));
    return checkPart("data.evaluate", *data.mutable_evaluate(), isText);
  }
  LOCKSTEP_TRY(checkFiles("data.train", data.train()));
  return checkFiles("data.evaluate", data.evaluate());
}

Status refuse(const std::string& path, double value, std::string_view optimizer) {
  if (value == 0) return {};
  return wrongField(path,
                    fmt::format("optimizer {} has no {}; expected it left out", optimizer,
                                path.substr(path.rfind('.') + 1)),
                    {{{path, ""}}});
}

Status fillOptimizer(OptimizerSpec& optimizer) {
  const std::string path = "training.optimizer.";
  if (optimizer.kind().empty()) optimizer.set_kind("adam");
  LOCKSTEP_TRY(checkKind(path + "kind", optimizer.kind(), {"sgd", "adam", "adagrad"}));
  if (optimizer.learning_rate() == 0)
    optimizer.set_learning_rate(optimizer.kind() == "adam" ? 1e-3 : 1e-2);
  LOCKSTEP_TRY(checkNumber(path + "learning_rate", optimizer.learning_rate(), 0, kAnyNumber));
  LOCKSTEP_TRY(checkNumber(path + "weight_decay", optimizer.weight_decay(), 0, kAnyNumber));
  LOCKSTEP_TRY(checkNumber(path + "clip_norm", optimizer.clip_norm(), 0, kAnyNumber));
  LOCKSTEP_TRY(checkRange(path + "for_batch", optimizer.for_batch(), 0, kMaxBatch));
  if (optimizer.kind() == "sgd") {
    LOCKSTEP_TRY(checkNumber(path + "momentum", optimizer.momentum(), 0, 1));
    LOCKSTEP_TRY(refuse(path + "beta1", optimizer.beta1(), "sgd"));
    LOCKSTEP_TRY(refuse(path + "beta2", optimizer.beta2(), "sgd"));
    return refuse(path + "epsilon", optimizer.epsilon(), "sgd");
  }
  if (optimizer.kind() == "adagrad") {
    LOCKSTEP_TRY(refuse(path + "momentum", optimizer.momentum(), "adagrad"));
    LOCKSTEP_TRY(refuse(path + "beta1", optimizer.beta1(), "adagrad"));
    LOCKSTEP_TRY(refuse(path + "beta2", optimizer.beta2(), "adagrad"));
    if (optimizer.epsilon() == 0) optimizer.set_epsilon(1e-10);
    return checkNumber(path + "epsilon", optimizer.epsilon(), 0, kAnyNumber);
  }
  LOCKSTEP_TRY(refuse(path + "momentum", optimizer.momentum(), "adam"));
  if (optimizer.beta1() == 0) optimizer.set_beta1(0.9);
  if (optimizer.beta2() == 0) optimizer.set_beta2(0.999);
  if (optimizer.epsilon() == 0) optimizer.set_epsilon(1e-8);
  LOCKSTEP_TRY(checkNumber(path + "beta1", optimizer.beta1(), 0, 1));
  LOCKSTEP_TRY(checkNumber(path + "beta2", optimizer.beta2(), 0, 1));
  return checkNumber(path + "epsilon", optimizer.epsilon(), 0, kAnyNumber);
}

Status fillSchedule(ScheduleSpec& schedule, const TrainingSpec& training) {
  const std::string path = "training.schedule.";
  LOCKSTEP_TRY(checkKind(path + "kind", schedule.kind(), {"constant", "step", "cosine", "linear"}));
  LOCKSTEP_TRY(checkRange(path + "warmup_steps", schedule.warmup_steps(), 0, kMaxSteps));
  LOCKSTEP_TRY(checkRange(path + "steps", schedule.steps(), 0, kMaxSteps));
  LOCKSTEP_TRY(checkNumber(path + "final_rate", schedule.final_rate(), 0, kAnyNumber));
  LOCKSTEP_TRY(checkNumber(path + "factor", schedule.factor(), 0, kAnyNumber));
  if (schedule.kind() == "step") {
    if (schedule.factor() == 0) schedule.set_factor(0.1);
    return checkRange(path + "every", schedule.every(), 1, kMaxSteps);
  }
  if (schedule.kind() == "constant") return {};
  if (schedule.steps() == 0 && training.max_steps() > 0) {
    schedule.set_steps(training.max_steps());
    if (schedule.steps() > schedule.warmup_steps()) return {};
    return wrongField(
        path + "warmup_steps",
        fmt::format("the warm-up of {} steps does not end before training.max_steps, {}",
                    schedule.warmup_steps(), training.max_steps()),
        {{{path + "warmup_steps", fmt::format("{}", training.max_steps() / 10)}},
         {{"training.max_steps", fmt::format("{}", 10 * schedule.warmup_steps())}}});
  }
  if (schedule.steps() == 0)
    return wrongField(
        path + "steps",
        fmt::format("schedule {} needs an end, and neither {}steps nor training.max_steps is given",
                    schedule.kind(), path),
        {{{path + "steps",
           fmt::format("{}", std::max(kUsualSteps, 10 * schedule.warmup_steps()))}}});
  return checkRange(path + "steps", schedule.steps(), schedule.warmup_steps() + 1, kMaxSteps);
}

Status fillBackend(TrainingSpec& training) {
  if (training.precision().empty()) training.set_precision("fp32");
  LOCKSTEP_TRY(checkKind("training.precision", training.precision(), precisions()));
  const bool isDouble = training.precision() == "fp64";
  if (training.backend().empty()) return {};  // by device: rankDevices()
  LOCKSTEP_TRY(checkKind("training.backend", training.backend(), backendKinds()));
  if (isDouble && (training.backend() == "onednn" || training.backend() == "cuda"))
    return wrongField("training.backend",
                      fmt::format("backend {} has no fp64; expected reference, or precision fp32",
                                  training.backend()),
                      {{{"training.backend", "reference"}}, {{"training.precision", "fp32"}}});
  return {};
}

Status fillLossScale(TrainingSpec& training) {
  if (training.precision() != "fp16") {
    if (!training.has_loss_scale()) return {};
    return wrongField(
        "training.loss_scale",
        fmt::format("precision {} has no loss scale; expected it left out, or precision fp16",
                    training.precision()),
        {{{"training.loss_scale", ""}}, {{"training.precision", "fp16"}}});
  }
  auto& scale = *training.mutable_loss_scale();
  if (scale.initial() == 0) scale.set_initial(65536);
  int digits = 0;
  if (!(std::frexp(scale.initial(), &digits) == 0.5 && std::abs(digits - 1) <= kMaxScaleDigits))
    return wrongField("training.loss_scale.initial",
                      fmt::format("training.loss_scale.initial is {}; expected a power of two from "
                                  "2^-{} to 2^{}, as 65536",
                                  scale.initial(), kMaxScaleDigits, kMaxScaleDigits),
                      {{{"training.loss_scale.initial", "65536"}}});
  if (scale.growth_interval() == 0) scale.set_growth_interval(2000);
  return checkRange("training.loss_scale.growth_interval", scale.growth_interval(), 1,
                    kMaxScaleInterval);
}

Status fillTraining(TrainingSpec& training) {
  if (training.batch() == 0) training.set_batch(64);
  // Without epochs, only a step limit ends the run.
  if (training.epochs() == 0 && training.max_steps() == 0) training.set_epochs(1);
  if (!training.has_seed()) training.set_seed(1);
  LOCKSTEP_TRY(checkRange("training.batch", training.batch(), 1, kMaxBatch));
  LOCKSTEP_TRY(checkRange("training.epochs", training.epochs(), 0, kMaxSteps));
  LOCKSTEP_TRY(checkRange("training.max_steps", training.max_steps(), 0, kMaxSteps));
  LOCKSTEP_TRY(checkRange("training.evaluate_batch", training.evaluate_batch(), 0, kMaxBatch));
  LOCKSTEP_TRY(fillOptimizer(*training.mutable_optimizer()));
  LOCKSTEP_TRY(fillBackend(training));
  LOCKSTEP_TRY(fillLossScale(training));
  if (training.on_nonfinite().empty()) training.set_on_nonfinite("fail");
  LOCKSTEP_TRY(checkKind("training.on_nonfinite", training.on_nonfinite(), {"fail", "continue"}));
  auto& schedule = *training.mutable_schedule();
  if (schedule.kind().empty()) schedule.set_kind("constant");
  LOCKSTEP_TRY(fillSchedule(schedule, training));
  auto& checkpoint = *training.mutable_checkpoint();
  if (checkpoint.keep() == 0) checkpoint.set_keep(2);
  return checkRange("training.checkpoint.keep", checkpoint.keep(), 1, 1000000);
}

}  // namespace

std::vector<DataFile> dataFiles(const DataSpec& data) {
  std::vector<DataFile> out;
  const auto add = [&](std::string name, const std::string& path, const std::string& sha256) {
    if (!path.empty()) out.push_back({std::move(name), path, sha256});
  };
  for (const auto& [part, files] : {std::pair<std::string, const DataFiles&>("train", data.train()),
                                    {"evaluate", data.evaluate()}}) {
    add(part + ".images", files.images(), files.images_sha256());
    add(part + ".labels", files.labels(), files.labels_sha256());
    add(part + ".text", files.text(), files.text_sha256());
    add(part + ".table", files.table(), files.table_sha256());
  }
  return out;
}

namespace {

// A number of equal parts that a field divides the batch into.
struct Parts {
  std::string field;
  std::int64_t count = 1;
};
std::vector<Parts> partsOfBatch(const RunSpec& spec) {
  std::vector<Parts> out;
  const auto& strategy = spec.strategy();
  for (const auto& [field, count] :
       {std::pair{"micro_batches", strategy.micro_batches()},
        std::pair{"local_steps", strategy.local_steps()},
        std::pair{"deterministic_parts", strategy.deterministic_parts()}})
    out.push_back({fmt::format("strategy.{}", field), std::max(1, count)});
  for (int i = 0; i < spec.model().layers_size(); ++i)
    if (const auto& layer = spec.model().layers(i); layer.has_batch_norm())
      out.push_back({fmt::format("model.layers[{}].batch_norm.groups", i),
                     std::max<std::int64_t>(1, layer.batch_norm().groups())});
  return out;
}

// Returns the least batch, at least the spec's, that all of these divide; 0 if there is none.
std::int64_t divisibleBatch(const RunSpec& spec) {
  std::int64_t unit = 1;
  for (const Parts& parts : partsOfBatch(spec)) {
    unit = std::lcm(unit, parts.count);
    if (unit > kMaxBatch) return 0;
  }
  const std::int64_t batch = (spec.training().batch() + unit - 1) / unit * unit;
  return batch <= kMaxBatch ? batch : 0;
}

// Returns the remedy that gives each micro-batch its own statistics in all batch norm layers.
Remedy oneGroupEach(const RunSpec& spec) {
  Remedy out;
  for (int i = 0; i < spec.model().layers_size(); ++i)
    if (spec.model().layers(i).has_batch_norm())
      out.push_back({fmt::format("model.layers[{}].batch_norm.groups", i),
                     fmt::format("{}", spec.strategy().micro_batches())});
  return out;
}

// Checks that all part counts divide the batch.
Status checkParts(const RunSpec& spec) {
  const std::int64_t batch = spec.training().batch();
  for (const auto& [field, count] : partsOfBatch(spec)) {
    if (batch % count == 0) continue;
    std::vector<Remedy> remedies;
    if (const std::int64_t works = divisibleBatch(spec); works > 0)
      remedies.push_back({{"training.batch", fmt::format("{}", works)}});
    std::int64_t fewer = std::min(count, batch);
    while (batch % fewer != 0) --fewer;
    if (field.starts_with("model."))
      remedies.push_back(oneGroupEach(spec));
    else
      remedies.push_back({{field, fmt::format("{}", fewer)}});
    return wrongField(
        field,
        fmt::format("{} is {}; expected a divisor of training.batch, {}", field, count, batch),
        std::move(remedies));
  }
  return {};
}

Status checkStatisticsGroups(const RunSpec& spec) {
  for (int i = 0; i < spec.model().layers_size(); ++i) {
    const auto& layer = spec.model().layers(i);
    if (!layer.has_batch_norm()) continue;
    const std::string field = fmt::format("model.layers[{}].batch_norm.groups", i);
    if (const int parts = spec.strategy().micro_batches(); layer.batch_norm().groups() % parts != 0)
      return wrongField(
          field,
          fmt::format("{} is {}, and each of {} micro-batches has statistics of its own; "
                      "expected {}, or another multiple of {}",
                      field, layer.batch_norm().groups(), parts, parts, parts),
          {oneGroupEach(spec)});
    for (const auto& [name, parts, most] :
         {std::tuple{"strategy.local_steps", spec.strategy().local_steps(), 1},
          std::tuple{"strategy.deterministic_parts", spec.strategy().deterministic_parts(), 0}})
      if (parts > most)
        return wrongField(name,
                          fmt::format("{} is {}, but batch norm {} takes statistics over ranks; "
                                      "expected {}, or another norm",
                                      name, parts, layer.name(), most),
                          {{{name, fmt::format("{}", most)}}});
  }
  return {};
}

}  // namespace

Status checkAndFill(RunSpec& spec) {
  if (spec.version() == 0) spec.set_version(1);
  LOCKSTEP_TRY(checkRange("version", spec.version(), 1, 1));
  for (auto& layer : *spec.mutable_model()->mutable_layers())  // statistics for each micro-batch
    if (layer.has_batch_norm() && layer.batch_norm().groups() == 0)
      layer.mutable_batch_norm()->set_groups(std::max(1, spec.strategy().micro_batches()));
  LOCKSTEP_TRY(fillModel(*spec.mutable_model()));
  LOCKSTEP_TRY(toModel(spec.model()).status());
  LOCKSTEP_TRY(fillData(*spec.mutable_data(), spec.model().input()));
  if (spec.model().loss() == "mse" && spec.data().format() == "idx")
    return wrongField("model.loss",
                      "model.loss is mse but the labels of idx are classes; expected cross-entropy",
                      {{{"model.loss", "cross-entropy"}}});
  LOCKSTEP_TRY(fillTraining(*spec.mutable_training()));
  auto& strategy = *spec.mutable_strategy();
  if (strategy.kind().empty()) strategy.set_kind(std::string(strategyKinds().front()));
  LOCKSTEP_TRY(checkKind("strategy.kind", strategy.kind(), strategyKinds()));
  LOCKSTEP_TRY(checkRange("strategy.tensor", strategy.tensor(), 0, 4096));
  LOCKSTEP_TRY(checkRange("strategy.servers", strategy.servers(), 0, 4096));
  LOCKSTEP_TRY(checkRange("strategy.stages", strategy.stages(), 0, 4096));
  if (strategy.schedule().empty()) strategy.set_schedule("1f1b");
  LOCKSTEP_TRY(checkKind("strategy.schedule", strategy.schedule(), {"1f1b", "gpipe", "zb-h1"}));
  if (strategy.all_reduce().empty()) strategy.set_all_reduce("auto");
  LOCKSTEP_TRY(checkKind("strategy.all_reduce", strategy.all_reduce(),
                         {"auto", "direct", "ring", "halving-doubling", "tree", "hierarchical"}));
  if (strategy.overlap().empty()) strategy.set_overlap("auto");
  LOCKSTEP_TRY(checkKind("strategy.overlap", strategy.overlap(), {"auto", "always", "never"}));
  LOCKSTEP_TRY(checkRange("strategy.gather_bytes", strategy.gather_bytes(), 0, kMaxGathered));
  if (strategy.recompute().empty()) strategy.set_recompute("none");
  LOCKSTEP_TRY(
      checkKind("strategy.recompute", strategy.recompute(), {"none", "selective", "full"}));
  if (strategy.compression().empty()) strategy.set_compression("none");
  LOCKSTEP_TRY(checkKind("strategy.compression", strategy.compression(),
                         {"none", "fp16", "bf16", "int8", "top-k"}));
  if (strategy.compression() == "top-k" && strategy.top_k_ratio() == 0)
    strategy.set_top_k_ratio(0.01);
  if (strategy.compression() == "top-k" && strategy.top_k_after() == 0)
    strategy.set_top_k_after(200);
  LOCKSTEP_TRY(checkRange("strategy.top_k_after", strategy.top_k_after(), 0, kMaxSteps));
  LOCKSTEP_TRY(checkNumber("strategy.top_k_ratio", strategy.top_k_ratio(), 0, 1));
  for (int i = 0; i < strategy.shares_size(); ++i)
    if (!(strategy.shares(i) > 0 && strategy.shares(i) <= kMaxShare))
      return wrongField(
          fmt::format("strategy.shares[{}]", i),
          fmt::format("strategy.shares[{}] is {}; expected more than 0 and at most {}", i,
                      strategy.shares(i), kMaxShare),
          {{{"strategy.shares", ""}}});
  const double all = std::accumulate(strategy.shares().begin(), strategy.shares().end(), 0.0);
  for (int i = 0; i < strategy.shares_size(); ++i)
    if (strategy.shares(i) * kMaxShare < all)  // no batch gives it a sample
      return wrongField(
          fmt::format("strategy.shares[{}]", i),
          fmt::format("strategy.shares[{}] is {} of {}; expected at least 1/{:.0f} of all", i,
                      strategy.shares(i), all, kMaxShare),
          {{{"strategy.shares", ""}}});
  LOCKSTEP_TRY(checkRange("strategy.micro_batches", strategy.micro_batches(), 0, 4096));
  if (strategy.micro_batches() == 0) strategy.set_micro_batches(1);
  const cluster::Strategy& kind = *cluster::findStrategy(strategy.kind());
  const bool local = kind.local;
  LOCKSTEP_TRY(checkRange("strategy.local_steps", strategy.local_steps(), 0, 4096));
  if (!local && strategy.local_steps() > 0)
    return wrongField(
        "strategy.local_steps",
        fmt::format("strategy.local_steps is {}, but {} has none; expected it left out",
                    strategy.local_steps(), strategy.kind()),
        {{{"strategy.local_steps", ""}}});
  LOCKSTEP_TRY(checkRange("strategy.deterministic_parts", strategy.deterministic_parts(), 0, 4096));
  if (strategy.deterministic_parts() > 0 && strategy.micro_batches() > 1)
    return wrongField(
        "strategy.deterministic_parts",
        fmt::format(
            "strategy.deterministic_parts is {} and strategy.micro_batches {}, which both divide "
            "the batch; expected one of them",
            strategy.deterministic_parts(), strategy.micro_batches()),
        {{{"strategy.micro_batches", "1"}}, {{"strategy.deterministic_parts", "0"}}});
  if (local && strategy.micro_batches() > 1)
    return wrongField(
        "strategy.micro_batches",
        fmt::format("strategy.micro_batches is {}, but local-sgd divides the batch by "
                    "strategy.local_steps; expected 1",
                    strategy.micro_batches()),
        {{{"strategy.micro_batches", "1"}}});
  LOCKSTEP_TRY(checkRange("strategy.staleness", strategy.staleness(), -1, 1 << 20));
  LOCKSTEP_TRY(cluster::checkOptions(kind, {.servers = strategy.servers(),
                                            .tensor = strategy.tensor(),
                                            .stages = strategy.stages(),
                                            .staleness = strategy.staleness(),
                                            .microBatches = strategy.micro_batches(),
                                            .deterministicParts = strategy.deterministic_parts(),
                                            .shares = strategy.shares_size() > 0}));
  if (strategy.dense().empty()) strategy.set_dense("servers");
  LOCKSTEP_TRY(checkKind("strategy.dense", strategy.dense(), {"servers", "all-reduce"}));
  LOCKSTEP_TRY(checkStatisticsGroups(spec));
  LOCKSTEP_TRY(checkParts(spec));
  return checkRange("strategy.bucket_bytes", strategy.bucket_bytes(), 0, std::int64_t{1} << 40);
}

namespace {

// Returns the default local steps; 1 with batch norm, whose statistics span all ranks' samples.
int localSteps(const RunSpec& spec, int dataRanks) {
  for (const auto& layer : spec.model().layers())
    if (layer.has_batch_norm()) return 1;
  const std::vector<double> shares(spec.strategy().shares().begin(),
                                   spec.strategy().shares().end());
  const std::int64_t batch = spec.training().batch();
  for (int steps = kLocalSteps; steps > 1; --steps)
    if (batch % steps == 0 &&
        cluster::leaveNoneEmpty(shares.empty() ? cluster::evenCuts(batch / steps, dataRanks)
                                               : cluster::cutsBy(batch / steps, shares)))
      return steps;
  return 1;
}

}  // namespace

Result<int> microBatches(const RunSpec& spec, int dataRanks) {
  const auto& strategy = spec.strategy();
  const cluster::Strategy* const kind = cluster::findStrategy(strategy.kind());
  if (kind != nullptr && kind->local && strategy.local_steps() == 0)
    return localSteps(spec, dataRanks);
  const int parts = strategy.deterministic_parts();
  if (parts == 0) return std::max({1, strategy.micro_batches(), strategy.local_steps()});
  if (parts % dataRanks == 0) return parts / dataRanks;
  const std::int64_t multiple = (parts + dataRanks - 1) / dataRanks * dataRanks,
                     batch = spec.training().batch();
  Remedy remedy{{"strategy.deterministic_parts", fmt::format("{}", multiple)}};
  if (batch % multiple != 0)
    remedy.push_back(
        {"training.batch", fmt::format("{}", (batch + multiple - 1) / multiple * multiple)});
  return wrongField(
      "strategy.deterministic_parts",
      fmt::format(
          "strategy.deterministic_parts is {}, and the batch is divided over {} ranks; expected "
          "a multiple of {}",
          parts, dataRanks, dataRanks),
      {std::move(remedy)});
}

Precision precisionOf(const TrainingSpec& training) {
  Precision out;
  if (training.precision() == "fp64") out.compute = DType::kF64;
  out.tf32 = training.precision() == "tf32";
  if (training.precision() == "bf16") out.matmulDtype = DType::kBf16;
  if (training.precision() == "fp16") out.matmulDtype = DType::kF16;
  return out;
}

double rateScale(const spec::v1::TrainingSpec& training) {
  const std::int64_t batch = training.optimizer().for_batch();
  return batch > 0 ? static_cast<double>(training.batch()) / static_cast<double>(batch) : 1;
}

}  // namespace lockstep::specs
