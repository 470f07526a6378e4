#include "ui/dialogs/export_runs.h"

#include <QCoreApplication>
#include <QDir>
#include <QFileDialog>
#include <QPointer>
#include <stop_token>

#include "app/history/history.h"
#include "app/history/run_csv.h"
#include "app/report/html_report.h"
#include "engine/base/file.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"

namespace lockstep::ui {
namespace {

QString say(const char* text) { return QCoreApplication::translate("lockstep::ui::Export", text); }

Status writeRun(app::History& history, const std::string& run, const std::string& file,
                ExportKind kind, const std::stop_token& stop) {
  const auto text = kind == ExportKind::kCsv ? history.csv(run) : app::htmlReport(history, run);
  if (!text.ok()) return text.status();
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the export was cancelled");
  LOCKSTEP_TRY(writeFileAtomically(file, *text));
  return app::checkExported(history, run);
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
  runInBackground(
      &jobs,
      [folder = workspace.home().historyFolder(), runs, path, kind, stop]() -> Status {
        LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
        const QString ending = kind == ExportKind::kCsv ? ".csv" : ".html";
        for (const QString& run : runs) {
          const QString file = runs.size() == 1 ? path : QDir(path).filePath(run + ending);
          LOCKSTEP_TRY(
              writeRun(*history, run.toStdString(), file.toStdString(), kind, stop.get_token()));
        }
        return {};
      },
      [&jobs, job, path, done = std::move(done)](const Status& status) {
        jobs.finish(job);
        done(path, status);
      });
}

void askExport(Workspace& workspace, const QStringList& runs, ExportKind kind, QWidget* parent,
               ExportDone done) {
  if (runs.isEmpty()) return;
  const bool csv = kind == ExportKind::kCsv, several = runs.size() > 1;
  const QString title =
      several ? (csv ? say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "Folder for the CSV files"))
                     : say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "Folder for the reports")))
      : csv   ? say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "Export as CSV"))
              : say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "Export report"));
  auto* dialog = new QFileDialog(parent, title);
  dialog->setObjectName(csv ? "exportCsvDialog" : "exportReportDialog");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  if (several) {
    dialog->setFileMode(QFileDialog::Directory);
  } else {
    dialog->setNameFilter(csv ? say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "CSV (*.csv)"))
                              : say(QT_TRANSLATE_NOOP("lockstep::ui::Export", "HTML (*.html)")));
    dialog->setAcceptMode(QFileDialog::AcceptSave);
    dialog->setDefaultSuffix(csv ? "csv" : "html");
    dialog->selectFile(runs.first() + (csv ? ".csv" : ".html"));
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
