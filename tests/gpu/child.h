// A program of the bundle, run with a limit.
#pragma once

#include <string>
#include <vector>

namespace lockstep::gpu {

struct Child {
  // as a shell has it: 128 + signal where one ended it; 127: it could not be started
  int code = -1;
  bool overtime = false;  // it was ended at the limit, and what it started with it
  double seconds = 0;
  std::string output;  // what it wrote until then
  std::string errors;  // the end of what it wrote to its stderr
};
// Ends all processes of the child's group at the limit.
Child runChild(const std::vector<std::string>& words, double limitSeconds);

}  // namespace lockstep::gpu
