#include "app/history/curve_codec.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>

namespace lockstep::app {
namespace {

// How a column of integers stands for numbers: value = integer / scale, rounded to a float where
// the numbers were floats once.
struct Form {
  double scale = 1;
  bool single = false;
};
constexpr Form kForms[] = {{1}, {1e3}, {1e6}, {1e9}, {1e2, true}, {1e4, true}, {1e6, true}};
constexpr std::size_t kDoubles = std::size(kForms);  // the kind of a column that is not integers
constexpr int kOrders = 3;                           // integers, first and second differences
constexpr double kMostInteger = 9e15;                // below 2^53
constexpr std::uint64_t kMostBytes = 1ull << 30;

double valueOf(const Form& form, std::int64_t integer) {
  const double value = static_cast<double>(integer) / form.scale;
  return form.single ? static_cast<double>(static_cast<float>(value)) : value;
}

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::optional<std::vector<std::int64_t>> integersOf(std::span<const double> values,
                                                    const Form& form) {
  std::vector<std::int64_t> out;
  out.reserve(values.size());
  for (const double value : values) {
    const double scaled = value * form.scale;
    if (!(std::abs(scaled) < kMostInteger)) return std::nullopt;
    out.push_back(std::llround(scaled));
    if (!same(valueOf(form, out.back()), value)) return std::nullopt;
  }
  return out;
}

// Modulo 2^64, so that damaged bytes overflow nothing.
void differ(std::vector<std::int64_t>& values) {
  std::uint64_t before = 0;
  for (std::int64_t& value : values) {
    const auto now = static_cast<std::uint64_t>(value);
    value = static_cast<std::int64_t>(now - before);
    before = now;
  }
}
void sum(std::vector<std::int64_t>& values) {
  std::uint64_t total = 0;
  for (std::int64_t& value : values) {
    total += static_cast<std::uint64_t>(value);
    value = static_cast<std::int64_t>(total);
  }
}

// Small magnitudes of either sign as small numbers (Protobuf's ZigZag).
std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

void putVarint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

std::size_t varintBytes(const std::vector<std::int64_t>& values) {
  std::size_t out = 0;
  for (const std::int64_t value : values)
    out += (std::bit_width(zigzag(value) | 1) + std::size_t{6}) / 7;
  return out;
}

void putColumn(std::string& out, std::span<const double> values) {
  for (std::size_t kind = 0; kind < kDoubles; ++kind) {
    auto integers = integersOf(values, kForms[kind]);
    if (!integers) continue;
    // As multiples of what all differ by: bytes are counted by the thousand, memory by the page.
    const std::int64_t first = integers->empty() ? 0 : integers->front();
    std::int64_t unit = 0;
    for (const std::int64_t value : *integers) unit = std::gcd(unit, value - first);
    unit = std::max<std::int64_t>(unit, 1);
    for (std::int64_t& value : *integers) value = (value - first) / unit;
    std::vector<std::int64_t> best = *integers;
    int order = 0;
    for (int i = 1; i < kOrders; ++i) {
      differ(*integers);
      if (varintBytes(*integers) >= varintBytes(best)) continue;
      best = *integers;
      order = i;
    }
    out.push_back(static_cast<char>(static_cast<int>(kind) * kOrders + order));
    putVarint(out, zigzag(first));
    putVarint(out, static_cast<std::uint64_t>(unit));
    for (const std::int64_t value : best) putVarint(out, zigzag(value));
    return;
  }
  out.push_back(static_cast<char>(kDoubles * kOrders));
  for (int shift = 0; shift < 64; shift += 8)
    for (const double value : values)
      out.push_back(static_cast<char>(std::bit_cast<std::uint64_t>(value) >> shift));
}

// Reads what the functions above wrote; after an error everything is zero and ok() false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool atEnd() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (rest_.empty()) {
      ok_ = false;
      return 0;
    }
    const auto out = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return out;
  }

  std::string_view bytes(std::size_t count) {
    if (count > rest_.size()) ok_ = false;
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(out.size());
    return out;
  }

  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte();
      out |= static_cast<std::uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) return out;
    }
    ok_ = false;
    return 0;
  }

  // A number of values of which each takes at least a byte of what follows.
  std::size_t count() {
    const std::uint64_t out = varint();
    if (out <= rest_.size()) return static_cast<std::size_t>(out);
    ok_ = false;
    return 0;
  }

  std::vector<double> column(std::size_t count) {
    std::vector<double> out(count);
    const std::size_t kind = byte();
    if (kind == kDoubles * kOrders) {
      std::vector<std::uint64_t> bits(count);
      for (int shift = 0; shift < 64; shift += 8)
        for (std::uint64_t& one : bits) one |= static_cast<std::uint64_t>(byte()) << shift;
      for (std::size_t i = 0; i < count; ++i) out[i] = std::bit_cast<double>(bits[i]);
      return out;
    }
    if (kind > kDoubles * kOrders) {
      ok_ = false;
      return out;
    }
    const auto first = static_cast<std::uint64_t>(unzigzag(varint()));
    const std::uint64_t unit = varint();
    std::vector<std::int64_t> integers(count);
    for (std::int64_t& one : integers) one = unzigzag(varint());
    for (std::size_t order = kind % kOrders; order > 0; --order) sum(integers);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = first + static_cast<std::uint64_t>(integers[i]) * unit;
      out[i] = valueOf(kForms[kind / kOrders], static_cast<std::int64_t>(value));
    }
    return out;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

Error damaged() { return makeError(Code::kDataLoss, "a curve is damaged"); }

void putDeflated(std::string& out, const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  // Z_OK: the buffer is as large as compressBound says.
  (void)compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()));
  putVarint(out, bytes.size());
  putVarint(out, size);
  out.append(packed, 0, size);
}

// What putDeflated() wrote.
Result<std::string> inflated(Reader& reader) {
  const std::uint64_t size = reader.varint();
  const std::string_view packed = reader.bytes(reader.count());
  // zlib packs a thousandfold at most.
  if (!reader.ok() || size > kMostBytes || size / 1100 > packed.size()) return damaged();
  std::string out(static_cast<std::size_t>(size), '\0');
  auto written = static_cast<uLongf>(size);
  const int code = uncompress(reinterpret_cast<Bytef*>(out.data()), &written,
                              reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (code != Z_OK || written != size) return damaged();
  return out;
}

Reader readerOf(std::span<const std::byte> packed) {
  return Reader({reinterpret_cast<const char*>(packed.data()), packed.size()});
}

constexpr std::array kPointColumns = {&Point::x, &Point::y};
constexpr std::array kSpanColumns = {&Span::x, &Span::low, &Span::high, &Span::last};

template <typename T, std::size_t N>
void putColumns(std::span<const T> rows, const std::array<double T::*, N>& columns,
                const std::function<void(const std::vector<double>&)>& put) {
  std::vector<double> values(rows.size());
  for (const auto member : columns) {
    for (std::size_t i = 0; i < rows.size(); ++i) values[i] = rows[i].*member;
    put(values);
  }
}

// The next one of columns that are deflated apart, as their bytes are alike.
Result<std::vector<double>> nextColumn(Reader& reader, std::uint64_t count) {
  LOCKSTEP_ASSIGN(const std::string bytes, inflated(reader));
  if (count > bytes.size()) return damaged();  // a value takes a byte at least
  Reader column(bytes);
  std::vector<double> out = column.column(static_cast<std::size_t>(count));
  if (!column.ok() || !column.atEnd()) return damaged();
  return out;
}

template <typename T, std::size_t N>
Result<std::vector<T>> unpack(std::span<const std::byte> packed,
                              const std::array<double T::*, N>& columns) {
  Reader reader = readerOf(packed);
  const std::uint64_t count = reader.varint();
  std::vector<T> out;
  for (const auto member : columns) {
    LOCKSTEP_ASSIGN(const std::vector<double> values, nextColumn(reader, count));
    out.resize(values.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i].*member = values[i];
  }
  if (!reader.ok() || !reader.atEnd()) return damaged();
  return out;
}

}  // namespace

std::string packColumn(std::span<const double> values) {
  std::string column, out;
  putColumn(column, values);
  putDeflated(out, column);
  return out;
}

std::string packSpans(std::span<const Span> spans) {
  std::string out;
  putVarint(out, spans.size());
  putColumns(spans, kSpanColumns,
             [&](const std::vector<double>& values) { out += packColumn(values); });
  return out;
}

// Few points of many curves: all of them are deflated together.
std::string packCurves(std::span<const CurvePoints> curves) {
  std::string all, out;
  putVarint(all, curves.size());
  for (const CurvePoints& curve : curves) {
    putVarint(all, static_cast<std::uint64_t>(curve.series));
    putVarint(all, curve.points.size());
    putColumns(std::span<const Point>(curve.points), kPointColumns,
               [&](const std::vector<double>& values) { putColumn(all, values); });
  }
  putDeflated(out, all);
  return out;
}

Result<std::vector<double>> unpackColumn(std::span<const std::byte> packed, std::size_t count) {
  Reader reader = readerOf(packed);
  auto out = nextColumn(reader, count);
  if (out.ok() && !reader.atEnd()) return damaged();
  return out;
}

Result<std::vector<Point>> unpackPoints(std::span<const std::byte> packed) {
  return unpack<Point>(packed, kPointColumns);
}
Result<std::vector<Span>> unpackSpans(std::span<const std::byte> packed) {
  return unpack<Span>(packed, kSpanColumns);
}

Result<std::vector<CurvePoints>> unpackCurves(std::span<const std::byte> packed) {
  Reader whole = readerOf(packed);
  LOCKSTEP_ASSIGN(const std::string bytes, inflated(whole));
  if (!whole.atEnd()) return damaged();
  Reader reader(bytes);
  std::vector<CurvePoints> out(reader.count());
  for (CurvePoints& curve : out) {
    curve.series = static_cast<std::int64_t>(reader.varint());
    curve.points.resize(reader.count());
    for (const auto member : kPointColumns) {
      const std::vector<double> values = reader.column(curve.points.size());
      for (std::size_t i = 0; i < values.size(); ++i) curve.points[i].*member = values[i];
    }
    if (!reader.ok()) return damaged();
  }
  if (!reader.ok() || !reader.atEnd()) return damaged();
  return out;
}

}  // namespace lockstep::app
