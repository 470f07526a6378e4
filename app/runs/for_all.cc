#include "app/runs/for_all.h"

#include <thread>
#include <utility>
#include <vector>

namespace lockstep::app {

Status forAll(std::size_t count, const std::stop_token& stop,
              const std::function<Status(std::size_t, const std::stop_token&)>& work) {
  std::stop_source others;
  const std::stop_callback passOn(stop, [&others] { others.request_stop(); });
  std::vector<Status> came(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        came[i] = work(i, others.get_token());
        if (!came[i].ok()) others.request_stop();
      });
  }
  if (stop.stop_requested()) return makeError(Code::kCancelled, "the launch was cancelled");
  for (const Status& status : came)
    if (!status.ok() && status.code() != Code::kCancelled) return status;
  for (Status& status : came) LOCKSTEP_TRY(std::move(status));
  return {};
}

}  // namespace lockstep::app
