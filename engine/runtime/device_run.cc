#include "engine/runtime/device_run.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/runtime/executor.h"

namespace lockstep::runtime {

using device::Memory;
using device::Queue;
using device::Where;

namespace {
constexpr std::size_t kNoItem = ~std::size_t{0};
}

DeviceRun::Section& DeviceRun::openSection() {
  if (sections_.back().collective) {
    Section& next = sections_.emplace_back();
    next.first = next.end = items_.size();
    for (const Back& one : std::exchange(back_, {})) addCopy(one.to, one.from, one.bytes);
  }
  return sections_.back();
}

DeviceRun::Item& DeviceRun::add(Item::Kind kind, double Breakdown::*account) {
  Section& section = openSection();
  double Breakdown::*const before =
      section.marks.empty() ? nullptr : items_[section.marks.back()].account;
  if (account == nullptr) account = before != nullptr ? before : &Breakdown::communication;
  if (account != before || kind == Item::Kind::kExchange) section.marks.push_back(items_.size());
  Item& item = items_.emplace_back();
  item.kind = kind;
  item.account = account;
  section.end = items_.size();
  return item;
}

void DeviceRun::addCopy(void* to, void* from, std::int64_t bytes) {
  Item& item = add(Item::Kind::kCopy, &Breakdown::communication);
  item.to = to;
  item.from = from;
  item.bytes = bytes;
}

void DeviceRun::addKernel(backends::Kernel& kernel, double Breakdown::*account) {
  Item& item = add(Item::Kind::kKernel, account);
  item.kernel = &kernel;
  steps_.push_back(items_.size() - 1);
}

Result<std::vector<void*>> DeviceRun::addCollective(const std::vector<Staged>& operands) {
  openSection();
  while (!pending_.empty()) awaitItem(pending_.back());
  std::vector<void*> places;
  for (const Staged& one : operands) {
    LOCKSTEP_ASSIGN(auto memory,
                    Memory::allocate(device_, one.operand.type.bytes(), Where::kPinned));
    places.push_back(memory.data());
    if (one.in) addCopy(memory.data(), one.operand.data, one.operand.type.bytes());
    if (one.out) back_.push_back({one.operand.data, memory.data(), one.operand.type.bytes()});
    staged_.push_back(std::move(memory));
  }
  Section& section = sections_.back();
  section.collective = true;
  section.step = steps_.size();
  section.stop = ++stops_;
  steps_.push_back(kNoItem);
  return places;
}

void DeviceRun::addExchange(std::function<void()> enqueue, bool asynchronous) {
  addMessages(std::move(enqueue), !asynchronous);
  addReceived();
}

void DeviceRun::addMessages(std::function<void()> enqueue, bool awaited) {
  Item& item = add(Item::Kind::kExchange, awaited ? &Breakdown::communication : nullptr);
  item.enqueue = std::move(enqueue);
  item.stop = ++stops_;
  messages_ = items_.size() - 1;
  pending_.push_back(messages_);
  if (awaited) awaitItem(messages_);
}

void DeviceRun::addReceived() { steps_.push_back(messages_); }

void DeviceRun::addPosted() {
  add(Item::Kind::kPosted, nullptr);
  steps_.push_back(items_.size() - 1);
}

void DeviceRun::await(std::size_t step) {
  const std::size_t item = steps_[step];
  if (item != kNoItem && items_[item].kind == Item::Kind::kExchange) awaitItem(item);
}

// Exchanges complete in order: waiting for one covers those before it.
void DeviceRun::awaitItem(std::size_t item) {
  const auto at = std::find(pending_.begin(), pending_.end(), item);
  if (at == pending_.end()) return;
  pending_.erase(pending_.begin(), at + 1);
  add(Item::Kind::kWait, &Breakdown::communication).awaited = item;
}

// With `each`, records timestamps around every item; else where the account changes.
void DeviceRun::enqueue(const Section& section, bool each) {
  if (mirrors_ != nullptr && &section == &sections_.front()) mirrors_->giveInputs();
  std::size_t mark = 0;
  for (std::size_t i = section.first; i < section.end; ++i) {
    const Item& item = items_[i];
    const bool marked = mark < section.marks.size() && section.marks[mark] == i;
    if (marked) ++mark;
    if (marked || each) device_.record(*item.timestamp, Queue::kCompute);
    switch (item.kind) {
      case Item::Kind::kKernel:
        item.kernel->run();
        break;
      case Item::Kind::kCopy:
        device_.copy(item.to, item.from, item.bytes);
        break;
      case Item::Kind::kPosted:
        break;
      case Item::Kind::kWait:
        device_.wait(*items_[item.awaited].done, Queue::kCompute);
        break;
      case Item::Kind::kExchange:
        device_.mark(*item.ready, Queue::kCompute);
        device_.wait(*item.ready, Queue::kExchange);
        progress_.enqueue(device_, DeviceProgress::begun(item.stop));
        if (each) device_.record(*item.began, Queue::kExchange);
        item.enqueue();
        if (each) device_.record(*item.ended, Queue::kExchange);
        progress_.enqueue(device_, DeviceProgress::done(item.stop));
        device_.mark(*item.done, Queue::kExchange);
        break;
    }
  }
  if (section.first < section.end) device_.record(*section.over, Queue::kCompute);
  if (mirrors_ != nullptr && &section == &sections_.back()) mirrors_->giveResults();
}

Status DeviceRun::capture() {
  openSection();  // for the results, if a collective is last
  while (!pending_.empty()) awaitItem(pending_.back());
  LOCKSTEP_ASSIGN(progress_, DeviceProgress::make(device_, stops_));
  for (Item& item : items_) {
    LOCKSTEP_ASSIGN(item.timestamp, device_.makeEvent());
    if (item.kind != Item::Kind::kExchange) continue;
    for (auto* event : {&item.ready, &item.done, &item.began, &item.ended}) {
      LOCKSTEP_ASSIGN(*event, device_.makeEvent());
    }
  }
  for (Section& section : sections_) {
    LOCKSTEP_ASSIGN(section.over, device_.makeEvent());
    LOCKSTEP_TRY(device_.beginCapture());
    enqueue(section, false);
    LOCKSTEP_ASSIGN(section.work, device_.endCapture());
  }
  return {};
}

const device::Event& DeviceRun::timestampAfter(const Section& section, std::size_t item) const {
  return item + 1 < section.end ? *items_[item + 1].timestamp : *section.over;
}

Status DeviceRun::run(const std::function<Status(std::size_t)>& collective,
                      const std::function<Status()>& meanwhile, Breakdown& spent,
                      std::vector<Span>* spans) {
  std::size_t step = 0;
  for (Section& section : sections_) {
    std::unique_lock lock(device_.inUse());  // a server has a thread per worker
    const Nanoseconds begin = monotonicNow();
    if (mirrors_ != nullptr && &section == &sections_.front()) mirrors_->expect();
    if (spans != nullptr)
      enqueue(section, true);
    else
      section.work->enqueue();
    Nanoseconds free = begin;  // when the host began to wait
    if (meanwhile && &section == &sections_.front()) {
      LOCKSTEP_TRY(meanwhile());
      free = monotonicNow();
    }
    LOCKSTEP_TRY(device_.synchronize());
    const Nanoseconds computed = monotonicNow();
    Nanoseconds ended = computed;
    // the device may have finished before the host
    if (free > begin && !section.marks.empty()) {
      const device::Event& first = *items_[section.marks.front()].timestamp;
      const Nanoseconds late =
          free - begin - static_cast<Nanoseconds>(device_.seconds(first, *section.over) * 1e9);
      if (late > 0) {
        ended -= late;
        spent.awaitedHost += static_cast<double>(late) * 1e-9;
      }
    }
    const auto hosts = [&](const device::Event& event) {
      return std::max(
          begin, ended - static_cast<Nanoseconds>(device_.seconds(event, *section.over) * 1e9));
    };
    for (std::size_t m = 0; m < section.marks.size(); ++m) {
      const Item& from = items_[section.marks[m]];
      const device::Event& to =
          m + 1 < section.marks.size() ? *items_[section.marks[m + 1]].timestamp : *section.over;
      spent.*from.account += device_.seconds(*from.timestamp, to);
      const bool isExchange = from.kind == Item::Kind::kExchange || from.kind == Item::Kind::kWait;
      if (isExchange && spent.firstCollective == 0) spent.firstCollective = hosts(*from.timestamp);
    }
    for (; spans != nullptr && step < steps_.size() && steps_[step] != kNoItem; ++step) {
      const Item& item = items_[steps_[step]];
      const bool isExchange = item.kind == Item::Kind::kExchange;
      const Nanoseconds from = hosts(isExchange ? *item.began : *item.timestamp);
      spans->push_back(
          {from, item.kind == Item::Kind::kPosted
                     ? from
                     : hosts(isExchange ? *item.ended : timestampAfter(section, steps_[step]))});
    }
    lock.unlock();
    if (!section.collective) continue;
    if (spent.firstCollective == 0) spent.firstCollective = computed;
    progress_.set(DeviceProgress::begun(section.stop));
    LOCKSTEP_TRY(collective(section.step));
    progress_.set(DeviceProgress::done(section.stop));
    const Nanoseconds done = monotonicNow();
    spent.communication += static_cast<double>(done - computed) * 1e-9;
    if (spans != nullptr) spans->push_back({computed, done});
    step = section.step + 1;
  }
  return {};
}

}  // namespace lockstep::runtime
