#include "ui/plots/layered_layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/status.h"

namespace lockstep::ui {
namespace {

constexpr double kBoxGap = 28, kRowGap = 46, kLaneGap = 20, kPortGap = 12;

// A row: its boxes from left to right, and what of its width they and the lanes past them take.
struct Row {
  std::vector<int> boxes;
  double top = 0, bottom = 0;
  double left = 0, right = 0;
  std::vector<double> lanes;  // x of edges that pass it
};

// Positions with at least `distances[i]` between i and i + 1 whose squared differences to `wanted`
// have the smallest sum: isotonic regression by pooling adjacent violators (Barlow et al.,
// "Statistical Inference under Order Restrictions", 1972).
std::vector<double> spread(const std::vector<double>& wanted,
                           const std::vector<double>& distances) {
  struct Pool {
    double sum;
    int count;
    double mean() const { return sum / count; }
  };
  std::vector<Pool> pools;
  double offset = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i > 0) offset += distances[i - 1];
    pools.push_back({wanted[i] - offset, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> out;
  offset = 0;
  for (const Pool& pool : pools)
    for (int i = 0; i < pool.count; ++i) {
      if (!out.empty()) offset += distances[out.size() - 1];
      out.push_back(pool.mean() + offset);
    }
  return out;
}

class Layouter {
 public:
  explicit Layouter(const LayeredGraph& graph) : graph_(graph), count_(graph.boxes.size()) {}

  LayeredLayout run() {
    assignRows();
    placeRows();
    routeEdges();
    drawEdges();
    moveToOrigin();
    return std::move(out_);
  }

 private:
  QRectF& box(int i) { return out_.boxes[static_cast<std::size_t>(i)]; }
  int rowOf(int box) const { return out_.rows[static_cast<std::size_t>(box)]; }
  Row& row(int i) { return rows_[static_cast<std::size_t>(i)]; }

  // The longest path from a box without edges to it.
  void assignRows() {
    into_.resize(count_);
    for (const auto& edge : graph_.edges) {
      LOCKSTEP_CHECK(
          edge.from >= 0 && edge.from < edge.to && static_cast<std::size_t>(edge.to) < count_,
          "edge {} {}", edge.from, edge.to);
      into_[static_cast<std::size_t>(edge.to)].push_back(&edge);
    }
    out_.rows.assign(count_, 0);
    out_.boxes.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      for (const auto* edge : into_[i])
        out_.rows[i] = std::max(out_.rows[i], rowOf(edge->from) + 1);
      const auto at = static_cast<std::size_t>(out_.rows[i]);
      if (rows_.size() <= at) rows_.resize(at + 1);
      rows_[at].boxes.push_back(static_cast<int>(i));
    }
  }

  void placeRows() {
    double top = 0;
    for (Row& row : rows_) {
      placeRow(row);
      double height = 0;
      for (const int i : row.boxes)
        height = std::max(height, graph_.boxes[static_cast<std::size_t>(i)].height());
      row.top = top;
      row.bottom = top + height;
      for (const int i : row.boxes) box(i).moveTop(top + (height - box(i).height()) / 2);
      row.left = box(row.boxes.front()).left();
      row.right = box(row.boxes.back()).right();
      top = row.bottom + kRowGap;
    }
  }

  void placeRow(Row& row) {
    std::vector<double> wanted(row.boxes.size(), 0);
    for (std::size_t k = 0; k < row.boxes.size(); ++k) {
      double sum = 0;
      int above = 0;
      for (const auto* edge : into_[static_cast<std::size_t>(row.boxes[k])])
        if (!edge->aside) {
          sum += box(edge->from).center().x();
          ++above;
        }
      if (above > 0) wanted[k] = sum / above;
    }
    std::vector<std::size_t> order(row.boxes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
    std::vector<int> boxes;
    std::vector<double> sorted, distances;
    for (const std::size_t k : order) {
      const double width = graph_.boxes[static_cast<std::size_t>(row.boxes[k])].width();
      if (!boxes.empty())
        distances.push_back(
            (graph_.boxes[static_cast<std::size_t>(boxes.back())].width() + width) / 2 + kBoxGap);
      boxes.push_back(row.boxes[k]);
      sorted.push_back(wanted[k]);
    }
    const std::vector<double> centres = spread(sorted, distances);
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      const QSizeF size = graph_.boxes[static_cast<std::size_t>(boxes[k])];
      box(boxes[k]) = QRectF(QPointF(centres[k] - size.width() / 2, 0), size);
    }
    row.boxes = std::move(boxes);
  }

  // Whether a line at `x` is free in the rows between two.
  bool isFree(double x, int above, int below) {
    for (int r = above + 1; r < below; ++r) {
      const Row& between = row(r);
      if (x < between.left - kLaneGap / 2 || x > between.right + kLaneGap / 2) continue;
      for (const int i : between.boxes)
        if (x > box(i).left() - kLaneGap / 2 && x < box(i).right() + kLaneGap / 2) return false;
      for (const double lane : between.lanes)
        if (std::abs(lane - x) < kLaneGap / 2) return false;
    }
    return true;
  }

  // Chooses where an edge passes rows: below its source or above its target if that is free, else
  // beside all that is there; short edges first, so that they are inside.
  void routeEdges() {
    lanes_.assign(graph_.edges.size(), 0);
    std::vector<std::size_t> order(graph_.edges.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto span = [&](std::size_t i) {
      return rowOf(graph_.edges[i].to) - rowOf(graph_.edges[i].from);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return span(a) < span(b); });
    for (const std::size_t i : order)
      if (span(i) > 1) lanes_[i] = laneOf(graph_.edges[i]);
  }

  double laneOf(const LayeredGraph::Edge& edge) {
    const int above = rowOf(edge.from), below = rowOf(edge.to);
    if (!edge.aside)
      for (const int end : {edge.from, edge.to})
        if (const double x = box(end).center().x(); isFree(x, above, below))
          return take(x, above, below);
    double left = 0, right = 0;
    for (int r = above + 1; r < below; ++r) {
      left = r == above + 1 ? row(r).left : std::min(left, row(r).left);
      right = r == above + 1 ? row(r).right : std::max(right, row(r).right);
    }
    left -= kLaneGap;
    right += kLaneGap;
    const double middle = (box(edge.from).center().x() + box(edge.to).center().x()) / 2;
    const bool atLeft = edge.aside || middle - left < right - middle;
    return take(atLeft ? left : right, above, below);
  }

  double take(double x, int above, int below) {
    for (int r = above + 1; r < below; ++r) {
      Row& between = row(r);
      between.lanes.push_back(x);
      between.left = std::min(between.left, x);
      between.right = std::max(between.right, x);
    }
    return x;
  }

  // Where the edges of a box begin or end at it, from left to right by where they lead.
  void spreadPorts(bool begins, std::vector<double>& ports) {
    std::vector<std::vector<std::size_t>> edgesOf(count_);
    for (std::size_t i = 0; i < graph_.edges.size(); ++i) {
      const auto& edge = graph_.edges[i];
      edgesOf[static_cast<std::size_t>(begins ? edge.from : edge.to)].push_back(i);
    }
    const auto leads = [&](std::size_t i) {
      const auto& edge = graph_.edges[i];
      if (rowOf(edge.to) - rowOf(edge.from) > 1) return lanes_[i];
      return box(begins ? edge.to : edge.from).center().x();
    };
    ports.assign(graph_.edges.size(), 0);
    for (std::size_t b = 0; b < count_; ++b) {
      auto& edges = edgesOf[b];
      std::stable_sort(edges.begin(), edges.end(),
                       [&](std::size_t x, std::size_t y) { return leads(x) < leads(y); });
      const QRectF& rect = out_.boxes[b];
      const double gap = std::min(kPortGap, rect.width() / (static_cast<double>(edges.size()) + 1));
      for (std::size_t k = 0; k < edges.size(); ++k)
        ports[edges[k]] = rect.center().x() + gap * (static_cast<double>(k) -
                                                     (static_cast<double>(edges.size()) - 1) / 2);
    }
  }

  void drawEdges() {
    std::vector<double> begins, ends;
    spreadPorts(true, begins);
    spreadPorts(false, ends);
    for (std::size_t i = 0; i < graph_.edges.size(); ++i) {
      const auto& edge = graph_.edges[i];
      const int above = rowOf(edge.from), below = rowOf(edge.to);
      QPolygonF line;
      // A point at the height of the one before it would not lead downward.
      const auto add = [&](double x, double y) {
        if (line.isEmpty() || y > line.last().y()) line << QPointF(x, y);
      };
      add(begins[i], box(edge.from).bottom());
      add(begins[i], row(above).bottom);
      if (below - above > 1) {
        add(lanes_[i], row(above + 1).top);
        add(lanes_[i], row(below - 1).bottom);
      }
      add(ends[i], row(below).top);
      add(ends[i], box(edge.to).top());
      out_.edges.push_back(std::move(line));
    }
  }

  void moveToOrigin() {
    double left = 0, right = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      left = r == 0 ? rows_[r].left : std::min(left, rows_[r].left);
      right = r == 0 ? rows_[r].right : std::max(right, rows_[r].right);
    }
    for (QRectF& rect : out_.boxes) rect.translate(-left, 0);
    for (QPolygonF& line : out_.edges) line.translate(-left, 0);
    out_.bounds = QRectF(0, 0, right - left, rows_.empty() ? 0 : rows_.back().bottom);
  }

  const LayeredGraph& graph_;
  const std::size_t count_;
  std::vector<std::vector<const LayeredGraph::Edge*>> into_;  // by box
  std::vector<Row> rows_;
  std::vector<double> lanes_;  // x, by edge; of those that pass rows
  LayeredLayout out_;
};

}  // namespace

LayeredLayout layOut(const LayeredGraph& graph) { return Layouter(graph).run(); }

}  // namespace lockstep::ui
