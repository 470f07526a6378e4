// What SSH asks for, answered in the window: one question for the secret of all nodes, none when
// they connect again, and none after a refusal until a person asks to connect. A code that serves
// once is asked for again only after the gate was lost. Real sshd and agents; those of accounts
// with passwords need root.
#include <span>

#include "tests/support/pam_account.h"
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
    codes_ = 0;
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
    account_.reset();
    folder_.reset();
  }

  void aKeyIsUnlockedOnce() {
    if (!openLocked()) QSKIP(why_.c_str());
    connectNodes();
    answer(kKey, "open", 1);
    if (!QTest::currentTestFailed()) answer(kKey, "sesame", 2);
    if (!QTest::currentTestFailed()) areConnected();
    if (!QTest::currentTestFailed()) comeBackUnasked(servers_);
  }

  void aPasswordOfAGateIsAskedOnce_data() {
    QTest::addColumn<QString>("method");
    QTest::newRow("password") << "password";
    QTest::newRow("keyboard-interactive") << "keyboard-interactive";
  }
  void aPasswordOfAGateIsAskedOnce() {
    QFETCH(QString, method);
    if (!openBehindGate(method, kAsksForPassword, false)) QSKIP(why_.c_str());
    const auto secret = method == "password" ? kPassword : kPromptedPassword;
    connectNodes();
    answer(secret, "open", 1);
    if (!QTest::currentTestFailed()) answer(secret, test::PamAccount::kPassword, 2);
    if (!QTest::currentTestFailed()) areConnected();
    if (!QTest::currentTestFailed()) comeBackUnasked({servers_.data(), 1});
  }

  // The password that goes with the code is asked once, and again with a code that was wrong.
  void aCodeOfAGateIsAskedOnceAndNeverKept() {
    if (!openBehindGate("publickey,keyboard-interactive", kAsksForPassword, true))
      QSKIP(why_.c_str());
    const QString password = test::PamAccount::kPassword;
    connectNodes();
    answer(kPromptedPassword, password, 1);
    if (!QTest::currentTestFailed()) answer(kCode, "000000", 1);
    if (!QTest::currentTestFailed()) answer(kPromptedPassword, password, 2);
    if (!QTest::currentTestFailed()) answer(kCode, nextCode(), 2);
    if (!QTest::currentTestFailed()) areConnected();
    // The nodes are lost: they come back through the same login to the gate.
    if (!QTest::currentTestFailed()) comeBackUnasked({servers_.data() + 1, kNodes});
    if (QTest::currentTestFailed()) return;
    // The connections are lost: nobody is asked until a person wants to connect.
    QVERIFY(servers_[0]->killSessions() > 0);
    areAway();
    if (QTest::currentTestFailed()) return;
    QVERIFY2(page_->message()->details().contains("connect again"),
             qPrintable(page_->message()->details()));
    connectNodes();
    answer(kCode, nextCode(), 1);
    if (!QTest::currentTestFailed()) areConnected();
  }

  void aRefusalIsFinal_data() {
    QTest::addColumn<int>("secret");
    QTest::newRow("passphrase") << int(kKey);
    QTest::newRow("password") << int(kPassword);
    QTest::newRow("keyboard-interactive") << int(kPromptedPassword);
    QTest::newRow("code") << int(kCode);
  }
  void aRefusalIsFinal() {
    QFETCH(int, secret);
    const bool opened = secret == kKey        ? openLocked()
                        : secret == kPassword ? openBehindGate("password", kAsksForPassword, false)
                        : secret == kCode
                            ? openBehindGate("publickey,keyboard-interactive", "", true)
                            : openBehindGate("keyboard-interactive", kAsksForPassword, false);
    if (!opened) QSKIP(why_.c_str());
    connectNodes();
    QPointer<ui::SecretDialog> dialog = question();
    QVERIFY(dialog);
    // All wait for the answer.
    const bool inRounds = secret == kPromptedPassword || secret == kCode;
    const char* const waits = inRounds ? "Postponed keyboard-interactive for" : "method none";
    const int hops = secret == kKey ? 1 : 2;
    QVERIFY(wait([&] {
      return configReads() >= hops * kNodes && logged(waits) >= (secret == kKey ? kNodes : 1);
    }));
    QTest::qWait(300);
    QTest::keyClick(dialog, Qt::Key_Escape);
    QVERIFY(wait([&] { return dialog.isNull(); }));
    areAway();
    if (QTest::currentTestFailed()) return;
    QVERIFY2(page_->message()->isVisible() && page_->message()->details().contains("node n"),
             qPrintable(page_->message()->details()));
    connectNodes();
    answer(static_cast<Asked>(secret),
           secret == kKey    ? QString("sesame")
           : secret == kCode ? nextCode()
                             : QString(test::PamAccount::kPassword),
           1);
    if (!QTest::currentTestFailed()) areConnected();
  }

 private:
  static constexpr int kNodes = 2;
  static constexpr const char* kAsksForPassword = "auth required pam_unix.so nodelay\n";
  enum Asked { kKey, kPassword, kPromptedPassword, kCode };
  using Servers = std::span<const std::unique_ptr<test::Sshd>>;

  // Nodes with a key that has a passphrase. False: see why_.
  bool openLocked() {
    test::makeKey(key(), "sesame");
    for (int i = 0; i < kNodes; ++i)
      if (!serve({})) return false;
    openCluster("");
    return true;
  }
  // Nodes behind a gate with an account that PAM lets in, after what `auth` asks for by a code.
  bool openBehindGate(const QString& methods, const char* auth, bool codes) {
    test::makeKey(key());
    account_ = codes ? test::PamAccount::withCodes(folder_->path(), auth, &why_)
                     : test::PamAccount::make(folder_->path(), auth, &why_);
    if (!account_ || !serve(account_->sshd(methods.toStdString(), key()))) return false;
    for (int i = 0; i < kNodes; ++i)
      if (!serve({})) return false;
    openCluster("Host n1\n  User " + account_->name() + "\nHost n2 n3\n  ProxyJump n1\n");
    return true;
  }
  bool serve(test::SshdOptions options) {
    options.extraConfig += "\nLogLevel DEBUG1";
    auto server = test::Sshd::start(*folder_ / ("s" + std::to_string(servers_.size())), key(),
                                    std::move(options), &why_);
    if (!server) return false;
    servers_.push_back(std::move(server));
    return true;
  }
  // Of the last servers, whose keys are known.
  void openCluster(const std::string& config) {
    std::vector<const test::Sshd*> list;
    std::string known, nodes;
    for (const auto& server : servers_) {
      list.push_back(server.get());
      known += server->knownHostsLine() + "\n";
    }
    for (std::size_t i = servers_.size() - kNodes + 1; i <= servers_.size(); ++i)
      nodes += fmt::format("  - {{name: n{0}, ssh: {{host: n{0}}}, workdir: {1}/w{0}}}\n", i,
                           folder_->path());
    test::writeText(*folder_ / "known_hosts", known, 0600);
    test::writeText(*folder_ / "config",
                    config + test::sshConfigFor(list, *folder_ / "known_hosts", key()) +
                        "Match exec \"echo >>" + (*folder_ / "reads") + "\"\n",
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

  static qsizetype accepted(const test::Sshd& server) {
    return QString::fromStdString(server.log()).count("\nAccepted ");
  }
  qsizetype logged(const char* words) const {
    qsizetype out = 0;
    for (const auto& server : servers_) out += QString::fromStdString(server->log()).count(words);
    return out;
  }
  // How often the configuration was read: for each node once for each hop.
  qsizetype configReads() const {
    return QString::fromStdString(test::readText(*folder_ / "reads")).count('\n');
  }
  std::string key() const { return *folder_ / "id"; }
  QString nextCode() { return QString::fromStdString(test::oneTimeCode(codes_++)); }
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
  void areConnected() const {
    QVERIFY2(awaitWithoutQuestion([&] { return page_->connectedCount() == kNodes; }),
             qPrintable(page_->message()->details()));
  }
  void areAway() const {
    QVERIFY2(awaitWithoutQuestion([&] {
               const auto& rows = page_->nodes()->rows();
               return std::all_of(rows.begin(), rows.end(), [](const auto& row) {
                 return row.phase == app::NodeState::UNAVAILABLE;
               });
             }),
             qPrintable(page_->message()->details()));
  }
  // The connections to these servers are lost: they come back, and nobody is asked.
  void comeBackUnasked(Servers servers) const {
    for (const auto& server : servers) {
      const auto before = accepted(*server);
      QVERIFY(server->killSessions() > 0);
      QVERIFY(awaitWithoutQuestion([&] { return accepted(*server) > before; }));
    }
    areConnected();
  }
  // Typed where the keyboard is. The dialog says what is asked for, never the secret, and from the
  // second attempt on that the one before was wrong.
  void answer(Asked asked, const QString& secret, int attempt) {
    QPointer<ui::SecretDialog> dialog = question();
    QVERIFY(dialog);
    const QString title = dialog->windowTitle(),
                  text = dialog->findChild<QLabel*>("secretDialogText")->text();
    const QString about = asked == kKey ? QString::fromStdString(key())
                                        : QString::fromStdString(account_->name() + "@");
    QVERIFY2((title + " " + text).contains(about), qPrintable(title + "\n" + text));
    QVERIFY2(text.contains(asked == kCode               ? "One-time"
                           : asked == kPromptedPassword ? "Password:"
                                                        : about),
             qPrintable(text));
    QCOMPARE(dialog->findChild<QLabel*>("secretWrong")->isVisible(), attempt > 1);
    auto* edit = dialog->findChild<QLineEdit*>("secretEdit");
    QVERIFY(wait([&] { return edit->hasFocus(); }));
    QTest::keyClicks(edit, secret);
    if (asked != kCode) {  // which the server may let be read
      QCOMPARE(edit->echoMode(), QLineEdit::Password);
      QVERIFY(!edit->displayText().contains(secret));
    }
    QTest::keyClick(edit, Qt::Key_Return);
    QVERIFY(wait([&] { return dialog.isNull(); }));
  }

  std::unique_ptr<test::TempFolder> folder_;
  std::unique_ptr<test::PamAccount> account_;
  std::vector<std::unique_ptr<test::Sshd>> servers_;
  std::unique_ptr<tests::StudioHome> home_;
  std::unique_ptr<tests::StudioRoad> road_;
  QPointer<ui::ClusterPage> page_;
  std::string why_;
  std::uint64_t codes_ = 0;  // number of the next one-time code
};

QTEST_MAIN(StudioSecretsTest)
#include "studio_secrets_test.moc"
