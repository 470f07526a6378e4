// What SSH asks for, answered in the window: one question for the secret of all nodes, none when
// they connect again, and none after a refusal until a person asks to connect. Real sshd and
// agents.
#include "tests/ui/studio_road.h"

using namespace lockstep;
using lockstep::tests::wait;

class StudioSecretsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    if (!QFileInfo(qEnvironmentVariable("LOCKSTEP_BIN") + "/lockstep-agent").isExecutable())
      QSKIP("there is no lockstep-agent");
    folder_ = std::make_unique<test::TempFolder>();
    test::makeKey(key(), "sesame");
    std::vector<const test::Sshd*> list;
    std::string known, nodes;
    for (int i = 1; i <= kNodes; ++i) {
      std::string why;
      const std::string own = *folder_ / ("s" + std::to_string(i));
      QVERIFY(QDir().mkpath(QString::fromStdString(own)));
      servers_.push_back(test::Sshd::start(own, key(), {}, &why));
      if (!servers_.back()) QSKIP(why.c_str());
      list.push_back(servers_.back().get());
      known += list.back()->knownHostsLine() + "\n";
      nodes += fmt::format("  - {{name: n{0}, ssh: {{host: n{0}}}, workdir: {1}/w{0}}}\n", i,
                           folder_->path());
    }
    test::writeText(*folder_ / "known_hosts", known, 0600);
    test::writeText(*folder_ / "config", test::sshConfigFor(list, *folder_ / "known_hosts", key()),
                    0600);
    test::writeText(*folder_ / "two.yaml", "version: 1\nname: two\nnodes:\n" + nodes);
    home_ = std::make_unique<tests::StudioHome>();
    road_ = std::make_unique<tests::StudioRoad>(home_->home());
    road_->open(QString::fromStdString(*folder_ / "config"));
    page_ = qobject_cast<ui::ClusterPage*>(
        road_->window()->openFile(QString::fromStdString(*folder_ / "two.yaml")));
    QVERIFY(page_);
    QVERIFY(QTest::qWaitForWindowActive(road_->window()));
  }
  void cleanup() {
    if (road_) {
      if (auto live = page_ ? page_->liveIfAny() : nullptr)
        for (int node = 0; node < live->session().size(); ++node)
          if (const int pid = live->session().status(node).inventory.agentPid; pid > 0)
            road_->sawAgent(pid);
      road_->close();
      road_->endAgents();
    }
    road_.reset();
    home_.reset();
    servers_.clear();
    folder_.reset();
  }

  void aKeyIsUnlockedOnce() {
    connectNodes();
    answer("open", 1);
    if (!QTest::currentTestFailed()) answer("sesame", 2);
    if (QTest::currentTestFailed()) return;
    QVERIFY2(awaitWithoutQuestion([&] { return page_->connectedCount() == kNodes; }),
             qPrintable(page_->message()->details()));
    // The connections are lost: they come back, and nobody is asked.
    for (const auto& server : servers_) {
      const auto before = accepted(*server);
      QVERIFY(server->killSessions() > 0);
      QVERIFY(awaitWithoutQuestion([&] { return accepted(*server) > before; }));
    }
    QVERIFY(awaitWithoutQuestion([&] { return page_->connectedCount() == kNodes; }));
  }

  void aRefusalIsFinal() {
    connectNodes();
    QPointer<ui::SecretDialog> dialog = question();
    QVERIFY(dialog);
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(wait([&] { return dialog.isNull(); }));
    QVERIFY(awaitWithoutQuestion([&] {
      const auto& rows = page_->nodes()->rows();
      return std::all_of(rows.begin(), rows.end(),
                         [](const auto& row) { return row.phase == app::NodeState::UNAVAILABLE; });
    }));
    QVERIFY2(page_->message()->isVisible() && page_->message()->details().contains("node n"),
             qPrintable(page_->message()->details()));
    connectNodes();
    answer("sesame", 1);
    if (QTest::currentTestFailed()) return;
    QVERIFY2(awaitWithoutQuestion([&] { return page_->connectedCount() == kNodes; }),
             qPrintable(page_->message()->details()));
  }

 private:
  static constexpr int kNodes = 2;

  static qsizetype accepted(const test::Sshd& server) {
    return QString::fromStdString(server.log()).count("Accepted publickey");
  }
  std::string key() const { return *folder_ / "id"; }
  void connectNodes() {
    QTest::mouseClick(page_->findChild<QPushButton*>("connectButton"), Qt::LeftButton);
  }
  ui::SecretDialog* shown() const {
    for (auto* one : road_->window()->findChildren<ui::SecretDialog*>())
      if (one->isVisible()) return one;
    return nullptr;
  }
  ui::SecretDialog* question() const {
    (void)wait([&] { return shown() != nullptr; });
    return shown();
  }
  bool awaitWithoutQuestion(const std::function<bool()>& done) const {
    return wait([&] { return shown() || done(); }) && !shown();
  }
  // Typed where the keyboard is. The dialog says which key, never the secret, and from the second
  // attempt on that the one before was wrong.
  void answer(const QString& secret, int attempt) {
    QPointer<ui::SecretDialog> dialog = question();
    QVERIFY(dialog);
    QVERIFY(dialog->findChild<QLabel*>("secretDialogText")
                ->text()
                .contains(QString::fromStdString(key())));
    QCOMPARE(dialog->findChild<QLabel*>("secretWrong")->isVisible(), attempt > 1);
    auto* edit = dialog->findChild<QLineEdit*>("secretEdit");
    QCOMPARE(edit->echoMode(), QLineEdit::Password);
    QVERIFY(wait([&] { return edit->hasFocus(); }));
    QTest::keyClicks(edit, secret);
    QVERIFY(!edit->displayText().contains(secret));
    QTest::keyClick(edit, Qt::Key_Return);
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }

  std::unique_ptr<test::TempFolder> folder_;
  std::vector<std::unique_ptr<test::Sshd>> servers_;
  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
  QPointer<ui::ClusterPage> page_;
};

QTEST_MAIN(StudioSecretsTest)
#include "studio_secrets_test.moc"
