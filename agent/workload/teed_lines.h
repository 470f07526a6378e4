// TeedLines: whose each line of torchrun's output is. Where it is asked to (PET_TEE, --tee), it
// passes on what its processes print: "[default1]:step 3" is of the one with LOCAL_RANK 1, where
// "default" is their role.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lockstep/spec/v1/workload.pb.h"

namespace lockstep::agent {

// Returns the role that the command, or PET_ROLE in workload.env, gives torchrun's processes.
std::string torchrunRole(const spec::v1::WorkloadSpec& workload);

class TeedLines {
 public:
  // Takes a line of a process, without what says whose it is, or, with `local` -1, bytes of which
  // that is not said, as they come.
  using Take = std::function<void(int local, std::string_view bytes)>;
  TeedLines(const std::string& role, Take take) : begin_("[" + role), take_(std::move(take)) {}

  void add(std::string_view bytes);
  void end();  // what is left without a newline is a line

 private:
  enum class State { kBegin, kNamed, kOther };  // at the begin of a line, or within it
  void begin(char c);

  const std::string begin_;
  const Take take_;
  State state_ = State::kBegin;
  std::string line_;
  int local_ = 0;
};

}  // namespace lockstep::agent
