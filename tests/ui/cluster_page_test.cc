// The page of a cluster: its hosts, its GPUs, its alerts.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QScopeGuard>
#include <QSignalSpy>
#include <QTest>
#include <QtWidgets>

#include "tests/ui/by_hand.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/add_host_dialog.h"
#include "ui/dialogs/deploy_dialog.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/models/alert_model.h"
#include "ui/models/field_model.h"
#include "ui/models/inspector_model.h"
#include "ui/models/node_table_model.h"
#include "ui/pages/cluster_page.h"
#include "ui/pages/field_form.h"
#include "ui/pages/host_panel.h"
#include "ui/plots/plot_view.h"
#include "ui/theme/language.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

namespace {

constexpr const char* kLab =
    "version: 1\nname: lab\nnodes:\n  - name: n1\n    ssh: {host: n1.lab}  # over the gate\n"
    "    address: 10.0.0.1\n  - name: n2\n    ssh: {host: n2.lab, user: ann}\n";

}  // namespace

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

  // By mouse and keyboard; text and form are one, with one undo.
  void settingsOfAHostAreEditedInTheForm() {
    ClusterPage* page = openLab(kLab);
    const QString before = page->document()->text();
    auto* nodes = page->findChild<QTableView*>("nodeTable");
    QVERIFY(page->findChild<QLabel*>("noHostSelected")->isVisibleTo(page->host()));
    QTest::mouseClick(nodes->viewport(), Qt::LeftButton, {},
                      nodes->visualRect(nodes->model()->index(1, 0)).center());
    QTest::keyClick(nodes, Qt::Key_F2);
    QVERIFY(wait([&] { return hostTable()->hasFocus(); }));
    QCOMPARE(hostTitle(), QString("Settings of n2"));
    QCOMPARE(value("nodes[1].ssh.user"), QString("ann"));
    type("nodes[1].ssh.user", "bob");
    QCOMPARE(page->nodes()->rows()[1].target, QString("bob@n2.lab"));
    type("nodes[1].ssh.port", "2222");
    type("nodes[1].ssh.identity_file", "/home/ann/.ssh/lab");
    type("nodes[1].ssh.proxy_jump", "gate.lab");
    type("nodes[1].address", "10.0.0.2");
    type("nodes[1].workdir", "/scratch/lockstep");
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
    for (const auto& [path, written] :
         {std::pair("nodes[1].ssh.port", "2222"), std::pair("nodes[1].ssh.proxy_jump", "gate.lab"),
          std::pair("nodes[1].ssh.identity_file", "/home/ann/.ssh/lab"),
          std::pair("nodes[1].address", "10.0.0.2"), std::pair("nodes[0].address", "10.0.0.1"),
          std::pair("nodes[1].workdir", "/scratch/lockstep")})
      QCOMPARE(page->document()->spec().value(path).value_or(""), std::string(written));
    QVERIFY(page->document()->text().contains("# over the gate"));
    type("nodes[1].name", "n9");  // it stays the selected one
    QCOMPARE(page->nodes()->rows()[1].name, QString("n9"));
    QCOMPARE(hostTitle(), QString("Settings of n9"));
    for (int i = 0; i < 7; ++i) press();
    QCOMPARE(page->document()->text(), before);
    QCOMPARE(hostTitle(), QString("Settings of n2"));
    page->document()->type(QString(before).replace("ann", "eve"));
    QCOMPARE(value("nodes[1].ssh.user"), QString("eve"));
    // By the mouse alone, of the other one.
    nodes->selectRow(0);
    page->findChild<QTabWidget*>("clusterViews")->setCurrentIndex(0);
    QTest::mouseClick(page->findChild<QToolButton*>("editHostButton"), Qt::LeftButton);
    QVERIFY(hostTable()->isVisible());
    QCOMPARE(value("nodes[0].ssh.host"), QString("n1.lab"));
    QCOMPARE(hostTitle(), QString("Settings of n1"));
  }

  void rolesAreChosenOrTyped() {
    ClusterPage* page = openLab(kLab);
    page->findChild<QTableView*>("nodeTable")->selectRow(1);
    page->editHost();
    const auto roles = [&] {
      return page->document()->spec().value("nodes[1].roles").value_or("");
    };
    choose("nodes[1].roles", "spare");
    QCOMPARE(roles(), std::string("spare"));
    choose("nodes[1].roles", "chief, worker");
    QCOMPARE(roles(), std::string("chief, worker"));
    choose("nodes[1].roles", "chief, ps");  // told beside the field, in the language of now
    const auto* problem = page->findChild<QLabel*>("hostFieldTableProblem");
    QVERIFY(problem->isVisible());
    QVERIFY2(problem->text().startsWith("Roles: ") && problem->text().contains("chief and ps"),
             qPrintable(problem->text()));
    const QModelIndex cell = at("nodes[1].roles");
    QVERIFY(!cell.data(Qt::DecorationRole).value<QIcon>().isNull());
    QVERIFY(cell.data(Qt::ToolTipRole).toString().contains("chief and ps"));
    QVERIFY(at("nodes[1].name").data(Qt::DecorationRole).isNull());
    Language::instance().set("zh_CN");
    const bool inChinese =
        wait([&] { return problem->text().startsWith(QString::fromUtf8("角色: ")); });
    Language::instance().set("en");
    QVERIFY(inChinese);
    press();
    QVERIFY(!problem->isVisible());
    type("nodes[1].ssh.port", "many");
    QVERIFY2(problem->isVisible() && problem->text().startsWith("Port: "),
             qPrintable(problem->text()));
    press();
    // Leaving a list with a value that is no choice of it changes nothing.
    const QString before = page->document()->text();
    page->host()->form()->showField("nodes[1].roles");
    QTest::keyClick(hostTable(), Qt::Key_F2);
    QVERIFY(wait([&] { return shown<QComboBox>(); }));
    QTest::keyClick(shown<QComboBox>(), Qt::Key_Return);
    QVERIFY(wait([&] { return !shown<QComboBox>(); }));
    QCOMPARE(page->document()->text(), before);
  }

  void everySettingHasHelpInBothLanguages() {
    ClusterPage* page = openLab(kLab);
    page->findChild<QTableView*>("nodeTable")->selectRow(0);
    page->editHost();
    QStringList help[2];
    for (const int chinese : {0, 1}) {
      Language::instance().set(chinese ? "zh_CN" : "en");
      for (int row = 0; row < hostTable()->model()->rowCount(); ++row) {
        const QModelIndex cell = hostTable()->model()->index(row, 1);
        if (!cell.data(FieldModel::kPathRole).toString().isEmpty())
          help[chinese] << cell.data(Qt::ToolTipRole).toString();
      }
    }
    Language::instance().set("en");
    QVERIFY2(help[0].size() >= 15, qPrintable(QString::number(help[0].size())));
    QCOMPARE(help[0].size(), help[1].size());
    for (qsizetype i = 0; i < help[0].size(); ++i)
      QVERIFY2(!help[0][i].isEmpty() && !help[1][i].isEmpty() && help[0][i] != help[1][i],
               qPrintable(help[0][i] + " " + help[1][i]));
  }

  void devicesAndDataOfAHost() {
    ClusterPage* page = openLab(kLab);
    page->findChild<QTableView*>("nodeTable")->selectRow(0);
    page->editHost();
    const auto spec = [&]() -> const app::SpecText& { return page->document()->spec(); };
    type("nodes[0].devices[0].threads", "4");  // of the one that is assumed
    QCOMPARE(spec().count("nodes[0].devices"), 1);
    choose("nodes[0].devices[0].kind", "cuda");
    type("nodes[0].devices[0].count", "4");
    QCOMPARE(page->nodes()->rows()[0].ranks, 4);
    click("addDeviceButton");
    QCOMPARE(spec().count("nodes[0].devices"), 2);
    QVERIFY(hostTable()->currentIndex() == at("nodes[0].devices[1].kind"));
    type("nodes[0].devices[1].count", "2");
    QCOMPARE(page->nodes()->rows()[0].ranks, 6);
    page->host()->form()->showField("nodes[0].devices[0].count");
    click("removeDeviceButton");
    QCOMPARE(spec().count("nodes[0].devices"), 1);
    QCOMPARE(page->nodes()->rows()[0].ranks, 2);
    click("removeDeviceButton");
    QCOMPARE(spec().count("nodes[0].devices"), 0);
    QVERIFY(!page->findChild<QToolButton*>("removeDeviceButton")->isEnabled());

    click("addDataButton");
    auto* dialog = page->findChild<NameDialog*>();
    QVERIFY(dialog && dialog->isVisible());
    QTest::keyClicks(dialog->findChild<QLineEdit*>("nameField"), "train/x.gz");
    QTest::mouseClick(dialog->findChild<QPushButton*>("nameDialogAccept"), Qt::LeftButton);
    QVERIFY(hostTable()->currentIndex() == at("nodes[0].data[train/x.gz]"));
    type("nodes[0].data[train/x.gz]", "/scratch/x.gz");
    QCOMPARE(spec().value("nodes[0].data[train/x.gz]").value_or(""), std::string("/scratch/x.gz"));
    QVERIFY2(spec().ok(), qPrintable(page->document()->text()));
    type("nodes[0].data[train/x.gz]", "");
    QVERIFY(spec().keys("nodes[0].data").empty());
  }

  void linksOfAHost() {
    ClusterPage* page = openLab(QByteArray(kLab) + "  - {name: n3, ssh: {host: n3.lab}}\n");
    auto* nodes = page->findChild<QTableView*>("nodeTable");
    const auto spec = [&]() -> const app::SpecText& { return page->document()->spec(); };
    const auto isShown = [&](const char* path) { return at(path).isValid(); };
    nodes->selectRow(0);
    page->editHost();
    click("addLinkButton");
    QCOMPARE(spec().value("links[0].from").value_or(""), std::string("n1"));
    QCOMPARE(spec().value("links[0].to").value_or(""), std::string("n2"));
    QVERIFY(hostTable()->currentIndex() == at("links[0].kind"));
    choose("links[0].kind", "25gbe");
    type("links[0].latency_us", "7");
    QVERIFY2(spec().ok(), qPrintable(page->document()->text()));
    // It is one of the other host too, and of no third.
    nodes->selectRow(1);
    QVERIFY(isShown("links[0].kind"));
    nodes->selectRow(2);
    QVERIFY(!isShown("links[0].kind"));
    click("addLinkButton");
    type("links[0].from", "n[2-3]");
    QVERIFY2(spec().ok(), qPrintable(page->document()->text()));
    QVERIFY(isShown("links[0].kind") && !isShown("links[1].kind"));
    nodes->selectRow(1);
    QVERIFY(isShown("links[0].kind") && isShown("links[1].kind"));
    page->host()->form()->showField("links[1].kind");
    click("removeDeviceButton");
    QCOMPARE(spec().count("links"), 1);
    QCOMPARE(spec().value("links[0].from").value_or(""), std::string("n[2-3]"));
    page->host()->form()->showField("links[0].to");
    click("removeDeviceButton");
    QCOMPARE(page->document()->text().count("links"), 0);
    page->host()->form()->showField("nodes[1].name");
    QVERIFY(!page->findChild<QToolButton*>("removeDeviceButton")->isEnabled());
  }

  // Where an entry stands for several hosts, its settings are those of all of them.
  void hostsOfARangeShareTheirSettings() {
    ClusterPage* page = openLab(
        "version: 1\nname: lab\nnodes:\n  - {name: \"n[1-3]\", ssh: {host: \"n[1-3].lab\"}}\n"
        "  - {ssh: {host: n4.lab}}\n");
    auto* nodes = page->findChild<QTableView*>("nodeTable");
    nodes->selectRow(2);
    page->editHost();
    QCOMPARE(hostTitle(), QString("Settings of n[1-3], all 3 hosts"));
    type("nodes[0].workdir", "/scratch");
    QCOMPARE(page->document()->text().count("/scratch"), 1);
    QCOMPARE(page->nodes()->rowCount(), 4);
    QCOMPARE(nodes->currentIndex().row(), 2);
    // What is not there yet is filled in in the form.
    auto* problems = page->findChild<QListWidget*>("problemList");
    QVERIFY(problems->count() > 0);
    page->findChild<QTabWidget*>("clusterViews")->setCurrentIndex(0);
    QTest::mouseClick(problems->viewport(), Qt::LeftButton, {},
                      problems->visualItemRect(problems->item(0)).center());
    QVERIFY(hostTable()->isVisible());
    QVERIFY(hostTable()->currentIndex() == at("nodes[1].name"));
    type("nodes[1].name", "n4");
    QVERIFY2(page->document()->spec().ok(), qPrintable(page->document()->text()));
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

  void aClusterIsImported_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::newRow("hostfile") << QByteArray("n1 slots=2\nn2\n");
    QTest::newRow("TF_CONFIG") << QByteArray(
        "{\"cluster\": {\"chief\": [\"n1:2222\"], \"worker\": [\"n2:2222\"]}}");
  }
  void aClusterIsImported() {
    QFETCH(QByteArray, text);
    QTemporaryDir folder;
    QFile file(folder.filePath("my hosts"));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
    file.close();
    const auto ask = [&] {
      tests::chooseByMouse(*window_, "menuFile", "actionImport");
      return QPointer(window_->findChild<QFileDialog*>("importDialog"));
    };
    QPointer<QFileDialog> dialog = ask();
    QVERIFY(tests::saveAs(dialog, file.fileName()));
    QVERIFY(wait([&] { return dialog.isNull(); }));
    auto* page = qobject_cast<ClusterPage*>(window_->currentPage());
    QVERIFY(page);
    QStringList nodes;
    for (int row = 0; row < page->nodes()->rowCount(); ++row)
      nodes << page->nodes()->rows()[row].name;
    QCOMPARE(nodes, (QStringList{"n1", "n2"}));
    QVERIFY(page->isModified());
    const MessagePanel* said = page->message();
    QVERIFY2(said->details().contains("lockstep cluster import '" + file.fileName() + "'"),
             qPrintable(said->details()));
    dialog = ask();
    QVERIFY(dialog);
    Q_EMIT dialog->fileSelected(folder.filePath("absent"));  // removed since it was chosen
    dialog->reject();
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
    QVERIFY(!status->text().isEmpty());
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QVERIFY(told(0, AlertModel::kState).startsWith("resolved") && status->text().isEmpty());
  }

  // Under another name too a failure lasts until its cause is gone, or nobody looks any more.
  void alertsOfAClusterSavedUnderAnotherNameEnd() {
    auto* page = openLab(
        "version: 1\nname: lab\nnodes:\n  - name: n1\n    ssh: {host: nowhere.invalid}\n    "
        "address: 10.0.0.1\n");
    const auto* alerts = window_->findChild<QTableView*>("alerts")->model();
    const auto active = [&] {
      int count = 0;
      for (int row = 0; row < alerts->rowCount(); ++row)
        count += alerts->index(row, AlertModel::kState).data().toString() == "active";
      return count;
    };
    page->connectAll();
    QVERIFY(wait([&] { return active() == 1; }, 30'000));
    QVERIFY(page->saveAs(home_->path("other.yaml")));
    QVERIFY(wait([&] { return active() == 1 && page->message()->isVisible(); }, 30'000));
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QCOMPARE(active(), 0);
    QVERIFY(window_->findChild<QLabel*>("statusText")->text().isEmpty());
  }

 private:
  ClusterPage* openLab(const QByteArray& text) {
    const QString path = home_->path("lab.yaml");
    QFile file(path);
    if (file.open(QIODevice::WriteOnly)) file.write(text);
    file.close();
    page_ = qobject_cast<ClusterPage*>(window_->openFile(path));
    return page_;
  }
  QTableView* hostTable() const { return page_->host()->form()->table(); }
  QString hostTitle() const { return page_->findChild<QLabel*>("hostCardTitle")->text(); }
  QModelIndex at(const char* path) const {
    const FieldModel* fields = page_->host()->form()->fields();
    return fields->index(fields->find(path), 1);
  }
  QString value(const char* path) const { return at(path).data(Qt::EditRole).toString(); }
  template <typename Editor>
  Editor* shown() const {
    for (auto* one : hostTable()->viewport()->findChildren<Editor*>())
      if (one->isVisible()) return one;
    return nullptr;
  }
  // Into the field of a path: what is there is replaced.
  void type(const char* path, const QString& text) {
    QVERIFY2(page_->host()->form()->showField(path), path);
    QTest::keyClick(hostTable(), Qt::Key_F2);
    auto* editor = shown<QLineEdit>();
    QVERIFY2(editor, path);
    QTest::keyClick(editor, Qt::Key_A, Qt::ControlModifier);
    QTest::keyClick(editor, Qt::Key_Backspace);
    QTest::keyClicks(editor, text);
    QTest::keyClick(editor, Qt::Key_Return);
    QVERIFY(wait([&] { return !shown<QLineEdit>(); }));
  }
  // From the list of a field, or typed where the list takes other texts too.
  void choose(const char* path, const QString& text) {
    QVERIFY2(page_->host()->form()->showField(path), path);
    QTest::keyClick(hostTable(), Qt::Key_F2);
    auto* combo = shown<QComboBox>();
    QVERIFY2(combo, path);
    if (combo->isEditable()) {
      QTest::keyClick(combo, Qt::Key_A, Qt::ControlModifier);
      QTest::keyClicks(combo, text);
    } else {
      combo->setCurrentIndex(combo->findData(text));
    }
    QTest::keyClick(combo, Qt::Key_Return);
    QVERIFY(wait([&] { return !shown<QComboBox>(); }));
  }
  void press() { QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier); }
  void click(const char* button) {
    auto* one = page_->findChild<QToolButton*>(button);
    QVERIFY2(one && one->isVisible() && one->isEnabled(), button);
    QTest::mouseClick(one, Qt::LeftButton);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  ClusterPage* page_ = nullptr;
};

QTEST_MAIN(ClusterPageTest)
#include "cluster_page_test.moc"
