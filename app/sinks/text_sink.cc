// Sinks that are a file of lines: CSV and JSON.
#include <nlohmann/json.hpp>
#include <utility>

#include "app/history/run_csv.h"
#include "app/sinks/curve_sink.h"
#include "app/sinks/growing_file.h"

namespace lockstep::app {
namespace {

// The line of one point, which is `time` seconds after 1970.
using LineOf = std::string (*)(const std::string& series, SeriesAxis axis, const Point& point,
                               double time);

const char* axisName(SeriesAxis axis) {
  switch (axis) {
    case SeriesAxis::kStep:
      return "step";
    case SeriesAxis::kEpoch:
      return "epoch";
    default:
      return "time";
  }
}

std::string csvLine(const std::string& series, SeriesAxis axis, const Point& point, double time) {
  const std::string x =
      axis == SeriesAxis::kTime ? fmt::format("{:.3f}", point.x) : fmt::format("{:.0f}", point.x);
  return fmt::format("{},{},{},{},{:.3f}\n", csvText(series), axisName(axis), x, csvNumber(point.y),
                     time);
}

std::string jsonLine(const std::string& series, SeriesAxis axis, const Point& point, double time) {
  nlohmann::ordered_json out;
  out["series"] = series;
  if (axis != SeriesAxis::kTime) out[axisName(axis)] = static_cast<std::int64_t>(point.x);
  out["value"] = point.y;
  out["time"] = time;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

class TextSink : public CurveSink {
 public:
  TextSink(LineOf lineOf, GrowingFile file) : lineOf_(lineOf), file_(std::move(file)) {}

  void add(const SinkPoints& points) override {
    const SeriesAxis axis = seriesAxis(points.series);
    for (const Point& point : points.points)
      pending_ += lineOf_(points.series, axis, point, points.times.ofPoint(axis, point.x));
    points_ += static_cast<std::int64_t>(points.points.size());
  }
  std::int64_t pending() const override { return points_; }
  Status flush(const std::stop_token& /*stop*/) override {
    if (pending_.empty()) return {};
    LOCKSTEP_TRY(file_.append(pending_));
    pending_.clear();
    points_ = 0;
    return {};
  }
  std::int64_t size() const override { return file_.size(); }
  RefusedPoints refused() const override { return {}; }
  std::string name() const override { return file_.path(); }

 private:
  const LineOf lineOf_;
  GrowingFile file_;
  std::string pending_;
  std::int64_t points_ = 0;  // in it
};

}  // namespace

std::unique_ptr<CurveSink> csvSink(const std::string& path, std::int64_t size) {
  return std::make_unique<TextSink>(&csvLine,
                                    GrowingFile(path, size, "series,axis,x,value,time\n"));
}

std::unique_ptr<CurveSink> jsonSink(const std::string& path, std::int64_t size) {
  return std::make_unique<TextSink>(&jsonLine, GrowingFile(path, size, {}));
}

}  // namespace lockstep::app
