// The best strategy found, held against planning all of them.
#include "app/advice/advice.h"

#include <QTest>
#include <cmath>
#include <random>

#include "app/advice/estimate.h"
#include "app/specs/spec_text.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

struct Asked {
  std::string text;  // what was drawn
  LaunchRequest request;
  std::vector<HostFacts> hosts;
};

LaunchRequest requestOf(const std::string& spec, const std::string& cluster) {
  const auto run = completeRunSpec(spec, "/nowhere/run.yaml", {});
  if (!run.ok()) qFatal("%s\n%s", run.error().text().c_str(), spec.c_str());
  const auto nodes = completeClusterSpec(cluster, "/nowhere/cluster.yaml");
  if (!nodes.ok()) qFatal("%s\n%s", nodes.error().text().c_str(), cluster.c_str());
  LaunchRequest out;
  out.spec = run->spec;
  out.cluster = nodes->spec;
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

std::string gptOf(int blocks, int width, int context, int batch, std::string_view rest = "") {
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

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  Asked operator()() {
    const bool gpus = of({0, 1}) == 1;
    const int nodes = of({1, 2}), ranks = of({1, 2, 2, 3});
    const int blocks = of({2, 3, 5}), width = of({64, 256, 1024}), context = of({32, 256});
    const int batch = nodes * ranks * of({2, 6});
    Asked out;
    out.text = fmt::format("gpt {} x {} of {}, batch {}, {} x {} {}", blocks, width, context, batch,
                           nodes, ranks, gpus ? "GPUs" : "cores");
    out.request = requestOf(gptOf(blocks, width, context, batch),
                            clusterOf(nodes, ranks, gpus ? "cuda" : "cpu"));
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
  auto advice = advise(asked.request, asked.hosts, options);
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
      options.threads = 2;
      options.time = std::chrono::hours(1);
      options.all = true;
      const Advice all = adviceOf(asked, options);
      options.all = false;
      options.mostPlans = std::max<std::size_t>(16, all.judged / 10);
      const Advice few = adviceOf(asked, options);
      QVERIFY2(few.planned <= options.mostPlans + 24, asked.text.c_str());
      const double distance = few.best[0].stepSeconds / all.best[0].stepSeconds - 1;
      qInfo("%s: %zu of %zu planned, %.2f %% from the best", asked.text.c_str(), few.planned,
            all.judged, 100 * distance);
      QVERIFY2(distance <= 0.02, asked.text.c_str());
    }
  }

  // What is printed is what comes out with the settings that are printed.
  void theSettingsGiveTheStrategy() {
    Draw draw(6);
    for (int round = 0; round < 6; ++round) {
      const Asked asked = draw();
      AdviceOptions options;
      options.mostPlans = 60;
      const Advice advice = adviceOf(asked, options);
      QVERIFY(!advice.best.empty());
      for (const AdvisedStrategy& one : advice.best) {
        const auto request = requestWith(asked.request, one.settings);
        QVERIFY2(request.ok(), asked.text.c_str());
        const auto preview = makePreview(*request, asked.hosts);
        QVERIFY2(preview.ok(), asked.text.c_str());
        QVERIFY(!preview->misfit);
        QVERIFY2(std::abs(preview->stepSeconds / one.stepSeconds - 1) < 0.01,
                 fmt::format("{}: {}: {} and {}", asked.text, one.choice.kind, one.stepSeconds,
                             preview->stepSeconds)
                     .c_str());
        QCOMPARE(peakMemory(*preview), one.memoryBytes);
        QCOMPARE(choiceOf(*request->spec, preview->plan.mesh), one.choice);
        QVERIFY(!one.why.empty());
      }
      for (std::size_t i = 2; i < advice.best.size(); ++i)
        QVERIFY(advice.best[i - 1].stepSeconds <= advice.best[i].stepSeconds);
      // The spec's own is never better than the best.
      QVERIFY(advice.current);
      QVERIFY(advice.current->settings.empty());
      QVERIFY(advice.best[0].stepSeconds <= 1.005 * advice.current->stepSeconds);
    }
  }

  void whatIsPinnedStays() {
    Asked asked;
    asked.request =
        requestOf(gptOf(4, 256, 64, 64, "strategy: {micro_batches: 4}\n"), clusterOf(2, 4, "cuda"));
    AdviceOptions options;
    options.mostPlans = 100;
    options.pinned = {{"strategy.tensor", "2"}, {"strategy.micro_batches", ""}};
    const Advice advice = adviceOf(asked, options);
    for (const AdvisedStrategy& one : advice.best) {
      QCOMPARE(one.choice.tensor, 2);
      QCOMPARE(one.choice.microBatches, 4);
    }
    options.pinned = {{"strategy.kind", "zero-3"}};
    for (const AdvisedStrategy& one : adviceOf(asked, options).best)
      QCOMPARE(one.choice.kind, std::string("zero-3"));
    options.pinned = {{"strategy.kind", "pipeline"}, {"strategy.stages", "4"}};
    for (const AdvisedStrategy& one : adviceOf(asked, options).best) QCOMPARE(one.choice.stages, 4);
    options.pinned = {{"training.batch", "8"}};
    const auto refused = advise(asked.request, {}, options);
    QVERIFY(!refused.ok());
    QCOMPARE(refused.error().code, Code::kInvalidArgument);
    QVERIFY(refused.error().text().find("strategy.micro_batches") != std::string::npos);
    options.pinned = {{"strategy.tensor", "3"}};  // of eight ranks
    QVERIFY(!advise(asked.request, {}, options).ok());
  }

  // 13 B parameters: not on GPUs of 16 GB without being divided, and not at all on two.
  void whatDoesNotFitIsNotAdvised() {
    Asked asked;
    asked.text = "a large model";
    asked.request = requestOf(gptOf(8, 4096, 256, 32), clusterOf(2, 4, "cuda"));
    for (int n = 0; n < 2; ++n)
      asked.hosts.push_back({fmt::format("n{}", n), fmt::format("h{}", n), 8, 0,
                             std::vector<std::int64_t>(4, std::int64_t{8} << 30)});
    AdviceOptions options;
    options.mostPlans = 200;
    const Advice advice = adviceOf(asked, options);
    QVERIFY(advice.currentRefusal && !advice.current);
    QCOMPARE(advice.currentRefusal->code, Code::kResourceExhausted);
    for (const AdvisedStrategy& one : advice.best)
      QVERIFY(one.memoryBytes <= std::int64_t{8} << 30);
    for (HostFacts& host : asked.hosts) host.gpuMemory.assign(4, std::int64_t{64} << 20);
    const auto none = advise(asked.request, asked.hosts, options);
    QVERIFY(!none.ok());
    QCOMPARE(none.error().code, Code::kResourceExhausted);
  }

  // Nodes that are there for servers compute in no other strategy.
  void serversStayServers() {
    for (const char* const kind : {"parameter-server", "zero-1"}) {
      Asked asked;
      asked.text = kind;
      asked.request =
          requestOf(gptOf(2, 64, 32, 24, fmt::format("strategy: {{kind: {}}}\n", kind)),
                    "name: drawn\nnodes:\n  - {name: a, address: 10.0.0.1, devices: [{count: 3}]}\n"
                    "  - {name: b, address: 10.0.0.2, roles: [ps], devices: [{count: 2}]}\n");
      AdviceOptions options;
      options.all = true;
      options.top = 1000;
      std::size_t served = 0;
      for (const AdvisedStrategy& one : adviceOf(asked, options).best) {
        const auto request = requestWith(asked.request, one.settings);
        QVERIFY(request.ok());
        const auto preview = makePreview(*request, asked.hosts);
        QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
        QCOMPARE(preview->plan.mesh.workers(), 3);
        QCOMPARE(preview->plan.mesh.servers(), one.choice.servers);
        if (one.choice.hasServers()) ++served;
      }
      QVERIFY2(served > 0, kind);
    }
  }

  void otherPrecisionsAreTriedWhereAsked() {
    Asked asked;
    asked.request = requestOf(gptOf(4, 1024, 128, 32), clusterOf(1, 4, "cuda"));
    AdviceOptions options;
    options.mostPlans = 300;
    for (const AdvisedStrategy& one : adviceOf(asked, options).best)
      QCOMPARE(one.choice.precision, std::string("fp32"));
    options.precisions = {"bf16"};
    const Advice advice = adviceOf(asked, options);
    QCOMPARE(advice.best[0].choice.precision, std::string("bf16"));
    options.precisions = {"fp12"};
    for (const AdvisedStrategy& one : adviceOf(asked, options).best)
      QCOMPARE(one.choice.precision, std::string("fp32"));
  }

  void theSearchCanBeCancelled() {
    Asked asked;
    asked.request = requestOf(gptOf(6, 1024, 128, 64), clusterOf(4, 8, "cuda"));
    std::stop_source stop;
    AdviceOptions options;
    options.all = true;
    options.stop = stop.get_token();
    options.onPlanned = [&](std::size_t done, std::size_t) {
      if (done > 5) stop.request_stop();
    };
    const auto advice = advise(asked.request, {}, options);
    QVERIFY(!advice.ok());
    QCOMPARE(advice.error().code, Code::kCancelled);
  }

  // All examples, on one to three ranks of this machine: some strategy can run, whatever the model.
  void examples() {
    for (const char* const example :
         {"fashion-mlp", "fashion-cnn", "fashion-resnet", "gpt-tiny", "ctr"}) {
      for (const int nodes : {1, 3}) {
        const auto spec = loadRunSpec(
            test::sourcePath("resources/examples/") + example + std::string(".yaml"), {});
        QVERIFY(spec.ok());
        Asked asked;
        asked.text = example;
        asked.request.spec = spec->spec;
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
