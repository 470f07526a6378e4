// lockstep predict: what a trained model says of the samples of a data set.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/model_source.h"
#include "app/cli/terminal.h"
#include "app/runs/forward.h"
#include "engine/base/file.h"
#include "engine/data/dataset.h"
#include "engine/specs/data_files.h"
#include "engine/specs/field.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"

namespace lockstep::app::cli {
namespace {

// The files of --data in the place of those that the run evaluates on.
Status takeData(const std::vector<std::string>& given, spec::v1::RunSpec& spec) {
  if (given.empty()) return {};
  const std::string& format = spec.data().format();
  const std::size_t most = format == "idx" ? 2 : 1;
  if (given.size() > most)
    return invalidArgument("--data is given {} times; expected {}", given.size(),
                           most == 2 ? message("images, or images and labels")
                                     : message("one file of format {}", format));
  auto& files = *spec.mutable_data()->mutable_evaluate();
  files.Clear();
  files.set_to(1);
  if (format == "text") files.set_text(given[0]);
  if (format == "tokens") files.set_tokens(given[0]);
  if (format == "table") files.set_table(given[0]);
  if (format != "idx") return {};
  files.set_images(given[0]);
  if (most == given.size()) files.set_labels(given[1]);
  return {};
}

Result<std::unique_ptr<data::Dataset>> openData(const spec::v1::RunSpec& spec) {
  const auto files = specs::dataFiles(spec);
  return specs::openData(spec, false, [&](const std::string& name) {
    const auto at = std::find_if(files.begin(), files.end(),
                                 [&](const auto& file) { return file.name == name; });
    return at == files.end() ? std::string() : at->path;
  });
}

void setWeight(std::span<std::byte> all, std::int64_t sample, std::int64_t batch, double weight) {
  const std::size_t size = all.size() / static_cast<std::size_t>(batch);
  const auto single = static_cast<float>(weight);
  const void* const from = size == sizeof weight ? static_cast<const void*>(&weight) : &single;
  std::memcpy(all.data() + static_cast<std::size_t>(sample) * size, from, size);
}

double logSum(const std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  return most + std::log(std::accumulate(
                    logits.begin(), logits.end(), 0.0,
                    [most](double sum, double one) { return sum + std::exp(one - most); }));
}

std::int64_t best(const std::vector<double>& values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

using Row = std::vector<double>;  // of the columns; the first is the sample's index

// Turns the model's outputs into rows of a table.
class Predictions {
 public:
  Predictions(const spec::v1::RunSpec& spec, const Forward& model, bool isLabelled, bool outputs)
      : loss_(spec.model().loss()),
        tokens_(spec.model().input().vocabulary() > 0 ? spec.model().input().shape(0) : 0),
        isLabelled_(isLabelled),
        outputs_(outputs) {
    columns_ = {"sample"};
    const auto numbered = [&](std::string_view name, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        columns_.push_back(count == 1 ? std::string(name) : fmt::format("{}_{}", name, i));
    };
    if (tokens_ > 0) {
      columns_.insert(columns_.end(), {"loss", "perplexity", "accuracy"});
    } else if (loss_ == "cross-entropy") {
      columns_.insert(columns_.end(), {"class", "probability"});
    } else if (loss_ == "binary-cross-entropy") {
      columns_.push_back("probability");
    } else {
      numbered("value", model.columns());
    }
    if (tokens_ == 0 && isLabelled_) numbered("label", loss_ == "mse" ? model.columns() : 1);
    if (outputs_) numbered("output", std::max<std::int64_t>(1, tokens_) * model.columns());
  }
  const std::vector<std::string>& columns() const { return columns_; }

  // `sample` is the index in the batch, `index` that in the set.
  Row row(const Forward& model, std::span<const std::byte> labels, std::int64_t sample,
          std::int64_t index) const {
    Row out{static_cast<double>(index)};
    if (tokens_ > 0) {
      addTokens(model, labels, sample, out);
      return out;
    }
    const std::vector<double> values = model.row(sample);
    if (loss_ == "cross-entropy") {
      const std::int64_t found = best(values);
      out.insert(out.end(), {static_cast<double>(found),
                             std::exp(values[static_cast<std::size_t>(found)] - logSum(values))});
    } else if (loss_ == "binary-cross-entropy") {
      out.push_back(1 / (1 + std::exp(-values[0])));
    } else {
      out.insert(out.end(), values.begin(), values.end());
    }
    if (isLabelled_ && loss_ == "mse") {
      std::vector<float> label(values.size());
      std::memcpy(label.data(),
                  labels.data() + static_cast<std::size_t>(sample) * label.size() * sizeof(float),
                  label.size() * sizeof(float));
      out.insert(out.end(), label.begin(), label.end());
    } else if (isLabelled_) {
      out.push_back(labelAt(labels, sample));
    }
    if (outputs_) out.insert(out.end(), values.begin(), values.end());
    return out;
  }

 private:
  static std::int32_t labelAt(std::span<const std::byte> labels, std::int64_t at) {
    std::int32_t label = 0;
    std::memcpy(&label, labels.data() + static_cast<std::size_t>(at) * sizeof label, sizeof label);
    return label;
  }
  void addTokens(const Forward& model, std::span<const std::byte> labels, std::int64_t sample,
                 Row& out) const {
    double loss = 0, right = 0;
    Row all;
    for (std::int64_t t = sample * tokens_; t < (sample + 1) * tokens_; ++t) {
      const std::vector<double> logits = model.row(t);
      const std::int32_t next = labelAt(labels, t);
      loss += logSum(logits) - logits[static_cast<std::size_t>(next)];
      right += best(logits) == next ? 1 : 0;
      if (outputs_) all.insert(all.end(), logits.begin(), logits.end());
    }
    const auto count = static_cast<double>(tokens_);
    out.insert(out.end(), {loss / count, std::exp(loss / count), right / count});
    out.insert(out.end(), all.begin(), all.end());
  }

  std::string loss_;
  std::int64_t tokens_;  // of a sample; 0: it is no text
  bool isLabelled_, outputs_;
  std::vector<std::string> columns_;
};

// Writes the rows, after a header with the first of them.
class Sink {
 public:
  Sink(Append append, std::vector<std::string> columns, bool json)
      : append_(std::move(append)), columns_(std::move(columns)), json_(json) {}

  Status add(const Row& row) {
    if (json_) {
      JsonLine line("prediction");
      line.add(columns_[0], static_cast<std::int64_t>(row[0]));
      for (std::size_t i = 1; i < row.size(); ++i) line.add(columns_[i], row[i]);
      line.print();
      return {};
    }
    std::string text;
    if (!std::exchange(begun_, true)) text = fmt::format("{}\n", fmt::join(columns_, ","));
    text += fmt::format("{}", static_cast<std::int64_t>(row[0]));
    for (std::size_t i = 1; i < row.size(); ++i) text += fmt::format(",{:.9g}", row[i]);
    return append_(text + '\n');
  }

 private:
  Append append_;
  std::vector<std::string> columns_;
  bool json_, begun_ = false;
};

// What a batch reads of a set.
class Batches {
 public:
  static Result<Batches> make(const data::Dataset& data, Forward& model, std::int64_t batch) {
    Batches out(data, model, batch);
    for (std::size_t f = 0; f < data.fields().size(); ++f) {
      const data::Field& field = data.fields()[f];
      const ir::TensorType* const type = model.type(field.name);
      if (type == nullptr) continue;
      if (type->dtype != field.dtype || type->bytes() != batch * field.bytes()) {
        Shape wanted = type->shape;
        wanted.erase(wanted.begin());
        return invalidArgument("field {} of the data is {}[{}]; the model takes {}[{}]", field.name,
                               dtypeName(field.dtype), shapeText(field.shape),
                               dtypeName(type->dtype), shapeText(wanted));
      }
      out.fields_.push_back(f);
      if (field.name == "label") out.isLabelled_ = true;
    }
    return out;
  }
  bool isLabelled() const { return isLabelled_; }
  // Writes samples from `first` on; those beyond `end` are sample 0 with weight 0.
  void write(std::int64_t first, std::int64_t end) {
    for (std::int64_t i = 0; i < batch_; ++i) {
      const bool isThere = first + i < end;
      for (const std::size_t f : fields_) {
        const data::Field& field = data_.fields()[f];
        data_.read(isThere ? first + i : 0, f, model_.input(field.name).data() + i * field.bytes());
      }
      setWeight(model_.input("weight"), i, batch_, isThere && isLabelled_ ? 1 : 0);
    }
  }

 private:
  Batches(const data::Dataset& data, Forward& model, std::int64_t batch)
      : data_(data), model_(model), batch_(batch) {}
  const data::Dataset& data_;
  Forward& model_;
  std::int64_t batch_;
  std::vector<std::size_t> fields_;
  bool isLabelled_ = false;
};

struct Summary {
  std::int64_t samples = 0;
  bool isLabelled = false;
  double loss = NAN, metric = NAN;
  std::string metricName;
};

struct Question {
  ModelSource model;
  spec::v1::RunSpec spec;  // with the files of --data
  std::string names;
  std::int64_t limit = 0;  // 0: all
};

Result<Question> questionOf(const Globals& globals, const Arguments& arguments) {
  Question out;
  out.names = arguments.text("names", "lockstep");
  LOCKSTEP_TRY(
      specs::checkKind("--names", out.names, specs::valuesOf<spec::v1::InitSpec>("names")));
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  LOCKSTEP_ASSIGN(out.limit, arguments.integer("limit", 0, 1, kMost));
  LOCKSTEP_ASSIGN(out.model, modelWithSpec(globals, arguments));
  out.spec = *out.model.spec;
  LOCKSTEP_TRY(takeData(arguments.all("data"), out.spec));
  return out;
}

// Each output of a sample is a column, and neither the data nor the model is what is written.
Status checkOutput(const Forward& model, const std::string& modelPath, std::int64_t batch,
                   const Arguments& arguments) {
  constexpr std::int64_t kMost = 100'000;
  const std::int64_t outputs = model.rows() / batch * model.columns();
  if (arguments.has("outputs") && outputs > kMost)
    return invalidArgument("--outputs: a sample has {} outputs, and a table at most {} columns",
                           outputs, kMost);
  const std::string to = arguments.text("out", "");
  std::error_code ignored;
  for (const std::string& file : arguments.all("data"))
    if (!to.empty() && std::filesystem::equivalent(file, to, ignored))
      return invalidArgument("--out {}: it has the data", to);
  if (!to.empty() && std::filesystem::equivalent(modelPath, to, ignored))
    return invalidArgument("--out {}: it has the model", to);
  return {};
}

Result<Summary> predict(const Question& question, const Arguments& arguments) {
  const auto& training = question.spec.training();
  auto opened = openData(question.spec);
  if (!opened.ok() && opened.error().code == Code::kNotFound && !arguments.has("data"))
    opened.error().next = "add --data FILE: the run's own files are not on this machine";
  LOCKSTEP_ASSIGN(const auto data, std::move(opened));
  // That of the run's own evaluation: sums are made in the same order.
  const std::int64_t batch =
      training.evaluate_batch() > 0 ? training.evaluate_batch() : training.batch();
  LOCKSTEP_ASSIGN(
      const auto model,
      Forward::start(question.spec, {question.model.path, question.names}, batch, isInterrupted));
  LOCKSTEP_ASSIGN(Batches batches, Batches::make(*data, *model, batch));
  Summary out;
  out.samples = question.limit > 0 ? std::min(question.limit, data->size()) : data->size();
  out.isLabelled = batches.isLabelled();
  out.metricName = model->metricName();

  LOCKSTEP_TRY(checkOutput(*model, question.model.path, batch, arguments));
  const Predictions predictions(question.spec, *model, out.isLabelled, arguments.has("outputs"));
  const std::string to = arguments.text("out", "");
  const auto writeRows = [&](const Append& append) -> Status {
    Sink sink(append, predictions.columns(), to.empty() && arguments.has("json"));
    for (std::int64_t first = 0; first < out.samples; first += batch) {
      batches.write(first, out.samples);
      LOCKSTEP_TRY(data->problem());
      LOCKSTEP_TRY(model->run());
      for (std::int64_t i = first; i < std::min(first + batch, out.samples); ++i)
        LOCKSTEP_TRY(sink.add(predictions.row(*model, model->input("label"), i - first, i)));
    }
    return {};
  };
  if (to.empty()) {
    LOCKSTEP_TRY(writeRows([](std::string_view text) -> Status {
      put(stdout, text);
      return {};
    }));
  } else {
    LOCKSTEP_TRY(writeFileAtomically(to, writeRows));
  }
  out.loss = model->loss();
  out.metric = model->metric();
  return out;
}

}  // namespace

int predictCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto done = [&]() -> Result<Summary> {
    LOCKSTEP_ASSIGN(const Question question, questionOf(globals, arguments));
    return predict(question, arguments);
  }();
  if (!done.ok()) {
    report(done.error(), json);
    return exitCodeOf(done.error());
  }
  if (json) {
    JsonLine line("predicted");
    line.add("samples", done->samples);
    if (done->isLabelled) line.add("loss", done->loss);
    if (done->isLabelled && !done->metricName.empty())
      line.add("metric", done->metricName).add("value", done->metric);
    line.print();
    return kSucceeded;
  }
  std::string text = fmt::format("{} samples", done->samples);
  if (done->isLabelled) text += ", loss " + lossText(done->loss);
  if (done->isLabelled && !done->metricName.empty())
    text += ", " + metricText(done->metricName, done->metric);
  put(arguments.has("out") ? stdout : stderr, text + "\n");
  return kSucceeded;
}

}  // namespace lockstep::app::cli
