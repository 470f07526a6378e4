#include <fmt/format.h>

#include <map>
#include <utility>

#include "app/sinks/curve_sink.h"
#include "app/sinks/growing_file.h"
#include "app/sinks/tensorboard_events.h"
#include "engine/base/clock.h"

namespace lockstep::app {
namespace {

class TensorBoardSink : public CurveSink {
 public:
  explicit TensorBoardSink(std::string folder) : folder_(std::move(folder)), beganNs_(wallNow()) {}

  void add(const SinkPoints& points) override {
    const TensorBoardPlace place = tensorBoardPlace(points.series);
    pending_[place.folder] +=
        tensorBoardEvents(points.series, place.tag, points.first, points.points, points.times);
    points_ += static_cast<std::int64_t>(points.points.size());
  }
  std::int64_t pending() const override { return points_; }
  Status flush(const std::stop_token& /*stop*/) override {
    while (!pending_.empty()) {
      const auto next = pending_.begin();
      LOCKSTEP_TRY(fileIn(next->first).append(next->second));
      pending_.erase(next);
    }
    points_ = 0;
    return {};
  }
  std::int64_t size() const override { return 0; }
  RefusedPoints refused() const override { return {}; }
  std::string name() const override { return folder_; }

 private:
  // Readers go on with the next file by name where one has ended. Nanoseconds tell those apart that
  // begin in one second.
  GrowingFile& fileIn(const std::string& below) {
    const auto known = files_.find(below);
    if (known != files_.end()) return known->second;
    const double began = static_cast<double>(beganNs_) * 1e-9;
    const std::string folder = below.empty() ? folder_ : folder_ + "/" + below;
    const std::string path = fmt::format("{}/{}.{}", folder, tensorBoardFile(began), beganNs_);
    return files_.emplace(below, GrowingFile(path, 0, tensorBoardHeader(began))).first->second;
  }

  const std::string folder_;
  const std::int64_t beganNs_;
  std::map<std::string, GrowingFile> files_;    // by the folder below
  std::map<std::string, std::string> pending_;  // likewise
  std::int64_t points_ = 0;                     // in all of them
};

}  // namespace

std::unique_ptr<CurveSink> tensorBoardSink(const std::string& folder) {
  return std::make_unique<TensorBoardSink>(folder);
}

}  // namespace lockstep::app
