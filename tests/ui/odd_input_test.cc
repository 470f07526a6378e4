// The window with what nobody planned for: a hundred nodes in a line, names as long as a page,
// fields left empty, a history file that is no database. LOCKSTEP_PICTURES=FOLDER keeps pictures of
// it.
#include <QTest>
#include <QtWidgets>
#include <random>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/models/data_table_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/data_panel.h"
#include "ui/pages/history_page.h"
#include "ui/pages/learn_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/studio/background.h"
#include "ui/studio/spec_document.h"
#include "ui/theme/language.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;

namespace {

constexpr QSize kSmallScreen(1280, 720);

const char* const kManyNodes = R"(version: 1
name: farm
nodes:
  - name: n[001-128]
    ssh: {host: "n[001-128].farm.example", user: ann}
    address: 10.0.0.[1-128]
    devices: [{kind: cuda, count: 4, model: H100-SXM-80GB}]
  - name: rack[1-2]-n[1-2]
    ssh: {host: "rack[1-2]-n[1-2]"}
    devices: [{kind: cuda, count: 4, model: A100-SXM-80GB}]
)";

void write(const QString& path, const QByteArray& bytes) {
  QDir().mkpath(QFileInfo(path).path());
  QFile file(path);
  QVERIFY2(file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size(), qPrintable(path));
}

QByteArray idx(const QVector<quint32>& dimensions, const QByteArray& elements) {
  QByteArray out("\0\0\x08", 3);
  out += static_cast<char>(dimensions.size());
  for (const quint32 extent : dimensions)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(extent >> shift & 0xff);
  return out + elements;
}

}  // namespace

class OddInputTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    QDir::setCurrent(home_->path({}));  // files of names that nobody would choose
    Theme::instance().apply(Theme::Mode::kLight);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  // Rows for all; a node of a range is removed alone, and comes back with one undo.
  void aHundredNodesInALine() {
    const auto* page = openCluster(kManyNodes);
    QVERIFY(page && page->document()->spec().ok());
    QCOMPARE(page->nodes()->rowCount(), 132);
    QCOMPARE(page->nodes()->rows()[127].target, QString("ann@n128.farm.example"));
    QVERIFY2(fits(), qPrintable(sizes()));
    auto* table = page->findChild<QTableView*>("nodeTable");
    auto* remove = page->findChild<QPushButton*>("removeHostButton");
    picture("many-nodes");
    const QString before = page->document()->text();
    table->selectRow(4);
    picture("many-nodes-chosen");
    QTest::mouseClick(remove, Qt::LeftButton);
    QCOMPARE(page->nodes()->rowCount(), 131);
    QCOMPARE(page->nodes()->find("n005"), -1);
    const auto value = [&](const char* path) {
      return QString::fromStdString(page->document()->spec().value(path).value_or(""));
    };
    QCOMPARE(value("nodes[0].name"), QString("n[001-004,006-128]"));
    QCOMPARE(value("nodes[0].ssh.host"), QString("n[001-004,006-128].farm.example"));
    QCOMPARE(value("nodes[0].address"), QString("10.0.0.[1-4,6-128]"));
    QVERIFY(page->document()->spec().ok());
    page->document()->undoStack()->undo();
    QCOMPARE(page->document()->text(), before);
    // Of two ranges nothing is removed, and it is said why.
    table->selectRow(130);
    QTest::mouseClick(remove, Qt::LeftButton);
    QCOMPARE(page->document()->text(), before);
    QVERIFY(
        window_->currentPage()->findChild<MessagePanel*>()->details().contains("several ranges"));
    picture("many-nodes-refused");
  }

  // A cluster without nodes that asks Slurm for them is a cluster, and can be launched on.
  void aClusterOfAScheduler() {
    auto* page = openCluster(
        "version: 1\nname: hpc\nplacement: {kind: slurm, login: hpc, partition: gpu, nodes: 4, "
        "gpus_per_node: 8, cpus_per_task: 64, time: \"8:00:00\"}\n");
    QVERIFY(page);
    QVERIFY(page->document()->spec().ok());
    QVERIFY(page->findChild<QPushButton*>("clusterLaunchButton")->isEnabled());
    QVERIFY(!page->findChild<QPushButton*>("addHostButton")->isEnabled());
    QVERIFY(!page->findChild<QPushButton*>("connectButton")->isEnabled());
    QStringList texts;
    for (const auto* label : page->findChild<QWidget*>("clusterEmpty")->findChildren<QLabel*>())
      texts << label->text();
    QVERIFY2(texts.join('\n').contains("Slurm"), qPrintable(texts.join('\n')));
    QStringList rows;
    for (const InspectorRow& row : page->inspectorRows()) rows << row.name + '=' + row.value;
    QVERIFY2(rows.contains("Partition=gpu"), qPrintable(rows.join(' ')));
    picture("slurm");
  }

  void aLaunchOnAHundredNodes() {
    auto* cluster = openCluster(kManyNodes);
    auto* model = qobject_cast<ModelPage*>(
        window_->openFile(QString::fromStdString(examplePath("gpt-small.yaml"))));
    QVERIFY(cluster && model);
    LaunchDialog* launch = window_->openLaunch(model, cluster);
    QVERIFY(launch);
    (void)QTest::qWaitFor([&] { return launch->ready(); }, 20'000);
    picture("many-nodes-launch", launch);
    QVERIFY(launch->width() <= kSmallScreen.width() && launch->height() <= kSmallScreen.height());
    launch->reject();
  }

  // However long a name, the window stays as it is.
  void namesAsLongAsAPage() {
    const QString name = QString("a name that nobody would give ").repeated(12).trimmed();
    const QString word = QString("Donaudampfschifffahrt").repeated(12);
    openWindow();
    for (const QString& one : {name, word}) {
      auto* cluster = openCluster(QString("version: 1\nname: %1\nnodes:\n  - name: %2\n"
                                          "    ssh: {host: %2}\n"
                                          "    devices: [{kind: cpu, count: 1}]\n")
                                      .arg(one, word.toLower().left(200)),
                                  one.left(200));
      QVERIFY(cluster);
      QVERIFY2(fits(), qPrintable("cluster: " + sizes()));
      picture("long-cluster");
      cluster->findChild<QTableView*>("nodeTable")->selectRow(0);
      QVERIFY2(fits(), qPrintable("inspector: " + sizes()));
      QFile example(QString::fromStdString(examplePath("fashion-mlp.yaml")));
      QVERIFY(example.open(QIODevice::ReadOnly));
      const QString path = home_->path(one.left(200) + "-model.yaml");
      write(path, "name: " + one.toUtf8() + "\n" + example.readAll());
      QVERIFY(window_->openFile(path));
      QVERIFY2(fits(), qPrintable("model: " + sizes()));
      picture("long-model");
    }
    QVERIFY(window_->openWelcome());
    QVERIFY2(fits(), qPrintable("welcome: " + sizes()));
    picture("long-welcome");
    const QString run = QString::fromStdString(home_->addRun(0, app::RunState::FAILED, 300));
    rename(run, name.left(200));
    window_->openHistory();
    QVERIFY2(fits(), qPrintable("history: " + sizes()));
    picture("long-history");
    RunPage* page = window_->openRun(run);
    QVERIFY(QTest::qWaitFor([&] { return page->document()->loaded(); }, 60'000));
    QVERIFY2(fits(), qPrintable("run: " + sizes()));
    picture("long-run");
  }

  // Every command, on every page, with nothing written into the dialogs that it opens, or nonsense.
  void dialogsLeftEmpty() {
    const QString run = QString::fromStdString(home_->addRun(0, app::RunState::SUCCEEDED, 300));
    openWindow();
    const std::vector<std::function<QWidget*()>> pages{
        [&]() -> QWidget* { return window_->openWelcome(); },
        [&]() -> QWidget* { return openCluster(kManyNodes); },
        [&]() -> QWidget* {
          return window_->openFile(QString::fromStdString(examplePath("ctr.yaml")));
        },
        [&]() -> QWidget* { return window_->openRun(run); },
        [&]() -> QWidget* { return window_->openHistory(); },
        [&]() -> QWidget* { return window_->openLearn(); },
    };
    int dialogs = 0;
    for (const auto& page : pages)
      for (const QString& name : commands()) {
        QVERIFY(page());
        window_->findChild<QAction*>(name)->trigger();
        dialogs += nonsense(name);
        if (!window_->isVisible()) window_->show();
        QVERIFY2(fits(), qPrintable(name + ": " + sizes()));
      }
    QVERIFY2(dialogs > 20, qPrintable(QString::number(dialogs)));
  }

  // Images in colour are shown in it, and called so.
  void imagesInColour() {
    constexpr int kSide = 12, kCount = 40;
    QByteArray pixels, labels;
    for (int i = 0; i < kCount; ++i) {
      for (int at = 0; at < kSide * kSide; ++at) {
        const bool left = at % kSide < kSide / 2;
        pixels += left ? QByteArray("\xff\x00\x00", 3) : QByteArray("\x00\x00\xff", 3);
      }
      labels += static_cast<char>(i % 4);
    }
    const QString folder = home_->path("colour");
    write(folder + "/i", idx({kCount, kSide, kSide, 3}, pixels));
    write(folder + "/l", idx({kCount}, labels));
    write(folder + "/model.yaml",
          "version: 1\nmodel:\n  input: {shape: [12, 12, 3]}\n  layers:\n    - flatten\n"
          "    - dense: {units: 4}\n  classes: 4\ndata:\n  train: {images: i, labels: l}\n"
          "  evaluate: {images: i, labels: l}\ntraining: {batch: 8}\n");
    openWindow();
    auto* page = qobject_cast<ModelPage*>(window_->openFile(folder + "/model.yaml"));
    QVERIFY(page);
    page->showView(ModelPage::kDataView);
    auto* images = page->findChild<QListView*>("dataImages");
    QTRY_VERIFY_WITH_TIMEOUT(images->model()->rowCount() > 0, 60'000);
    const auto* facts = page->findChild<QLabel*>("dataFacts");
    QTRY_VERIFY2_WITH_TIMEOUT(facts->text().contains("12 × 12 in color"), qPrintable(facts->text()),
                              60'000);
    const auto picture = images->model()->index(0, 0).data(Qt::DecorationRole).value<QPixmap>();
    const QImage image = picture.toImage();
    QCOMPARE(image.pixelColor(image.width() / 4, image.height() / 2), QColor(255, 0, 0));
    QCOMPARE(image.pixelColor(3 * image.width() / 4, image.height() / 2), QColor(0, 0, 255));
    this->picture("colour");
  }

  // On a small screen several rows of examples are in sight.
  void examplesOnASmallScreen() {
    openWindow();
    auto* page = window_->openWelcome();
    QVERIFY(page);
    auto* list = page->findChild<QListView*>("exampleList");
    QTest::qWait(50);
    picture("welcome");
    int whole = 0;
    for (int row = 0; row < list->model()->rowCount(); ++row)
      whole += list->viewport()->rect().contains(list->visualRect(list->model()->index(row, 0)));
    QVERIFY2(whole >= 4, qPrintable(QString::number(whole)));
    for (const QLabel* label : page->findChildren<QLabel*>())
      if (label->isVisible() && label->wordWrap())
        QVERIFY2(label->height() >= label->heightForWidth(label->width()),
                 qPrintable(label->objectName()));
  }

 private:
  void openWindow() {
    if (window_) return;
    window_ = std::make_unique<MainWindow>(home_->options());
    window_->setLanguage("en");
    window_->resize(kSmallScreen);
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
    window_->restoreDefaultLayout();
  }
  ClusterPage* openCluster(const QString& text, const QString& name = "farm") {
    openWindow();
    const QString path = home_->path(name + ".yaml");
    write(path, text.toUtf8());
    return qobject_cast<ClusterPage*>(window_->openFile(path));
  }
  bool fits() {
    QCoreApplication::processEvents();
    return window_->minimumSizeHint().width() <= kSmallScreen.width() &&
           window_->minimumSizeHint().height() <= kSmallScreen.height() &&
           window_->size() == kSmallScreen;
  }
  QString sizes() const {
    const QSize least = window_->minimumSizeHint(), now = window_->size();
    return QString("at least %1 × %2, is %3 × %4")
        .arg(least.width())
        .arg(least.height())
        .arg(now.width())
        .arg(now.height());
  }
  void rename(const QString& run, const QString& name) const {
    auto history = app::History::open(home_->home().historyFolder());
    QVERIFY(history.ok());
    auto row = (*history)->row(run.toStdString());
    QVERIFY(row.ok());
    row->name = name.toStdString();
    QVERIFY((*history)->update(*row).ok());
  }
  // All but those that end the studio, or start a run at once.
  QStringList commands() const {
    QStringList out;
    for (const QAction* action : window_->findChildren<QAction*>())
      if (action->objectName().startsWith("action") && action->objectName() != "actionQuit")
        out << action->objectName();
    out.removeDuplicates();
    return out;
  }
  // Of what a command has opened: first nothing in each field, then nonsense. Returns how many.
  int nonsense(const QString& command) {
    QCoreApplication::processEvents();
    int out = 0;
    QList<QPointer<QWidget>> tops;  // one may close others
    for (QWidget* top : QApplication::topLevelWidgets()) tops << top;
    for (const QPointer<QWidget>& top : tops) {
      auto* dialog = qobject_cast<QDialog*>(top.data());
      if (dialog == nullptr || !dialog->isVisible()) continue;
      ++out;
      const QPointer<QDialog> open = dialog;
      const bool isFile = qobject_cast<QFileDialog*>(dialog) != nullptr;
      const bool launches = qobject_cast<LaunchDialog*>(dialog) != nullptr;
      for (const QString& text : {QString(), QString("  \"[{ \\ : # ☃\t%1")}) {
        if (!open || isFile) break;
        for (auto* edit : open->findChildren<QLineEdit*>())
          if (edit->isEnabled() && !edit->isReadOnly()) edit->setText(text);
        for (auto* box : open->findChildren<QSpinBox*>())
          box->setValue(text.isEmpty() ? box->minimum() : box->maximum());
        QCoreApplication::processEvents();
        if (!launches && open && open->isVisible()) open->accept();
        QCoreApplication::processEvents();
      }
      if (open) open->reject();
      QCoreApplication::processEvents();
    }
    qInfo("%s: %d", qPrintable(command), out);
    return out;
  }
  // In each look, if a folder for them is named.
  void picture(const QString& name, QWidget* of = nullptr) {
    const QString folder = qEnvironmentVariable("LOCKSTEP_PICTURES");
    if (folder.isEmpty()) return;
    for (const char* look : {"light", "dark", "chinese"}) {
      window_->setDark(qstrcmp(look, "dark") == 0);
      window_->setLanguage(qstrcmp(look, "chinese") == 0 ? "zh_CN" : "en");
      QThreadPool::globalInstance()->waitForDone(5000);
      QTest::qWait(200);
      (of ? of : window_.get())->grab().save(QString("%1/%2-%3.png").arg(folder, name, look));
    }
    window_->setDark(false);
    window_->setLanguage("en");
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(OddInputTest)
#include "odd_input_test.moc"
