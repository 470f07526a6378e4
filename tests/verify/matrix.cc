// The matrix {example} x {strategy, hybrids of it} x {2, 4 ranks; 8 where there are three axes}:
// every row is planned and verified, or refused with the reason.
//
// matrix [--list] [--small] [--whole-models] [--precision NAME] [--backend NAME] [--contains TEXT]
// [--steps K]
//        [--refusals FILE] [--examples DIR] [--json]
//   --list          plans only
//   --small         few rows, in fp64 only
//   --whole-models  fp32 with the models as they are; else with their small variants
//   --precision     of the models that run in fp32 else: bf16 or fp16; nothing runs in
//   fp64
//   --backend       onednn, or cuda: ranks are threads of this process, on the GPUs in turn.
//   Nothing runs in fp64;
//                   a row that needs a kernel that cuda has not is refused. Exit 77, and a line
//                   that says why, without a GPU
//   --examples      where they are, else the source's; --json: a row is an object
//   --refusals      the refused rows must be those of the file; written with
//   LOCKSTEP_UPDATE_GOLDEN=1
// How far a small model comes in few steps depends on every bit: where a strategy is not meant to
// compute what one rank does, "quality" is the mean of three seeds. Exit 0 where every row that is
// not refused holds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "agent/worker/worker_verify.h"
#include "app/runs/verification.h"
#include "app/specs/spec_text.h"
#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/cluster/strategies.h"
#include "engine/data/click_log.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/made_up_data.h"
#include "tests/support/paths.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string example;
  int ranks = 1;
  std::string name;  // of the strategy and its options
  std::vector<std::string> sets;
  int nodes = 1;  // which the ranks are divided among
};

constexpr int kLocalSteps = 4;
constexpr int kQualitySeeds = 3;
constexpr std::int64_t kSteps = 4;

// Layers in equal numbers on each stage.
std::string pins(const spec::v1::RunSpec& spec, int stages) {
  std::string out;
  int before = -1;
  const int layers = spec.model().layers_size();
  for (int i = 0; i < layers; ++i) {
    const int stage = i * stages / layers;
    if (stage == before) continue;
    out += fmt::format("{}{{layer: {}, stage: {}}}", out.empty() ? "" : ", ",
                       spec.model().layers(i).name(), stage);
    before = stage;
  }
  return "[" + out + "]";
}

void addRows(const std::string& example, const spec::v1::RunSpec& spec, int ranks,
             const cluster::Strategy& strategy, std::vector<Row>& out) {
  const std::string kind(strategy.name);
  const bool staged = strategy.axis == cluster::kStageAxis;
  std::vector<int> servers{0};
  if (strategy.servers)
    servers = strategy.oneServer || ranks == 2 ? std::vector{1} : std::vector{1, 2};
  for (const int server : servers)
    for (const int tensor : {1, 2, 4})
      for (const int stages : {1, 2, 4}) {
        const int workers = ranks - server;
        if (workers % (tensor * stages) != 0) continue;
        if (ranks == 8 && (tensor != 2 || stages != 2)) continue;  // three axes
        // as multi-worker-
        if (strategy.oneNode && !strategy.servers && tensor * stages > 1) continue;
        if (strategy.axis == cluster::kModelAxis && tensor == 1) continue;
        if (staged && stages == 1) continue;
        const int dataRanks = workers / (tensor * stages);
        std::vector<std::string> schedules{"1f1b"};
        if (kind == "pipeline") schedules = {"1f1b", "gpipe", "zb-h1"};
        for (const std::string& schedule : schedules) {
          // What local-sgd divides a batch into are its steps.
          std::vector<int> micros{stages > 1 && !strategy.local ? 4 : 1};
          if (kind == "pipeline" && schedule == "1f1b") micros.push_back(1);
          if (stages == 1 && tensor == 1 && ranks == 2 && !strategy.local) micros.push_back(2);
          for (const int micro : micros) {
            Row row{example, ranks, kind, {"strategy.kind=" + kind}};
            const auto option = [&](const char* field, const char* text, int value, int usual) {
              if (value == usual) return;
              row.name += fmt::format(", {} {}", value, text);
              row.sets.push_back(fmt::format("strategy.{}={}", field, value));
            };
            option("servers", "servers", server, 0);
            option("tensor", "tensor", tensor, 1);
            option("stages", "stages", stages, 1);
            option("micro_batches", "micro-batches", micro, 1);
            if (schedule != "1f1b") {
              row.name += ", " + schedule;
              row.sets.push_back("strategy.schedule=" + schedule);
            }
            if (strategy.local)
              row.sets.push_back(fmt::format("strategy.local_steps={}", kLocalSteps));
            // a sample for each rank
            const int least = dataRanks * (strategy.local ? kLocalSteps : micro);
            if (spec.training().batch() < least)
              row.sets.push_back(fmt::format("training.batch={}", least));
            if (kind == "placement") row.sets.push_back("strategy.pins=" + pins(spec, stages));
            out.push_back(std::move(row));
          }
        }
      }
}

// The ways gradients can be added up and travel.
void addWays(const std::string& example, std::vector<Row>& out) {
  for (const char* way : {"ring", "halving-doubling", "tree", "hierarchical"})
    out.push_back({example,
                   4,
                   fmt::format("multi-worker-mirrored, {}", way),
                   {fmt::format("strategy.all_reduce={}", way)},
                   way == std::string_view("hierarchical") ? 2 : 1});
  for (const int ranks : {2, 4})
    out.push_back({example,
                   ranks,
                   fmt::format("parameter-server, {} servers, dense all-reduce", ranks / 2),
                   {"strategy.kind=parameter-server", fmt::format("strategy.servers={}", ranks / 2),
                    "strategy.dense=all-reduce"}});
  for (const int bound : {1, -1})
    out.push_back(
        {example,
         4,
         fmt::format("parameter-server, staleness {}", bound),
         {"strategy.kind=parameter-server", fmt::format("strategy.staleness={}", bound)}});
  for (const char* way : {"fp16", "bf16", "int8", "top-k"})
    out.push_back({example,
                   4,
                   fmt::format("multi-worker-mirrored, {}", way),
                   {fmt::format("strategy.compression={}", way)}});
}

struct Example {
  std::string name, file;
  std::vector<std::string> sets;
  std::shared_ptr<const spec::v1::RunSpec> spec;
};

std::vector<Example> examples(const std::string& folder, const std::string& scratch) {
  std::vector<Example> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".yaml") continue;
    auto spec = app::loadRunSpec(entry.path());
    if (!spec.ok()) continue;  // a cluster
    Example one{entry.path().stem(), entry.path(), {}, spec->spec};
    for (const auto& [field, text] : {std::pair{"train", one.spec->data().train().text()},
                                      {"evaluate", one.spec->data().evaluate().text()}})
      if (!text.empty() && !fs::exists(text))
        one.sets.push_back(fmt::format("data.{}.text={}", field, testing::madeUpText(scratch)));
    if (const std::string& table = one.spec->data().train().table();
        !table.empty() && !fs::exists(table)) {
      const std::string made = scratch + "/made-up.tsv";
      if (!data::writeClickLog({.rows = 4000}, made).ok()) continue;
      for (const char* field : {"train", "evaluate"})
        one.sets.push_back(fmt::format("data.{}.table={}", field, made));
    }
    out.push_back(std::move(one));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

struct Options {
  bool list = false, small = false, wholeModels = false, json = false;
  std::string contains, refusals, precision, backend,
      examples = lockstep::test::sourcePath("resources/examples");
  std::int64_t steps = 0;  // 0: kSteps, or as many as quality takes
};

struct Verdict {
  bool refused = false, holds = true;
  std::string text;
};

Verdict judge(const Example& example, const Row& row, const Options& options,
              std::map<std::string, runtime::Reference>& known) {
  std::vector<std::string> sets = example.sets;
  sets.insert(sets.end(), row.sets.begin(), row.sets.end());
  if (!options.precision.empty()) sets.push_back("training.precision=" + options.precision);
  if (!options.backend.empty()) sets.push_back("training.backend=" + options.backend);
  const auto refused = [&](const Error& error) {
    std::string what = error.what;  // without the place in the file
    if (what.starts_with(example.file)) what = what.substr(what.find(": ") + 2);
    return Verdict{true, true, what + (error.next.empty() ? "" : " (" + error.next.text() + ")")};
  };
  const auto spec = app::loadRunSpec(example.file, sets);
  if (!spec.ok()) return refused(spec.error());
  app::ClusterSpecFile cluster =
      app::localCluster(row.nodes > 1 ? row.nodes : row.ranks, "", row.nodes > 1 ? "" : "shm");
  for (int node = 1; row.nodes > 1 && node <= row.nodes; ++node) {
    auto one = app::withRanks(std::move(cluster),
                              {fmt::format("local{}={}", node, row.ranks / row.nodes)});
    if (!one.ok()) return {false, false, one.error().text()};
    cluster = std::move(*one);
  }
  std::vector<app::Precision> precisions;
  if (options.precision.empty() && options.backend.empty())
    precisions.push_back(app::Precision::kSmallDouble);
  if (!options.small || precisions.empty())
    precisions.push_back(options.wholeModels ? app::Precision::kSingle
                                             : app::Precision::kSmallSingle);
  Verdict out;
  for (const app::Precision precision : precisions) {
    std::string differences, dtype;
    std::vector<double> qualities;  // of each seed
    double qualityLimit = 0;
    for (int seed = 1; seed == 1 || (!qualities.empty() && seed <= kQualitySeeds); ++seed) {
      spec::v1::RunSpec seeded = *spec->spec;
      seeded.mutable_training()->set_seed(seed);
      const std::int64_t usual = app::unequalByDesign(seeded).empty() ? kSteps : 0;
      const auto one = app::verifyCase(seeded, *cluster.spec, precision,
                                       options.steps > 0 ? options.steps : usual);
      if (!one.ok()) return refused(one.error());
      if (options.list) break;
      const auto reply = agent::verifyPlans(*one->request, &known);
      if (!reply.ok() &&
          reply.error().what.text().find(" backend has no kernel for ") != std::string::npos)
        return refused(reply.error());
      if (!reply.ok()) return {false, false, reply.error().text()};
      dtype = one->request->spec().training().precision();
      for (const auto& finding : reply->findings()) {
        if (finding.check() == "quality") {
          qualities.push_back(finding.difference());
          qualityLimit = finding.limit();
          continue;
        }
        if (seed == 1 && (finding.limit() > 0 || !finding.holds()))
          differences += fmt::format(" {} {:.0e}/{:.0e}{}", finding.check(), finding.difference(),
                                     finding.limit(), finding.undecided() ? " undecided" : "");
        if (finding.holds()) continue;
        out.holds = false;
        out.text +=
            fmt::format("{}: {} differ by {:.1e}, limit {:.1e}: {}  ", dtype, finding.check(),
                        finding.difference(), finding.limit(), finding.where());
      }
    }
    if (options.list) continue;
    if (!qualities.empty()) {
      const double mean =
          std::accumulate(qualities.begin(), qualities.end(), 0.0) / qualities.size();
      differences += fmt::format(" quality {:.1e} ({:.1e})", mean, fmt::join(qualities, ", "));
      out.holds = out.holds && mean <= qualityLimit;
    }
    out.text += fmt::format("{}{}  ", dtype, differences);
  }
  return out;
}

// Few rows that have of everything.
bool isInSmall(const Row& row) {
  if (row.ranks == 8) return row.example == "gpt-tiny" && row.name.starts_with("zero-1");
  if (row.example == "gpt-small") return false;
  if (row.example == "fashion-mlp") return row.ranks == 4;
  if (row.example == "gpt-tiny")  // local-sgd, which takes long here, is proven by the others
    return row.ranks == 4 && row.name.find(", 2 ") != std::string::npos &&
           !row.name.starts_with("local-sgd");
  return row.ranks == 2;
}

int checkRefusals(const std::string& file, const std::string& found) {
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr)
    return writeFileAtomically(file, found).ok() ? 0 : 1;
  const auto expected = readFile(file);
  if (expected.ok() && *expected == found) return 0;
  std::printf("the refused rows are not those of %s\n", file.c_str());
  return 1;
}

// Null where a word is not understood, which is told.
std::optional<Options> parseOptions(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool more = i + 1 < words.size();
    if (words[i] == "--list")
      options.list = true;
    else if (words[i] == "--small")
      options.small = true;
    else if (words[i] == "--whole-models")
      options.wholeModels = true;
    else if (words[i] == "--json")
      options.json = true;
    else if (words[i] == "--backend" && more)
      options.backend = words[++i];
    else if (words[i] == "--examples" && more)
      options.examples = words[++i];
    else if (words[i] == "--precision" && more)
      options.precision = words[++i];
    else if (words[i] == "--contains" && more)
      options.contains = words[++i];
    else if (words[i] == "--refusals" && more)
      options.refusals = words[++i];
    else if (words[i] == "--steps" && more)
      options.steps = std::max(1, std::atoi(words[++i].c_str()));
    else {
      std::fprintf(stderr, "matrix: %s is not understood\n", words[i].c_str());
      return std::nullopt;
    }
  }
  return options;
}

void printRow(const Row& row, const std::string& name, const Verdict& verdict, double seconds,
              const Options& options) {
  const char* const came = verdict.refused  ? "refused"
                           : !verdict.holds ? "FAILS"
                           : options.list   ? "planned"
                                            : "holds";
  if (options.json)
    std::printf("%s\n", nlohmann::json{{"event", "row"},
                                       {"example", row.example},
                                       {"ranks", row.ranks},
                                       {"strategy", row.name},
                                       {"verdict", came},
                                       {"seconds", seconds},
                                       {"text", verdict.text}}
                            .dump()
                            .c_str());
  else
    std::printf("%-72s %-8s %5.1f s  %s\n", name.c_str(), came, seconds, verdict.text.c_str());
  std::fflush(stdout);
}

int main(const std::vector<std::string>& words) {
  const std::optional<Options> given = parseOptions(words);
  if (!given) return 2;
  const Options& options = *given;
  if (!options.backend.empty()) {
    const auto backend = backends::makeBackend(options.backend, {});
    if (!backend.ok()) {
      std::printf("skipped: no row runs on %s: %s\n", options.backend.c_str(),
                  backend.error().text().c_str());
      return 77;
    }
  }
  if (!fs::is_directory(options.examples)) {
    std::fprintf(stderr, "matrix: there is no folder %s\n", options.examples.c_str());
    return 2;
  }
  std::string scratch = (fs::temp_directory_path() / "lockstep-matrix-XXXXXX").string();
  if (mkdtemp(scratch.data()) == nullptr) return 2;
  int rows = 0, held = 0, refused = 0, failed = 0;
  std::string refusals;
  for (const Example& example : examples(options.examples, scratch)) {
    std::map<std::string, runtime::Reference> known;  // what one rank made of this example
    std::vector<Row> all;
    for (const int ranks : {2, 4, 8})
      for (const cluster::Strategy& strategy : cluster::strategies())
        addRows(example.name, *example.spec, ranks, strategy, all);
    addWays(example.name, all);
    for (const Row& row : all) {
      const std::string name = fmt::format("{:<15} {} ranks  {}", row.example, row.ranks, row.name);
      if ((options.small && !options.list && !isInSmall(row)) ||
          name.find(options.contains) == std::string::npos)
        continue;
      const Nanoseconds begin = monotonicNow();
      const Verdict verdict = judge(example, row, options, known);
      const double seconds = static_cast<double>(monotonicNow() - begin) * 1e-9;
      ++rows;
      (verdict.refused ? refused : verdict.holds ? held : failed) += 1;
      if (verdict.refused) refusals += fmt::format("{}: {}\n", name, verdict.text);
      printRow(row, name, verdict, seconds, options);
    }
  }
  std::error_code ignored;
  fs::remove_all(scratch, ignored);
  if (options.json)
    std::printf("%s\n", nlohmann::json{{"event", "rows"},
                                       {"rows", rows},
                                       {"held", held},
                                       {"refused", refused},
                                       {"failed", failed}}
                            .dump()
                            .c_str());
  else
    std::printf("%d rows: %d %s, %d refused, %d fail\n", rows, held,
                options.list ? "planned" : "hold", refused, failed);
  const int asExpected = options.refusals.empty() ? 0 : checkRefusals(options.refusals, refusals);
  return failed > 0 || rows == refused ? 1 : asExpected;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::main(std::vector<std::string>(argv + 1, argv + argc));
}
