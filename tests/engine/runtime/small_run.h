// The run that tests of checkpoints vary.
#pragma once

#include "tests/support/engine_run.h"

namespace lockstep::test {

inline RunSettings smallRun() {
  RunSettings settings;
  settings.backend = "onednn";
  settings.compute = DType::kF32;
  settings.ranks = 3;
  settings.batch = 64;
  settings.samples = 1000;  // 15 full steps and one of 40 samples an epoch
  settings.trainer.epochs = 3;
  return settings;
}

}  // namespace lockstep::test
