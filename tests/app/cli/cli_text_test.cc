// JSON lines, text for terminals, the order of a run's story, Ctrl-C.
#include <QTest>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "app/cli/command.h"
#include "app/cli/json_line.h"
#include "app/cli/run_report.h"
#include "app/cli/run_view.h"
#include "app/cli/terminal.h"

using namespace lockstep;
using namespace lockstep::app;
using namespace lockstep::app::cli;

class CliTextTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
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
    QCOMPARE(
        errorLine(error).text(),
        std::string("{\"event\":\"error\",\"code\":\"not-found\",\"node\":\"n1\",\"rank\":2,"
                    "\"step\":-1,\"what\":\"no file\",\"field\":\"\",\"why\":\"\",\"next\":\"\"}"));
  }

  // Read by programs, and at times by a terminal: whatever a node says is printable ASCII.
  void jsonLinesRunNothing() {
    QCOMPARE(JsonLine("log")
                 .add("text",
                      "\xc2\x9b"
                      "31m\x7f 中")
                 .text(),
             std::string("{\"event\":\"log\",\"text\":\"\\u009b31m\\u007f \\u4e2d\"}"));
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
      std::string text(random() % 40, '\0');
      for (char& byte : text) byte = static_cast<char>(random());
      Error error = makeError(Code::kNotFound, "{}", text);
      error.node = error.why = error.next = text;
      error.remedies.push_back({{"training.batch", text}});
      for (const char c : errorLine(error).text() + JsonLine(text).add(text, text).text())
        QVERIFY2(c >= 0x20 && c < 0x7f, text.c_str());
    }
  }

  // What is not known is null for programs and a dash for people, never 0 or nan.
  void unknownFigures() {
    app::RunFigures figures;
    figures.metric = "auc";
    QCOMPARE(
        JsonLine().add(figures).text(),
        std::string(
            "{\"steps\":0,\"epochs\":0,\"train_loss\":null,\"eval_loss\":null,\"eval_auc\":null,"
            "\"samples_per_second\":null,\"lost_seconds\":0,\"joules\":null,\"weights_sha256\":"
            "\"\"}"));
    figures.steps = 7;
    figures.evalLoss = 0.5;
    figures.evalMetric = -NAN;  // of one class alone
    QCOMPARE(
        JsonLine().add(figures).text(),
        std::string(
            "{\"steps\":7,\"epochs\":0,\"train_loss\":null,\"eval_loss\":0.5,\"eval_auc\":null,"
            "\"samples_per_second\":null,\"lost_seconds\":0,\"joules\":null,\"weights_sha256\":"
            "\"\"}"));
    for (const std::string metric : {"accuracy", "auc", "perplexity"})
      for (const double value : {NAN, -NAN}) QVERIFY(metricText(metric, value).ends_with(" –"));
    QCOMPARE(lossText(-NAN), std::string("–"));
    QCOMPARE(lossText(0.25, 6), std::string("0.250000"));
    const std::string resumed = resultText({"succeeded", figures, {}});
    QVERIFY2(resumed.starts_with(
                 "succeeded after 7 steps, 0 epochs; nothing was left to train, test loss 0.5000"),
             resumed.c_str());
    QVERIFY2(resumed.find("nan") == std::string::npos, resumed.c_str());
    figures.trainLoss = 0.125;
    figures.samplesPerSecond = 10;
    QVERIFY(resultText({"succeeded", figures, "no model"})
                .ends_with("; train loss 0.1250, test loss 0.5000, test AUC –; "
                           "10 samples/s; no model"));
  }

  void aRowOfATableIsOneLine() {
    Table table;
    table.header = {"model", "state"};
    table.rows = {{"two\nlines\t", "running"}, {"one", "failed"}};
    QCOMPARE(table.text(),
             std::string("model       state\ntwo lines   running\none         failed\n"));
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

  // What a file or a node says is shown; only the command's own colours are interpreted.
  void foreignControlsAreShown() {
    const Style colours(true);
    QCOMPARE(shown("a\x1b[31mb\x07\r\x7f\tc\n"), std::string("a\\x1b[31mb\\x07\\x0d\\x7f\tc\n"));
    QCOMPARE(shown("\xc2\x9b"
                   "31m \xe2\x80\xae"
                   "x\xe2\x81\xa6 ü中"),
             std::string("\\u009b31m \\u202ex\\u2066 ü中"));
    QCOMPARE(shown(colours.red("x\x1b]0;title\x07")),
             std::string("\x1b[31mx\\x1b]0;title\\x07\x1b[0m"));
    QCOMPARE(printable("a\n\tb\x1b"), std::string("a  b\\x1b"));
    QCOMPARE(shown("\xff"
                   "a\xc3\xa9\xc3"),
             std::string("\\xff"
                         "a\xc3\xa9\\xc3"));
    QCOMPARE(shown(printable(colours.red("a\nb"))), std::string("\x1b[31ma b\x1b[0m"));
    // Any bytes: nothing that a terminal acts on gets through, and what is text stays.
    std::mt19937 random(11);
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (unsigned i = random() % 40; i > 0; --i)
        text += random() % 3 == 0   ? std::string(1, static_cast<char>(random() % 256))
                : random() % 2 == 0 ? "\x1b["
                                    : "1;m";
      const std::string out = shown(text);
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto c = static_cast<unsigned char>(out[i]);
        QVERIFY((c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t');
        QVERIFY(!(c == 0xc2 && i + 1 < out.size() &&
                  static_cast<unsigned char>(out[i + 1]) >= 0x80 &&
                  static_cast<unsigned char>(out[i + 1]) < 0xa0));
      }
      QCOMPARE(shown(out), out);
    }
  }

  void terminalText() {
    const Style colours(true);
    QCOMPARE(width(colours.red("loß")), std::size_t(3));
    QCOMPARE(fit("abcdef", 4), std::string("abc…"));
    QCOMPARE(shown(fit(colours.red("abcdef"), 4)), std::string("\x1b[31mabc…\x1b[0m"));
    QCOMPARE(fit("abcd", 4), std::string("abcd"));
    QCOMPARE(padded("ab", 4, true), std::string("  ab"));
    QCOMPARE(sparkline({1, 2, 3, 4, 5, 6, 7, 8}, 8), std::string("▁▂▃▄▅▆▇█"));
    QCOMPARE(sparkline({1, 1, NAN}, 8), std::string("▁▁×"));
    QCOMPARE(bar(0.5, 4), std::string("━━──"));
    QCOMPARE(durationText(3723), std::string("1:02:03"));
    QCOMPARE(bytesText(1536), std::string("1.5 KiB"));
    QCOMPARE(numberText(0.123456), std::string("0.1235"));
    QCOMPARE(numberText(65536), std::string("65536"));
    QCOMPARE(flopText(0), std::string("0 k"));
    QCOMPARE(flopText(2570), std::string("2.57 k"));
    QCOMPARE(flopText(967e6), std::string("967 M"));
    QCOMPARE(flopText(1.13e12), std::string("1.13 T"));
    Table table{{"a", "b"}, {false, true}, {{"x", "10"}, {"long", "1"}}};
    QCOMPARE(table.text(), std::string("a      b\nx     10\nlong   1\n"));
  }

  // A Chinese character takes two columns of a terminal, an accent that joins a letter none.
  void columnsAreThoseOfTheTerminal() {
    QCOMPARE(width("一步ä"), std::size_t(5));
    QCOMPARE(width("a\xcc\x81"), std::size_t(1));
    QCOMPARE(fit("一步下", 6), std::string("一步下"));
    QCOMPARE(fit("一步下", 5), std::string("一步…"));
    QCOMPARE(fit("一步下", 4), std::string("一…"));
    const Table table{{"title", "about"}, {false, false}, {{"一步", "x"}, {"overlap", "y"}}};
    QCOMPARE(table.text(), std::string("title    about\n一步     x\noverlap  y\n"));
  }

  void storyKeepsOrder() {
    RunContext context;
    EventSequencer story;
    story.begin(context);
    RunUpdate update;
    update.series.push_back({"loss", {{1, 0.9}, {2, 0.8}, {3, 0.7}}});
    update.epochs.push_back({1, 2, 0.85, 0.8, 0.7});
    update.epochs.push_back({2, 4, 0.6, 0.5, 0.8});
    const auto text = [](const std::vector<EventSequencer::Item>& items) {
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
    QVERIFY(EventSequencer::scaleNotes(update).empty());
    update.series.push_back({"loss_scale", {{1, 65536}, {2, 32768}, {3, 16384}}});
    QVERIFY(EventSequencer::scaleNotes(update).empty());
    update.series.push_back({"skipped", {{1, 1}, {2, 1}}});
    const auto notes = EventSequencer::scaleNotes(update);
    QCOMPARE(notes.size(), std::size_t{1});
    QCOMPARE(notes[0], std::string("gradients are too large for fp16, nothing is updated in step "
                                   "1, 2; the loss scale is 16384"));
  }

  void resumedStoryCountsOn() {
    RunContext context;
    context.scope.before = {{1, 100, 0, 0, 0}, {2, 200, 0, 0, 0}};
    EventSequencer story;
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

  // As when it is pressed in a pager, which does not read meanwhile.
  void ctrlCLosesNoOutput() {
    watchInterrupts();
    int ends[2];
    QCOMPARE(::pipe(ends), 0);
    std::FILE* const to = ::fdopen(ends[1], "w");
    const std::string text(std::size_t{1} << 20, 'x');
    std::size_t got = 0;
    std::thread reader([&, writer = ::pthread_self()] {
      for (int i = 0; i < 10; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ::pthread_kill(writer, SIGINT);
      }
      char bytes[4096];
      for (ssize_t count; (count = ::read(ends[0], bytes, sizeof bytes)) > 0;)
        got += static_cast<std::size_t>(count);
    });
    putRaw(to, text);
    std::fclose(to);
    reader.join();
    ::close(ends[0]);
    QCOMPARE(got, text.size());
    QVERIFY(isInterrupted());
    while (takeInterrupt()) continue;
  }

  // What is left for the next time stays before what is posted meanwhile.
  void anInboxIsDrainedInParts() {
    Inbox inbox;
    std::vector<int> done;
    for (int i = 0; i < 5; ++i)
      inbox.post([&, i] {
        done.push_back(i);
        if (i == 0) inbox.post([&] { done.push_back(5); });
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      });
    QCOMPARE(inbox.drain(std::chrono::milliseconds(0)), std::size_t{1});
    QCOMPARE(inbox.drain(std::chrono::milliseconds(1)), std::size_t{1});
    QCOMPARE(inbox.drain(), std::size_t{4});
    QVERIFY((done == std::vector{0, 1, 2, 3, 4, 5}));
    QCOMPARE(inbox.drain(), std::size_t{0});
  }

  // Whether it is pressed before a wait, while one goes on, or as it is over.
  void eachCtrlCEndsOneWait() {
    watchInterrupts();
    Inbox inbox;
    const int before = interrupts();
    const auto press = [] { std::raise(SIGINT); };
    const auto never = [] { return false; };
    const auto now = [] { return true; };
    const auto soon = [times = 3]() mutable { return --times == 0; };
    QVERIFY(!isInterrupted() && drainUntil(inbox, soon));
    press();
    QVERIFY(isInterrupted() && !drainUntil(inbox, never));
    QVERIFY(!isInterrupted() && drainUntil(inbox, soon));
    press();
    press();
    QVERIFY(!drainUntil(inbox, never));
    QVERIFY(isInterrupted() && !drainUntil(inbox, never));
    QVERIFY(!isInterrupted() && drainUntil(inbox, soon));
    press();
    QVERIFY(drainUntil(inbox, now));  // which was over
    QVERIFY(!drainUntil(inbox, soon));
    int idles = 0;
    QVERIFY(!drainUntil(inbox, never, [&] {
      if (++idles == 2) press();
    }));
    QCOMPARE(idles, 2);
    QVERIFY(!isInterrupted() && drainUntil(inbox, soon));
    QCOMPARE(interrupts() - before, 5);
  }

  // Threads of a search look for it too: it is still taken once.
  void oneCtrlCIsTakenByOneThread() {
    watchInterrupts();
    constexpr int kPresses = 200;
    std::atomic<int> taken = 0;
    std::atomic<bool> isOver = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        while (!isOver || isInterrupted())
          if (takeInterrupt()) ++taken;
      });
    for (int i = 0; i < kPresses; ++i) std::raise(SIGINT);
    isOver = true;
    for (std::thread& thread : threads) thread.join();
    QCOMPARE(taken.load(), kPresses);
    QVERIFY(!isInterrupted() && !takeInterrupt());
  }
};

QTEST_GUILESS_MAIN(CliTextTest)
#include "cli_text_test.moc"
