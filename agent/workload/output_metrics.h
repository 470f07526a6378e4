// Finds values in the lines that a program prints, by regular expressions with named groups.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

class OutputMetrics {
 public:
  static constexpr std::size_t kMostValues = 256;  // of a line; others are passed over

  // `patterns` are those of workload.metrics.stdout; none: kDefaultPatterns. Errors:
  // kInvalidArgument, of a pattern that specs::checkPattern() refuses.
  static Result<OutputMetrics> make(const std::vector<std::string>& patterns);
  OutputMetrics(OutputMetrics&&) noexcept;
  OutputMetrics& operator=(OutputMetrics&&) noexcept;
  ~OutputMetrics();

  // Returns the values in a line, in the order of patterns, matches and groups. Every pattern is
  // applied to the line as often as it matches without overlap, at most kMostValues times. The
  // group `step` of any pattern, a whole number of at least 0, is the step of all values of the
  // line; the first one in this order counts. Without one, the position of a progress bar in the
  // line is the step, "7/10 [" for instance, after those of the bars before it. Any other value
  // belongs to the step after the previous one of its tag, from 1. Text that is not a number is
  // passed over; "nan" and "inf" are numbers. Terminal control sequences and what a carriage return
  // has replaced do not count: progress bars are read like lines. A line that ends with a carriage
  // return is one that is drawn again; a bar is whole only then, as Keras corrects its values at
  // the end. Bytes that are no UTF-8 are read as '?'.
  std::vector<run::v1::Scalar> of(std::string_view line);

 private:
  struct Impl;
  explicit OutputMetrics(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::agent
