#include "engine/metrics/prometheus_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/utf8.h"

namespace lockstep::metrics {
namespace {

std::string numberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string labelText(std::string_view value) {
  std::string out;
  for (const char c : validUtf8(value)) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    // Prometheus takes a NUL for the end of the page.
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out;
}

}  // namespace

const Figure* figureOf(std::span<const Figure> all, std::string_view figure) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Figure& one) { return one.figure == figure; });
  return found == all.end() ? nullptr : &*found;
}

void PrometheusPage::add(const Metric& metric, const Labels& labels, double value) {
  std::string text;
  for (const auto& [name, label] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, labelText(label));
  Samples& samples = all_[metric.name];
  samples.metric = metric;
  samples.values.emplace(std::move(text), value);
}

std::string PrometheusPage::text() const {
  std::string out;
  for (const auto& [name, samples] : all_) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, samples.metric.help, name,
                       samples.metric.counter ? "counter" : "gauge");
    for (const auto& [labels, value] : samples.values)
      out += fmt::format("{}{{{}}} {}\n", name, labels, numberText(value));
  }
  return out;
}

}  // namespace lockstep::metrics
