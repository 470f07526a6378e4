// Matrix products by cuBLASLt, which is opened at run time.
#pragma once

#include <cuda.h>

#include <memory>

#include "engine/device/device.h"
#include "engine/device/module.h"

namespace lockstep::device::cuda {

// cuBLASLt as this node has it, looked at once; `problem` is not empty where there is no using it.
const Library& productsLibrary();

// What products of one device share: the library's handle and one workspace.
class Products {
 public:
  // On the current context; work is given to `stream`. Errors: kFailedPrecondition without the
  // library.
  static Result<std::unique_ptr<Products>> open(CUstream stream, void* workspace,
                                                std::int64_t workspaceBytes);
  virtual ~Products() = default;
  // `failed` is told by the work what cuBLASLt says of it.
  virtual Result<std::unique_ptr<Work>> bind(const Product& product, Status& failed) = 0;
};

}  // namespace lockstep::device::cuda
