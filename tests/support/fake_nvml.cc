// A libnvidia-ml.so.1 with two GPUs, as a real one answers.
#include <cstdio>

namespace {
struct Memory {
  unsigned long long total, free, used;
};
int devices[2];
}  // namespace

#define LOCKSTEP_FAKE extern "C" __attribute__((visibility("default")))
LOCKSTEP_FAKE int nvmlInit_v2() { return 0; }
LOCKSTEP_FAKE int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.65.06");
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "Fake GPU %d", device == &devices[0] ? 0 : 1);
  return 0;
}
LOCKSTEP_FAKE int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {150'754'820'096, 150'000'000'000, 754'820'096};
  return 0;
}
LOCKSTEP_FAKE const char* nvmlErrorString(int) { return "Unknown Error"; }
