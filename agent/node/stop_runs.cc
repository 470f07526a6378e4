#include "agent/node/stop_runs.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <filesystem>

#include "agent/base/run_folder.h"
#include "engine/base/log.h"
#include "lockstep/node/v1/node.grpc.pb.h"

namespace lockstep::agent {

void stopRuns(const Workdir& workdir, std::set<std::string>& asked) {
  for (const RunFolder& folder : findRuns(workdir, "")) {
    if (asked.contains(folder.path) || isFinal(folder.readState())) continue;
    const auto supervisor = findSupervisor(folder);
    if (!supervisor) continue;
    const auto channel =
        grpc::CreateChannel("unix:" + supervisor->socket, grpc::InsecureChannelCredentials());
    const auto stub = node::v1::Supervisor::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    node::v1::StopRequest request;
    request.set_run(std::filesystem::path(folder.path).parent_path().filename().string());
    request.set_generation(1);
    request.set_at_once(true);  // the allocation ends soon
    node::v1::StopReply reply;
    const grpc::Status stops = stub->Stop(&context, request, &reply);
    logInfo("run {} was asked to stop: {}", request.run(),
            stops.ok() ? "it does" : stops.error_message());
    if (stops.ok()) asked.insert(folder.path);
  }
}

}  // namespace lockstep::agent
