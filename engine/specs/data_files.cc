#include "engine/specs/data_files.h"

#include "engine/specs/data_url.h"

namespace lockstep::specs {
namespace {

const spec::v1::DataFiles& filesOf(const spec::v1::RunSpec& run, bool train) {
  return train ? run.data().train() : run.data().evaluate();
}
std::int64_t sampleOf(const spec::v1::RunSpec& run) {
  return run.model().input().shape().empty() ? 0 : run.model().input().shape(0);
}

data::CsvColumns csvColumns(const spec::v1::CsvSpec& spec) {
  data::CsvColumns out;
  out.label = spec.label();
  out.numbers = {spec.numbers().begin(), spec.numbers().end()};
  out.categories = {spec.categories().begin(), spec.categories().end()};
  out.classes = {spec.classes().begin(), spec.classes().end()};
  if (!spec.separator().empty()) out.separator = spec.separator()[0];
  out.header = !spec.no_header();
  out.logarithm = spec.transform() != "none";
  return out;
}

}  // namespace

data::TextFile textFile(const spec::v1::RunSpec& run, bool train, const std::string& path) {
  return {path, sampleOf(run), filesOf(run, train).from(), filesOf(run, train).to()};
}

data::TableFile tableFile(const spec::v1::RunSpec& run, bool train, const std::string& path) {
  const auto& input = run.model().input();
  data::TableFile out{path, sampleOf(run), input.columns(), input.categories()};
  out.classes = run.model().loss() == "mse" ? 0 : run.model().classes();
  out.from = filesOf(run, train).from();
  out.to = filesOf(run, train).to();
  if (run.data().has_csv()) out.csv = csvColumns(run.data().csv());
  return out;
}

data::TokenFiles tokenFiles(const spec::v1::RunSpec& run, bool train, const std::string& path) {
  data::TokenFiles out{path, sampleOf(run), run.model().input().vocabulary()};
  const std::string& type = run.data().token_type();
  out.bytesPerToken = type == "u16" ? 2 : type == "u32" ? 4 : 0;
  out.from = filesOf(run, train).from();
  out.to = filesOf(run, train).to();
  return out;
}

Result<std::unique_ptr<data::Dataset>> openData(
    const spec::v1::RunSpec& run, bool train,
    const std::function<std::string(const std::string& name)>& path) {
  // Without evaluation data the training's is evaluated.
  const auto name = [&](const std::string& kind) {
    const bool other = !train && !path("evaluate." + kind).empty();
    return (other ? "evaluate." : "train.") + kind;
  };
  const auto decoded = [&](const std::string& of) { return path(std::string(kDecoded) + of); };
  const auto isTrain = [](const std::string& of) { return of.starts_with("train."); };
  const std::string& format = run.data().format();
  if (format == "text" || format == "tokens") {
    const std::string file = name(format);
    LOCKSTEP_TRY(checkIsPath(path(file)));
    if (format == "text") return data::openText(textFile(run, isTrain(file), path(file)));
    return data::openTokens(tokenFiles(run, isTrain(file), path(file)));
  }
  if (format == "table") {
    const std::string file = name("table");
    LOCKSTEP_TRY(checkIsPath(path(file)));
    data::TableFile table = tableFile(run, isTrain(file), path(file));
    table.decoded = decoded(file);
    return data::openTable(table);
  }
  const std::string images = name("images");
  const std::string labels = isTrain(images) ? "train.labels" : "evaluate.labels";
  for (const std::string& file : {images, labels}) LOCKSTEP_TRY(checkIsPath(path(file)));
  const data::IdxFiles idx{path(images), path(labels), {}, {}, decoded(images), decoded(labels)};
  const int classes = run.model().classes();
  return data::openIdx(idx, classes > 0 ? classes : 256);
}

}  // namespace lockstep::specs
