// Values in lines of output: what common programs print, patterns of one's own, and any bytes.
#include <QTest>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "agent/workload/output_metrics.h"
#include "engine/base/utf8.h"
#include "engine/specs/workload.h"

using namespace lockstep;
using agent::OutputMetrics;

namespace {

OutputMetrics metricsOf(const std::vector<std::string>& patterns = {}) {
  auto out = OutputMetrics::make(patterns);
  LOCKSTEP_CHECK(out.ok(), "{}", out.error().text());
  return std::move(*out);
}

// "loss 10 0.5": tag, step and value of each.
std::string textOf(const std::vector<run::v1::Scalar>& scalars) {
  std::string out;
  for (const auto& scalar : scalars)
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", scalar.tag(), scalar.step(),
                       scalar.value());
  return out;
}

std::string found(std::string_view line, const std::vector<std::string>& patterns = {}) {
  return textOf(metricsOf(patterns).of(line));
}

struct Case {
  std::string_view line;
  const char* expected;
};

// Lines as programs print them.
const Case kUsual[] = {
    {"step 10 loss 0.5", "loss 10 0.5"},
    {"Step: 10/100, Loss: 0.51", "loss 10 0.51"},
    {"[step=10] loss=1.2e-3", "loss 10 0.0012"},
    {"step = 10, loss = 5.", "loss 10 5"},
    {"Step #7: the loss: .5e+1.", "loss 7 5"},
    {"Epoch [1/5], Step [100/600], Loss: 2.3", "loss 100 2.3"},
    {"global_step 12 | train_loss: 0.25", "loss 12 0.25"},
    {"Iteration 5: loss -0.5", "loss 5 -0.5"},
    {"iter 250: loss 2.5, time 15.2ms, mfu 3.1%", "loss 250 2.5"},
    {"step 250: train loss 1.5, val loss 2.25", "loss 250 1.5"},
    {" iteration       10/  100 | lm loss: 6.5E+00 | loss scale: 4096.0 |", "loss 10 6.5"},
    {"{'loss': 0.69, 'learning_rate': 1e-05, 'epoch': 0.01}", "loss 1 0.69"},
    {"{'loss': '0.69', 'grad_norm': '1.5', 'epoch': '0.01'}", "loss 1 0.69"},
    {"{'eval_loss': 0.3, 'eval_accuracy': 0.9, 'epoch': 1.0}", ""},
    {R"({"step": 10, "loss": 0.5, "acc": 0.75})", "loss 10 0.5, accuracy 10 0.75"},
    {"epoch 3 loss: nan", "loss 1 nan"},
    {"epoch 3 loss: -Inf", "loss 1 -inf"},
    {"loss tensor(0.5, device='cuda:0', grad_fn=<NllLossBackward0>)", "loss 1 0.5"},
    {"10/938 [====>] - ETA: 3s - loss: 0.4 - accuracy: 0.9", "loss 10 0.4, accuracy 10 0.9"},
    {"37/938 ━━━━ 2s 2ms/step - accuracy: 0.9 - loss: 0.3", "loss 37 0.3, accuracy 37 0.9"},
    {"Epoch: [0][ 10/5005]\tTime  0.5 ( 1.0)\tLoss 6.5e+00 (7.0e+00)\tAcc@1   0.25 (  0.39)",
     "loss 1 6.5, accuracy 1 0.25"},
    {"Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.25", "loss 1 2.25"},
    {"Epoch 0:  70%|###| 7/10 [00:01<00:00, 9.1it/s, v_num=3, train_loss=0.5]", "loss 7 0.5"},
    {"|    loss                 | 0.0125   |", "loss 1 0.0125"},
    {"Accuracy: 98.5%, loss 0.5s", "accuracy 1 98.5"},
    {"training loss 0.5", "loss 1 0.5"},
    {"train/loss: 0.5", "loss 1 0.5"},
};

// Lines that look as if they had values.
const std::string_view kNone[] = {
    "lossless 5",
    "val_loss=0.3",
    "val loss: 0.3",
    "eval/loss = 0.3",
    "Validation loss 0.3, test accuracy 0.9",
    "blackloss 5",
    "loss5",
    "loss: information 5",
    "loss nano 5",
    "loss 1.2.3",
    "loss: 0.5ms",
    "loss: 1e",
    "loss scale: 4096",
    "loss",
    "step 10",
    "Accuracy: 9815/10000 (98%)",
    "accelerate 5",
    "",
};

// As the terminal would show them.
const Case kTerminal[] = {
    {"\r  0%| | loss=9\r 10%|# | loss=0.5", "loss 1 0.5"},
    {"step 3 loss 9\rstep 4 loss 0.5\r", "loss 4 0.5"},
    {"step 3 loss 0.5\r\n", "loss 3 0.5"},
    {"step 3 loss 0.5\r\r\n", "loss 3 0.5"},
    {"step 3 loss 0.5\r            \r", ""},
    {"step 3 loss 9\r\x1b[2Kstep 4 loss 0.5", "loss 4 0.5"},
    {"\x1b[1;31mloss\x1b[0m: \x1b[38;2;1;2;3m0.5\x1b[m", "loss 1 0.5"},
    {"lo\x1b[0mss: 0.\x1b]0;a title\x07"
     "5",
     "loss 1 0.5"},
    {"\x1b]8;;http://loss=7\x1b\\loss=0.5\x1b]8;;\x1b\\", "loss 1 0.5"},
    {"\x1b(Bloss: 0.5\x1b", "loss 1 0.5"},
    {"loss: 0.5\x1b[", "loss 1 0.5"},
    {"loss: 0.5\x1b]0;", "loss 1 0.5"},
    {"\x1b\x1b[0mloss: 0.5", "loss 1 0.5"},
    {"\xff\xfe loss: 0.5 \xe4\xb8", "loss 1 0.5"},
    {std::string_view("\0loss: 0.5\0", 11), "loss 1 0.5"},
};

}  // namespace

class OutputMetricsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void usualLinesAreRead() {
    for (const auto& [line, expected] : kUsual)
      QVERIFY2(found(line) == expected, fmt::format("{}: {}", line, found(line)).c_str());
    for (const std::string_view line : kNone)
      QVERIFY2(found(line).empty(), fmt::format("{}: {}", line, found(line)).c_str());
  }

  // Every usual line between other words, on a terminal, and beside bytes of any kind.
  void surroundingsDoNotMatter() {
    std::mt19937_64 random(5);
    const std::string_view before[] = {"",
                                       "[rank 0] ",
                                       "2024-05-01 10:00:00,123 INFO ",
                                       "\x1b[1m",
                                       "loss=7 step 3\r",
                                       "训练 ",
                                       "\xff\x80 ",
                                       "(a) "};
    const std::string_view after[] = {"",        "\r",       "\r\n",  " ",
                                      "\x1b[0m", "\x1b[K\r", " 完成", " \xe4"};
    for (int i = 0; i < 1000; ++i) {
      const auto& [line, expected] = kUsual[random() % std::size(kUsual)];
      const std::string text = std::string(before[random() % std::size(before)]) +
                               std::string(line) + std::string(after[random() % std::size(after)]);
      QVERIFY2(found(text) == expected, fmt::format("{}: {}", text, found(text)).c_str());
    }
  }

  // Any number in any of the forms in which programs print it is read back.
  void numbersAreRead() {
    std::mt19937_64 random(6);
    OutputMetrics metrics = metricsOf();
    for (int i = 0; i < 20000; ++i) {
      const double value = std::ldexp(static_cast<double>(random() >> 11) + 1,
                                      static_cast<int>(random() % 200) - 150) *
                           (random() % 4 == 0 ? -1 : 1);
      const auto step = static_cast<std::int64_t>(random() >> (1 + random() % 63));
      const int form = static_cast<int>(random() % 4);
      const std::string number = form == 0   ? fmt::format("{}", value)
                                 : form == 1 ? fmt::format("{:.17e}", value)
                                 : form == 2 ? fmt::format("{:+.17E}", value)
                                             : fmt::format("{:.17g}", value);
      const char* const separators[] = {" ", "=", ": ", " = ", "': ", "\": "};
      const std::string line =
          fmt::format("step{}{}, loss{}{}", separators[random() % std::size(separators)], step,
                      separators[random() % std::size(separators)], number);
      const auto scalars = metrics.of(line);
      QVERIFY2(scalars.size() == 1, line.c_str());
      QVERIFY2(scalars[0].value() == value && scalars[0].step() == step, line.c_str());
    }
  }

  void whatTheTerminalDoesNotShowDoesNotCount() {
    for (const auto& [line, expected] : kTerminal)
      QVERIFY2(found(line) == expected,
               fmt::format("{}: {}, expected {}", validUtf8(line), found(line), expected).c_str());
  }

  void groupsAreTags() {
    const std::string two = R"((?P<a>\S+) (\S+) (?P<b>\S+);)";
    QCOMPARE(found("1 2 3; 4 5 6;", {two}), std::string("a 1 1, b 1 3, a 2 4, b 2 6"));
    QCOMPARE(found("x 2 3; 4 5 y; nan 0 +inf;", {two}),
             std::string("b 1 3, a 1 4, a 2 nan, b 2 inf"));
    QCOMPARE(found("+5 0 +-5; - 0 1e999; 0x10 0 1,5;", {two}), std::string("a 1 5"));
    // Patterns come in their order; each may give the step, and the first one counts.
    QCOMPARE(found("v=1 at 7 of 9", {R"(v=(?P<v>\d))", R"((at|of) (?P<step>\d))"}),
             std::string("v 7 1"));
    QCOMPARE(found("1 2", {R"(^\d (?P<b>\d))", R"((?P<a>\d))"}),
             std::string("b 1 2, a 1 1, a 2 2"));
    // Of alternatives, the one that matches.
    QCOMPARE(found("a3", {R"(a(?P<a>\d)|b(?P<b>\d))"}), std::string("a 1 3"));
    QCOMPARE(found("ab1c23", {R"((?P<a>\d*))"}), std::string("a 1 1, a 2 23"));
    QCOMPARE(found("损失：0.5", {R"([损失]{2}：(?P<loss>[\d.]+))"}), std::string("loss 1 0.5"));
    // Bytes that are no UTF-8 are characters too.
    QCOMPARE(found("s 3 \xff\xc0 v 0.5", {R"(s (?P<step>\d+).*v (?P<v>\S+))"}),
             std::string("v 3 0.5"));
  }

  void aStepIsAWholeNumber() {
    const std::vector<std::string> patterns = {R"(s=(?P<step>\S+))", R"(v=(?P<v>\S+))"};
    for (const char* wrong : {"-1", "1.5", "1e3", "9223372036854775808", "nan", "x", "+-1", "0x1"})
      QCOMPARE(found(fmt::format("s={} v=2", wrong), patterns), std::string("v 1 2"));
    QCOMPARE(found("s=x s=+4 s=5 v=2", patterns), std::string("v 4 2"));
    QCOMPARE(found("s=0 v=2", patterns), std::string("v 0 2"));
  }

  // As told by hand: a step of the line, or else the one after the last of the tag.
  void stepsAreCounted() {
    std::mt19937_64 random(7);
    OutputMetrics metrics = metricsOf({R"(s(?P<step>\d+))", R"(a(?P<a>\d+))", R"(b(?P<b>\d+))"});
    std::map<std::string, std::int64_t> last;
    for (int i = 0; i < 3000; ++i) {
      std::string line;
      std::vector<std::string> tags[2];
      for (std::size_t j = random() % 5; j > 0; --j) {
        const bool isB = random() % 2 == 0;
        line += isB ? "b1 " : "a1 ";
        tags[isB ? 1 : 0].emplace_back(isB ? "b" : "a");
      }
      std::optional<std::int64_t> step;
      if (random() % 3 == 0) {
        step = static_cast<std::int64_t>(random() % 1000);
        line += fmt::format("s{}", *step);
      }
      std::string expected;
      for (const auto& several : tags)
        for (const std::string& tag : several) {
          last[tag] = step ? *step : last[tag] + 1;
          expected += fmt::format("{}{} {} 1", expected.empty() ? "" : ", ", tag, last[tag]);
        }
      QCOMPARE(textOf(metrics.of(line)), expected);
    }
    const auto most = std::numeric_limits<std::int64_t>::max();
    metrics.of(fmt::format("s{} a1", most));
    QCOMPARE(textOf(metrics.of("a2")), fmt::format("a {} 2", most));
  }

  // As drawn by Keras 2, whose last values of an epoch are right only in the line that stays, Keras
  // 3, and tqdm. One bar continues the steps of the one before.
  void progressBarsTellTheStep() {
    const Case lines[] = {
        {" 4/10 [==>...] - ETA: 0s - loss: 3.0\b\b\b\r", "loss 4 3"},
        {"10/10 [======] - ETA: 0s - loss: 2.5\b\b\b\r", ""},
        {"10/10 [======] - 0s 24ms/step - loss: 0.5", "loss 10 0.5"},
        {" 1/10 [>.....] - ETA: 0s - loss: 0.25\r", "loss 11 0.25"},
        {"\x1b[1m 9/10\x1b[0m \x1b[32m━━━\x1b[0m \x1b[1m0s\x1b[0m 20ms/step - loss: 0.125",
         "loss 19 0.125"},
        {"checking 5/8 [loud]", ""},
        {" 20%|##  | 1/5 [00:01<00:04, 1.0it/s, loss=2]\r", "loss 20 2"},
        {"100%|####| 5/5 [00:05<00:00, 1.0it/s, loss=1]", "loss 24 1"},
        {"938/938 - 2s - 2ms/step - loss: 4 - val_loss: 0.4", "loss 962 4"},
        {"938/938 - 2s - 2ms/step - loss: 5 - val_loss: 0.4", "loss 1900 5"},
        {"loss 6", "loss 1901 6"},
        {"step 7 loss 7 of 3/4 [more]", "loss 7 7"},
    };
    OutputMetrics metrics = metricsOf();
    for (const auto& [line, expected] : lines)
      QCOMPARE(textOf(metrics.of(line)), std::string(expected));
    for (int i = 0; i < 2000; ++i) metrics.of("999999999999999/999999999999999 [ loss 1");
    QCOMPARE(textOf(metrics.of("999999999999999/999999999999999 [ loss 1")),
             fmt::format("loss {} 1", (std::int64_t{1} << 60) + 999999999999999));
  }

  void longLinesHaveLimits() {
    std::string line;
    while (line.size() < (64 << 10)) line += "loss 0.5 accuracy 0.25 ";
    OutputMetrics metrics = metricsOf();
    QCOMPARE(metrics.of(line).size(), OutputMetrics::kMostValues);
    // Matches without values, and empty ones.
    for (const char* pattern :
         {"(?P<a>)", "(?P<a>x*)", "(?P<a>.)", "(?P<a>(a|aa)*)b?", ".*?(?P<a>z)"})
      QVERIFY(found(std::string(64 << 10, 'a'), {pattern}).empty());
  }

  void wrongPatternsAreRefused() {
    const auto wrong = OutputMetrics::make({R"((?P<a>\d))", "(?P<a>"});
    QVERIFY(!wrong.ok());
    QCOMPARE(wrong.error().code, Code::kInvalidArgument);
    QCOMPARE(wrong.error().field, std::string("workload.metrics.stdout[1]"));
    QVERIFY(!OutputMetrics::make({"loss=(.*)"}).ok());
    QVERIFY(!OutputMetrics::make({"(?P<a>.)\xff"}).ok());
    for (const std::string_view pattern : specs::kDefaultPatterns)
      QVERIFY(specs::checkPattern("p", std::string(pattern)).ok());
  }

  // Whatever the bytes: tags are groups, and there are not too many values.
  void anyBytesAreALine() {
    std::mt19937_64 random(8);
    OutputMetrics metrics = metricsOf();
    const std::string_view words[] = {"loss=1 ", "loss",         "step", "=",   ": ", "\x1b[",
                                      "\x1b]",   "\r",           "0.5",  "nan", "1e", "m",
                                      "\\",      "\xe4\xb8\x80", "\xff", "acc", "\n"};
    std::size_t values = 0;
    for (int i = 0; i < 20000; ++i) {
      std::string line;
      for (std::size_t parts = random() % 30; parts > 0; --parts)
        if (random() % 3 != 0)
          line += words[random() % std::size(words)];
        else
          line += static_cast<char>(random());
      const auto scalars = metrics.of(line);
      values += scalars.size();
      QVERIFY(scalars.size() <= OutputMetrics::kMostValues);
      for (const auto& scalar : scalars) {
        QVERIFY(scalar.tag() == "loss" || scalar.tag() == "accuracy");
        QVERIFY(scalar.step() >= 0);
      }
    }
    QVERIFY(values > 100);
  }
};

QTEST_GUILESS_MAIN(OutputMetricsTest)
#include "output_metrics_test.moc"
