#include "engine/device/cuda/products.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <type_traits>

#include "engine/device/cuda/library.h"

namespace lockstep::device::cuda {
namespace {

#define LOCKSTEP_PRODUCT_CALLS(CALL)                                                           \
  CALL(cublasLtGetVersion)                                                                     \
  CALL(cublasLtGetStatusString)                                                                \
  CALL(cublasLtCreate)                                                                         \
  CALL(cublasLtDestroy)                                                                        \
  CALL(cublasLtMatmul) CALL(cublasLtMatmulDescCreate) CALL(cublasLtMatmulDescDestroy)          \
      CALL(cublasLtMatmulDescSetAttribute) CALL(cublasLtMatrixLayoutCreate)                    \
          CALL(cublasLtMatrixLayoutDestroy) CALL(cublasLtMatmulPreferenceCreate)               \
              CALL(cublasLtMatmulPreferenceDestroy) CALL(cublasLtMatmulPreferenceSetAttribute) \
                  CALL(cublasLtMatmulAlgoGetHeuristic)

struct Calls {
#define LOCKSTEP_FIELD(name) decltype(&::name) name = nullptr;
  LOCKSTEP_PRODUCT_CALLS(LOCKSTEP_FIELD)
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
  LOCKSTEP_PRODUCT_CALLS(LOCKSTEP_RESOLVE)
#undef LOCKSTEP_RESOLVE
  if (out.library.problem.empty())
    out.library.found =
        fmt::format("{} ({})", versionText(out.calls.cublasLtGetVersion()), library.path);
  return out;
}

const Found& found() {
  static const Found once = find();
  return once;
}

class Multiplication;

class CublasProducts final : public Products {
 public:
  CublasProducts(cublasLtHandle_t handle, CUstream stream, void* workspace, std::int64_t bytes)
      : handle_(handle),
        stream_(stream),
        workspace_(workspace),
        workspaceBytes_(static_cast<std::size_t>(bytes)) {}
  ~CublasProducts() override { found().calls.cublasLtDestroy(handle_); }
  Result<std::unique_ptr<Work>> bind(const Product& product, Status& failed) override;

 private:
  friend class Multiplication;
  cublasLtHandle_t handle_;
  CUstream stream_;
  void* workspace_;
  std::size_t workspaceBytes_;
};

// cuBLASLt's matrices are column-major: y = op(a)·op(b) row-major is yᵀ = op(b)ᵀ·op(a)ᵀ
// column-major, so that b is its first factor, and a bias of y's columns is one of its rows, as its
// epilogues have it.
class Multiplication final : public Work {
 public:
  Multiplication(CublasProducts& products, Status& failed) : products_(products), failed_(failed) {}
  ~Multiplication() override {
    const Calls& calls = found().calls;
    for (cublasLtMatrixLayout_t layout : {first_, second_, out_})
      if (layout != nullptr) calls.cublasLtMatrixLayoutDestroy(layout);
    if (description_ != nullptr) calls.cublasLtMatmulDescDestroy(description_);
  }

  Status prepare(const Product& product) {
    product_ = product;
    const Calls& calls = found().calls;
    const cudaDataType_t type = product.factors == DType::kBf16  ? CUDA_R_16BF
                                : product.factors == DType::kF16 ? CUDA_R_16F
                                                                 : CUDA_R_32F;
    LOCKSTEP_TRY(check(calls.cublasLtMatmulDescCreate(
        &description_, product.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        CUDA_R_32F)));
    const cublasOperation_t first = product.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = product.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, first));
    LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, second));
    const cublasLtEpilogue_t epilogue =
        product.bias == nullptr ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BIAS;
    LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    if (product.bias != nullptr) {
      LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias));
      LOCKSTEP_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F));
    }
    LOCKSTEP_TRY(layout(first_, type, product.tb ? product.k : product.o,
                        product.tb ? product.o : product.k));
    LOCKSTEP_TRY(layout(second_, type, product.ta ? product.n : product.k,
                        product.ta ? product.k : product.n, product.pitch));
    LOCKSTEP_TRY(layout(out_, CUDA_R_32F, product.o, product.n));
    return choose();
  }

  void give() override {
    constexpr float kOne = 1, kZero = 0;
    const Status status = check(found().calls.cublasLtMatmul(
        products_.handle_, description_, &kOne, product_.b, first_, product_.a, second_,
        product_.adds ? &kOne : &kZero, product_.y, out_, product_.y, out_, &algorithm_.algo,
        products_.workspace_, products_.workspaceBytes_, products_.stream_));
    if (!status.ok() && failed_.ok()) failed_ = status;
  }
  std::int64_t workspaceBytes() const override { return 0; }  // the device's one

 private:
  Status check(cublasStatus_t status) const {
    if (status == CUBLAS_STATUS_SUCCESS) return {};
    Error error = makeError(Code::kFailedPrecondition, "cuBLASLt has no product of {}×{} by {}×{}",
                            product_.n, product_.k, product_.k, product_.o);
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
  // By what is known of the operands' addresses: views into flat groups have those of their
  // elements.
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
    int count = 0;
    std::array<cublasStatus_t, 6> asked{
        want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, products_.workspaceBytes_),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product_.b)),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product_.a)),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(product_.y)),
        want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product_.y)),
        calls.cublasLtMatmulAlgoGetHeuristic(products_.handle_, description_, first_, second_, out_,
                                             out_, preference, 1, &algorithm_, &count)};
    calls.cublasLtMatmulPreferenceDestroy(preference);
    for (const cublasStatus_t status : asked) LOCKSTEP_TRY(check(status));
    return count > 0 ? Status() : check(CUBLAS_STATUS_NOT_SUPPORTED);
  }

  CublasProducts& products_;
  Status& failed_;
  Product product_;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, out_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

Result<std::unique_ptr<Work>> CublasProducts::bind(const Product& product, Status& failed) {
  auto work = std::make_unique<Multiplication>(*this, failed);
  LOCKSTEP_TRY(work->prepare(product));
  return std::unique_ptr<Work>(std::move(work));
}

}  // namespace

const Library& productsLibrary() { return found().library; }

Result<std::unique_ptr<Products>> Products::open(CUstream stream, void* workspace,
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
  return std::unique_ptr<Products>(
      std::make_unique<CublasProducts>(handle, stream, workspace, workspaceBytes));
}

}  // namespace lockstep::device::cuda
