// The studio's language, switched while it runs: every widget hears QEvent::LanguageChange and sets
// its texts again in retranslate().
#pragma once

#include <QObject>
#include <QTranslator>

namespace lockstep::ui {

class Language : public QObject {
  Q_OBJECT

 public:
  static Language& instance();
  // "en", "zh_CN"; "" : as the system says. Numbers and dates follow.
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
