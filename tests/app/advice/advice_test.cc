// The best strategy found, held against planning all of them.
#include "app/advice/advice.h"

#include <QTest>
#include <array>
#include <cmath>
#include <random>
#include <set>
#include <tuple>

#include "app/advice/auto_strategy.h"
#include "app/advice/estimate.h"
#include "app/advice/run_advice.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

struct Asked {
  std::string text;  // what was drawn
  std::string spec;
  LaunchRequest request;
  std::vector<HostFacts> hosts;

  Result<std::shared_ptr<const spec::v1::RunSpec>> specWith(const Remedy& settings) const {
    std::vector<std::string> sets;
    for (const auto& [path, value] : settings) sets.push_back(path + "=" + value);
    LOCKSTEP_ASSIGN(const RunSpecFile made, completeRunSpec(spec, "/nowhere/run.yaml", sets));
    return made.spec;
  }
  Result<Advice> advice(AdviceOptions options) const {
    options.threads = 2;
    options.time = std::chrono::hours(1);
    return advise(
        request, [this](const Remedy& settings) { return specWith(settings); }, hosts, options);
  }
  Result<Preview> previewWith(const Remedy& settings) const {
    LaunchRequest own = request;
    LOCKSTEP_ASSIGN(own.spec, specWith(settings));
    return makePreview(own, hosts);
  }
};

Asked ask(const std::string& spec, const std::string& cluster, std::string text = {}) {
  Asked out;
  out.text = text.empty() ? spec : std::move(text);
  out.spec = spec;
  const auto run = out.specWith({});
  if (!run.ok()) qFatal("%s\n%s", run.error().text().c_str(), spec.c_str());
  const auto nodes = completeClusterSpec(cluster, "/nowhere/cluster.yaml");
  if (!nodes.ok()) qFatal("%s\n%s", nodes.error().text().c_str(), cluster.c_str());
  out.request.spec = *run;
  out.request.cluster = nodes->spec;
  return out;
}

std::string clusterOf(int nodes, int ranks, std::string_view kind) {
  std::string out = "name: drawn\nnodes:\n";
  for (int n = 0; n < nodes; ++n)
    out +=
        fmt::format("  - {{name: n{}, address: 10.0.0.{}, devices: [{{kind: {}, count: {}}}]}}\n",
                    n, n + 1, kind, ranks);
  return out;
}

// `rest` follows "training:".
std::string gptOf(int blocks, int width, int context, int batch, const std::string& rest = {}) {
  std::string out = fmt::format(
      "version: 1\nmodel:\n  name: drawn\n  input: {{shape: [{}], vocabulary: 512}}\n  layers:\n"
      "    - embedding: {{units: {}}}\n",
      context, width);
  for (int b = 0; b < blocks; ++b) out += "    - transformer: {heads: 4}\n";
  return out + fmt::format(
                   "    - layer_norm: {{}}\n    - dense: {{units: 512, tied: embedding1}}\n"
                   "  loss: cross-entropy\ndata:\n  format: text\n"
                   "  train: {{text: /x.txt, to: 0.9}}\n  evaluate: {{text: /x.txt, from: 0.9}}\n"
                   "training:\n  batch: {}\n  max_steps: 10\n{}",
                   batch, rest);
}

// A model with batch norm, whose options are `norm`.
std::string normOf(const std::string& norm, const std::string& rest) {
  return fmt::format(
      "version: 1\nmodel:\n  name: norm\n  input: {{shape: [8, 8, 1]}}\n  classes: 10\n  layers:\n"
      "    - conv2d: {{filters: 8, kernel: 3}}\n    - batch_norm: {{{}}}\n    - flatten: {{}}\n"
      "    - dense: {{units: 10}}\n  loss: cross-entropy\ndata:\n"
      "  train: {{images: /i, labels: /l}}\n  evaluate: {{images: /i, labels: /l}}\n"
      "training: {{batch: 32}}\n{}",
      norm, rest);
}

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  Asked operator()() {
    static constexpr std::array kStrategies{"",
                                            "",
                                            "strategy: {kind: pipeline}\n",
                                            "strategy: {kind: pipeline, tensor: 2}\n",
                                            "strategy: {kind: tensor-parallel}\n",
                                            "strategy: {kind: zero-2, micro_batches: 2}\n",
                                            "strategy: {kind: pipeline, stages: 7}\n",
                                            "strategy: {stages: 7}\n",
                                            "strategy: {kind: parameter-server}\n",
                                            "strategy: {kind: local-sgd}\n"};
    const bool gpus = of({0, 1}) == 1;
    const int nodes = of({1, 2}), ranks = of({1, 2, 2, 3});
    const int blocks = of({2, 3, 5}), width = of({64, 256, 1024}), context = of({32, 256});
    const int batch = nodes * ranks * of({2, 6});
    const std::string strategy = kStrategies[random_() % kStrategies.size()];
    const bool links = nodes > 1 && of({0, 1}) == 1;
    std::string cluster = clusterOf(nodes, ranks, gpus ? "cuda" : "cpu");
    if (links) cluster += "links:\n  - {from: n0, to: n1, bandwidth_mbit: 1000}\n";
    Asked out = ask(
        gptOf(blocks, width, context, batch, strategy), cluster,
        fmt::format("gpt {} x {} of {}, batch {}, {} x {} {}{}, {}", blocks, width, context, batch,
                    nodes, ranks, gpus ? "GPUs" : "cores", links ? ", slow link" : "", strategy));
    for (int n = 0; n < nodes; ++n)
      out.hosts.push_back({fmt::format("n{}", n), fmt::format("h{}", n), ranks, 0, {}});
    return out;
  }
  int of(std::initializer_list<int> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_() % choices.size()));
  }

 private:
  std::minstd_rand random_;
};

Advice adviceOf(const Asked& asked, const AdviceOptions& options) {
  auto advice = asked.advice(options);
  if (!advice.ok()) qFatal("%s: %s", asked.text.c_str(), advice.error().text().c_str());
  return std::move(advice).value();
}

}  // namespace

class AdviceTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  // A search that may plan a tenth of the strategies finds one that is as good as the best of all.
  void aFewPlansFindTheBest() {
    Draw draw(5);
    for (int round = 0; round < 6; ++round) {
      const Asked asked = draw();
      AdviceOptions options;
      options.all = true;
      const Advice all = adviceOf(asked, options);
      options.all = false;
      options.mostPlans = std::max<std::size_t>(16, all.judged / 10);
      const Advice few = adviceOf(asked, options);
      QVERIFY2(few.planned <= options.mostPlans + 16, asked.text.c_str());
      const double distance = few.best[0].stepSeconds / all.best[0].stepSeconds - 1;
      qInfo("%s: %zu of %zu planned, %.2f %% from the best", asked.text.c_str(), few.planned,
            all.judged, 100 * distance);
      QVERIFY2(distance <= 0.02, asked.text.c_str());
    }
  }

  // Over slow links, where a step is its exchange: estimates of all kinds are near their plans, and
  // as far from each other.
  void estimatesExchangeAsPlansDo() {
    for (const int ranks : {1, 4}) {
      const Asked asked =
          ask(gptOf(2, 512, 32, 16), clusterOf(2, ranks, "cuda") +
                                         "links:\n  - {from: n0, to: n1, bandwidth_mbit: 1000}\n");
      spec::v1::StrategySpec plain;
      plain.set_kind("multi-worker-mirrored");
      const auto cluster = specs::toCluster(*asked.request.cluster, {}, plain);
      QVERIFY(cluster.ok());
      SearchSpace space;
      space.workers = 2 * ranks;
      space.batch = 16;
      space.oneNode = false;
      Estimator estimator(asked.request, {}, *cluster, space);
      std::vector<Choice> choices;
      for (const char* kind : {"multi-worker-mirrored", "zero-1", "zero-3"}) {
        choices.emplace_back();
        choices.back().kind = kind;
      }
      for (const Estimator::Probe& probe : estimator.probesFor(choices)) estimator.plan(probe);
      for (const Choice& choice : choices) {
        const auto estimate = estimator.of(choice);
        const auto planned = asked.previewWith({{"strategy.kind", choice.kind}});
        QVERIFY(estimate && planned.ok());
        QVERIFY2(std::abs(estimate->seconds / planned->stepSeconds - 1) < 0.15,
                 fmt::format("{} x {}: {} and {}", choice.kind, 2 * ranks, estimate->seconds,
                             planned->stepSeconds)
                     .c_str());
      }
    }
  }

  // What is printed is what comes out with the settings that are printed.
  void theSettingsGiveTheStrategy() {
    Draw draw(6);
    for (int round = 0; round < 10; ++round) {
      const Asked asked = draw();
      AdviceOptions options;
      options.mostPlans = 32;
      const Advice advice = adviceOf(asked, options);
      QVERIFY(!advice.best.empty());
      for (const AdvisedStrategy& one : advice.best) {
        const auto preview = asked.previewWith(one.settings);
        QVERIFY2(preview.ok(), asked.text.c_str());
        QVERIFY(!preview->misfit);
        QVERIFY2(std::abs(preview->stepSeconds / one.stepSeconds - 1) < 0.01,
                 fmt::format("{}: {}: {} and {}", asked.text, one.choice.kind, one.stepSeconds,
                             preview->stepSeconds)
                     .c_str());
        QCOMPARE(peakMemory(*preview), one.memoryBytes);
        QVERIFY2(choiceOf(**asked.specWith(one.settings), preview->plan.mesh) == one.choice,
                 fmt::format("{}: {}", asked.text, one.choice.kind).c_str());
        QVERIFY(!one.why.empty());
      }
      // The best first, but what recomputes comes after the same strategy without it.
      const auto isRecomputed = [&](const Choice& plain, std::size_t from) {
        return std::any_of(advice.best.begin() + static_cast<std::ptrdiff_t>(from),
                           advice.best.end(), [&](const AdvisedStrategy& one) {
                             Choice other = one.choice;
                             other.recompute = plain.recompute;
                             return other == plain;
                           });
      };
      for (std::size_t i = 2; i < advice.best.size(); ++i)
        QVERIFY(advice.best[i - 1].stepSeconds <= advice.best[i].stepSeconds ||
                isRecomputed(advice.best[i - 1].choice, i));
      // What runs everywhere is among the judged, whatever the spec says.
      options.pinned = {{"strategy.kind", "multi-worker-mirrored"}, {"strategy.stages", "1"}};
      QVERIFY2(!adviceOf(asked, options).best.empty(), asked.text.c_str());
      // The spec's own is never better than the best; where it cannot run it is said why.
      QVERIFY(advice.current.has_value() != advice.currentRefusal.has_value());
      if (!advice.current) continue;
      QVERIFY(advice.current->settings.empty());
      QVERIFY(advice.best[0].stepSeconds <= 1.015 * advice.current->stepSeconds);
    }
  }

  void whatIsPinnedStays() {
    const Asked asked =
        ask(gptOf(2, 64, 16, 64, "strategy: {micro_batches: 4}\n"), clusterOf(2, 4, "cuda"));
    AdviceOptions options;
    options.mostPlans = 8;
    options.pinned = {{"strategy.tensor", "2"}, {"strategy.micro_batches", ""}};
    for (const AdvisedStrategy& one : adviceOf(asked, options).best) {
      QCOMPARE(one.choice.tensor, 2);
      QCOMPARE(one.choice.microBatches, 4);
    }
    options.pinned = {{"strategy.kind", "zero-3"}};
    for (const AdvisedStrategy& one : adviceOf(asked, options).best)
      QCOMPARE(one.choice.kind, std::string("zero-3"));
    options.pinned = {{"strategy.kind", "pipeline"}, {"strategy.stages", "4"}};
    for (const AdvisedStrategy& one : adviceOf(asked, options).best) QCOMPARE(one.choice.stages, 4);
    const auto valueOf = [](const std::string& path, const AdvisedStrategy& one) -> std::string {
      if (path == "strategy.overlap") return one.choice.overlap;
      if (path == "strategy.bucket_bytes") return fmt::format("{}", one.choice.bucketBytes);
      if (path == "training.precision") return one.choice.precision;
      if (path == "strategy.recompute") return one.choice.recompute;
      if (path == "strategy.servers") return fmt::format("{}", one.choice.servers);
      return one.choice.stages > 1 ? one.choice.schedule : "gpipe";
    };
    for (const auto& [path, value] :
         {std::pair("strategy.overlap", "never"), std::pair("strategy.bucket_bytes", "1048576"),
          std::pair("training.precision", "bf16"), std::pair("strategy.recompute", "full"),
          std::pair("strategy.schedule", "gpipe"), std::pair("strategy.servers", "1")}) {
      options.pinned = {{path, value}};
      const Advice kept = adviceOf(asked, options);
      QVERIFY2(kept.best.size() > 1, path);
      for (const AdvisedStrategy& one : kept.best) {
        QCOMPARE(valueOf(path, one), std::string(value));
        QVERIFY2(asked.previewWith(one.settings).ok(), path);
      }
    }
    for (const auto& [path, value, says] :
         {std::tuple("training.batch", "8", "strategy.micro_batches"),
          std::tuple("strategy.kind", "zero3", "zero-3"),
          std::tuple("strategy.micro_batches", "0", "a number from 1"),
          std::tuple("strategy.overlap", "sometimes", "always"),
          std::tuple("strategy.schedule", "forward", "gpipe"),
          std::tuple("training.precision", "fp12", "bf16")}) {
      options.pinned = {{path, value}};
      const auto refused = asked.advice(options);
      QVERIFY2(!refused.ok(), path);
      QCOMPARE(refused.error().code, Code::kInvalidArgument);
      QVERIFY2(refused.error().text().find(says) != std::string::npos,
               refused.error().text().c_str());
    }
    options.pinned = {{"strategy.tensor", "3"}};  // of eight ranks
    QVERIFY(!asked.advice(options).ok());
  }

  // Compression that moves more than it saves is no candidate: as fp16 it is one of at most 4 ranks
  // that all-reduce, or of any number that reduce-scatter.
  void compressionIsSearchedWhereItSaves() {
    const Asked asked =
        ask(gptOf(2, 64, 16, 64, "strategy: {compression: fp16}\n"), clusterOf(2, 4, "cuda"));
    AdviceOptions options;
    options.mostPlans = 48;
    const Advice advice = adviceOf(asked, options);
    QVERIFY(!advice.current && advice.currentRefusal && advice.refused > 0);
    QVERIFY2(advice.currentRefusal->what.text().find("fp16") != std::string::npos,
             advice.currentRefusal->text().c_str());
    QVERIFY(!advice.best.empty());
    for (const AdvisedStrategy& one : advice.best)
      QVERIFY2(one.choice.kind.starts_with("zero-") || one.choice.tensor * one.choice.stages >= 2,
               one.choice.kind.c_str());
  }

  // Without a connection the memory of nodes is not known, which is said; auto says it too.
  void unknownMemoryIsTold() {
    const std::string spec = gptOf(2, 64, 32, 8, "strategy: {kind: auto}\n");
    Asked asked = ask(spec, clusterOf(2, 1, "cpu"), "two nodes");
    const auto written = completeRunSpec(asked.spec, "/nowhere/run.yaml");
    QVERIFY(written.ok());
    const auto start = searchStart(*written);
    QVERIFY(start.ok() && start->open);
    for (const std::int64_t memory : {std::int64_t{0}, std::int64_t{8} << 30}) {
      asked.hosts = {{"n0", "h0", 1, memory, {}}, {"n1", "h1", 1, 8LL << 30, {}}};
      const auto advice = advise(asked.request, *start, asked.hosts, {});
      QVERIFY2(advice.ok(), advice.ok() ? "" : advice.error().text().c_str());
      QCOMPARE(advice->unknownMemory, std::size_t{memory == 0 ? 1U : 0U});
      QVERIFY(advice->best.front().linkBytes > 0);
      const auto chosen = withStrategyChosen(asked.request, *written, asked.hosts, {});
      QVERIFY(chosen.ok());
      QCOMPARE(chosen->chosen.text().find("the memory of 1 node is not known") != std::string::npos,
               memory == 0);
    }
  }

  // strategy.kind auto: the plan is that of the best candidate, written by hand.
  void autoPlansTheBestCandidate() {
    static constexpr std::array kWritten{"",
                                         ", micro_batches: 2",
                                         ", stages: 2, schedule: gpipe",
                                         ", tensor: 2",
                                         ", servers: 1",
                                         ", staleness: 2",
                                         ", recompute: full, overlap: never, bucket_bytes: 1MiB",
                                         ", compression: fp16",
                                         ", deterministic_parts: 4"};
    Draw draw(31);
    for (int round = 0; round < 18; ++round) {
      const std::string rest = kWritten[static_cast<std::size_t>(round) % kWritten.size()];
      const int nodes = draw.of({1, 2}), ranks = nodes == 2 ? 2 : draw.of({2, 4});
      const std::string spec = gptOf(draw.of({2, 3}), draw.of({64, 256}), 32, 16,
                                     "strategy: {kind: auto" + rest + "}\n");
      const std::string cluster = clusterOf(nodes, ranks, draw.of({0, 1}) == 1 ? "cuda" : "cpu");
      const Asked asked = ask(spec, cluster, fmt::format("{} on {} x {}", rest, nodes, ranks));
      checkAuto(asked, rest);
      if (QTest::currentTestFailed()) return;
    }
  }

 private:
  void checkAuto(const Asked& asked, const std::string& rest) {
    const auto written = completeRunSpec(asked.spec, "/nowhere/run.yaml");
    QVERIFY(written.ok() && specs::isOpen(written->spec->strategy()));
    const auto open = makePreview(asked.request, asked.hosts);
    QVERIFY(!open.ok() && open.error().field == "strategy.kind");
    AdviceOptions options;
    options.mostPlans = 48;
    options.threads = 2;
    options.time = std::chrono::hours(1);
    const auto chosen = withStrategyChosen(asked.request, *written, asked.hosts, options);
    QVERIFY2(chosen.ok(), chosen.ok() ? "" : (asked.text + chosen.error().text()).c_str());
    const auto start = searchStart(*written);
    QVERIFY(start.ok());
    options.pinned = start->pinned;
    options.kept = start->kept;
    LaunchRequest plain = asked.request;
    plain.spec = start->spec.spec;
    const auto advice = advise(plain, specWith(start->spec), asked.hosts, options);
    QVERIFY2(advice.ok(), asked.text.c_str());
    const Choice& best = advice->best.front().choice;
    // A field that `rest` has too is not written twice.
    std::string byHand = fmt::format("strategy: {{kind: {}{}", best.kind, rest);
    const auto add = [&](const std::string& field, const auto& value, bool wanted) {
      if (wanted && rest.find(field + ":") == std::string::npos)
        byHand += fmt::format(", {}: {}", field, value);
    };
    add("tensor", best.tensor, !best.hasServers());
    add("stages", best.stages, !best.hasServers());
    add("servers", best.servers, best.hasServers());
    add("micro_batches", best.microBatches, best.microBatches > 1);
    add("schedule", best.schedule, best.stages > 1);
    add("recompute", best.recompute, true);
    add("overlap", best.overlap, true);
    add("bucket_bytes", best.bucketBytes, true);
    std::string spec = asked.spec;
    const std::string before = "strategy: {kind: auto" + rest;
    spec.replace(spec.find(before), before.size(), byHand);
    Asked hand = asked;
    hand.spec = std::move(spec);
    const auto planned = hand.previewWith({});
    const auto found = makePreview(*chosen, asked.hosts);
    QVERIFY2(planned.ok(), planned.ok() ? "" : planned.error().text().c_str());
    QVERIFY2(found.ok() && !found->misfit, asked.text.c_str());
    QCOMPARE(found->planText, planned->planText);
    QCOMPARE(found->remarks.front(), chosen->chosen);
    QVERIFY2(chosen->chosen.text().starts_with("auto chose " + textOf(best).text()),
             chosen->chosen.text().c_str());
    // What was written has stayed.
    const auto& fixed = written->spec->strategy();
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    fixed.GetReflection()->ListFields(fixed, &fields);
    for (const auto* field : fields)
      if (field->name() != "kind")
        QCOMPARE(specs::fieldText(chosen->spec->strategy(), *field),
                 specs::fieldText(fixed, *field));
  }

 private Q_SLOTS:
  void autoKeepsSharesOrSaysWhyNot() {
    const auto chosen = [](const std::string& strategy, int ranks,
                           AdviceOptions options) -> Result<LaunchRequest> {
      const std::string spec = gptOf(2, 64, 32, 16, "strategy: {kind: auto, " + strategy + "}\n");
      LOCKSTEP_ASSIGN(const RunSpecFile written, completeRunSpec(spec, "/nowhere/run.yaml"));
      const Asked asked = ask(spec, clusterOf(1, ranks, "cpu"));
      return withStrategyChosen(asked.request, written, asked.hosts, std::move(options));
    };
    for (const int ranks : {2, 4}) {  // of four, two have each share
      const auto shared = chosen("shares: [3, 1]", ranks, {});
      QVERIFY2(shared.ok(), shared.ok() ? "" : shared.error().text().c_str());
      QCOMPARE(shared->spec->strategy().shares_size(), 2);
      QVERIFY(makePreview(*shared, {}).ok());
    }
    for (const auto& [strategy, field] :
         {std::pair("shares: [1, 1, 1, 1, 1]", "strategy.shares"),
          std::pair("tensor: 3", "strategy.tensor"), std::pair("servers: 4", "strategy.servers"),
          std::pair("local_steps: 2", "strategy.local_steps"),
          std::pair("stages: 2, pins: [{layer: embedding1, stage: 0}, {layer: dense1, stage: 1}]",
                    "strategy.pins")}) {
      const auto refused = chosen(strategy, 4, {});
      QVERIFY2(!refused.ok() && refused.error().text().find(field) != std::string::npos,
               refused.ok() ? strategy : refused.error().text().c_str());
    }
    std::stop_source stop;
    stop.request_stop();
    AdviceOptions stopped;
    stopped.stop = stop.get_token();
    const auto cancelled = chosen("micro_batches: 2", 4, std::move(stopped));
    QVERIFY(!cancelled.ok() && cancelled.error().code == Code::kCancelled);
  }

  // What is found depends neither on the number of threads nor on their pace.
  void autoChoosesTheSameOnAnyMachine() {
    Draw draw(37);
    for (int round = 0; round < 3; ++round) {
      const std::string spec = gptOf(draw.of({2, 4}), draw.of({64, 256}), 32, draw.of({16, 32}),
                                     "strategy: {kind: auto}\n");
      const auto written = completeRunSpec(spec, "/nowhere/run.yaml");
      QVERIFY(written.ok());
      const Asked asked = ask(spec, clusterOf(draw.of({1, 2}), 4, "cuda"));
      const auto chosenBy = [&](std::size_t threads) {
        AdviceOptions options;
        options.threads = threads;
        options.mostPlans = 64;
        options.time = std::chrono::hours(1);
        const auto chosen = withStrategyChosen(asked.request, *written, asked.hosts, options);
        return chosen.ok() ? chosen->chosen.text() : chosen.error().text();
      };
      const std::string one = chosenBy(1);
      QVERIFY2(one.starts_with("auto chose ") && one.find("time for the search") == one.npos,
               one.c_str());
      QCOMPARE(chosenBy(8), one);
      AdviceOptions none;
      none.time = std::chrono::nanoseconds(1);
      const auto hurried = withStrategyChosen(asked.request, *written, asked.hosts, none);
      QVERIFY2(!hurried.ok() || hurried->chosen.text().ends_with("may choose another"),
               hurried.ok() ? hurried->chosen.text().c_str() : "");
    }
  }

  // Statistics are of as many samples as the spec says, whatever strategy is found.
  void autoKeepsTheStatisticsOfBatchNorm() {
    for (const auto& [norm, strategy, groups] :
         {std::tuple("", "", 1), std::tuple("groups: 4", "", 4),
          std::tuple("", ", micro_batches: 2", 2)}) {
      const std::string spec = normOf(norm, fmt::format("strategy: {{kind: auto{}}}\n", strategy));
      const Asked asked = ask(spec, clusterOf(1, 2, "cpu"));
      const auto written = completeRunSpec(spec, "/nowhere/run.yaml");
      QVERIFY(written.ok());
      const auto start = searchStart(*written);
      QVERIFY(start.ok());
      AdviceOptions options;
      options.all = true;
      options.top = 1000;
      options.pinned = start->pinned;
      options.kept = start->kept;
      LaunchRequest plain = asked.request;
      plain.spec = start->spec.spec;
      const SpecWith with = specWith(start->spec);
      const auto advice = advise(plain, with, asked.hosts, options);
      QVERIFY2(advice.ok(), spec.c_str());
      for (const AdvisedStrategy& one : advice->best)
        QCOMPARE((*with(one.settings))->model().layers(1).batch_norm().groups(), groups);
    }
  }

  // What the spec says of its own strategy does not keep others from being found.
  void whatBelongsToTheStrategyGoes() {
    for (const char* const strategy :
         {"strategy: {shares: [1, 2, 1, 1]}\n",
          "strategy: {kind: placement, stages: 2, pins: [{layer: embedding1, stage: 0}, "
          "{layer: layer_norm1, stage: 1}]}\n",
          "strategy: {kind: parameter-server, staleness: 2}\n",
          "strategy: {kind: local-sgd, local_steps: 2}\n"}) {
      const Asked asked = ask(gptOf(1, 16, 8, 8, strategy), clusterOf(1, 4, "cpu"));
      AdviceOptions options;
      options.all = true;
      options.top = 1000;
      const Advice advice = adviceOf(asked, options);
      std::set<std::string> kinds;
      for (const AdvisedStrategy& one : advice.best)
        if (kinds.insert(one.choice.kind).second)
          QVERIFY2(asked.previewWith(one.settings).ok(), strategy);
      for (const char* const kind : {"multi-worker-mirrored", "zero-1", "zero-3", "pipeline"})
        QVERIFY2(kinds.contains(kind), fmt::format("{}: {}", strategy, kind).c_str());
    }
  }

  // Batch norm has as many groups as micro-batches where the spec leaves it open; loss scaling goes
  // with fp16.
  void defaultsFollowTheSettings() {
    const Asked norm = ask(normOf("", ""), clusterOf(1, 2, "cpu"));
    AdviceOptions options;
    options.all = true;
    options.top = 1000;
    bool accumulates = false;
    for (const AdvisedStrategy& one : adviceOf(norm, options).best)
      accumulates = accumulates || one.choice.microBatches > 1;
    QVERIFY(accumulates);
    const Asked half = ask(gptOf(2, 64, 32, 8, "  precision: fp16\n"), clusterOf(1, 2, "cuda"));
    options.precisions = {"bf16", "bf16"};
    int bf16 = 0;
    for (const AdvisedStrategy& one : adviceOf(half, options).best)
      if (one.choice.precision == "bf16") ++bf16;
    QVERIFY(bf16 > 0);
  }

  // It has two billion parameters: not on GPUs of 8 GB without being divided, and not at all on
  // those of 64 MB.
  void whatDoesNotFitIsNotAdvised() {
    Asked asked = ask(gptOf(8, 4096, 256, 32), clusterOf(2, 4, "cuda"), "a large model");
    for (int n = 0; n < 2; ++n)
      asked.hosts.push_back({fmt::format("n{}", n), fmt::format("h{}", n), 8, 0,
                             std::vector<std::int64_t>(4, std::int64_t{8} << 30)});
    AdviceOptions options;
    options.mostPlans = 60;
    const Advice advice = adviceOf(asked, options);
    QVERIFY(advice.currentRefusal && !advice.current);
    QCOMPARE(advice.currentRefusal->code, Code::kResourceExhausted);
    for (const AdvisedStrategy& one : advice.best)
      QVERIFY(one.memoryBytes <= std::int64_t{8} << 30);
    for (HostFacts& host : asked.hosts) host.gpuMemory.assign(4, std::int64_t{64} << 20);
    options.mostPlans = 16;
    const auto none = asked.advice(options);
    QVERIFY(!none.ok());
    QCOMPARE(none.error().code, Code::kResourceExhausted);
  }

  // The spec's own strategy and the same without its overlap have the same variants.
  void eachStrategyIsAdvisedOnce() {
    const Asked asked =
        ask(gptOf(2, 512, 32, 8, "strategy: {overlap: never}\n"), clusterOf(2, 2, "cuda"));
    AdviceOptions options;
    options.top = 1000;
    options.pinned = {{"strategy.kind", "multi-worker-mirrored"},
                      {"strategy.stages", "1"},
                      {"strategy.tensor", "1"},
                      {"strategy.recompute", "none"},
                      {"strategy.micro_batches", "1"}};
    std::multiset<std::string> names;
    for (const AdvisedStrategy& one : adviceOf(asked, options).best)
      names.insert(textOf(one.choice).text());
    QVERIFY(names.contains("multi-worker-mirrored, overlap always"));
    for (const std::string& name : names) QVERIFY2(names.count(name) == 1, name.c_str());
  }

  // Ranks on GPUs take nothing of the host's memory from the rank beside them.
  void ranksOnGpusLeaveTheHostsMemory() {
    Asked asked = ask(gptOf(2, 512, 32, 8, "strategy: {kind: zero-3}\n"),
                      "name: mixed\nnodes:\n  - {name: n0, address: 10.0.0.1, devices: [{kind: "
                      "cpu}, {kind: cuda, count: 3}]}\n");
    const auto plain = asked.previewWith({{"strategy.kind", "multi-worker-mirrored"}});
    QVERIFY2(plain.ok(), plain.ok() ? "" : plain.error().text().c_str());
    QVERIFY(plain->ranks[0].inHostMemory() && !plain->ranks[1].inHostMemory());
    asked.hosts = {{"n0", "h0", 4, plain->ranks[0].totalBytes() * 11 / 10,
                    std::vector<std::int64_t>(3, std::int64_t{80} << 30)}};
    AdviceOptions options;
    options.top = 1000;
    options.pinned = {{"strategy.stages", "1"}, {"strategy.recompute", "none"}};
    const Advice advice = adviceOf(asked, options);
    QVERIFY2(std::any_of(advice.best.begin(), advice.best.end(),
                         [](const AdvisedStrategy& one) {
                           return one.choice.kind == "multi-worker-mirrored" &&
                                  one.choice.microBatches == 1;
                         }),
             asked.text.c_str());
  }

  // Figures are measured, and so inexact: with them recomputing may seem to save time.
  void recomputingComesAfterTheSameWithoutIt() {
    const auto rowOf = [](const char* kind, const char* recompute, double seconds) {
      AdvisedStrategy out;
      out.choice.kind = kind;
      out.choice.recompute = recompute;
      out.stepSeconds = seconds;
      return out;
    };
    std::vector<AdvisedStrategy> rows{
        rowOf("zero-2", "full", 0.8), rowOf("zero-3", "none", 1.1), rowOf("zero-1", "full", 1.2),
        rowOf("zero-2", "selective", 0.7), rowOf("zero-2", "none", 1)};
    rankStrategies(rows);
    QCOMPARE(rows.size(), std::size_t{5});
    const auto placeOf = [&](const std::string& kind, const std::string& recompute) {
      return std::find_if(rows.begin(), rows.end(),
                          [&](const AdvisedStrategy& one) {
                            return one.choice.kind == kind && one.choice.recompute == recompute;
                          }) -
             rows.begin();
    };
    QCOMPARE(placeOf("zero-2", "none"), 0);
    QVERIFY(placeOf("zero-2", "selective") < placeOf("zero-2", "full"));
    QVERIFY(placeOf("zero-3", "none") < placeOf("zero-1", "full"));
    for (const AdvisedStrategy& one : rows) QVERIFY(!one.why.text().empty());
  }

  // Of a run whose ranks took three times as long, the spec's own strategy is held against the best
  // with what was measured, as the same strategy among the best is.
  void theRunsOwnIsComparedAsMeasured() {
    constexpr double kTimes = 3;
    const std::string spec = gptOf(2, 256, 256, 8, "strategy: {recompute: full}\n");
    const Asked asked = ask(spec, clusterOf(1, 2, "cpu"));
    const auto preview = makePreview(asked.request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    auto subject = subjectOf(*preview, {asked.request, {}});
    QVERIFY2(subject.ok(), subject.ok() ? "" : subject.error().text().c_str());
    for (MeasuredRun::Rank& rank : subject->steps.ranks)
      for (std::vector<double>& part : rank.parts)
        for (double& seconds : part) seconds *= kTimes;
    for (MeasuredRun::Exchange& exchange : subject->steps.exchanges) exchange.seconds *= kTimes;
    for (double& seconds : subject->replayed.measured) seconds *= kTimes;
    const auto written = completeRunSpec(spec, "/nowhere/run.yaml");
    const auto start = searchStart(*written);
    QVERIFY(start.ok());
    AdviceOptions options;
    options.all = true;
    options.top = 1000;
    const auto advice = adviseAsMeasured(*subject, *subject->launched, *start, options);
    QVERIFY2(advice.ok(), advice.ok() ? "" : advice.error().text().c_str());
    QVERIFY(advice->current);
    QVERIFY(advice->current->stepSeconds > 2 * preview->stepSeconds);
    const auto same = std::find_if(advice->best.begin(), advice->best.end(),
                                   [](const auto& one) { return one.settings.empty(); });
    QVERIFY(same != advice->best.end() && same != advice->best.begin());
    const std::string why = same->why.text();
    QVERIFY2(why.find("longer a step") != std::string::npos, why.c_str());
    QCOMPARE(advice->current->why.text(), why);
  }

  // Nodes that are there for servers compute in no other strategy.
  void serversStayServers() {
    for (const char* const kind : {"parameter-server", "zero-1"}) {
      const Asked asked =
          ask(gptOf(2, 64, 32, 24, fmt::format("strategy: {{kind: {}}}\n", kind)),
              "name: drawn\nnodes:\n  - {name: a, address: 10.0.0.1, devices: [{count: 3}]}\n"
              "  - {name: b, address: 10.0.0.2, roles: [ps], devices: [{count: 2}]}\n",
              kind);
      AdviceOptions options;
      options.all = true;
      options.top = 1000;
      std::size_t served = 0;
      for (const AdvisedStrategy& one : adviceOf(asked, options).best) {
        const auto preview = asked.previewWith(one.settings);
        QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
        QCOMPARE(preview->plan.mesh.workers(), 3);
        QCOMPARE(preview->plan.mesh.servers(), one.choice.servers);
        if (one.choice.hasServers()) ++served;
      }
      QVERIFY2(served > 0, kind);
    }
  }

  // Unequal GPUs: a batch that is shared by their speed takes less time than equal shares.
  void unequalGpusShareTheBatchBySpeed() {
    for (const auto& [slow, fast, most] : {std::tuple{"A10", "A10", 1.0},
                                           {"A10", "A100-SXM-80GB", 0.8},
                                           {"V100-SXM-32GB", "H100-SXM-80GB", 0.8}}) {
      const std::string cluster = fmt::format(
          "name: drawn\nnodes:\n"
          "  - {{name: 'a[1-2]', ssh: {{host: 'a[1-2]'}}, devices: [{{kind: cuda, count: 2, model: "
          "{}}}]}}\n"
          "  - {{name: 'b[1-2]', ssh: {{host: 'b[1-2]'}}, devices: [{{kind: cuda, count: 2, model: "
          "{}}}]}}\n"
          "links:\n  - {{from: '*', to: '*', kind: ndr, rails: 2}}\n",
          slow, fast);
      const Asked asked = ask(gptOf(6, 1024, 256, 256), cluster, fmt::format("{} {}", slow, fast));
      AdviceOptions options;
      options.mostPlans = 64;
      options.precisions = {"fp16"};
      options.pinned = {{"training.precision", "fp16"}, {"strategy.stages", "1"}};
      const Advice advice = adviceOf(asked, options);
      double even = 0, shared = 0;
      for (const AdvisedStrategy& one : advice.best) {
        double& least = one.choice.balanced ? shared : even;
        if (least == 0) least = one.stepSeconds;
        const auto preview = asked.previewWith(one.settings);
        QVERIFY2(preview.ok(), asked.text.c_str());
        QVERIFY(std::abs(preview->stepSeconds / one.stepSeconds - 1) < 0.01);
      }
      QVERIFY(even > 0);
      QVERIFY2(most == 1 ? shared == 0 : shared > 0 && shared < most * even,
               fmt::format("{}: {} and {}", asked.text, shared, even).c_str());
    }
  }

  void otherPrecisionsAreTriedWhereAsked() {
    const Asked asked = ask(gptOf(4, 1024, 128, 32), clusterOf(1, 4, "cuda"));
    AdviceOptions options;
    options.mostPlans = 32;
    for (const AdvisedStrategy& one : adviceOf(asked, options).best)
      QCOMPARE(one.choice.precision, std::string("fp32"));
    options.precisions = {"bf16"};
    QCOMPARE(adviceOf(asked, options).best[0].choice.precision, std::string("bf16"));
    options.precisions = {"fp12"};
    QVERIFY(!asked.advice(options).ok());
  }

  void theSearchCanBeCancelled() {
    const Asked asked = ask(gptOf(6, 1024, 128, 64), clusterOf(4, 8, "cuda"));
    std::stop_source stop;
    AdviceOptions options;
    options.all = true;
    options.stop = stop.get_token();
    options.onProgress = [&](std::size_t planned) {
      if (planned > 5) stop.request_stop();
    };
    const Advice part = adviceOf(asked, options);  // what was found
    QVERIFY(!part.best.empty() && !part.complete && part.planned < part.judged);
    std::stop_source stopped;
    stopped.request_stop();
    options.stop = stopped.get_token();
    const auto none = asked.advice(options);
    QVERIFY(!none.ok());
    QCOMPARE(none.error().code, Code::kCancelled);
  }

  // Shapes as people come with: one rank, one sample, fewer samples than ranks, a prime batch, a
  // huge one, many ranks.
  void oddShapes() {
    for (const auto& [batch, nodes, ranks] :
         {std::tuple(1, 1, 1), std::tuple(1, 1, 4), std::tuple(3, 2, 4), std::tuple(10007, 2, 2),
          std::tuple(16777216, 1, 2), std::tuple(4096, 64, 8)}) {
      const Asked asked = ask(gptOf(2, 64, 8, batch), clusterOf(nodes, ranks, "cuda"),
                              fmt::format("batch {} on {} x {}", batch, nodes, ranks));
      AdviceOptions options;
      options.mostPlans = 8;
      const auto advice = asked.advice(options);
      if (advice.ok())
        QVERIFY(!advice->best.empty());
      else
        QVERIFY2(advice.error().code == Code::kInvalidArgument ||
                     advice.error().code == Code::kResourceExhausted,
                 (asked.text + ": " + advice.error().text()).c_str());
    }
  }

  // All examples: some strategy can run, whatever the model.
  void examples() {
    for (const char* const example :
         {"fashion-mlp", "fashion-cnn", "fashion-resnet", "gpt-tiny", "ctr"}) {
      const auto text =
          readFile(test::sourcePath("resources/examples/") + example + std::string(".yaml"));
      QVERIFY(text.ok());
      for (const int nodes : {1, 3}) {
        Asked asked = ask(*text, clusterOf(1, 1, "cpu"), example);
        asked.request.cluster = localCluster(nodes, "/nowhere", "").spec;
        asked.hosts = hostsHere(*asked.request.cluster);
        AdviceOptions options;
        options.mostPlans = 12;
        const Advice advice = adviceOf(asked, options);
        QVERIFY(advice.current);
        QVERIFY(advice.best.size() >= 1 && advice.best.size() <= options.top);
      }
    }
  }
};

QTEST_GUILESS_MAIN(AdviceTest)
#include "advice_test.moc"
