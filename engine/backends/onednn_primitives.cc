#include "engine/backends/onednn_primitives.h"

#include <omp.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

namespace lockstep::backends {

using dnnl::memory;
using Format = memory::format_tag;

struct OneDnnEngine::State {
  explicit State(int count) : threads(count) {}
  const int threads;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

namespace {

memory::desc describe(const memory::dims& dims, Format format) {
  return {dims, memory::data_type::f32, format};
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

template <typename State>
class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(std::shared_ptr<State> state, dnnl::primitive primitive,
                  std::unordered_map<int, memory> arguments, const memory::desc& scratch)
      : state_(std::move(state)),
        primitive_(std::move(primitive)),
        arguments_(std::move(arguments)),
        scratch_(scratch, state_->engine),
        bytes_(static_cast<std::int64_t>(scratch.get_size())) {
    arguments_.insert({DNNL_ARG_SCRATCHPAD, scratch_});
  }
  void run() override {
    omp_set_num_threads(state_->threads);  // per calling thread
    primitive_.execute(state_->stream, arguments_);
  }
  std::int64_t workspaceBytes() const override { return bytes_; }

 private:
  std::shared_ptr<State> state_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
  memory scratch_;
  std::int64_t bytes_;
};

template <typename State, typename Descriptor>
std::unique_ptr<Kernel> finish(const std::shared_ptr<State>& state, const Descriptor& descriptor,
                               dnnl::primitive primitive,
                               std::unordered_map<int, memory> arguments) {
  if (std::strncmp(descriptor.impl_info_str(), "ref", 3) == 0) return nullptr;
  return std::make_unique<PrimitiveKernel<State>>(state, std::move(primitive), std::move(arguments),
                                                  descriptor.scratchpad_desc());
}

Error foreign(const KernelSpec& spec, const dnnl::error& error) {
  Error result =
      makeError(Code::kInternal, "{}: oneDNN refused {}", spec.name, ir::info(spec.op).name);
  result.why = error.what();
  return result;
}

}  // namespace

OneDnnEngine::OneDnnEngine(int threads) {
  omp_set_num_threads(threads);
  state_ = std::make_shared<State>(threads);
}
OneDnnEngine::~OneDnnEngine() = default;

bool OneDnnEngine::wantsMatmul(const MatmulShape& s) const {
  // Below this size our own partitioned matmul is as fast.
  return state_->threads > 1 && s.o >= 64 && s.n >= 16 && s.n * s.k * s.o >= 1 << 27;
}

Result<std::unique_ptr<Kernel>> OneDnnEngine::bindMatmul(const KernelSpec& spec) {
  const MatmulShape s = matmulShape(spec);
  const auto a = describe({s.n, s.k}, s.ta ? Format::ba : Format::ab);
  const auto b = describe({s.k, s.o}, s.tb ? Format::ba : Format::ab);
  const auto y = describe({s.n, s.o}, Format::ab);
  auto at = [&](const memory::desc& desc, void* data) {
    return memory(desc, state_->engine, data);
  };
  omp_set_num_threads(state_->threads);
  try {
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, at(a, spec.inputs[0].data)},
                                              {DNNL_ARG_WEIGHTS, at(b, spec.inputs[1].data)},
                                              {DNNL_ARG_DST, at(y, spec.outputs[0].data)}};
    memory::desc bias;
    if (spec.inputs.size() > 2) {
      bias = describe({1, s.o}, Format::ab);
      arguments.insert({DNNL_ARG_BIAS, at(bias, spec.inputs[2].data)});
    }
    const dnnl::matmul::desc desc =
        spec.inputs.size() > 2 ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
    const dnnl::matmul::primitive_desc chosen(desc, attributes(), state_->engine);
    return finish(state_, chosen, dnnl::matmul(chosen), std::move(arguments));
  } catch (const dnnl::error& error) {
    return foreign(spec, error);
  }
}

}  // namespace lockstep::backends
