#include "app/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "app/history/spans.h"
#include "app/report/markup.h"

namespace lockstep::app {
namespace {

// Okabe and Ito's colours, of which yellow is darkened for a white ground.
constexpr std::array<std::string_view, 8> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#8a7500", "#333333"};
constexpr int kLeft = 64, kRight = 16, kTop = 30, kBottom = 44;  // around the lines
constexpr int kLegendRow = 18, kMark = 18, kCharacter = 7;       // pixels

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

struct Frame {
  double left, top, width, height;
  Range x, y;
  double xAt(double value) const { return left + (value - x.low) / (x.high - x.low) * width; }
  double yAt(double value) const {
    return top + height - (value - y.low) / (y.high - y.low) * height;
  }
};

// 1, 2 or 5 times a power of ten, for about `count` ticks.
double tickStep(const Range& range, int count) {
  const double rough = (range.high - range.low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power * 1.0001) return factor * power;
  return 10 * power;
}

void widen(Range& range, bool fromZero, double pad) {
  if (fromZero) range.low = std::min(range.low, 0.0);
  if (range.high - range.low < std::max(1e-12, std::abs(range.high) * 1e-9)) {
    range.high += range.high == 0 ? 1 : std::abs(range.high) * 0.1;
    if (!fromZero) range.low -= std::abs(range.low) * 0.1;
  }
  const double more = (range.high - range.low) * pad;
  range.high += more;
  if (!fromZero || range.low < 0) range.low -= more;
}

Frame frameOf(const Chart& chart, int width, int height, int top) {
  Frame out{kLeft,
            static_cast<double>(top),
            static_cast<double>(width - kLeft - kRight),
            static_cast<double>(height - top - kBottom),
            {},
            {}};
  for (const ChartLine& line : chart.lines)
    for (const Span& span : line.spans) {
      if (!std::isfinite(span.low) && !std::isfinite(span.high)) continue;
      out.x.add(span.x);
      out.y.add(span.low);
      out.y.add(span.high);
    }
  if (out.x.empty() || out.y.empty()) return out;
  widen(out.x, false, 0);
  widen(out.y, chart.fromZero, 0.05);
  return out;
}

// Through the last sample of each span.
std::string pathOf(const ChartLine& line, const Frame& frame) {
  std::string out;
  bool open = false;
  for (const Span& span : line.spans) {
    const bool known = std::isfinite(span.last);
    if (known)
      out += fmt::format("{}{:.2f} {:.2f}", std::exchange(open, true) ? "L" : "M",
                         frame.xAt(span.x), frame.yAt(span.last));
    open = open && known;
  }
  return out;
}

// Returns polygons between the lowest and the highest sample of each span; "" where each span is
// one sample.
std::string bandOf(const ChartLine& line, const Frame& frame, std::string_view color) {
  std::string out, there, back;
  bool wide = false;
  const auto flush = [&] {
    if (wide)
      out += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.25\"/>", there,
                         back, color);
    there.clear();
    back.clear();
    wide = false;
  };
  for (const Span& span : line.spans) {
    if (!std::isfinite(span.low) || !std::isfinite(span.high)) {
      flush();
      continue;
    }
    const double x = frame.xAt(span.x);
    there += fmt::format("{:.2f},{:.2f} ", x, frame.yAt(span.low));
    back = fmt::format("{:.2f},{:.2f} ", x, frame.yAt(span.high)) + back;
    wide = wide || span.low != span.high;
  }
  flush();
  return out;
}

std::string marksOf(const ChartLine& line, const Frame& frame, std::string_view color) {
  std::string out;
  for (const Span& span : line.spans)
    if (std::isfinite(span.last))
      out += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3\" fill=\"{}\"/>",
                         frame.xAt(span.x), frame.yAt(span.last), color);
  return out;
}

std::string textAt(double x, double y, std::string_view anchor, std::string_view text,
                   std::string_view more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>", x, y, anchor,
                     more, escaped(text));
}

std::string axesOf(const Chart& chart, const Frame& frame) {
  std::string out;
  const auto ticks = [](const Range& range, int count, const auto& draw) {
    const double step = tickStep(range, count);
    const double first = std::ceil(range.low / step - 1e-9) * step;
    for (int i = 0; i < 4 * count; ++i) {
      const double at = first + i * step;
      if (!(at <= range.high + step * 1e-9)) return;
      draw(std::abs(at) < step * 1e-9 ? 0 : at);
    }
  };
  const double bottom = frame.top + frame.height, right = frame.left + frame.width;
  ticks(frame.y, 5, [&](double value) {
    const double y = frame.yAt(value);
    out +=
        fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#e2e5e9\"/>", frame.left, y, right);
    out += textAt(frame.left - 6, y + 4, "end", unitText(value, chart.y));
  });
  ticks(frame.x, 7, [&](double value) {
    const double x = frame.xAt(value);
    out += fmt::format("<path d=\"M{:.1f} {:.1f}v5\" stroke=\"#8a929c\"/>", x, bottom);
    out += textAt(x, bottom + 18, "middle", unitText(value, chart.x));
  });
  out += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"#8a929c\"/>",
                     frame.left, frame.top, bottom, right);
  return out + textAt(frame.left + frame.width / 2, bottom + 36, "middle", chart.xTitle);
}

std::string_view colorOf(std::size_t line) { return kColors[line % kColors.size()]; }

// Columns of a text, about: a wide character has two.
int columnsOf(std::string_view text) {
  int out = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x80 || (byte & 0xe0) == 0xc0 ? 1 : (byte & 0xc0) == 0x80 ? 0 : 2;
  }
  return out;
}

// The names of the lines, in rows; `rows` becomes their number.
std::string legendOf(const Chart& chart, int width, int& rows) {
  std::string out;
  int x = kLeft;
  rows = chart.lines.empty() ? 0 : 1;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    const int wide = kMark + kCharacter * (columnsOf(line.name) + 2);
    if (x > kLeft && x + wide > width - kRight) {
      x = kLeft;
      ++rows;
    }
    const int y = kTop + (rows - 1) * kLegendRow;
    out += fmt::format("<path d=\"M{} {}h12\" stroke=\"{}\" stroke-width=\"3\"{}/>", x, y - 4,
                       colorOf(i), line.dashed ? " stroke-dasharray=\"4 2\"" : "");
    out += textAt(x + kMark, y, "start", line.name);
    x += wide;
  }
  return out;
}

}  // namespace

std::string svgOf(const Chart& chart, int width, int height) {
  int rows = 0;
  const std::string legend = legendOf(chart, width, rows);
  height += rows * kLegendRow;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" "
      "role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#3c4450\"><title>{}</title>"
      "<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>",
      width, height, width, height, escaped(chart.title), width, height);
  out += textAt(8, 15, "start", chart.title, " font-size=\"13\" font-weight=\"bold\"");
  const Frame frame = frameOf(chart, width, height, kTop + rows * kLegendRow - 4);
  if (frame.x.empty() || frame.y.empty())
    return out + textAt(width / 2.0, height / 2.0, "middle", "no data") + "</svg>";
  out += legend + axesOf(chart, frame);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    out += bandOf(line, frame, colorOf(i));
    if (const std::string path = pathOf(line, frame); !path.empty())
      out += fmt::format(
          "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" "
          "stroke-linejoin=\"round\"{}/>",
          path, colorOf(i), line.dashed ? " stroke-dasharray=\"6 4\"" : "");
    if (line.dots || line.spans.size() == 1) out += marksOf(line, frame, colorOf(i));
  }
  return out + "</svg>";
}

std::vector<Span> spansFor(const std::vector<Point>& points) {
  constexpr std::size_t kMost = 640;
  return spansOf(points, (points.size() + kMost - 1) / kMost);
}

std::string numberText(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "–";
}

std::string unitText(double value, Chart::Unit unit) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  switch (unit) {
    case Chart::Unit::kPercent:
      return fmt::format("{:.4g} %", 100 * value);
    case Chart::Unit::kSeconds:
      return size >= 1 || size == 0 ? fmt::format("{:.4g} s", value)
             : size >= 1e-3         ? fmt::format("{:.4g} ms", value * 1e3)
                                    : fmt::format("{:.4g} µs", value * 1e6);
    case Chart::Unit::kBytes: {
      constexpr std::array<std::string_view, 6> kUnits{"B", "KB", "MB", "GB", "TB", "PB"};
      std::size_t at = 0;
      for (; std::abs(value) >= 1000 && at + 1 < kUnits.size(); ++at) value /= 1000;
      return fmt::format("{:.4g} {}", value, kUnits[at]);
    }
    case Chart::Unit::kDuration: {
      const auto seconds = std::llround(std::min(size, 1e15));
      const char* sign = value < 0 && seconds > 0 ? "-" : "";
      return seconds < 3600 ? fmt::format("{}{}:{:02}", sign, seconds / 60, seconds % 60)
                            : fmt::format("{}{}:{:02}:{:02}", sign, seconds / 3600,
                                          seconds / 60 % 60, seconds % 60);
    }
    case Chart::Unit::kPlain:
      break;
  }
  return numberText(value);
}

}  // namespace lockstep::app
