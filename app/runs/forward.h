// Forward: the forward pass of a trained model on this machine, in a process of lockstep-agent,
// which ends with the object. agent/worker/forward.cc says what the two tell each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/ir/graph.h"
#include "engine/plan/plan.h"

namespace lockstep::spec::v1 {
class RunSpec;
}

namespace lockstep::app {

// Where a model's weights are on this machine.
struct ForwardWeights {
  std::string path;                // a safetensors file, a checkpoint or a folder of checkpoints
  std::string names = "lockstep";  // in a file: as in model.init_from.names
};

class Forward {
 public:
  // `spec` is complete. `batch`: samples of a run. Errors: kInvalidArgument of the spec; kNotFound
  // without an agent. Those of the weights are run()'s.
  // `isStopped`, if not null, ends start() and run() with kCancelled soon after it returns true.
  static Result<std::unique_ptr<Forward>> start(const spec::v1::RunSpec& spec,
                                                const ForwardWeights& weights, std::int64_t batch,
                                                std::function<bool()> isStopped = nullptr);
  ~Forward();

  // An input's type and its memory, zero at first: "x", "categories", "label" and "weight", as far
  // as the model has them. Null and empty for any other.
  const ir::TensorType* type(std::string_view input) const;
  std::span<std::byte> input(std::string_view name);

  // Runs the model on the inputs. Errors: those of the weights; kAborted if the process ended.
  Status run();
  // Of the last run: rows() × columns() numbers, logits where the loss takes these. A sample has
  // one row, one for each token where it is a text.
  std::int64_t rows() const { return output_.type.shape[0]; }
  std::int64_t columns() const { return output_.type.count() / rows(); }
  std::vector<double> row(std::int64_t index) const;
  // Over the samples of all runs so far, by their weights; NaN without any.
  double loss() const { return found_[0]; }
  double metric() const { return found_[1]; }
  const std::string& metricName() const { return metricName_; }  // "accuracy"; "": none

 private:
  Forward() = default;
  Status spawn();
  Status send(const void* from, std::size_t size);
  Status receive(void* to, std::size_t size);
  Status await(short events) const;  // until the socket is ready
  Error ended();                     // why the process ended

  struct Operand {
    std::string name;
    ir::TensorType type;
    std::vector<std::byte> bytes;
  };
  Operand* find(std::string_view name);
  std::vector<Operand> inputs_;  // in the order of the process
  Operand output_;
  double found_[2] = {};
  std::string metricName_;
  std::function<bool()> isStopped_;
  int socket_ = -1, errors_ = -1, pid_ = -1;
};

}  // namespace lockstep::app
