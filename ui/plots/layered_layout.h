// Layered layout of a directed acyclic graph, from top to bottom.
#pragma once

#include <QPolygonF>
#include <QRectF>
#include <vector>

namespace lockstep::ui {

struct LayeredGraph {
  struct Edge {
    int from = 0, to = 0;  // from < to
    bool aside = false;    // drawn at the left, and without influence on where boxes stand
  };
  std::vector<QSizeF> boxes;
  std::vector<Edge> edges;
};

struct LayeredLayout {
  std::vector<QRectF> boxes;  // do not overlap
  std::vector<int> rows;      // of each box, from 0 at the top
  std::vector<QPolygonF>
      edges;      // from the bottom of a box to the top of another, strictly downward
  QRectF bounds;  // of all, with the origin at the top left
};

// A box stands in the row below the lowest of those with an edge to it, as near to the mean of them
// as the other boxes of its row allow. An edge that passes rows runs straight down between or
// beside their boxes, and crosses none. Deterministic; time grows with the number of rows that
// edges pass. Precondition: from < to for each edge.
LayeredLayout layOut(const LayeredGraph& graph);

}  // namespace lockstep::ui
