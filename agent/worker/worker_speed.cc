// How fast this node multiplies matrices, moves memory and writes to its disk, by size.
#include <functional>
#include <vector>

#include "agent/host/cores.h"
#include "agent/host/speed.h"
#include "agent/worker/worker_link.h"
#include "engine/base/clock.h"
#include "engine/device/module.h"

namespace lockstep::agent {

namespace {

std::vector<std::int64_t> sizesOf(const node::v1::SpeedBench& asked) {
  std::vector<std::int64_t> out;
  for (std::int64_t size = asked.min(); size <= asked.max(); size *= 2) out.push_back(size);
  return out;
}

void addSpeed(std::string_view name, std::int64_t size, double work, const Result<RunTime>& time,
              node::v1::BenchReply& reply) {
  auto* one = reply.add_speeds();
  one->set_name(std::string(name));
  one->set_size(size);
  one->set_work(work);
  if (time.ok())
    one->set_seconds(time->median);
  else
    one->set_why_not(time.error().text());
}

void addVersions(node::v1::BenchReply& reply) {
  for (const device::Library& library : device::survey().libraries) {
    if (library.name == "driver") reply.set_cuda_version(library.version);
    if (library.name == "NCCL") reply.set_nccl_version(library.version);
  }
}

Status runDiskSpeed(const node::v1::WorkerStart& start, WorkerLink& link) {
  node::v1::FromWorker message;
  const std::vector<std::int64_t> sizes = sizesOf(start.speed());
  for (const std::int64_t size : sizes) {
    LOCKSTEP_ASSIGN(const RunTime time,
                    timeDiskWrite(start.checkpoint_folder(), size,
                                  start.seconds() / static_cast<double>(sizes.size())));
    addSpeed("write", size, static_cast<double>(size), time, *message.mutable_benched());
  }
  link.channel().send(message);
  return {};
}

}  // namespace

Status runSpeed(const node::v1::WorkerStart& start, WorkerLink& link) {
  const node::v1::SpeedBench& asked = start.speed();
  if (asked.kind() == "disk") return runDiskSpeed(start, link);
  LOCKSTEP_ASSIGN(const auto backend, openBackend(start));
  const PinnedThread pinned(start);
  const std::vector<std::int64_t> sizes = sizesOf(asked);
  const bool products = asked.kind() == "gemm";
  const std::size_t kinds =
      products ? static_cast<std::size_t>(asked.precisions_size()) : std::size(kMemoryRuns);
  const double each = start.seconds() / static_cast<double>(kinds * sizes.size());
  node::v1::FromWorker message;
  constexpr double kLate = 30;  // seconds beyond what was said; the agent ends the worker after 60
  const Nanoseconds begin = monotonicNow();
  const auto add = [&](std::string_view name, std::int64_t size, double work,
                       const std::function<Result<RunTime>()>& measure) {
    const bool isLate =
        static_cast<double>(monotonicNow() - begin) * 1e-9 > start.seconds() + kLate;
    addSpeed(name, size, work,
             isLate ? Result<RunTime>(makeError(Code::kDeadlineExceeded, "no time was left"))
                    : measure(),
             *message.mutable_benched());
  };
  for (const std::int64_t size : sizes) {
    const double side = static_cast<double>(size);
    for (const std::string& precision : asked.precisions())
      if (products)
        add(precision, size, 2 * side * side * side, [&] {
          const DType operandDtype = precision == "bf16"   ? DType::kBf16
                                     : precision == "fp16" ? DType::kF16
                                                           : DType::kF32;
          return timeProduct(*backend, operandDtype, size, each, precision == "tf32");
        });
    for (const MemoryRun& run : kMemoryRuns)
      if (!products)
        add(run.name, size, run.arrays * side,
            [&] { return timeMemory(*backend, run, size, each); });
  }
  if (start.backend() == "cuda") addVersions(*message.mutable_benched());
  link.channel().send(message);
  return {};
}

}  // namespace lockstep::agent
