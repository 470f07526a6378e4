// A run's folder on a node, <workdir>/runs/<run>/<node>/: the supervisor's request, records and
// socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/base/paths.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/specs/protocol.h"
#include "engine/specs/states.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

using specs::isFinal;

constexpr const char* kModelFile = "model.safetensors";  // the trained model

struct RunFolder {
  std::string path;
  std::string runtime;  // of the workdir: where the socket goes

  // without the run's keys, which stay in memory
  std::string request() const { return path + "/request.pb"; }
  std::string plan() const { return path + "/plan.txt"; }
  // of the data at prepare time
  std::string hashes() const { return path + "/hashes.pb"; }
  std::string spool() const { return path + "/spool.db"; }
  std::string state() const { return path + "/state"; }
  std::string supervisor() const { return path + "/supervisor"; }  // while one serves
  // why the last supervisor did not start
  std::string failure() const { return path + "/failure.pb"; }
  std::string lock() const { return path + "/lock"; }  // held by the supervisor
  std::string checkpoints() const { return path + "/checkpoints"; }
  std::string model() const { return path + "/" + kModelFile; }
  std::string code() const { return path + "/code"; }           // of a program of the user's own
  std::string setupLog() const { return path + "/setup.log"; }  // what its setup printed
  std::string logs() const { return path + "/logs"; }
  std::string socket() const;  // derived from the path

  Result<node::v1::PrepareRequest> readRequest() const;
  run::v1::RunState readState() const;
  Status writeState(run::v1::RunState state) const;
};

struct SupervisorInfo {
  int pid = 0;
  std::string socket;
  std::string peerAddress;
  specs::Protocols speaks;  // of its version, which may not be that of the reader
};
Status writeSupervisor(const RunFolder& folder, const SupervisorInfo& info);
// None if no supervisor holds the folder's lock, or it does not serve yet.
std::optional<SupervisorInfo> findSupervisor(const RunFolder& folder);

RunFolder runFolder(const Workdir& workdir, const std::string& run, const std::string& node);
std::vector<RunFolder> findRuns(const Workdir& workdir, const std::string& run);  // "": all

// Takes an exclusive lock, released when the descriptor is closed. Negative: held by another
// process.
int tryLock(const std::string& path);
bool isLocked(const std::string& path);

// Starts `lockstep-agent supervise FOLDER…` in a new session, with the run's secrets in a pipe as
// its standard input. Returns its pid; the caller reaps it.
Result<int> startSupervisor(const RunFolder& folder, const std::vector<std::string>& options,
                            const node::v1::RunSecrets& secrets);
// Reads the secrets that startSupervisor() gave this process, once. Errors: kDataLoss.
Result<node::v1::RunSecrets> takeSecrets();
// Keeps why this supervisor does not start, for whoever awaits it.
void writeFailure(const RunFolder& folder, const Error& error);
// Waits until the supervisor serves or exits. The error has the code and the reason of the one that
// it has written.
Result<SupervisorInfo> awaitSupervisor(const RunFolder& folder, int pid, Nanoseconds limit);

}  // namespace lockstep::agent
