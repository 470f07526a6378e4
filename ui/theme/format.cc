#include "ui/theme/format.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QDir>
#include <QLocale>
#include <QRegularExpression>
#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::ui {
namespace {

constexpr double kLeastOfPowers = 1e9;  // from there on numbers are written with a power of ten

QString scaled(double value, const QString& unit) {
  static const char* const prefixes[] = {"", "k", "M", "G", "T", "P"};
  int prefix = 0;
  double shown = value;
  while (std::abs(shown) >= 999.5 && prefix < 5) {
    shown /= 1000;
    ++prefix;
  }
  const int digits =
      prefix == 0 ? 0 : (std::abs(shown) < 9.995 ? 2 : (std::abs(shown) < 99.95 ? 1 : 0));
  return QString("%1 %2%3").arg(QLocale().toString(shown, 'f', digits), prefixes[prefix], unit);
}

}  // namespace

QString formatBytes(double bytes) { return scaled(bytes, "B"); }
QString formatRate(double bytesPerSecond) { return scaled(bytesPerSecond, "B/s"); }
QString formatFlops(double flops) { return scaled(flops, "FLOP"); }

QString formatEnergy(double joules) {
  constexpr double kKilowattHour = 3.6e6;
  if (joules >= kKilowattHour / 10) return formatNumber(joules / kKilowattHour, 3) + " kWh";
  if (joules >= 1000) return scaled(joules, "J");
  return joules >= 1 || joules == 0 ? formatNumber(joules, 3) + " J"
                                    : formatNumber(joules * 1e3, 3) + " mJ";
}

QString formatCarbon(double grams) {
  return grams < 1000 ? formatNumber(grams, 3) + " g" : formatNumber(grams / 1000, 3) + " kg";
}

QString formatMoney(double amount, const std::string& currency) {
  const QString number = amount < 1 ? formatNumber(amount, 2) : QLocale().toString(amount, 'f', 2);
  return number + ' ' + QString::fromStdString(currency);
}

QString formatSeconds(double seconds) {
  const QLocale locale;
  const double size = std::abs(seconds);
  if (!std::isfinite(seconds)) return QString(QChar(0x2014));
  if (size == 0) return "0 ms";
  if (size < 1e-3) return locale.toString(seconds * 1e6, 'f', size < 1e-5 ? 1 : 0) + " µs";
  if (size < 1)
    return locale.toString(seconds * 1e3, 'f', size < 1e-2 ? 2 : (size < 1e-1 ? 1 : 0)) + " ms";
  return locale.toString(seconds, 'f', size < 10 ? 2 : 1) + " s";
}

QString formatTick(double seconds, double largest, double step) {
  const auto [size, unit] = largest >= 1      ? std::pair(1.0, " s")
                            : largest >= 1e-3 ? std::pair(1e-3, " ms")
                                              : std::pair(1e-6, " µs");
  const int digits = static_cast<int>(std::ceil(-std::log10(step / size) - 1e-9));
  return QLocale().toString(seconds / size, 'f', std::clamp(digits, 0, 6)) +
         QString::fromUtf8(unit);
}

QString formatDuration(double seconds) {
  if (seconds <= -0.5) return "-" + formatDuration(-seconds);  // of a clock that is behind
  const auto whole = static_cast<qint64>(std::llround(seconds));
  const qint64 h = whole / 3600, m = whole / 60 % 60, s = whole % 60;
  if (h > 0) return QString("%1:%2:%3").arg(h).arg(m, 2, 10, QChar('0')).arg(s, 2, 10, QChar('0'));
  return QString("%1:%2").arg(m).arg(s, 2, 10, QChar('0'));
}

QString timeLeftText(double seconds) {
  if (seconds < 0) return {};
  return QCoreApplication::translate("lockstep::ui::Format", "about %1 left")
      .arg(formatDuration(seconds));
}

QString formatPercent(double fraction, int digits) {
  if (!std::isfinite(fraction)) return QString(QChar(0x2014));
  return QLocale().toString(fraction * 100, 'f', digits) + " %";
}
QString formatCount(std::int64_t value) {
  return QLocale().toString(static_cast<qlonglong>(value));
}
QString formatNumber(double value, int digits) {
  if (!std::isfinite(value)) return QString(QChar(0x2014));
  // A number of more digits than that is whole: 'g' would write 1,234 as 1.23e+03.
  const double size = std::abs(value);
  const bool isLong = size >= std::pow(10, digits) - 0.5 && size < kLeastOfPowers;
  return isLong ? QLocale().toString(value, 'f', 0) : QLocale().toString(value, 'g', digits);
}
QString metricName(const std::string& metric) {
  if (metric == "accuracy") return QCoreApplication::translate("lockstep::ui::Format", "Accuracy");
  if (metric == "auc") return QCoreApplication::translate("lockstep::ui::Format", "AUC");
  if (metric == "perplexity")
    return QCoreApplication::translate("lockstep::ui::Format", "Perplexity");
  return QCoreApplication::translate("lockstep::ui::Format", "Metric");
}
QString formatMetric(const std::string& metric, double value, int digits) {
  if (metric == "accuracy") return formatPercent(value, digits);
  if (metric.empty() || !std::isfinite(value)) return QString(QChar(0x2014));
  return QLocale().toString(value, 'f', digits + 2);
}
QString formatPath(const QString& path) {
  const QString home = QDir::homePath();
  return path == home || path.startsWith(home + '/') ? '~' + path.mid(home.size()) : path;
}
QString asFileName(const QString& name) {
  static const QRegularExpression outside("[^\\w.-]+",
                                          QRegularExpression::UseUnicodePropertiesOption);
  const QString out = QString(name).replace(outside, "-");
  return out.isEmpty() || out.startsWith('.') ? "model" + out : out;
}
QString formatWhen(std::int64_t wallNs) {
  if (wallNs <= 0) return QString(QChar(0x2014));
  return QLocale().toString(QDateTime::fromMSecsSinceEpoch(wallNs / 1'000'000),
                            "yyyy-MM-dd HH:mm:ss");
}

}  // namespace lockstep::ui
