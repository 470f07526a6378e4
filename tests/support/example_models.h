// The models of resources/examples, as the engine sees them.
#pragma once

#include "engine/models/model.h"

namespace lockstep::testing {

inline models::Layer layer(models::Layer::Kind kind, std::string name) {
  models::Layer out;
  out.kind = kind;
  out.name = std::move(name);
  return out;
}

inline models::Layer dense(std::string name, std::int64_t units, std::string activation = "") {
  models::Layer out = layer(models::Layer::Kind::kDense, std::move(name));
  out.units = units;
  out.activation = std::move(activation);
  return out;
}

inline models::Layer conv2d(std::string name, std::int64_t filters, std::int64_t kernel,
                            std::string activation = "", bool same = false) {
  models::Layer out = layer(models::Layer::Kind::kConv2d, std::move(name));
  out.units = filters;
  out.kernel = kernel;
  out.activation = std::move(activation);
  out.same = same;
  return out;
}

inline models::Layer maxPool2d(std::string name, std::int64_t size) {
  models::Layer out = layer(models::Layer::Kind::kMaxPool2d, std::move(name));
  out.kernel = out.stride = size;
  return out;
}

inline models::Model fashionMlp() {
  models::Model model;
  model.name = "fashion-mlp";
  model.input = {28, 28, 1};
  model.layers = {layer(models::Layer::Kind::kFlatten, "flatten1"), dense("dense1", 128, "relu"),
                  dense("dense2", 10)};
  return model;
}

inline models::Model fashionCnn() {
  models::Model model;
  model.name = "fashion-cnn";
  model.input = {28, 28, 1};
  model.layers = {conv2d("conv1", 32, 3, "relu"), maxPool2d("pool1", 2),
                  layer(models::Layer::Kind::kFlatten, "flatten1"), dense("dense1", 10)};
  return model;
}

}  // namespace lockstep::testing
