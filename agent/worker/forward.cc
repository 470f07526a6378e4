// forward: the forward pass of a model, for lockstep predict and generate.
//
// stdin: a WorkerStart (spec, with model.init_from; data_paths[init_from]; threads; backend) and
// the text of the plan (planner/forward_plan.h), each after its length as a little-endian u64; then
// any number of times the inputs that plan::sampleInputs() names, one after another.
// stdout: after each of these the model's output, then loss and metric over all samples so far as
// two f64, which are NaN without weighted samples.
// An error is its code and a text on stderr.
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <limits>

#include "agent/base/commands.h"
#include "agent/worker/worker_link.h"
#include "engine/plan/inputs.h"
#include "engine/planner/forward_plan.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/metric.h"

namespace lockstep::agent {
namespace {

static_assert(std::endian::native == std::endian::little);

// Returns false at the end of the stream, which kDataLoss says where it is amid the bytes.
Result<bool> readAll(void* to, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t count = ::read(STDIN_FILENO, static_cast<char*>(to) + at, size - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return systemError(errno, "cannot read stdin");
    if (count == 0 && at == 0) return false;
    if (count == 0) return makeError(Code::kDataLoss, "stdin ends after {} of {} bytes", at, size);
    at += static_cast<std::size_t>(count);
  }
  return true;
}

Status writeAll(const void* from, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t count = ::write(STDOUT_FILENO, static_cast<const char*>(from) + at, size - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return systemError(errno, "cannot write stdout");
    at += static_cast<std::size_t>(count);
  }
  return {};
}

Result<std::string> readText() {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  std::uint64_t size = 0;
  LOCKSTEP_ASSIGN(bool there, readAll(&size, sizeof size));
  if (!there || size == 0 || size > kMost)
    return invalidArgument("stdin is not what lockstep predict writes");
  std::string out(size, '\0');
  LOCKSTEP_ASSIGN(there, readAll(out.data(), out.size()));
  if (!there) return makeError(Code::kDataLoss, "stdin ends before the plan");
  return out;
}

std::size_t bytesOf(const backends::Operand& operand) {
  return static_cast<std::size_t>(operand.type.bytes());
}

Status runBatches(runtime::Executor& executor, const plan::Plan& plan) {
  std::vector<backends::Operand> inputs;
  for (const plan::Buffer* input : plan::sampleInputs(executor.body()))
    inputs.push_back(executor.input(input->name));
  const backends::Operand output = executor.result(planner::kModelOutput);
  const std::string metric(plan.metric());
  const backends::Operand metrics =
      executor.result(metric.empty() ? "metrics" : "metrics." + metric);
  if (output.data == nullptr || metrics.data == nullptr)
    return invalidArgument("the plan of {} gives no output", plan.name);
  runtime::Sums sums;
  sums.metric.resize(runtime::metricSums(metrics));
  for (;;) {
    executor.beginSamples();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      LOCKSTEP_ASSIGN(const bool there, readAll(inputs[i].data, bytesOf(inputs[i])));
      if (!there && i == 0) return {};
      if (!there) return makeError(Code::kDataLoss, "stdin ends amid a batch");
    }
    executor.endSamples();
    runtime::writeFloat(executor.input("stop"), 0, 0);
    LOCKSTEP_TRY(executor.run(0, nullptr));
    runtime::addTo(sums, metrics);
    const double found[] = {sums.loss / sums.weight,
                            runtime::metricValue(metric, sums.metric, sums.weight)};
    LOCKSTEP_TRY(writeAll(output.data, bytesOf(output)));
    LOCKSTEP_TRY(writeAll(found, sizeof found));
  }
}

Result<int> forwardOf() {
  node::v1::WorkerStart start;
  LOCKSTEP_ASSIGN(const std::string startBytes, readText());
  if (!start.ParseFromString(startBytes))
    return invalidArgument("stdin is not what lockstep predict writes");
  LOCKSTEP_ASSIGN(const std::string planText, readText());
  LOCKSTEP_ASSIGN(const plan::Plan plan, plan::parse(planText));
  LOCKSTEP_TRY(plan::verify(plan));
  if (plan.mesh.size() != 1)
    return invalidArgument("a forward pass is run by one rank, and the plan is of {}",
                           plan.mesh.size());
  LOCKSTEP_ASSIGN(const auto backend, openBackend(start));
  LOCKSTEP_ASSIGN(const auto state, runtime::StateArena::make(plan, 0, backend.get()));
  LOCKSTEP_ASSIGN(const runtime::InitFrom from, initOf(start));
  const runtime::Groups alone;
  LOCKSTEP_TRY(runtime::readWeights(from, {}, {plan, 0, *state, alone}));
  LOCKSTEP_TRY(state->put());
  LOCKSTEP_ASSIGN(const auto executor,
                  runtime::Executor::bind(plan, "evaluate", 0, *backend, alone, *state));
  LOCKSTEP_TRY(runBatches(*executor, plan));
  return 0;
}

}  // namespace

Result<int> forwardCommand(const Arguments&) {
  const auto done = forwardOf();
  if (done.ok()) return done;
  // The first word is the code, for the command that started this process.
  Error error = done.error();
  error.what = message("{}: {}", codeName(error.code), error.message());
  error.why = error.next = {};
  return error;
}

}  // namespace lockstep::agent
