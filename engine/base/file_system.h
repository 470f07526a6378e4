// Kinds of file systems.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// Returns whether several hosts may share a file system of this type (statfs::f_type). Sockets and
// memory-mapped files of one host are then not those of another.
bool isNetworkFilesystem(std::uint32_t type);
// Returns false also if there is no such path.
bool isLocalFilesystem(const std::string& path);

}  // namespace lockstep
