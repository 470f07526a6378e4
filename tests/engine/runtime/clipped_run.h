// The run that tests of parity vary.
#pragma once

#include <utility>

#include "tests/support/engine_run.h"

namespace lockstep::test {

// Text or images with a short last step per epoch, warm-up, and a mean gradient that is clipped at
// first.
inline RunSettings clippedSteps(models::Model model) {
  RunSettings settings;
  settings.model = std::move(model);
  settings.batch = 16;
  settings.samples = 200;  // 12 full steps and one of 8 samples per epoch
  settings.bucketBytes = 8192;
  settings.trainer.epochs = 2;
  settings.trainer.maxSteps = 20;
  settings.trainer.schedule.peak = 3e-3;
  settings.trainer.schedule.warmup = 5;
  settings.optimizer.clipNorm = 0.3;
  settings.optimizer.weightDecay = 0.1;
  settings.optimizer.decayMatricesOnly = true;
  return settings;
}

}  // namespace lockstep::test
