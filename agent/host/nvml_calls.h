// NVML's stable interface ("NVML API Reference Guide",
// docs.nvidia.com/deploy/nvml-api): functions by their exported names, whose suffix _vN fixes the
// layout they take; the name of the section stands beside each.
#pragma once

#include <climits>

namespace lockstep::agent {
namespace nvml {

// "Device Enumerations": nvmlReturn_t.
enum : int {
  kSuccess = 0,
  kUninitialized = 1,
  kNotSupported = 3,
  kDriverNotLoaded = 9,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kLibraryMismatch = 18,  // of library and driver: one of them was updated
};
using Handle = void*;    // nvmlDevice_t
using EventSet = void*;  // nvmlEventSet_t

// "Device Structs": nvmlMemory_t, bytes.
struct Memory {
  unsigned long long total = 0, free = 0, used = 0;
};
// nvmlUtilization_t, percent.
struct Utilization {
  unsigned gpu = 0, memory = 0;
};
// nvmlProcessInfo_t as of nvmlDeviceGetComputeRunningProcesses_v3.
struct Process {
  unsigned pid = 0;
  unsigned long long usedMemory = 0;
  unsigned gpuInstance = 0, computeInstance = 0;
};
static_assert(sizeof(Process) == 24);
// "Field Value Queries": nvmlFieldValue_t; the value's type is nvmlValueType_t.
struct FieldValue {
  unsigned id = 0, scope = 0;
  long long timestamp = 0, latency = 0;
  unsigned type = 0;
  int result = kNotSupported;
  union {
    double real;
    unsigned u32;
    unsigned long ulong;
    unsigned long long u64;
    long long s64;
  } value{};
};
static_assert(sizeof(FieldValue) == 40);
// "Event Types", "Event Handling Methods": nvmlEventData_t as of nvmlEventSetWait_v2.
struct EventData {
  Handle device = nullptr;
  unsigned long long type = 0, data = 0;
  unsigned gpuInstance = 0, computeInstance = 0;
};
static_assert(sizeof(EventData) == 32);
inline constexpr unsigned long long kXidEvent = 0x8;  // nvmlEventTypeXidCriticalError

// "Device Enumerations": nvmlTemperatureSensors_t, nvmlClockType_t, nvmlPcieUtilCounter_t,
// nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlPstates_t.
inline constexpr int kTemperatureGpu = 0, kClockSm = 1, kClockMemory = 2, kPcieSent = 0,
                     kPcieReceived = 1, kEccCorrected = 0, kEccUncorrected = 1,
                     kSinceDriverStart = 0, kSlowestState = 15;
// "Field Value Enums": NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX and …_RX, KiB ever; of all links with
// this scope.
inline constexpr unsigned kNvlinkSent = 138, kNvlinkReceived = 139, kAllLinks = UINT_MAX;

// "Clocks Event Reasons": bits of nvmlDeviceGetCurrentClocksEventReasons. 0x1 is an idle GPU. 0x8
// comes with 0x40 and 0x80 and says more only alone.
struct Reason {
  unsigned long long bits;
  const char* word;
};
inline constexpr Reason kReasons[] = {
    {0x4, "power"},       {0x20 | 0x40, "heat"},       {0x80, "power-brake"},
    {0x10, "sync-boost"}, {0x2, "application-clocks"}, {0x100, "display-clocks"}};
inline constexpr unsigned long long kSlowdown = 0x8, kSlowdownExplained = 0x20 | 0x40 | 0x80;

inline bool ofDriver(int result) {
  return result == kUninitialized || result == kDriverNotLoaded || result == kLibraryMismatch;
}
inline bool ofGpu(int result) { return result == kGpuIsLost || result == kResetRequired; }

// One that is not there says so.
template <typename... Parameters, typename... Arguments>
int ask(int (*call)(Parameters...), Arguments... arguments) {
  return call == nullptr ? kFunctionNotFound : call(arguments...);
}

inline double numberOf(const FieldValue& field) {
  switch (field.type) {
    case 0:
      return field.value.real;
    case 1:
      return field.value.u32;
    case 2:
      return static_cast<double>(field.value.ulong);
    case 4:
      return static_cast<double>(field.value.s64);
    default:
      return static_cast<double>(field.value.u64);
  }
}

}  // namespace nvml

// The functions that are called; null: the library does not have it.
struct NvmlCalls {
  // "Initialization and Cleanup", "Error reporting", "System Queries"
  int (*start)() = nullptr;
  int (*stop)() = nullptr;
  const char* (*errorText)(int result) = nullptr;
  int (*driverVersion)(char* text, unsigned size) = nullptr;
  // "Device Queries"
  int (*count)(unsigned* count) = nullptr;
  int (*handle)(unsigned index, nvml::Handle* device) = nullptr;
  int (*name)(nvml::Handle device, char* text, unsigned size) = nullptr;
  int (*memory)(nvml::Handle device, nvml::Memory* memory) = nullptr;
  int (*utilization)(nvml::Handle device, nvml::Utilization* share) = nullptr;
  int (*power)(nvml::Handle device, unsigned* milliwatts) = nullptr;
  int (*powerLimit)(nvml::Handle device, unsigned* milliwatts) = nullptr;
  int (*temperature)(nvml::Handle device, int sensor, unsigned* celsius) = nullptr;
  int (*clock)(nvml::Handle device, int type, unsigned* megahertz) = nullptr;
  int (*maxClock)(nvml::Handle device, int type, unsigned* megahertz) = nullptr;
  int (*state)(nvml::Handle device, int* state) = nullptr;
  int (*reasons)(nvml::Handle device, unsigned long long* bits) = nullptr;
  // a second, KB of 1000
  int (*pcieThroughput)(nvml::Handle device, int counter, unsigned* kilobytes) = nullptr;
  int (*pcieGeneration)(nvml::Handle device, unsigned* generation) = nullptr;
  int (*pcieGenerationMax)(nvml::Handle device, unsigned* generation) = nullptr;
  int (*pcieWidth)(nvml::Handle device, unsigned* lanes) = nullptr;
  int (*pcieWidthMax)(nvml::Handle device, unsigned* lanes) = nullptr;
  int (*eccErrors)(nvml::Handle device, int type, int counter, unsigned long long* count) = nullptr;
  int (*fields)(nvml::Handle device, int count, nvml::FieldValue* values) = nullptr;
  int (*processes)(nvml::Handle device, unsigned* count, nvml::Process* processes) = nullptr;
  // "NvLink Methods"
  int (*linkState)(nvml::Handle device, unsigned link, int* active) = nullptr;
  // "Event Handling Methods"
  int (*makeEvents)(nvml::EventSet* set) = nullptr;
  int (*tellEvents)(nvml::Handle device, unsigned long long types, nvml::EventSet set) = nullptr;
  int (*nextEvent)(nvml::EventSet set, nvml::EventData* data, unsigned milliseconds) = nullptr;
  int (*freeEvents)(nvml::EventSet set) = nullptr;
};

}  // namespace lockstep::agent
