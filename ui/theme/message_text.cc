#include "ui/theme/message_text.h"

#include <QCoreApplication>

namespace lockstep::ui {

QString messageText(const Message& message) {
  QString out = QCoreApplication::translate("lockstep::ui::Message", message.id().c_str());
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
