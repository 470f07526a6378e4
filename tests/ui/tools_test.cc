// The menu Tools: commands that run in the window, and the pre-flight of a launch, with the real
// programs.
#include <signal.h>

#include <QAction>
#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPointer>
#include <QProcess>
#include <QPushButton>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>

#include "tests/ui/studio_road.h"
#include "ui/dialogs/command_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/preflight_dialog.h"
#include "ui/models/preflight_model.h"

using namespace lockstep;

class ToolsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void initTestCase() {
    if (const char* why = tests::whyNoRuns()) QSKIP(why);
  }
  void init() {
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open();
  }
  void cleanup() {
    if (!road_) return;
    road_->close();
    road_->endAgents();
    road_.reset();
    home_.reset();
  }

  void thisMachineIsChecked() {
    ui::CommandDialog* dialog = open("actionDoctor");
    QVERIFY(dialog);
    QCOMPARE(line(dialog)->text(), QString("lockstep doctor"));
    run(dialog);
    QVERIFY2(outcome(dialog).startsWith("Finished"), qPrintable(outcome(dialog) + output(dialog)));
    QVERIFY2(output(dialog).contains("processor"), qPrintable(outcome(dialog) + output(dialog)));
  }

  void aStrategyIsVerified() {
    ui::CommandDialog* dialog = open("actionVerify");
    QVERIFY(dialog);
    QVERIFY(line(dialog)->text().startsWith("lockstep verify fashion-mlp --ranks 2"));
    line(dialog)->setText(line(dialog)->text() + " --steps 2 --set strategy.kind=zero-1");
    run(dialog);
    QVERIFY2(outcome(dialog).startsWith("Finished"), qPrintable(outcome(dialog) + output(dialog)));
    QVERIFY2(output(dialog).contains("The certificate holds"),
             qPrintable(outcome(dialog) + output(dialog)));
    // Another one follows in the same dialog.
    line(dialog)->setText("lockstep verify nowhere.yaml --ranks 2");
    run(dialog);
    QVERIFY2(outcome(dialog).startsWith("Ended with status"), qPrintable(outcome(dialog)));
    QVERIFY2(output(dialog).contains("nowhere.yaml"), qPrintable(outcome(dialog) + output(dialog)));
  }

  void aStepIsSimulated() {
    ui::CommandDialog* dialog = open("actionSimulate");
    QVERIFY(dialog);
    QCOMPARE(line(dialog)->text(), QString("lockstep simulate fashion-mlp --local 2"));
    line(dialog)->setFocus();
    QTest::keyClick(line(dialog), Qt::Key_End);
    QTest::keyClicks(line(dialog), " --set strategy.kind=zero-1");
    QTest::mouseClick(button(dialog), Qt::LeftButton);
    QVERIFY(tests::wait([&] { return !dialog->running(); }, 120'000));
    QVERIFY2(outcome(dialog).startsWith("Finished"), qPrintable(outcome(dialog) + output(dialog)));
    for (const char* told : {"sharded parameters", "one step, ", "0 local1", "1 local2"})
      QVERIFY2(output(dialog).contains(told), qPrintable(output(dialog)));
  }

  void picturesBecomeADataSet() {
    const QTemporaryDir folder;
    const QString pictures = folder.filePath("two \"words\" 图");
    for (const char* name : {"cat", "dog"}) {
      QDir(pictures).mkpath(name);
      for (int i = 0; i < 3; ++i) {
        QImage picture(20 + i, 10, QImage::Format_RGB32);
        picture.fill(QColor(40 * i, 90, 200));
        QVERIFY(picture.save(QString("%1/%2/%3.png").arg(pictures, name).arg(i)));
      }
    }
    QFile damaged(pictures + "/cat/damaged.png");
    QVERIFY(damaged.open(QIODevice::WriteOnly) && damaged.write("no picture") > 0);
    damaged.close();
    ui::CommandDialog* dialog = open("actionPictures");
    QVERIFY(dialog);
    // Without a folder nothing runs, and it says what is missing.
    QTest::mouseClick(button(dialog), Qt::LeftButton);
    QVERIFY(!dialog->running());
    QVERIFY2(outcome(dialog).contains("folder"), qPrintable(outcome(dialog)));
    auto* field = dialog->findChild<QLineEdit*>("picturesFolder");
    QCOMPARE(dialog->focusWidget(), field);
    field->setText(pictures);
    auto* to = dialog->findChild<QLineEdit*>("picturesTo");
    QCOMPARE(to->text(), pictures);  // beside the folder
    dialog->findChild<QSpinBox*>("picturesHeight")->setValue(10);
    dialog->findChild<QSpinBox*>("picturesWidth")->setValue(20);
    dialog->findChild<QCheckBox*>("picturesSkip")->click();
    QCOMPARE(QProcess::splitCommand(line(dialog)->text()),
             (QStringList{"lockstep", "make-data", "images", pictures, "--size", "10x20", "--to",
                          pictures, "--skip-damaged"}));
    run(dialog);
    QVERIFY2(outcome(dialog).startsWith("Finished"), qPrintable(outcome(dialog) + output(dialog)));
    QVERIFY2(
        output(dialog).contains("left out") && output(dialog).contains("6 images of 2 classes"),
        qPrintable(outcome(dialog) + output(dialog)));
    QVERIFY(QFile::exists(pictures + "-images.idx"));
    // Another beginning of the names stays while the folder changes.
    to->clear();
    QTest::keyClicks(to, folder.filePath("val"));
    dialog->findChild<QLineEdit*>("picturesClasses")->setText(pictures + "-classes.txt");
    field->setText(pictures + "/");
    QCOMPARE(to->text(), folder.filePath("val"));
    run(dialog);
    QVERIFY2(outcome(dialog).startsWith("Finished"), qPrintable(outcome(dialog) + output(dialog)));
    QVERIFY(QFile::exists(folder.filePath("val-labels.idx")));
  }

  void onlyLockstepIsRun() {
    ui::CommandDialog* dialog = open("actionDoctor");
    QVERIFY(dialog);
    for (const char* other : {"", "ls", "/bin/lockstep doctor", "\"lockstep doctor\""}) {
      line(dialog)->setText(other);
      run(dialog);
      QVERIFY2(outcome(dialog).contains("begins with"), other);
    }
  }

  void aCommandIsCancelled_data() {
    QTest::addColumn<bool>("byClosing");
    QTest::newRow("by its button") << false;
    QTest::newRow("by closing the dialog") << true;
  }
  void aCommandIsCancelled() {
    QFETCH(bool, byClosing);
    QPointer<ui::CommandDialog> dialog = open("actionBench");
    QVERIFY(dialog);
    line(dialog)->setText(line(dialog)->text() + " --seconds 300");
    QTest::mouseClick(button(dialog), Qt::LeftButton);
    QVERIFY(dialog->running());
    const auto* process = dialog->findChild<QProcess*>();
    QVERIFY(process && tests::wait([&] { return process->state() == QProcess::Running; }));
    const auto pid = static_cast<pid_t>(process->processId());
    QTest::qWait(1500);  // it trains, or is about to
    if (byClosing) {
      dialog->reject();
      QVERIFY(tests::wait([&] { return dialog.isNull(); }));
    } else {
      QTest::mouseClick(button(dialog), Qt::LeftButton);
      QVERIFY(tests::wait([&] { return !dialog->running(); }));
      QVERIFY2(outcome(dialog).startsWith("Ended"), qPrintable(outcome(dialog)));
    }
    QVERIFY(tests::wait([&] { return ::kill(pid, 0) != 0; }));
  }

  void aLaunchHasItsPreflight() {
    road_->window()->openLaunch(nullptr, nullptr);
    auto* launch = road_->window()->findChild<ui::LaunchDialog*>();
    QVERIFY(launch && tests::wait([&] { return launch->ready(); }));
    launch->chooseTarget(launch->findChild<QComboBox*>("launchCluster")->count() - 1);
    auto* begin = launch->findChild<QPushButton*>("launchPreflight");
    QVERIFY(tests::wait([&] { return begin->isEnabled(); }));
    QTest::mouseClick(begin, Qt::LeftButton);
    auto* preflight = launch->findChild<ui::PreflightDialog*>();
    QVERIFY(preflight && preflight->measuring());
    QCOMPARE(preflight->findChild<QLineEdit*>("preflightDialogCommand")->text(),
             QString("lockstep cluster preflight --local 3"));
    QVERIFY(tests::wait([&] { return !preflight->measuring(); }, 120'000));
    QVERIFY2(preflight->values().rowCount() > 0,
             qPrintable(preflight->findChild<QLabel*>("preflightOutcome")->text()));
  }

  // Of a run's cluster there is no file that a command could name.
  void aRunsClusterHasNoCommand() {
    ui::MainWindow* window = road_->window();
    const auto nodes = app::localCluster(1, home_->home().root + "/local", "");
    const auto live = window->workspace().makeCluster(nodes.spec);
    QFile example(QString::fromStdString(tests::examplePath("fashion-mlp.yaml")));
    QVERIFY(example.open(QFile::ReadOnly));
    ui::LaunchModel model;
    model.title = "mlp";
    model.file = "run r";
    model.text = [text = example.readAll().toStdString()] { return text; };
    ui::LaunchTarget target;
    target.title = "local";
    target.file = "cluster of run r";
    target.yaml = [yaml = nodes.yaml] { return yaml; };
    target.connected = target.live = [live] { return live; };
    app::Relaunch again;
    again.run = "r";
    again.name = "mlp";
    ui::LaunchDialog launch({model}, {target}, window->workspace(), window, again);
    launch.open();
    QVERIFY(tests::wait([&] { return launch.ready(); }));
    QTest::mouseClick(launch.findChild<QPushButton*>("launchPreflight"), Qt::LeftButton);
    const auto* preflight = launch.findChild<ui::PreflightDialog*>();
    QVERIFY(preflight);
    QCOMPARE(preflight->findChild<QLineEdit*>("preflightDialogCommand")->text(), QString());
    QVERIFY(tests::wait([&] { return !preflight->measuring(); }));
  }

 private:
  ui::CommandDialog* open(const char* action) {
    road_->window()->findChild<QAction*>(action)->trigger();
    return road_->window()->findChild<ui::CommandDialog*>();
  }
  static QLineEdit* line(QDialog* dialog) { return dialog->findChild<QLineEdit*>("commandLine"); }
  static QPushButton* button(QDialog* dialog) {
    return dialog->findChild<QPushButton*>("commandDialogAccept");
  }
  static QString outcome(QDialog* dialog) {
    return dialog->findChild<QLabel*>("commandOutcome")->text();
  }
  static QString output(QDialog* dialog) {
    return dialog->findChild<QPlainTextEdit*>("commandOutput")->toPlainText();
  }
  static void run(ui::CommandDialog* dialog) {
    QTest::keyClick(line(dialog), Qt::Key_Return);
    QVERIFY(tests::wait([&] { return !dialog->running(); }, 120'000));
  }

  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
};

QTEST_MAIN(ToolsTest)
#include "tools_test.moc"
