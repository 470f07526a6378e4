// Measurements of the one-rank plan that are made when a verification first needs them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/verify.h"

namespace lockstep::runtime {

struct Reference::More {
  // Noise of runs beyond those that every verification begins with.
  struct Rare {
    int runs = 0;
    Noise noise;
  };
  // How much rounding alone changes the results of training.
  struct Moved {
    std::map<std::string, std::vector<double>> weights;  // each element of each tensor
    double evaluation = 0;                               // relative
  };
  // Results of a plan with fp64 sums.
  struct Exact {
    std::vector<Tensors> gradients;  // of the first batches
    Tensors updates;
    std::vector<double> losses;
  };
  More(plan::Plan ofProbe, plan::Plan ofTrain)
      : probe(std::move(ofProbe)), train(std::move(ofTrain)) {}

  plan::Plan probe, train;
  std::vector<Rare> gradients;  // by batch
  Rare updates;
  std::optional<Moved> moved;
  std::optional<Exact> exact;
  std::optional<Exact> noisyExact;
};

}  // namespace lockstep::runtime
