// How far apart the results of two plans are, held against what rounding alone explains.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/runtime/verify.h"

namespace lockstep::runtime {

// Not a number is worse than any difference.
double relative(double difference, double of);
// `where` receives the index of the worst.
double worstRelative(const std::vector<double>& a, const std::vector<double>& b,
                     std::size_t* where = nullptr);

std::string stepText(std::size_t index);  // "step 1" of index 0

// The smallest norm that differences are divided by, as a share of the norm of all gradients. Some
// gradients are zero except for rounding, such as that of a bias before a batch norm. Their
// relative difference would be meaningless.
constexpr double kLeastShare = 0x1p-14;

// How far tensors are apart, relative to `b`, at least to `leastShare` of the length of all.
struct Apart {
  Reference::Noise tensors;  // ‖a − b‖ / ‖b‖
  Reference::Noise along;    // ⟨a − b, b⟩ / ⟨b, b⟩
};
Apart apartness(const Tensors& a, const Tensors& b, double leastShare = 0);
void widen(Reference::Noise& noise, const Apart& apart);

// By how much gradients are too long altogether: the mean over tensors and batches, each as much as
// it is free of noise.
double scaleOf(const std::vector<Reference::Noise>& along,
               const std::vector<Reference::Noise>& noise, double least);

// A finding that is as near to its limit as any of those it is made of.
class Worst {
 public:
  explicit Worst(std::string check) : found_{std::move(check), 0, 0, "", true} {}
  // Of `what`, a tensor or a number; `where` it is found.
  void add(double difference, const Tolerance& tolerance, double noise, const std::string& what,
           const std::string& where);
  void setUndecided() { found_.undecided = true; }
  Finding take();

 private:
  Finding found_;
  double share_ = 0, noise_ = 0;
  int all_ = 0, stretched_ = 0, aside_ = 0;
  struct Batches {
    int decided = 0, all = 0;
  };
  std::map<std::string, Batches> batches_;  // by what is compared
};

Finding sameBits(std::string check, const Tensors& a, const Tensors& b);

// ‖a − b‖ / ‖b‖ of the elements that rounding alone moves by no more than `most`·‖b‖, and of those
// that it moves further and are set aside; `noise` is how far it moves these.
struct Steady {
  double difference = 0, asideDifference = 0, noise = 0;
  std::size_t aside = 0;
};
Steady steadyApart(const Tensor& a, const Tensor& b, const std::vector<double>& moved, double most);

}  // namespace lockstep::runtime
