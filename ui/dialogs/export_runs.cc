#include "ui/dialogs/export_runs.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileDialog>
#include <QPointer>
#include <array>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "app/report/html_report.h"
#include "app/sinks/otlp.h"
#include "app/sinks/tensorboard.h"
#include "engine/base/file.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"

namespace lockstep::ui {
namespace {

QString say(const char* text) { return QCoreApplication::translate("lockstep::ui::Export", text); }

struct Format {  // by ExportKind
  const char* dialog;
  const char* ending;  // of a file; "": a folder
  const char* filter;
  const char* title;
  const char* folderTitle;  // of several runs
};
constexpr std::array<Format, 4> kFormats{
    {{"exportCsvDialog", ".csv", QT_TRANSLATE_NOOP("lockstep::ui::Export", "CSV (*.csv)"),
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Export as CSV"),
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Folder for the CSV files")},
     {"exportReportDialog", ".html", QT_TRANSLATE_NOOP("lockstep::ui::Export", "HTML (*.html)"),
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Export report"),
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Folder for the reports")},
     {"exportTensorBoardDialog", "", "", "",
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Folder for TensorBoard (--logdir)")},
     {"exportOtlpDialog", ".otlp",
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "OTLP in JSON (*.otlp)"),
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Export for OpenTelemetry"),
      QT_TRANSLATE_NOOP("lockstep::ui::Export", "Folder for the OTLP files")}}};
const Format& formatOf(ExportKind kind) { return kFormats[static_cast<std::size_t>(kind)]; }

bool isInFolder(const QStringList& runs, ExportKind kind) {
  return runs.size() > 1 || kind == ExportKind::kTensorBoard;
}

Result<std::string> textOf(const app::History& history, const std::string& run, ExportKind kind) {
  if (kind == ExportKind::kCsv) return history.csv(run);
  return kind == ExportKind::kOtlp ? app::otlpOfRun(history, run) : app::htmlReport(history, run);
}

Status writeRun(app::History& history, const std::string& run, const std::string& file,
                ExportKind kind, const std::stop_token& stop) {
  LOCKSTEP_ASSIGN(const std::string text, textOf(history, run, kind));
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the export was cancelled");
  return writeFileAtomically(file, text);
}

// `tell`: which fraction of the runs is written.
Status writeRuns(const std::string& historyFolder, const QStringList& runs, const QString& path,
                 ExportKind kind, const std::stop_token& stop,
                 const std::function<void(double fraction)>& tell) {
  LOCKSTEP_ASSIGN(const auto history, app::History::open(historyFolder));
  std::vector<std::string> names;
  for (const QString& run : runs) names.push_back(run.toStdString());
  if (kind == ExportKind::kTensorBoard) {
    LOCKSTEP_TRY(app::writeTensorBoard(*history, names, path.toStdString(), stop));
  } else {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const QString file = QString::fromStdString(names[i]) + formatOf(kind).ending;
      const QString to = isInFolder(runs, kind) ? QDir(path).filePath(file) : path;
      LOCKSTEP_TRY(writeRun(*history, names[i], to.toStdString(), kind, stop));
      if (names.size() > 1) tell(static_cast<double>(i + 1) / static_cast<double>(names.size()));
    }
  }
  // Once all are written: what is damaged of one is no reason to leave out the others.
  for (const std::string& run : names) LOCKSTEP_TRY(app::checkExported(*history, run));
  return {};
}

}  // namespace

void exportRuns(Workspace& workspace, const QStringList& runs, const QString& path, ExportKind kind,
                ExportDone done) {
  if (runs.isEmpty()) return;
  std::stop_source stop;
  JobTracker& jobs = workspace.jobs();
  const auto job =
      jobs.start(say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "Exporting %1")).arg(path),
                 [stop]() mutable { stop.request_stop(); });
  const auto tell = [alive = QPointer<QObject>(&jobs), &jobs, job](double fraction) {
    postToGui(alive, [&jobs, job, fraction] { jobs.progress(job, fraction); });
  };
  runInBackground(
      &jobs,
      [folder = workspace.home().historyFolder(), runs, path, kind, stop, tell] {
        return writeRuns(folder, runs, path, kind, stop.get_token(), tell);
      },
      [&jobs, job, path, done = std::move(done)](const Status& status) {
        jobs.finish(job);
        done(path, status);
      });
}

void askExport(Workspace& workspace, const QStringList& runs, ExportKind kind, QWidget* parent,
               ExportDone done) {
  if (runs.isEmpty()) return;
  const Format& format = formatOf(kind);
  const bool inFolder = isInFolder(runs, kind);
  auto* dialog = new QFileDialog(parent, say(inFolder ? format.folderTitle : format.title));
  dialog->setObjectName(format.dialog);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  if (inFolder) {
    dialog->setFileMode(QFileDialog::Directory);
  } else {
    dialog->setNameFilter(say(format.filter));
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setDefaultSuffix(format.ending + 1);
    dialog->selectFile(runs.first() + format.ending);
  }
  QObject::connect(
      dialog, &QFileDialog::fileSelected, parent,
      [&workspace, runs, kind, parent, done = std::move(done)](const QString& path) {
        exportRuns(workspace, runs, path, kind,
                   [safe = QPointer(parent), done](const QString& written, const Status& status) {
                     if (safe) done(written, status);
                   });
      });
  dialog->open();
}

}  // namespace lockstep::ui
