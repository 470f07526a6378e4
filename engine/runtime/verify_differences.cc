#include "engine/runtime/verify_differences.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::runtime {
namespace {

// The smallest share of batches in which a tensor has to be decided.
constexpr double kLeastDecided = 0.5;

}  // namespace

double relative(double difference, double of) {
  if (difference == 0) return 0;
  const double out = difference / of;
  return std::isnan(out) ? INFINITY : out;
}

std::string stepText(std::size_t index) { return fmt::format("step {}", index + 1); }

double worstRelative(const std::vector<double>& a, const std::vector<double>& b,
                     std::size_t* where) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = relative(std::abs(a[i] - b[i]), std::abs(b[i]));
    if (difference <= worst) continue;
    worst = difference;
    if (where != nullptr) *where = i;
  }
  return worst;
}

Apart apartness(const Tensors& a, const Tensors& b, double leastShare) {
  Apart out;
  double all = 0;
  for (const auto& [name, tensor] : b)
    for (std::size_t i = 0; leastShare > 0 && i < tensor.count(); ++i)
      all += tensor.at(i) * tensor.at(i);
  for (const auto& [name, theirs] : b) {
    const auto mine = a.find(name);
    double& difference = out.tensors[name] = INFINITY;
    if (mine == a.end() || mine->second.count() != theirs.count()) continue;
    double apart = 0, along = 0, norm = 0;
    for (std::size_t i = 0; i < theirs.count(); ++i) {
      const double other = theirs.at(i), by = mine->second.at(i) - other;
      apart += by * by;
      along += by * other;
      norm += other * other;
    }
    norm = std::max(norm, leastShare * leastShare * all);
    difference = relative(std::sqrt(apart), std::sqrt(norm));
    if (norm > 0) out.along[name] = along / norm;
  }
  for (const auto& [name, tensor] : a)
    if (!b.contains(name)) out.tensors[name] = INFINITY;
  return out;
}

void widen(Reference::Noise& noise, const Apart& apart) {
  for (const auto& [name, difference] : apart.tensors)
    noise[name] = std::max(noise[name], difference);
}

double scaleOf(const std::vector<Reference::Noise>& along,
               const std::vector<Reference::Noise>& noise, double least) {
  double sum = 0, weights = 0;
  for (std::size_t batch = 0; batch < along.size(); ++batch)
    for (const auto& [name, by] : along[batch]) {
      const auto known = noise[batch].find(name);
      const double spread = least + (known == noise[batch].end() ? 0 : known->second);
      sum += by / (spread * spread);
      weights += 1 / (spread * spread);
    }
  return std::abs(sum / std::max(weights, std::numeric_limits<double>::min()));
}

void Worst::add(double difference, const Tolerance& tolerance, double noise,
                const std::string& what, const std::string& where) {
  const double limit = tolerance.of(noise);
  const bool decides = tolerance.decides(noise);
  Batches& of = batches_[what];
  ++of.all;
  of.decided += decides;
  ++all_;
  if (limit > tolerance.least) ++stretched_;
  if (!decides) ++aside_;
  noise_ = std::max(noise_, noise);
  const double share = std::isnan(difference) ? INFINITY : difference / limit;
  found_.holds = found_.holds && share <= 1;
  if (share <= share_ && all_ > 1) return;
  share_ = share;
  found_.difference = std::isnan(difference) ? INFINITY : difference;
  found_.limit = limit;
  found_.where = where;
}

Finding Worst::take() {
  for (const auto& [what, of] : batches_)
    found_.undecided = found_.undecided || of.decided < kLeastDecided * of.all;
  if (stretched_ > 0 && all_ > 1)
    found_.where +=
        fmt::format("; rounding alone moves {} of {} by up to {:.0e}", stretched_, all_, noise_);
  if (aside_ > 0 && all_ > 1) found_.where += fmt::format(", {} too far to decide", aside_);
  return std::move(found_);
}

Finding sameBits(std::string check, const Tensors& a, const Tensors& b) {
  Finding out{std::move(check), 0, 0, "", true};
  for (const auto& [name, difference] : apartness(a, b).tensors) {
    if (difference <= out.difference) continue;
    out = {out.check, difference, 0, name, false};
  }
  return out;
}

Steady steadyApart(const Tensor& a, const Tensor& b, const std::vector<double>& moved,
                   double most) {
  double apart = 0, asideApart = 0, asideMoved = 0, squares = 0;
  for (std::size_t i = 0; i < b.count(); ++i) squares += b.at(i) * b.at(i);
  const double norm = std::sqrt(squares);
  Steady out;
  for (std::size_t i = 0; i < b.count(); ++i) {
    const double by = a.at(i) - b.at(i);
    if (moved[i] <= most * norm) {
      apart += by * by;
      continue;
    }
    ++out.aside;
    asideApart += by * by;
    asideMoved += moved[i] * moved[i];
  }
  out.difference = relative(std::sqrt(apart), norm);
  out.asideDifference = relative(std::sqrt(asideApart), norm);
  out.noise = relative(std::sqrt(asideMoved), norm);
  return out;
}

}  // namespace lockstep::runtime
