// Words of the command line, JSON lines, text for terminals, the order of a run's story.
#include <QTest>
#include <cmath>

#include "app/cli/arguments.h"
#include "app/cli/command.h"
#include "app/cli/json_line.h"
#include "app/cli/run_report.h"
#include "app/cli/terminal.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::cli;

class CliTextTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void words() {
    const Grammar grammar{{"cluster=", "set=", "json", "every="}, 1, 1, "run SPEC"};
    const auto good = Arguments::parse(
        {"--json", "a.yaml", "--set=x=1", "--set", "y=2", "--every", "3"}, grammar);
    QVERIFY(good.ok());
    QCOMPARE(good->words(), std::vector<std::string>{"a.yaml"});
    QVERIFY(good->has("json"));
    QCOMPARE(good->all("set"), (std::vector<std::string>{"x=1", "y=2"}));
    QCOMPARE(*good->integer("every", 0, 1, 10), 3);
    QVERIFY(!good->integer("every", 0, 1, 2).ok());
    QVERIFY(!Arguments::parse({"a", "b"}, grammar).ok());
    QVERIFY(!Arguments::parse({}, grammar).ok());
    QVERIFY(!Arguments::parse({"a", "--json=1"}, grammar).ok());
    QVERIFY(!Arguments::parse({"a", "--set"}, grammar).ok());
    const auto wrong = Arguments::parse({"a", "--cluser", "x"}, grammar);
    QVERIFY(!wrong.ok());
    QVERIFY(wrong.error().what.find("did you mean --cluster?") != std::string::npos);
    QVERIFY(Arguments::parse({"--", "--json"}, grammar)->words()[0] == "--json");
  }

  void jsonLines() {
    const std::string line = JsonLine("step")
                                 .add("step", 3)
                                 .add("loss", 1.0 / 3)
                                 .add("nan", NAN)
                                 .add("inf", INFINITY)
                                 .add("text", "a\"b\n")
                                 .text();
    QCOMPARE(line, std::string("{\"event\":\"step\",\"step\":3,\"loss\":0.333333333,\"nan\":null,"
                               "\"inf\":null,\"text\":\"a\\\"b\\n\"}"));
    Error error = makeError(Code::kNotFound, "no file");
    error.node = "n1";
    error.rank = 2;
    QCOMPARE(errorLine(error).text(),
             std::string("{\"event\":\"error\",\"code\":\"not-found\",\"node\":\"n1\",\"rank\":2,"
                         "\"step\":-1,\"what\":\"no file\",\"why\":\"\",\"next\":\"\"}"));
  }

  void exitCodes() {
    Error error = makeError(Code::kNotFound, "no spec");
    QCOMPARE(exitCodeOf(error), int(kBadInput));
    error.node = "local1";
    QCOMPARE(exitCodeOf(error), int(kNode));
    QCOMPARE(exitCodeOf(makeError(Code::kCancelled, "x")), int(kStoppedByUser));
    QCOMPARE(exitCodeOf(makeError(Code::kAborted, "x")), int(kRunFailed));
    QCOMPARE(exitCodeOf(makeError(Code::kUnavailable, "x")), int(kNode));
  }

  void terminalText() {
    QCOMPARE(width("\x1b[31mloß\x1b[0m"), std::size_t(3));
    QCOMPARE(fit("abcdef", 4), std::string("abc…"));
    QCOMPARE(fit("\x1b[31mabcdef\x1b[0m", 4), std::string("\x1b[31mabc…\x1b[0m"));
    QCOMPARE(fit("abcd", 4), std::string("abcd"));
    QCOMPARE(padded("ab", 4, true), std::string("  ab"));
    QCOMPARE(sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 8), std::string("▁▂▃▄▅▆▇█"));
    QCOMPARE(sparkline({1, 1, NAN}, 8), std::string("▁▁×"));
    QCOMPARE(bar(0.5, 4), std::string("━━──"));
    QCOMPARE(durationText(3723), std::string("1:02:03"));
    QCOMPARE(bytesText(1536), std::string("1.5 KiB"));
    Table table{{"a", "b"}, {false, true}, {{"x", "10"}, {"long", "1"}}};
    QCOMPARE(table.text(), std::string("a      b\nx     10\nlong   1\n"));
  }

  void storyKeepsOrder() {
    RunContext context;
    RunStory story;
    story.begin(context);
    RunUpdate update;
    update.series.push_back({"loss", {{1, 0.9}, {2, 0.8}, {3, 0.7}}});
    update.epochs.push_back({1, 2, 0.85, 0.8, 0.7});
    update.epochs.push_back({2, 4, 0.6, 0.5, 0.8});
    const auto text = [](const std::vector<RunStory::Item>& items) {
      std::string out;
      for (const auto& item : items)
        out += item.step ? fmt::format("s{}.{} ", item.step->step, item.step->epoch)
                         : fmt::format("e{} ", item.epoch->epoch);
      return out;
    };
    QCOMPARE(text(story.take(update)), std::string("s1.1 s2.1 e1 s3.2 "));
    QCOMPARE(text(story.take(update)), std::string());  // told once
    RunUpdate more;
    more.series.push_back({"loss", {{3, 0.7}, {4, 0.6}, {5, 0.5}}});
    QCOMPARE(text(story.take(more)), std::string("s4.2 e2 s5.3 "));
    RunUpdate end;
    end.epochs.push_back({3, 7, 0.1, 0.1, 0.9});
    QCOMPARE(text(story.take(end)), std::string());
    QCOMPARE(text(story.rest()), std::string("e3 "));
  }

  void stepsThatUpdateNothingAreNamed() {
    RunUpdate update;
    update.series.push_back({"loss", {{1, 0.9}, {2, 0.8}, {3, 0.7}}});
    QVERIFY(RunStory::scaleNotes(update).empty());
    update.series.push_back({"loss_scale", {{1, 65536}, {2, 32768}, {3, 16384}}});
    QVERIFY(RunStory::scaleNotes(update).empty());
    update.series.push_back({"skipped", {{1, 1}, {2, 1}}});
    const auto notes = RunStory::scaleNotes(update);
    QCOMPARE(notes.size(), std::size_t{1});
    QCOMPARE(notes[0], std::string("gradients are too large for fp16, nothing is updated in step 1, 2; the loss scale is 16384"));
  }

  void resumedStoryCountsOn() {
    RunContext context;
    context.scope.before = {{1, 100, 0, 0, 0}, {2, 200, 0, 0, 0}};
    RunStory story;
    story.begin(context);
    RunUpdate update;
    update.series.push_back({"loss", {{101, 0.5}, {200, 0.4}, {201, 0.3}}});
    update.epochs.push_back({2, 200, 0, 0, 0});
    const auto items = story.take(update);
    QCOMPARE(items.size(), std::size_t(4));
    QCOMPARE(items[0].step->epoch, 2);
    QVERIFY(items[2].epoch.has_value());
    QCOMPARE(items[3].step->epoch, 3);
  }
};

QTEST_GUILESS_MAIN(CliTextTest)
#include "cli_text_test.moc"
