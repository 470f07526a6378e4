// Workers that run one benchmark for the agent (step costs, collectives, training speed) and return
// one result.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/event_loop.h"
#include "agent/base/key_value_store.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/worker.pb.h"

namespace lockstep::agent {

// The rendezvous store of workers, of which each node has a copy.
struct SharedStore {
  KeyValueStore values;  // used on the loop's thread
  // Passes on what this node's workers set. Called on the thread of runWorkers(); may be empty.
  std::function<void(const node::v1::KvSet&)> publish;
};

// Starts one worker for each of `starts` on the loop's thread, serves their rendezvous store,
// starts them together when all are ready, and returns their results in the same order. No worker
// outlives the call. Must not be called on the loop's thread. `store`: null if no other node has
// workers of the group. Errors name `what` it is for: "the measurement".
Result<std::vector<node::v1::FromWorker>> runWorkers(EventLoop& loop,
                                                     std::vector<node::v1::WorkerStart> starts,
                                                     std::string_view what, Nanoseconds limit,
                                                     const std::function<bool()>& cancelled,
                                                     std::shared_ptr<SharedStore> store = nullptr);

// Of what is asked, before any worker is started. Errors: kInvalidArgument, kResourceExhausted.
Status checkMeasure(const node::v1::MeasureRequest& request);
Status checkBench(const node::v1::BenchRequest& request, const std::string& workdir);
Status checkBenchTogether(const node::v1::BenchTogetherRequest::Start& request);

Result<node::v1::MeasureReply> measure(EventLoop& loop, const node::v1::MeasureRequest& request,
                                       const std::string& folder,
                                       const std::function<bool()>& cancelled);
// `folder`: for the plan. `workdir`: whose disk may be measured.
Result<node::v1::BenchReply> bench(EventLoop& loop, const node::v1::BenchRequest& request,
                                   const std::string& folder, const std::string& workdir,
                                   const std::function<bool()>& cancelled);
// Runs this node's rank of a benchmark of several nodes, which find each other by `store`.
Result<node::v1::BenchReply> benchTogether(EventLoop& loop,
                                           const node::v1::BenchTogetherRequest::Start& request,
                                           std::shared_ptr<SharedStore> store,
                                           const std::function<bool()>& cancelled);
// Returns the GPUs of the node. A problem with them is part of the result; an error means that
// there was no result in time.
Result<node::v1::GpuSurvey> surveyGpus(EventLoop& loop, const std::function<bool()>& cancelled);
Result<node::v1::VerifyReply> verify(EventLoop& loop, const node::v1::VerifyRequest& request,
                                     const std::function<bool()>& cancelled);

}  // namespace lockstep::agent
