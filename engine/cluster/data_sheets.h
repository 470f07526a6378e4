// Data-centre GPUs and links by their data sheets: what is known of them before they are measured.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::cluster {

// Peaks are FLOP/s of dense matrix products without sparsity; those of bf16 and fp16 accumulate in
// fp32. Where a GPU has no units for a type, the peak is that of fp32.
struct DeviceSheet {
  std::string_view model;
  double fp32 = 0, tf32 = 0, bf16 = 0, fp16 = 0;
  std::int64_t memoryBytes = 0;  // as drivers show it
  double memoryBytesPerSecond = 0;
  double linkBytesPerSecond = 0;  // to other GPUs of the host, in each direction
};
std::span<const DeviceSheet> deviceSheets();
const DeviceSheet* findDeviceSheet(std::string_view model);  // null if unknown

struct LinkSheet {
  std::string_view kind;
  double bytesPerSecond = 0;  // in each direction, of a device or an adapter
  bool isInside = false;      // between the devices of one host
};
std::span<const LinkSheet> linkSheets();
const LinkSheet* findLinkSheet(std::string_view kind);  // null if unknown

}  // namespace lockstep::cluster
