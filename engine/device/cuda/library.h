// Opens NVIDIA's libraries at run time.
#pragma once

#include <string>

namespace lockstep::device::cuda {

struct OpenLibrary {
  void* handle = nullptr;  // null if not found; kept open until the process ends
  std::string path;        // the file
  std::string problem;     // the loader's message
};
// Search order: the folders of LOCKSTEP_CUDA_LIBRARIES (a:b), the loader's path, CUDA_HOME, then
// /usr/local/cuda and /usr/local/cuda-*, newest first.
OpenLibrary openLibrary(const std::string& file);

}  // namespace lockstep::device::cuda
