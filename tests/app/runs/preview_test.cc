#include "app/runs/preview.h"

#include <QTest>
#include <algorithm>
#include <cmath>
#include <limits>

#include "app/runs/plan_figures.h"
#include "app/runs/preview_memory.h"
#include "app/specs/spec_text.h"
#include "engine/cluster/strategies.h"
#include "engine/plan/plan.h"
#include "engine/plan/traffic.h"
#include "engine/plan/wait_limit.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

LaunchRequest requestFor(const char* example, int nodes, const std::string& comm,
                         const std::vector<std::string>& sets = {}) {
  const auto spec = loadRunSpec(lockstep::test::sourcePath("resources/examples/") + example, sets);
  if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
  LaunchRequest request;
  request.spec = spec->spec;
  request.cluster = localCluster(nodes, "/nowhere", comm).spec;
  return request;
}

// The first remark with these words; "": none.
std::string remarkWith(const Preview& preview, const std::string& words) {
  for (const auto& remark : preview.remarks)
    if (const std::string text = remark.text(); text.find(words) != std::string::npos) return text;
  return {};
}

}  // namespace

class PreviewTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void previewsSayWhoDoesWhat() {
    for (const char* example : {"fashion-mlp.yaml", "fashion-cnn.yaml"}) {
      auto preview = makePreview(requestFor(example, 3, ""),
                                 {{"local1", "h", 2}, {"local2", "h", 2}, {"local3", "h", 2}});
      QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
      QCOMPARE(preview->ranks.size(), std::size_t{3});
      QCOMPARE(preview->comm, std::string("gloo"));
      std::int64_t samples = 0;
      for (const auto& rank : preview->ranks) {
        samples += rank.samples;
        QVERIFY(rank.totalBytes() > rank.parameterBytes && rank.parameterBytes > 100'000);
      }
      QCOMPARE(samples, preview->plan.globalBatch);
      QVERIFY(preview->stepSeconds > 0);
      QVERIFY(!preview->remarks.empty());  // three threads share two cores
      auto plan = plan::parse(preview->planText);
      QVERIFY(plan.ok());
      QCOMPARE(plan::text(*plan), preview->planText);
      auto back = parsePrediction(predictionJson(*preview));
      QVERIFY(back.ok());
      QCOMPARE(back->stepSeconds, preview->stepSeconds);
      QCOMPARE(back->ranks.size(), std::size_t{3});
      QCOMPARE(back->ranks[2].waiting, preview->ranks[2].waiting);
      QVERIFY(previewText(*preview).find("local2") != std::string::npos);
    }
    QVERIFY(!parsePrediction("[1").ok());
    QVERIFY(parsePrediction("{\"ranks\":[1,{\"rank\":\"x\"}],\"remarks\":3}").ok());
  }

  void sharedMemoryIsForOneNode() {
    auto preview = makePreview(requestFor("fashion-mlp.yaml", 3, "shm"), {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    QCOMPARE(preview->comm, std::string("shm"));
    QCOMPARE(preview->ranks.size(), std::size_t{3});
  }

  // A damaged prediction may be nested as deep as it is long.
  void aDeeplyNestedPredictionIsNoTrouble() {
    const std::string deep =
        R"({"step_seconds": 2, "remark_messages": [{"text": "fine", "id": "fine"}, )" +
        std::string(200'000, '[') + std::string(200'000, ']') + "]}";
    const auto parsed = parsePrediction(deep);
    QVERIFY(parsed.ok());
    QCOMPARE(parsed->stepSeconds, 2.0);
    QCOMPARE(parsed->remarks.front().text(), std::string("fine"));
  }

  void examples_data() {
    QTest::addColumn<QString>("example");
    QTest::addColumn<int>("ranks");
    QTest::addColumn<QString>("comm");
    for (const char* example : {"fashion-mlp.yaml", "fashion-cnn.yaml", "fashion-resnet.yaml",
                                "gpt-tiny.yaml", "gpt-small.yaml", "ctr.yaml"}) {
      for (int ranks = 1; ranks <= 3; ++ranks) {
        for (const char* comm : {"", "shm"}) {
          QTest::addRow("%s on %d %s", example, ranks, comm)
              << QString(example) << ranks << QString(comm);
        }
      }
    }
  }
  void examples() {
    QFETCH(QString, example);
    QFETCH(int, ranks);
    QFETCH(QString, comm);
    const LaunchRequest request =
        requestFor(example.toLatin1().constData(), ranks, comm.toStdString());
    const auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    QCOMPARE(preview->ranks.size(), static_cast<std::size_t>(ranks));
    QCOMPARE(preview->comm, std::string(ranks > 1 && comm.isEmpty() ? "gloo" : "shm"));
    std::int64_t samples = 0;
    for (const auto& rank : preview->ranks) {
      samples += rank.samples;
      QVERIFY(rank.totalBytes() > 0);
      QVERIFY(!rank.node.empty());
    }
    QCOMPARE(samples, request.spec->training().batch());
    QVERIFY(preview->stepSeconds > 0);
    QVERIFY(
        std::abs(preview->samplesPerSecond * preview->stepSeconds / static_cast<double>(samples) -
                 1) < 1e-6);
    QVERIFY(!preview->measured);

    // The text is the plan.
    const auto parsed = plan::parse(preview->planText);
    QVERIFY2(parsed.ok(), parsed.ok() ? "" : parsed.error().text().c_str());
    QCOMPARE(plan::hash(*parsed), preview->planHash);
    QVERIFY(plan::verify(*parsed).ok());

    const auto kept = parsePrediction(predictionJson(*preview));
    QVERIFY2(kept.ok(), kept.ok() ? "" : kept.error().text().c_str());
    QCOMPARE(kept->ranks.size(), preview->ranks.size());
    QCOMPARE(kept->comm, preview->comm);
    QVERIFY(std::abs(kept->stepSeconds / preview->stepSeconds - 1) < 1e-6);
    QCOMPARE(kept->ranks.back().samples, preview->ranks.back().samples);
    QVERIFY(!previewText(*preview).empty());
  }

  // The same request gives the same plan: what was previewed is what runs.
  void previewsAreStable() {
    const LaunchRequest request = requestFor("fashion-mlp.yaml", 3, "");
    QCOMPARE(makePreview(request, {})->planHash, makePreview(request, {})->planHash);
  }

  // A pipeline says what makes its ranks wait, and what to do.
  void waitingStagesAreRemarked() {
    const auto remarks = [&](const char* example, int ranks, int parts, int batch) {
      auto spec =
          loadRunSpec(lockstep::test::sourcePath("resources/examples/") + example,
                      {"strategy.kind=pipeline", fmt::format("strategy.micro_batches={}", parts),
                       fmt::format("training.batch={}", batch)});
      if (!spec.ok()) qFatal("%s", spec.error().text().c_str());
      LaunchRequest request;
      request.spec = spec->spec;
      request.cluster = localCluster(ranks, "/tmp/x", "").spec;
      const auto preview = makePreview(request, {});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return fmt::format("{}", fmt::join(preview->remarks, "\n"));
    };
    const std::string one = remarks("fashion-cnn.yaml", 2, 1, 64);
    QVERIFY2(one.find("set strategy.micro_batches to 8") != std::string::npos, one.c_str());
    const std::string many = remarks("fashion-cnn.yaml", 3, 1, 96);
    QVERIFY2(many.find("of the pipeline has no parameters") != std::string::npos, many.c_str());
    // What is advised is accepted, of any batch and number of stages.
    for (const auto& [ranks, batch] : {std::pair{2, 64}, {3, 96}, {3, 60}, {4, 36}, {2, 7}}) {
      const std::string first = remarks("fashion-cnn.yaml", ranks, 1, batch);
      const std::string words = "set strategy.micro_batches to ";
      if (const auto at = first.find(words); at != std::string::npos)
        (void)remarks("fashion-cnn.yaml", ranks, std::stoi(first.substr(at + words.size())), batch);
    }
    const std::string fine = remarks("gpt-tiny.yaml", 2, 12, 12);
    QVERIFY2(fine.find("strategy.micro_batches") == std::string::npos, fine.c_str());
    QVERIFY2(fine.find("has no parameters") == std::string::npos, fine.c_str());
  }

  // Of a text, whose tokens are bytes; tokens of a vocabulary may be any.
  void tokensThatNeverOccurAreRemarked() {
    const auto said = [](std::vector<std::string> sets) {
      sets.insert(sets.end(), {"model.input.vocabulary=300", "model.layers[6].dense.units=300"});
      const auto preview = makePreview(requestFor("gpt-tiny.yaml", 1, "", sets), {});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return remarkWith(*preview, "never occur");
    };
    QCOMPARE(said({}), std::string("every byte of the text is a token, so that 44 of the 300 "
                                   "tokens of model.input.vocabulary never occur"));
    QCOMPARE(said({"data.format=tokens", "data.train={tokens: /d/train.bin}",
                   "data.evaluate={tokens: /d/evaluate.bin}"}),
             std::string());
  }

  // The learning rate that will be used is said where it is scaled.
  void aScaledLearningRateIsRemarked() {
    const std::string words = "the learning rate is ";
    const auto scaled =
        makePreview(requestFor("fashion-mlp.yaml", 2, "",
                               {"training.batch=64", "training.optimizer.for_batch=32"}),
                    {});
    QVERIFY(scaled.ok());
    QCOMPARE(remarkWith(*scaled, words),
             std::string("the learning rate is 0.002: 0.001 for a batch of 32, in proportion to "
                         "this one of 64"));
    for (const char* base : {"training.optimizer.for_batch=0", "training.optimizer.for_batch=64"}) {
      const auto plain =
          makePreview(requestFor("fashion-mlp.yaml", 2, "", {"training.batch=64", base}), {});
      QVERIFY(plain.ok());
      QCOMPARE(remarkWith(*plain, words), std::string());
    }
  }

  // Warns where a failure costs all steps of the run, or more than 15 minutes of them.
  void costlyFailuresAreRemarked() {
    planner::CostModel slow;
    slow.flopsPerSecond = 1e5;  // a step takes many seconds
    const auto made = [&](const std::vector<std::string>& sets) {
      auto preview = makePreview(requestFor("fashion-mlp.yaml", 2, "", sets), {}, &slow);
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return std::move(*preview);
    };
    const std::string none = "no checkpoints are written",
                      much = "within an epoch, a failure costs up to ";
    const Preview usual = made({});
    QVERIFY(usual.stepSeconds > 1);
    QCOMPARE(remarkWith(usual, none), std::string());
    QCOMPARE(remarkWith(usual, much), std::string());  // as usual, ten minutes at most
    const std::string never = "training.checkpoint.disabled=true";
    QVERIFY(
        remarkWith(made({never}), none).find("recovery.policy restart trains all steps again") !=
        std::string::npos);
    QCOMPARE(remarkWith(made({never, "recovery.policy=none"}), none), std::string());
    QCOMPARE(remarkWith(made({never, "training.checkpoint.every_minutes=60"}), much),
             std::string());

    const std::string hour = "training.checkpoint.every_minutes=60";
    const double steps = std::ceil(3600 / usual.stepSeconds);
    QVERIFY(remarkWith(made({hour}), much)
                .starts_with(
                    fmt::format("within an epoch, a failure costs up to {:.0f} steps, {:.0f} min",
                                steps, steps * usual.stepSeconds / 60)));
    // The sooner one counts, and a run that is over sooner.
    QCOMPARE(remarkWith(made({hour, "training.checkpoint.every_steps=2"}), much), std::string());
    QCOMPARE(remarkWith(made({hour, "training.max_steps=2"}), much), std::string());
    QVERIFY(!remarkWith(made({hour, "training.checkpoint.every_steps=1000000"}), much).empty());
  }

  // A host that nothing replaces ends the run, unless a person has chosen how it goes on or ends.
  void theLossOfAHostIsRemarked() {
    const auto said = [](std::vector<std::string> sets, bool oneHost = false) {
      std::vector<HostFacts> hosts{
          {"local1", "a"}, {"local2", oneHost ? "a" : "b"}, {"local3", oneHost ? "a" : "b"}};
      const auto preview = makePreview(requestFor("fashion-mlp.yaml", 3, "", sets), hosts);
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return remarkWith(*preview, "is lost and does not come back");
    };
    QCOMPARE(said({}), std::string("the run ends if one of its 2 hosts is lost and does not come "
                                   "back: set recovery.policy to shrink, so that it continues on "
                                   "the others, or recovery.spares to 1, so that another node "
                                   "replaces it"));
    QVERIFY(!said({"recovery.on=[exit, node_lost]"}).empty());
    QCOMPARE(said({}, true), std::string());
    for (const char* chosen : {"recovery.policy=shrink", "recovery.spares=1",
                               "recovery.policy=none", "recovery.on=[exit]"})
      QCOMPARE(said({chosen}), std::string());
  }

  // Each host has all of a replicated state; of a sharded one each has a part.
  void checkpointsOnOneHostAreRemarked() {
    const auto said = [](const char* strategy, std::vector<std::string> sets,
                         bool oneHost = false) {
      sets.push_back(fmt::format("strategy.kind={}", strategy));
      std::vector<HostFacts> hosts{{"local1", "a"}, {"local2", oneHost ? "a" : "b"}};
      const auto preview = makePreview(requestFor("fashion-mlp.yaml", 2, "", sets), hosts);
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return !remarkWith(*preview, "parts of a checkpoint are on one host alone").empty();
    };
    const std::string none = "training.checkpoint.copies=0";
    QVERIFY(said("zero-3", {none}));
    QVERIFY(!said("zero-3", {none}, true));
    QVERIFY(!said("zero-3", {}));  // one copy
    QVERIFY(!said("zero-3", {"training.checkpoint.copies=1"}));
    QVERIFY(!said("zero-3", {none, "training.checkpoint.path=/shared"}));
    QVERIFY(said("zero-3", {"training.checkpoint.path=/dev/shm/here"}));
    QVERIFY(!said("zero-3", {none, "training.checkpoint.disabled=true"}));
    QVERIFY(!said("multi-worker-mirrored", {none}));
    QVERIFY(said("parameter-server", {none, "strategy.servers=1"}));
    QVERIFY(!said("parameter-server", {"strategy.servers=1"}));
  }

  // Of two ranks on two nodes, all that one of them sends and receives goes over one link.
  void trafficIsCountedAlike() {
    for (const char* kind : {"multi-worker-mirrored", "zero-1", "zero-2", "zero-3", "pipeline"}) {
      const auto preview = makePreview(
          requestFor("fashion-mlp.yaml", 2, "", {std::string("strategy.kind=") + kind}), {});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      QVERIFY2(wireBytes(preview->plan) > 0, kind);
      QCOMPARE(wireBytes(preview->plan), linkBytes(*preview));
    }
  }

  // What the exchanges of a plan send is all that its ranks send.
  void figuresOfExchangesAreWhatIsSent() {
    for (const auto& [kind, nodes] : {std::pair("multi-worker-mirrored", 4),
                                      {"zero-3", 4},
                                      {"parameter-server", 4},
                                      {"pipeline", 2}}) {
      const auto preview = makePreview(
          requestFor("fashion-mlp.yaml", nodes, "", {std::string("strategy.kind=") + kind}), {});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      double sent = 0, traffic = 0;
      for (const PlanFigure& one : planFigures(*preview))
        if (one.name.starts_with("sent/")) sent += one.value;
      for (const plan::Traffic& link : plan::stepTraffic(preview->plan))
        traffic += static_cast<double>(link.bytes);
      QVERIFY2(traffic > 0, kind);
      QCOMPARE(sent, traffic);
    }
  }

  // The ranks that write to one folder divide what they hold in memory to write it; each node has a
  // folder, also of one host.
  void nodesMayShareTheFolderOfCheckpoints() {
    const auto held = [](const std::vector<std::string>& sets) {
      const auto preview = makePreview(requestFor("fashion-mlp.yaml", 2, "", sets),
                                       {{"local1", "h"}, {"local2", "h"}});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return preview->ranks[0].workspaceBytes + preview->ranks[1].workspaceBytes;
    };
    const std::int64_t none = held({"training.checkpoint.disabled=true"}), own = held({});
    QVERIFY(own > none);
    QCOMPARE(held({"training.checkpoint.path=/shared"}) - none, (own - none) / 2);
    QCOMPARE(held({"training.checkpoint.path=/dev/shm/here", "training.checkpoint.copies=1"}), own);
  }

  // The time limit of collectives: that ranks come near to it, and that it is long.
  void theLimitOfCollectivesIsRemarked() {
    planner::CostModel slow;
    slow.flopsPerSecond = 1e5;
    const std::string words = " fails after ";
    const auto made = [&](int ranks, int cores, const planner::CostModel* cost) {
      std::vector<HostFacts> hosts;
      for (int i = 1; i <= ranks; ++i) hosts.push_back({fmt::format("local{}", i), "h", cores});
      auto preview = makePreview(
          requestFor("fashion-mlp.yaml", ranks, "", {fmt::format("training.batch={}", 32 * ranks)}),
          hosts, cost);
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return std::move(*preview);
    };
    QCOMPARE(remarkWith(made(2, 2, nullptr), words), std::string());
    const Preview late = made(2, 2, &slow);
    const double limit = static_cast<double>(plan::collectiveLimit(late.plan)) * 1e-9;
    QVERIFY(limit > late.stepSeconds * 10 && limit > 300);
    QVERIFY(remarkWith(late, words)
                .starts_with(fmt::format("a collective fails after {:.0f} min", limit / 60)));
    const Preview crowded = made(32, 1, &slow);  // each computes 32 times as long as alone
    QVERIFY2(remarkWith(crowded, words).ends_with("use fewer ranks per host"),
             fmt::format("{}", fmt::join(crowded.remarks, "\n")).c_str());
    QCOMPARE(remarkWith(made(1, 1, &slow), words), std::string());  // waits for none
  }

  // Nodes of one host share its memory.
  void tooLittleMemoryIsSaidFirst() {
    const LaunchRequest request = requestFor("fashion-mlp.yaml", 3, "");
    const auto withMemory = [&](std::int64_t available) {
      return makePreview(request, {{"local1", "h", 8, available},
                                   {"local2", "h", 8, available},
                                   {"local3", "h", 8, available}});
    };
    const auto fits = [&](std::int64_t available) {
      const auto preview = withMemory(available);
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      if (preview->misfit && !previewText(*preview).starts_with(preview->misfit->text()))
        qFatal("it is not said first");
      return !preview->misfit;
    };
    const auto preview = withMemory(0);
    QVERIFY(preview.ok());
    std::int64_t needed = 0;
    for (const RankPreview& rank : preview->ranks) needed += rank.totalBytes();
    QVERIFY(fits(needed));
    QVERIFY(!fits(needed - 1));
    QVERIFY(fits(0));  // not known
  }

  // What is advised has been tried: with it the run fits.
  void remediesOfTooLittleMemoryWork() {
    for (const char* example :
         {"fashion-mlp.yaml", "fashion-resnet.yaml", "gpt-tiny.yaml", "ctr.yaml"}) {
      const std::vector<std::string> given{"training.evaluate_batch=16"};
      const auto needs = makePreview(requestFor(example, 2, "shm", given), {});
      QVERIFY(needs.ok());
      std::int64_t needed = 0;
      for (const RankPreview& rank : needs->ranks) needed += rank.totalBytes();
      const auto tight = makePreview(requestFor(example, 2, "shm", given),
                                     {{needs->ranks[0].node, "h", 8, needed * 9 / 10}});
      QVERIFY(tight.ok());
      QVERIFY2(
          tight->misfit && !tight->misfit->remedies.empty() && tight->misfit->remedies.size() <= 3,
          example);
      double before = std::numeric_limits<double>::infinity();
      for (const Remedy& remedy : tight->misfit->remedies) {
        std::vector<std::string> sets = given;
        for (const auto& [field, value] : remedy) sets.push_back(field + "=" + value);
        const auto mended = makePreview(requestFor(example, 2, "shm", sets),
                                        {{needs->ranks[0].node, "h", 8, needed * 9 / 10}});
        QVERIFY(mended.ok());
        QVERIFY2(!mended->misfit, tight->misfit->text().c_str());
        QVERIFY2(mended->samplesPerSecond <= 1.001 * before, tight->misfit->text().c_str());
        before = mended->samplesPerSecond;  // the fastest first
      }
    }
  }

  // A batch that the ranks do not divide evenly: a part of it is advised, not a sample each.
  void aPartOfAnUnevenBatchIsAdvised() {
    const auto request = requestFor("fashion-mlp.yaml", 3, "shm", {"training.batch=8000000"});
    const auto needs = makePreview(request, {});
    QVERIFY(needs.ok());
    std::int64_t needed = 0;
    for (const RankPreview& rank : needs->ranks) needed += rank.totalBytes();
    const auto tight = makePreview(request, {{needs->ranks[0].node, "h", 8, needed * 2 / 3}});
    QVERIFY(tight.ok() && tight->misfit);
    QVERIFY2(tight->misfit->next.text().starts_with("set training.batch to 3999999"),
             tight->misfit->text().c_str());
  }

  // By the data sheet of a GPU until nodes are connected, and by precision; what cannot fit says
  // so.
  void gpusArePricedAsGpus() {
    const auto on = [&](std::vector<std::string> sets, int gpus) {
      LaunchRequest request;
      sets.insert(sets.begin(), {"training.batch=64", "training.evaluate_batch=64"});
      request.spec =
          loadRunSpec(lockstep::test::sourcePath("tests/gpu/gpt2-124m.yaml"), sets)->spec;
      auto cluster = std::make_shared<spec::v1::ClusterSpec>();
      auto& node = *cluster->add_nodes();
      node.set_name("n1");
      node.add_devices()->set_kind("cuda");
      node.mutable_devices(0)->set_count(gpus);
      request.cluster = cluster;
      auto made = makePreview(request, {});
      if (!made.ok()) qFatal("%s", made.error().text().c_str());
      return std::move(*made);
    };
    const Preview narrow = on({}, 8), wide = on({"training.precision=fp32"}, 8),
                  tf32 = on({"training.precision=tf32"}, 8);
    // 8·1024 tokens a GPU of 6·124 million operations and attention's: between 20 and 200 ms in
    // bf16.
    QVERIFY2(narrow.stepSeconds > 0.02 && narrow.stepSeconds < 0.2,
             fmt::format("{}", narrow.stepSeconds).c_str());
    QVERIFY2(wide.stepSeconds > 3 * narrow.stepSeconds && wide.stepSeconds < 2,
             fmt::format("{}", wide.stepSeconds).c_str());
    QVERIFY(tf32.stepSeconds < wide.stepSeconds);
    const auto says = [](const Preview& preview, const char* words) {
      return std::any_of(preview.remarks.begin(), preview.remarks.end(), [&](const auto& remark) {
        return remark.text().find(words) != std::string::npos;
      });
    };
    QVERIFY(says(narrow, "priced as A100-SXM-80GB"));
    QVERIFY(says(narrow, "connect the nodes to measure"));
    QVERIFY(says(narrow, "50048 of the 50304 tokens of model.input.vocabulary never occur"));
    QVERIFY(!narrow.misfit);
    const auto blocks = [](int count, int heads) {
      std::string out = fmt::format("model.layers=[{{embedding: {{units: {}}}}}", 128 * heads);
      for (int i = 0; i < count; ++i) out += fmt::format(", {{transformer: {{heads: {}}}}}", heads);
      return out + ", {layer_norm: {}}, {dense: {units: 50304, tied: embedding1}}]";
    };
    const Preview huge = on({blocks(96, 96)}, 8);  // 175 billion parameters
    QVERIFY(huge.misfit.has_value());
    const std::string text = huge.misfit->text();
    QVERIFY2(
        text.find("does not fit in memory: GPU 0 of node n1 has 84.9 GB, and its rank needs ") !=
            std::string::npos,
        text.c_str());
    QVERIFY2(
        text.find("it is priced as A100-SXM-80GB until its node is connected") != std::string::npos,
        text.c_str());
    QVERIFY2(text.find("use more ranks, a smaller batch or a smaller model") != std::string::npos,
             text.c_str());
    const Preview large = on({blocks(32, 32), "training.precision=fp32"}, 8);  // 6.6 billion
    QVERIFY(large.misfit.has_value());
    QVERIFY2(!large.misfit->remedies.empty(), large.misfit->text().c_str());
  }

  // The model of GPUs, or figures in its place, and the kind of links set the prices; what a rank's
  // context takes counts.
  void devicesByTheirModel() {
    const auto on = [](const std::string& device, const std::string& links = "",
                       std::vector<std::string> sets = {}) {
      sets.insert(sets.begin(), {"training.batch=64", "training.evaluate_batch=64",
                                 "strategy.kind=multi-worker-mirrored"});
      LaunchRequest request;
      request.spec =
          loadRunSpec(lockstep::test::sourcePath("tests/gpu/gpt2-124m.yaml"), sets)->spec;
      const auto cluster = completeClusterSpec(
          "comm: nccl\nnodes:\n  - name: n[1-2]\n    ssh: {host: 'n[1-2]'}\n    devices: [{kind: "
          "cuda, count: 4" +
              device + "}]\n" + links,
          "c.yaml");
      if (!cluster.ok()) qFatal("%s", cluster.error().text().c_str());
      request.cluster = cluster->spec;
      auto made = makePreview(request, {});
      if (!made.ok()) qFatal("%s", made.error().text().c_str());
      return std::move(*made);
    };
    const auto computes = [](const Preview& preview) {
      const RankPreview& rank = preview.ranks[0];
      return rank.forward + rank.backward + rank.optimizer;
    };
    double before = std::numeric_limits<double>::infinity();
    for (const char* model : {"T4", "A10", "A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM-180GB"}) {
      const double now = computes(on(fmt::format(", model: {}", model)));
      QVERIFY2(now < before, model);
      before = now;
    }
    // A GPU without a model counts as the assumed one; figures in the spec replace its own.
    const Preview plain = on("");
    QCOMPARE(computes(on(", model: A100-SXM-80GB")), computes(plain));
    QCOMPARE(computes(on(", tflops: 312, memory_gb_per_s: 2039")), computes(plain));
    QVERIFY(computes(on(", model: H100-SXM-80GB, tflops: 156")) > computes(plain));
    // Networks are slower than what is inside nodes.
    double transfer = std::numeric_limits<double>::infinity();
    for (const char* kind : {"10gbe", "100gbe", "ndr"}) {
      const Preview made =
          on(", model: A100-SXM-80GB",
             fmt::format("links:\n  - {{from: 'n*', to: 'n*', kind: {}}}\n", kind));
      const double now = made.ranks[0].transfer + made.ranks[0].hidden;
      QVERIFY2(now < transfer, kind);
      transfer = now;
    }
    // A GPU's memory is what tensors, context, workspaces and NCCL share.
    std::int64_t needed = 0;
    for (const RankPreview& rank : plain.ranks) needed = std::max(needed, rank.totalBytes());
    const double gib = static_cast<double>(needed) / (1 << 30);
    const auto fits = [&](double memory, double reserved) {
      const Preview made =
          on(fmt::format(", memory_gib: {:.6f}, reserved_gib: {:.6f}", memory, reserved));
      if (made.misfit && !previewText(made).starts_with(made.misfit->text()))
        qFatal("it is not said first");
      return !made.misfit;
    };
    QVERIFY(fits(gib + 2.001, 2) && !fits(gib + 1.999, 2) && !fits(gib + 0.01, 0.5));
    const Preview tight = on(fmt::format(", memory_gib: {:.6f}", gib + 0.1));
    QVERIFY(tight.misfit.has_value());
    QCOMPARE(QString::fromStdString(tight.misfit->why.text()),
             "of it, CUDA contexts, workspaces and NCCL take 771.8 MB");
    QVERIFY(!tight.misfit->remedies.empty() && tight.misfit->remedies.size() <= 3);
    // A slow link is no link of 0.0 GB/s.
    const Preview slow =
        on(", model: T4", "links:\n  - {from: 'n*', to: 'n*', bandwidth_mbit: 100, rails: 4}\n");
    QVERIFY2(std::ranges::any_of(slow.remarks,
                                 [](const auto& remark) {
                                   return remark.text() ==
                                          "communication along axis data is priced at 50.0 MB/s "
                                          "per rank and direction";
                                 }),
             previewText(slow).c_str());
  }

  // A setting that divides nothing anew needs what it divides now, and is offered where that fits.
  void reliefOfWhatIsDivided() {
    std::string blocks = "model.layers=[{embedding: {units: 1024}}";
    for (int i = 0; i < 12; ++i) blocks += ", {transformer: {heads: 16}}";
    blocks += ", {layer_norm: {}}, {dense: {units: 50304, tied: embedding1}}]";
    const auto on = [&](const char* kind, const char* recompute, double gib) {
      LaunchRequest request;
      request.spec = loadRunSpec(lockstep::test::sourcePath("tests/gpu/gpt2-124m.yaml"),
                                 {"training.batch=8", "training.evaluate_batch=8",
                                  fmt::format("strategy.kind={}", kind),
                                  fmt::format("strategy.recompute={}", recompute), blocks})
                         ->spec;
      request.cluster =
          completeClusterSpec(
              fmt::format(
                  "nodes:\n  - name: n1\n    devices: [{{kind: cuda, count: 8, reserved_gib: "
                  "0.5, memory_gib: {:.6f}}}]\n",
                  gib),
              "c.yaml")
              ->spec;
      auto made = makePreview(request, {});
      if (!made.ok()) qFatal("%s", made.error().text().c_str());
      return std::move(*made);
    };
    const auto gibOf = [](const Preview& preview) {
      std::int64_t most = 0;
      for (const RankPreview& rank : preview.ranks) most = std::max(most, rank.totalBytes());
      return static_cast<double>(most) / (1 << 30) + 0.5;
    };
    const Remedy recompute{{"strategy.recompute", "full"}};
    for (const char* kind : {"zero-1", "zero-2", "zero-3"}) {
      const double with = gibOf(on(kind, "full", 100)), without = gibOf(on(kind, "none", 100));
      QVERIFY2(with < 0.95 * without, kind);
      const Preview tight = on(kind, "none", (with + without) / 2);
      QVERIFY2(tight.misfit.has_value(), kind);
      QVERIFY2(std::ranges::find(tight.misfit->remedies, recompute) != tight.misfit->remedies.end(),
               tight.misfit->text().c_str());
    }
  }

  // What was tried once, or is what the run has now, is not planned again.
  void noReliefIsPlannedTwice() {
    for (const char* recompute : {"none", "full"}) {
      for (const int batch : {3, 6, 12, 24, 48}) {
        const auto request = requestFor("gpt-tiny.yaml", 3, "shm",
                                        {fmt::format("training.batch={}", batch),
                                         fmt::format("strategy.recompute={}", recompute)});
        const auto needs = makePreview(request, {});
        QVERIFY(needs.ok());
        std::int64_t needed = 0;
        for (const RankPreview& rank : needs->ranks) needed += rank.totalBytes();
        const std::vector<HostFacts> hosts{{"local1", "h", 8, needed - 1}};
        const auto misfit = misfitOf(*needs, hosts);
        QVERIFY(misfit.has_value());
        std::vector<std::string> planned{request.spec->SerializeAsString()};
        (void)withRelief(*misfit, *needs, *request.spec, hosts,
                         [&](const auto& spec) -> Result<Preview> {
                           planned.push_back(spec->SerializeAsString());
                           return *needs;  // none fits
                         });
        QVERIFY(planned.size() > 1 && planned.size() <= 9);
        std::ranges::sort(planned);
        QVERIFY(std::ranges::adjacent_find(planned) == planned.end());
      }
    }
  }

  // What a spec can ask for, the planner knows; and a plan travels as its text.
  void everyStrategyIsPlanned() {
    for (const cluster::Strategy& strategy : cluster::strategies()) {
      const std::string_view kind = strategy.name;
      const std::string set = fmt::format("strategy.kind={}", kind);
      for (const char* comm : {"shm", "gloo"}) {
        if (strategy.oneNode && comm == std::string("gloo")) continue;
        std::vector<std::string> sets{set};
        if (strategy.axis == cluster::kStageAxis) sets.emplace_back("strategy.stages=2");
        LaunchRequest asked = requestFor("fashion-mlp.yaml", 4, comm, sets);
        if (kind == "placement") {
          auto pinned = std::make_shared<spec::v1::RunSpec>(*asked.spec);
          auto* pin = pinned->mutable_strategy()->add_pins();
          pin->set_layer("dense2");
          pin->set_stage(1);
          asked.spec = std::move(pinned);
        }
        const auto preview = makePreview(asked, {});
        QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
        QCOMPARE(preview->plan.strategy, std::string(kind));
        const auto parsed = plan::parse(preview->planText);
        QVERIFY2(parsed.ok(), parsed.ok() ? "" : parsed.error().text().c_str());
        QVERIFY(*parsed == preview->plan);
        QVERIFY(preview->stepSeconds > 0);
      }
    }
    const auto parts = makePreview(
        requestFor("fashion-mlp.yaml", 3, "", {"strategy.micro_batches=4", "strategy.kind=zero-2"}),
        {});
    QVERIFY2(parts.ok(), parts.ok() ? "" : parts.error().text().c_str());
    QCOMPARE(parts->plan.globalBatch, std::int64_t{32});
    QVERIFY(*plan::parse(parts->planText) == parts->plan);
    std::int64_t samples = 0;
    for (const auto& rank : parts->ranks) samples += rank.samples;
    QCOMPARE(samples, std::int64_t{32});
    const auto both = makePreview(requestFor("fashion-mlp.yaml", 4, "", {"strategy.tensor=2"}), {});
    QVERIFY2(both.ok(), both.ok() ? "" : both.error().text().c_str());
    QCOMPARE(both->plan.mesh.text(), std::string("data 2, model 2"));
    QCOMPARE(both->ranks[0].samples, both->ranks[1].samples);
  }

  void nodesOfRolePsHoldTheParameters() {
    const auto with = [](std::vector<std::string> sets) {
      LaunchRequest request = requestFor("fashion-mlp.yaml", 3, "", sets);
      auto cluster = std::make_shared<spec::v1::ClusterSpec>(*request.cluster);
      cluster->mutable_nodes(0)->add_roles("ps");
      request.cluster = std::move(cluster);
      return request;
    };
    const auto served = makePreview(with({"strategy.kind=parameter-server"}), {});
    QVERIFY2(served.ok(), served.ok() ? "" : served.error().text().c_str());
    QCOMPARE(served->plan.mesh.text(), std::string("data 2, servers 1"));
    QCOMPARE(served->ranks[0].node, std::string("local2"));
    QCOMPARE(served->ranks[2].node, std::string("local1"));
    QVERIFY(served->ranks[2].isServer());
    QVERIFY(previewText(*served).find(" server ") != std::string::npos);
    const auto refused =
        makePreview(with({"strategy.kind=parameter-server", "strategy.servers=2"}), {});
    QVERIFY(!refused.ok());
    QCOMPARE(refused.error().field, std::string("strategy.servers"));
    const auto unused = makePreview(with({"strategy.kind=zero-1"}), {});
    QVERIFY2(unused.ok(), unused.ok() ? "" : unused.error().text().c_str());
    QCOMPARE(unused->plan.mesh.size(), 2);
    const std::string remark =
        "node local1 takes no part: its role is ps, and strategy zero-1 has no servers";
    QCOMPARE(std::count(unused->remarks.begin(), unused->remarks.end(), remark), std::ptrdiff_t{1});
  }

  // Left out, or 0, evaluation takes as many samples at once as a step: it needs no memory of its
  // own, and is divided as the step is.
  void evaluationFitsTheStep() {
    const auto memoryOf = [](const LaunchRequest& request) {
      const auto preview = makePreview(request, {});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      std::int64_t most = 0;
      for (const RankPreview& rank : preview->ranks) most = std::max(most, rank.totalBytes());
      return most;
    };
    for (const char* example : {"fashion-mlp.yaml", "fashion-cnn.yaml", "fashion-resnet.yaml",
                                "gpt-tiny.yaml", "ctr.yaml"}) {
      for (const char* batch : {"training.batch=64", "training.batch=6"}) {
        const std::int64_t chosen =
            memoryOf(requestFor(example, 2, "", {batch, "training.evaluate_batch=0"}));
        const std::int64_t least =
            memoryOf(requestFor(example, 2, "", {batch, "training.evaluate_batch=2"}));
        QVERIFY2(chosen == least,
                 fmt::format("{} {}: {} and {}", example, batch, chosen, least).c_str());
        QVERIFY(chosen <
                memoryOf(requestFor(example, 2, "", {batch, "training.evaluate_batch=5000"})));
      }
    }
    const std::vector<std::string> cases[] = {
        {"training.batch=7"},
        {"training.batch=12", "strategy.kind=pipeline", "strategy.stages=3",
         "strategy.micro_batches=4"},
        {"training.batch=1024", "strategy.shares=[1, 2, 1000]"},
        {"training.batch=12", "strategy.kind=local-sgd", "strategy.local_steps=2"},
        {"training.batch=12", "strategy.deterministic_parts=6"}};
    for (const auto& sets : cases) {
      const auto preview = makePreview(requestFor("fashion-mlp.yaml", 3, "", sets), {});
      QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
      QCOMPARE(preview->plan.evaluateCuts, preview->plan.batchCuts);
    }
    const auto many =
        makePreview(requestFor("fashion-mlp.yaml", 1024, "", {"training.batch=1024"}), {});
    QVERIFY2(many.ok(), many.ok() ? "" : many.error().text().c_str());
    QCOMPARE(many->plan.evaluateCuts.back(), std::int64_t{1024});
  }

  void zero2SaysWhenItIsZero1() {
    const auto said = [](const std::vector<std::string>& sets) {
      const auto preview = makePreview(requestFor("fashion-mlp.yaml", 2, "", sets), {});
      if (!preview.ok()) qFatal("%s", preview.error().text().c_str());
      return std::count_if(preview->remarks.begin(), preview->remarks.end(),
                           [](const std::string& remark) {
                             return remark.starts_with("zero-2 holds what zero-1 holds");
                           });
    };
    QCOMPARE(said({"strategy.kind=zero-2"}), std::ptrdiff_t{1});
    QCOMPARE(said({"strategy.kind=zero-2", "strategy.micro_batches=2"}), std::ptrdiff_t{0});
    QCOMPARE(said({"strategy.kind=zero-1"}), std::ptrdiff_t{0});
  }

  void aNodeOfRoleEvaluatorHasAPlanOfItsOwn() {
    LaunchRequest request = requestFor("fashion-cnn.yaml", 3, "", {"strategy.kind=zero-1"});
    auto cluster = std::make_shared<spec::v1::ClusterSpec>(*request.cluster);
    cluster->mutable_nodes(0)->add_roles("evaluator");
    request.cluster = std::move(cluster);
    const auto preview = makePreview(request, {});
    QVERIFY2(preview.ok(), preview.ok() ? "" : preview.error().text().c_str());
    QCOMPARE(preview->plan.mesh.size(), 2);
    QCOMPARE(preview->ranks[0].node, std::string("local2"));
    QVERIFY(preview->evaluator.has_value());
    QCOMPARE(preview->evaluator->node, std::string("local1"));
    const auto plan = plan::parse(preview->evaluator->planText);
    QVERIFY2(plan.ok(), plan.ok() ? "" : plan.error().text().c_str());
    QCOMPARE(plan->programs.size(), std::size_t{1});
    QVERIFY(previewText(*preview).find("node local1 evaluates after each epoch") !=
            std::string::npos);
    auto spec = std::make_shared<spec::v1::RunSpec>(*request.spec);
    spec->mutable_training()->mutable_checkpoint()->set_disabled(true);
    request.spec = std::move(spec);
    const auto refused = makePreview(request, {});
    QVERIFY(!refused.ok());
    QCOMPARE(refused.error().field, std::string("training.checkpoint.disabled"));
  }

  // The same plan; ranks on GPUs share neither cores nor memory of their host.
  void thePlanIsTheSameOnGpus() {
    LaunchRequest request = requestFor("fashion-mlp.yaml", 2, "");
    const std::vector<HostFacts> hosts{{"local1", "h", 1, 1 << 20}, {"local2", "h", 1, 1 << 20}};
    const auto cpus = makePreview(request, hosts);
    auto cluster = std::make_shared<spec::v1::ClusterSpec>(*request.cluster);
    for (auto& node : *cluster->mutable_nodes()) node.mutable_devices(0)->set_kind("cuda");
    request.cluster = cluster;
    const auto gpus = makePreview(request, hosts);
    QVERIFY2(cpus.ok() && gpus.ok(), gpus.ok() ? "" : gpus.error().text().c_str());
    QCOMPARE(gpus->planHash, cpus->planHash);
    QCOMPARE(cpus->ranks[1].device, std::string("cpu 0"));
    QCOMPARE(gpus->ranks[1].device, std::string("cuda 0"));
    QCOMPARE(cpus->remarks.size(), std::size_t{1});  // cores
    QVERIFY(cpus->misfit && !gpus->misfit);          // the host's memory
    // and how GPUs and what they exchange are priced
    QCOMPARE(gpus->remarks.size(), std::size_t{3});
    QVERIFY2(gpus->remarks[0].text().find("by NCCL") != std::string::npos,
             gpus->remarks[0].text().c_str());
    QVERIFY(gpus->stepSeconds < cpus->stepSeconds);
    request.spec = requestFor("fashion-mlp.yaml", 2, "", {"training.precision=fp64"}).spec;
    QCOMPARE(makePreview(request, hosts).error().field, std::string("nodes[0].devices[0].kind"));
  }

  void mistakesNameTheField() {
    const auto uneven =
        makePreview(requestFor("fashion-mlp.yaml", 4, "", {"strategy.tensor=3"}), {});
    QVERIFY(!uneven.ok());
    QCOMPARE(uneven.error().field, std::string("strategy.tensor"));
    // A convolution and one dense layer: nothing to share.
    const auto whole =
        makePreview(requestFor("fashion-cnn.yaml", 2, "", {"strategy.kind=tensor-parallel"}), {});
    QVERIFY(!whole.ok());
    QCOMPARE(
        whole.error().next,
        std::string("set strategy.tensor to 1 and set strategy.kind to multi-worker-mirrored"));

    const auto preview =
        makePreview(requestFor("fashion-mlp.yaml", 3, "", {"training.batch=2"}), {});
    QVERIFY(!preview.ok());
    QCOMPARE(preview.error().code, Code::kInvalidArgument);
  }
};

QTEST_GUILESS_MAIN(PreviewTest)
#include "preview_test.moc"
