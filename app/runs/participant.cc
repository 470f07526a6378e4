#include "app/runs/participant.h"

#include <algorithm>

namespace lockstep::app {

Status checkSameData(const std::vector<Participant>& participants,
                     const std::map<std::string, std::string>& copied) {
  for (const Participant& participant : participants)
    for (const auto& [name, hash] : copied) {
      const auto at = participant.data.find(name);
      if (at == participant.data.end() || at->second == hash) continue;
      Error error = makeError(Code::kFailedPrecondition, "the data file {} is not the run's",
                              participant.paths.at(name));
      error.node = participant.name;
      error.why = message("its SHA-256 is {}, the run expects {}", at->second, hash);
      error.next = "check whether something writes to it, and launch again";
      return error;
    }
  for (const auto& [name, first] : participants.front().data) {
    const auto holders = [&](const std::string& hash) {
      return std::count_if(participants.begin(), participants.end(),
                           [&](const Participant& participant) {
                             const auto at = participant.data.find(name);
                             return at != participant.data.end() && at->second == hash;
                           });
    };
    const Participant* usual = &participants.front();
    for (const Participant& participant : participants) {
      const auto at = participant.data.find(name);
      if (at != participant.data.end() && holders(at->second) > holders(usual->data.at(name)))
        usual = &participant;
    }
    for (std::size_t i = 0; i < participants.size(); ++i) {
      const auto at = participants[i].data.find(name);
      if (at == participants[i].data.end() ? participants[i].ranks.empty()
                                           : at->second == usual->data.at(name))
        continue;
      const auto path = participants[i].paths.find(name);
      Error error = makeError(Code::kFailedPrecondition, "its file for data.{} is not that of {}",
                              name, usual->name);
      error.node = participants[i].name;
      error.why =
          message("{} has SHA-256 {} here, {} there",
                  path == participants[i].paths.end() ? "" : path->second,
                  at == participants[i].data.end() ? "none" : at->second, usual->data.at(name));
      error.next = "copy the same file to every node, or set data.copy_to_nodes";
      return error;
    }
  }
  return {};
}

}  // namespace lockstep::app
