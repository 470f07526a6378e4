// A node that takes part in a run that is being launched.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"

namespace lockstep::app {

struct Participant {
  std::string name;
  std::vector<int> ranks;  // empty: an evaluator or a spare
  bool evaluates = false;
  NodeAccess* access = nullptr;
  NodeInventory inventory;                   // once connected
  std::map<std::string, std::string> paths;  // "train.images" → where the file is there
  std::string address;                       // where the others reach it, of several nodes
  // Once prepared:
  std::string socket, folder;
  std::map<std::string, std::string> data;      // "train.images" → SHA-256 of what is there
  std::map<std::string, std::string> versions;  // of a program's Python and packages
};
// In rank order, the coordinator first, then spares, then the evaluator.
using Participants = std::vector<Participant>;

inline std::vector<std::string> namesOf(const Participants& participants) {
  std::vector<std::string> out;
  for (const Participant& participant : participants) out.push_back(participant.name);
  return out;
}

}  // namespace lockstep::app
