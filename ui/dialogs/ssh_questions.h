// Dialogs for questions of SSH connections: unknown host keys, passphrases and passwords.
#pragma once

#include <QLineEdit>
#include <QObject>
#include <QPointer>
#include <deque>
#include <memory>

#include "app/ssh/prompter.h"
#include "ui/dialogs/dialog.h"
#include "ui/studio/live_cluster.h"

namespace lockstep::ui {

class HostKeyDialog : public Dialog {
  Q_OBJECT
 public:
  HostKeyDialog(app::HostKeyQuestion question, QWidget* parent);

 protected:
  void retranslate() override;

 private:
  app::HostKeyQuestion question_;
  QLineEdit* fingerprint_ = nullptr;
  QLabel* note_ = nullptr;
};

class SecretDialog : public Dialog {
  Q_OBJECT
 public:
  SecretDialog(app::SecretQuestion question, QWidget* parent);
  app::Secret takeSecret();

 protected:
  void retranslate() override;

 private:
  app::SecretQuestion question_;
  QLineEdit* edit_ = nullptr;
  QLabel* wrong_ = nullptr;
};

// Shows the questions of all clusters one at a time.
class QuestionQueue : public QObject {
  Q_OBJECT
 public:
  explicit QuestionQueue(QWidget* window);
  void ask(std::shared_ptr<LiveCluster> cluster, const app::NodeQuestion& question);

 private:
  void next();

  struct Case {
    std::weak_ptr<LiveCluster> cluster;
    app::NodeQuestion question;
  };
  QWidget* window_;
  std::deque<Case> cases_;
  QPointer<QDialog> open_;
};

}  // namespace lockstep::ui
