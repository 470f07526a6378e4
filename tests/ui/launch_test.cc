// Models made from nothing in the window, and the launch dialog: what it shows is what is launched,
// nothing begins before it is asked for, and nothing is cut off or moves. No agents.
#include <QtTest>
#include <QtWidgets>
#include <random>
#include <tuple>

#include "engine/cluster/strategies.h"
#include "tests/ui/launch_fixture.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/dialogs/launch_preview.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/dialogs/what_if_dialog.h"
#include "ui/models/advice_model.h"
#include "ui/models/field_model.h"
#include "ui/models/layer_table_model.h"
#include "ui/models/node_table_model.h"
#include "ui/models/pin_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/history_page.h"
#include "ui/pages/model_page.h"
#include "ui/pages/welcome_page.h"
#include "ui/studio/new_model.h"
#include "ui/theme/language.h"
#include "ui/theme/message_text.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

QString example(const char* name) { return QString::fromStdString(examplePath(name)); }

}  // namespace

class LaunchTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_, {1440, 900});
    QCursor::setPos(0, 0);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  // From menu, palette and welcome page; every kind is complete, saved where the dialog says, and
  // written as a person would.
  void newModelsAreComplete() {
    window_->openWelcome()->findChild<QPushButton*>("newModelButton")->click();
    QVERIFY(wait([&] { return newModelDialog() != nullptr; }));
    newModelDialog()->reject();
    QVERIFY(wait([&] { return newModelDialog() == nullptr; }));
    window_->findChild<QAction*>("actionPalette")->trigger();
    QTest::keyClicks(window_->findChild<QLineEdit*>("commandPaletteEdit"), "new model");
    QTest::keyClick(window_->findChild<QLineEdit*>("commandPaletteEdit"), Qt::Key_Return);
    QVERIFY(wait([&] { return newModelDialog() != nullptr; }));
    newModelDialog()->reject();
    QVERIFY(wait([&] { return newModelDialog() == nullptr; }));
    QVERIFY(window_->findChild<QMenu*>("menuFile")
                ->actions()
                .contains(window_->findChild<QAction*>("actionNewModel")));
    for (const app::ModelTemplate& kind : app::modelTemplates()) {
      ModelPage* page = newModel(kind.id);
      QVERIFY2(page, kind.id);
      QVERIFY(!page->isModified());
      QVERIFY(QFileInfo(page->filePath()).isFile());
      QCOMPARE(page->filePath(), QString::fromStdString(home_->home().root) + "/models/" +
                                     page->document()->name() + ".yaml");
      const app::SpecText& spec = page->document()->spec();
      QCOMPARE(QString::fromStdString(
                   spec.value(spec.mark("workload") ? "workload.name" : "model.name").value_or("")),
               page->document()->name());
      QVERIFY2(spec.ok() == (qstrcmp(kind.id, "empty") != 0),
               qPrintable(page->document()->text() +
                          (spec.ok() ? "" : spec.problems().front().error().text().c_str())));
      for (const QString& line : page->document()->text().split('\n'))
        QVERIFY2(line.size() <= 120, qPrintable(line));
      QVERIFY(!page->document()->text().contains("reaches"));  // what is said of the example
    }
    // Another of a kind has another name, and no file is overwritten.
    ModelPage* second = newModel("gpt");
    QCOMPARE(second->document()->name(), QString("gpt-2"));
    window_->newModel();
    QVERIFY(wait([&] { return newModelDialog() != nullptr; }));
    newModelDialog()->findChild<QLineEdit*>("newModelName")->clear();
    QTest::keyClicks(newModelDialog()->findChild<QLineEdit*>("newModelName"), "gpt-2");
    QVERIFY(!newModelDialog()->findChild<QPushButton*>("newModelDialogAccept")->isEnabled());
  }

  // Every kind that a layer can be is offered, with words in Chinese too.
  void everyLayerKindIsOffered() {
    ModelPage* page = newModel("empty");
    const auto labels = [&] {
      QStringList out;
      for (const QAction* action : page->findChild<QMenu*>("addLayerMenu")->actions())
        out << action->text() + action->toolTip();
      return out;
    };
    const QStringList english = labels();
    const auto kinds = app::SpecText::layerKinds();
    QCOMPARE(static_cast<int>(kinds.size()), static_cast<int>(english.size()));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return labels() != english; }));
    for (int i = 0; i < english.size(); ++i)
      QVERIFY2(labels()[i] != english[i], qPrintable(english[i]));
    Language::instance().set("en");
    for (const app::LayerKind& kind : kinds) {
      page->findChild<QAction*>("addLayer_" + QString::fromStdString(kind.field.name))->trigger();
      QCOMPARE(QString::fromStdString(page->document()->spec().layerKind(
                   fmt::format("model.layers[{}]", page->layers()->rowCount() - 1))),
               QString::fromStdString(kind.field.name));
    }
  }

  // A GPT from the empty file by the form alone; what is still missing is said as a step to take,
  // and leads to the field.
  void aGptIsMadeByTheForm() {
    ModelPage* page = newModel("empty");
    auto* problems = page->findChild<QListWidget*>("problemList");
    QVERIFY(page->findChild<QWidget*>("noLayers")->isVisible());
    QVERIFY(page->findChild<QWidget*>("noLayerSelected")->isVisible());
    for (const char* kind : {"embedding", "transformer", "transformer", "layer_norm", "dense"}) {
      page->findChild<QAction*>(QString("addLayer_") + kind)->trigger();
    }
    QVERIFY(!page->findChild<QWidget*>("noLayers")->isVisible());
    // The shape typed in its cell.
    QVERIFY2(page->document()->spec().problems().front().path == "model.input.shape",
             page->document()->spec().problems().front().error().text().c_str());
    QVERIFY(page->findChild<YamlEditor*>("yamlEditor")->marks().isEmpty());
    Q_EMIT problems->itemActivated(problems->item(0));
    auto* table = page->findChild<QTableView*>("fieldTable");
    QCOMPARE(table->currentIndex().data(FieldModel::kPathRole).toString(),
             QString("model.input.shape"));
    QCOMPARE(table->currentIndex().data().toString(), QString("required"));
    QTest::keyClick(table, Qt::Key_F2);
    QVERIFY(table->focusWidget() != table);
    QTest::keyClicks(table->focusWidget(), "64");
    QTest::keyClick(table->focusWidget(), Qt::Key_Return);
    QVERIFY(wait([&] { return page->document()->spec().value("model.input.shape") == "64"; }));
    for (const auto& [path, value] : std::vector<std::pair<const char*, const char*>>{
             {"model.input.vocabulary", "256"},
             {"model.layers[4].dense.units", "256"},
             {"model.layers[4].dense.activation", ""},
             {"model.layers[4].dense.tied", "embedding1"},
             {"data.train.text", "/usr/share/common-licenses/GPL-3"},
             {"data.train.to", "0.9"},
             {"data.evaluate.text", "/usr/share/common-licenses/GPL-3"},
             {"data.evaluate.from", "0.9"},
             {"training.batch", "12"},
             {"training.max_steps", "200"},
             {"training.evaluate_batch", "60"},
             {"training.optimizer.clip_norm", "1"},
             {"training.schedule.kind", "cosine"},
             {"training.schedule.warmup_steps", "20"},
             {"strategy.kind", "placement"}}) {
      QVERIFY2(page->showField(path), path);
      QVERIFY2(table->model()->setData(table->currentIndex(), value) || *value == '\0', path);
    }
    // Layers on stages, in their table.
    auto* layers = page->findChild<QTableView*>("layerTable");
    QVERIFY(!layers->isColumnHidden(LayerTableModel::kStage));
    QVERIFY(page->layers()->setData(page->layers()->index(2, LayerTableModel::kStage), 1));
    QCOMPARE(page->layers()->index(4, LayerTableModel::kStage).data().toInt(), 1);
    QCOMPARE(page->layers()->index(1, LayerTableModel::kStage).data().toInt(), 0);
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
    QVERIFY(page->document()->text().contains(
        "pins: [{layer: embedding1, stage: 0}, {layer: block2, stage: 1}]"));
    for (const QString& line : page->document()->text().split('\n'))
      QVERIFY2(line.size() <= 100, qPrintable(line));
    LaunchDialog* dialog = window_->openLaunch(page, nullptr);
    dialog->findChild<QSpinBox*>("launchNodes")->setValue(2);
    QVERIFY(wait([&] { return dialog->ready(); }));
    QVERIFY(!dialog->command().contains("pins"));  // as in the file
    auto* pins = dialog->findChild<QTableView*>("launchPins");
    QVERIFY(pins->isVisible());
    QVERIFY(pins->model()->setData(pins->model()->index(2, PinModel::kStage), 0));
    QVERIFY(pins->model()->setData(pins->model()->index(3, PinModel::kStage), 1));
    QVERIFY2(dialog->command().contains(
                 "'strategy.pins=[{layer: embedding1, stage: 0}, {layer: norm1, stage: 1}]'"),
             qPrintable(dialog->command()));
    QVERIFY(wait([&] { return dialog->ready(); }));
    dialog->reject();
  }

  // What a field is that is not written: its value, or in words; never just "default".
  void fieldsShowTheirDefaults() {
    ModelPage* page = newModel("cnn");
    const auto shown = [&](const char* path) {
      if (!page->showField(path)) return QString("no such field");
      return page->findChild<QTableView*>("fieldTable")->currentIndex().data().toString();
    };
    QCOMPARE(shown("training.optimizer.beta1"), QString("0.9"));
    QCOMPARE(shown("training.precision"), QString("fp32"));
    QCOMPARE(shown("training.max_steps"), QString("no limit"));
    QCOMPARE(shown("training.schedule.kind"), QString("constant"));
    QCOMPARE(shown("strategy.tensor"), QString("strategy default"));
    QCOMPARE(shown("model.layers[0].conv2d.padding"), QString("valid"));
    QCOMPARE(shown("model.layers[0].name"), QString("conv1"));
    auto* table = page->findChild<QTableView*>("fieldTable");
    auto* sections = page->findChild<QTabBar*>("fieldSections");
    for (const char* language : {"en", "zh_CN"}) {
      Language::instance().set(language);
      for (int section = 0; section < sections->count(); ++section) {
        sections->setCurrentIndex(section);
        for (int row = 0; row < table->model()->rowCount(); ++row) {
          const QModelIndex at = table->model()->index(row, 1);
          if (at.data(FieldModel::kPathRole).toString().isEmpty()) continue;
          QVERIFY2(!at.data().toString().isEmpty(),
                   qPrintable(at.data(FieldModel::kPathRole).toString()));
        }
      }
    }
    // A path may be looked for.
    Language::instance().set("en");
    QVERIFY(page->showField("data.train.images"));
    QTest::keyClick(table, Qt::Key_F2);
    auto* edit = qobject_cast<QLineEdit*>(table->focusWidget());
    QVERIFY(edit && edit->actions().size() == 1);
    edit->actions().first()->trigger();
    QFileDialog* files = nullptr;
    QVERIFY(wait(
        [&] { return (files = window_->findChild<QFileDialog*>("fieldFileDialog")) != nullptr; }));
    Q_EMIT files->fileSelected("/data/own.gz");
    QCOMPARE(page->document()->spec().value("data.train.images").value_or(""),
             std::string("/data/own.gz"));
  }

  // A new cluster is an invitation, not a mistake; what is listed is what is counted.
  void aNewClusterIsCalm() {
    ClusterPage* page = window_->newCluster();
    auto* problems = page->findChild<QListWidget*>("problemList");
    QVERIFY(page->findChild<YamlEditor*>("yamlEditor")->marks().isEmpty());
    for (int i = 0; i < problems->count(); ++i)
      QVERIFY(!problems->item(i)->text().startsWith("Line"));
    const auto counted = [&] {
      const auto* inspector = window_->findChild<QTableView*>("inspector")->model();
      for (int row = 0; row < inspector->rowCount(); ++row) {
        if (inspector->index(row, 0).data().toString() == "Nodes")
          return inspector->index(row, 1).data().toInt();
      }
      return -1;
    };
    for (int i = 1; i <= 3; ++i) {
      QVERIFY(page->addNode(QString("{name: \"n%1\", ssh: {host: \"n%1.lab\"}}").arg(i)).ok());
      QCOMPARE(page->nodes()->rowCount(), i);
      QCOMPARE(counted(), i);
    }
    QVERIFY2(page->document()->text().contains(
                 "nodes:\n  - name: n1\n    ssh: {host: n1.lab}\n  - name: n2"),
             qPrintable(page->document()->text()));
  }

  // The example is opened once, whichever way it came.
  void theExampleIsNotOpenedTwice() {
    window_->openFile(example("fashion-cnn.yaml"));
    window_->openFile(example("local-3.yaml"));
    const auto before = window_->pages().size();
    window_->openReady("fashion-cnn", "local-3");
    QCOMPARE(window_->pages().size(), before);
    auto* dialog = window_->findChild<LaunchDialog*>();
    QVERIFY(dialog);
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    window_->openReady("fashion-cnn", "local-3");
    QCOMPARE(window_->pages().size(), before);
  }

  // Opening the dialog, waiting, and changing what is in it starts no agent and measures nothing.
  void nothingBeginsBeforeConsent() {
    window_->openReady("fashion-mlp", "local-3");
    auto* dialog = window_->findChild<LaunchDialog*>();
    QVERIFY(dialog && wait([&] { return dialog->ready(); }));
    ClusterPage* cluster = nullptr;
    for (Page* page : window_->pages())
      if (auto* one = qobject_cast<ClusterPage*>(page)) cluster = one;
    QVERIFY(cluster);
    auto* strategy = dialog->findChild<QComboBox*>("launch.strategy.kind");
    for (const char* kind : {"zero-1", "pipeline", "multi-worker-mirrored"}) {
      strategy->setCurrentIndex(strategy->findData(kind));
      QVERIFY(wait([&] { return dialog->ready(); }));  // and with it what it begins
      QVERIFY(!dialog->benchmarking());
    }
    dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
    QVERIFY(wait([&] { return dialog->ready(); }));
    QVERIFY(!dialog->benchmarking());
    QVERIFY(!cluster->liveIfAny());
    QVERIFY(!QFileInfo::exists(QString::fromStdString(home_->home().root) + "/local"));
    QVERIFY(dialog->findChild<QLabel*>("launchSource")->text().contains("Rough estimate"));
    QVERIFY(dialog->findChild<QPushButton*>("launchBenchmark")->isEnabled());
  }

  // Documents of one name are told apart, and the order is the navigator's.
  void whatIsLaunchedWhereIsUnmistakable() {
    QStringList files;
    for (const char* folder : {"a", "b"}) {
      QDir().mkpath(home_->path(folder));
      files << home_->path(QString(folder) + "/local-3.yaml");
      QVERIFY(QFile::copy(example("local-3.yaml"), files.last()));
      window_->openFile(files.last());
    }
    ModelPage* gpt = newModel("gpt");
    newModel("mlp");
    window_->openFile(files[0]);
    LaunchDialog* dialog =
        window_->openLaunch(gpt, qobject_cast<ClusterPage*>(window_->currentPage()));
    auto* clusters = dialog->findChild<QComboBox*>("launchCluster");
    auto* models = dialog->findChild<QComboBox*>("launchModel");
    QSet<QString> titles;
    for (int i = 0; i < clusters->count(); ++i) titles << clusters->itemText(i);
    QCOMPARE(static_cast<int>(titles.size()), clusters->count());
    QVERIFY2(clusters->currentText().contains("/a"), qPrintable(clusters->currentText()));
    QVERIFY(dialog->findChild<QLabel*>("launchClusterDetail")->toolTip().contains(files[0]));
    QVERIFY(dialog->findChild<QLabel*>("launchClusterDetail")->text().contains("local1"));
    QCOMPARE(models->currentText(), QString("gpt-1"));
    QVERIFY(dialog->findChild<QLabel*>("launchModelDetail")->toolTip().contains(gpt->filePath()));
    QVERIFY(dialog->windowTitle().contains("gpt-1"));
    QStringList order;
    for (int i = 0; i < models->count(); ++i) order << models->itemText(i);
    QStringList sorted = order;
    sorted.sort();
    QCOMPARE(order, sorted);
    // Another model brings its own settings.
    models->setCurrentIndex(models->findText("mlp-1"));
    QVERIFY(dialog->command().contains("mlp-1.yaml"));
    QVERIFY(dialog->windowTitle().contains("mlp-1"));
    QVERIFY(!dialog->command().contains("--set"));
    QCOMPARE(dialog->findChild<QSpinBox*>("launchBatch")->value(), 32);
  }

  // The energy of a step, and with prices in the cluster spec what an hour costs.
  void energyIsPredicted() {
    QFile file(home_->path("priced.yaml"));
    QVERIFY(file.open(QFile::WriteOnly));
    file.write(
        "version: 1\nname: priced\nnodes: [{name: a}, {name: b}]\n"
        "energy: {idle_watts: 100, busy_watts: 100, price_per_node_hour: 2, currency: CHF, "
        "carbon_per_kwh: 360}\n");
    file.close();
    ModelPage* model = newModel("mlp");
    LaunchDialog* dialog = window_->openLaunch(model, nullptr);
    const auto text = [&](const char* name) { return dialog->findChild<QLabel*>(name)->text(); };
    QVERIFY(wait([&] { return text("launchEnergyDetail").endsWith(" W"); }));
    QVERIFY(text("launchEnergyValue").endsWith("J"));
    QVERIFY(dialog->findChild<Figure*>("launchEnergy")->toolTip().startsWith("Computing "));
    dialog->reject();
    QVERIFY(wait([&] { return window_->findChild<LaunchDialog*>() == nullptr; }));
    window_->openFile(home_->path("priced.yaml"));
    dialog = window_->openLaunch(model, qobject_cast<ClusterPage*>(window_->currentPage()));
    QVERIFY(wait([&] { return text("launchEnergyDetail") == "per step, 2.00 CHF/h"; }));
    const QString tip = dialog->findChild<Figure*>("launchEnergy")->toolTip();
    QVERIFY2(tip.endsWith("\nCO2 equivalent of an hour: 36 g"), qPrintable(tip));
    // Of each strategy of a search, as far as it has come.
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kSearchTab);
    auto* table = dialog->findChild<QTableView*>("adviceTable");
    QVERIFY(table->isColumnHidden(AdviceModel::kCost));
    dialog->findChild<QPushButton*>("adviceSearch")->click();
    QVERIFY(wait([&] { return table->model()->rowCount() > 0; }));
    QVERIFY(!table->isColumnHidden(AdviceModel::kCost));
    for (int row = 0; row < table->model()->rowCount(); ++row) {
      const QString cost = table->model()->index(row, AdviceModel::kCost).data().toString();
      QVERIFY2(cost.contains(" CHF, ") && cost.endsWith(" g"), qPrintable(cost));
    }
  }

  // Of a scheduler's cluster alone, and as the cluster says until a person chooses otherwise.
  void aRequeueCanBeAskedFor() {
    const auto open = [&](const QByteArray& name, const QByteArray& placement) {
      QFile file(home_->path(name + ".yaml"));
      if (file.open(QFile::WriteOnly))
        file.write("version: 1\nname: " + name + "\nplacement: {nodes: 2, " + placement + "}\n");
      file.close();
      return qobject_cast<ClusterPage*>(window_->openFile(file.fileName()));
    };
    ModelPage* model = newModel("mlp");
    (void)open("kept", "kind: slurm, requeue: true");
    (void)open("pods", "kind: kubernetes, image: a");
    LaunchDialog* dialog = window_->openLaunch(model, open("plain", "kind: slurm"));
    auto* requeue = dialog->findChild<QCheckBox*>("launchRequeue");
    auto* clusters = dialog->findChild<QComboBox*>("launchCluster");
    QVERIFY(requeue->isVisible() && !requeue->isChecked());
    QVERIFY(!dialog->command().contains("requeue"));
    requeue->click();
    QVERIFY2(dialog->command().contains(" --requeue"), qPrintable(dialog->command()));
    QVERIFY(wait([&] { return dialog->ready(); }));
    clusters->setCurrentIndex(clusters->findText("kept"));
    QVERIFY(requeue->isChecked() && !dialog->command().contains("requeue"));
    requeue->click();
    QVERIFY2(dialog->command().contains(" --no-requeue"), qPrintable(dialog->command()));
    clusters->setCurrentIndex(clusters->findText("pods"));
    requeue->click();
    auto* message = dialog->findChild<MessagePanel*>();
    QVERIFY(wait([&] { return message->details().contains("volume_claim is missing"); }));
    clusters->setCurrentIndex(clusters->count() - 1);  // this machine
    QVERIFY(!requeue->isVisible());
  }

  // Of nodes that a scheduler has yet to allocate nothing can be measured.
  void nothingIsMeasuredBeforeTheAllocation() {
    QFile file(home_->path("hpc.yaml"));
    QVERIFY(file.open(QFile::WriteOnly));
    file.write("version: 1\nname: hpc\nplacement: {kind: slurm, nodes: 2}\n");
    file.close();
    ModelPage* model = newModel("mlp");
    auto* cluster = qobject_cast<ClusterPage*>(window_->openFile(file.fileName()));
    LaunchDialog* dialog = window_->openLaunch(model, cluster);
    QVERIFY(wait([&] { return dialog->ready(); }));
    QVERIFY(dialog->findChild<QPushButton*>("launchDialogAccept")->isEnabled());
    for (const char* name : {"launchBenchmark", "launchPreflight"})
      QVERIFY2(!dialog->findChild<QPushButton*>(name)->isEnabled(), name);
    dialog->chooseTarget(dialog->findChild<QComboBox*>("launchCluster")->count() - 1);
    QVERIFY(wait([&] { return dialog->ready(); }));  // on this machine
    for (const char* name : {"launchBenchmark", "launchPreflight"})
      QVERIFY2(dialog->findChild<QPushButton*>(name)->isEnabled(), name);
  }

  // A double click in the comparison changes nothing of a launch under way.
  void nothingIsChosenWhileALaunchStarts() {
    QFile file(home_->path("hpc.yaml"));
    QVERIFY(file.open(QFile::WriteOnly));
    file.write(
        "version: 1\nname: hpc\nplacement: {kind: slurm, login: \"127.0.0.1:1\", nodes: 2, "
        "workdir: " +
        home_->path("shared").toUtf8() + "}\n");  // nothing listens there
    file.close();
    ModelPage* model = newModel("mlp");
    auto* cluster = qobject_cast<ClusterPage*>(window_->openFile(file.fileName()));
    LaunchDialog* dialog = window_->openLaunch(model, cluster);
    dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tests::kCompareTab);
    auto* table = dialog->findChild<QTableView*>("candidateTable");
    QVERIFY(wait([&] { return dialog->ready() && table->model()->rowCount() > 1; }));
    const QString before = dialog->command();
    auto* accept = dialog->findChild<QPushButton*>("launchDialogAccept");
    accept->click();
    for (int row = 0; row < table->model()->rowCount(); ++row)
      Q_EMIT table->activated(table->model()->index(row, 0));
    QCOMPARE(dialog->command(), before);
    QVERIFY(wait([&] { return dialog->findChild<MessagePanel*>()->isVisible(); }));
    QVERIFY(accept->isEnabled());
  }

  // What the spec says and a field cannot hold, or what is wrong, is not changed by the dialog.
  void valuesOfTheSpecStay() {
    ModelPage* page = newModel("mlp");
    QVERIFY(page->document()->setField("training.batch", "2000000", "change").ok());
    QVERIFY(page->document()->setField("training.epochs", "5000000000", "change").ok());
    LaunchDialog* dialog = window_->openLaunch(page, nullptr);
    QCOMPARE(dialog->findChild<QSpinBox*>("launchBatch")->value(), 2000000);
    QVERIFY2(!dialog->command().contains("training."), qPrintable(dialog->command()));
    dialog->findChild<QSpinBox*>("launchEpochs")->setValue(3);
    QVERIFY2(dialog->command().contains("--set training.epochs=3"), qPrintable(dialog->command()));
    dialog->reject();
    QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    for (const auto& [path, wrong, right] : {std::tuple("training.batch", "64k", "64"),
                                             {"training.precision", "bf17", "bf16"},
                                             {"strategy.kind", "zero3", "zero-3"}}) {
      QVERIFY(page->document()->setField(path, wrong, "change").ok());
      dialog = window_->openLaunch(page, nullptr);
      auto* message = dialog->findChild<MessagePanel*>();
      QVERIFY2(wait([&] { return message->isVisible(); }), wrong);
      QVERIFY2(message->details().contains(wrong), qPrintable(message->details()));
      QVERIFY(!dialog->findChild<QPushButton*>("launchDialogAccept")->isEnabled());
      dialog->reject();
      QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
      QVERIFY(page->document()->setField(path, right, "change").ok());
    }
  }

  // Unsaved text is saved when it is launched; where that fails nothing is launched.
  void unsavedTextIsSavedAtLaunch() {
    ModelPage* page = newModel("mlp");
    QVERIFY(page->document()->setField("training.batch", "48", "change").ok());
    LaunchDialog* dialog = window_->openLaunch(page, nullptr);
    auto* unsaved = dialog->findChild<QLabel*>("launchUnsaved");
    QVERIFY(unsaved->isVisible());
    QVERIFY(unsaved->text().contains(page->document()->name() + ".yaml"));
    QVERIFY(!dialog->command().contains("batch"));
    QVERIFY(wait([&] { return dialog->ready(); }));
    // What is searched stands in no file that a command could read.
    QVERIFY(dialog->findChild<QLineEdit*>("adviceCommand")->text().isEmpty());
    const QString path = page->filePath(), folder = QFileInfo(path).path();
    QVERIFY(QDir().rename(folder, folder + "-away"));
    dialog->findChild<QPushButton*>("launchDialogAccept")->click();
    QVERIFY(dialog->findChild<MessagePanel*>()->isVisible());
    QVERIFY2(dialog->findChild<MessagePanel*>()->what().contains(path),
             qPrintable(dialog->findChild<MessagePanel*>()->what()));
    QVERIFY(page->isModified());
    QVERIFY(!QFileInfo::exists(QString::fromStdString(home_->home().root) + "/local"));
    QVERIFY(QDir().rename(folder + "-away", folder));
  }

  // The command, given to a shell, plans what the dialog shows: seeded choices of all settings.
  void theCommandIsWhatIsShown() {
    const QString lockstep = qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep";
    if (!QFileInfo(lockstep).isExecutable()) QSKIP("there is no lockstep");
    ModelPage* model = newModel("gpt");
    auto* cluster = qobject_cast<ClusterPage*>(window_->openFile(example("local-3.yaml")));
    LaunchDialog* dialog = window_->openLaunch(model, cluster);
    std::mt19937 random(3);
    int planned = 0, refused = 0;
    for (int round = 0; round < 14; ++round) {
      const auto pick = [&](int n) {
        return static_cast<int>(random() % static_cast<unsigned>(n));
      };
      auto* clusters = dialog->findChild<QComboBox*>("launchCluster");
      clusters->setCurrentIndex(round % 3 == 0 ? clusters->count() - 1
                                               : clusters->findText("local-3"));
      for (QComboBox* box : dialog->findChildren<QComboBox*>()) {
        if (box == clusters || box->objectName() == "launchModel" || pick(2) == 0) continue;
        if (box->objectName() == "launchComm" || box->objectName() == "launchPrecision") continue;
        // auto, the last entry, is left out: a second search may find another that is as good.
        box->setCurrentIndex(pick(box->count() - (box->findData("auto") == box->count() - 1)));
      }
      dialog->findChild<QSpinBox*>("launchBatch")->setValue(12 * (1 + pick(4)));
      dialog->findChild<QSpinBox*>("launchNodes")->setValue(1 + pick(4));
      dialog->findChild<QSpinBox*>("launch.strategy.micro_batches")->setValue(1 + pick(2));
      for (QSpinBox* spin : dialog->findChildren<QSpinBox*>()) {
        if (spin->objectName().startsWith("launchRanks_")) spin->setValue(1 + pick(2));
      }
      auto* message = dialog->findChild<MessagePanel*>();
      message->clear();
      QVERIFY(wait([&] { return dialog->ready() || message->isVisible(); }));
      QString command = dialog->command();
      QVERIFY(command.startsWith("lockstep run "));
      command.replace(0, 13, lockstep + " plan ");
      command.remove(" --no-benchmark");
      QProcess shell;
      shell.start("/bin/sh", {"-c", command + " --json"});
      QVERIFY(shell.waitForFinished(60'000));
      const QByteArray out = shell.readAllStandardOutput();
      if (!dialog->ready()) {
        QVERIFY2(shell.exitCode() != 0, qPrintable(command + "\n" + message->what()));
        ++refused;
        continue;
      }
      QVERIFY2(shell.exitCode() == 0,
               qPrintable(command + "\n" + shell.readAllStandardError() + out));
      const QJsonObject plan = QJsonDocument::fromJson(out).object();
      QVERIFY2(plan["prediction"].toObject()["world"].toInt() ==
                   static_cast<int>(dialog->preview()->ranks.size()),
               qPrintable(command));
      QCOMPARE(plan["prediction"].toObject()["plan_hash"].toString().toStdString(),
               dialog->preview()->planHash);
      ++planned;
    }
    QVERIFY2(planned > 4, qPrintable(QString("%1 planned, %2 refused").arg(planned).arg(refused)));
  }

  // A dialog that is closed plans no more strategies.
  void aComparisonStops() {
    std::stop_source stop;
    LaunchInputs inputs;
    inputs.specFile = examplePath("fashion-mlp.yaml");
    QFile file(QString::fromStdString(inputs.specFile));
    QVERIFY(file.open(QIODevice::ReadOnly));
    inputs.specYaml = file.readAll().toStdString();
    inputs.localFolder = home_->home().root + "/local";
    inputs.localNodes = 2;
    inputs.sets = {"strategy.kind=mirrored"};
    inputs.stop = stop.get_token();
    const std::vector<std::pair<std::string, LaunchInputs>> both{{"mirrored", inputs},
                                                                 {"mirrored", inputs}};
    QCOMPARE(compareStrategies(both).size(), std::size_t{2});
    stop.request_stop();
    QCOMPARE(compareStrategies(both).size(), std::size_t{0});
  }

  // Why a launch is refused is told in Chinese, whatever is wrong with it: seeded settings of all
  // examples.
  void refusalsAreInChinese() {
    Language::instance().set("zh_CN");
    std::mt19937 random(17);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<app::FieldInfo> fields;
    for (const char* group : {"strategy", "training", "training.optimizer", "training.schedule",
                              "training.loss_scale"}) {
      for (app::FieldInfo& field : app::SpecText::fields(app::SpecKind::kRun, group)) {
        if (field.type > app::FieldType::kBoolean) continue;  // one value, in a word
        field.name = std::string(group) + "." + field.name;
        fields.push_back(std::move(field));
      }
    }
    const std::vector<std::string> numbers{"0", "1", "2", "3", "5", "7", "12", "100", "0.5", "-1"};
    QSet<QString> english;
    int refused = 0;
    for (const char* name : {"fashion-cnn", "fashion-mlp", "gpt-tiny"}) {
      LaunchInputs inputs;
      inputs.specFile = examplePath((std::string(name) + ".yaml").c_str());
      QFile file(QString::fromStdString(inputs.specFile));
      QVERIFY(file.open(QIODevice::ReadOnly));
      inputs.specYaml = file.readAll().toStdString();
      inputs.localFolder = home_->home().root + "/local";
      for (int round = 0; round < 120; ++round) {
        inputs.localNodes = 1 + static_cast<int>(pick(4));
        const auto strategies = cluster::strategies();
        inputs.sets = {"strategy.kind=" + std::string(strategies[pick(strategies.size())].name)};
        for (std::size_t n = 1 + pick(3); n > 0; --n) {
          const app::FieldInfo& field = fields[pick(fields.size())];
          if (field.name == "strategy.kind" || field.name == "strategy.pins") continue;
          const auto& values = field.choices.empty() ? numbers : field.choices;
          inputs.sets.push_back(field.name + "=" + values[pick(values.size())]);
        }
        const LaunchPreview made = makeLaunchPreview(inputs);
        if (made.preview.ok()) continue;
        ++refused;
        const Error& error = made.preview.error();
        for (const Message& text : {error.what, error.why, error.next}) {
          if (text.empty()) continue;
          if (messageText(text).toStdString() == text.text())
            english << QString::fromStdString(text);
        }
      }
    }
    QVERIFY(refused > 60);
    QVERIFY2(english.isEmpty(), qPrintable(QStringList(english.values()).join('\n')));
  }

  // A message covers a part of the page, and moves none of it.
  void messagesMoveNothing() {
    home_->addRun(0, app::RunState::SUCCEEDED, 50);
    ModelPage* model = newModel("cnn");
    QList<QWidget*> places;
    places << window_->openWelcome() << model << window_->openFile(example("local-3.yaml"))
           << window_->openHistory();
    LaunchDialog* dialog = nullptr;
    Error error = makeError(Code::kUnavailable, "the node did not answer in time");
    error.why = std::string(300, 'x') + " " + std::string(200, 'y');
    error.next = "look at the node";
    for (int i = 0; i <= places.size(); ++i) {
      QWidget* place = i < places.size() ? places[i] : nullptr;
      if (!place) {
        place = dialog = window_->openLaunch(model, nullptr);
        QVERIFY(wait([&] { return dialog->ready(); }));
      } else if (auto* page = qobject_cast<Page*>(place)) {
        window_->findChild<QTabWidget*>("documents")->setCurrentWidget(page);
      }
      QTest::qWait(50);
      auto* panel = place->findChild<MessagePanel*>();
      const auto geometry = [&] {
        QHash<QString, QRect> out;
        for (QWidget* one : place->findChildren<QWidget*>()) {
          if (one->isVisible() && one != panel && !panel->isAncestorOf(one) &&
              !one->objectName().isEmpty()) {
            out[one->objectName()] = QRect(one->mapTo(place, QPoint()), one->size());
          }
        }
        return out;
      };
      for (const bool below : {false, true}) {
        QCursor::setPos(below ? place->mapToGlobal(QPoint(place->width() / 2, place->height() - 40))
                              : place->mapToGlobal(QPoint(5, 5)));
        const auto before = geometry();
        panel->showError(error);
        QTest::qWait(50);
        QVERIFY(panel->isVisible());
        QVERIFY(place->rect().contains(panel->geometry()));
        QVERIFY(panel->height() >= 60);
        QVERIFY(!panel->geometry().contains(place->mapFromGlobal(QCursor::pos())));
        const auto after = geometry();
        for (auto it = before.begin(); it != before.end(); ++it) {
          QVERIFY2(after[it.key()] == it.value(), qPrintable(place->objectName() + "/" + it.key()));
        }
        panel->clear();
      }
    }
  }

  // Enter launches from a field of any kind, the moment the prediction is there.
  void enterLaunchesFromEveryField() {
    ModelPage* page = newModel("mlp");
    QVERIFY(page->document()->setField("training.batch", "48", "change").ok());
    for (const auto& [field, typed] : {std::pair{"launchNodes", "2"},
                                       {"launchBatch", "60"},
                                       {"launchEpochs", "2"},
                                       {"launch.strategy.micro_batches", "2"},
                                       {"launch.strategy.kind", ""}}) {
      LaunchDialog* dialog = window_->openLaunch(page, nullptr);
      QVERIFY(wait([&] { return dialog->ready(); }));
      // What is launched is saved first: where it cannot be, that is said, and shows that Enter
      // launched.
      const QString folder = QFileInfo(page->filePath()).path();
      QVERIFY(QDir().rename(folder, folder + "-away"));
      auto* widget = dialog->findChild<QWidget*>(field);
      widget->setFocus();
      if (auto* spin = qobject_cast<QSpinBox*>(widget)) {
        spin->selectAll();
        QTest::keyClicks(spin, typed);  // which begins another prediction
        QVERIFY(!dialog->ready());
      }
      QTest::keyClick(widget, Qt::Key_Return);
      QVERIFY2(wait([&] { return dialog->findChild<MessagePanel*>()->isVisible(); }), field);
      QVERIFY(QDir().rename(folder + "-away", folder));
      QVERIFY2(dialog->findChild<MessagePanel*>()->what().contains(page->document()->name()),
               field);
      dialog->reject();
      QVERIFY(wait([&] { return !window_->findChild<LaunchDialog*>(); }));
    }
  }

  // The wheel on the way through the settings changes none of them, but the one with the keyboard.
  void theWheelScrollsTheSettings() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    const QString before = dialog->command();
    const auto turn = [](QWidget* field) {
      const QPoint at = field->rect().center();
      QWheelEvent wheel(at, field->mapToGlobal(at), {}, {0, 120}, Qt::NoButton, Qt::NoModifier,
                        Qt::NoScrollPhase, false);
      QApplication::sendEvent(field, &wheel);
    };
    for (const char* name : {"launchBatch", "launchEpochs", "launchNodes", "launchPrecision",
                             "launch.strategy.kind"}) {
      auto* field = dialog->findChild<QWidget*>(name);
      QVERIFY(field && !field->hasFocus());
      turn(field);
      QCOMPARE(dialog->command(), before);
    }
    auto* batch = dialog->findChild<QSpinBox*>("launchBatch");
    const int value = batch->value();
    batch->setFocus();
    QVERIFY(wait([&] { return batch->hasFocus(); }));
    turn(batch);
    QVERIFY(batch->value() > value);
  }

  // Every field of the dialogs says what it is.
  void fieldsHaveToolTips() {
    LaunchDialog* dialog = window_->openLaunch(newModel("mlp"), nullptr);
    dialog->findChild<QToolButton*>("launchMore")->setChecked(true);
    QList<QWidget*> fields;
    for (QSpinBox* one : dialog->findChildren<QSpinBox*>()) fields << one;
    for (QComboBox* one : dialog->findChildren<QComboBox*>()) fields << one;
    QVERIFY(fields.size() > 15);
    for (QWidget* one : fields) QVERIFY2(!one->toolTip().isEmpty(), qPrintable(one->objectName()));
    dialog->reject();
    AddHostDialog host({"n1"}, {}, "lab.yaml", window_.get());
    for (QLineEdit* one : host.findChildren<QLineEdit*>()) {
      if (one->objectName().startsWith("addHost"))
        QVERIFY2(!one->toolTip().isEmpty(), qPrintable(one->objectName()));
    }
  }

  // The spec text is wide enough to be read beside the form.
  void specTextIsWideEnough() {
    ModelPage* page = newModel("cnn");
    QTest::qWait(50);
    auto* editor = page->findChild<YamlEditor*>("yamlEditor");
    const int columns = editor->viewport()->width() / editor->fontMetrics().horizontalAdvance('0');
    QVERIFY2(columns >= 40, qPrintable(QString::number(columns)));
  }

  // A long name makes no dialog wider than the window.
  void longNamesFit() {
    WhatIfDialog dialog(home_->home().historyFolder(), "run", QString(250, 'm'), window_.get());
    dialog.show();
    QVERIFY2(dialog.width() <= window_->width(), qPrintable(QString::number(dialog.width())));
    QVERIFY(dialog.windowTitle().size() > 250);
  }

  void everythingFits_data() {
    QTest::addColumn<QSize>("size");
    QTest::addColumn<QString>("language");
    for (const char* language : {"en", "zh_CN"}) {
      QTest::newRow(qPrintable(QString("1000x700 ") + language)) << QSize(1000, 700) << language;
      QTest::newRow(qPrintable(QString("1440x900 ") + language)) << QSize(1440, 900) << language;
    }
  }
  // No text of a control is cut off, whatever is chosen. Run a second time on a screen of twice the
  // density.
  void everythingFits() {
    QFETCH(QSize, size);
    QFETCH(QString, language);
    Language::instance().set(language);
    window_->resize(size);
    window_->restoreDefaultLayout();
    check(window_->openWelcome());
    ModelPage* model = newModel("gpt");
    auto* sections = model->findChild<QTabBar*>("fieldSections");
    for (int i = 0; i < sections->count(); ++i) {
      sections->setCurrentIndex(i);
      check(model);
    }
    check(newModel("empty"));
    check(window_->newCluster());
    check(window_->openFile(example("local-3.yaml")));
    if (QTest::currentTestFailed()) return;
    window_->newModel();
    QVERIFY(wait([&] { return newModelDialog() != nullptr; }));
    for (const app::ModelTemplate& kind : app::modelTemplates()) {
      newModelDialog()->chooseKind(kind.id);
      check(newModelDialog());
    }
    newModelDialog()->reject();
    QVERIFY(wait([&] { return newModelDialog() == nullptr; }));
    AddHostDialog host({"n1"}, {}, "lab.yaml", window_.get());
    host.show();
    check(&host);
    host.close();
    LaunchDialog* dialog = window_->openLaunch(model, nullptr);
    auto* strategy = dialog->findChild<QComboBox*>("launch.strategy.kind");
    for (const bool more : {false, true}) {
      dialog->findChild<QToolButton*>("launchMore")->setChecked(more);
      for (int i = 0; i < strategy->count(); ++i) {
        strategy->setCurrentIndex(i);
        QVERIFY(wait(
            [&] { return dialog->ready() || dialog->findChild<MessagePanel*>()->isVisible(); }));
        dialog->findChild<MessagePanel*>()->clear();
        check(dialog);
        if (QTest::currentTestFailed()) return;
      }
    }
    for (const int tab : {tests::kSearchTab, tests::kWhatIfTab, tests::kSummaryTab}) {
      dialog->findChild<QTabWidget*>("launchTabs")->setCurrentIndex(tab);
      check(dialog);
    }
  }

 private:
  NewModelDialog* newModelDialog() const {
    for (auto* one : window_->findChildren<NewModelDialog*>())
      if (one->isVisible()) return one;
    return nullptr;
  }
  ModelPage* newModel(const char* kind) { return tests::newModel(*window_, kind); }

  // Waits until what is wrong with `root` (see wrongWith) is nothing.
  void check(QWidget* root) {
    QVERIFY(root);
    if (auto* page = qobject_cast<Page*>(root))
      window_->findChild<QTabWidget*>("documents")->setCurrentWidget(page);
    QString wrong;
    QVERIFY2(wait([&] { return (wrong = wrongWith(root)).isEmpty(); }), qPrintable(wrong));
  }

  // Labels, buttons and fields below `root` that are seen have the room their texts need, and lie
  // within what scrolls or the root; the window is no larger than it was asked to be.
  QString wrongWith(QWidget* root) const {
    if (window_->height() > (window_->width() <= 1000 ? 700 : 900) || window_->width() > 1440) {
      return QString("%1 makes the window %2 x %3")
          .arg(root->objectName())
          .arg(window_->width())
          .arg(window_->height());
    }
    if (root->isWindow() &&
        (root->width() > window_->width() || root->height() > window_->height())) {
      return QString("%1 is larger than the window: %2 x %3")
          .arg(root->objectName())
          .arg(root->width())
          .arg(root->height());
    }
    // Where figures stand beside one another nothing is left of the window's edge.
    for (const char* name :
         {"placementTable", "candidateTable", "adviceTable", "layerTable", "summaryTable"}) {
      const auto* table = root->findChild<QTableView*>(name);
      if (table && table->isVisible() && table->horizontalScrollBar()->maximum() > 0) {
        return QString("%1/%2 scrolls sideways by %3 px")
            .arg(root->objectName(), name)
            .arg(table->horizontalScrollBar()->maximum());
      }
    }
    const auto* panel = root->findChild<MessagePanel*>();
    for (QWidget* one : root->findChildren<QWidget*>()) {
      if (!one->isVisible() || (panel && panel->isAncestorOf(one))) continue;
      const QString name = root->objectName() + "/" + one->objectName();
      QSize needed(0, 0);
      if (auto* label = qobject_cast<QLabel*>(one)) {
        if (label->text().isEmpty() || label->textFormat() == Qt::RichText) continue;
        needed = label->wordWrap() ? QSize(0, label->heightForWidth(label->width()) - 1)
                                   : QSize(label->sizeHint().width(), 0);
      } else if (auto* button = qobject_cast<QAbstractButton*>(one)) {
        if (button->parentWidget()->inherits("QTabBar") || button->objectName().startsWith("qt_"))
          continue;
        needed = QSize(button->minimumSizeHint().width(), button->minimumHeight());
        for (QAbstractButton* other :
             button->parentWidget()->findChildren<QAbstractButton*>(Qt::FindDirectChildrenOnly)) {
          if (other != button && other->isVisible() &&
              other->geometry().intersects(button->geometry()))
            return QString("%1 lies over %2, in %3 of %4")
                .arg(name, other->objectName())
                .arg(button->parentWidget()->height())
                .arg(button->parentWidget()->minimumSizeHint().height());
        }
      } else if (qobject_cast<QSpinBox*>(one) || qobject_cast<QComboBox*>(one)) {
        needed = one->minimumSizeHint();
      } else {
        continue;
      }
      if (one->width() < needed.width() || one->height() < needed.height()) {
        return QString("%1 is %2 x %3 and needs %4 x %5")
            .arg(name)
            .arg(one->width())
            .arg(one->height())
            .arg(needed.width())
            .arg(needed.height());
      }
      // Not outside of what is around it, unless that scrolls.
      for (QWidget* at = one; at != root && at->parentWidget(); at = at->parentWidget()) {
        if (qobject_cast<QAbstractScrollArea*>(at->parentWidget()->parentWidget())) break;
        if (!at->isWindow() &&
            !at->parentWidget()->rect().adjusted(-1, -1, 1, 1).contains(at->geometry())) {
          return QString("%1: %2 is cut off by %3")
              .arg(name, at->objectName(), at->parentWidget()->objectName());
        }
      }
    }
    return {};
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(LaunchTest)
#include "launch_test.moc"
