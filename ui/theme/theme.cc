#include "ui/theme/theme.h"

#include <QApplication>
#include <QCoreApplication>
#include <QFile>
#include <QFontDatabase>
#include <QIconEngine>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QPainter>
#include <QPalette>
#include <QPixmapCache>
#include <QProxyStyle>
#include <QRegularExpression>
#include <QStyleFactory>
#include <QStyleOption>
#include <QSvgRenderer>

#include "engine/base/status.h"

static void initResources() { Q_INIT_RESOURCE(studio); }

namespace lockstep::ui {
namespace {

// Draws a monochrome SVG in the theme's text colour (or a tone) at the size asked for: a square at
// the left, so that a size wider than high keeps text beside it at a distance.
class ThemedIconEngine : public QIconEngine {
 public:
  ThemedIconEngine(QString path, Tone tone) : path_(std::move(path)), tone_(tone) {}

  void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State state) override {
    const qreal ratio = painter->device() ? painter->device()->devicePixelRatioF() : 1;
    QPixmap image = scaledPixmap(rect.size() * ratio, mode, state, 1);
    painter->drawPixmap(rect, image);
  }
  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
    return scaledPixmap(size, mode, state, 1);
  }
  QPixmap scaledPixmap(const QSize& size, QIcon::Mode mode, QIcon::State, qreal) override {
    const QColor color = colorOf(mode);
    const QString key =
        QString("%1 %2x%3 %4").arg(path_).arg(size.width()).arg(size.height()).arg(color.rgba());
    QPixmap out;  // buttons are painted whenever something beside them is
    if (QPixmapCache::find(key, &out)) return out;
    QImage image(size, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    QSvgRenderer renderer(path_);
    QPainter painter(&image);
    const qreal side = std::min(size.width(), size.height());
    renderer.render(&painter, QRectF(0, 0, side, side));
    painter.setCompositionMode(QPainter::CompositionMode_SourceIn);
    painter.fillRect(image.rect(), color);
    painter.end();
    out = QPixmap::fromImage(image);
    QPixmapCache::insert(key, out);
    return out;
  }
  QIconEngine* clone() const override { return new ThemedIconEngine(path_, tone_); }

 private:
  QColor colorOf(QIcon::Mode mode) const {
    const Theme& theme = Theme::instance();
    if (mode == QIcon::Disabled) return theme.color("disabled");
    if (mode == QIcon::Selected) return theme.color("selectionText");
    return tone_ == Tone::kNeutral ? theme.color("icon") : theme.tone(tone_);
  }

  QString path_;
  Tone tone_;
};

// Fusion with the few metrics that the studio wants otherwise.
class StudioStyle : public QProxyStyle {
 public:
  StudioStyle() : QProxyStyle(QStyleFactory::create("Fusion")) {}
  int pixelMetric(PixelMetric metric, const QStyleOption* option,
                  const QWidget* widget) const override {
    switch (metric) {
      case PM_SmallIconSize:
      case PM_ButtonIconSize:
      case PM_TabBarIconSize:
      case PM_ListViewIconSize:
        return 16;
      case PM_ToolBarIconSize:
        return 18;
      case PM_DockWidgetSeparatorExtent:
      case PM_SplitterWidth:
        return 5;
      default:
        return QProxyStyle::pixelMetric(metric, option, widget);
    }
  }
  int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                QStyleHintReturn* data) const override {
    if (hint == SH_EtchDisabledText || hint == SH_DitherDisabledText) return 0;
    return QProxyStyle::styleHint(hint, option, widget, data);
  }
};

QFont studioFont() {
  QFont font = QFontDatabase::systemFont(QFontDatabase::GeneralFont);
  // A desktop that has chosen no font hands out DejaVu or "Sans"; a narrower face that also has
  // Chinese glyphs is easier to read in tables.
  const QString family = QFontInfo(font).family();
  if (family.startsWith("DejaVu") || family.compare("sans", Qt::CaseInsensitive) == 0) {
    for (const char* name : {"Inter", "Noto Sans", "Noto Sans CJK SC"}) {
      if (!QFontDatabase::hasFamily(name)) continue;
      font.setFamilies({name, "Noto Sans CJK SC", family});
      break;
    }
  }
  font.setPointSizeF(10);
  return font;
}

QFont scaled(const QWidget* of, double factor) {
  QFont font = of != nullptr ? of->font() : QApplication::font();
  font.setPointSizeF(font.pointSizeF() * factor);
  return font;
}

QString styleSheet(const Theme& theme) {
  QFile file(":/themes/studio.qss");
  LOCKSTEP_CHECK(file.open(QIODevice::ReadOnly), "the style sheet is compiled in");
  QString text = QString::fromUtf8(file.readAll());
  static const QRegularExpression reference("@([A-Za-z]+)");
  QString out;
  qsizetype last = 0;
  for (auto it = reference.globalMatch(text); it.hasNext();) {
    const auto match = it.next();
    out += text.mid(last, match.capturedStart() - last);
    const QByteArray name = match.captured(1).toLatin1();
    out += name == "mode" ? QString(theme.isDark() ? "dark" : "light")
                          : theme.color(name.constData()).name();
    last = match.capturedEnd();
  }
  return out + text.mid(last);
}

}  // namespace

Theme& Theme::instance() {
  static Theme theme;
  return theme;
}

void Theme::load(Mode mode) {
  initResources();
  QFile file(mode == Mode::kDark ? ":/themes/dark.json" : ":/themes/light.json");
  LOCKSTEP_CHECK(file.open(QIODevice::ReadOnly), "the themes are compiled in");
  const QJsonObject root = QJsonDocument::fromJson(file.readAll()).object();
  look_.colors.clear();
  const QJsonObject colors = root["colors"].toObject();
  for (auto it = colors.begin(); it != colors.end(); ++it) {
    look_.colors[it.key()] = QColor(it.value().toString());
  }
  const auto list = [&](const char* key) {
    QVector<QColor> out;
    for (const auto& value : root[QLatin1String(key)].toArray()) out << QColor(value.toString());
    return out;
  };
  look_.series = list("series");
  look_.phases = list("phases");
  LOCKSTEP_CHECK(!look_.series.isEmpty() && look_.phases.size() == kPhaseCount, "theme file");
  look_.mode = mode;
}

ThemeScope::ThemeScope(Theme::Mode mode) : before_(Theme::instance().look_) {
  if (mode != before_.mode) Theme::instance().load(mode);
}
ThemeScope::~ThemeScope() { Theme::instance().look_ = before_; }

void Theme::apply(Mode mode) {
  load(mode);
  static bool styled = false;
  if (!styled) {
    styled = true;
    QApplication::setStyle(new StudioStyle);
    QApplication::setFont(studioFont());
  }
  QPalette palette;
  palette.setColor(QPalette::Window, color("window"));
  palette.setColor(QPalette::WindowText, color("text"));
  palette.setColor(QPalette::Base, color("base"));
  palette.setColor(QPalette::AlternateBase, color("alternate"));
  palette.setColor(QPalette::Text, color("text"));
  palette.setColor(QPalette::PlaceholderText, color("muted"));
  palette.setColor(QPalette::Button, color("button"));
  palette.setColor(QPalette::ButtonText, color("text"));
  palette.setColor(QPalette::BrightText, color("bad"));
  palette.setColor(QPalette::ToolTipBase, color("raised"));
  palette.setColor(QPalette::ToolTipText, color("text"));
  palette.setColor(QPalette::Highlight, color("selection"));
  palette.setColor(QPalette::HighlightedText, color("selectionText"));
  palette.setColor(QPalette::Link, color("accent"));
  palette.setColor(QPalette::LinkVisited, color("accent"));
  palette.setColor(QPalette::Light, color("raised"));
  palette.setColor(QPalette::Midlight, color("raised"));
  palette.setColor(QPalette::Mid, color("border"));
  palette.setColor(QPalette::Dark, color("border"));
  palette.setColor(QPalette::Shadow, color("shadow"));
  for (auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    palette.setColor(QPalette::Disabled, role, color("disabled"));
  }
  palette.setColor(QPalette::Disabled, QPalette::Highlight, color("border"));
  palette.setColor(QPalette::Disabled, QPalette::HighlightedText, color("disabled"));
  QApplication::setPalette(palette);
  qApp->setStyleSheet(styleSheet(*this));
  Q_EMIT changed();
}

QColor Theme::color(const char* name) const {
  const auto it = look_.colors.find(QLatin1String(name));
  LOCKSTEP_CHECK(it != look_.colors.end(), "the theme has no colour '{}'", name);
  return *it;
}

QColor Theme::tone(Tone tone) const {
  switch (tone) {
    case Tone::kGood:
      return color("good");
    case Tone::kWarning:
      return color("warning");
    case Tone::kBad:
      return color("bad");
    case Tone::kActive:
      return color("accent");
    case Tone::kOnAccent:
      return color("accentText");
    case Tone::kNeutral:
      break;
  }
  return color("muted");
}

QString phaseName(int phase) {
  static const char* const names[kPhaseCount] = {
      QT_TRANSLATE_NOOP("lockstep::ui::Phase", "data"),
      QT_TRANSLATE_NOOP("lockstep::ui::Phase", "forward"),
      QT_TRANSLATE_NOOP("lockstep::ui::Phase", "backward"),
      QT_TRANSLATE_NOOP("lockstep::ui::Phase", "waiting"),
      QT_TRANSLATE_NOOP("lockstep::ui::Phase", "transfer"),
      QT_TRANSLATE_NOOP("lockstep::ui::Phase", "optimizer")};
  return QCoreApplication::translate("lockstep::ui::Phase", names[phase]);
}

QString phaseLegend() {
  QStringList parts;
  for (int phase = 0; phase < kPhaseCount; ++phase)
    parts << QString::fromUtf8("<span style=\"color:%1\">■</span>&nbsp;%2")
                 .arg(Theme::instance().phase(phase).name(), phaseName(phase));
  return parts.join("&nbsp;&nbsp; ");
}

QColor Theme::series(int index) const { return look_.series[index % look_.series.size()]; }
QColor Theme::phase(int index) const { return look_.phases[index % look_.phases.size()]; }

QFont Theme::monospace() const {
  QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  for (const char* name : {"JetBrains Mono", "Noto Sans Mono", "Noto Sans Mono CJK SC"}) {
    if (!QFontDatabase::hasFamily(name)) continue;
    font.setFamilies({name, "Noto Sans Mono CJK SC"});
    break;
  }
  font.setStyleHint(QFont::Monospace);
  font.setPointSizeF(QApplication::font().pointSizeF());
  return font;
}
QFont Theme::title(const QWidget* of) const {
  QFont font = scaled(of, 1.5);
  font.setWeight(QFont::DemiBold);
  return font;
}
QFont Theme::small(const QWidget* of) const { return scaled(of, 0.88); }
QFont Theme::figure(const QWidget* of) const {
  QFont font = scaled(of, 1.4);
  font.setWeight(QFont::Medium);
  return font;
}

QIcon Theme::icon(const char* name, Tone tone) const {
  return QIcon(new ThemedIconEngine(QString(":/icons/%1.svg").arg(QLatin1String(name)), tone));
}

}  // namespace lockstep::ui
