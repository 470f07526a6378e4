// Stub for modules built without NCCL's header.
#include "engine/device/cuda/groups.h"

namespace lockstep::device::cuda {

const Library& groupsLibrary() {
  static const Library none{"NCCL", "", "2.18 or later",
                            "this build of the module was made without nccl.h"};
  return none;
}

Result<std::unique_ptr<CudaGrouping>> CudaGrouping::open(CUstream, std::function<void()>, Status&) {
  Error error = makeError(Code::kFailedPrecondition, "NCCL cannot be used");
  error.why = groupsLibrary().problem;
  return error;
}

}  // namespace lockstep::device::cuda
