// The language of the studio. It changes at run time: every widget handles QEvent::LanguageChange
// and sets its texts in retranslate().
#pragma once

#include <QObject>
#include <QTranslator>

namespace lockstep::ui {

class Language : public QObject {
  Q_OBJECT

 public:
  static Language& instance();
  // "en", "zh_CN"; "": the system's language. Also sets the locale of numbers and dates.
  void set(const QString& code);
  QString code() const { return code_; }

 Q_SIGNALS:
  void changed();

 private:
  Language() = default;
  QTranslator translator_, ofQt_;  // the second: of Qt's own dialogs, where it is installed
  QString code_ = "en";
};

}  // namespace lockstep::ui
