// CommandDialog: runs a `lockstep` command in the background and shows what it prints. The command
// can be edited before it runs. Closing the dialog interrupts it.
#pragma once

#include <QStringDecoder>
#include <QStringList>
#include <functional>

#include "ui/dialogs/dialog.h"

class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QProcess;
class QProgressBar;

namespace lockstep::ui {

class CommandDialog : public Dialog {
  Q_OBJECT

 public:
  struct Texts {
    QString heading, detail;
  };
  // `globals`: options that are added to the command and not shown. `before`: called before it
  // runs; false: it does not.
  CommandDialog(std::function<Texts()> texts, const QString& command, QStringList globals,
                std::function<bool()> before, QWidget* parent);
  ~CommandDialog() override;

  // As a word of a command.
  static QString quoted(const QString& word);

  bool running() const { return process_ != nullptr; }
  void accept() override;  // runs the command, or cancels it

 protected:
  void retranslate() override;
  QString command() const;
  void setCommand(const QString& command);
  void tell(const QString& text);  // below the output

 private:
  enum class Outcome : std::uint8_t {
    kNone,
    kRunning,
    kSucceeded,
    kFailed,
    kNotLockstep,
    kNoStart
  };

  void run();
  void print(const QByteArray& output);
  void interrupt();
  void ended(Outcome outcome, int status);
  void showOutcome();

  const std::function<Texts()> texts_;
  const QStringList globals_;
  const std::function<bool()> before_;
  QLineEdit* command_ = nullptr;
  QPlainTextEdit* output_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QLabel* outcomeText_ = nullptr;
  QProcess* process_ = nullptr;  // while it runs
  QStringDecoder decoder_;       // a character may come in parts
  Outcome outcome_ = Outcome::kNone;
  int status_ = 0;
};

}  // namespace lockstep::ui
