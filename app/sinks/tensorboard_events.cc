#include "app/sinks/tensorboard_events.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "app/history/run_csv.h"
#include "app/history/series_name.h"
#include "engine/base/tf_record.h"
#include "engine/base/utf8.h"
#include "lockstep/run/v1/tensorboard.pb.h"

namespace lockstep::app {
namespace {

// As the name of a folder: names of nodes come from files, and could be "..". Other characters are
// written as in an address: "a/b" is "a%2Fb".
std::string folderName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !name.starts_with('.'));
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::int64_t wholeOf(double x) {
  return std::abs(x) < std::ldexp(1, 62) ? std::llround(x) : 0;  // 0: of a damaged file
}

float floatOf(double y) {
  if (std::abs(y) > std::numeric_limits<float>::max()) return y > 0 ? HUGE_VALF : -HUGE_VALF;
  return static_cast<float>(y);
}

}  // namespace

TensorBoardPlace tensorBoardPlace(const std::string& series) {
  constexpr std::string_view kReported = "scalar/";
  const SeriesName name = parseSeriesName(series);
  if (name.rank >= 0) return {fmt::format("rank/{}", name.rank), "rank/" + name.figure};
  if (name.node.empty())
    return {"", series.starts_with(kReported) ? series.substr(kReported.size()) : series};
  const std::string node = "node/" + folderName(name.node);
  if (name.gpu >= 0) return {fmt::format("{}/gpu/{}", node, name.gpu), "gpu/" + name.figure};
  if (!name.to.empty()) return {node + "/to/" + folderName(name.to), "link/" + name.figure};
  return {node, "node/" + name.figure};
}

std::string tensorBoardHeader(double time) {
  run::v1::TensorBoardEvent event;
  event.set_wall_time(time);
  event.set_file_version("brain.Event:2");
  return tfRecord(event.SerializeAsString());
}

std::string tensorBoardFile(double time) {
  return fmt::format("events.out.tfevents.{:010}.lockstep", wholeOf(std::floor(time)));
}

std::string tensorBoardEvents(const std::string& series, const std::string& tag, std::int64_t first,
                              std::span<const Point> points, const StepTimes& times) {
  const SeriesAxis axis = seriesAxis(series);
  run::v1::TensorBoardValue value;
  value.set_tag(validUtf8(tag));
  std::string out;
  for (const auto& [x, y] : points) {
    value.set_simple_value(floatOf(y));
    run::v1::TensorBoardEvent event;
    event.set_wall_time(times.ofPoint(axis, x));
    event.set_step(axis == SeriesAxis::kTime ? first : wholeOf(x));
    event.mutable_summary()->add_value(value.SerializeAsString());
    out += tfRecord(event.SerializeAsString());
    ++first;
  }
  return out;
}

}  // namespace lockstep::app
