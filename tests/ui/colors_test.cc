// The colours of lines, phases and maps are told apart by people who see colours otherwise, in both
// themes. Colour blindness is simulated as in Machado, Oliveira and Fernandes, "A
// Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), severity 1;
// differences are distances in CIELAB.
#include <QColor>
#include <QTest>
#include <algorithm>
#include <array>
#include <cmath>

#include "ui/plots/color_map.h"
#include "ui/theme/theme.h"

using namespace lockstep::ui;

namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

constexpr Matrix kUsual{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix kProtanopia{{{0.152286, 1.052583, -0.204868},
                              {0.114503, 0.786281, 0.099216},
                              {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kDeuteranopia{{{0.367322, 0.860646, -0.227968},
                                {0.280085, 0.672501, 0.047413},
                                {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kTritanopia{{{1.255528, -0.076749, -0.178779},
                              {-0.078411, 0.930809, 0.147602},
                              {0.004733, 0.691367, 0.303900}}};
constexpr Matrix kToXyz{
    {{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};
constexpr Triple kWhite{0.9505, 1, 1.089};

Triple times(const Matrix& matrix, const Triple& value) {
  Triple out{};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 3; ++column)
      out[row] += matrix[row][column] * value[column];
  return out;
}

double linear(double share) {
  return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
}

Triple seenAs(const QColor& color, const Matrix& eyes) {
  Triple light = times(eyes, {linear(color.redF()), linear(color.greenF()), linear(color.blueF())});
  for (double& one : light) one = std::clamp(one, 0.0, 1.0);
  Triple xyz = times(kToXyz, light);
  for (std::size_t i = 0; i < 3; ++i) {
    const double share = xyz[i] / kWhite[i];
    xyz[i] = share > 0.008856 ? std::cbrt(share) : 7.787 * share + 16.0 / 116;
  }
  return {116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])};
}

double difference(const QColor& a, const QColor& b, const Matrix& eyes) {
  const Triple one = seenAs(a, eyes), other = seenAs(b, eyes);
  return std::hypot(one[0] - other[0], one[1] - other[1], one[2] - other[2]);
}

}  // namespace

class ColorsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void cleanup() { Theme::instance().apply(Theme::Mode::kLight); }

  void coloursAreToldApart_data() {
    QTest::addColumn<bool>("dark");
    QTest::addColumn<int>("eyes");
    for (const bool dark : {false, true})
      for (int eyes = 0; eyes < 4; ++eyes)
        QTest::addRow("%s, %s", dark ? "dark" : "light",
                      std::array{"usual", "protanopia", "deuteranopia",
                                 "tritanopia"}[static_cast<std::size_t>(eyes)])
            << dark << eyes;
  }
  void coloursAreToldApart() {
    QFETCH(bool, dark);
    QFETCH(int, eyes);
    constexpr double kLeast = 10;
    const Matrix matrix =
        std::array{kUsual, kProtanopia, kDeuteranopia, kTritanopia}[static_cast<std::size_t>(eyes)];
    Theme& theme = Theme::instance();
    theme.apply(dark ? Theme::Mode::kDark : Theme::Mode::kLight);
    const auto check = [&](int count, auto colorOf) {
      for (int a = 0; a < count; ++a)
        for (int b = 0; b < a; ++b)
          QVERIFY2(difference(colorOf(a), colorOf(b), matrix) >= kLeast,
                   qPrintable(colorOf(a).name() + " and " + colorOf(b).name()));
    };
    check(kSeries, [&](int index) { return theme.series(index); });
    check(kPhaseCount, [&](int index) { return theme.phase(index); });
    // The two sides of a map that diverges, where it says something.
    const ColorMap map(ColorMap::Kind::kDiverging);
    for (float share = 0.4f; share <= 1; share += 0.2f)
      QVERIFY2(difference(QColor(map.at(share)), QColor(map.at(-share)), matrix) >= kLeast,
               qPrintable(QString::number(share)));
  }

 private:
  static constexpr int kSeries = 8;
};

QTEST_MAIN(ColorsTest)
#include "colors_test.moc"
