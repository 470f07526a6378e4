#include "ui/studio/log_reader.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "app/history/history.h"
#include "app/runs/log_line.h"
#include "ui/studio/background.h"

namespace lockstep::ui {
namespace {

constexpr std::int64_t kChunk = 20'000;  // ids, between two looks whether the read was cancelled

app::RunStore::LogFilter filterOf(const LogQuery& query) {
  app::RunStore::LogFilter out;
  out.node = query.node.toStdString();
  out.rank = query.rank;
  // SQLite folds the case of ASCII letters alone.
  const bool isAscii = std::all_of(query.text.begin(), query.text.end(),
                                   [](QChar letter) { return letter.unicode() < 128; });
  if (isAscii) out.contains = query.text.toStdString();
  return out;
}

qint64 distance(const LogRow& line, qint64 moment) {
  return std::abs(std::max<qint64>(0, line.wallNs) - moment);
}

// Lines at equal distance stay in the order of the store.
void keepNearest(LogResult& found) {
  if (found.lines.size() <= found.request.limit) return;
  std::stable_sort(found.lines.begin(), found.lines.end(),
                   [moment = found.request.nearNs](const LogRow& a, const LogRow& b) {
                     return distance(a, moment) < distance(b, moment);
                   });
  found.lines.resize(found.request.limit);
  found.isCut = true;
}

}  // namespace

QVector<LogRow> logRows(const std::vector<app::LogRow>& rows) {
  QVector<LogRow> out;
  out.reserve(static_cast<qsizetype>(rows.size()));
  for (const auto& row : rows) {
    const app::LogLine line = app::parseLogLine(row.text);
    const QString text =
        QString::fromUtf8(line.text.data(), static_cast<qsizetype>(line.text.size()));
    out << LogRow{line.wallNs > 0 ? line.wallNs : row.wallNs, QString::fromStdString(row.node),
                  row.rank, static_cast<int>(app::levelOf(line)), text};
  }
  return out;
}

LogReader::LogReader(std::string historyFolder, std::string run, QObject* parent)
    : QObject(parent), folder_(std::move(historyFolder)), run_(std::move(run)) {}

LogReader::~LogReader() { cancel(); }

Result<LogResult> LogReader::work(const std::string& folder, const std::string& run,
                                  const LogRequest& request, const std::stop_token& stop) {
  LogResult out{request, {}, false};
  if (stop.stop_requested()) return out;
  LOCKSTEP_ASSIGN(const auto history, app::History::open(folder));
  LOCKSTEP_ASSIGN(const auto store, history->openRun(run));
  LOCKSTEP_ASSIGN(const auto newest, store->logs({}, 0, 1));
  const std::int64_t last = newest.empty() ? 0 : newest.back().id;
  app::RunStore::LogFilter filter = filterOf(request.query);
  for (; filter.after < last && !stop.stop_requested(); filter.after += kChunk) {
    LOCKSTEP_ASSIGN(const auto rows, store->logs(filter, filter.after + kChunk + 1, kChunk));
    for (const LogRow& line : logRows(rows))
      if (request.query.accepts(line)) out.lines << line;
    keepNearest(out);
  }
  std::stable_sort(out.lines.begin(), out.lines.end(),
                   [](const LogRow& a, const LogRow& b) { return a.wallNs < b.wallNs; });
  return out;
}

void LogReader::read(const LogRequest& request) {
  cancel();
  reading_ = true;
  stop_ = std::stop_source();
  runInBackground(
      this,
      [folder = folder_, run = run_, request, stop = stop_.get_token()] {
        return work(folder, run, request, stop);
      },
      [this, stop = stop_.get_token()](Result<LogResult> result) {
        if (stop.stop_requested()) return;
        reading_ = false;
        if (result.ok())
          Q_EMIT found(*result);
        else
          Q_EMIT failed(result.error());
      });
}

void LogReader::cancel() {
  stop_.request_stop();
  reading_ = false;
}

}  // namespace lockstep::ui
