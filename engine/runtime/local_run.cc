#include "engine/runtime/local_run.h"

#include <thread>

#include "engine/runtime/device_groups.h"

namespace lockstep::runtime {

Result<LocalGroups> LocalGroups::make(const cluster::Mesh& mesh, Nanoseconds timeout,
                                      const Wrap& wrap) {
  LocalGroups out;
  out.timeout_ = timeout;
  out.ranks_.resize(static_cast<std::size_t>(mesh.size()));
  for (const cluster::Axis& axis : mesh.groupAxes()) {
    if (axis.size < 2) continue;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      if (mesh.coordinate(rank, axis.name) != 0) continue;
      const std::vector<int> members = mesh.group(rank, axis.name);
      LOCKSTEP_ASSIGN(auto group, comm::makeInProcessGroup(axis.size, timeout));
      for (std::size_t i = 0; i < members.size(); ++i)
        out.ranks_[static_cast<std::size_t>(members[i])].emplace_back(
            axis.name, wrap ? wrap(members[i], std::move(group[i])) : std::move(group[i]));
    }
  }
  return out;
}

Groups LocalGroups::of(int rank) const {
  Groups groups;
  for (const auto& [axis, group] : ranks_[static_cast<std::size_t>(rank)])
    groups.set(axis, group.get());
  return groups;
}

void LocalGroups::abort(int rank) {
  for (const auto& [axis, group] : ranks_[static_cast<std::size_t>(rank)]) group->abort();
}

std::vector<Result<TrainerSummary>> trainLocally(
    const LocalRun& run, LocalGroups& groups, const std::atomic<bool>& stop,
    const std::function<TrainerObserver&(int rank)>& observer) {
  const int ranks = run.plan.mesh.size();
  std::vector<Result<TrainerSummary>> out(static_cast<std::size_t>(ranks),
                                          makeError(Code::kInternal, "did not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto& result = out[static_cast<std::size_t>(rank)];
      result = [&]() -> Result<TrainerSummary> {
        LOCKSTEP_ASSIGN(const auto backend,
                        run.openBackend ? run.openBackend(rank)
                                        : backends::makeBackend(run.backend, run.backendOptions));
        Groups mine = groups.of(rank);
        DeviceGroups devices;
        if (run.rendezvous != nullptr && backend->device() != nullptr) {
          LOCKSTEP_ASSIGN(
              devices,
              DeviceGroups::form(run.plan.mesh, *backend->device(), *run.rendezvous,
                                 {.rank = rank, .prefix = "local", .limit = groups.timeout()}));
          devices.addTo(mine);
        }
        TrainerOptions options = run.options;
        if (run.adapt) run.adapt(rank, options);
        return train(run.plan, rank, options, run.train, run.evaluate, *backend, mine, stop,
                     observer(rank));
      }();
      if (!result.ok()) groups.abort(rank);
    });
  for (std::thread& thread : threads) thread.join();
  return out;
}

}  // namespace lockstep::runtime
