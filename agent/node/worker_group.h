// Workers that run one question for the agent (what do steps and collectives cost here, how fast
// does this train) and answer once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/event_loop.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// Starts one worker for each of `starts` from the loop's thread, is their rendezvous store, lets
// them go when all are ready, and returns their answers in the same order. Whatever happens, no
// worker is left when it returns. Not to be called on the loop's thread. `what` it is for is told
// by errors: "the measurement".
Result<std::vector<node::v1::FromWorker>> runWorkers(EventLoop& loop,
                                                     std::vector<node::v1::WorkerStart> starts,
                                                     std::string_view what, Nanoseconds limit,
                                                     const std::function<bool()>& cancelled);

Result<node::v1::MeasureReply> measure(EventLoop& loop, const node::v1::MeasureRequest& request,
                                       const std::string& folder,
                                       const std::function<bool()>& cancelled);
Result<node::v1::BenchReply> bench(EventLoop& loop, const node::v1::BenchRequest& request,
                                   const std::string& folder,
                                   const std::function<bool()>& cancelled);
// What the node's ranks could compute on. Its problem is part of the answer; an error is that there
// was none in time.
Result<node::v1::GpuSurvey> surveyGpus(EventLoop& loop);
Result<node::v1::VerifyReply> verify(EventLoop& loop, const node::v1::VerifyRequest& request,
                                     const std::function<bool()>& cancelled);

}  // namespace lockstep::agent
