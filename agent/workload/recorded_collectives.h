// What PyTorch's Flight Recorder has of the collectives of a program's process, those included that
// are not called in Python. resources/python/lockstep/_recorder.py tells it when it is asked. It is
// told on in lines before the process's stacks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::agent {

// Of a process group: the first collective that has not completed, else the last one.
struct RecordedCollective {
  std::string group;           // backend and group: "nccl/world"; of others, PyTorch's name
  std::string name;            // "all_reduce"
  std::int64_t number = 0;     // in its group
  std::int64_t scheduled = 0;  // number of the group's last one, not less
  std::string state;           // "scheduled", "started", "completed"
  std::string sizes;           // of its inputs: "Float [1000], Long [3, 4]"; "": none
  bool betweenTwo = false;     // send and recv are numbered by themselves

  bool goesOn() const { return state != "completed"; }
  bool operator==(const RecordedCollective&) const = default;
};

// Returns what the message tells. The program may write there what it likes: names are one word, in
// one line.
std::optional<RecordedCollective> recordedIn(const nlohmann::json& message);

// "Recorded collective 41 of 43 of group nccl/world: started all_reduce, Float [1000]".
std::string recordedLine(const RecordedCollective& collective);
std::optional<RecordedCollective> recordedOf(std::string_view line);

}  // namespace lockstep::agent
