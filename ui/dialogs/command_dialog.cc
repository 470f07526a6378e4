#include "ui/dialogs/command_dialog.h"

#include <signal.h>

#include <QCoreApplication>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProcess>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollBar>
#include <QTextCursor>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {
namespace {

constexpr int kMostLines = 20'000;
constexpr int kPatienceMs = 10'000;  // from SIGINT to SIGKILL

// The process outlives the dialog until it has ended.
void interruptAndLeave(QProcess* process) {
  process->disconnect();
  process->setParent(QCoreApplication::instance());
  QObject::connect(process, &QProcess::finished, process, &QObject::deleteLater);
  QTimer::singleShot(kPatienceMs, process, &QProcess::kill);
  if (process->processId() > 0) ::kill(static_cast<pid_t>(process->processId()), SIGINT);
}

}  // namespace

CommandDialog::CommandDialog(std::function<Texts()> texts, const QString& command,
                             QStringList globals, std::function<bool()> before, QWidget* parent)
    : Dialog("commandDialog", parent),
      texts_(std::move(texts)),
      globals_(std::move(globals)),
      before_(std::move(before)) {
  command_ = new QLineEdit(command, this);
  command_->setObjectName("commandLine");
  output_ = new QPlainTextEdit(this);
  output_->setObjectName("commandOutput");
  output_->setReadOnly(true);
  output_->setLineWrapMode(QPlainTextEdit::NoWrap);
  output_->setMaximumBlockCount(kMostLines);
  output_->setMinimumSize(760, 200);
  const QFont fixed = Theme::instance().monospace();
  command_->setFont(fixed);
  output_->setFont(fixed);
  progress_ = new QProgressBar(this);
  progress_->setObjectName("commandProgress");
  progress_->setTextVisible(false);
  progress_->setRange(0, 0);
  outcomeText_ = makeLabel("commandOutcome", this);
  content()->addWidget(command_);
  content()->addWidget(output_, 1);
  content()->addWidget(progress_);
  content()->addWidget(outcomeText_);
  retranslate();
  command_->setCursorPosition(0);
  acceptButton()->setFocus();
  resize(800, 560);
}

CommandDialog::~CommandDialog() {
  if (process_) interruptAndLeave(process_);
}

void CommandDialog::accept() {
  if (process_)
    interrupt();
  else
    run();
}

void CommandDialog::run() {
  QStringList words = QProcess::splitCommand(command_->text());
  if (words.isEmpty() || words.takeFirst() != "lockstep") return ended(Outcome::kNotLockstep, 0);
  if (before_ && !before_()) return;
  output_->clear();
  process_ = new QProcess(this);
  process_->setProcessChannelMode(QProcess::MergedChannels);
  process_->setStandardInputFile(QProcess::nullDevice());
  decoder_ = QStringDecoder(QStringDecoder::Utf8);
  connect(process_, &QProcess::readyRead, this, [this] { print(process_->readAll()); });
  connect(process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart) ended(Outcome::kNoStart, 0);
  });
  connect(process_, &QProcess::finished, this, [this](int code, QProcess::ExitStatus how) {
    const bool well = how == QProcess::NormalExit && code == 0;
    ended(well ? Outcome::kSucceeded : Outcome::kFailed, code);
  });
  outcome_ = Outcome::kRunning;
  retranslate();
  // Fields are disabled now: the button that ends the command gets the keyboard, and not the next.
  if (focusWidget() != command_) acceptButton()->setFocus();
  process_->start(QCoreApplication::applicationDirPath() + "/lockstep", globals_ + words);
}

// One call for what has come: appending a block each would scroll for every line. A person who has
// scrolled up, or chosen a text, is not disturbed.
void CommandDialog::print(const QByteArray& output) {
  QScrollBar* bar = output_->verticalScrollBar();
  const bool follows = bar->value() == bar->maximum();
  QTextCursor end(output_->document());
  end.movePosition(QTextCursor::End);
  end.insertText(decoder_(output));
  if (follows) bar->setValue(bar->maximum());
}

void CommandDialog::interrupt() {
  ::kill(static_cast<pid_t>(process_->processId()), SIGINT);
  QTimer::singleShot(kPatienceMs, process_, &QProcess::kill);
  acceptButton()->setEnabled(false);
}

QString CommandDialog::quoted(const QString& word) {
  const bool isPlain =
      std::none_of(word.begin(), word.end(), [](QChar c) { return c.isSpace() || c == u'"'; });
  return isPlain ? word : '"' + QString(word).replace('"', "\"\"\"") + '"';
}

QString CommandDialog::command() const { return command_->text(); }

void CommandDialog::setCommand(const QString& command) {
  command_->setText(command);
  command_->setCursorPosition(0);
}

void CommandDialog::tell(const QString& text) { outcomeText_->setText(text); }

void CommandDialog::ended(Outcome outcome, int status) {
  if (process_) process_->deleteLater();
  process_ = nullptr;
  outcome_ = outcome;
  status_ = status;
  retranslate();
}

void CommandDialog::showOutcome() {
  progress_->setVisible(outcome_ == Outcome::kRunning);
  command_->setReadOnly(outcome_ == Outcome::kRunning);
  acceptButton()->setEnabled(true);
  QString text;
  switch (outcome_) {
    case Outcome::kNone:
      break;
    case Outcome::kRunning:
      text = tr("Running…");
      break;
    case Outcome::kSucceeded:
      text = tr("Finished.");
      break;
    case Outcome::kFailed:
      text = tr("Ended with status %1.").arg(status_);
      break;
    case Outcome::kNotLockstep:
      text = tr("A command begins with \"lockstep\".");
      break;
    case Outcome::kNoStart:
      text = tr("%1 cannot be started.").arg(QCoreApplication::applicationDirPath() + "/lockstep");
      break;
  }
  outcomeText_->setText(text);
}

void CommandDialog::retranslate() {
  const Texts texts = texts_();
  setHeading(texts.heading, texts.detail);
  setButtons(process_ ? tr("Cancel") : tr("Run"), tr("Close"));
  command_->setAccessibleName(tr("Command"));
  output_->setAccessibleName(tr("Output"));
  progress_->setAccessibleName(tr("Progress"));
  showOutcome();
}

}  // namespace lockstep::ui
