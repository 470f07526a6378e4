#include "ui/dialogs/host_list.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QRegularExpression>

namespace lockstep::ui {
namespace {

constexpr int kIncludeDepth = 16;  // as in OpenSSH

void collect(const QString& path, const QDir& base, int depth, QStringList& out) {
  QFile file(path);
  if (depth > kIncludeDepth || !file.open(QIODevice::ReadOnly | QIODevice::Text)) return;
  static const QRegularExpression split("[\\s=]+");
  while (!file.atEnd()) {
    const QString line = QString::fromUtf8(file.readLine()).trimmed();
    const QStringList words = line.split(split, Qt::SkipEmptyParts);
    if (words.size() < 2 || words[0].startsWith('#')) continue;
    if (words[0].compare("Host", Qt::CaseInsensitive) == 0) {
      for (const QString& name : words.mid(1)) {
        if (name.contains('*') || name.contains('?') || name.startsWith('!')) continue;
        if (!out.contains(name)) out << name;
      }
    } else if (words[0].compare("Include", Qt::CaseInsensitive) == 0) {
      for (QString pattern : words.mid(1)) {
        if (pattern.startsWith("~/")) pattern = QDir::homePath() + pattern.mid(1);
        const QFileInfo info(QDir::isAbsolutePath(pattern) ? pattern : base.filePath(pattern));
        const QDir folder = info.dir();
        for (const QString& name : folder.entryList({info.fileName()}, QDir::Files, QDir::Name)) {
          collect(folder.filePath(name), base, depth + 1, out);
        }
      }
    }
  }
}

}  // namespace

QStringList sshConfigHosts(const QString& file) {
  const QString path = file.isEmpty() ? QDir::home().filePath(".ssh/config") : file;
  QStringList out;
  collect(path, QDir(QDir::home().filePath(".ssh")), 0, out);
  return out;
}

}  // namespace lockstep::ui
