// Weights in files: what a training starts from, and what a model is exported from.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/progress.h"
#include "engine/weights/checkpoint_files.h"
#include "engine/weights/layout.h"
#include "engine/weights/safetensors.h"

namespace lockstep::weights {

// "params/dense1.weight" → "dense1.weight", and "" of what is no parameter or running statistic:
// optimizer state, say. A name without a kind is that of an exported model.
std::string weightName(const std::string& tensor);
// The parameters and running statistics of a plan, by their names in checkpoints.
std::map<std::string, TensorInfo> weightsOf(const plan::Plan& plan);
// Returns the files of a checkpoint that together have all of its weights, the first ranks' where
// several do.
std::vector<std::string> filesOfWeights(const Manifest& manifest);

// What a file lacks of a model, or the model of a file.
struct Mismatch {
  std::size_t shared = 0;                      // tensors that fit
  std::vector<std::string> missing, leftOver;  // names
  std::vector<Message> wrong;                  // shapes and types
  bool fits() const { return missing.empty() && leftOver.empty() && wrong.empty(); }
  // Lists them, the first few of each.
  Message text() const;
  // OK if they fit, or if `partial` and only some names differ. kInvalidArgument: `source` does not
  // fit.
  Status check(const std::string& source, bool partial) const;
};

// A safetensors file that a training starts from. Its tensors are read as pieces of the model's
// (plan/pieces.h), in the model's layout and types: each rank reads the rows that it holds.
class WeightsFile {
 public:
  // `wanted`: as weightsOf(). With `partial` the names may differ. Errors: those of
  // TensorReader::open(); kInvalidArgument listing what is missing, left over or of another shape;
  // kDataLoss.
  static Result<WeightsFile> open(const std::string& path, const Names& names,
                                  const std::map<std::string, TensorInfo>& wanted, bool partial);
  // The pieces of tensors that are there.
  const Manifest& manifest() const { return manifest_; }
  const Mismatch& mismatch() const { return mismatch_; }
  // `piece` is one of the manifest. Errors: kDataLoss.
  Result<std::vector<std::byte>> read(const Piece& piece) const;

 private:
  void match(const Names& names, const std::map<std::string, TensorInfo>& wanted);
  void take(const TensorInfo& tensor, const std::string& name, const Stored& stored);
  Status checkCopies(const Names& names) const;
  std::string find(const std::string& prefix, const std::string& name) const;  // "": not there

  std::shared_ptr<const TensorReader> file_;
  Manifest manifest_;
  Mismatch mismatch_;
  std::map<std::string, Stored> stored_;  // by tensor of the manifest; names as in the file
};

// The parameters and running statistics of a trained model: of an exported file, or of a checkpoint
// all of whose files are in one folder. Tensors are read one at a time.
class ModelWeights {
 public:
  // A file, a checkpoint, or a folder of checkpoints, of which the newest is taken. Errors: those
  // of TensorReader::open(); kDataLoss naming what is damaged or not there.
  static Result<ModelWeights> open(const std::string& path);
  const std::string& path() const { return path_; }
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }  // by name
  // `out` has the tensor's size.
  Status read(const std::string& name, std::span<std::byte> out) const;

 private:
  Status open(const std::string& file, const std::string& path);

  std::string path_;
  Manifest manifest_;
  std::map<std::string, TensorReader> files_;                                 // by name
  std::map<std::string, std::vector<std::pair<std::string, Piece>>> pieces_;  // by name; with files
  std::map<std::string, TensorInfo> tensors_;
};

// Writes the model to a safetensors file as others read it, tensor by tensor. `type`: of all
// tensors; nullopt: as they are. Errors: kInvalidArgument where the model has not the parameters
// that `names` tells, or a value that `type` cannot hold; those of reading and writing; kCancelled
// by `progress`, which is told of the tensors.
Status exportWeights(const ModelWeights& model, const Names& names, std::optional<DType> type,
                     const std::string& to, const lockstep::Progress& progress = {});

}  // namespace lockstep::weights
