#include "engine/base/file_system.h"

#include <sys/vfs.h>

namespace lockstep {

bool isNetworkFilesystem(std::uint32_t type) {
  switch (type) {
    case 0x6969:      // NFS
    case 0x517b:      // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB2
    case 0x65735546:  // FUSE: sshfs and the like
    case 0x0bd00bd0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x00c36400:  // Ceph
    case 0x01161970:  // GFS2
    case 0x7461636f:  // OCFS2
    case 0x01021997:  // 9P
    case 0x5346414f:  // AFS
    case 0x6b414653:  // AFS of the kernel
      return true;
    default:
      return false;
  }
}

bool isLocalFilesystem(const std::string& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 &&
         !isNetworkFilesystem(static_cast<std::uint32_t>(info.f_type));
}

}  // namespace lockstep
