#include "engine/device/cuda/matmul.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <type_traits>

#include "engine/device/cuda/library.h"

namespace lockstep::device::cuda {
namespace {

// clang-format off
#define LOCKSTEP_MATMUL_CALLS(CALL)                                                                \
  CALL(cublasLtGetVersion) CALL(cublasLtGetStatusString) CALL(cublasLtCreate) CALL(cublasLtDestroy) \
  CALL(cublasLtMatmul) CALL(cublasLtMatmulDescCreate) CALL(cublasLtMatmulDescDestroy)              \
  CALL(cublasLtMatmulDescSetAttribute) CALL(cublasLtMatrixLayoutCreate)                            \
  CALL(cublasLtMatrixLayoutDestroy) CALL(cublasLtMatmulPreferenceCreate)                           \
  CALL(cublasLtMatmulPreferenceDestroy) CALL(cublasLtMatmulPreferenceSetAttribute)                 \
  CALL(cublasLtMatmulAlgoGetHeuristic)
// clang-format on

struct Calls {
#define LOCKSTEP_FIELD(name) decltype(&::name) name = nullptr;
  LOCKSTEP_MATMUL_CALLS(LOCKSTEP_FIELD)
#undef LOCKSTEP_FIELD
};

std::string versionText(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

struct Found {
  Calls calls;
  Library library;
};

Found find() {
  Found out;
  out.library.name = "cuBLASLt";
  const std::size_t built = CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH;
  out.library.expected = fmt::format("{}.x, as {} that the module was built with", CUBLAS_VER_MAJOR,
                                     versionText(built));
  const OpenLibrary library = openLibrary(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR));
  out.library.problem = library.problem;
  if (library.handle == nullptr) return out;
  const auto resolve = [&](auto& field, const char* name) {
    field = reinterpret_cast<std::remove_reference_t<decltype(field)>>(dlsym(library.handle, name));
    if (field == nullptr && out.library.problem.empty())
      out.library.problem = fmt::format("{} has no {}", library.path, name);
  };
#define LOCKSTEP_RESOLVE(name) resolve(out.calls.name, #name);
  LOCKSTEP_MATMUL_CALLS(LOCKSTEP_RESOLVE)
#undef LOCKSTEP_RESOLVE
  if (!out.library.problem.empty()) return out;
  out.library.version = versionText(out.calls.cublasLtGetVersion());
  out.library.found = fmt::format("{} ({})", out.library.version, library.path);
  return out;
}

const Found& found() {
  static const Found once = find();
  return once;
}

class MatmulWork;

class CublasLtLibrary final : public MatmulLibrary {
 public:
  CublasLtLibrary(cublasLtHandle_t handle, CUstream stream, void* workspace, std::int64_t bytes)
      : handle_(handle),
        stream_(stream),
        workspace_(workspace),
        workspaceBytes_(static_cast<std::size_t>(bytes)) {}
  ~CublasLtLibrary() override { found().calls.cublasLtDestroy(handle_); }
  Result<std::unique_ptr<Work>> bind(const Matmul& matmul, Status& failed) override;

 private:
  friend class MatmulWork;
  cublasLtHandle_t handle_;
  CUstream stream_;
  void* workspace_;
  std::size_t workspaceBytes_;
};

// cuBLASLt's matrices are column-major: row-major y = op(a)·op(b) is column-major yᵀ =
// op(b)ᵀ·op(a)ᵀ. So b is its first operand, and a bias over y's columns is one over its rows, as
// its epilogues require.
class MatmulWork final : public Work {
 public:
  MatmulWork(CublasLtLibrary& library, Status& failed) : library_(library), failed_(failed) {}
  ~MatmulWork() override {
    const Calls& calls = found().calls;
    for (cublasLtMatrixLayout_t layout : {first_, second_, out_})
      if (layout != nullptr) calls.cublasLtMatrixLayoutDestroy(layout);
    if (description_ != nullptr) calls.cublasLtMatmulDescDestroy(description_);
  }

  Status prepare(const Matmul& matmul) {
    matmul_ = matmul;
    const Calls& calls = found().calls;
    const cudaDataType_t type = typeOf(matmul.operandDtype);
    LOCKSTEP_TRY(check(calls.cublasLtMatmulDescCreate(
        &description_, matmul.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        CUDA_R_32F)));
    const cublasOperation_t first = matmul.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = matmul.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, first));
    LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, second));
    const cublasLtEpilogue_t epilogue =
        matmul.bias == nullptr ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BIAS;
    LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    if (matmul.bias != nullptr) {
      LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, matmul.bias));
      LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, typeOf(matmul.biasDtype)));
    }
    LOCKSTEP_TRY(
        layout(first_, type, matmul.tb ? matmul.k : matmul.o, matmul.tb ? matmul.o : matmul.k));
    LOCKSTEP_TRY(layout(second_, type, matmul.ta ? matmul.n : matmul.k,
                        matmul.ta ? matmul.k : matmul.n, matmul.pitch));
    LOCKSTEP_TRY(layout(out_, typeOf(matmul.resultDtype), matmul.o, matmul.n));
    return choose();
  }

  void enqueue() override {
    constexpr float kOne = 1, kZero = 0;
    const cublasStatus_t status = found().calls.cublasLtMatmul(
        library_.handle_, description_, &kOne, matmul_.b, first_, matmul_.a, second_,
        matmul_.adds ? &kOne : &kZero, matmul_.y, out_, matmul_.y, out_, &algorithm_.algo,
        library_.workspace_, library_.workspaceBytes_, library_.stream_);
    if (status == CUBLAS_STATUS_SUCCESS || !failed_.ok()) return;
    // The product was found when it was prepared: what came before it has failed.
    failed_ = makeError(Code::kInternal, "the GPU failed at a product of {}×{} by {}×{}", matmul_.n,
                        matmul_.k, matmul_.k, matmul_.o);
    failed_.error().why = found().calls.cublasLtGetStatusString(status);
  }
  std::int64_t workspaceBytes() const override { return 0; }  // shares the device's workspace

 private:
  static cudaDataType_t typeOf(DType dtype) {
    return dtype == DType::kBf16 ? CUDA_R_16BF : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_32F;
  }
  Status check(cublasStatus_t status) const {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    Error error = makeError(Code::kFailedPrecondition, "cuBLASLt has no product of {}×{} by {}×{}",
                            matmul_.n, matmul_.k, matmul_.k, matmul_.o);
    error.why = found().calls.cublasLtGetStatusString(status);
    return error;
  }
  template <typename T>
  Status set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return check(found().calls.cublasLtMatmulDescSetAttribute(description_, attribute, &value,
                                                              sizeof value));
  }
  Status layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::int64_t rows,
                std::int64_t columns, std::int64_t pitch = 0) {
    return check(found().calls.cublasLtMatrixLayoutCreate(
        &layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
        pitch > 0 ? pitch : rows));
  }
  // Selects an algorithm by the operands' actual alignment: views into flat groups have only that
  // of their elements.
  Status choose() {
    const Calls& calls = found().calls;
    cublasLtMatmulPreference_t preference = nullptr;
    LOCKSTEP_TRY(check(calls.cublasLtMatmulPreferenceCreate(&preference)));
    const auto want = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      return calls.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value,
                                                        sizeof value);
    };
    const auto alignment = [](const void* address) {
      const auto bits = reinterpret_cast<std::uintptr_t>(address);
      return static_cast<std::uint32_t>(std::min<std::uintptr_t>(bits & (~bits + 1), 256));
    };
    // Partial sums of a result in 16 bits are added in f32, not in 16 bits.
    const std::uint32_t reductions = matmul_.resultDtype == DType::kF32
                                         ? CUBLASLT_REDUCTION_SCHEME_MASK
                                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int count = 0;
    std::array<cublasStatus_t, 7> asked{
        want(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
        want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, library_.workspaceBytes_),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(matmul_.b)),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(matmul_.a)),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(matmul_.y)),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(matmul_.y)),
        calls.cublasLtMatmulAlgoGetHeuristic(library_.handle_, description_, first_, second_, out_,
                                             out_, preference, 1, &algorithm_, &count)};
    calls.cublasLtMatmulPreferenceDestroy(preference);
    for (const cublasStatus_t status : asked) LOCKSTEP_TRY(check(status));
    return count > 0 ? Status() : check(CUBLAS_STATUS_NOT_SUPPORTED);
  }

  CublasLtLibrary& library_;
  Status& failed_;
  Matmul matmul_;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, out_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

Result<std::unique_ptr<Work>> CublasLtLibrary::bind(const Matmul& matmul, Status& failed) {
  auto work = std::make_unique<MatmulWork>(*this, failed);
  LOCKSTEP_TRY(work->prepare(matmul));
  return std::unique_ptr<Work>(std::move(work));
}

}  // namespace

const Library& cublasLtLibrary() { return found().library; }

Result<std::unique_ptr<MatmulLibrary>> MatmulLibrary::open(CUstream stream, void* workspace,
                                                           std::int64_t workspaceBytes) {
  const Found& library = found();
  Error error = makeError(Code::kFailedPrecondition, "cuBLASLt cannot be used");
  error.next =
      "install the CUDA toolkit's libraries, or name their folder in LOCKSTEP_CUDA_LIBRARIES";
  error.why = library.library.problem;
  if (!error.why.empty()) return error;
  cublasLtHandle_t handle = nullptr;
  if (const cublasStatus_t status = library.calls.cublasLtCreate(&handle);
      status != CUBLAS_STATUS_SUCCESS) {
    error.why = library.calls.cublasLtGetStatusString(status);
    return error;
  }
  return std::unique_ptr<MatmulLibrary>(
      std::make_unique<CublasLtLibrary>(handle, stream, workspace, workspaceBytes));
}

}  // namespace lockstep::device::cuda
