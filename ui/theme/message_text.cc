#include "ui/theme/message_text.h"

#include <QCoreApplication>
#include <QRegularExpression>
#include <algorithm>
#include <vector>

namespace lockstep::ui {
namespace {

constexpr int kDeepest = 3;           // texts in texts
constexpr qsizetype kLongest = 4000;  // characters held against patterns, on the window's thread

struct Pattern {
  const char* key;
  QRegularExpression expression;
  qsizetype fixed = 0;  // characters that do not vary
};

// The more a pattern says, the earlier it is tried.
const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all = [] {
    static const QRegularExpression place("%[1-9]");
    std::vector<Pattern> out;
    for (const char* key : messagePatterns()) {
      QString expression;
      qsizetype fixed = 0;
      const QStringList parts = QString::fromUtf8(key).split(place);
      for (qsizetype i = 0; i < parts.size(); ++i) {
        // What stands at the end may be absent.
        if (i > 0) expression += i + 1 == parts.size() && parts[i].isEmpty() ? "(.*?)" : "(.+?)";
        expression += parts[i].isEmpty() ? QString("(?:)") : QRegularExpression::escape(parts[i]);
        fixed += parts[i].size();
      }
      out.push_back({key,
                     QRegularExpression(QRegularExpression::anchoredPattern(expression),
                                        QRegularExpression::DotMatchesEverythingOption),
                     fixed});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Pattern& a, const Pattern& b) { return a.fixed > b.fixed; });
    return out;
  }();
  return all;
}

// A bracket that is opened in a part of a message is closed in it: else the part reaches too far.
bool balanced(const QString& text) {
  int open = 0;
  for (const QChar c : text) {
    if (c == '(') ++open;
    if (c == ')' && --open < 0) return false;
  }
  return open == 0;
}

// What is wrong and what was expected are told in one, after a semicolon; where a spec's problem is
// told with its place, after a comma.
QString inOne(QString text) {
  if (const qsizetype at = text.indexOf(", expected "); at > 0) text[at] = ';';
  return text;
}

QString translated(const QString& text, int depth) {
  if (text.isEmpty() || depth > kDeepest) return text;
  // Of two brackets at the end the last is what to do.
  const qsizetype open = text.endsWith(')') ? text.lastIndexOf(" (") : -1;
  const auto apart = [&] {
    return translated(text.left(open), depth) + " (" +
           translated(text.mid(open + 2).chopped(1), depth) + ")";
  };
  if (open > 0 && text[open - 1] == ')') return apart();
  for (const Pattern& pattern : patterns()) {
    const auto match = pattern.expression.match(text);
    if (!match.hasMatch()) continue;
    bool whole = true;
    for (int part = 1; part <= match.lastCapturedIndex(); ++part)
      whole = whole && balanced(match.captured(part));
    if (!whole) continue;
    QString out = QCoreApplication::translate("lockstep::ui::Message", pattern.key);
    if (out == QString::fromUtf8(pattern.key)) return text;  // in English there is nothing to do
    for (qsizetype at = 0; (at = out.indexOf('%', at)) >= 0;) {
      const int number = at + 1 < out.size() ? out[at + 1].digitValue() : -1;
      const QString found = number > 0 ? translated(match.captured(number), depth + 1) : QString();
      if (number > 0) out.replace(at, 2, found);
      at += number > 0 ? found.size() : 1;
    }
    return out;
  }
  // One line of several: "node n2: what: why (what to do)".
  if (const qsizetype colon = text.indexOf(": "); colon > 0) {
    return translated(text.left(colon), depth) + ": " + translated(text.mid(colon + 2), depth);
  }
  if (open > 0) return apart();
  if (const QString one = inOne(text); one != text) {
    const QString out = translated(one, depth);
    return out == one ? text : out;
  }
  return text;
}

}  // namespace

QString messageText(const std::string& text) {
  const QString whole = QString::fromStdString(text);
  if (whole.size() <= kLongest) return translated(whole, 0);
  const qsizetype line = whole.indexOf('\n');
  return line < 0 || line > kLongest ? whole : translated(whole.left(line), 0) + whole.mid(line);
}

}  // namespace lockstep::ui
