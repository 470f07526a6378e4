// What a node prints while it sets a program up, before its run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::app {

struct SetupOutput {
  std::string node;
  std::string command;  // under way; "": none yet
  std::vector<std::string> lines;
  std::uint64_t dropped = 0;  // lines that the node left out before these
};
using TellSetup = std::function<void(const SetupOutput&)>;

}  // namespace lockstep::app
