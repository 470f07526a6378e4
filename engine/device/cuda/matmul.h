// Matrix multiplication by cuBLASLt, which is opened at run time.
#pragma once

#include <cuda.h>

#include <memory>

#include "engine/device/device.h"
#include "engine/device/module.h"

namespace lockstep::device::cuda {

// cuBLASLt as found on this node, probed once; `problem` is non-empty where it cannot be used.
const Library& cublasLtLibrary();

// State shared by the matmuls of a device: the library's handle and a workspace.
class MatmulLibrary {
 public:
  // Uses the current context; work is enqueued on `stream`. Errors: kFailedPrecondition without the
  // library.
  static Result<std::unique_ptr<MatmulLibrary>> open(CUstream stream, void* workspace,
                                                     std::int64_t workspaceBytes);
  virtual ~MatmulLibrary() = default;
  // `failed` receives cuBLASLt errors of enqueued work.
  virtual Result<std::unique_ptr<Work>> bind(const Matmul& matmul, Status& failed) = 0;
};

}  // namespace lockstep::device::cuda
