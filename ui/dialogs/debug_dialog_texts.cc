// The texts of a DebugDialog, and which of its widgets are shown.
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QStackedWidget>
#include <QTabWidget>
#include <QToolButton>

#include "ui/dialogs/debug_dialog.h"
#include "ui/models/debug_models.h"
#include "ui/models/preflight_model.h"
#include "ui/theme/error_text.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

void DebugDialog::refresh() {
  for (const Tab tab : {kStacks, kProcesses, kKernel, kBench}) refreshView(tab);
  if (!readings_[kDebugger].busy) news_.reset();
  refreshDebugger();
  const bool busy = readings_[tab()].busy;
  progress_->setVisible(busy && tab() != kDebugger);
  if (tab() == kDebugger)
    setButtons(busy ? tr("Detach") : tr("Attach debugger"), tr("Close"));
  else if (tab() == kBench)
    setButtons(busy ? tr("Cancel") : tr("Measure"), tr("Close"));
  else
    setButtons(busy ? tr("Cancel") : tr("Refresh"), tr("Close"));
  copy_->setEnabled(tab() != kDebugger && readings_[tab()].done);
  terminal_->setEnabled(!targets_.empty());
  copyShell_->setEnabled(!targets_.empty());
  note_->setText(noteText());
  nameCommand();
}

void DebugDialog::nameCommand() {
  if (targets_.empty()) return;
  const char* const names[] = {"stacks", "processes", "kernel", "bench", "gdb"};
  const bool ofRank = tab() == kStacks || tab() == kDebugger;
  QStringList words{
      "debug", names[tab()],
      QString::fromStdString(subject_.run.run.empty() ? subject_.clusterFile : subject_.run.run)};
  words << (ofRank ? QString::number(target().rank) : QString::fromStdString(target().node));
  if (tab() == kKernel) words << "--lines" << QString::number(kKernelLines);
  showCommand(words);
}

void DebugDialog::refreshView(Tab tab) {
  const Reading& reading = readings_[tab];
  const View& view = views_[tab];
  const bool isEmpty = tab == kKernel && kernelModel_->rowCount() == 0;
  view.stack->setCurrentWidget(
      reading.done && !reading.error && !isEmpty ? view.data : static_cast<QWidget*>(view.empty));
  if (reading.error) {
    const ErrorText said = describeError(*reading.error);
    QStringList lines;
    for (const QString& line : {said.why, said.next})
      if (!line.isEmpty()) lines << line;
    view.empty->setTexts(said.what, lines.join('\n'), tr("Try again"));
  } else if (reading.busy) {
    view.empty->setTexts(tab == kBench ? tr("Measuring…") : tr("Reading…"), {});
  } else if (reading.done) {
    view.empty->setTexts(tr("The kernel's log is empty."), {});
  } else if (tab == kBench) {
    view.empty->setTexts(
        tr("Is the node slower than the others?"),
        tr("Matrix products, memory and disk writes of all connected nodes are measured at the "
           "same time. Training on them is slowed meanwhile, for some seconds."),
        tr("Measure"));
  } else {
    view.empty->setTexts(tr("Nothing has been read."), {}, tr("Refresh"));
  }
}

void DebugDialog::refreshDebugger() {
  using State = app::DebuggerNews::State;
  const Reading& reading = readings_[kDebugger];
  QString text =
      tr("gdbserver is attached to the rank while a debugger is connected. Training stands still "
         "while the debugger holds the rank. It goes on when the debugger leaves, and when this "
         "dialog is closed.");
  if (news_ && news_->patienceSeconds > 0)
    text += ' ' + tr("After %1 the other ranks give the rank up, and the run restarts or ends.")
                      .arg(formatSeconds(news_->patienceSeconds));
  about_->setText(text);
  const bool connects = news_.has_value();
  const bool attached = connects && news_->state == State::kAttached;
  debuggerState_->setState(!reading.busy ? QString()
                           : attached    ? tr("A debugger is attached")
                           : connects    ? tr("Waiting for a debugger")
                                         : tr("Starting"),
                           attached ? Tone::kWarning : Tone::kActive);
  for (QWidget* widget : {static_cast<QWidget*>(debuggerLabel_), static_cast<QWidget*>(command_),
                          static_cast<QWidget*>(copyCommand_)})
    widget->setVisible(connects);
  command_->setText(connects ? QString::fromStdString(app::debuggerCommand(*news_)) : QString());
  command_->setCursorPosition(0);
  QString error;
  if (reading.error) {
    const ErrorText said = describeError(*reading.error);
    error = said.what;
    if (!said.why.isEmpty()) error += ": " + said.why;
    if (!said.next.isEmpty()) error += "\n" + said.next;
  }
  debuggerError_->setText(error);
  debuggerError_->setVisible(!error.isEmpty());
}

QString DebugDialog::noteText() const {
  if (!said_.isEmpty()) return said_;
  if (!readings_[tab()].done || readings_[tab()].error) return {};
  switch (tab()) {
    case kStacks: {
      const app::RankStacks& stacks = stackModel_->stacks();
      QString text = tr("Process %1 on %2. Threads: %3, each stopped for at most %4.")
                         .arg(QString::number(stacks.pid), QString::fromStdString(stacks.node),
                              formatCount(static_cast<int>(stacks.threads.size())),
                              formatSeconds(stacks.longestStop()));
      if (stacks.incomplete) text += ' ' + tr("There are more threads.");
      return text;
    }
    case kProcesses: {
      const app::NodeProcesses& list = processModel_->processes();
      QString text = tr("%1 of %2 processes, CPU measured over %3.")
                         .arg(formatCount(static_cast<int>(list.processes.size())),
                              formatCount(list.total), formatSeconds(list.seconds));
      if (list.othersHidden) text += ' ' + tr("The node hides those of other accounts.");
      return text;
    }
    case kKernel:
      return tr("The newest %1 messages of the kernel.").arg(formatCount(kernelModel_->rowCount()));
    case kBench:
      return benchNote();
    default:
      return {};
  }
}

QString DebugDialog::benchNote() const {
  const app::PreflightResult& result = benchModel_->result();
  QStringList lines;
  bool compared = false;
  for (const app::PreflightValue& value : result.values) {
    if (value.node != target().node) continue;
    compared = compared || value.grade != app::PreflightValue::Grade::kUngraded;
    if (value.grade == app::PreflightValue::Grade::kWeak) lines << messageText(weakText(value));
  }
  if (!compared)
    lines << tr("There is no other node to compare it with.");
  else if (lines.isEmpty())
    lines << tr("The processor, memory and disk of the node are as fast as those of the others.");
  for (const Error& error : result.errors) {
    const ErrorText said = describeError(error);
    lines << QString("%1: %2").arg(QString::fromStdString(error.node), said.what) +
                 (said.why.isEmpty() ? QString() : ": " + said.why);
  }
  lines.removeDuplicates();  // both measurements of a node may fail alike
  return lines.join('\n');
}

void DebugDialog::retranslate() {
  setHeading(subject_.run.run.empty()
                 ? tr("Debug node")
                 : tr("Debug %1").arg(QString::fromStdString(subject_.run.name)),
             {});
  targetLabel_->setText(subject_.run.run.empty() ? tr("Node") : tr("Rank"));
  targetBox_->setAccessibleName(targetLabel_->text());
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const QString node = QString::fromStdString(targets_[i].node);
    targetBox_->setItemText(
        static_cast<int>(i),
        targets_[i].rank < 0 ? node : tr("Rank %1 on %2").arg(targets_[i].rank).arg(node));
  }
  setTexts(terminal_, tr("Terminal"), tr("Open a shell on the node in a terminal window"));
  setTexts(copyShell_, tr("Copy the command that opens a shell on the node"));
  setTexts(copy_, tr("Copy what is shown"));
  setTexts(copyCommand_, tr("Copy the command"));
  tabs_->setAccessibleName(tr("What is shown of the node"));
  const QString names[] = {tr("Stacks"), tr("Processes"), tr("Kernel"), tr("Speed"),
                           tr("Debugger")};
  for (int i = 0; i < kTabs; ++i) tabs_->setTabText(i, names[i]);
  for (const int i : {int{kStacks}, int{kDebugger}})
    tabs_->setTabToolTip(
        i, subject_.run.run.empty() ? tr("Opened from a run, for its ranks") : QString());
  for (const Tab tab : {kStacks, kProcesses, kKernel, kBench})
    views_[tab].data->setAccessibleName(names[tab]);
  progress_->setAccessibleName(tr("Progress"));
  debuggerLabel_->setText(tr("Run this on this machine:"));
  command_->setAccessibleName(tr("Command of the debugger"));
  stackModel_->retranslate();
  processModel_->retranslate();
  kernelModel_->retranslate();
  benchModel_->retranslate();
  refresh();
}

}  // namespace lockstep::ui
