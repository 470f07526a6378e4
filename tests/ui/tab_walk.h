// What a person reaches below a widget with the Tab key alone, and what a screen reader says of it.
#pragma once

#include <QTest>
#include <QtWidgets>

#include "ui/widgets/yaml_editor.h"

namespace lockstep::tests {

// Parts Qt makes inside its own composite widgets.
inline bool isInternalPart(const QWidget* widget) {
  if (widget->objectName().startsWith("qt_")) return true;
  for (const QWidget* at = widget->parentWidget(); at; at = at->parentWidget())
    if (qobject_cast<const QComboBox*>(at) || qobject_cast<const QAbstractSpinBox*>(at) ||
        qobject_cast<const QAbstractItemView*>(at) || qobject_cast<const QTabBar*>(at) ||
        qobject_cast<const QLineEdit*>(at))
      return true;
  return qobject_cast<const QHeaderView*>(widget) || qobject_cast<const QScrollBar*>(widget) ||
         qobject_cast<const QScrollArea*>(widget);
}

// The parts that take the keyboard.
inline QWidgetList keyboardParts(const QWidget* root) {
  QWidgetList out;
  for (QWidget* part : root->findChildren<QWidget*>())
    if (part->focusPolicy() & Qt::TabFocus && part->isVisible() && part->isEnabled() &&
        part->window() == root->window() && !part->focusProxy() && !isInternalPart(part))
      out << part;
  return out;
}

// Those that Tab does not come to, pressed until all were there or often enough.
inline QStringList notReachedWithTab(const QWidget* root) {
  QList<QPointer<QWidget>> awaited;
  for (QWidget* part : keyboardParts(root)) awaited << part;
  if (awaited.isEmpty()) return {};
  awaited.first()->setFocus(Qt::TabFocusReason);
  constexpr int kOften = 500;
  for (int i = 0; i < kOften && !awaited.isEmpty(); ++i) {
    QWidget* at = root->window()->focusWidget();
    if (!at) break;
    awaited.removeAll(at);
    if (qobject_cast<ui::YamlEditor*>(at)) QTest::keyClick(at, Qt::Key_Escape);
    QTest::keyClick(at, Qt::Key_Tab);
  }
  QStringList out;
  for (const auto& part : awaited)  // what has come into view since may have hidden it
    if (part && part->isVisible() && part->isEnabled()) out << part->objectName();
  return out;
}

// A name for tests, and one that a screen reader says.
inline bool isNamed(const QWidget* part) {
  const auto* button = qobject_cast<const QAbstractButton*>(part);
  return !part->objectName().isEmpty() &&
         (!part->accessibleName().isEmpty() || (button && !button->text().isEmpty()));
}

inline QStringList withoutName(const QWidget* root) {
  QStringList out;
  for (const QWidget* part : keyboardParts(root))
    if (!isNamed(part))
      out << QString("%1 %2").arg(part->metaObject()->className(), part->objectName());
  return out;
}

// Each part that takes the keyboard has a name, and Tab reaches it.
inline void checkKeyboard(const QWidget* root) {
  QCOMPARE(withoutName(root), QStringList());
  const QString left = notReachedWithTab(root).join(", ");
  QVERIFY2(left.isEmpty(), qPrintable(root->objectName() + ": " + left));
}

}  // namespace lockstep::tests
