// Tool tips with texts of files, nodes and persons.
#pragma once

#include <QString>
#include <QTextDocument>

namespace lockstep::ui {

// Qt shows a tool tip that looks like HTML as such, and any other as it is.
inline QString toolTipText(const QString& text) {
  return Qt::mightBeRichText(text) ? text.toHtmlEscaped() : text;
}

// Qt breaks lines of HTML alone.
inline QString wrappedToolTip(const QString& text) {
  return "<p>" + text.toHtmlEscaped().replace('\n', "<br>") + "</p>";
}

}  // namespace lockstep::ui
