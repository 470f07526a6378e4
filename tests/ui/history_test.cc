// The history page: filters, tags, overlays and exports, by mouse and keyboard.
#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTest>
#include <QXmlStreamReader>
#include <QtWidgets>
#include <random>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/dialogs/tags_dialog.h"
#include "ui/dialogs/what_if_dialog.h"
#include "ui/models/advice_model.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/plots/frame_clock.h"
#include "ui/plots/heat_map_view.h"
#include "ui/plots/picture_file.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::saveAs;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

QByteArray readAll(const QString& path) {
  QFile file(path);
  return file.open(QFile::ReadOnly) ? file.readAll() : QByteArray();
}

// Text and error of a document of XML.
QString xmlText(const QByteArray& bytes, QString& error) {
  QXmlStreamReader reader(bytes);
  QString out;
  while (!reader.atEnd())
    if (reader.readNext() == QXmlStreamReader::Characters) out += reader.text();
  error = reader.hasError() ? reader.errorString() : QString();
  return out;
}

}  // namespace

class HistoryPageTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    for (int i = 0; i < 4; ++i)
      runs_ << QString::fromStdString(
          home_->addRun(i, i == 1 ? app::RunState::FAILED : app::RunState::SUCCEEDED, 120));
    tests::openWindow(window_, *home_, {1200, 800});
    page_ = window_->openHistory();
    table_ = page_->findChild<QTableView*>("runTable");
    search_ = page_->findChild<QLineEdit*>("historySearch");
    said_ = page_->findChild<QLabel*>("historySaid");
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 4; }));
  }
  void cleanup() {
    tests::closeStudio(window_, home_);
    runs_.clear();
  }

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

  void theMenuOfARunClonesAndReruns() {
    QVERIFY(chooseInMenu("historyRerun"));
    LaunchDialog* dialog = nullptr;
    QVERIFY(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
    QVERIFY(dialog->command().startsWith("lockstep rerun " + runs_[0]));
    // The fastest strategies are those for the nodes as the run measured them.
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(5);
    QTest::mouseClick(dialog->findChild<QPushButton*>("adviceSearch"), Qt::LeftButton);
    auto* note = dialog->findChild<QLabel*>("adviceNote");
    QVERIFY(wait([&] { return !note->text().isEmpty(); }));
    QVERIFY2(note->text().contains("as the run measured them"), qPrintable(note->text()));
    QVERIFY(dialog->findChild<QTableView*>("adviceTable")->model()->rowCount() > 0);
    // On other ranks nothing was measured.
    const auto fields = dialog->findChildren<QSpinBox*>(QRegularExpression("^launchRanks_"));
    QVERIFY(!fields.isEmpty());
    fields.front()->setValue(2);
    QVERIFY(wait([&] { return dialog->ready() && note->text().isEmpty(); }));
    QTest::mouseClick(dialog->findChild<QPushButton*>("adviceSearch"), Qt::LeftButton);
    QVERIFY(wait([&] { return !note->text().isEmpty(); }));
    QVERIFY2(note->text().contains("For assumed costs"), qPrintable(note->text()));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    QVERIFY(chooseInMenu("historyClone"));
    QVERIFY(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }));
    auto* model = qobject_cast<ModelPage*>(window_->currentPage());
    QVERIFY(model && model->isModified() && !QFileInfo::exists(model->filePath()));
    dialog->reject();
  }

  // Of an ended run, without opening it.
  void theMenuOfARunAsksWhatIf() {
    QVERIFY(chooseInMenu("historyWhatIf"));
    WhatIfDialog* dialog = nullptr;
    QVERIFY(
        wait([&] { return (dialog = page_->findChild<WhatIfDialog*>()) && dialog->isVisible(); }));
    auto* rank = dialog->findChild<QComboBox*>("whatIfRank");
    QVERIFY(wait([&] { return rank->isVisible() && rank->count() == 4; }));
    const auto figure = [&](const char* name) { return dialog->findChild<Figure*>(name)->value(); };
    QVERIFY(wait([&] { return figure("whatIfStep") == figure("whatIfMeasured"); }));
    rank->setFocus();
    QTest::keyClick(rank, Qt::Key_Down);
    QTest::keyClick(rank, Qt::Key_Down);
    QVERIFY(wait([&] { return figure("whatIfStep") != figure("whatIfMeasured"); }));
    QCOMPARE(dialog->findChild<QLabel*>("whatIfCommand")->text(),
             "lockstep whatif " + runs_[0] + " --without 1");
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return !dialog->windowTitle().startsWith("What"); }));
    Language::instance().set("en");
    // Enter ends a number, and leaves the dialog.
    auto* ranks = dialog->findChild<QSpinBox*>("whatIfRanks");
    ranks->setFocus();
    ranks->selectAll();
    QTest::keyClicks(ranks, "4");
    QTest::keyClick(ranks, Qt::Key_Return);
    QVERIFY(dialog->isVisible() && ranks->value() == 4);
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(wait([&] { return !page_->findChild<WhatIfDialog*>(); }));
    // Several runs are not asked at once.
    table_->selectAll();
    QVERIFY(!page_->findChild<QAction*>("historyWhatIf")->isEnabled());
  }

  // Of an ended run, as its page does: resumed, or rerun where it has trained to its end.
  void theMenuOfARunSeeksAFasterStrategy() {
    QVERIFY(chooseInMenu("historyFaster"));
    LaunchDialog* dialog = nullptr;
    const auto isReady = [&] {
      return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready();
    };
    QVERIFY(wait(isReady));
    const auto* tabs = dialog->findChild<QTabWidget*>("launchTabs");
    QCOMPARE(tabs->tabText(tabs->currentIndex()), QString("Fastest"));
    QVERIFY2(dialog->command().startsWith("lockstep rerun " + runs_[0]),
             qPrintable(dialog->command()));
    const auto* note = dialog->findChild<QLabel*>("adviceNote");
    QVERIFY(wait([&] { return !note->text().isEmpty() && dialog->ready(); }));
    QVERIFY2(note->text().contains("as the run measured them"), qPrintable(note->text()));
    const auto* accept = dialog->findChild<QPushButton*>("launchDialogAccept");
    QVERIFY(!accept->isEnabled());  // it would change nothing
    auto* table = dialog->findChild<QTableView*>("adviceTable");
    const auto& found = qobject_cast<AdviceModel*>(table->model())->strategies();
    const auto other = std::find_if(found.begin(), found.end(),
                                    [](const auto& one) { return !one.settings.empty(); });
    QVERIFY(other != found.end());
    table->selectRow(static_cast<int>(other - found.begin()));
    QTest::mouseClick(dialog->findChild<QPushButton*>("adviceChoose"), Qt::LeftButton);
    QVERIFY(wait([&] { return accept->isEnabled(); }));
    QVERIFY2(dialog->command().startsWith("lockstep rerun " + runs_[0] + " --set "),
             qPrintable(dialog->command()));
    QCOMPARE(window_->currentPage(), static_cast<Page*>(page_));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    page_->selectRun(runs_[1]);  // failed; from the menu of the window
    QVERIFY(wait([&] { return window_->findChild<QAction*>("actionFaster")->isEnabled(); }));
    window_->findChild<QAction*>("actionFaster")->trigger();
    QVERIFY(wait(isReady));
    QVERIFY2(dialog->command().startsWith("lockstep resume " + runs_[1]),
             qPrintable(dialog->command()));
    dialog->reject();
    table_->selectAll();
    QVERIFY(!page_->findChild<QAction*>("historyFaster")->isEnabled());
  }

  // The page of a run under way is opened: it is stopped first, and only while it trains.
  void aRunUnderWayThatDoesNotTrainIsNotStopped() {
    const QString run = QString::fromStdString(home_->addRun(4, app::RunState::RUNNING, 120));
    {
      const auto history = app::History::open(home_->home().historyFolder());
      app::RunDocuments documents = *(*history)->documents(run.toStdString());
      documents.clusterYaml = app::localCluster(3, home_->home().root + "/local", "").yaml;
      documents.nodes = R"([{"node": "local1", "folder": "/nowhere/runs/x"}])";
      QVERIFY((*history)->setDocuments(run.toStdString(), documents).ok());
    }
    page_->reload();
    QVERIFY(wait([&] { return page_->runs()->find(run) >= 0; }));
    page_->selectRun(run);
    page_->findChild<QAction*>("historyFaster")->trigger();
    LaunchDialog* dialog = nullptr;
    QVERIFY2(
        wait([&] { return (dialog = window_->findChild<LaunchDialog*>()) && dialog->ready(); }),
        qPrintable(dialog ? dialog->findChild<MessagePanel*>()->details()
                          : window_->currentPage()->message()->details()));
    QVERIFY2(dialog->command().startsWith("lockstep stop " + run), qPrintable(dialog->command()));
    auto* opened = qobject_cast<RunPage*>(window_->currentPage());
    QVERIFY(opened && opened->document()->run() == run);
    QVERIFY(wait([&] { return opened->document()->loaded(); }));
    app::RunUpdate update;
    update.row = opened->document()->row();
    update.row->phase = app::RunState::RECOVERING;
    opened->document()->take(update);
    const auto* accept = dialog->findChild<QPushButton*>("launchDialogAccept");
    QVERIFY(!accept->isEnabled() && accept->toolTip().contains("it is not training"));
    dialog->reject();
  }

  void curvesOverOtherAxes() {
    // One of before the time of steps was recorded.
    auto history = app::History::open(home_->home().historyFolder());
    app::RunRow bare = rowOf(0);
    bare.run = "20240501-000000-bare";
    bare.createdNs += 1;
    QVERIFY((*history)->add(bare, {}).ok());
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
    QTest::keyClick(axis, Qt::Key_Down);  // tokens: these models have none
    QVERIFY(wait([&] { return page_->overlay()->sampleCount() == 0; }));
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

  void aReportIsExported() {
    page_->selectRun(runs_[1]);
    menuOf("exportButton", "historyExportReport");
    const QString path = home_->path("run.html");
    QVERIFY(saveAs(page_->findChild<QFileDialog*>("exportReportDialog"), path));
    QVERIFY(wait([&] { return QFileInfo(path).size() > 10'000; }));
    QString error;
    const QString text = xmlText(readAll(path), error);
    QVERIFY2(error.isEmpty(), qPrintable(error));
    QVERIFY(text.contains(runs_[1]) && text.contains("was killed by signal 9") &&
            text.contains("Step time of each rank"));
    // The same from a run's own page.
    window_->openRun(runs_[0]);
    auto* action = window_->findChild<QAction*>("actionReport");
    QVERIFY(action->isEnabled());
    action->trigger();
    const QString other = home_->path("other.html");
    QVERIFY(saveAs(window_->findChild<QFileDialog*>("exportReportDialog"), other));
    QVERIFY(wait([&] { return readAll(other).contains(runs_[0].toUtf8()); }));
    QVERIFY(wait([&] { return window_->currentPage()->message()->what().contains(other); }));
  }

  // By the menu of the window too; those that were selected when it was asked for; and though the
  // page is closed meanwhile the job comes to its end.
  void severalReportsAreExported() {
    table_->selectAll();
    auto* action = window_->findChild<QAction*>("actionReport");
    QVERIFY(wait([&] { return action->isEnabled(); }));
    action->trigger();
    auto* dialog = window_->findChild<QFileDialog*>("exportReportDialog");
    QVERIFY(dialog && wait([&] { return dialog->isVisible(); }));
    QCOMPARE(dialog->fileMode(), QFileDialog::Directory);
    page_->selectRun(runs_[0]);
    const QString folder = home_->path("reports");
    QVERIFY(QDir().mkpath(folder));
    Q_EMIT dialog->fileSelected(folder);
    dialog->reject();
    window_->openRun(runs_[0]);
    JobTracker& jobs = window_->workspace().jobs();
    QVERIFY(jobs.rowCount() == 1 && jobs.cancellable(0));
    auto* tabs = qobject_cast<QTabWidget*>(page_->parentWidget()->parentWidget());
    QVERIFY(tabs);
    Q_EMIT tabs->tabCloseRequested(tabs->indexOf(page_));
    QVERIFY(wait([&] { return jobs.rowCount() == 0; }));
    for (const QString& run : runs_)
      QVERIFY2(QFileInfo(folder + "/" + run + ".html").size() > 10'000, qPrintable(run));
    // Cancelled, it says so.
    page_ = window_->openHistory();
    QVERIFY(wait([&] { return page_->runs()->rowCount() == 4; }));
    page_->selectRun(runs_[0]);
    page_->exportTo(home_->path("never.csv"));
    jobs.cancel(jobs.jobAt(0));
    QVERIFY(wait([&] { return jobs.rowCount() == 0; }));
    QVERIFY(!page_->message()->what().isEmpty());
  }

  // Each line is a request of OTLP of one of the run's metrics.
  void aRunIsExportedForOpenTelemetry() {
    page_->selectRun(runs_[0]);
    menuOf("exportButton", "historyExportOtlp");
    const QString path = home_->path("run.otlp");
    QVERIFY(saveAs(page_->findChild<QFileDialog*>("exportOtlpDialog"), path));
    QVERIFY(wait([&] { return page_->message()->what().contains(path); }));
    QStringList metrics;
    for (const QByteArray& line : readAll(path).trimmed().split('\n')) {
      const QJsonDocument request = QJsonDocument::fromJson(line);
      const QJsonObject resource = request["resourceMetrics"][0].toObject();
      QVERIFY2(!resource.isEmpty(), line.constData());
      metrics << resource["scopeMetrics"][0]["metrics"][0]["name"].toString();
    }
    QVERIFY2(metrics.contains("lockstep.run.loss"), qPrintable(metrics.join(' ')));
  }

  // Event files in a folder for each run, as a job; what is there already is not overwritten.
  void runsAreExportedToTensorBoard() {
    table_->selectAll();
    menuOf("exportButton", "historyExportTensorBoard");
    const QString folder = home_->path("board");
    QVERIFY(QDir().mkpath(folder));
    const auto choose = [&] {
      auto* dialog = page_->findChild<QFileDialog*>("exportTensorBoardDialog");
      QVERIFY(dialog && wait([&] { return dialog->isVisible(); }));
      QCOMPARE(dialog->fileMode(), QFileDialog::Directory);
      Q_EMIT dialog->fileSelected(folder);
      dialog->reject();
    };
    choose();
    JobTracker& jobs = window_->workspace().jobs();
    QVERIFY(jobs.rowCount() == 1 && jobs.cancellable(0));
    QVERIFY(wait([&] { return jobs.rowCount() == 0; }));
    QVERIFY2(page_->message()->what().contains(folder), qPrintable(page_->message()->what()));
    const auto events = [&](const QString& run) {
      const QDir of(folder + "/" + run);
      const QStringList files = of.entryList({"events.out.tfevents.*"}, QDir::Files);
      return files.size() == 1 ? readAll(of.filePath(files.front())) : QByteArray();
    };
    for (const QString& run : runs_)
      QVERIFY2(events(run).contains("brain.Event:2") && events(run).contains("loss"),
               qPrintable(run));
    // One run goes to a folder of its own too.
    page_->selectRun(runs_[0]);
    QVERIFY(
        wait([&] { return page_->findChild<QFileDialog*>("exportTensorBoardDialog") == nullptr; }));
    const QByteArray before = events(runs_[0]);
    menuOf("exportButton", "historyExportTensorBoard");
    choose();
    QVERIFY(wait([&] { return page_->message()->what().contains("is there already"); }));
    QCOMPARE(events(runs_[0]), before);
  }

  void aPlotIsSavedAsAPicture_data() {
    QTest::addColumn<QByteArray>("action");
    QTest::addColumn<bool>("light");
    QTest::newRow("as it is") << QByteArray("plotMenuSave") << false;
    QTest::newRow("for print") << QByteArray("plotMenuPrint") << true;
  }
  void aPlotIsSavedAsAPicture() {
    QFETCH(QByteArray, action);
    QFETCH(bool, light);
    window_->findChild<QAction*>("actionDark")->trigger();
    QVERIFY(Theme::instance().isDark());
    table_->selectAll();
    PlotView* plot = page_->overlay();
    QVERIFY(wait([&] { return plot->sampleCount() == 480; }));
    auto* canvas = plot->findChild<QWidget*>("plotCanvas");
    for (const char* ending : {"png", "svg", "pdf"}) {
      QContextMenuEvent event(QContextMenuEvent::Keyboard, canvas->rect().center(),
                              canvas->mapToGlobal(canvas->rect().center()));
      QApplication::sendEvent(canvas, &event);
      auto* menu = plot->findChild<QMenu*>("plotMenu");
      QVERIFY(menu && wait([&] { return menu->isVisible(); }));
      auto* chosen = plot->findChild<QAction*>(action.constData());
      QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(chosen).center());
      const QString path = home_->path(QString("plot.") + ending);
      QVERIFY(saveAs(plot->findChild<QFileDialog*>("savePictureDialog"), path));
      QVERIFY(wait([&] { return QFileInfo(path).size() > 3000; }));
      QVERIFY(wait([&] { return !plot->findChild<QFileDialog*>("savePictureDialog"); }));
    }
    const QImage image(home_->path("plot.png"));
    QVERIFY(image.width() >= 1280 && image.height() >= 720);
    QCOMPARE(qGray(image.pixel(3, 3)) > 200, light);
    QCOMPARE(qGray(image.pixel(3, image.height() - 4)) > 200, light);
    QString error;
    const QString text = xmlText(readAll(home_->path("plot.svg")), error);
    QVERIFY2(error.isEmpty(), qPrintable(error));
    for (const auto& series : plot->series())
      QVERIFY2(text.contains(series->name), qPrintable(text.left(400)));
    QVERIFY(text.contains("step") && text.contains("Curves"));
    const QByteArray svg = readAll(home_->path("plot.svg"));
    QVERIFY(svg.count("<polyline") >= 4 && !svg.contains("<image"));
    const QByteArray pdf = readAll(home_->path("plot.pdf"));
    QVERIFY(pdf.startsWith("%PDF-") && pdf.trimmed().endsWith("%%EOF") &&
            !pdf.contains("/Subtype /Image"));
    QVERIFY(Theme::instance().isDark());  // the screen stays as it was
  }

  // A zoomed plot's lines end at its frame in formats that cannot clip.
  void picturesStayWithinTheirAxes() {
    PlotView plot("p");
    plot.setTexts("Title <&>", "step", {}, {});
    std::mt19937 random(3);
    for (int s = 0; s < 9; ++s) {
      auto series = std::make_shared<Series>(QString("series <%1> & more").arg(s), s, s % 2 == 0);
      for (int i = 0; i < 20000; ++i)
        series->append(i, i % 97 == 0 ? NAN : static_cast<double>(random() % 1000) * (s + 1));
      series->setSmoothing(0.9);
      plot.addSeries(series);
    }
    plot.resize(700, 300);
    plot.show();
    QVERIFY(QTest::qWaitForWindowExposed(&plot));
    auto* canvas = plot.findChild<QWidget*>("plotCanvas");
    QSignalSpy frames(&FrameClock::instance(), &FrameClock::paint);
    QVERIFY(wait([&] { return frames.size() > 3; }));
    QTest::mousePress(canvas, Qt::LeftButton, {}, {300, 100});
    QTest::mouseMove(canvas, {360, 160});
    QTest::mouseRelease(canvas, Qt::LeftButton, {}, {360, 160});
    frames.clear();
    QVERIFY(wait([&] { return frames.size() > 3; }));
    const QString path = home_->path("zoomed.svg");
    QVERIFY(writePicture(path, plot.picture(), PictureLook::kLight).ok());
    const QByteArray svg = readAll(path);
    QVERIFY2(svg.size() < 6'000'000, QByteArray::number(svg.size()));
    QXmlStreamReader reader(svg);
    int points = 0;
    while (!reader.atEnd()) {
      reader.readNext();
      if (!reader.isStartElement() || reader.name() != QLatin1String("polyline")) continue;
      for (const auto& pair :
           reader.attributes().value("points").toString().split(' ', Qt::SkipEmptyParts)) {
        const QStringList xy = pair.split(',');
        ++points;
        QVERIFY2(xy[0].toDouble() > 10 && xy[0].toDouble() < 700 && xy[1].toDouble() > -1 &&
                     xy[1].toDouble() < 360,
                 qPrintable(pair));
      }
    }
    QVERIFY2(!reader.hasError(), qPrintable(reader.errorString()));
    QVERIFY(points > 100);
    const Status bad = writePicture(home_->path("x.bmp"), plot.picture(), PictureLook::kCurrent);
    QCOMPARE(bad.code(), Code::kInvalidArgument);
    QVERIFY(!writePicture("/nowhere/x.png", plot.picture(), PictureLook::kCurrent).ok());
  }

  // Heat map and timeline, which paint themselves.
  void aHeatMapIsSavedAsAPicture() {
    RunPage* run = window_->openRun(runs_[0]);
    QVERIFY(wait([&] { return run->document()->loaded(); }));
    auto* tabs = run->findChild<QTabWidget*>("runTabs");
    auto* map = run->findChild<HeatMapView*>();
    for (int i = 0; tabs && i < tabs->count(); ++i)
      if (tabs->widget(i)->isAncestorOf(map)) tabs->setCurrentIndex(i);
    QVERIFY(wait([&] { return map->isVisible(); }));
    QContextMenuEvent event(QContextMenuEvent::Keyboard, map->rect().center(),
                            map->mapToGlobal(map->rect().center()));
    QApplication::sendEvent(map, &event);
    auto* menu = map->findChild<QMenu*>("pictureMenu");
    QVERIFY(menu && wait([&] { return menu->isVisible(); }));
    menu->close();
    for (const char* ending : {"png", "svg", "pdf"}) {
      const QString path = home_->path(QString("map.") + ending);
      QVERIFY(writePicture(path, pictureOf(map), PictureLook::kCurrent).ok());
      QVERIFY(QFileInfo(path).size() > 2000);
    }
    QVERIFY(!QImage(home_->path("map.png")).isNull());
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
  // By the right mouse button on the first run.
  bool chooseInMenu(const char* name) {
    page_->selectRun(runs_[0]);
    const QRect row = table_->visualRect(page_->runs()->index(page_->runs()->find(runs_[0]), 0));
    QContextMenuEvent event(QContextMenuEvent::Mouse, row.center(),
                            table_->viewport()->mapToGlobal(row.center()));
    QApplication::sendEvent(table_->viewport(), &event);
    auto* menu = page_->findChild<QMenu*>("runMenu");
    if (!wait([&] { return menu->isVisible(); })) return false;
    for (QAction* action : menu->actions())
      if (action->objectName() == name) {
        QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(action).center());
        return true;
      }
    return false;
  }
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
  // Opens the menu of a button and chooses an action of it, by mouse.
  void menuOf(const char* button, const char* action) {
    auto* opener = page_->findChild<QAbstractButton*>(button);
    auto* push = qobject_cast<QPushButton*>(opener);
    QMenu* menu = push ? push->menu() : qobject_cast<QToolButton*>(opener)->menu();
    QVERIFY(menu && opener->isEnabled());
    menu->popup(opener->mapToGlobal(QPoint(0, opener->height())));
    QVERIFY(wait([&] { return menu->isVisible(); }));
    for (QAction* one : menu->actions()) {
      if (one->objectName() != action) continue;
      QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(one).center());
      return;
    }
    QFAIL(action);
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

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  QStringList runs_;
  HistoryPage* page_ = nullptr;
  QTableView* table_ = nullptr;
  QLineEdit* search_ = nullptr;
  QLabel* said_ = nullptr;
};

QTEST_MAIN(HistoryPageTest)
#include "history_test.moc"
