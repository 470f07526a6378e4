// A libnvidia-ml.so.1 driven by a script: two GPUs that tell of their names and memory alone, and
// what the file LOCKSTEP_NVML_SCRIPT says besides, read anew with every call. Its lines are WORD
// VALUES…; WORD is the name of something, of GPU 1 alone with "1." before it; "!N" instead of
// values has the call fail with N, and "hang" has it wait until the script says otherwise. "xid
// NUMBER GPU XID" is an event, told once. Compiled with LOCKSTEP_OLD_NVML it has only the functions
// that were always there.
//
// With LOCKSTEP_NVML_MOVING=N there is no script, but N GPUs whose values change with every
// reading. Their power counts the readings: 100 W, 101 W … 699 W, 100 W.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpuInstance, computeInstance;
};
struct Field {
  unsigned id, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  unsigned long long value;
};
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned gpuInstance, computeInstance;
};

constexpr int kNotSupported = 3, kNotFound = 6, kTimeout = 10;
std::array<int, 16> devices;
std::atomic<unsigned long long> lastEvent{0};

std::vector<std::string> words(const std::string& key) {
  const char* const path = std::getenv("LOCKSTEP_NVML_SCRIPT");
  std::ifstream file(path == nullptr ? "" : path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream text(line);
    std::string word;
    if (!(text >> word) || word != key) continue;
    std::vector<std::string> out;
    while (text >> word) out.push_back(word);
    return out;
  }
  return {};
}

int indexOf(const void* device) {
  return static_cast<int>(static_cast<const int*>(device) - devices.data());
}

unsigned long long movingGpus() {
  static const char* const given = std::getenv("LOCKSTEP_NVML_MOVING");
  static const int gpus = given == nullptr ? 0 : std::atoi(given);
  return static_cast<unsigned long long>(std::clamp(gpus, 0, static_cast<int>(devices.size())));
}

// Of a GPU whose values change; as scripted().
int moving(const void* device, const std::string& what, std::vector<unsigned long long>* numbers,
           int otherwise) {
  static std::minstd_rand random(1);
  static std::array<unsigned long long, 16> readings, sent;
  if (device == nullptr) {
    if (what == "count") *numbers = {movingGpus()};
    return what == "count" ? 0 : otherwise;
  }
  const auto gpu = static_cast<std::size_t>(indexOf(device));
  const unsigned long long any = random();
  if (what == "utilization") *numbers = {60 + any % 40, 20 + any / 64 % 30};
  if (what == "memory") *numbers = {60'000'000'000 + any % 100'000 * 65'536};
  if (what == "power") *numbers = {1000 * (100 + readings[gpu]++ % 600)};
  if (what == "temperature") *numbers = {55 + any % 25};
  if (what == "clock1") *numbers = {1400 + any % 580};
  if (what == "clock2") *numbers = {2500 + any % 119};
  if (what == "max-clock1") *numbers = {1980};
  if (what == "max-clock2") *numbers = {2619};
  if (what == "reasons") *numbers = {0};
  if (what == "pcie-sent" || what == "pcie-received") *numbers = {any % 4'000'000};
  if (what == "links") *numbers = {1, 1, 1, 1};
  if (what == "link-sent" || what == "link-received") *numbers = {sent[gpu] += any % 1'000'000};
  return numbers->empty() ? otherwise : 0;
}

// What the script says of it: 0 and its numbers, or the error; `otherwise` where it says nothing.
int scripted(const void* device, const std::string& what, std::vector<unsigned long long>* numbers,
             int otherwise) {
  if (movingGpus() > 0) return moving(device, what, numbers, otherwise);
  for (;;) {
    std::vector<std::string> found;
    if (device != nullptr) found = words(std::to_string(indexOf(device)) + "." + what);
    if (found.empty()) found = words(what);
    if (found.empty()) return otherwise;
    if (found.front() == "hang") {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (found.front().front() == '!') return std::atoi(found.front().c_str() + 1);
    for (const std::string& word : found)
      numbers->push_back(std::strtoull(word.c_str(), nullptr, 10));
    return 0;
  }
}

int one(const void* device, const std::string& what, auto* out) {
  std::vector<unsigned long long> numbers;
  const int result = scripted(device, what, &numbers, kNotSupported);
  if (result == 0) *out = static_cast<std::remove_pointer_t<decltype(out)>>(numbers.front());
  return result;
}

}  // namespace

#define LOCKSTEP_FAKE extern "C" __attribute__((visibility("default")))

LOCKSTEP_FAKE int nvmlInit_v2() {
  std::vector<unsigned long long> ignored;
  return scripted(nullptr, "init", &ignored, 0);
}
LOCKSTEP_FAKE int nvmlShutdown() { return 0; }
LOCKSTEP_FAKE int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.65.06");
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetCount_v2(unsigned* count) {
  if (one(nullptr, "count", count) != 0) *count = 2;
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= devices.size()) return kNotFound;
  *device = &devices[index];
  std::vector<unsigned long long> ignored;
  return scripted(*device, "handle", &ignored, 0);
}
LOCKSTEP_FAKE int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "Fake GPU %d", indexOf(device));
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  std::vector<unsigned long long> used;
  const int result = scripted(device, "memory", &used, 0);
  *memory = {150'754'820'096, 0, used.empty() ? 754'820'096 : used.front()};
  memory->free = memory->total - memory->used;
  return result;
}
LOCKSTEP_FAKE const char* nvmlErrorString(int result) {
  switch (result) {
    case 1:
      return "Uninitialized";
    case 9:
      return "Driver Not Loaded";
    case 15:
      return "GPU is lost";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

#ifndef LOCKSTEP_OLD_NVML
LOCKSTEP_FAKE int nvmlDeviceGetUtilizationRates(void* device, Utilization* share) {
  std::vector<unsigned long long> percent;
  const int result = scripted(device, "utilization", &percent, kNotSupported);
  if (result == 0)
    *share = {static_cast<unsigned>(percent.at(0)), static_cast<unsigned>(percent.at(1))};
  return result;
}
LOCKSTEP_FAKE int nvmlDeviceGetPowerUsage(void* device, unsigned* power) {
  return one(device, "power", power);
}
LOCKSTEP_FAKE int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* power) {
  return one(device, "power-limit", power);
}
LOCKSTEP_FAKE int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
  return sensor == 0 ? one(device, "temperature", degrees) : kNotSupported;
}
LOCKSTEP_FAKE int nvmlDeviceGetClockInfo(void* device, int type, unsigned* clock) {
  return one(device, "clock" + std::to_string(type), clock);
}
LOCKSTEP_FAKE int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* clock) {
  return one(device, "max-clock" + std::to_string(type), clock);
}
LOCKSTEP_FAKE int nvmlDeviceGetPerformanceState(void* device, int* state) {
  return one(device, "state", state);
}
LOCKSTEP_FAKE int nvmlDeviceGetCurrentClocksThrottleReasons(void* device,
                                                            unsigned long long* bits) {
  return one(device, "reasons", bits);
}
LOCKSTEP_FAKE int nvmlDeviceGetPcieThroughput(void* device, int counter, unsigned* rate) {
  return one(device, counter == 0 ? "pcie-sent" : "pcie-received", rate);
}
LOCKSTEP_FAKE int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* number) {
  return one(device, "generation", number);
}
LOCKSTEP_FAKE int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* number) {
  return one(device, "max-generation", number);
}
LOCKSTEP_FAKE int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* lanes) {
  return one(device, "width", lanes);
}
LOCKSTEP_FAKE int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* lanes) {
  return one(device, "max-width", lanes);
}
LOCKSTEP_FAKE int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter,
                                              unsigned long long* count) {
  return counter == 0 ? one(device, type == 0 ? "corrected" : "uncorrected", count) : kNotSupported;
}
LOCKSTEP_FAKE int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  std::vector<unsigned long long> states;
  const int result = scripted(device, "links", &states, kNotSupported);
  if (result != 0 || link >= states.size()) return result != 0 ? result : 2;
  *active = static_cast<int>(states[link]);
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetFieldValues(void* device, int count, Field* fields) {
  for (int i = 0; i < count; ++i) {
    Field& field = fields[i];
    field.type = 3;
    field.result = field.scope != UINT_MAX ? kNotSupported
                   : field.id == 138       ? one(device, "link-sent", &field.value)
                   : field.id == 139       ? one(device, "link-received", &field.value)
                                           : kNotSupported;
  }
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                                          Process* processes) {
  std::vector<unsigned long long> pids;
  const int result = scripted(device, "processes", &pids, kNotSupported);
  if (result != 0) return result;
  if (*count < pids.size()) return 7;
  *count = static_cast<unsigned>(pids.size());
  for (std::size_t i = 0; i < pids.size(); ++i)
    processes[i] = {static_cast<unsigned>(pids[i]), 0, 0, 0};
  return 0;
}
LOCKSTEP_FAKE int nvmlEventSetCreate(void** set) {
  *set = &lastEvent;
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void*) {
  unsigned any = 0;
  return types == 8 ? one(device, "tells-xids", &any) : kNotSupported;
}
LOCKSTEP_FAKE int nvmlEventSetWait_v2(void*, Event* event, unsigned) {
  const std::vector<std::string> told = words("xid");
  if (told.size() != 3 || std::stoull(told[0]) <= lastEvent) return kTimeout;
  lastEvent = std::stoull(told[0]);
  *event = {&devices.at(std::stoul(told[1])), 8, std::stoull(told[2]), UINT_MAX, UINT_MAX};
  return 0;
}
LOCKSTEP_FAKE int nvmlEventSetFree(void*) { return 0; }
#endif
