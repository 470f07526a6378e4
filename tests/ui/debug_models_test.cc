// The models of what is seen of a node from afar, without a window.
#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QSortFilterProxyModel>
#include <QTest>
#include <QTextDocument>
#include <algorithm>
#include <random>

#include "ui/models/debug_models.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"

using namespace lockstep::ui;
namespace app = lockstep::app;

namespace {

std::string oddText(std::mt19937& random) {
  const std::string alphabet("ab<b>&\n\t\x1b[31m\x07\0é\xe2\x80\xae", 20);
  std::string out;
  for (std::size_t length = random() % 12; out.size() < length;)
    out += alphabet[random() % alphabet.size()];
  return out;
}

app::RankStacks oddStacks(std::mt19937& random) {
  app::RankStacks out;
  out.rank = 1;
  for (std::size_t threads = random() % 6; out.threads.size() < threads;) {
    app::ThreadStack thread{static_cast<int>(random() % 100000),
                            oddText(random),
                            oddText(random),
                            {},
                            static_cast<double>(random() % 1000) * 1e-6};
    for (std::size_t frames = random() % 5; thread.frames.size() < frames;)
      thread.frames.push_back(oddText(random));
    out.threads.push_back(std::move(thread));
  }
  return out;
}

bool isPlain(const QString& text) {
  return std::none_of(text.begin(), text.end(), [](QChar c) {
    return c.category() == QChar::Other_Control || c.category() == QChar::Other_Format;
  });
}

}  // namespace

class DebugModelsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() { Theme::instance().apply(Theme::Mode::kLight); }

  void stacks() {
    std::mt19937 random(11);
    StackModel model;
    QAbstractItemModelTester tester(&model);
    for (int round = 0; round < 50; ++round) {
      const app::RankStacks stacks = oddStacks(random);
      model.setStacks(stacks);
      QCOMPARE(model.rowCount(), static_cast<int>(stacks.threads.size()));
      for (int row = 0; row < model.rowCount(); ++row) {
        const auto& thread = stacks.threads[static_cast<std::size_t>(row)];
        const QModelIndex index = model.index(row, 0);
        QVERIFY(index.data().toString().contains(QString::number(thread.tid)));
        QVERIFY(isPlain(index.data().toString()));
        QVERIFY(isPlain(model.index(row, StackModel::kState).data().toString()));
        QCOMPARE(model.rowCount(index), static_cast<int>(thread.frames.size()));
        for (int frame = 0; frame < model.rowCount(index); ++frame) {
          const QModelIndex below = model.index(frame, 0, index);
          QCOMPARE(below.data().toString(),
                   plainText(thread.frames[static_cast<std::size_t>(frame)]));
          QVERIFY(isPlain(below.data().toString()));
          // Shown as it is, or as HTML in which it is escaped.
          const QString tip = below.data(Qt::ToolTipRole).toString();
          if (Qt::mightBeRichText(tip))
            QVERIFY(!tip.contains('<'));
          else
            QCOMPARE(tip, below.data().toString());
          QCOMPARE(below.parent(), index);
        }
      }
    }
    app::RankStacks one;
    one.threads.push_back({7, "lockstep-agent", "S (sleeping)", {"poll (libc.so.6)"}, 0.0012});
    model.setStacks(one);
    QCOMPARE(model.index(0, 0).data().toString(), "Thread 7 lockstep-agent");
    QVERIFY(model.index(0, StackModel::kStopped).data().toString().contains("1.2"));
    QSignalSpy header(&model, &QAbstractItemModel::headerDataChanged);
    model.retranslate();
    QCOMPARE(header.size(), 1);
    QCOMPARE(app::stacksText(one), "thread 7 lockstep-agent, S (sleeping)\n  poll (libc.so.6)\n");
  }

  void processes() {
    std::mt19937 random(12);
    ProcessModel model;
    QSortFilterProxyModel sorted;
    sorted.setSourceModel(&model);
    sorted.setSortRole(ProcessModel::kSortRole);
    QAbstractItemModelTester tester(&model), testerOfSorted(&sorted);
    for (int round = 0; round < 30; ++round) {
      app::NodeProcesses list;
      for (std::size_t count = random() % 9; list.processes.size() < count;) {
        app::NodeProcess one;
        one.pid = static_cast<int>(random() % 4'000'000);
        one.user = oddText(random);
        one.cores = static_cast<double>(random() % 1000) / 100;
        one.memoryBytes = static_cast<std::int64_t>(random()) * 16;
        one.threads = static_cast<int>(random() % 100);
        one.state = oddText(random);
        one.command = oddText(random);
        one.part = random() % 2 == 0 ? "" : "worker";
        one.rank = one.part.empty() ? -1 : static_cast<int>(random() % 3) - 1;
        list.processes.push_back(std::move(one));
      }
      model.setProcesses(list);
      QCOMPARE(model.rowCount(), static_cast<int>(list.processes.size()));
      for (int column = 0; column < ProcessModel::kColumns; ++column) {
        sorted.sort(column, Qt::DescendingOrder);
        for (int row = 0; row < model.rowCount(); ++row)
          QVERIFY(isPlain(model.index(row, column).data().toString()));
      }
      sorted.sort(ProcessModel::kMemory, Qt::DescendingOrder);
      for (int row = 1; row < sorted.rowCount(); ++row)
        QVERIFY(
            sorted.index(row, ProcessModel::kMemory).data(ProcessModel::kSortRole).toLongLong() <=
            sorted.index(row - 1, ProcessModel::kMemory)
                .data(ProcessModel::kSortRole)
                .toLongLong());
    }
    app::NodeProcesses list;
    app::NodeProcess rank;
    rank.pid = 41;
    rank.cores = 1.87;
    rank.part = "worker";
    rank.rank = 3;
    rank.command = "lockstep-agent worker\x1b[2J";
    list.processes = {rank};
    model.setProcesses(list);
    QCOMPARE(model.index(0, ProcessModel::kPart).data().toString(), "rank 3");
    QCOMPARE(model.index(0, ProcessModel::kCpu).data().toString(), "187 %");
    QVERIFY(tableText(model).contains("41\t"));
    QVERIFY(isPlain(model.index(0, ProcessModel::kCommand).data().toString()));
    QCOMPARE(model.index(0, 0).data(ProcessModel::kToneRole).toInt(), int(Tone::kActive));
  }

  void kernelMessages() {
    std::mt19937 random(13);
    KernelLogModel model;
    QAbstractItemModelTester tester(&model);
    for (int round = 0; round < 30; ++round) {
      std::vector<app::KernelLine> lines;
      for (std::size_t count = random() % 9; lines.size() < count;)
        lines.push_back({static_cast<int>(random() % 12) - 2, 0,
                         static_cast<std::int64_t>(random()) << 30, oddText(random)});
      model.setLines(lines);
      QCOMPARE(model.rowCount(), static_cast<int>(lines.size()));
      for (int row = 0; row < model.rowCount(); ++row) {
        QVERIFY(!model.index(row, KernelLogModel::kLevel).data().toString().isEmpty());
        QVERIFY(isPlain(model.index(row, KernelLogModel::kText).data().toString()));
      }
    }
    model.setLines({{3, 0, 0, "oom"}, {4, 0, 0, "hot"}, {6, 0, 0, "x"}});
    const auto tone = [&](int row) {
      return model.index(row, 0).data(KernelLogModel::kToneRole).toInt();
    };
    QCOMPARE(tone(0), int(Tone::kBad));
    QCOMPARE(tone(1), int(Tone::kWarning));
    QCOMPARE(tone(2), int(Tone::kNeutral));
    QVERIFY(tableText(model).endsWith("info\tx\n"));
  }
};

QTEST_MAIN(DebugModelsTest)
#include "debug_models_test.moc"
