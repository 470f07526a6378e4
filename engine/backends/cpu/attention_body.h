// Attention of one sample and head, included by kernels_body.h. Keys and values are packed once;
// scores are then computed for one tile of rows at a time, so that causal attention wastes only
// pairs within a tile and a panel.
#pragma once

namespace lockstep::backends::cpu {
namespace {

constexpr std::int64_t kAttentionRows = kRows[kPackedVectors];

inline std::int64_t panelled(std::int64_t n) {
  return (n + kPackedPanel - 1) / kPackedPanel * kPackedPanel;
}

// Packs an n×cols matrix of row pitch `stride` into panels: [cols / panel][n][panel]; transposed,
// [n / panel][cols][panel].
void packAll(const float* from, std::int64_t n, std::int64_t cols, std::int64_t stride,
             bool transposed, float* to) {
  packPanels(from, stride, transposed, transposed ? cols : n, transposed ? n : cols, kPackedPanel,
             to);
}

// c[rows×cols] = a·b, or added to c; b is in panels of `k` rows, used from b on.
struct Block {
  std::int64_t rows, k, cols;
  const float* a;
  Rows lie;
  std::int64_t stride;
  const float* b;
  std::int64_t panelStride;
  float* c;
  std::int64_t ldc;
  bool accumulate;
};
constexpr float kZeros[kPackedPanel] = {};
void multiply(const Block& m) {
  for (std::int64_t j = 0; j < m.cols; j += kPackedPanel) {
    const std::int64_t width = least(kPackedPanel, m.cols - j),
                       used = (width + kWidth - 1) / kWidth;
    const Tile t{m.k,
                 m.a,
                 m.stride,
                 nullptr,
                 nullptr,
                 m.b + j / kPackedPanel * m.panelStride,
                 kPackedPanel,
                 m.c + j,
                 m.ldc,
                 kZeros,
                 m.accumulate,
                 false,
                 width - (used - 1) * kWidth};
    (m.lie == Rows::kAlong ? kAlongTiles : kAcrossTiles)[used][m.rows](t);
  }
}

// Rows [first, first + rows) see at most the first `seen` tokens; row r sees `seenBy`.
inline std::int64_t seenBy(const Attention& a, std::int64_t row) {
  return a.causal ? row + 1 : a.tokens;
}

// Fills a row from `mine` on with x, up to a full vector and up to `end`.
inline void fillRest(float* row, std::int64_t mine, std::int64_t end, float x) {
  std::int64_t c = mine / kWidth * kWidth;
  if (c < mine) {
    store(row + c, where(firstLanes(mine - c), load(row + c), splat(x)));
    c += kWidth;
  }
  for (; c < end; c += kWidth) store(row + c, splat(x));
}

void attention(const Attention& o) {
  const Attention a = o;
  const std::int64_t width = panelled(a.tokens);
  float *keys = a.work, *values = keys + width * a.head,
        *scores = values + a.tokens * panelled(a.head);
  packAll(a.k, a.tokens, a.head, a.qkvStride, true, keys);
  packAll(a.v, a.tokens, a.head, a.qkvStride, false, values);
  for (std::int64_t first = 0; first < a.tokens; first += kAttentionRows) {
    const std::int64_t rows = least(kAttentionRows, a.tokens - first),
                       seen = seenBy(a, first + rows - 1);
    multiply({rows, a.head, panelled(seen), a.q + first * a.qkvStride, Rows::kAlong, a.qkvStride,
              keys, a.head * kPackedPanel, scores, width, false});
    // Each step for all rows, to shorten dependency chains.
    float top[kMaxRows], sum[kMaxRows];
    const auto vectorsOf = [&](std::int64_t r) {
      return (seenBy(a, first + r) + kWidth - 1) / kWidth * kWidth;
    };
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * width;
      fillRest(row, seenBy(a, first + r), 0, -1e30f);  // nothing beside the largest
      top[r] = a.scale * largest(vectorsOf(r), row);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = scores + r * width;
      sum[r] = expRow(vectorsOf(r), row, a.scale, top[r], row);
      fillRest(row, seenBy(a, first + r), seen, 0.0f);
    }
    float inverse[kMaxRows];
    for (std::int64_t r = 0; r < rows; ++r) {
      a.lseOut[(first + r) * a.lseStride] = top[r] + __builtin_logf(sum[r]);
      inverse[r] = 1 / sum[r];
    }
    float* y = a.yOut + first * a.yStride;
    multiply({rows, seen, a.head, scores, Rows::kAlong, width, values, a.tokens * kPackedPanel, y,
              a.yStride, false});
    for (std::int64_t r = 0; r < rows; ++r)
      scale(a.head, y + r * a.yStride, inverse[r], y + r * a.yStride);
  }
}

void attentionGrad(const Attention& o) {
  const Attention a = o;
  const std::int64_t width = panelled(a.tokens), wide = panelled(a.head),
                     most = attentionBlock(a.tokens);
  float *keys = a.work, *values = keys + width * a.head, *keyRows = values + width * a.head,
        *queries = keyRows + a.tokens * wide, *given = queries + most * wide,
        *p = given + most * wide, *ds = p + most * width;
  packAll(a.k, a.tokens, a.head, a.qkvStride, true, keys);
  packAll(a.v, a.tokens, a.head, a.qkvStride, true, values);
  packAll(a.k, a.tokens, a.head, a.qkvStride, false, keyRows);
  for (std::int64_t block = 0; block < a.tokens; block += most) {
    const std::int64_t n = least(most, a.tokens - block), end = block + n;
    const float *q = a.q + block * a.qkvStride, *dy = a.dy + block * a.yStride,
                *y = a.y + block * a.yStride;
    packAll(q, n, a.head, a.qkvStride, false, queries);
    packAll(dy, n, a.head, a.yStride, false, given);
    for (std::int64_t i = 0; i < n; i += kAttentionRows) {
      const std::int64_t rows = least(kAttentionRows, n - i),
                         seen = seenBy(a, block + i + rows - 1);
      const std::int64_t computed = panelled(seen);
      multiply({rows, a.head, computed, q + i * a.qkvStride, Rows::kAlong, a.qkvStride, keys,
                a.head * kPackedPanel, p + i * width, width, false});
      multiply({rows, a.head, computed, dy + i * a.yStride, Rows::kAlong, a.yStride, values,
                a.head * kPackedPanel, ds + i * width, width, false});
      for (std::int64_t r = i; r < i + rows; ++r) {
        Vec sum{};
        forVectors(a.head, [&](std::int64_t c, auto lanes) {
          sum += loadPart(dy + r * a.yStride + c, lanes) * loadPart(y + r * a.yStride + c, lanes);
        });
        const float offset = total(sum), lse = a.lse[(block + r) * a.lseStride];
        float *row = p + r * width, *grad = ds + r * width;
        const std::int64_t mine = seenBy(a, block + r);
        for (std::int64_t c = 0; c < mine; c += kWidth) {
          const Vec e = exponential(load(row + c) * a.scale - lse);
          store(row + c, e);
          store(grad + c, e * (load(grad + c) - offset) * a.scale);
        }
        fillRest(row, mine, computed, 0.0f);
        fillRest(grad, mine, computed, 0.0f);
      }
      multiply({rows, seen, a.head, ds + i * width, Rows::kAlong, width, keyRows,
                a.tokens * kPackedPanel, a.dq + (block + i) * a.qkvStride, a.qkvStride, false});
    }
    // dk = dsᵀ·q and dv = pᵀ·dy, of the rows that see the columns.
    const std::int64_t columns = seenBy(a, end - 1);
    for (std::int64_t c = 0; c < columns; c += kAttentionRows) {
      const std::int64_t some = least(kAttentionRows, columns - c);
      const std::int64_t from = a.causal && c > block ? c - block : 0;
      const bool more = a.causal ? c < block : block > 0;
      multiply({some, n - from, a.head, ds + from * width + c, Rows::kAcross, width,
                queries + from * kPackedPanel, n * kPackedPanel, a.dk + c * a.qkvStride,
                a.qkvStride, more});
      multiply({some, n - from, a.head, p + from * width + c, Rows::kAcross, width,
                given + from * kPackedPanel, n * kPackedPanel, a.dv + c * a.qkvStride, a.qkvStride,
                more});
    }
  }
}

}  // namespace
}  // namespace lockstep::backends::cpu
