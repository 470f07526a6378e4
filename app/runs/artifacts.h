// The files of a run's program that workload.artifacts names: fetched from the run's nodes to
// Home::artifactsFolder(run)/NODE/PATH, with the hashes of all in SHA256SUMS beside it, as
// sha256sum writes them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/core/home.h"
#include "app/history/history.h"
#include "app/runs/artifact_files.h"
#include "app/runs/run_nodes.h"
#include "engine/base/status.h"

namespace lockstep::node::v1 {
class Artifact;
}

namespace lockstep::app {

struct ArtifactsObserver {
  std::function<void(std::int64_t bytesDone, std::int64_t bytesTotal)> onBytes;
  std::function<void(const ArtifactFile&)> onFile;  // it is here
};

// Fetches the files of an ended run, in parts of 8 MiB, from several nodes at once; the observer
// is called by one thread at a time. A file is there whole or not at all; one that is there
// already, of the same size and time, is kept. Nodes name the files: what is not below the folder
// is refused, and nothing is written through a link. A node that does not answer for 30 s, and a
// file that cannot be fetched, is among the problems. Errors: kResourceExhausted, they have more
// than `maxBytes`: none is fetched; kUnavailable, another program fetches them; kCancelled.
Result<Artifacts> fetchArtifacts(const std::string& run, const std::vector<RunNode>& nodes,
                                 std::int64_t maxBytes, const Home& home,
                                 const ArtifactsObserver& observer, const std::stop_token& stop);

// Why a file that a node lists is not fetched; empty: it is.
Message whyLeftOut(const node::v1::Artifact& file);

// What the history knows of a run's files.
struct KnownArtifacts {
  bool wanted = false;             // to be fetched when the run ends
  std::optional<Artifacts> found;  // once they were
};
KnownArtifacts artifactsIn(const RunStore& store);
// Notes that they are to be fetched; what came of it.
Status noteArtifactsWanted(RunStore& store);
Status noteArtifacts(RunStore& store, const Artifacts& artifacts);

// Returns workload.artifacts.max_bytes of a recorded run.
Result<std::int64_t> artifactsLimit(const RunDocuments& documents);

// Whether a run has ended whose files are wanted and were not fetched.
bool lacksArtifacts(const RunStore& store, const RunRow& row);
// Fetches them, for a recorder. What it comes to is noted, except kUnavailable and kCancelled.
Result<Artifacts> fetchWanted(const std::string& run, const History& history, RunStore& store,
                              const std::vector<RunNode>& nodes, const Home& home,
                              const ArtifactsObserver& observer, const std::stop_token& stop);

}  // namespace lockstep::app
