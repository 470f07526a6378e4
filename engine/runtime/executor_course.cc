// What a watcher knows of a device run beforehand: its stops, in the order in which bindDeviceRun()
// adds them.
#include <algorithm>

#include "engine/runtime/executor_impl.h"

namespace lockstep::runtime {

DeviceCourse Executor::Impl::courseOf(const MessagesOf& messages) const {
  DeviceCourse out;
  const auto addStop = [&](const plan::Step& step, std::vector<int> peers, std::size_t exchanges) {
    const std::uint64_t before = out.stops.back().collectives;
    out.stops.push_back({&step, std::move(peers), before + exchanges, nullptr, nullptr});
  };
  auto next = messages.begin();
  const auto addMessages = [&](std::size_t before) {
    for (; next != messages.end() && static_cast<std::size_t>(next->before) == before; ++next) {
      std::vector<int> peers;
      for (const device::Group::Message& one : next->messages)
        if (std::find(peers.begin(), peers.end(), one.peer) == peers.end())
          peers.push_back(one.peer);
      addStop(*next->step, std::move(peers), next->messages.size());
    }
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    addMessages(i);
    const plan::Step& step = body->steps[i];
    const bool isOfDevices = steps[i].devices != nullptr;
    if (steps[i].kernel != nullptr) {
      DeviceCourse::Stop& stop = out.stops.back();
      if (stop.next == nullptr) stop.next = &step;
      stop.last = &step;
    } else if (!isOfDevices || !plan::isMessage(step)) {
      addStop(step, coordinatesOf(plan::peersOf(step, copy)), isOfDevices ? 1 : 0);
    }
  }
  addMessages(steps.size());
  for (std::size_t i = out.stops.size() - 1; i-- > 0;) {
    if (out.stops[i].next != nullptr) continue;
    out.stops[i].next = out.stops[i + 1].next;
    out.stops[i].last = out.stops[i + 1].last;
  }
  return out;
}

}  // namespace lockstep::runtime
