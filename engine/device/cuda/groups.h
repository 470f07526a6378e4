// Groups of GPUs over NCCL, which is opened at run time.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>

#include "engine/device/device.h"
#include "engine/device/module.h"

namespace lockstep::device::cuda {

// NCCL as found on this node, probed once; `problem` is non-empty where it cannot be used.
const Library& groupsLibrary();

// All groups of one GPU. They fail together, since pending work of one may depend on ranks of
// another.
class CudaGrouping : public Grouping {
 public:
  // `use` makes the GPU's context current on the thread; work is enqueued on `exchange`; `failed`
  // receives asynchronous errors. Errors: kFailedPrecondition without the library.
  static Result<std::unique_ptr<CudaGrouping>> open(CUstream exchange, std::function<void()> use,
                                                    Status& failed);
  // Checks all groups for errors; on the first, aborts all.
  virtual void poll() = 0;
  // Aborts all pending operations; nothing is exchanged afterwards. Returns at once. Communicators
  // are released when the graphs that captured them are gone, for which the destructor waits within
  // a timeout.
  virtual void abort() = 0;
  // Timeout of work that waits for other ranks: the minimum over the groups; 0 where there are
  // none.
  virtual Nanoseconds limit() const = 0;
};

}  // namespace lockstep::device::cuda
