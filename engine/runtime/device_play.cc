#include "engine/runtime/device_play.h"

#include <algorithm>

#include "engine/runtime/executor.h"

namespace lockstep::runtime {

using device::Memory;
using device::Where;

Result<backends::Operand> DevicePlay::mirror(const backends::Operand& operand, std::vector<Copy>& copies) {
  const auto known = std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) {
    return copy.there.data == operand.data && copy.there.type == operand.type;
  });
  if (known != copies.end()) return backends::Operand{known->host.data(), operand.type};
  LOCKSTEP_ASSIGN(auto memory, Memory::allocate(device_, operand.type.bytes(), Where::kPinned));
  copies.push_back({operand, std::move(memory)});
  return backends::Operand{copies.back().host.data(), operand.type};
}

DevicePlay::Section& DevicePlay::openSection() {
  if (sections_.back().collective) {
    Section& next = sections_.emplace_back();
    next.first = next.end = kernels_.size();
  }
  return sections_.back();
}

void DevicePlay::addKernel(backends::Kernel& kernel, double Breakdown::*account) {
  Section& section = openSection();
  if (section.marks.empty() || section.marks.back().account != account)
    section.marks.push_back({account, kernels_.size()});
  kernels_.push_back(&kernel);
  section.end = kernels_.size();
}

Result<std::vector<void*>> DevicePlay::addCollective(const std::vector<Staged>& operands) {
  Section& section = openSection();
  section.collective = true;
  kernels_.push_back(nullptr);
  std::vector<void*> staged;
  for (const Staged& one : operands) {
    LOCKSTEP_ASSIGN(auto memory, Memory::allocate(device_, one.operand.type.bytes(), Where::kPinned));
    staged.push_back(memory.data());
    section.staged.push_back({{one.operand, std::move(memory)}, one.in, one.out});
  }
  return staged;
}

// With `each`, moments lie round every kernel; else where another account begins.
void DevicePlay::give(const Section& section, bool each) {
  if (&section == &sections_.front())
    for (const Copy& input : inputs_) device_.copy(input.there.data, input.host.data(), input.there.type.bytes());
  std::size_t mark = 0;
  for (std::size_t i = section.first; i < section.end; ++i) {
    const bool marked = mark < section.marks.size() && section.marks[mark].step == i;
    if (marked) ++mark;
    if (marked || each) device_.record(*moments_[i]);
    kernels_[i]->run();
  }
  if (section.first < section.end) device_.record(*moments_[section.end]);
  for (const auto& [copy, in, out] : section.staged)
    if (in) device_.copy(copy.host.data(), copy.there.data, copy.there.type.bytes());
  if (&section == &sections_.back())
    for (const Copy& result : results_) device_.copy(result.host.data(), result.there.data, result.there.type.bytes());
}

Status DevicePlay::capture() {
  openSection();  // for the results, where a collective is last
  for (std::size_t i = 0; i <= kernels_.size(); ++i) {
    LOCKSTEP_ASSIGN(auto moment, device_.makeEvent());
    moments_.push_back(std::move(moment));
  }
  for (Section& section : sections_) {
    LOCKSTEP_TRY(device_.beginCapture());
    give(section, false);
    LOCKSTEP_ASSIGN(section.work, device_.endCapture());
  }
  return {};
}

Status DevicePlay::play(const std::function<Status(std::size_t)>& collective, Breakdown& spent,
                        std::vector<Span>* spans) {
  for (Section& section : sections_) {
    const Nanoseconds begin = monotonicNow();
    if (spans != nullptr) give(section, true);
    else section.work->give();
    LOCKSTEP_TRY(device_.synchronize());
    const Nanoseconds computed = monotonicNow();
    for (std::size_t m = 0; m < section.marks.size(); ++m) {
      const std::size_t end = m + 1 < section.marks.size() ? section.marks[m + 1].step : section.end;
      spent.*section.marks[m].account += device_.seconds(*moments_[section.marks[m].step], *moments_[end]);
    }
    if (spans != nullptr) {
      // The device's clock is laid so that its last kernel ends when the host saw it end.
      for (std::size_t i = section.first; i < section.end; ++i) {
        const auto before = [&](std::size_t moment) {
          return computed - static_cast<Nanoseconds>(device_.seconds(*moments_[moment], *moments_[section.end]) * 1e9);
        };
        spans->push_back({std::max(begin, before(i)), std::max(begin, before(i + 1))});
      }
    }
    if (!section.collective) continue;
    if (spent.firstCollective == 0) spent.firstCollective = computed;
    LOCKSTEP_TRY(collective(section.end));
    for (const auto& [copy, in, out] : section.staged)
      if (out) device_.copy(copy.there.data, copy.host.data(), copy.there.type.bytes());
    const Nanoseconds done = monotonicNow();
    spent.communication += static_cast<double>(done - computed) * 1e-9;
    if (spans != nullptr) spans->push_back({computed, done});
  }
  return {};
}

}  // namespace lockstep::runtime
