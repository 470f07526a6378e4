// NVIDIA's libraries, opened at run time.
#pragma once

#include <string>

namespace lockstep::device::cuda {

struct OpenLibrary {
  void* handle = nullptr;  // null where there is none; kept to the process's end
  std::string path;        // the file
  std::string problem;     // what the loader says
};
// Sought in the folders of LOCKSTEP_CUDA_LIBRARIES (a:b), where the loader looks, in CUDA_HOME, and
// in /usr/local/cuda and /usr/local/cuda-*, the newest first.
OpenLibrary openLibrary(const std::string& file);

}  // namespace lockstep::device::cuda
