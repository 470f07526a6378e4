#include "ui/studio/spec_document.h"

#include <QCryptographicHash>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QSaveFile>

#include "engine/base/file.h"

namespace lockstep::ui {

// One replacement in the text; letters typed one after another in a line become one.
class TextCommand : public QUndoCommand {
 public:
  TextCommand(SpecDocument* document, std::size_t offset, std::string before, std::string after,
              bool typed, const QString& label)
      : QUndoCommand(label),
        document_(document),
        offset_(offset),
        before_(std::move(before)),
        after_(std::move(after)),
        typed_(typed) {}

  void undo() override { replace(after_, before_); }
  void redo() override { replace(before_, after_); }
  int id() const override { return typed_ ? 1 : -1; }
  bool mergeWith(const QUndoCommand* other) override {
    const auto& next = *static_cast<const TextCommand*>(other);
    const bool follows = next.before_.empty() && before_.empty() &&
                         next.offset_ == offset_ + after_.size() && next.after_ != "\n" &&
                         next.after_ != " " && after_.find('\n') == std::string::npos;
    if (!follows) return false;
    after_ += next.after_;
    return true;
  }

 private:
  void replace(const std::string& from, const std::string& to) {
    std::string text = document_->spec_.text();
    text.replace(offset_, from.size(), to);
    document_->setBytes(std::move(text));
  }
  SpecDocument* document_;
  std::size_t offset_;
  std::string before_, after_;
  bool typed_;
};

app::SpecKind specKindOf(const QString& path) {
  QFile file(path);
  if (QFileInfo(file).isFile() && file.open(QIODevice::ReadOnly)) {
    for (const QByteArray& line : file.read(1 << 16).split('\n')) {
      if (line.startsWith("nodes:") || line.startsWith("placement:"))
        return app::SpecKind::kCluster;
      if (line.startsWith("layers:")) return app::SpecKind::kModel;
    }
  }
  return app::SpecKind::kRun;
}

SpecDocument::SpecDocument(app::SpecKind kind, QString recoveryFolder, QObject* parent)
    : QObject(parent),
      kind_(kind),
      recoveryFolder_(std::move(recoveryFolder)),
      spec_(app::SpecText::parse("", "", kind)) {
  autosave_.setSingleShot(true);
  autosave_.setInterval(1500);
  connect(&autosave_, &QTimer::timeout, this, &SpecDocument::autosave);
  connect(&undo_, &QUndoStack::cleanChanged, this, &SpecDocument::modifiedChanged);
}

SpecDocument::~SpecDocument() {
  // Closed on purpose: what was not saved is not wanted.
  if (!path_.isEmpty() && !kept_) QFile::remove(recoveryPath());
}

void SpecDocument::keepRecovery() {
  (void)autosave();
  kept_ = true;
}

QString SpecDocument::name() const { return QFileInfo(path_).completeBaseName(); }

QString SpecDocument::recoveryPath(const QString& path, const QString& folder) {
  const auto hash = QCryptographicHash::hash(path.toUtf8(), QCryptographicHash::Sha256).toHex();
  return QDir(folder).filePath(QString::fromLatin1(hash.left(16)) + ".yaml");
}

Status SpecDocument::load(const QString& path) {
  constexpr qint64 kMostMiB = 2;  // as the command line
  QFile file(path);
  const QFileInfo info(path);
  if (info.exists() && (!info.isFile() || info.size() > kMostMiB << 20)) {
    Error error = makeError(Code::kInvalidArgument, "cannot open {}", path.toStdString());
    error.why =
        info.isFile() ? message("it is larger than {} MiB", kMostMiB) : Message("it is not a file");
    error.next = "check the path";
    return error;
  }
  const QString absolute = info.absoluteFilePath();
  if (QFile kept(recoveryPath(absolute, recoveryFolder_));
      !info.exists() && kept.open(QIODevice::ReadOnly)) {
    recovered_ = true;
    start(QString::fromUtf8(kept.readAll()), absolute);
    return {};
  }
  if (!file.open(QIODevice::ReadOnly)) {
    Error error = makeError(Code::kNotFound, "cannot open {}", path.toStdString());
    error.why = file.errorString().toStdString();
    error.next = "check the path and its permissions";
    return error;
  }
  path_ = absolute;
  undo_.clear();
  fresh_ = false;
  const std::string saved = file.readAll().toStdString();
  setBytes(saved);
  autosave_.stop();
  QFile recovery(recoveryPath());
  if (recovery.exists() && QFileInfo(recovery).lastModified() >= QFileInfo(file).lastModified() &&
      recovery.open(QIODevice::ReadOnly)) {
    const std::string kept = recovery.readAll().toStdString();
    if (kept != saved) {
      recovered_ = true;
      undo_.push(new TextCommand(this, 0, saved, kept, false, tr("Recover unsaved text")));
    }
  }
  Q_EMIT modifiedChanged();
  return {};
}

void SpecDocument::start(const QString& text, const QString& path) {
  path_ = path.isEmpty() ? path : QFileInfo(path).absoluteFilePath();
  fresh_ = true;
  undo_.clear();
  setBytes(text.toStdString());
  Q_EMIT modifiedChanged();
}

Status SpecDocument::save(const QString& path) {
  QSaveFile file(path);
  const QByteArray bytes = QByteArray::fromStdString(spec_.text());
  if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit()) {
    Error error = makeError(Code::kPermissionDenied, "cannot write {}", path.toStdString());
    error.why = file.errorString().toStdString();
    error.next = "save it under another name";
    return error;
  }
  autosave_.stop();
  QFile::remove(recoveryPath());
  path_ = QFileInfo(path).absoluteFilePath();
  fresh_ = false;
  undo_.setClean();
  setBytes(spec_.text());  // problems name the new file
  autosave_.stop();
  Q_EMIT modifiedChanged();
  return {};
}

void SpecDocument::setBytes(std::string bytes) {
  spec_ = app::SpecText::parse(std::move(bytes), path_.toStdString(), kind_);
  autosave_.start();
  Q_EMIT changed();
}

Status SpecDocument::autosave() {
  if (path_.isEmpty()) return {};
  if (!isModified()) {  // as it was saved
    QFile::remove(recoveryPath());
    return {};
  }
  QDir().mkpath(recoveryFolder_);
  Status status = writeFileAtomically(recoveryPath().toStdString(), spec_.text());
  if (status.ok()) return status;
  Error error = status.error();
  error.next = "save the text, or close its tab";
  return error;
}

void SpecDocument::type(const QString& text) {
  const std::string after = text.toStdString();
  const std::string& before = spec_.text();
  if (after == before) return;
  std::size_t head = 0, tail = 0;
  const std::size_t shorter = std::min(before.size(), after.size());
  while (head < shorter && before[head] == after[head]) ++head;
  while (tail < shorter - head &&
         before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
    ++tail;
  undo_.push(new TextCommand(this, head, before.substr(head, before.size() - tail - head),
                             after.substr(head, after.size() - tail - head), true, tr("Typing")));
}

Status SpecDocument::push(const Result<app::TextEdit>& edit, const QString& label) {
  if (!edit) return edit.error();
  std::string before = spec_.text().substr(edit->offset, edit->length);
  if (before == edit->replacement) return {};
  undo_.push(
      new TextCommand(this, edit->offset, std::move(before), edit->replacement, false, label));
  return {};
}

Status SpecDocument::setField(const std::string& path, const QString& value, const QString& label) {
  return push(spec_.edit(path, value.toStdString()), label);
}
Status SpecDocument::insertItem(const std::string& list, int index, const QString& yaml,
                                const QString& label) {
  return push(spec_.insertItem(list, index, yaml.toStdString()), label);
}
Status SpecDocument::removeItem(const std::string& list, int index, const QString& label) {
  return push(spec_.removeItem(list, index), label);
}
Status SpecDocument::moveItem(const std::string& list, int from, int to, const QString& label) {
  return push(spec_.moveItem(list, from, to), label);
}

}  // namespace lockstep::ui
