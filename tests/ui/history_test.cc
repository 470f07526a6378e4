// The history page: filters, tags, notes, overlays and what is told of a run, by mouse and
// keyboard.
#include <QAbstractItemModelTester>
#include <QTest>
#include <QtWidgets>
#include <random>

#include "engine/base/file.h"
#include "tests/ui/history_fixture.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/dialogs/tags_dialog.h"
#include "ui/pages/run_page.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::wait;

class HistoryPageTest : public QObject, tests::HistoryWindow {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    openHistory();
    search_ = page_->findChild<QLineEdit*>("historySearch");
    said_ = page_->findChild<QLabel*>("historySaid");
  }
  void cleanup() { closeHistory(); }

  // Of every run.
  void theTimeLostIsShown() {
    const auto history = app::History::open(home_->home().historyFolder());
    for (const auto& [index, lost] : {std::pair(0, 0.0), {2, 30.0}}) {
      app::RunRow row = *(*history)->row(runs_[index].toStdString());
      row.startedNs = row.createdNs;
      row.finishedNs = row.createdNs + 300'000'000'000;
      row.figures.lostSeconds = lost;
      QVERIFY((*history)->update(row).ok());
      page_->reload();
      page_->selectRun(runs_[index]);
      const InspectorRow effective{"Effective training time", lost > 0 ? "90.0 %" : "100.0 %"};
      QVERIFY(wait([&] { return page_->inspectorRows().contains(effective); }));
      QCOMPARE(page_->inspectorRows().contains(InspectorRow{"Lost to failures", "30.0 s"}),
               lost > 0);
    }
  }

  // As the run's page shows it.
  void energyOfARunIsDivided() {
    page_->selectRun(runs_[2]);
    const auto energyOf = [](const Page& page) {
      QVector<InspectorRow> out;
      for (const InspectorRow& row : page.inspectorRows())
        if (row.name.contains("nergy")) out << row;
      return out;
    };
    QVERIFY(wait([&] { return energyOf(*page_).size() > 4; }));
    const auto rows = energyOf(*page_);
    for (const char* name : {"Energy: computing", "Energy: communication", "Energy: waiting",
                             "Energy: other", "Energy per step", "Predicted energy of its steps"})
      QVERIFY2(
          std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; }),
          name);
    page_->selectRun(runs_[3]);  // nothing of another run is shown
    QVERIFY(energyOf(*page_) != rows);
    const RunPage* run = window_->openRun(runs_[2]);
    QVERIFY(wait([&] { return energyOf(*run) == rows; }));
  }

  // Why auto chose a run's strategy, in the language of the window.
  void remarksOfTheLaunchAreShown() {
    app::Preview predicted = home_->preview("fashion-cnn.yaml", tests::MadeUpCurves::kRanks);
    predicted.remarks = {message("auto chose {} with {}: {} per step predicted ({})", "zero-2",
                                 message("{} ranks", 3), "5 ms", "the least traffic")};
    {
      const auto history = app::History::open(home_->home().historyFolder());
      auto documents = *(*history)->documents(runs_[2].toStdString());
      documents.prediction = app::predictionJson(predicted);
      QVERIFY((*history)->setDocuments(runs_[2].toStdString(), documents).ok());
    }
    page_->selectRun(runs_[2]);
    const auto last = [&] { return page_->inspectorRows().last(); };
    QVERIFY(wait([&] { return last().name.isEmpty(); }));
    QCOMPARE(last().value, QString("auto chose zero-2 with 3 ranks: 5 ms per step predicted (the "
                                   "least traffic)"));
    Language::instance().set("zh_CN");
    const QString chinese = last().value;
    Language::instance().set("en");
    QVERIFY2(chinese.contains("zero-2") && !chinese.contains("auto chose"), qPrintable(chinese));
  }

  // The table's column and the inspector.
  void energyIsShown() {
    const auto history = app::History::open(home_->home().historyFolder());
    app::RunRow row = *(*history)->row(runs_[2].toStdString());
    row.figures.joules = 7.2e6;
    row.figures.cost = 1.5;
    row.figures.currency = "CHF";
    row.figures.carbonGrams = 1250;
    row.figures.metric = "accuracy";
    row.figures.evalMetric = 0.8;
    QVERIFY((*history)->update(row).ok());
    page_->reload();
    const auto cell = [&](const QString& run) {
      return page_->runs()
          ->index(page_->runs()->find(run), RunTableModel::kEnergy)
          .data()
          .toString();
    };
    QVERIFY(wait([&] { return cell(runs_[2]) == "2 kWh"; }));
    QCOMPARE(cell(runs_[1]), QString(QChar(0x2014)));
    page_->selectRun(runs_[2]);
    const auto rows = page_->inspectorRows();
    for (const InspectorRow& wanted :
         {InspectorRow{"Energy", "2 kWh"}, InspectorRow{"Cost", "1.50 CHF"},
          InspectorRow{"CO2 equivalent", "1.25 kg"},
          InspectorRow{"Energy per point of accuracy", "90.0 kJ"}})
      QVERIFY2(rows.contains(wanted), qPrintable(wanted.name));
    // Runs are compared by it too.
    page_->findChild<QTableView*>("runTable")->selectAll();
    page_->findChild<QToolButton*>("differencesButton")->click();
    auto* differences = page_->findChild<QTableView*>("specDifferences")->model();
    QVERIFY(wait([&] {
      for (int at = 0; at < differences->rowCount(); ++at) {
        if (differences->index(at, 0).data() != "Energy") continue;
        for (int column = 1; column < differences->columnCount(); ++column)
          if (differences->index(at, column).data() == "2 kWh") return true;
      }
      return false;
    }));
  }

  // The nodes of a run, and in what those of two runs differ.
  void theEnvironmentIsShown() {
    const auto history = app::History::open(home_->home().historyFolder());
    for (const auto& [index, kernel] : {std::pair(0, "6.1.0"), {2, "6.6.0"}}) {
      const std::string run = runs_[index].toStdString();
      app::RunDocuments documents = *(*history)->documents(run);
      documents.nodes = fmt::format(
          R"([{{"node":"n1","environment":{{"kernel":"{0}","os":"Debian","versions":)"
          R"({{"torch":"2.1.0"}}}}}},{{"node":"n2","environment":{{"kernel":"{0}","os":"Debian",)"
          R"("gpu_driver":"580.1"}}}}])",
          kernel);
      QVERIFY((*history)->setDocuments(run, documents).ok());
    }
    const auto shown = [&](const InspectorRow& row) {
      return window_->currentPage()->inspectorRows().contains(row);
    };
    page_->selectRun(runs_[0]);
    QVERIFY(wait([&] { return shown({"Kernel", "6.1.0"}); }));
    QVERIFY(shown({"Environment", {}, true}) && shown({"Operating system", "Debian"}));
    QVERIFY(shown({"GPU driver", QString::fromUtf8("– (n1); 580.1 (n2)")}));
    QVERIFY(shown({"torch", QString::fromUtf8("2.1.0 (n1); – (n2)")}));
    page_->selectRun(runs_[3]);  // of an earlier version
    QVERIFY(!shown({"Kernel", "6.1.0"}) && !shown({"Environment", {}, true}));
    table_->clearSelection();
    for (const int index : {0, 2})
      table_->selectionModel()->select(page_->runs()->index(page_->runs()->find(runs_[index]), 0),
                                       QItemSelectionModel::Select | QItemSelectionModel::Rows);
    page_->findChild<QToolButton*>("differencesButton")->click();
    auto* differences = page_->findChild<QTableView*>("specDifferences")->model();
    const auto fields = [&] {
      QStringList out;
      for (int at = 0; at < differences->rowCount(); ++at)
        if (const QString field = differences->index(at, 0).data().toString();
            field.startsWith("environment."))
          out << field;
      return out;
    };
    QVERIFY(wait([&] { return fields() == QStringList{"environment.kernel"}; }));
    // In the page of a run too.
    window_->openRun(runs_[2]);
    QVERIFY(wait([&] { return shown({"Kernel", "6.6.0"}); }));
    ui::Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return shown({"内核", "6.6.0"}); }));
  }

  void aFilterIsTyped() {
    type("state:failed");
    QVERIFY(wait([&] { return ids() == QStringList{runs_[1]}; }));
    QVERIFY(!said_->isVisible());
    // What is wrong is said, and the runs stay.
    type("stat:failed");
    QVERIFY(wait([&] { return said_->isVisible(); }));
    QVERIFY2(said_->text().contains("a filter has no \"stat:\"") &&
                 said_->text().contains("did you mean state?"),
             qPrintable(said_->text()));
    QCOMPARE(ids(), QStringList{runs_[1]});
    window_->findChild<QAction*>("actionChinese")->trigger();
    type("since:monday");
    QVERIFY(wait([&] { return said_->text().contains(QString::fromUtf8("不是日期")); }));
    window_->findChild<QAction*>("actionEnglish")->trigger();
    type("model:nothing");
    QVERIFY(wait([&] { return ids().isEmpty() && said_->text() == "No run matches the filter."; }));
    QVERIFY(table_->isVisible());
    type("");
    QVERIFY(wait([&] { return ids().size() == 4 && !said_->isVisible(); }));
  }

  void aFilterIsSavedChosenAndDeleted() {
    // Nothing to save yet.
    menuOf("filtersButton", "saveFilter");
    QVERIFY(wait([&] { return said_->text().contains("Write a filter first"); }));
    type("model:fashion-mlp");
    QVERIFY(wait([&] { return ids().size() == 2; }));
    menuOf("filtersButton", "saveFilter");
    auto* dialog = page_->findChild<NameDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    QTest::keyClick(dialog, Qt::Key_Return);  // without a name
    QVERIFY(dialog->isVisible());
    QTest::keyClicks(dialog->findChild<QLineEdit*>("nameField"), "a & b");
    QCOMPARE(dialog->findChild<QLineEdit*>("nameDialogCommand")->text(),
             QString("lockstep history filter 'a & b' model:fashion-mlp"));
    QTest::keyClick(dialog->findChild<QLineEdit*>("nameField"), Qt::Key_Return);
    QVERIFY(wait([&] { return filters() == QStringList{"a & b: model:fashion-mlp"}; }));
    type("");
    QVERIFY(wait([&] { return ids().size() == 4; }));
    auto* button = page_->findChild<QToolButton*>("filtersButton");
    QVERIFY(wait([&] { return button->menu()->actions().first()->text() == "a && b"; }));
    menuOf("filtersButton", "savedFilter");
    QVERIFY(wait([&] { return ids().size() == 2; }));
    QCOMPARE(search_->text(), QString("model:fashion-mlp"));
    QVERIFY(button->menu()->actions().first()->isChecked());
    // One that another program saves is there too.
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY((*history)->saveFilter({"theirs", "state:failed"}).ok());
    QVERIFY(wait([&] { return button->menu()->actions().size() == 5; }));
    page_->findChild<QMenu*>("deleteFilterMenu")->actions().first()->trigger();
    QVERIFY(wait([&] { return filters() == QStringList{"theirs: state:failed"}; }));
  }

  void tagsOfSeveralRuns() {
    table_->setFocus();
    QTest::keyClick(table_, Qt::Key_A, Qt::ControlModifier);
    auto* dialog = openTags();
    QVERIFY(dialog);
    auto* fresh = dialog->findChild<QLineEdit*>("newTags");
    QTest::keyClicks(fresh, "good ba*d");
    QVERIFY(dialog->findChild<QLabel*>("newTagsWrong")->isVisible());
    QTest::keyClick(fresh, Qt::Key_Return);
    QVERIFY(dialog->isVisible());
    fresh->setText(QString::fromUtf8("good，基线"));
    QTest::keyClick(fresh, Qt::Key_Return);
    QVERIFY(wait([&] { return tagsOf(0) == "good 基线" && tagsOf(3) == "good 基线"; }));
    QVERIFY(wait([&] {
      return page_->runs()->index(0, RunTableModel::kTags).data().toString() == "good 基线";
    }));
    // Of one run, by keyboard: without "good".
    page_->selectRun(runs_[2]);
    dialog = openTags();
    QVERIFY(dialog);
    auto* list = dialog->findChild<QListWidget*>("tagList");
    QCOMPARE(list->count(), 2);
    list->setFocus();
    list->setCurrentRow(0);
    QTest::keyClick(list, Qt::Key_Space);
    QCOMPARE(list->item(0)->checkState(), Qt::Unchecked);
    QTest::keyClick(list, Qt::Key_Return);
    QVERIFY(wait([&] { return tagsOf(2) == "基线"; }));
    QCOMPARE(tagsOf(1), QString("good 基线"));
    QVERIFY(wait([&] {  // and in the page
      int without = 0;
      for (int row = 0; row < page_->runs()->rowCount(); ++row)
        without += page_->runs()->index(row, RunTableModel::kTags).data().toString() == "基线";
      return without == 1;
    }));
    // Of all again: what some have stays as it is unless it is touched.
    table_->selectAll();
    dialog = openTags();
    QVERIFY(dialog);
    list = dialog->findChild<QListWidget*>("tagList");
    QCOMPARE(list->item(0)->checkState(), Qt::PartiallyChecked);
    QCOMPARE(list->item(1)->checkState(), Qt::Checked);
    list->setFocus();
    list->setCurrentRow(1);
    QTest::keyClick(list, Qt::Key_Space);  // removed from all
    QTest::mouseClick(dialog->findChild<QPushButton*>("tagsDialogAccept"), Qt::LeftButton);
    QVERIFY(wait([&] { return tagsOf(0) == "good" && tagsOf(2).isEmpty(); }));
    type("tag:good");
    QVERIFY(wait([&] { return ids().size() == 3; }));
    // What was chosen stays so, as one range: thousands of runs have not one each.
    QCOMPARE(table_->selectionModel()->selectedRows().size(), 3);
    QCOMPARE(table_->selectionModel()->selection().size(), 1);
  }

  // In the history the case of a tag makes no difference: nor in the dialog.
  void tagsOfEitherCase() {
    {
      auto history = app::History::open(home_->home().historyFolder());
      QVERIFY((*history)->changeTags({runs_[0].toStdString()}, {{"Good"}, {}}).ok());
      QVERIFY((*history)->changeTags({runs_[1].toStdString()}, {{"gOOD", "other"}, {}}).ok());
    }
    TagsDialog dialog({"good", "other"}, {"r1", "r2"}, {{"Good"}, {"gOOD", "other"}}, page_);
    auto* list = dialog.findChild<QListWidget*>("tagList");
    QCOMPARE(list->count(), 2);
    QCOMPARE(list->item(0)->text(), QString("good"));
    QCOMPARE(list->item(0)->checkState(), Qt::Checked);
    QCOMPARE(list->item(1)->checkState(), Qt::PartiallyChecked);
    QVERIFY(dialog.change().empty());
    // The command that does what is chosen.
    list->item(0)->setCheckState(Qt::Unchecked);
    dialog.findChild<QLineEdit*>("newTags")->setText("lr:3e-4");
    QCOMPARE(dialog.findChild<QLineEdit*>("tagsDialogCommand")->text(),
             QString("lockstep history tag r1 r2 +lr:3e-4 -good"));
  }

  // What others change while notes are being written is shown once the cell is left.
  void changesMeanwhileAreShownAfterTheNotes() {
    table_->setFocus();
    table_->setCurrentIndex(page_->runs()->index(0, RunTableModel::kNotes));
    QTest::keyClick(table_, Qt::Key_F2);
    QVERIFY(table_->viewport()->findChild<QLineEdit*>());
    {
      const auto history = app::History::open(home_->home().historyFolder());
      QVERIFY((*history)->remove(runs_[3].toStdString()).ok());
    }
    page_->reload();  // as when the history tells of it
    QTest::qWait(1500);
    QCOMPARE(page_->runs()->rowCount(), 4);
    QTest::keyClick(table_->viewport()->findChild<QLineEdit*>(), Qt::Key_Escape);
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 3; }, 20'000));
  }

  void notesAreWrittenInTheirCell() {
    page_->selectRun(runs_[0]);
    const QModelIndex cell =
        page_->runs()->index(page_->runs()->find(runs_[0]), RunTableModel::kNotes);
    table_->setFocus();
    table_->setCurrentIndex(cell);
    QTest::keyClick(table_, Qt::Key_F2);
    QPointer<QLineEdit> editor = table_->viewport()->findChild<QLineEdit*>();
    QVERIFY(editor);
    QTest::keyClicks(editor, "see <log>");
    QTest::keyClick(editor, Qt::Key_Return);
    QVERIFY(wait([&] { return rowOf(0).notes == "see <log>"; }));
  }

  void curvesOverOtherAxes() {
    // A model of text, of before the time of steps was recorded.
    auto history = app::History::open(home_->home().historyFolder());
    app::RunRow bare = rowOf(0);
    bare.run = "20240501-000000-bare";
    bare.createdNs += 1;
    app::RunDocuments documents;
    documents.specYaml = *readFile(tests::examplePath("gpt-tiny.yaml"), 1 << 20);
    QVERIFY((*history)->add(bare, documents).ok());
    auto store = (*history)->openRun(bare.run);
    QVERIFY((*store)->lockForRecording().ok());
    app::RunBatch batch;
    batch.series.push_back({"loss", {{1, 1}, {2, 0.5}}});
    QVERIFY((*store)->append(batch).ok());
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 5; }));
    table_->selectAll();
    QVERIFY(wait([&] { return page_->overlay()->sampleCount() == 4 * 120 + 2; }));
    auto* axis = page_->findChild<QComboBox*>("overlayAxis");
    auto* note = page_->findChild<QLabel*>("overlayNote");
    QVERIFY(!note->isVisible());
    const auto lastX = [&](int series) {
      const auto& raw = page_->overlay()->series()[static_cast<std::size_t>(series)]->raw();
      return raw.size() == 0 ? -1 : raw.x(raw.size() - 1);
    };
    axis->setFocus();
    QTest::keyClick(axis, Qt::Key_Down);  // time
    QVERIFY(wait([&] { return page_->overlay()->sampleCount() == 4 * 120 && note->isVisible(); }));
    QVERIFY2(note->text().contains("the times of its steps are not recorded"),
             qPrintable(note->text()));
    for (int i = 0; i < 5; ++i) {
      const app::RunRow& row = page_->runs()->runs()[static_cast<std::size_t>(i)];
      if (row.run == bare.run) continue;
      QVERIFY(std::abs(lastX(i) - 119 * row.measuredStepSeconds) < 1e-3);
    }
    QTest::keyClick(axis, Qt::Key_Down);  // samples
    QVERIFY(wait([&] { return lastX(0) == 120 * 32 || lastX(0) == 120 * 64; }));
    QTest::keyClick(axis, Qt::Key_Down);  // tokens: 12 sequences of 64 a step
    QVERIFY(wait([&] { return page_->overlay()->sampleCount() == 2; }));
    QCOMPARE(lastX(page_->runs()->find(QString::fromStdString(bare.run))), 2.0 * 12 * 64);
    QVERIFY2(note->text().contains("its data is not text"), qPrintable(note->text()));
    auto* curve = page_->findChild<QComboBox*>("overlayCurve");
    curve->setCurrentIndex(curve->findData("epoch/eval_loss"));
    QVERIFY(!axis->isEnabled());
  }

  // A run of a program of the user's own, with those of the engine.
  void aProgramIsCompared() {
    QVERIFY(!home_->addProgramRun().empty());
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 5; }));
    table_->selectAll();
    QVERIFY(wait([&] { return page_->overlay()->sampleCount() == 4 * 120 + 600; }));
    page_->findChild<QToolButton*>("differencesButton")->click();
    auto* differences = page_->findChild<QTableView*>("specDifferences")->model();
    const auto valuesOf = [&](const QString& field) {
      QStringList out;
      for (int at = 0; at < differences->rowCount(); ++at)
        for (int column = 1; column < differences->columnCount(); ++column)
          if (differences->index(at, 0).data() == field)
            out << differences->index(at, column).data().toString();
      out.removeAll(QString(QChar(0x2014)));  // not in that run's spec
      return out;
    };
    QVERIFY(wait([&] { return valuesOf("workload.command").size() == 1; }));
    QCOMPARE(valuesOf("workload.command"), QStringList{"python3, train.py"});
    QCOMPARE(valuesOf("training.batch").size(), qsizetype{4});
  }

  void theTableIsAModel() {
    RunTableModel model;
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
    std::mt19937 random(1);
    for (int round = 0; round < 20; ++round) {
      std::vector<app::RunRow> rows;
      for (auto count = random() % 30; count > 0; --count) {
        app::RunRow row;
        row.run = std::to_string(random() % 40);
        for (auto tags = random() % 5; tags > 0; --tags)
          row.tags.push_back("t" + std::to_string(random() % 9));
        rows.push_back(row);
      }
      model.setRuns(rows);
      for (int i = 0; i < model.rowCount(); ++i)
        QCOMPARE(static_cast<std::size_t>(
                     model.index(i, 0).data(RunTableModel::kTagsRole).toStringList().size()),
                 rows[static_cast<std::size_t>(i)].tags.size());
    }
  }

  // The page fits a narrow window.
  void thePageFitsANarrowWindow() {
    for (const char* language : {"en", "zh_CN"}) {
      Language::instance().set(language);
      QVERIFY2(page_->minimumSizeHint().width() <= 660,
               QByteArray::number(page_->minimumSizeHint().width()));
    }
  }

 private:
  QStringList ids() const {
    QStringList out;
    for (const app::RunRow& row : page_->runs()->runs()) out << QString::fromStdString(row.run);
    return out;
  }
  app::RunRow rowOf(int run) const {
    auto history = app::History::open(home_->home().historyFolder());
    auto row = (*history)->row(runs_[run].toStdString());
    return row.ok() ? *row : app::RunRow();
  }
  QString tagsOf(int run) const {
    QStringList out;
    for (const std::string& tag : rowOf(run).tags) out << QString::fromStdString(tag);
    return out.join(' ');
  }
  QStringList filters() const {
    auto history = app::History::open(home_->home().historyFolder());
    QStringList out;
    for (const app::SavedFilter& one : *(*history)->savedFilters())
      out << QString::fromStdString(one.name + ": " + one.text);
    return out;
  }
  void type(const QString& text) {
    search_->setFocus();
    search_->selectAll();
    if (text.isEmpty()) QTest::keyClick(search_, Qt::Key_Delete);
    QTest::keyClicks(search_, text);
  }
  TagsDialog* openTags() {
    if (!wait([&] { return !page_->findChild<TagsDialog*>(); })) return nullptr;
    QTest::mouseClick(page_->findChild<QPushButton*>("tagsButton"), Qt::LeftButton);
    TagsDialog* dialog = nullptr;
    (void)wait([&] {
      return (dialog = page_->findChild<TagsDialog*>()) != nullptr && dialog->isVisible();
    });
    return dialog;
  }

  QLineEdit* search_ = nullptr;
  QLabel* said_ = nullptr;
};

QTEST_MAIN(HistoryPageTest)
#include "history_test.moc"
