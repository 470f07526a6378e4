// Groups of GPUs by NCCL, which is opened at run time.
#pragma once

#include <cuda.h>

#include <functional>
#include <memory>

#include "engine/device/device.h"
#include "engine/device/module.h"

namespace lockstep::device::cuda {

// NCCL as this node has it, looked at once; `problem` is not empty where there is no using it.
const Library& groupsLibrary();

// All groups that one GPU is in. They fail together: what one of them waits for may be what another
// one's ranks do.
class CudaGrouping : public Grouping {
 public:
  // `use` makes the GPU's context the thread's; work is given to `exchange`. `failed` is told what
  // goes wrong with it. Errors: kFailedPrecondition without the library.
  static Result<std::unique_ptr<CudaGrouping>> open(CUstream exchange, std::function<void()> use,
                                                    Status& failed);
  // Looks whether a group has failed, and aborts all then.
  virtual void poll() = 0;
  // Ends what is under way: nothing is exchanged any more. Returns at once; the communicators are
  // released when the graphs that captured them are gone, which the destructor awaits within a
  // limit.
  virtual void abort() = 0;
  // How long work may take that waits for others: the least of its groups'; 0 where there are none.
  virtual Nanoseconds limit() const = 0;
};

}  // namespace lockstep::device::cuda
