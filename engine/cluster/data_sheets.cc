#include "engine/cluster/data_sheets.h"

#include <algorithm>
#include <array>

namespace lockstep::cluster {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;
constexpr double kGibi = 1 << 30;
// NVIDIA gives the bandwidth of NVLink of both directions together.
constexpr double kNvlink2 = 150 * kGiga, kNvlink3 = 300 * kGiga, kNvlink4 = 450 * kGiga,
                 kNvlink5 = 900 * kGiga;
// PCI-SIG: PCI Express Base Specifications 3.0 (2010), 4.0 (2017) and 5.0 (2019), 16 lanes.
constexpr double kPcie3 = 15.75 * kGiga, kPcie4 = 31.5 * kGiga, kPcie5 = 63 * kGiga;

constexpr DeviceSheet sheet(std::string_view model, std::array<double, 4> teraflops,
                            double gibibytes, double gigabytesPerSecond, double link) {
  return {model,
          teraflops[0] * kTera,
          teraflops[1] * kTera,
          teraflops[2] * kTera,
          teraflops[3] * kTera,
          static_cast<std::int64_t>(gibibytes * kGibi),
          gigabytesPerSecond * kGiga,
          link};
}

// Model; TFLOP/s in fp32, tf32, bf16, fp16; GiB; GB/s; link.
// Memory is the least that CUDA's device properties were seen to show of a model: of HBM 5 to 7 %
// more than the sheet's GB, of GDDR, where error correction takes its part, up to 3 % less. That of
// the H100 is in tests/gpu/reports, others are in the messages of PyTorch's allocator that people
// show.
constexpr std::array kDevices{
    // NVIDIA V100 Tensor Core GPU data sheet, 2020
    sheet("V100-PCIe-16GB", {14, 14, 14, 112}, 15.7, 900, kPcie3),
    sheet("V100-SXM-32GB", {15.7, 15.7, 15.7, 125}, 31.7, 900, kNvlink2),
    // NVIDIA T4 Tensor Core GPU data sheet, 2019
    sheet("T4", {8.1, 8.1, 8.1, 65}, 14.5, 300, kPcie3),
    // NVIDIA A10 Tensor Core GPU data sheet, 2021
    sheet("A10", {31.2, 62.5, 125, 125}, 21.9, 600, kPcie4),
    // NVIDIA A100 Tensor Core GPU data sheet, 2020, and with 80 GB 2021
    sheet("A100-PCIe-40GB", {19.5, 156, 312, 312}, 39.3, 1555, kPcie4),
    sheet("A100-SXM-40GB", {19.5, 156, 312, 312}, 39.3, 1555, kNvlink3),
    sheet("A100-PCIe-80GB", {19.5, 156, 312, 312}, 79.1, 1935, kPcie4),
    sheet("A100-SXM-80GB", {19.5, 156, 312, 312}, 79.1, 2039, kNvlink3),
    // NVIDIA A800 Tensor Core GPU data sheet, 2022: NVLink of 400 GB/s in both directions
    sheet("A800-SXM-80GB", {19.5, 156, 312, 312}, 79.1, 2039, 200 * kGiga),
    // NVIDIA L4 Tensor Core GPU data sheet, 2023, which gives rates with sparsity: twice these
    sheet("L4", {30.3, 60, 121, 121}, 21.9, 300, kPcie4),
    // NVIDIA L40S GPU data sheet, 2023
    sheet("L40S", {91.6, 183, 362, 362}, 44.3, 864, kPcie4),
    // NVIDIA H100 Tensor Core GPU data sheet, 2023, which gives rates with sparsity: twice these
    sheet("H100-PCIe-80GB", {51, 378, 756, 756}, 79.1, 2000, kPcie5),
    sheet("H100-SXM-80GB", {67, 494.5, 989, 989}, 79.1, 3350, kNvlink4),
    // NVIDIA H800 data sheet, 2023: NVLink of 400 GB/s in both directions
    sheet("H800-SXM-80GB", {67, 494.5, 989, 989}, 79.1, 3350, 200 * kGiga),
    // NVIDIA H200 Tensor Core GPU data sheet, 2024, with sparsity too
    sheet("H200-SXM-141GB", {67, 494.5, 989, 989}, 139.7, 4800, kNvlink4),
    // NVIDIA HGX B200 and DGX B200 data sheets, 2024: an eighth of the system's, half of what it
    // has with sparsity
    sheet("B200-SXM-180GB", {75, 1125, 2250, 2250}, 178.3, 8000, kNvlink5),
};

constexpr LinkSheet network(std::string_view kind, double gigabits) {
  return {kind, gigabits * kGiga / 8, false};
}

constexpr std::array kLinks{
    LinkSheet{"nvlink-2", kNvlink2, true},
    LinkSheet{"nvlink-3", kNvlink3, true},
    LinkSheet{"nvlink-4", kNvlink4, true},
    LinkSheet{"nvlink-5", kNvlink5, true},
    LinkSheet{"pcie-3", kPcie3, true},
    LinkSheet{"pcie-4", kPcie4, true},
    LinkSheet{"pcie-5", kPcie5, true},
    // IEEE 802.3: the data rate in each direction
    network("10gbe", 10),
    network("25gbe", 25),
    network("40gbe", 40),
    network("100gbe", 100),
    network("200gbe", 200),
    network("400gbe", 400),
    // InfiniBand Trade Association: InfiniBand Roadmap, 4 lanes
    network("edr", 100),
    network("hdr", 200),
    network("ndr", 400),
    network("xdr", 800),
};

}  // namespace

std::span<const DeviceSheet> deviceSheets() { return kDevices; }

const DeviceSheet* findDeviceSheet(std::string_view model) {
  const auto* found = std::ranges::find(kDevices, model, &DeviceSheet::model);
  return found == kDevices.end() ? nullptr : &*found;
}

std::span<const LinkSheet> linkSheets() { return kLinks; }

const LinkSheet* findLinkSheet(std::string_view kind) {
  const auto* found = std::ranges::find(kLinks, kind, &LinkSheet::kind);
  return found == kLinks.end() ? nullptr : &*found;
}

}  // namespace lockstep::cluster
