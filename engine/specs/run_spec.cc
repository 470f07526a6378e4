#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "engine/cluster/cuts.h"
#include "engine/cluster/strategies.h"
#include "engine/cluster/strategy_options.h"
#include "engine/specs/data_url.h"
#include "engine/specs/field.h"
#include "engine/specs/freeze.h"
#include "engine/specs/model_spec.h"
#include "engine/specs/options.h"
#include "engine/specs/sinks.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"

namespace lockstep::specs {

namespace {

using spec::v1::CheckpointSpec;
using spec::v1::DataFiles;
using spec::v1::DataSpec;
using spec::v1::OptimizerSpec;
using spec::v1::RunSpec;
using spec::v1::ScheduleSpec;
using spec::v1::StrategySpec;
using spec::v1::TrainingSpec;

constexpr double kMaxShare = 1e6;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 24;
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;
constexpr std::int64_t kUsualSteps = 1000;  // suggested if a number of steps is missing
constexpr int kMaxScaleDigits = 64;

Status checkHash(const std::string& path, const std::string& hash) {
  const bool hex = std::all_of(hash.begin(), hash.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (hash.empty() || (hash.size() == 64 && hex)) return {};
  return wrongField(path, "not a SHA-256; expected 64 digits of 0-9 and a-f", {{{path, ""}}});
}

// Checks a text, a table or tokens, of which a part may be used.
Status checkPart(const std::string& path, const char* kind, const std::string& file,
                 const std::string& sha256, DataFiles& files) {
  if (file.empty())
    return wrongField(fmt::format("{}.{}", path, kind),
                      message("{} is missing; expected the path of a {} file", kind, kind));
  if (files.to() == 0) files.set_to(1);
  if (!(files.to() > files.from() && files.to() <= 1))
    return wrongField(path + ".to",
                      message("{}.to is {}; expected more than {}.from, {}, and at most 1", path,
                              files.to(), path, files.from()),
                      {{{path + ".to", "1"}}});
  return checkHash(fmt::format("{}.{}_sha256", path, kind), sha256);
}
Status checkPart(const std::string& path, DataFiles& files, const std::string& format) {
  if (format == "tokens") return checkPart(path, "tokens", files.tokens(), "", files);
  return format == "text" ? checkPart(path, "text", files.text(), files.text_sha256(), files)
                          : checkPart(path, "table", files.table(), files.table_sha256(), files);
}

Status checkFiles(const std::string& path, const DataFiles& files) {
  for (const auto& [field, value] : {std::pair("from", files.from()), std::pair("to", files.to())})
    if (value != 0)
      return wrongField(fmt::format("{}.{}", path, field),
                        "only texts, tokens and tables can be used in part; expected it left out",
                        {{{fmt::format("{}.{}", path, field), ""}}});
  if (files.images().empty())
    return wrongField(path + ".images", "images is missing; expected the path of an IDX file");
  if (files.labels().empty())
    return wrongField(path + ".labels", "labels is missing; expected the path of an IDX file");
  LOCKSTEP_TRY(checkHash(path + ".images_sha256", files.images_sha256()));
  return checkHash(path + ".labels_sha256", files.labels_sha256());
}

// Fills in the defaults that depend on the optimizer.
void fillOptimizer(OptimizerSpec& optimizer) {
  const bool adam = optimizer.kind() == "adam";
  if (!optimizer.has_learning_rate()) optimizer.set_learning_rate(adam ? 1e-3 : 1e-2);
  if (optimizer.kind() != "sgd" && optimizer.epsilon() == 0)
    optimizer.set_epsilon(adam ? 1e-8 : 1e-10);
}

Status fillSchedule(ScheduleSpec& schedule, const TrainingSpec& training) {
  const std::string path = "training.schedule.";
  if (schedule.kind() == "step") return checkRange(path + "every", schedule.every(), 1, kMaxSteps);
  if (schedule.kind() == "constant") return {};
  if (schedule.steps() == 0 && training.max_steps() > 0) {
    schedule.set_steps(training.max_steps());
    if (schedule.steps() > schedule.warmup_steps()) return {};
    return wrongField(path + "warmup_steps",
                      message("the warm-up of {} steps does not end before training.max_steps, {}",
                              schedule.warmup_steps(), training.max_steps()),
                      {{{path + "warmup_steps", fmt::format("{}", training.max_steps() / 10)}},
                       {{"training.max_steps", fmt::format("{}", 10 * schedule.warmup_steps())}}});
  }
  if (schedule.steps() == 0)
    return wrongField(
        path + "steps",
        message("schedule {} needs an end, and neither {}steps nor training.max_steps is given",
                schedule.kind(), path),
        {{{path + "steps",
           fmt::format("{}", std::max(kUsualSteps, 10 * schedule.warmup_steps()))}}});
  return checkRange(path + "steps", schedule.steps(), schedule.warmup_steps() + 1, kMaxSteps);
}

Status checkBackend(const TrainingSpec& training) {
  if (training.precision() != "fp64") return {};
  if (training.backend() != "onednn" && training.backend() != "cuda") return {};
  return wrongField(
      "training.backend",
      message("backend {} has no fp64; expected reference, or precision fp32", training.backend()),
      {{{"training.backend", "reference"}}, {{"training.precision", "fp32"}}});
}

Status checkLossScale(const TrainingSpec& training) {
  if (training.precision() != "fp16") return {};
  const double initial = training.loss_scale().initial();
  int digits = 0;
  if (std::frexp(initial, &digits) == 0.5 && std::abs(digits - 1) <= kMaxScaleDigits) return {};
  return wrongField("training.loss_scale.initial",
                    message("training.loss_scale.initial is {}; expected a power of two from "
                            "2^-{} to 2^{}, as 65536",
                            initial, kMaxScaleDigits, kMaxScaleDigits),
                    {{{"training.loss_scale.initial", "65536"}}});
}

// What the model starts from.
Status checkInit(const spec::v1::ModelSpec& model) {
  if (!model.has_init_from()) return {};
  const auto& init = model.init_from();
  const std::string path = "model.init_from.";
  if (init.file().empty() == init.checkpoint().empty())
    return wrongField(path + "file",
                      "model.init_from names either a file or a checkpoint; expected one of them");
  if (init.file().empty() && !init.file_sha256().empty())
    return wrongField(path + "file_sha256", "there is no file; expected it left out",
                      {{{path + "file_sha256", ""}}});
  if (init.file().empty() && init.names() != "lockstep")
    return wrongField(path + "names",
                      "a checkpoint has the names of the model; expected it left out",
                      {{{path + "names", ""}}});
  if (!init.checkpoint().empty() && !init.checkpoint().starts_with('/'))
    return wrongField(path + "checkpoint",
                      message("{} is not an absolute path; expected that of a folder on the nodes",
                              init.checkpoint()));
  LOCKSTEP_TRY(checkHash(path + "file_sha256", init.file_sha256()));
  const auto names = weightNames(model, init.names());
  if (names.ok()) return {};
  return wrongField(path + "names", message("{}: {}", names.error().what, names.error().why),
                    {{{path + "names", "lockstep"}}});
}

Status fillTraining(TrainingSpec& training) {
  // Without epochs, only a step limit ends the run.
  if (training.epochs() == 0 && training.max_steps() == 0) training.set_epochs(1);
  fillOptimizer(*training.mutable_optimizer());
  LOCKSTEP_TRY(checkBackend(training));
  LOCKSTEP_TRY(checkLossScale(training));
  return fillSchedule(*training.mutable_schedule(), training);
}

}  // namespace

namespace {

// The formats that fit the model's input; the first is the default.
std::vector<std::string> formatsOf(const DataSpec& data, const spec::v1::InputSpec& input) {
  if (isTable(input)) return {"table"};
  if (input.vocabulary() == 0) return {"idx"};
  const bool tokens = !data.train().tokens().empty() && data.train().text().empty();
  return tokens ? std::vector<std::string>{"tokens", "text"}
                : std::vector<std::string>{"text", "tokens"};
}

Status checkTokens(const DataSpec& data) {
  if (data.format() != "tokens" && !data.token_type().empty())
    return wrongField("data.token_type", "only tokens have a type; expected it left out",
                      {{{"data.token_type", ""}}});
  if (data.format() != "tokens" || !data.copy_to_nodes()) return {};
  return wrongField("data.copy_to_nodes",
                    "files of tokens are not copied to nodes; expected them there, or on storage "
                    "that the nodes share",
                    {{{"data.copy_to_nodes", ""}}});
}

// As many columns are named as the model takes.
Status checkColumns(const std::string& path, int named, const std::string& field,
                    const std::string& works, std::int64_t taken) {
  if (named == taken) return {};
  return wrongField(
      path,
      message("{} names {} columns, and {} is {}; expected as many", path, named, field, taken),
      {{{field, works}}});
}

Status checkClasses(const spec::v1::CsvSpec& csv, const spec::v1::ModelSpec& model) {
  const std::string path = "data.csv.classes";
  if (csv.classes().empty()) return {};
  if (model.loss() == "mse")
    return wrongField(path, "the labels of loss mse are numbers; expected it left out",
                      {{{path, ""}}});
  std::set<std::string_view> known;
  for (int i = 0; i < csv.classes_size(); ++i)
    if (!known.insert(csv.classes(i)).second)
      return wrongField(fmt::format("{}[{}]", path, i),
                        message("\"{}\" is listed twice", csv.classes(i)));
  if (model.classes() == 0 || csv.classes_size() == model.classes()) return {};
  return wrongField(path, message("data.csv.classes has {} texts, and the model has {} classes; "
                                  "expected as many",
                                  csv.classes_size(), model.classes()));
}

Status checkSeparator(const std::string& separator) {
  const auto first = separator.empty() ? ',' : separator[0];
  const bool printable = first >= 0x20 && first < 0x7f && first != '"';
  if (separator.size() <= 1 && (printable || first == '\t')) return {};
  return wrongField("data.csv.separator",
                    "a separator is one ASCII character other than a quote; expected one, as ;",
                    {{{"data.csv.separator", ""}}});
}

Status checkCsv(const DataSpec& data, const spec::v1::ModelSpec& model) {
  const auto& csv = data.csv();
  if (data.format() != "table")
    return wrongField("data.csv", "only tables are CSV; expected it left out",
                      {{{"data.csv", ""}}});
  if (csv.label().empty())
    return wrongField("data.csv.label", "label is missing; expected the name of a column");
  LOCKSTEP_TRY(checkColumns("data.csv.numbers", csv.numbers_size(), "model.input.shape",
                            fmt::format("[{}]", csv.numbers_size()), model.input().shape(0)));
  LOCKSTEP_TRY(checkColumns("data.csv.categories", csv.categories_size(), "model.input.columns",
                            fmt::format("{}", csv.categories_size()), model.input().columns()));
  for (const auto& [field, names] :
       {std::pair("numbers", &csv.numbers()), std::pair("categories", &csv.categories())})
    for (int i = 0; i < names->size(); ++i)
      if (names->Get(i) == csv.label())
        return wrongField(fmt::format("data.csv.{}[{}]", field, i),
                          message("\"{}\" is the label; expected another column", csv.label()));
  LOCKSTEP_TRY(checkClasses(csv, model));
  return checkSeparator(csv.separator());
}

}  // namespace

Status fillData(DataSpec& data, const spec::v1::ModelSpec& model) {
  const std::vector<std::string> formats = formatsOf(data, model.input());
  if (data.format().empty()) data.set_format(formats[0]);
  if (std::ranges::find(formats, data.format()) == formats.end())
    return wrongField(
        "data.format",
        formats.size() > 1
            ? message("the model takes text; expected format {} or {}", formats[0], formats[1])
        : formats[0] == "table"
            ? message("the model takes rows of numbers; expected format table")
            : message("the model takes images; expected format idx, or model.input.vocabulary for "
                      "text, or model.input.shape [numbers] for a table"),
        {{{"data.format", formats[0]}}});
  if (data.format() != "idx" && (data.augment().crop() != 0 || data.augment().flip()))
    return wrongField("data.augment", "only images are augmented; expected it left out",
                      {{{"data.augment", ""}}});
  LOCKSTEP_TRY(checkTokens(data));
  if (data.has_csv()) LOCKSTEP_TRY(checkCsv(data, model));
  if (data.format() != "idx") {
    LOCKSTEP_TRY(checkPart("data.train", *data.mutable_train(), data.format()));
    return checkPart("data.evaluate", *data.mutable_evaluate(), data.format());
  }
  LOCKSTEP_TRY(checkFiles("data.train", data.train()));
  return checkFiles("data.evaluate", data.evaluate());
}

std::vector<DataFile> dataFiles(const RunSpec& run) {
  const DataSpec& data = run.data();
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
    add(part + ".tokens", files.tokens(), "");
  }
  const auto& init = run.model().init_from();
  add(std::string(kInitFile), init.file(), init.file_sha256());
  return out;
}

std::string fieldOf(std::string_view file) {
  return file == kInitFile ? "model.init_from.file" : fmt::format("data.{}", file);
}

Result<weights::Names> weightNames(const spec::v1::ModelSpec& model, std::string_view names) {
  if (names != "gpt2") return weights::Names();
  LOCKSTEP_ASSIGN(const models::Model built, toModel(model));
  return weights::gpt2Names(built);
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
                     fmt::format("{}", std::max(1, spec.strategy().micro_batches()))});
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
        field, message("{} is {}; expected a divisor of training.batch, {}", field, count, batch),
        std::move(remedies));
  }
  return {};
}

Status checkStatisticsGroups(const RunSpec& spec) {
  for (int i = 0; i < spec.model().layers_size(); ++i) {
    const auto& layer = spec.model().layers(i);
    if (!layer.has_batch_norm()) continue;
    const std::string field = fmt::format("model.layers[{}].batch_norm.groups", i);
    const int parts = std::max(1, spec.strategy().micro_batches());
    if (layer.batch_norm().groups() % parts != 0)
      return wrongField(field,
                        message("{} is {}, and each of {} micro-batches has statistics of its own; "
                                "expected {}, or another multiple of {}",
                                field, layer.batch_norm().groups(), parts, parts, parts),
                        {oneGroupEach(spec)});
    for (const auto& [name, parts, most] :
         {std::tuple{"strategy.local_steps", spec.strategy().local_steps(), 1},
          std::tuple{"strategy.deterministic_parts", spec.strategy().deterministic_parts(), 0}})
      if (parts > most)
        return wrongField(name,
                          message("{} is {}, but batch norm {} takes statistics over ranks; "
                                  "expected {}, or another norm",
                                  name, parts, layer.name(), most),
                          {{{name, fmt::format("{}", most)}}});
  }
  return {};
}

Status checkShares(const StrategySpec& strategy) {
  const double all = std::accumulate(strategy.shares().begin(), strategy.shares().end(), 0.0);
  for (int i = 0; i < strategy.shares_size(); ++i) {
    const double share = strategy.shares(i);
    const std::string path = fmt::format("strategy.shares[{}]", i);
    if (!(share > 0 && share <= kMaxShare))
      return wrongField(
          path, message("{} is {}; expected more than 0 and at most {}", path, share, kMaxShare),
          {{{"strategy.shares", ""}}});
    if (share * kMaxShare < all)  // no batch gives it a sample
      return wrongField(
          path,
          message("{} is {} of {}; expected at least 1/{:.0f} of all", path, share, all, kMaxShare),
          {{{"strategy.shares", ""}}});
  }
  return {};
}

// What a search cannot keep.
Status checkOpen(const StrategySpec& strategy) {
  if (strategy.pins_size() > 0)
    return wrongField("strategy.pins",
                      "strategy.kind auto divides the layers by their cost; expected "
                      "strategy.pins left out, or kind placement",
                      {{{"strategy.pins", ""}}, {{"strategy.kind", "placement"}}});
  if (strategy.local_steps() > 0)
    return wrongField("strategy.local_steps",
                      message("strategy.local_steps is {}, but strategy.kind auto does not try "
                              "local-sgd, which changes results; expected it left out, or kind "
                              "local-sgd",
                              strategy.local_steps()),
                      {{{"strategy.local_steps", ""}}, {{"strategy.kind", "local-sgd"}}});
  return {};
}

Status checkStrategy(const StrategySpec& strategy) {
  const bool open = isOpen(strategy);
  cluster::Strategy kind = *cluster::findStrategy(open ? plainestKind(strategy) : strategy.kind());
  if (open) {
    LOCKSTEP_TRY(checkOpen(strategy));
    kind.name = kind.servers ? "auto with servers" : cluster::kAutoStrategy;
  }
  if (!kind.local && strategy.local_steps() > 0)
    return wrongField("strategy.local_steps",
                      message("strategy.local_steps is {}, but {} has none; expected it left out",
                              strategy.local_steps(), strategy.kind()),
                      {{{"strategy.local_steps", ""}}});
  if (strategy.deterministic_parts() > 0 && strategy.micro_batches() > 1)
    return wrongField(
        "strategy.deterministic_parts",
        message(
            "strategy.deterministic_parts is {} and strategy.micro_batches {}, which both divide "
            "the batch; expected one of them",
            strategy.deterministic_parts(), strategy.micro_batches()),
        {{{"strategy.micro_batches", "1"}}, {{"strategy.deterministic_parts", "0"}}});
  if (kind.local && strategy.micro_batches() > 1)
    return wrongField("strategy.micro_batches",
                      message("strategy.micro_batches is {}, but {} divides the batch by "
                              "strategy.local_steps; expected 1",
                              strategy.micro_batches(), kind.name),
                      {{{"strategy.micro_batches", "1"}}});
  return cluster::checkOptions(kind, {.servers = strategy.servers(),
                                      .tensor = strategy.tensor(),
                                      .stages = strategy.stages(),
                                      .staleness = strategy.staleness(),
                                      .microBatches = strategy.micro_batches(),
                                      .deterministicParts = strategy.deterministic_parts(),
                                      .shares = strategy.shares_size() > 0});
}

// A row of a table has one label.
Status checkOneOutput(const RunSpec& spec) {
  if (spec.model().loss() != "mse" || spec.data().format() != "table") return {};
  LOCKSTEP_ASSIGN(const models::Model model, toModel(spec.model()));
  LOCKSTEP_ASSIGN(const std::vector<models::LayerInfo> layers, models::describe(model));
  const std::int64_t values = elementCount(layers.back().output);
  if (values == 1) return {};
  return wrongField(fmt::format("model.layers[{}].{}", layers.size() - 1, layers.back().kind),
                    message("the last layer gives {} values a sample; expected 1, as a row of a "
                            "table has one label",
                            values));
}

Status checkCheckpoints(const RunSpec& spec) {
  const std::string& path = spec.training().checkpoint().path();
  if (!path.empty() && !path.starts_with('/'))
    return wrongField("training.checkpoint.path",
                      message("training.checkpoint.path is {}; expected an absolute path that is "
                              "the same on all nodes",
                              path),
                      {{{"training.checkpoint.path", ""}}});
  return {};
}

}  // namespace

std::string checkpointFolder(const RunSpec& spec, const std::string& run, const std::string& own) {
  const std::string& path = spec.training().checkpoint().path();
  return path.empty() ? own : path + "/" + run;
}

bool sharesCheckpoints(const RunSpec& spec) {
  const CheckpointSpec& checkpoint = spec.training().checkpoint();
  return !checkpoint.path().empty() && checkpoint.copies() == 0;
}

Status checkAndFill(RunSpec& spec) {
  if (spec.has_workload()) return checkAndFillWorkload(spec);
  const StrategySpec written = spec.strategy();
  fillDefaults(spec);
  LOCKSTEP_TRY(checkOptions(spec, ""));
  for (auto& layer : *spec.mutable_model()->mutable_layers())  // statistics for each micro-batch
    if (layer.has_batch_norm() && layer.batch_norm().groups() == 0)
      layer.mutable_batch_norm()->set_groups(spec.strategy().micro_batches());
  if (isOpen(written)) *spec.mutable_strategy() = written;
  LOCKSTEP_TRY(fillModel(*spec.mutable_model()));
  LOCKSTEP_TRY(toModel(spec.model()).status());
  LOCKSTEP_TRY(checkInit(spec.model()));
  LOCKSTEP_TRY(fillData(*spec.mutable_data(), spec.model()));
  for (const DataFile& file : dataFiles(spec))
    LOCKSTEP_TRY(checkUrl(fieldOf(file.name), file.path));
  if (spec.model().loss() == "mse" && spec.data().format() == "idx")
    return wrongField("model.loss",
                      "model.loss is mse but the labels of idx are classes; expected cross-entropy",
                      {{{"model.loss", "cross-entropy"}}});
  LOCKSTEP_TRY(checkOneOutput(spec));
  LOCKSTEP_TRY(fillTraining(*spec.mutable_training()));
  LOCKSTEP_TRY(checkShares(spec.strategy()));
  LOCKSTEP_TRY(checkStrategy(spec.strategy()));
  LOCKSTEP_TRY(checkCheckpoints(spec));
  LOCKSTEP_TRY(checkSinks(spec.sinks()));
  LOCKSTEP_TRY(checkStatisticsGroups(spec));
  LOCKSTEP_TRY(checkParts(spec));
  return checkFreeze(spec);
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
      message(
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
