// Judge: holds the figures of a benchmark against their limits, if it is started with --judge.
#pragma once

#include <cstdio>
#include <cstring>

namespace lockstep::test {

class Judge {
 public:
  // Takes --judge out of the arguments.
  Judge(int& argc, char** argv) {
    int kept = 0;
    for (int i = 0; i < argc; ++i) {
      if (std::strcmp(argv[i], "--judge") == 0)
        judges_ = true;
      else
        argv[kept++] = argv[i];
    }
    argc = kept;
    argv[argc] = nullptr;
  }
  bool judges() const { return judges_; }

  // Prints a figure that misses its limit. So does one that is no number.
  void atMost(const char* what, double value, double limit, const char* unit) {
    if (!judges_) return;
    ++judged_;
    if (value <= limit) return;
    ++missed_;
    std::printf("MISSED: %s: %.4g %s, limit %.4g %s\n", what, value, unit, limit, unit);
  }
  // Prints the verdict, and returns the exit code of the program: 1 if a limit was missed.
  int verdict() const {
    if (judges_) std::printf("%d of %d limits are kept\n", judged_ - missed_, judged_);
    return missed_ > 0 ? 1 : 0;
  }

 private:
  bool judges_ = false;
  int judged_ = 0, missed_ = 0;
};

}  // namespace lockstep::test
