// Export of runs: one to a file, several to a folder with a file each; for TensorBoard to a folder
// with a folder each. In the background, as a job that can be cancelled; it goes on when the page
// that asked for it is closed. Threads: GUI.
#pragma once

#include <QStringList>
#include <functional>

#include "engine/base/status.h"

class QWidget;

namespace lockstep::ui {

class Workspace;

enum class ExportKind { kCsv, kReport, kTensorBoard, kOtlp };
// Called at the end, with the path that was written to, or kCancelled.
using ExportDone = std::function<void(const QString& path, const Status& status)>;

void exportRuns(Workspace& workspace, const QStringList& runs, const QString& path, ExportKind kind,
                ExportDone done);
// Asks where to. `done` is not called once `parent` is gone.
void askExport(Workspace& workspace, const QStringList& runs, ExportKind kind, QWidget* parent,
               ExportDone done);

}  // namespace lockstep::ui
