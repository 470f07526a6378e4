// Theme: every colour, space and font of the studio in one place. The colours stand in
// resources/themes/{light,dark}.json; changing the theme repaints without restart.
// Threads: GUI.
#pragma once

#include <QColor>
#include <QFont>
#include <QHash>
#include <QIcon>
#include <QObject>
#include <QString>
#include <QVector>

class QWidget;

namespace lockstep::ui {

// Distances on a 4-pixel grid.
inline constexpr int kSpaceXs = 4, kSpaceS = 8, kSpaceM = 12, kSpaceL = 16, kSpaceXl = 24;

enum class Tone { kNeutral, kGood, kWarning, kBad, kActive, kOnAccent };

// Phases of a step: data, forward, backward, waiting, transfer, optimizer.
inline constexpr int kPhaseCount = 6;
QString phaseName(int phase);
QString phaseLegend();  // all of them with their colours, rich text

class ThemeScope;

class Theme : public QObject {
  Q_OBJECT

 public:
  enum class Mode { kLight, kDark };

  static Theme& instance();

  // Sets style, palette, font and style sheet of the application.
  void apply(Mode mode);
  Mode mode() const { return look_.mode; }
  bool isDark() const { return look_.mode == Mode::kDark; }

  // "window", "border", "muted", "accent", …: as in the files
  QColor color(const char* name) const;
  QColor tone(Tone tone) const;
  QColor series(int index) const;  // Okabe-Ito, told apart with every common colour vision
  QColor phase(int index) const;
  QFont monospace() const;
  // In proportion to the widget's own font, or to the application's.
  QFont title(const QWidget* of = nullptr) const;  // of a page
  QFont small(const QWidget* of = nullptr) const;
  QFont figure(const QWidget* of = nullptr) const;  // of a number that stands alone

  // Returns an icon of resources/icons, coloured by the theme when painted.
  QIcon icon(const char* name, Tone tone = Tone::kNeutral) const;

 Q_SIGNALS:
  void changed();

 private:
  friend class ThemeScope;
  Theme() = default;
  void load(Mode mode);

  struct Look {
    Mode mode = Mode::kLight;
    QHash<QString, QColor> colors;
    QVector<QColor> series, phases;
  };
  Look look_;
};

// The colours of another theme while it lives, for a picture; nothing on the screen changes.
class ThemeScope {
 public:
  explicit ThemeScope(Theme::Mode mode);
  ~ThemeScope();
  ThemeScope(const ThemeScope&) = delete;
  ThemeScope& operator=(const ThemeScope&) = delete;

 private:
  const Theme::Look before_;
};

}  // namespace lockstep::ui
