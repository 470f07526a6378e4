// Lessons: each is played through; formulas are held against what the simulator says.
#include <fmt/ranges.h>
#include <QTest>
#include <algorithm>
#include <cmath>

#include "app/learn/scene.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "engine/base/random.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> kAll = [] {
    auto read = readLessons(lockstep::test::sourcePath("resources/lessons"));
    if (!read.ok()) qFatal("%s", read.error().text().c_str());
    return std::move(*read);
  }();
  return kAll;
}

const Lesson& lesson(const std::string& id) {
  for (const Lesson& one : lessons())
    if (one.id == id) return one;
  qFatal("no lesson %s", id.c_str());
}

Scene sceneOf(const Lesson& lesson, const LessonState& moved) {
  LessonState state = lesson.start();
  for (const auto& [name, value] : moved) state[name] = value;
  auto scene = makeScene(lesson, state);
  if (!scene.ok()) qFatal("%s", scene.error().text().c_str());
  return std::move(*scene);
}

double figure(const Scene& scene, const char* name) {
  const SceneFigure* found = scene.figure(name);
  if (found == nullptr) qFatal("no figure %s", name);
  return found->value;
}

bool near(double a, double b, double share) { return std::abs(a - b) <= share * std::abs(b); }

LessonState randomState(const Lesson& lesson, std::uint64_t seed) {
  LessonState out;
  std::uint64_t draw = 0;
  for (const Slider& slider : lesson.sliders)
    out[slider.name] = slider.values[randomBits(seed, draw++) % slider.values.size()];
  return out;
}

// The real run with these sliders moved is complete, valid and planned, on as many local agents as
// it says.
void checkRealRun(Lesson lesson, const LessonState& moved) {
  const std::string which = fmt::format("{} with {}: ", lesson.id, moved);
  const auto real = realRunIn(lesson, moved);
  QVERIFY2(real.ok(), real.ok() ? "" : (which + real.error().text()).c_str());
  lesson.real = *real;
  const auto text = realSpecText(lesson);
  QVERIFY2(text.ok(), text.ok() ? "" : (which + text.error().text()).c_str());
  const SpecText spec = SpecText::parse(*text, lesson.id + ".yaml", SpecKind::kRun);
  QVERIFY2(spec.ok(), which.c_str());
  const auto run = realRunOf(lesson, "/nowhere");
  QVERIFY2(run.ok(), run.ok() ? "" : (which + run.error().text()).c_str());
  QCOMPARE(run->cluster->nodes_size(), lesson.real.ranks);
  const auto preview = makeBriefPreview(*run, hostsHere(*run->cluster));
  QVERIFY2(preview.ok(), preview.ok() ? "" : (which + preview.error().text()).c_str());
  QCOMPARE(preview->ranks.size(), static_cast<std::size_t>(lesson.real.ranks));
  QVERIFY(preview->stepSeconds > 0);
}

std::string textOf(const std::string& id) {
  return *readFile(lockstep::test::sourcePath("resources/lessons/") + id + ".yaml");
}

}  // namespace

class LearnTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void everyLessonPlaysThrough_data() {
    QTest::addColumn<int>("index");
    for (std::size_t i = 0; i < lessons().size(); ++i)
      QTest::newRow(lessons()[i].id.c_str()) << static_cast<int>(i);
  }
  void everyLessonPlaysThrough() {
    QFETCH(int, index);
    const Lesson& lesson = lessons()[static_cast<std::size_t>(index)];
    const Status checked = checkLesson(lesson);
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str());
    QCOMPARE(lesson.exercises.size(), std::size_t(3));
    QVERIFY(lesson.pages.size() >= 3 && lesson.minutes >= 5 && lesson.minutes <= 10);
    // Every value of every slider gives a scene, or is refused with a reason.
    for (const Slider& slider : lesson.sliders) {
      for (const std::string& value : slider.values) {
        LessonState state = lesson.start();
        state[slider.name] = value;
        const auto scene = makeScene(lesson, state);
        if (!scene.ok()) {
          QVERIFY(scene.error().code == Code::kInvalidArgument && !scene.error().what.empty());
          continue;
        }
        for (const SceneFigure& one : scene->figures)
          QVERIFY2(std::isfinite(one.value), (one.name + " " + value).c_str());
      }
    }
  }

  void aSliderMoved_data() { everyLessonPlaysThrough_data(); }
  void aSliderMoved() {
    QFETCH(int, index);
    const Lesson& lesson = lessons()[static_cast<std::size_t>(index)];
    LessonState state = lesson.start();
    for (const Slider& slider : lesson.sliders) {
      LessonState moved = state;
      moved[slider.name] = slider.values.back();
      if (makeScene(lesson, moved).ok()) state = moved;
    }
    QBENCHMARK { QVERIFY(makeScene(lesson, state).ok()); }
  }

  void thereAreTen() { QCOMPARE(lessons().size(), std::size_t(10)); }

  // Huang et al., "GPipe", 2019: (p − 1) / (m + p − 1) of a step is idle where stages take equal
  // time. Those of the lesson do but for the first and last layer, and messages take time too.
  // Of 1F1B each message delays a micro-batch, whose stage has no other one to go on with.
  void bubbleIsAsTheFormulaSays() {
    for (const auto& [schedule, share] : {std::pair{"gpipe", 0.05}, {"1f1b", 0.12}})
      for (const char* batches : {"2", "4", "8"}) {
        const Scene scene =
            sceneOf(lesson("06-pipeline"), {{"micro_batches", batches}, {"schedule", schedule}});
        QVERIFY2(near(figure(scene, "bubble"), figure(scene, "bubble_formula"), share),
                 qPrintable(QString("%1 of %2: %3 and %4")
                                .arg(schedule, batches)
                                .arg(figure(scene, "bubble"))
                                .arg(figure(scene, "bubble_formula"))));
      }
  }

  // Patarasuk and Yuan 2009: each rank of a ring sends 2 (n − 1) / n of the vector.
  void aRingSendsTheLeast() {
    for (const char* ranks : {"2", "3", "4", "6", "8", "16"}) {
      const Scene scene = sceneOf(lesson("02-all-reduce"),
                                  {{"ranks", ranks}, {"algorithm", "ring"}, {"size", "4096"}});
      QVERIFY(near(figure(scene, "sent_factor"), figure(scene, "sent_formula"), 1e-4));
    }
  }

  // So does each rank in data parallel, of the gradients of the step.
  void aStepSendsTheLeast() {
    for (const char* ranks : {"2", "4", "8"}) {
      const Scene scene = sceneOf(lesson("03-overlap"), {{"ranks", ranks}});
      QVERIFY(near(figure(scene, "sent_mib"), figure(scene, "sent_formula_mib"), 1e-3));
    }
  }

  // What the bars of a rank's memory show is all of it.
  void memoryIsTheSumOfItsParts() {
    for (const Lesson& one : lessons()) {
      if (one.scene != "step") continue;
      const Scene scene = sceneOf(one, {});
      double parts = 0;
      for (const char* part :
           {"parameters_mib", "gradients_mib", "optimizer_mib", "activations_mib", "workspace_mib"})
        parts += figure(scene, part);
      QVERIFY2(near(parts, figure(scene, "memory_mib"), 1e-6), one.id.c_str());
    }
  }

  // Whatever the algorithm, every slice of every rank has all ranks' values in the end, and none
  // twice on the way.
  void everySumIsWhole() {
    for (const char* ranks : {"2", "3", "4", "6", "8", "16"})
      for (const char* algorithm : {"direct", "ring", "tree", "halving-doubling"}) {
        const Scene scene =
            sceneOf(lesson("02-all-reduce"), {{"ranks", ranks}, {"algorithm", algorithm}});
        const MessagesScene& drawn = *scene.messages;
        QCOMPARE(drawn.sums.size(), static_cast<std::size_t>(drawn.rounds) + 1);
        for (const auto& rank : drawn.sums.back())
          for (const int sum : rank) QCOMPARE(sum, drawn.ranks);
        for (const auto& round : drawn.sums)
          for (const auto& rank : round)
            for (const int sum : rank) QVERIFY(sum >= 1 && sum <= drawn.ranks);
      }
  }

  // Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
  // 2020, figure 1: with n ranks ZeRO-1 keeps 1/n of the optimizer state, ZeRO-3 of the parameters
  // too.
  void zeroDividesMemory_data() {
    QTest::addColumn<int>("ranks");
    for (const std::string& ranks : lesson("04-zero").slider("ranks")->values)
      QTest::newRow(ranks.c_str()) << std::stoi(ranks);
  }
  void zeroDividesMemory() {
    QFETCH(int, ranks);
    const Lesson& zero = lesson("04-zero");
    const std::string count = std::to_string(ranks);
    const Scene whole = sceneOf(zero, {{"ranks", count}});
    for (const char* kind : {"zero-1", "zero-2", "zero-3"}) {
      const Scene scene = sceneOf(zero, {{"ranks", count}, {"kind", kind}});
      QVERIFY(near(figure(scene, "optimizer_mib"), figure(whole, "optimizer_mib") / ranks, 0.02));
      const double parts = std::string(kind) == "zero-3" ? ranks : 1;
      QVERIFY(near(figure(scene, "parameters_mib"), figure(whole, "parameters_mib") / parts, 0.02));
      // A rank keeps the sum of its own part alone, with ZeRO-1 too.
      QVERIFY(near(figure(scene, "gradients_mib"), figure(whole, "gradients_mib") / ranks, 0.02));
    }
  }

  // ZeRO-3 gathers the parameters twice a step instead of once, but those of the first layer, whose
  // input needs no gradient.
  void zeroThreeSendsMore() {
    const Lesson& zero = lesson("04-zero");
    const double whole = figure(sceneOf(zero, {}), "traffic_mib");
    const double first = 784 * 1024, rest = 2 * 1024 * 1024 + 1024 * 10;
    QVERIFY(near(figure(sceneOf(zero, {{"kind", "zero-1"}}), "traffic_mib"), whole, 0.01));
    QVERIFY(near(figure(sceneOf(zero, {{"kind", "zero-3"}}), "traffic_mib"),
                 whole * (1 + rest / (first + rest) / 2), 0.01));
  }

  // Exercises that a wrong state must not reach, and a right one must, whichever it is.
  void exercisesMeanWhatTheySay_data() {
    QTest::addColumn<QString>("id");
    QTest::addColumn<int>("exercise");
    QTest::addColumn<QString>("state");
    QTest::addColumn<bool>("reached");
    QTest::newRow("SGD") << "01-gradient-step" << 0 << "batch=256 optimizer=sgd" << true;
    QTest::newRow("a long step") << "01-gradient-step" << 0 << "batch=1024" << false;
    QTest::newRow("same batch") << "01-gradient-step" << 2 << "optimizer=sgd" << false;
    QTest::newRow("16 ranks") << "02-all-reduce" << 1 << "ranks=16 size=1 algorithm=tree" << true;
    QTest::newRow("halving") << "02-all-reduce" << 1 << "ranks=16 size=1 algorithm=halving-doubling"
                             << true;
    QTest::newRow("4 ranks") << "02-all-reduce" << 1 << "ranks=4 size=1 algorithm=ring" << false;
    QTest::newRow("direct") << "02-all-reduce" << 0 << "ranks=8 algorithm=direct" << true;
    QTest::newRow("a tree sends more") << "02-all-reduce" << 0 << "ranks=8 algorithm=tree" << false;
    QTest::newRow("1.5 of 4 ranks") << "02-all-reduce" << 0 << "algorithm=ring" << false;
    QTest::newRow("a fast tree") << "02-all-reduce" << 2
                                 << "ranks=16 size=256 algorithm=tree bandwidth=10000 latency=1000"
                                 << true;
    QTest::newRow("the ring in sight")
        << "02-all-reduce" << 2 << "ranks=16 size=256 algorithm=ring bandwidth=10000 latency=1000"
        << true;
    QTest::newRow("1 KiB") << "02-all-reduce" << 2
                           << "ranks=16 size=1 algorithm=tree bandwidth=10000 latency=1000"
                           << false;
    QTest::newRow("slow links") << "02-all-reduce" << 2
                                << "ranks=16 size=256 algorithm=tree bandwidth=100 latency=1000"
                                << false;
    QTest::newRow("1 MiB buckets") << "03-overlap" << 0 << "overlap=always bucket=1048576" << false;
    QTest::newRow("no buckets") << "03-overlap" << 0 << "overlap=always" << false;
    QTest::newRow("no overlap") << "03-overlap" << 1 << "latency=2000 bucket=262144" << false;
    QTest::newRow("one bucket") << "03-overlap" << 1 << "overlap=always latency=2000" << false;
    QTest::newRow("few buckets") << "03-overlap" << 1
                                 << "overlap=always latency=2000 bucket=2097152" << true;
    QTest::newRow("ZeRO-3 sends more") << "04-zero" << 0 << "kind=zero-3 ranks=16" << false;
    QTest::newRow("ZeRO-1 of 8") << "04-zero" << 0 << "kind=zero-1" << false;
    QTest::newRow("ZeRO-3 of 8") << "04-zero" << 1 << "kind=zero-3" << false;
    QTest::newRow("not ZeRO-3") << "04-zero" << 2 << "kind=zero-1 bandwidth=1000" << false;
    QTest::newRow("ZeRO-3") << "04-zero" << 2 << "kind=zero-3 bandwidth=5000" << true;
    QTest::newRow("latency") << "04-zero" << 2 << "kind=zero-3 ranks=16 latency=2000" << false;
    QTest::newRow("ZeRO-3 of 4") << "04-zero" << 2 << "kind=zero-3 ranks=4 bandwidth=1000" << true;
    QTest::newRow("activations travel")
        << "05-tensor-parallel" << 0 << "tensor=4 batch=256" << false;
    QTest::newRow("a slow network") << "05-tensor-parallel" << 0 << "bandwidth=1000" << false;
    QTest::newRow("gradients travel") << "05-tensor-parallel" << 1 << "tensor=2 batch=16" << false;
    QTest::newRow("fast links") << "05-tensor-parallel" << 1 << "tensor=4 batch=16 bandwidth=16000"
                                << true;
    QTest::newRow("half") << "05-tensor-parallel" << 2 << "tensor=2 bandwidth=16000" << false;
    QTest::newRow("less work") << "05-tensor-parallel" << 2 << "tensor=4 batch=16" << false;
    QTest::newRow("8 micro-batches") << "06-pipeline" << 0 << "micro_batches=8" << true;
    QTest::newRow("no GPipe") << "06-pipeline" << 0 << "micro_batches=8 schedule=1f1b" << false;
    QTest::newRow("GPipe") << "06-pipeline" << 1 << "micro_batches=16" << false;
    QTest::newRow("1F1B") << "06-pipeline" << 1 << "micro_batches=16 schedule=1f1b" << false;
    QTest::newRow("zero-bubble of 8")
        << "06-pipeline" << 1 << "micro_batches=8 schedule=zb-h1" << false;
    QTest::newRow("too many pieces")
        << "06-pipeline" << 2 << "micro_batches=16 schedule=zb-h1" << false;
    QTest::newRow("4 times as long") << "07-parameter-server" << 0 << "staleness=-1" << false;
    QTest::newRow("a large limit") << "07-parameter-server" << 0 << "staleness=16 slow=10" << false;
    QTest::newRow("in lockstep") << "07-parameter-server" << 1 << "rate=5" << false;
    QTest::newRow("no limit") << "07-parameter-server" << 1 << "staleness=-1 rate=3" << false;
    QTest::newRow("16 steps ahead")
        << "07-parameter-server" << 2 << "staleness=16 slow=10" << false;
    QTest::newRow("none ahead") << "07-parameter-server" << 2 << "slow=10" << false;
    QTest::newRow("1 step ahead") << "07-parameter-server" << 2 << "staleness=1 slow=10" << true;
    QTest::newRow("another batch") << "08-stragglers" << 0 << "repaired=6 batch=1024" << true;
    QTest::newRow("less slow") << "08-stragglers" << 0 << "factor=1.5" << false;
    QTest::newRow("another riddle") << "08-stragglers" << 2 << "riddle=3 repaired=6" << false;
    QTest::newRow("a slower rank")
        << "08-stragglers" << 2 << "riddle=3 repaired=3 factor=4" << true;
    QTest::newRow("80 minutes") << "09-failures" << 0 << "interval=80" << true;
    QTest::newRow("20 minutes") << "09-failures" << 0 << "interval=20" << false;
    QTest::newRow("5 s, 20 minutes")
        << "09-failures" << 1 << "nodes=10000 cost=5 interval=20" << false;
    QTest::newRow("30 s") << "09-failures" << 1 << "nodes=10000 cost=30 interval=10" << false;
    QTest::newRow("10 Gbit/s") << "10-scaling" << 0 << "ranks=8" << false;
    QTest::newRow("16 ranks for 8") << "10-scaling" << 1 << "ranks=16 batch=4096" << false;
    QTest::newRow("a larger batch") << "10-scaling" << 1 << "ranks=8 batch=1024" << true;
  }
  void exercisesMeanWhatTheySay() {
    QFETCH(QString, id);
    QFETCH(int, exercise);
    QFETCH(QString, state);
    QFETCH(bool, reached);
    const Lesson& one = lesson(id.toStdString());
    LessonState moved = one.start();
    for (const QString& set : state.split(' '))
      moved[set.section('=', 0, 0).toStdString()] = set.section('=', 1).toStdString();
    QCOMPARE(isReached(one.exercises[static_cast<std::size_t>(exercise)], one, moved,
                       sceneOf(one, moved), sceneOf(one, {})),
             reached);
  }

  void everyRealRunIsPlanned_data() { everyLessonPlaysThrough_data(); }
  void everyRealRunIsPlanned() {
    QFETCH(int, index);
    const Lesson& lesson = lessons()[static_cast<std::size_t>(index)];
    checkRealRun(lesson, {});
    for (std::uint64_t seed = 1; seed <= 20 && !QTest::currentTestFailed(); ++seed) {
      const LessonState state = randomState(lesson, seed);
      const LessonState possible = withoutSimulated(lesson, state);
      const bool isAsAtStart =
          std::all_of(lesson.sliders.begin(), lesson.sliders.end(), [&](const Slider& slider) {
            const std::string& value = state.at(slider.name);
            return possible.contains(slider.name) || value == slider.values[slider.start];
          });
      QCOMPARE(realRunIn(lesson, state).ok(), isAsAtStart);
      checkRealRun(lesson, possible);
    }
  }

  void theRealRunTakesWhatIsMoved() {
    Lesson pipeline = lesson("06-pipeline");
    const auto real = realRunIn(pipeline, {{"micro_batches", "16"}});
    QVERIFY2(real.ok(), real.ok() ? "" : real.error().text().c_str());
    pipeline.real = *real;
    const auto run = realRunOf(pipeline, "/nowhere");
    QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
    QCOMPARE(run->spec->strategy().micro_batches(), 16);
    // A value of the lesson's start too, where the real run has another.
    QCOMPARE(realRunIn(lesson("07-parameter-server"), {{"staleness", "0"}})
                 ->settings.at("strategy.staleness"),
             std::string("0"));
    QCOMPARE(realRunIn(lesson("10-scaling"), {{"ranks", "1"}})->ranks, 1);
    const LessonState both{{"batch", "1024"}, {"ranks", "4"}, {"scaling", "weak"}};
    QCOMPARE(withoutSimulated(lesson("10-scaling"), both),
             (LessonState{{"batch", "1024"}, {"ranks", "4"}}));
    QCOMPARE(learnLine(lesson("10-scaling"), "--run", {{"batch", "1024"}, {"ranks", "4"}}),
             std::string("lockstep learn 10-scaling --run --set batch=1024 --set ranks=4"));
    QVERIFY(realRunIn(lesson("04-zero"), {{"bandwidth", "10000"}}).ok());
    for (const LessonState& wrong : {LessonState{{"bandwidth", "1000"}},
                                     LessonState{{"ranks", "7"}}, LessonState{{"nothing", "1"}}}) {
      const auto refused = realRunIn(lesson("04-zero"), wrong);
      QVERIFY(!refused.ok());
      QVERIFY(refused.error().text().find(wrong.begin()->first) != std::string::npos);
    }
  }

  void aPageMustNotReachAnExercise() {
    std::string text = textOf("01-gradient-step");
    const std::string page = "state: {batch: \"1024\"}";
    QVERIFY(text.find(page) != std::string::npos);
    text.replace(text.find(page), page.size(), "state: {batch: \"256\"}");
    const auto read = parseLesson(text, "wrong.yaml");
    QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
    const Status checked = checkLesson(*read);
    QVERIFY(!checked.ok());
    const std::string told = checked.error().text();
    QVERIFY2(told.find("exercises[0]") != std::string::npos &&
                 told.find("page 3 reaches it") != std::string::npos,
             told.c_str());
  }

  void whatDoesNotHoldIsPlaced() {
    std::string text = textOf("01-gradient-step");
    const std::string when = "optimizer_mib < 0.6 * start";
    QVERIFY(text.find(when) != std::string::npos);
    text.replace(text.find(when), when.size(), "optimizer_mib < 0.1 * start");
    const auto read = parseLesson(text, "wrong.yaml");
    QVERIFY(read.ok());
    const Status checked = checkLesson(*read);
    QVERIFY(!checked.ok());
    const std::string told = checked.error().text();
    QVERIFY2(told.starts_with("wrong.yaml:") && told.find("exercises[1]") != std::string::npos,
             told.c_str());
  }

  // Young 1974 and Daly 2006, with sources in failures_scene.cc.
  void failuresAreAsDalySays() {
    const Lesson& failures = lesson("09-failures");
    double least = 100, best = 0;
    for (const std::string& interval : failures.slider("interval")->values) {
      const Scene scene = sceneOf(failures, {{"interval", interval}});
      QVERIFY2(std::abs(figure(scene, "lost") - figure(scene, "lost_formula")) < 1.0,
               interval.c_str());
      if (figure(scene, "lost") < least) {
        least = figure(scene, "lost");
        best = std::stod(interval);
      }
    }
    const Scene scene = sceneOf(failures, {});
    for (const char* formula : {"young_min", "daly_min"})
      QVERIFY(best > figure(scene, formula) / 2 && best < 2 * figure(scene, formula));
    QVERIFY(near(figure(scene, "young_min"), std::sqrt(2 * 1.0 * 1440), 1e-3));
  }

  // However many failures there are, to the ends of the sliders: the simulation loses what Daly's
  // formula says, where it is not taken in its place, and the slider's best interval is near
  // Young's and Daly's. Neighbours on it are up to 2.5 times as long.
  void failuresOfAllStatesAreAsDalySays() {
    const Lesson& failures = lesson("09-failures");
    int taken = 0, all = 0;
    for (const std::string& nodes : failures.slider("nodes")->values)
      for (const std::string& cost : failures.slider("cost")->values)
        for (const std::string& mtbf : failures.slider("mtbf")->values) {
          const QString state =
              QString("%1 nodes, %2 s, %3 d").arg(nodes.c_str(), cost.c_str(), mtbf.c_str());
          double least = 101, best = 0, young = 0, daly = 0;
          for (const std::string& interval : failures.slider("interval")->values) {
            const Scene scene =
                sceneOf(failures,
                        {{"interval", interval}, {"nodes", nodes}, {"cost", cost}, {"mtbf", mtbf}});
            const double lost = figure(scene, "lost"), formula = figure(scene, "lost_formula");
            young = figure(scene, "young_min");
            daly = figure(scene, "daly_min");
            if (lost < least) least = lost, best = std::stod(interval);
            ++all;
            if (lost == formula) {  // nothing is simulated
              ++taken;
              continue;
            }
            QVERIFY2(std::abs(lost - formula) < 1.0, qPrintable(QString("%1, %2 min: %3 and %4")
                                                                    .arg(state, interval.c_str())
                                                                    .arg(lost)
                                                                    .arg(formula)));
          }
          for (const double interval : {young, daly})
            QVERIFY2(interval > 640 || (best > interval / 2 && best < 2 * interval),
                     qPrintable(QString("%1: %2 and %3").arg(state).arg(best).arg(interval)));
        }
    QVERIFY2(10 * taken < all, qPrintable(QString("%1 of %2").arg(taken).arg(all)));
  }

  // The course that is played: work grows no faster than without failures, each failure takes less
  // than an interval of it, and what is left fits the time that is lost.
  void aCourseOfFailures() {
    const Lesson& failures = lesson("09-failures");
    for (const std::string& nodes : failures.slider("nodes")->values) {
      const Scene scene = sceneOf(failures, {{"nodes", nodes}});
      const ChartScene& chart = scene.charts.front();
      QVERIFY(chart.overTime && chart.curves.size() == 2);
      const ChartScene::Curve& done = chart.curves.front();
      const double most = chart.curves.back().y.back() / chart.curves.back().x.back();
      int falls = 0;
      for (std::size_t i = 1; i < done.x.size(); ++i) {
        QVERIFY(done.x[i] >= done.x[i - 1] && done.y[i] >= 0);
        if (done.y[i] >= done.y[i - 1]) continue;
        ++falls;
        QVERIFY((done.y[i - 1] - done.y[i]) * 60 <= figure(scene, "interval_min") + 1e-6);
      }
      QVERIFY2(falls >= 3 && falls < 40, qPrintable(QString::number(falls)));
      QVERIFY(done.y.back() > 0 && done.y.back() < most * done.x.back());
      QVERIFY(done.x.size() < 4000);
    }
  }

  // A failure every millisecond: no scene is drawn failure by failure, and all time is lost.
  void failuresAtTheLimits() {
    std::string text = textOf("09-failures");
    const std::string nodes = "values: [10, 100, 1000, 10000]", days = "values: [100, 1000, 5000]";
    QVERIFY(text.find(nodes) != std::string::npos && text.find(days) != std::string::npos);
    text.replace(text.find(nodes), nodes.size(), "values: [10, 1000, 10000, 1000000]");
    text.replace(text.find(days), days.size(), "values: [0.01, 1000]");
    const auto read = parseLesson(text, "limits.yaml");
    QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
    const Scene scene = sceneOf(*read, {{"nodes", "1000000"}, {"mtbf", "0.01"}});
    QCOMPARE(figure(scene, "lost"), 100.0);
  }

  // They have more links than a cluster may list; one of these holds all of them up.
  void manyNodes() {
    std::string text = textOf("10-scaling");
    const std::string ranks = "values: [1, 2, 4, 8, 16, 32]", sliders = "sliders:\n";
    QVERIFY(text.find(ranks) != std::string::npos && text.find(sliders) != std::string::npos);
    text.replace(text.find(ranks), ranks.size(), "values: [1, 2, 8, 16, 32, 128]");
    text.insert(text.find(sliders) + sliders.size(),
                "  - name: slow\n    label: {en: Slow, zh: Slow}\n    values: [0, 100]\n"
                "    start: 0\n    sets: cluster.slow_link_mbit\n");
    const auto read = parseLesson(text, "many.yaml");
    QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
    for (const char* count : {"2", "128"}) {
      const Scene scene = sceneOf(*read, {{"ranks", count}}),
                  slow = sceneOf(*read, {{"ranks", count}, {"slow", "100"}});
      QCOMPARE(figure(scene, "ranks"), std::stod(count));
      QVERIFY(figure(slow, "step_ms") > 5 * figure(scene, "step_ms"));
    }
  }

  // A step's times do not depend on the machine, and random states are planned or refused.
  void randomStates() {
    for (std::uint64_t draw = 0; draw < 40; ++draw) {
      const Lesson& one = lessons()[randomBits(1, draw) % lessons().size()];
      const LessonState state = randomState(one, draw + 2);
      const auto first = makeScene(one, state), second = makeScene(one, state);
      QCOMPARE(first.ok(), second.ok());
      if (!first.ok()) continue;
      for (std::size_t i = 0; i < first->figures.size(); ++i)
        QCOMPARE(first->figures[i].value, second->figures[i].value);
    }
  }

  void aStateIsShared() {
    for (const Lesson& one : lessons()) {
      LessonState state = one.start();
      state[one.sliders[0].name] = one.sliders[0].values.back();
      const auto read = parseLessonState(lessonStateText(one, state), "s.yaml", lessons());
      QVERIFY2(read.ok(), read.ok() ? "" : read.error().text().c_str());
      QCOMPARE(read->lesson, one.id);
      QVERIFY(read->state == state);
    }
    const auto wrong =
        parseLessonState("lesson: 04-zero\nstate:\n  ranks: 7\n", "s.yaml", lessons());
    QVERIFY(!wrong.ok() && wrong.error().text().find("s.yaml:3") != std::string::npos);
  }

  void mistakesAreNamed_data() {
    QTest::addColumn<QByteArray>("from");
    QTest::addColumn<QByteArray>("to");
    QTest::addColumn<QByteArray>("said");
    QTest::newRow("scene") << QByteArray("scene: step") << QByteArray("scene: stap")
                           << QByteArray("step");
    QTest::newRow("slider") << QByteArray("start: adam") << QByteArray("start: adagram")
                            << QByteArray("sliders[1].start");
    QTest::newRow("sets") << QByteArray("sets: training.batch")
                          << QByteArray("sets: training.batsh") << QByteArray("sliders[0].sets");
    QTest::newRow("name") << QByteArray("    start: adam")
                          << QByteArray("    names: {adum: {en: a, zh: b}}\n    start: adam")
                          << QByteArray("'adum' is not a value: sliders[1].names");
    QTest::newRow("names") << QByteArray("    start: adam")
                           << QByteArray("    names: adam\n    start: adam")
                           << QByteArray("sliders[1].names");
    QTest::newRow("field") << QByteArray("minutes:") << QByteArray("minuets:")
                           << QByteArray("minuets");
    QTest::newRow("view") << QByteArray("view: memory") << QByteArray("view: traffic")
                          << QByteArray("pages[3].view");
    QTest::newRow("spec") << QByteArray("  max_steps: 200\n") << QByteArray("  max_stops: 200\n")
                          << QByteArray("max_stops");
    QTest::newRow("condition") << QByteArray("samples_per_s >") << QByteArray("samples_per_s !")
                               << QByteArray("exercises[0].when");
    QTest::newRow("real") << QByteArray("  ranks: 1\n") << QByteArray("  ranks: 1.5\n")
                          << QByteArray("whole number: real.ranks");
    QTest::newRow("set") << QByteArray("sliders:\n")
                         << QByteArray("set: {cluster.ranks: 1.5}\nsliders:\n")
                         << QByteArray("whole number: set.cluster.ranks");
    QTest::newRow("anchor") << QByteArray("title:") << QByteArray("title: &a")
                            << QByteArray("anchor");
  }
  void mistakesAreNamed() {
    QFETCH(QByteArray, from);
    QFETCH(QByteArray, to);
    QFETCH(QByteArray, said);
    std::string text = textOf("01-gradient-step");
    const std::size_t at = text.find(from.constData());
    QVERIFY(at != std::string::npos);
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    text.replace(at, static_cast<std::size_t>(from.size()), to.constData());
    const auto read = parseLesson(text, "wrong.yaml");
    QVERIFY(!read.ok());
    const std::string told = read.error().text();
    QVERIFY2(told.find(said.constData()) != std::string::npos, told.c_str());
    QVERIFY2(told.starts_with("wrong.yaml:"), told.c_str());
    const std::string& field = read.error().field;
    QVERIFY2(field.find('[') == std::string::npos || told.find(field) == told.rfind(field),
             told.c_str());
    const long named = std::atol(told.c_str() + std::string("wrong.yaml:").size());
    QVERIFY2(std::abs(named - line) <= 1 || from == "minutes:", told.c_str());
  }
};

QTEST_GUILESS_MAIN(LearnTest)
#include "learn_test.moc"
