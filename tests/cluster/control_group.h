// A control group of the kernel for processes of a test: bounds what they have of the CPU.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

namespace lockstep::test {

class ControlGroup {
 public:
  // In whichever version of control groups has the CPU controller here. Null where none can be
  // made.
  static std::unique_ptr<ControlGroup> make();
  ~ControlGroup();  // its processes go back to where they were
  bool limitCpu(double cores);
  bool add(pid_t process);

 private:
  ControlGroup(std::string folder, std::string parent, bool unified)
      : folder_(std::move(folder)), parent_(std::move(parent)), unified_(unified) {}
  std::string folder_, parent_;
  bool unified_;
};

}  // namespace lockstep::test
