// The nodes of a launch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "engine/base/status.h"

namespace lockstep::app {

// The nodes that take part, in rank order, then the one that evaluates, with what they bring.
struct Participant {
  int index = 0;  // in the session
  std::string name;
  std::vector<int> ranks;  // none of the one that evaluates
  NodeAccess* access = nullptr;
  NodeInventory inventory;
  std::map<std::string, std::string> paths;  // "train.images" → where the file is there
  std::string address;                       // where the others reach it, of several nodes
  std::string socket, folder;                // once prepared
  // once prepared: "train.images" → SHA-256 of what is there
  std::map<std::string, std::string> data;
};

// Checks that all nodes train on the same files, and on those that were copied: `copied` is
// "train.images" → SHA-256. The error names the node that has another.
Status checkSameData(const std::vector<Participant>& participants,
                     const std::map<std::string, std::string>& copied);

}  // namespace lockstep::app
