// The layers of a model as a graph.
#pragma once

#include <string>
#include <vector>

namespace lockstep::spec::v1 {
class ModelSpec;
}

namespace lockstep::app {

struct LayerGraph {
  // In the place of a layer's index: the model's inputs.
  static constexpr int kInput = -1, kCategories = -2;
  // `to` takes the output of `from`, a layer above it or an input.
  struct Edge {
    int from = 0, to = 0;
    bool operator==(const Edge&) const = default;
  };
  // Dense layer `layer` takes the table of the embedding `table` as its weight.
  struct Tie {
    int table = 0, layer = 0;
    bool operator==(const Tie&) const = default;
  };
  std::vector<std::string> names;  // of the layers, given or generated
  std::vector<Edge> edges;         // by `to`, then in the order of its inputs; no two alike
  std::vector<Tie> ties;
  std::string input, categories;  // shapes of a sample: "28x28x1", "26"; "" of an input without one
  std::string loss;
  bool operator==(const LayerGraph&) const = default;
};
// As far as the model is right: an input that names no layer above has no edge.
LayerGraph layerGraphOf(const spec::v1::ModelSpec& model);

}  // namespace lockstep::app
