#include "agent/host/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "agent/host/nvml_calls.h"
#include "agent/host/rounded.h"
#include "engine/specs/error_info.h"

namespace lockstep::agent {

using namespace nvml;

namespace {

// How often what changes slowly is asked, and the throughput of one GPU's PCIe link: the driver
// takes 20 ms for each direction of it.
constexpr Nanoseconds kSlowly = 900'000'000;
constexpr Nanoseconds kPcieEvery = 900'000'000;
constexpr unsigned kMostLinks = 36;  // looked at; NVLink 4 and 5 have 18
constexpr int kMostEvents = 64;      // at a time
constexpr std::size_t kMostProcesses = 256;

}  // namespace

struct Nvml::Device {
  Handle handle = nullptr;
  run::v1::GpuSample sample;  // as last read
  bool events = false;        // it tells of Xids
  Nanoseconds linksAt = 0;    // when the links' counters were
  double sent = 0, received = 0;
};

Nvml::Nvml(XidCounts& xids) : calls_(std::make_unique<NvmlCalls>()), xids_(xids) {}

Nvml::~Nvml() {
  if (events_ != nullptr) (void)ask(calls_->freeEvents, events_);
  if (started_) (void)ask(calls_->stop);
  if (library_ != nullptr) dlclose(library_);
}

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& file, XidCounts& xids) {
  std::unique_ptr<Nvml> out(new Nvml(xids));
  LOCKSTEP_TRY(out->start(file));
  return out;
}

std::string Nvml::errorText(int result) const {
  const char* const text = calls_->errorText(result);
  return text == nullptr ? fmt::format("error {}", result) : text;
}

Status Nvml::start(const std::string& file) {
  library_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr)
    return makeError(Code::kNotFound, "there is no NVIDIA driver: {}", dlerror());
  std::string missing;
  const auto find = [&](auto& call, const char* name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(library_, name));
    return call != nullptr;
  };
  const auto need = [&](auto& call, const char* name) {
    if (!find(call, name) && missing.empty()) missing = name;
  };
  NvmlCalls& calls = *calls_;
  need(calls.start, "nvmlInit_v2");
  need(calls.stop, "nvmlShutdown");
  need(calls.errorText, "nvmlErrorString");
  need(calls.driverVersion, "nvmlSystemGetDriverVersion");
  need(calls.count, "nvmlDeviceGetCount_v2");
  need(calls.handle, "nvmlDeviceGetHandleByIndex_v2");
  need(calls.name, "nvmlDeviceGetName");
  need(calls.memory, "nvmlDeviceGetMemoryInfo");
  if (!missing.empty()) return makeError(Code::kUnavailable, "{} has no {}", file, missing);
  find(calls.utilization, "nvmlDeviceGetUtilizationRates");
  find(calls.power, "nvmlDeviceGetPowerUsage");
  find(calls.powerLimit, "nvmlDeviceGetEnforcedPowerLimit");
  find(calls.temperature, "nvmlDeviceGetTemperature");
  find(calls.clock, "nvmlDeviceGetClockInfo");
  find(calls.maxClock, "nvmlDeviceGetMaxClockInfo");
  find(calls.state, "nvmlDeviceGetPerformanceState");
  // Renamed with driver 535; the older name stays.
  if (!find(calls.reasons, "nvmlDeviceGetCurrentClocksEventReasons"))
    find(calls.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(calls.pcieThroughput, "nvmlDeviceGetPcieThroughput");
  find(calls.pcieGeneration, "nvmlDeviceGetCurrPcieLinkGeneration");
  find(calls.pcieGenerationMax, "nvmlDeviceGetMaxPcieLinkGeneration");
  find(calls.pcieWidth, "nvmlDeviceGetCurrPcieLinkWidth");
  find(calls.pcieWidthMax, "nvmlDeviceGetMaxPcieLinkWidth");
  find(calls.eccErrors, "nvmlDeviceGetTotalEccErrors");
  find(calls.fields, "nvmlDeviceGetFieldValues");
  find(calls.processes, "nvmlDeviceGetComputeRunningProcesses_v3");
  find(calls.linkState, "nvmlDeviceGetNvLinkState");
  find(calls.makeEvents, "nvmlEventSetCreate");
  find(calls.tellEvents, "nvmlDeviceRegisterEvents");
  find(calls.nextEvent, "nvmlEventSetWait_v2");
  find(calls.freeEvents, "nvmlEventSetFree");

  std::array<char, 96> text{};
  unsigned count = 0;
  int result = calls.start();
  started_ = result == kSuccess;
  if (result == kSuccess)
    result = calls.driverVersion(text.data(), static_cast<unsigned>(text.size()));
  if (result == kSuccess) driver_ = text.data();
  if (result == kSuccess) result = calls.count(&count);
  if (result != kSuccess)
    return makeError(Code::kUnavailable, "the NVIDIA driver does not answer: {}",
                     errorText(result));
  if (calls.nextEvent != nullptr && calls.tellEvents != nullptr &&
      ask(calls.makeEvents, &events_) != kSuccess)
    events_ = nullptr;
  devices_.resize(count);
  for (unsigned i = 0; i < count; ++i) {
    Device& device = devices_[i];
    device.sample.set_index(static_cast<int>(i));
    if (const int found = calls.handle(i, &device.handle); found != kSuccess) {
      device.handle = nullptr;
      *device.sample.mutable_problem() = specs::toText(errorText(found));
      continue;
    }
    text.fill('\0');
    if (calls.name(device.handle, text.data(), static_cast<unsigned>(text.size())) == kSuccess)
      device.sample.set_name(text.data());
    device.events =
        events_ != nullptr && calls.tellEvents(device.handle, kXidEvent, events_) == kSuccess;
  }
  return {};
}

Status Nvml::read() {
  const Nanoseconds now = monotonicNow();
  const bool all = allAt_ == 0 || now - allAt_ >= kSlowly;
  if (all) allAt_ = now;
  std::size_t pcie = devices_.size();
  if (pcieAt_ == 0 || now - pcieAt_ >= kPcieEvery) {
    pcieAt_ = now;
    pcie = pcieNext_;
    pcieNext_ = devices_.empty() ? 0 : (pcieNext_ + 1) % devices_.size();
  }
  readEvents();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    Device& device = devices_[i];
    if (device.handle == nullptr) continue;
    const int result = readDevice(device, all, i == pcie);
    if (ofDriver(result))
      return makeError(Code::kUnavailable, "the NVIDIA driver does not answer: {}",
                       errorText(result));
    const std::string name = device.sample.name();
    if (result != kSuccess) {
      device.sample = {};
      device.sample.set_index(static_cast<int>(i));
      device.sample.set_name(name);
      *device.sample.mutable_problem() = specs::toText(errorText(result));
      device.linksAt = 0;
    }
    if (device.events) {
      const XidCount& xid = xids_[static_cast<int>(i)];
      device.sample.set_xids(xid.count);
      device.sample.set_last_xid(xid.last);
    }
  }
  if (all) readProcesses();
  return {};
}

namespace {

// Reads the properties of one GPU into its sample, until the GPU or the driver fails.
struct GpuReader {
  const NvmlCalls& calls;
  Handle handle;
  run::v1::GpuSample& out;
  int worst = kSuccess;  // else why the GPU or the driver does not answer

  void readMemory() {
    Memory memory;
    const int result = calls.memory(handle, &memory);
    if (result != kSuccess && result != kNotSupported) worst = result;
    if (result != kSuccess) return;
    out.set_memory_used(static_cast<double>(memory.used));
    out.set_memory_total(static_cast<double>(memory.total));
  }

  void readLoad() {
    take(
        Utilization{}, [&](auto* to) { return ask(calls.utilization, handle, to); },
        [&](const Utilization& share) {
          out.set_utilisation(share.gpu / 100.0);
          out.set_memory_utilisation(share.memory / 100.0);
        },
        [&] { out.clear_utilisation(), out.clear_memory_utilisation(); });
    take(
        0u, [&](auto* to) { return ask(calls.power, handle, to); },
        [&](unsigned power) { out.set_power_w(power / 1e3); }, [&] { out.clear_power_w(); });
    take(
        0u, [&](auto* to) { return ask(calls.temperature, handle, kTemperatureGpu, to); },
        [&](unsigned degrees) { out.set_temperature_c(degrees); },
        [&] { out.clear_temperature_c(); });
    take(
        0u, [&](auto* to) { return ask(calls.clock, handle, kClockSm, to); },
        [&](unsigned clock) { out.set_sm_clock_mhz(clock); }, [&] { out.clear_sm_clock_mhz(); });
    take(
        0u, [&](auto* to) { return ask(calls.clock, handle, kClockMemory, to); },
        [&](unsigned clock) { out.set_memory_clock_mhz(clock); },
        [&] { out.clear_memory_clock_mhz(); });
    take(
        0, [&](auto* to) { return ask(calls.state, handle, to); },
        [&](int state) {
          if (state >= 0 && state <= kSlowestState)
            out.set_performance_state(state);
          else
            out.clear_performance_state();
        },
        [&] { out.clear_performance_state(); });
    out.clear_throttle();
    take(
        0ull, [&](auto* to) { return ask(calls.reasons, handle, to); },
        [&](unsigned long long bits) {
          out.set_throttle_known(true);
          for (const Reason& reason : kReasons)
            if ((bits & reason.bits) != 0) out.add_throttle(reason.word);
          if ((bits & kSlowdown) != 0 && (bits & kSlowdownExplained) == 0)
            out.add_throttle("slowdown");
        },
        [&] { out.set_throttle_known(false); });
  }

  void readPcie() {
    take(
        0u, [&](auto* to) { return ask(calls.pcieThroughput, handle, kPcieReceived, to); },
        [&](unsigned rate) { out.set_pcie_in(roundedRate(rate * 1e3)); },
        [&] { out.clear_pcie_in(); });
    take(
        0u, [&](auto* to) { return ask(calls.pcieThroughput, handle, kPcieSent, to); },
        [&](unsigned rate) { out.set_pcie_out(roundedRate(rate * 1e3)); },
        [&] { out.clear_pcie_out(); });
  }

  // Properties that change rarely.
  void readProperties() {
    take(
        0u, [&](auto* to) { return ask(calls.powerLimit, handle, to); },
        [&](unsigned power) { out.set_power_limit_w(power / 1e3); },
        [&] { out.clear_power_limit_w(); });
    take(
        0u, [&](auto* to) { return ask(calls.maxClock, handle, kClockSm, to); },
        [&](unsigned clock) { out.set_sm_clock_max_mhz(clock); },
        [&] { out.clear_sm_clock_max_mhz(); });
    take(
        0u, [&](auto* to) { return ask(calls.maxClock, handle, kClockMemory, to); },
        [&](unsigned clock) { out.set_memory_clock_max_mhz(clock); },
        [&] { out.clear_memory_clock_max_mhz(); });
    take(
        0u, [&](auto* to) { return ask(calls.pcieGeneration, handle, to); },
        [&](unsigned number) { out.set_pcie_generation(static_cast<int>(number)); },
        [&] { out.clear_pcie_generation(); });
    take(
        0u, [&](auto* to) { return ask(calls.pcieGenerationMax, handle, to); },
        [&](unsigned number) { out.set_pcie_generation_max(static_cast<int>(number)); },
        [&] { out.clear_pcie_generation_max(); });
    take(
        0u, [&](auto* to) { return ask(calls.pcieWidth, handle, to); },
        [&](unsigned lanes) { out.set_pcie_width(static_cast<int>(lanes)); },
        [&] { out.clear_pcie_width(); });
    take(
        0u, [&](auto* to) { return ask(calls.pcieWidthMax, handle, to); },
        [&](unsigned lanes) { out.set_pcie_width_max(static_cast<int>(lanes)); },
        [&] { out.clear_pcie_width_max(); });
  }

  void readErrorCounts() {
    take(
        0ull,
        [&](auto* to) {
          return ask(calls.eccErrors, handle, kEccCorrected, kSinceDriverStart, to);
        },
        [&](unsigned long long errors) { out.set_ecc_corrected(errors); },
        [&] { out.clear_ecc_corrected(); });
    take(
        0ull,
        [&](auto* to) {
          return ask(calls.eccErrors, handle, kEccUncorrected, kSinceDriverStart, to);
        },
        [&](unsigned long long errors) { out.set_ecc_uncorrected(errors); },
        [&] { out.clear_ecc_uncorrected(); });
  }

  void countLinks() {
    int found = 0, active = 0;
    for (unsigned link = 0; link < kMostLinks && worst == kSuccess; ++link) {
      int state = 0;
      const int result = ask(calls.linkState, handle, link, &state);
      if (ofDriver(result) || ofGpu(result)) worst = result;
      if (result != kSuccess) break;  // there are no more
      ++found;
      active += state != 0;
    }
    if (found > 0) {
      out.set_nvlinks(found);
      out.set_nvlinks_active(active);
    } else {
      out.clear_nvlinks(), out.clear_nvlinks_active();
    }
  }

  // Calls set(value) if there is one, else clear().
  template <typename T, typename Call, typename Set, typename Clear>
  void take(T value, Call call, Set set, Clear clear) {
    const int result = worst == kSuccess ? call(&value) : worst;
    if (ofDriver(result) || ofGpu(result)) worst = result;
    if (result == kSuccess)
      set(value);
    else
      clear();
  }
};

}  // namespace

void Nvml::readLinkRates(Device& device, bool answers) {
  const NvmlCalls& calls = *calls_;
  run::v1::GpuSample& out = device.sample;
  std::array<FieldValue, 2> links;
  links[0].id = kNvlinkSent, links[1].id = kNvlinkReceived;
  links[0].scope = links[1].scope = kAllLinks;
  if (answers && out.nvlinks() > 0 &&
      ask(calls.fields, device.handle, static_cast<int>(links.size()), links.data()) == kSuccess &&
      links[0].result == kSuccess && links[1].result == kSuccess) {
    const Nanoseconds now = monotonicNow();
    const double seconds =
        device.linksAt == 0 ? 0 : static_cast<double>(now - device.linksAt) * 1e-9;
    const double sent = numberOf(links[0]) * 1024, received = numberOf(links[1]) * 1024;
    if (seconds > 0 && sent >= device.sent && received >= device.received) {
      out.set_nvlink_out(roundedRate((sent - device.sent) / seconds));
      out.set_nvlink_in(roundedRate((received - device.received) / seconds));
    }
    device.linksAt = now;
    device.sent = sent, device.received = received;
  } else {
    out.clear_nvlink_in(), out.clear_nvlink_out();
    device.linksAt = 0;
  }
}

int Nvml::readDevice(Device& device, bool all, bool pcie) {
  run::v1::GpuSample& out = device.sample;
  if (out.has_problem()) all = true;
  out.clear_problem();
  GpuReader reader{*calls_, device.handle, out};
  reader.readMemory();
  if (reader.worst != kSuccess) return reader.worst;
  reader.readLoad();
  readLinkRates(device, reader.worst == kSuccess);
  if (pcie) reader.readPcie();
  if (!all) return reader.worst;
  reader.readProperties();
  reader.readErrorCounts();
  reader.countLinks();
  return reader.worst;
}

void Nvml::readEvents() {
  for (int i = 0; events_ != nullptr && i < kMostEvents; ++i) {
    EventData event;
    if (calls_->nextEvent(events_, &event, 0) != kSuccess) return;  // none, or not now
    if (event.type != kXidEvent) continue;
    for (std::size_t k = 0; k < devices_.size(); ++k)
      if (devices_[k].handle == event.device) {
        XidCount& xid = xids_[static_cast<int>(k)];
        ++xid.count;
        xid.last = static_cast<int>(event.data);
      }
  }
}

void Nvml::readProcesses() {
  gpuOfProcess_.clear();
  std::vector<Process> found(kMostProcesses);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].handle == nullptr || devices_[i].sample.has_problem()) continue;
    auto count = static_cast<unsigned>(found.size());
    if (ask(calls_->processes, devices_[i].handle, &count, found.data()) != kSuccess) continue;
    for (unsigned k = 0; k < std::min<std::size_t>(count, found.size()); ++k)
      gpuOfProcess_.try_emplace(static_cast<int>(found[k].pid), static_cast<int>(i));
  }
}

std::vector<run::v1::GpuSample> Nvml::samples() const {
  std::vector<run::v1::GpuSample> out;
  for (const Device& device : devices_) out.push_back(device.sample);
  return out;
}

bool Nvml::anyProblem() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const Device& device) { return device.sample.has_problem(); });
}

}  // namespace lockstep::agent
