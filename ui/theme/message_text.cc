#include "ui/theme/message_text.h"

#include <QCoreApplication>

namespace lockstep::ui {

QString messageText(const Message& message) {
  // The name of a node or a file is shown as it is, even if it is a word of the catalogue. What the
  // system says ("No such file or directory") has no id either, and is translated.
  const std::string& id = message.id().empty() ? message.text() : message.id();
  if (message.id().empty() && id.find(' ') == std::string::npos) return QString::fromStdString(id);
  QString out = QCoreApplication::translate("lockstep::ui::Message", id.c_str());
  const auto& arguments = message.arguments();
  for (qsizetype at = 0; !arguments.empty() && (at = out.indexOf('%', at)) >= 0;) {
    const int number = at + 1 < out.size() ? out[at + 1].digitValue() : -1;
    const bool isPlace = number > 0 && number <= static_cast<int>(arguments.size());
    const QString part =
        isPlace ? messageText(arguments[static_cast<std::size_t>(number - 1)]) : QString();
    if (isPlace) out.replace(at, 2, part);
    at += isPlace ? part.size() : 1;
  }
  return out;
}

}  // namespace lockstep::ui
