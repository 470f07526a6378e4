#include "engine/backends/onednn.h"

#include "engine/backends/kernel.h"
#include "engine/backends/reference.h"

namespace lockstep::backends {
namespace {

class OneDnn final : public Backend {
 public:
  explicit OneDnn(int threads) : threads_(threads) {}
  std::string_view name() const override { return "onednn"; }
  bool supports(ir::Op op, DType dtype) const override {
    return dtype == DType::kF32 && hasKernel(op);
  }
  Result<std::unique_ptr<Kernel>> bind(const KernelSpec& spec) override {
    if (!supports(spec.op, computeType(spec))) return unsupported(name(), spec);
    return bindReference(spec);
  }

 private:
  [[maybe_unused]] int threads_;
};

}  // namespace

Result<std::unique_ptr<Backend>> makeOneDnn(const BackendOptions& options) {
  return std::unique_ptr<Backend>(std::make_unique<OneDnn>(options.threads));
}

}  // namespace lockstep::backends
