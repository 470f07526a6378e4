#include "app/specs/layer_graph.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "engine/base/dtype.h"
#include "engine/specs/model_spec.h"

namespace lockstep::app {

LayerGraph layerGraphOf(const spec::v1::ModelSpec& written) {
  spec::v1::ModelSpec model = written;
  specs::nameLayers(model);
  LayerGraph out;
  out.input = shapeText(Shape(model.input().shape().begin(), model.input().shape().end()));
  if (model.input().columns() > 0) out.categories = std::to_string(model.input().columns());
  out.loss = model.loss().empty() ? "cross-entropy" : model.loss();
  std::map<std::string, int, std::less<>> above{{"input", LayerGraph::kInput}};
  if (model.input().columns() > 0) above["categories"] = LayerGraph::kCategories;
  for (int i = 0; i < model.layers_size(); ++i) {
    const auto& layer = model.layers(i);
    out.names.push_back(layer.name());
    int taken = 0;  // edges to this layer so far
    const auto connect = [&](int from) {
      const LayerGraph::Edge edge{from, i};
      const auto first = out.edges.end() - taken;
      if (std::find(first, out.edges.end(), edge) != out.edges.end()) return;
      out.edges.push_back(edge);
      ++taken;
    };
    if (layer.inputs().empty()) connect(i == 0 ? LayerGraph::kInput : i - 1);
    for (const std::string& name : layer.inputs())
      if (const auto from = above.find(name); from != above.end()) connect(from->second);
    if (layer.has_dense() && !layer.dense().tied().empty())
      if (const auto table = above.find(layer.dense().tied());
          table != above.end() && table->second >= 0)
        out.ties.push_back({table->second, i});
    above.emplace(layer.name(), i);
  }
  return out;
}

}  // namespace lockstep::app
