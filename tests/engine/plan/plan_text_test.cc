#include <QTest>

#include "engine/base/random.h"
#include "tests/engine/plan/sample_plan.h"

using namespace lockstep;
using namespace lockstep::plan;

class PlanTextTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void textParsesBackToTheSamePlan() {
    const Plan plan = samplePlan();
    const std::string written = text(plan);
    const auto parsed = parse(written);
    QVERIFY2(parsed.ok(), parsed.ok() ? "" : parsed.error().text().c_str());
    QVERIFY(*parsed == plan);
    QCOMPARE(text(*parsed), written);
    QVERIFY(verify(*parsed).ok());
  }

  // What differs in numbers of names alone is told once.
  void likeBodiesAreToldOnce() {
    Plan plan = samplePlan();
    plan::Program& program = plan.programs[0];
    const std::string whole = text(plan);
    QCOMPARE(briefText(plan), whole);  // its bodies differ in shapes
    program.bodies[0].steps[0].name = "block1.norm2";
    program.bodies[0].steps[2].attrs["key"] = std::int64_t{-17};
    program.bodies[1] = program.bodies[0];
    program.bodies[1].role = "other";
    program.bodies[1].steps[0].name = "block13.norm2";
    program.bodies[1].steps[2].attrs["key"] = std::int64_t{42};
    const std::string brief = briefText(plan);
    QVERIFY2(brief.find(fmt::format("like \"{}\"", program.bodies[0].role)) != std::string::npos,
             brief.c_str());
    QVERIFY(brief.find("block13") == std::string::npos);
    program.bodies[1].steps[0].bytes += 1;
    QVERIFY(briefText(plan).find("block13") != std::string::npos);
  }

  void everyKindOfAttributeIsKept() {
    Plan plan = samplePlan();
    ir::Attrs& attrs = plan.programs[0].bodies[0].steps[2].attrs;
    attrs["text"] = std::string("a\\b\n\"c\"");
    attrs["tiny"] = 1e-300;
    attrs["key"] = std::int64_t{-42};
    const auto parsed = parse(text(plan));
    QVERIFY2(parsed.ok(), parsed.ok() ? "" : parsed.error().text().c_str());
    QVERIFY(*parsed == plan);
  }

  void textIsForPeople() {
    const std::string written = text(samplePlan());
    for (const char* line :
         {"mesh \"data\" 3\n", "batch 10 cuts [0 4 7 10]\n", "  body \"worker.3\" ranks 1-2 {\n",
          "    \"a\" [3x2] from 0\n", "    buffer %3 \"b.gradient\" f32[16] view of %2 at 0\n",
          "    result \"metrics\" %4\n"}) {
      QVERIFY2(written.find(line) != std::string::npos, line);
    }
  }

  void hashLeavesPredictedSecondsOut() {
    Plan plan = samplePlan();
    const std::string before = hash(plan);
    QCOMPARE(before.size(), std::size_t{64});
    plan.programs[0].bodies[0].steps[0].seconds = 3;
    QCOMPARE(hash(plan), before);
    plan.programs[0].bodies[0].steps[0].bytes += 1;
    QVERIFY(hash(plan) != before);
  }

  void errorsSayWhereAndWhatWasExpected() {
    const auto errorOf = [](std::string_view text) {
      const auto parsed = parse(text, "my.plan");
      return parsed.ok() ? std::string("parsed") : parsed.error().what.text();
    };
    QCOMPARE(errorOf(""), std::string("my.plan:1:1: the text ends here, expected \"plan\""));
    QCOMPARE(errorOf("plan x"),
             std::string("my.plan:1:6: found x, expected the plan's name in quotes"));
    QCOMPARE(errorOf("plan \"x\" version 3"),
             std::string("my.plan:1:18: 3 is out of range, expected version from 2 to 2"));
    QCOMPARE(errorOf("plan \"x\nversion 2"),
             std::string("my.plan:1:6: this quote is never closed"));
    const std::string whole = text(samplePlan());
    std::string broken = whole;
    broken.replace(broken.find("bias-add") == std::string::npos ? broken.find("bias_add")
                                                                : broken.find("bias-add"),
                   8, "biased__");
    QVERIFY(errorOf(broken).find("found biased__, expected an operation") != std::string::npos);
    broken = whole;
    broken.replace(broken.find("ranks 1-2"), 9, "ranks 0-2");
    QVERIFY(errorOf(broken).find("rank 0 has a body already") != std::string::npos);
    broken = whole;
    broken.replace(broken.find("ranks 1-2"), 9, "ranks 1-1");
    QVERIFY(errorOf(broken).find("rank 2 has no body") != std::string::npos);
  }

  // Any bytes give an error or a plan, and a plan survives a round trip through text.
  void mutatedTextIsReadSafely() {
    const std::string whole = text(samplePlan());
    constexpr std::uint64_t kSeed = 20240501;
    std::uint64_t drawn = 0;
    const auto below = [&](std::size_t limit) {
      return static_cast<std::size_t>(randomBits(kSeed, drawn++) % limit);
    };
    constexpr std::string_view kPieces[] = {"{",
                                            "}",
                                            "[",
                                            "]",
                                            "%",
                                            "-1",
                                            "99999999999999999999",
                                            "9223372036854775807",
                                            "\"",
                                            "\\",
                                            "nan",
                                            "1e999",
                                            "view of %0",
                                            "x",
                                            "\n",
                                            "\0\xff",
                                            "ranks 0-9"};
    int plans = 0;
    for (int round = 0; round < 4000; ++round) {
      std::string mutated = whole;
      const std::size_t changes = 1 + below(4);
      for (std::size_t i = 0; i < changes; ++i) {
        const std::size_t at = below(mutated.size());
        switch (below(4)) {
          case 0:
            mutated[at] = static_cast<char>(below(256));
            break;
          case 1:
            mutated.erase(at, 1 + below(40));
            break;
          case 2:
            mutated.insert(at, kPieces[below(std::size(kPieces))]);
            break;
          default:
            mutated.insert(at, mutated.substr(below(mutated.size()), below(80)));
        }
      }
      const auto parsed = parse(mutated);
      if (!parsed.ok()) {
        QVERIFY(parsed.error().what.text().starts_with("plan:"));
        continue;
      }
      ++plans;
      (void)verify(*parsed);
      const std::string again = text(*parsed);
      const auto second = parse(again);
      QVERIFY2(second.ok(), second.ok() ? "" : second.error().text().c_str());
      QCOMPARE(text(*second), again);
    }
    QVERIFY(plans > 0);
  }
};

QTEST_GUILESS_MAIN(PlanTextTest)
#include "plan_text_test.moc"
