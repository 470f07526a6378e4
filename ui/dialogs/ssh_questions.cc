#include "ui/dialogs/ssh_questions.h"

#include <QLabel>
#include <QVBoxLayout>
#include <optional>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

HostKeyDialog::HostKeyDialog(app::HostKeyQuestion question, QWidget* parent)
    : Dialog("hostKeyDialog", parent), question_(std::move(question)) {
  fingerprint_ = new QLineEdit(QString::fromStdString(question_.fingerprint), this);
  fingerprint_->setObjectName("hostKeyFingerprint");
  fingerprint_->setReadOnly(true);
  fingerprint_->setFont(Theme::instance().monospace());
  fingerprint_->setMinimumWidth(
      fingerprint_->fontMetrics().horizontalAdvance(fingerprint_->text()) + 32);
  note_ = makeLabel("hostKeyNote", this, "muted");
  note_->setWordWrap(true);
  content()->addWidget(fingerprint_);
  content()->addWidget(note_);
  rejectButton()->setFocus();
  retranslate();
}

void HostKeyDialog::retranslate() {
  const QString host = QString::fromStdString(question_.host);
  setHeading(tr("Unknown host key for %1").arg(host),
             tr("The %1 key of this host is not known yet. Compare its fingerprint with the one "
                "that the host's administrator gives you.")
                 .arg(QString::fromStdString(question_.keyType)));
  fingerprint_->setAccessibleName(tr("Fingerprint of the host key"));
  QString note = tr("A trusted key is saved in %1.").arg(QString::fromStdString(question_.file));
  if (!question_.authority.empty())
    note += " " + tr("The certificate authority in %1 is not asked: host certificates are not "
                     "supported.")
                      .arg(QString::fromStdString(question_.authority));
  note_->setText(note);
  setButtons(tr("Trust this key"), tr("Do not connect"));
}

SecretDialog::SecretDialog(app::SecretQuestion question, QWidget* parent)
    : Dialog("secretDialog", parent), question_(std::move(question)) {
  edit_ = new QLineEdit(this);
  edit_->setObjectName("secretEdit");
  edit_->setMinimumWidth(360);
  edit_->setEchoMode(question_.echo ? QLineEdit::Normal : QLineEdit::Password);
  wrong_ = makeLabel("secretWrong", this);
  wrong_->setVisible(question_.attempt > 1);
  content()->addWidget(edit_);
  content()->addWidget(wrong_);
  edit_->setFocus();
  retranslate();
}

void SecretDialog::retranslate() {
  const QString account = QString::fromStdString(question_.account);
  switch (question_.kind) {
    case app::SecretQuestion::Kind::kPassphrase:
      setHeading(tr("Passphrase of a key"),
                 tr("The key %1 for %2 is locked.")
                     .arg(QString::fromStdString(question_.keyFile), account));
      break;
    case app::SecretQuestion::Kind::kPassword:
      setHeading(tr("Password"), tr("%1 asks for a password.").arg(account));
      break;
    case app::SecretQuestion::Kind::kKeyboardInteractive:
      setHeading(tr("%1 asks").arg(account), QString::fromStdString(question_.prompt));
      break;
  }
  edit_->setAccessibleName(tr("Secret"));
  wrong_->setText(tr("Not accepted. Try again."));
  setButtons(tr("Unlock"), tr("Cancel"));
}

app::Secret SecretDialog::takeSecret() {
  QByteArray bytes = edit_->text().toUtf8();
  app::Secret secret(std::string(bytes.constData(), static_cast<std::size_t>(bytes.size())));
  bytes.fill('\0');
  edit_->clear();
  return secret;
}

QuestionQueue::QuestionQueue(QWidget* window) : QObject(window), window_(window) {}

void QuestionQueue::ask(std::shared_ptr<LiveCluster> cluster, const app::NodeQuestion& question) {
  cases_.push_back({cluster, question});
  next();
}

void QuestionQueue::next() {
  if (open_ || cases_.empty()) return;
  const Case one = cases_.front();
  cases_.pop_front();
  if (one.cluster.expired()) return next();
  const auto id = one.question.id;
  if (one.question.kind == app::NodeQuestion::Kind::kHostKey) {
    open_ = new HostKeyDialog(one.question.hostKey, window_);
    connect(open_, &QDialog::finished, this, [cluster = one.cluster, id](int result) {
      if (auto live = cluster.lock()) live->session().answer(id, result == QDialog::Accepted);
    });
  } else {
    auto* dialog = new SecretDialog(one.question.secret, window_);
    open_ = dialog;
    connect(dialog, &QDialog::finished, this, [dialog, cluster = one.cluster, id](int result) {
      auto live = cluster.lock();
      if (!live) return;
      std::optional<app::Secret> secret;
      if (result == QDialog::Accepted) secret = dialog->takeSecret();
      live->session().answer(id, std::move(secret));
    });
  }
  connect(open_, &QDialog::finished, this, [this, dialog = open_.data()] {
    dialog->deleteLater();
    open_.clear();
    next();
  });
  open_->open();
}

}  // namespace lockstep::ui
