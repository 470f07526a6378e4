#include "ui/theme/language.h"

#include <QCoreApplication>
#include <QLibraryInfo>
#include <QLocale>

namespace lockstep::ui {

Language& Language::instance() {
  static Language language;
  return language;
}

void Language::set(const QString& wanted) {
  QString code = wanted;
  if (code.isEmpty()) code = QLocale::system().language() == QLocale::Chinese ? "zh_CN" : "en";
  QLocale::setDefault(code == "en" ? QLocale(QLocale::English, QLocale::UnitedStates)
                                   : QLocale(code));
  if (code == code_) return;
  code_ = code;
  // Installing and removing both send LanguageChange to every widget.
  QCoreApplication::removeTranslator(&translator_);
  QCoreApplication::removeTranslator(&ofQt_);
  if (code != "en" &&
      ofQt_.load("qtbase_" + code, QLibraryInfo::path(QLibraryInfo::TranslationsPath))) {
    QCoreApplication::installTranslator(&ofQt_);
  }
  if (translator_.load(QString(":/i18n/lockstep_%1.qm").arg(code))) {
    QCoreApplication::installTranslator(&translator_);
  }
  Q_EMIT changed();
}

}  // namespace lockstep::ui
