// The page of a cluster: its hosts, its GPUs, its alerts.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QSignalSpy>
#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class ClusterPageTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void hostsAreAddedToTheText() {
    ClusterPage* page = window_->newCluster();
    QVERIFY(page);
    page->addHost();
    auto* dialog = page->findChild<AddHostDialog*>();
    QVERIFY(dialog);
    QVERIFY(!dialog->findChild<QPushButton*>("addHostDialogAccept")->isEnabled());
    auto* user = dialog->findChild<QLineEdit*>("addHostUser");
    auto* port = dialog->findChild<QSpinBox*>("addHostPort");
    QVERIFY(!user->isEnabled() && !port->isEnabled());                  // this machine has neither
    dialog->findChild<QComboBox*>("addHostHost")->setEditText(" n1 ");  // copied with its spaces
    QCOMPARE(dialog->findChild<QLineEdit*>("addHostName")->text(), QString("n1"));
    QVERIFY(user->isEnabled());
    dialog->findChild<QComboBox*>("addHostHost")->setEditText("anna@n1.lab");
    QVERIFY(!user->isEnabled());  // it is given with the host
    port->setValue(2201);
    QCOMPARE(dialog->findChild<QLineEdit*>("addHostName")->text(), QString("n1"));
    dialog->findChild<QComboBox*>("addHostDevice")->setCurrentIndex(1);
    QCOMPARE(dialog->findChild<QLineEdit*>("addHostDialogCommand")->text(),
             "lockstep cluster add " + page->filePath() + " anna@n1.lab --port 2201 --device cuda");
    dialog->findChild<QPushButton*>("addHostDialogAccept")->click();
    QVERIFY2(page->document()->text().contains("devices: [{kind: cuda, count: 1}]"),
             qPrintable(page->document()->text()));
    QCOMPARE(page->nodes()->rowCount(), 1);
    QCOMPARE(page->nodes()->rows()[0].name, QString("n1"));
    QCOMPARE(page->nodes()->rows()[0].target, QString("anna@n1.lab"));
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
    page->undoStack()->undo();
    QCOMPARE(page->nodes()->rowCount(), 0);
  }

  // Names and hosts that a range stands for are taken, each of them.
  void hostsOfARangeAreTaken() {
    ClusterPage* page = window_->newCluster();
    QVERIFY(page->addNode("{name: \"n[1-8]\", ssh: {host: \"n[1-8].lab\"}}").ok());
    page->addHost();
    auto* dialog = page->findChild<AddHostDialog*>();
    QVERIFY(dialog);
    auto* host = dialog->findChild<QComboBox*>("addHostHost");
    auto* accept = dialog->findChild<QPushButton*>("addHostDialogAccept");
    host->setEditText("n5.lab");
    QVERIFY(!accept->isEnabled());
    QCOMPARE(dialog->findChild<QLabel*>("addHostWrong")->text(),
             QString("The cluster already has a node n5."));
    host->setEditText("n9.lab");
    QVERIFY(accept->isEnabled());
    dialog->reject();
  }

  void aHostfileIsImported() {
    QTemporaryDir folder;
    QFile file(folder.filePath("mpi hosts"));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write("n1 slots=2\nn2\n") > 0);
    file.close();
    const auto choose = [&](const QString& path) {
      window_->findChild<QAction*>("actionImport")->trigger();
      auto* dialog = window_->findChild<QFileDialog*>("importDialog");
      Q_EMIT dialog->fileSelected(path);
      delete dialog;
    };
    choose(file.fileName());
    auto* page =
        qobject_cast<ClusterPage*>(window_->findChild<QTabWidget*>("documents")->currentWidget());
    QVERIFY(page);
    QCOMPARE(page->nodes()->rowCount(), 2);
    QVERIFY(page->isModified());
    const MessagePanel* said = page->message();
    QVERIFY2(said->details().contains("lockstep cluster import '" + file.fileName() + "'"),
             qPrintable(said->details()));
    choose(folder.filePath("absent"));
    QVERIFY2(said->isVisible() && said->details().contains("absent"), qPrintable(said->details()));
  }

  // The dialog says the command, in each way that agents can start.
  void agentsAreDeployed() {
    auto* action = window_->findChild<QAction*>("actionDeploy");
    window_->newCluster();
    QVERIFY(!action->isEnabled());  // of no nodes
    const QString file = QString::fromStdString(examplePath("local-3.yaml"));
    auto* page = qobject_cast<ClusterPage*>(window_->openFile(file));
    QVERIFY(page && action->isEnabled());
    action->trigger();
    auto* dialog = page->findChild<DeployDialog*>();
    QVERIFY(dialog && dialog->isVisible() && !dialog->start());
    auto* starts = dialog->findChild<QComboBox*>("deployStart");
    auto* command = dialog->findChild<QLineEdit*>("deployDialogCommand");
    QVERIFY2(command->text().endsWith("local-3.yaml"), qPrintable(command->text()));
    for (const char* name : {"detached", "systemd", "auto"}) {
      QTest::keyClick(starts, Qt::Key_Down);
      QCOMPARE(QString::fromStdString(std::string(app::agentStartName(*dialog->start()))),
               QString(name));
      QVERIFY2(command->text().startsWith("lockstep cluster deploy ") &&
                   command->text().endsWith(QString(" --start ") + name),
               qPrintable(command->text()));
    }
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(!page->liveIfAny());
  }

  // Columns, plots and alerts of GPUs are there where a node has one, and only there.
  void gpusShowWhereThereAreAny() {
    auto* page = qobject_cast<ClusterPage*>(
        window_->openFile(QString::fromStdString(examplePath("local-3.yaml"))));
    auto* table = page->findChild<QTableView*>("nodeTable");
    auto* button = page->findChild<QToolButton*>("clusterGpuButton");
    auto* cpu = page->findChild<PlotView*>("clusterCpuPlot");
    QSignalSpy alerts(page, &Page::alertRaised);
    const auto alert = [&](int at) { return alerts[at][0].value<Alert>(); };
    const auto shown = [&] {
      bool any = button->isVisibleTo(page);
      for (int column = 0; column < NodeTableModel::kColumns; ++column)
        any = any || (NodeTableModel::isGpuColumn(column) && !table->isColumnHidden(column));
      return any;
    };
    app::NodeLoad load;
    load.receivedNs = monotonicNow();
    load.cpu = 0.5;
    page->showLoad("local1", load);
    QVERIFY(!shown());
    QVERIFY(!page->findChild<PlotView*>("clusterGpuPlot"));
    QVERIFY(cpu->isVisibleTo(page));
    load.gpus.resize(2);
    load.gpus[1].index = 1;
    load.gpus[0].utilisation = 0.9;
    load.gpus[0].throttle = {"power"};
    load.gpus[1].throttle = {"heat"};
    load.receivedNs += 1'000'000'000;
    page->showLoad("local1", load);
    page->showLoad("local1", load);
    QVERIFY(shown());
    auto* use = page->findChild<PlotView*>("clusterGpuPlot");
    QVERIFY(use);
    QVERIFY(!table->isColumnHidden(NodeTableModel::kGpuPower));
    QCOMPARE(use->series().size(), std::size_t{1});  // the other does not tell
    QCOMPARE(use->series()[0]->name, QString("local1:0"));
    QCOMPARE(use->series()[0]->raw().size(), std::size_t{2});
    QVERIFY(!use->isVisibleTo(page));
    button->click();
    QVERIFY(use->isVisibleTo(page));
    QVERIFY(!cpu->isVisibleTo(page));
    // Heat is told of, once; the power limit is where a busy GPU stands.
    QCOMPARE(alerts.size(), 1);
    QCOMPARE(alert(0).tone, Tone::kWarning);
    QCOMPARE(alert(0).where, QString("local1"));
    QCOMPARE(alert(0).text, std::string("GPU 1: slowed down for heat"));
    load.gpus[0].problem = "GPU is lost";
    page->showLoad("local1", load);
    QCOMPARE(alerts.size(), 2);
    QCOMPARE(alert(1).tone, Tone::kBad);
    table->selectRow(0);
    QStringList rows;
    for (const InspectorRow& row : page->inspectorRows()) rows << row.name + "=" + row.value;
    QVERIFY2(rows.contains("Attention=does not answer: GPU is lost, held at its power limit"),
             qPrintable(rows.join('\n')));
    // Where the last one goes, so does what showed it.
    load.gpus.clear();
    page->showLoad("local1", load);
    QVERIFY(!shown());
    QVERIFY(cpu->isVisibleTo(page));
  }

  // A host that takes the connection and says nothing holds its thread up, and nothing else.
  void closingAPageWaitsForNoHost() {
    const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto closed = qScopeGuard([&] { ::close(silent); });
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    QVERIFY(::bind(silent, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
            ::listen(silent, 4) == 0);
    QVERIFY(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    const QString path = home_->path("silent.yaml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        QString(
            "version: 1\nname: silent\nnodes:\n  - name: n1\n    ssh: {host: 127.0.0.1, port: %1}\n"
            "    address: 127.0.0.1\n")
            .arg(ntohs(address.sin_port))
            .toUtf8());
    file.close();
    QPointer<ClusterPage> page = qobject_cast<ClusterPage*>(window_->openFile(path));
    QVERIFY(page);
    page->connectAll();
    pollfd arrived{silent, POLLIN, 0};
    QVERIFY(wait([&] { return ::poll(&arrived, 1, 0) == 1; }));
    QElapsedTimer timer;
    timer.start();
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    const qint64 took = timer.elapsed();
    QVERIFY(!page);
    QVERIFY2(took < 2000, qPrintable(QString("%1 ms").arg(took)));
  }

  // What lasts on a cluster is told once, in the language of now, and ends with its cause: a GPU's
  // heat, a node that cannot be reached. So it does when nobody looks any more.
  void alertsOfAClusterEnd() {
    const QString path = home_->path("lab.yaml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(
        "version: 1\nname: lab\nnodes:\n  - name: n1\n    ssh: {host: nowhere.invalid}\n    "
        "address: 10.0.0.1\n");
    file.close();
    auto* page = qobject_cast<ClusterPage*>(window_->openFile(path));
    const auto* alerts = window_->findChild<QTableView*>("alerts")->model();
    auto* status = window_->findChild<QLabel*>("statusText");
    const auto told = [&](int row, int column) {
      return alerts->index(row, column).data().toString();
    };
    app::NodeLoad load;
    load.receivedNs = monotonicNow();
    load.gpus.resize(1);
    load.gpus[0].throttle = {"heat"};
    const auto after = [&](double seconds) {
      load.receivedNs += static_cast<Nanoseconds>(seconds * 1e9);
      page->showLoad("n1", load);
    };
    for (int i = 0; i < 3; ++i) after(1);
    QCOMPARE(alerts->rowCount(), 1);
    QCOMPARE(told(0, AlertModel::kText), QString("GPU 0: slowed down for heat"));
    QCOMPARE(told(0, AlertModel::kState), QString("active"));
    QCOMPARE(status->text(), QString("n1: GPU 0: slowed down for heat"));
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return status->text().contains(QString::fromUtf8("因过热而降速")); }));
    QVERIFY(told(0, AlertModel::kText).contains(QString::fromUtf8("因过热而降速")));
    Language::instance().set("en");
    load.gpus[0].throttle.emplace();
    after(5);  // what comes and goes is one
    load.gpus[0].throttle = {"heat"};
    after(5);
    QCOMPARE(alerts->rowCount(), 1);
    QCOMPARE(told(0, AlertModel::kState), QString("active"));
    load.gpus.clear();
    after(11);
    QVERIFY(told(0, AlertModel::kState).startsWith("resolved"));
    QVERIFY(status->text().isEmpty());
    load.gpus.resize(1);
    load.gpus[0].throttle = {"heat"};
    after(1);  // again, and of now
    QCOMPARE(alerts->rowCount(), 2);
    QCOMPARE(told(0, AlertModel::kState), QString("active"));

    page->connectAll();
    QVERIFY(wait([&] { return page->nodes()->rows()[0].phase == app::NodeState::UNAVAILABLE; },
                 30'000));
    const auto failure = [&] {
      for (int row = 0; row < alerts->rowCount(); ++row) {
        if (told(row, AlertModel::kText).contains("nowhere.invalid")) return row;
      }
      return -1;
    };
    QVERIFY(failure() >= 0);
    // of a GPU nobody hears of
    QVERIFY(told(failure() == 0 ? 1 : 0, AlertModel::kState).startsWith("resolved"));
    QCOMPARE(told(failure(), AlertModel::kState), QString("active"));
    QVERIFY(page->message()->isVisible());
    const QString english = page->message()->what();
    const int count = alerts->rowCount();
    Language::instance().set("zh_CN");
    QVERIFY(wait([&] { return page->message()->what() != english; }));
    Language::instance().set("en");
    QVERIFY(wait([&] { return page->message()->what() == english; }));
    QCOMPARE(alerts->rowCount(), count);
    page->findChild<QTableView*>("nodeTable")->selectRow(0);
    page->removeSelected();
    QVERIFY(!page->message()->isVisible());
    QVERIFY(told(failure(), AlertModel::kState).startsWith("resolved"));
    // A page that is closed.
    page->undoStack()->undo();
    after(1);
    QCOMPARE(told(0, AlertModel::kState), QString("active"));
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QVERIFY(told(0, AlertModel::kState).startsWith("resolved"));
  }

 private:
  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(ClusterPageTest)
#include "cluster_page_test.moc"
