#include "agent/worker/program_reports.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/base/grpc_status.h"
#include "agent/base/process_stat.h"

namespace lockstep::agent {
namespace {

constexpr Nanoseconds kTell = 100'000'000;  // between two messages with values
constexpr std::size_t kMostPending = 4096;  // values in a message
constexpr std::size_t kLongestLine = 1 << 16;

}  // namespace

void ProgramValues::addOne(const std::string& source, run::v1::Scalar& value) {
  last_ = std::max(last_, value.step());
  if (tokens_ < 1) {
    warnOnce();
    return;
  }
  tokens_ -= 1;
  if (pending_ != source || scalars_.scalars_size() >= static_cast<int>(kMostPending)) tell();
  pending_ = source;
  *scalars_.add_scalars() = std::move(value);
}

void ProgramValues::tellSoon() {
  if (monotonicNow() - told_ > kTell) tell();
}

void ProgramValues::tell() {
  told_ = monotonicNow();
  if (scalars_.scalars().empty()) return;
  node::v1::FromWorker message;
  scalars_.set_rank(rank_);
  scalars_.set_source(pending_);
  message.mutable_scalars()->Swap(&scalars_);
  link_.channel().send(message);
  scalars_.Clear();
}

void ProgramValues::refill() {
  const Nanoseconds now = monotonicNow();
  const double waited = static_cast<double>(now - std::exchange(refilled_, now)) * 1e-9;
  tokens_ = std::min(kBurst, tokens_ + waited * kValuesPerSecond);
}

void ProgramValues::warnOnce() {
  if (std::exchange(warned_, true)) return;
  Error warning = makeError(Code::kResourceExhausted, "the program reports too many values");
  warning.why = message("more than {} a second are left out", kValuesPerSecond);
  node::v1::FromWorker message;
  *message.mutable_warning() = toInfo(warning);
  link_.channel().send(message);
}

void ProgramSteps::add(const std::vector<ProgramStep>& steps) {
  for (ProgramStep step : steps) {
    if (!isCounted(step.process)) continue;
    step.number += before_;
    if (step.number <= last_) continue;
    pack(step);
    last_ = step.number;
  }
  tell();
}

// Of several processes the first counts. If it has ended, what another tells comes after its
// steps: a shell or a launcher has started the program again.
bool ProgramSteps::isCounted(int process) {
  if (process == process_) return true;
  if (process_ != 0 && processRuns(process_)) return false;
  process_ = process;
  before_ = last_;
  return true;
}

void ProgramSteps::pack(const ProgramStep& step) {
  if (step.number != chunk_.first_step() + chunk_.begin_ns_size()) tell();
  if (chunk_.begin_ns_size() == 0) {
    chunk_.set_rank(rank_);
    chunk_.set_generation(generation_);
    chunk_.set_first_step(step.number);
    lastBegin_ = 0;
  }
  // The last passes of a step may have begun before it.
  double left = static_cast<double>(step.duration) * 1e-9;
  const auto part = [&left](double seconds) {
    const double taken = std::clamp(seconds, 0.0, left);
    left -= taken;
    return static_cast<float>(taken);
  };
  chunk_.add_begin_ns(step.begin - std::exchange(lastBegin_, step.begin));
  chunk_.add_duration_ns(step.duration);
  chunk_.add_communication(part(step.waiting));
  chunk_.add_optimizer(part(step.optimizer));
  chunk_.add_backward(part(step.backward));
  chunk_.add_forward(part(step.forward));
  chunk_.add_data(part(left));
  if (step.elements > 0 || chunk_.elements_size() > 0) {
    chunk_.mutable_elements()->Resize(chunk_.begin_ns_size() - 1, 0);
    chunk_.add_elements(static_cast<float>(step.elements));
  }
}

void ProgramSteps::tell() {
  if (chunk_.begin_ns_size() == 0) return;
  node::v1::FromWorker message;
  message.mutable_steps()->Swap(&chunk_);
  link_.channel().send(message);
  chunk_.Clear();
}

void print(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (count <= 0 && errno != EINTR) break;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void ProgramOutput::take(std::string_view bytes) {
  print(bytes);
  for (std::size_t at = 0; at < bytes.size();) {  // a progress bar returns to its beginning
    const std::size_t end = std::min(bytes.find_first_of("\r\n", at), bytes.size());
    if (line_.size() < kLongestLine) line_.append(bytes.substr(at, end - at));
    if (end < bytes.size() && bytes[end] == '\r') line_ += '\r';
    if (end < bytes.size()) finishLine();
    at = end + 1;
  }
}

void ProgramOutput::finishLine() {
  if (!line_.empty()) values_.add("stdout", metrics_.of(line_));
  line_.clear();
}

}  // namespace lockstep::agent
