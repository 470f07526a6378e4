#include "app/cli/json_line.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {
// In ASCII: a terminal interprets C1 controls too, which JSON allows as they are.
std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}
}  // namespace

void JsonLine::key(std::string_view key) {
  if (!body_.empty()) body_ += ",";
  body_ += quoted(key) + ":";
}
JsonLine& JsonLine::add(std::string_view name, std::string_view value) {
  return addRaw(name, quoted(value));
}
JsonLine& JsonLine::add(std::string_view name, std::int64_t value) {
  return addRaw(name, fmt::format("{}", value));
}
JsonLine& JsonLine::add(std::string_view name, double value) {
  return addRaw(name, std::isfinite(value) ? fmt::format("{:.9g}", value) : "null");
}
JsonLine& JsonLine::add(std::string_view name, bool value) {
  return addRaw(name, value ? "true" : "false");
}
JsonLine& JsonLine::add(const RunFigures& figures) {
  const auto known = [](bool is, double value) {
    return is ? value : std::numeric_limits<double>::quiet_NaN();
  };
  const bool evaluated = figures.evalLoss != 0;
  add("steps", figures.steps).add("epochs", figures.epochs).add("train_loss", figures.trainLoss);
  add("eval_loss", known(evaluated, figures.evalLoss));
  if (!figures.metric.empty()) add("eval_" + figures.metric, known(evaluated, figures.evalMetric));
  add("samples_per_second", known(figures.samplesPerSecond > 0, figures.samplesPerSecond));
  add("lost_seconds", figures.lostSeconds);
  add("joules", known(figures.joules > 0, figures.joules));
  if (figures.cost > 0) add("cost", figures.cost).add("currency", figures.currency);
  if (figures.carbonGrams > 0) add("carbon_grams", figures.carbonGrams);
  return add("weights_sha256", figures.weightsSha256);
}
JsonLine& JsonLine::addRaw(std::string_view name, std::string_view json) {
  key(name);
  body_ += json;
  return *this;
}
void JsonLine::print() const { putRaw(stdout, text() + "\n"); }

std::string jsonTexts(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts)
    out += (out.empty() ? "" : ",") + quoted(std::string_view(text));
  return "[" + out + "]";
}

JsonLine errorLine(const Error& error, std::string_view event) {
  JsonLine line(event);
  line.add("code", codeName(error.code)).add("node", error.node).add("rank", error.rank);
  line.add("step", error.step)
      .add("what", error.what)
      .add("field", error.field)
      .add("why", error.why)
      .add("next", error.next);
  if (!error.remedies.empty()) {
    nlohmann::json remedies = nlohmann::json::array();  // each as arguments of --set
    for (const Remedy& remedy : error.remedies) {
      remedies.push_back(nlohmann::json::array());
      for (const auto& [field, value] : remedy) remedies.back().push_back(field + "=" + value);
    }
    line.addRaw("remedies", remedies.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
  return line;
}

}  // namespace lockstep::app::cli
