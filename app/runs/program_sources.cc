#include "app/runs/program_sources.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <tuple>

namespace lockstep::app {
namespace {

constexpr std::size_t kMostSources = 500;
constexpr const char* kKey = "source/";

}  // namespace

void ProgramSources::add(const run::v1::ProgramSource& source) {
  const auto key = std::tie(source.name(), source.version(), source.problem());
  const auto at =
      std::lower_bound(all_.begin(), all_.end(), key, [](const ProgramSource& one, const auto& to) {
        return std::tie(one.name, one.version, one.problem) < to;
      });
  if (at == all_.end() || std::tie(at->name, at->version, at->problem) != key) {
    if (all_.size() < kMostSources)
      all_.insert(at, {source.name(), source.version(), source.problem(), {source.rank()}});
    return;
  }
  const auto rank = std::lower_bound(at->ranks.begin(), at->ranks.end(), source.rank());
  if (rank == at->ranks.end() || *rank != source.rank()) at->ranks.insert(rank, source.rank());
}

int sourceOrder(std::string_view source) {
  return source == "log" ? 0 : source == "stdout" ? 3 : source == "tensorboard" ? 2 : 1;
}

std::string sourceKey(const run::v1::ProgramSource& source) {
  return fmt::format("{}{}/{}", kKey, source.rank(), source.name());
}

ProgramSources programSources(const std::vector<RunBatch::Fact>& facts) {
  ProgramSources out;
  for (const RunBatch::Fact& fact : facts) {
    const std::size_t node = fact.text.find('\n');
    run::v1::Record record;
    if (fact.key.starts_with(kKey) && node != std::string::npos &&
        google::protobuf::util::JsonStringToMessage(fact.text.substr(node + 1), &record).ok())
      out.add(record.source());
  }
  return out;
}

}  // namespace lockstep::app
