// The data files of a run that is being launched: made, found on the nodes, copied, fetched and
// compared.
#pragma once

#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "app/core/home.h"
#include "app/runs/participant.h"
#include "app/runs/preview.h"
#include "app/runs/stage_progress.h"
#include "engine/base/status.h"

namespace lockstep::app {

using DataHashes = std::map<std::string, std::string>;  // "train.images" → SHA-256

// Makes missing data of an example, if nodes read them from this machine's files. Afterwards the
// spec has their paths. Errors as provideExampleData().
Status makeExampleData(LaunchRequest& request, const Home& home, const Tell& tell,
                       const std::stop_token& stop);

// Sets the paths at which each node has the run's files, as the cluster says; of the one that
// evaluates, of those it reads.
void findData(const LaunchRequest& request, Participants& participants);

// Finds the data and, where the spec asks for that, copies it to nodes that lack it; empty where it
// does not. Errors as stageData().
Result<DataHashes> copyData(const LaunchRequest& request, Participants& participants,
                            const Tell& tell, std::stop_token stop);

// The nodes fetch the files that have URLs, each host once; afterwards the participants have their
// paths there. Returns what was fetched, a line for each file: "data.train.text: …, SHA-256 …".
// Errors: the agents'; kFailedPrecondition where nodes found different files.
Result<std::vector<std::string>> fetchData(const LaunchRequest& request, Participants& participants,
                                           const Tell& tell, std::stop_token stop);

struct CopiedCode {
  std::string words;  // what was copied; "": nothing
  std::string patch;  // as CollectedCode
};

// Collects the code of a program of the user's own on this machine, and copies it to the nodes that
// lack it. Errors as collectCode() and stageData().
Result<CopiedCode> copyCode(const LaunchRequest& request, const Home& home,
                            Participants& participants, const Tell& tell, std::stop_token stop);

// Checks that all prepared nodes train on the same files, those that were copied. Error
// kFailedPrecondition: its node is the one that has another.
Status checkSameData(const Participants& participants, const DataHashes& copied);
// Of a program: all nodes that tell versions tell the same ones. Errors: kFailedPrecondition naming
// what differs.
Status checkSameVersions(const Participants& participants);

}  // namespace lockstep::app
