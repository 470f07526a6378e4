#include "engine/specs/data_files.h"

namespace lockstep::specs {
namespace {

const spec::v1::DataFiles& filesOf(const spec::v1::RunSpec& run, bool train) {
  return train ? run.data().train() : run.data().evaluate();
}
std::int64_t sampleOf(const spec::v1::RunSpec& run) {
  return run.model().input().shape().empty() ? 0 : run.model().input().shape(0);
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

}  // namespace lockstep::specs
