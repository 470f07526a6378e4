// What a program of the user's own tells, on its way from its worker to the supervisor: values,
// steps and output.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/worker/worker_link.h"
#include "agent/workload/hook_messages.h"
#include "agent/workload/output_metrics.h"
#include "engine/base/clock.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// At most kValuesPerSecond and a burst.
class ProgramValues {
 public:
  ProgramValues(int rank, WorkerLink& link) : rank_(rank), link_(link) {}
  template <typename Scalars>
  void add(const std::string& source, Scalars values) {
    refill();
    for (run::v1::Scalar& value : values) addOne(source, value);
    tellSoon();
  }
  void tell();
  std::int64_t lastStep() const { return last_; }

 private:
  static constexpr double kValuesPerSecond = 2000, kBurst = 50000;

  void refill();
  void addOne(const std::string& source, run::v1::Scalar& value);
  void tellSoon();
  void warnOnce();

  int rank_;
  WorkerLink& link_;
  double tokens_ = kBurst;
  Nanoseconds refilled_ = monotonicNow();
  bool warned_ = false;
  run::v1::Scalars scalars_;  // all of pending_
  std::string pending_;
  Nanoseconds told_ = 0;
  std::int64_t last_ = 0;
};

// Of the program's process.
class ProgramSteps {
 public:
  ProgramSteps(const node::v1::WorkerStart& start, WorkerLink& link)
      : rank_(start.rank()), generation_(start.generation()), link_(link) {}
  void add(const std::vector<ProgramStep>& steps);

 private:
  bool isCounted(int process);
  void pack(const ProgramStep& step);
  void tell();

  int rank_, generation_;
  WorkerLink& link_;
  int process_ = 0;          // that counts; 0: none has told any
  std::int64_t before_ = 0;  // steps of those before it
  std::int64_t last_ = 0;
  run::v1::StepChunk chunk_;
  Nanoseconds lastBegin_ = 0;  // of its last step
};

// To the log.
void print(std::string_view bytes);

// Passed on as it is, and searched for values line by line.
class ProgramOutput {
 public:
  ProgramOutput(OutputMetrics metrics, ProgramValues& values)
      : metrics_(std::move(metrics)), values_(values) {}
  void take(std::string_view bytes);
  void finishLine();

 private:
  OutputMetrics metrics_;
  ProgramValues& values_;
  std::string line_;
};

}  // namespace lockstep::agent
