#include "agent/supervisor/outline.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace lockstep::agent {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using run::v1::Record;
using run::v1::StepChunk;

enum class Extreme { kLeast, kGreatest };

constexpr std::size_t kEdgeLines = 8;      // of a rank in a window: the first and the last
constexpr std::size_t kTroubleLines = 16;  // between them

template <typename T>
T pick(T a, T b, Extreme extreme) {
  if constexpr (std::is_floating_point_v<T>)  // passes over NaN
    return extreme == Extreme::kLeast ? std::fmin(a, b) : std::fmax(a, b);
  else
    return extreme == Extreme::kLeast ? std::min(a, b) : std::max(a, b);
}

// Calls visit(column of a, column of b) for each column except begin_ns.
template <typename Visit>
void forColumns(StepChunk& a, const StepChunk& b, const Visit& visit) {
  visit(*a.mutable_duration_ns(), b.duration_ns());
  visit(*a.mutable_loss(), b.loss());
  visit(*a.mutable_metric(), b.metric());
  visit(*a.mutable_data(), b.data());
  visit(*a.mutable_forward(), b.forward());
  visit(*a.mutable_backward(), b.backward());
  visit(*a.mutable_communication(), b.communication());
  visit(*a.mutable_optimizer(), b.optimizer());
  visit(*a.mutable_arrival_ns(), b.arrival_ns());
  visit(*a.mutable_samples(), b.samples());
  visit(*a.mutable_frozen(), b.frozen());
  visit(*a.mutable_frozen_arrived(), b.frozen_arrived());
  visit(*a.mutable_staleness(), b.staleness());
  visit(*a.mutable_loss_scale(), b.loss_scale());
  visit(*a.mutable_skipped(), b.skipped());
  visit(*a.mutable_learning_rate(), b.learning_rate());
  visit(*a.mutable_gradient_norm(), b.gradient_norm());
  visit(*a.mutable_update_ratio(), b.update_ratio());
  visit(*a.mutable_reading(), b.reading());
  visit(*a.mutable_elements(), b.elements());
}

// Reduces the chunk to one step: its first with the minimum of each column, or its last with the
// maximum.
void reduceToStep(StepChunk& chunk, Extreme extreme) {
  const int steps = chunk.begin_ns_size();
  if (steps == 0) return;
  std::int64_t begin = chunk.begin_ns(0);
  if (extreme == Extreme::kGreatest) {
    for (int i = 1; i < steps; ++i) begin += chunk.begin_ns(i);
    chunk.set_first_step(chunk.first_step() + steps - 1);
  } else if (chunk.samples_seen() > 0) {  // what it says is of its last step
    for (int i = 1; i < chunk.samples_size(); ++i)
      chunk.set_samples_seen(chunk.samples_seen() - chunk.samples(i));
  }
  chunk.mutable_begin_ns()->Truncate(1);
  chunk.set_begin_ns(0, begin);
  forColumns(chunk, chunk, [&](auto& column, const auto&) {
    for (int i = 1; i < column.size(); ++i)
      column.Set(0, pick(column.Get(0), column.Get(i), extreme));
    if (column.size() > 1) column.Truncate(1);
  });
}

void take(StepChunk& into, StepChunk from, Extreme extreme) {
  reduceToStep(from, extreme);
  forColumns(into, from, [&](auto& column, const auto& other) {
    if (other.empty()) return;
    if (column.empty())
      column.Add(other.Get(0));
    else
      column.Set(0, pick(column.Get(0), other.Get(0), extreme));
  });
}

// Merges measured values (all fields of type double), also in nested messages. Counts, texts and
// lists of unequal length are unchanged.
void take(Message& into, const Message& from, Extreme extreme) {
  const auto* reflection = into.GetReflection();
  for (int i = 0; i < into.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = into.GetDescriptor()->field(i);
    const bool number = field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    const bool message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!number && !message) continue;
    if (!field->is_repeated()) {
      if (message || (field->has_presence() && !reflection->HasField(from, field))) continue;
      const double other = reflection->GetDouble(from, field);
      const bool absent = field->has_presence() && !reflection->HasField(into, field);
      reflection->SetDouble(
          &into, field, absent ? other : pick(reflection->GetDouble(into, field), other, extreme));
      continue;
    }
    const int size = reflection->FieldSize(into, field);
    if (size != reflection->FieldSize(from, field)) continue;
    for (int at = 0; at < size; ++at)
      if (message)
        take(*reflection->MutableRepeatedMessage(&into, field, at),
             reflection->GetRepeatedMessage(from, field, at), extreme);
      else
        reflection->SetRepeatedDouble(
            &into, field, at,
            pick(reflection->GetRepeatedDouble(into, field, at),
                 reflection->GetRepeatedDouble(from, field, at), extreme));
  }
}

void take(Record& into, const Record& from, Extreme extreme) {
  if (into.has_steps())
    take(*into.mutable_steps(), from.steps(), extreme);
  else if (into.has_node_sample())
    take(*into.mutable_node_sample(), from.node_sample(), extreme);
}

// Records with the same key are merged: their kind and, for steps, the rank, and the generation of
// a program, which counts them anew. nullopt: never merged.
using Group = std::array<int, 3>;
std::optional<Group> groupOf(const Record& record) {
  if (record.has_steps() && record.steps().begin_ns_size() > 0)
    return Group{static_cast<int>(record.body_case()), record.steps().rank(),
                 record.steps().generation()};
  if (record.has_node_sample() || record.has_clock())
    return Group{static_cast<int>(record.body_case()), 0, 0};
  return std::nullopt;
}

// Replaces records `members` (indices, in order) by two; those left out are cleared.
void reduce(std::vector<Record>& records, const std::vector<std::size_t>& members) {
  if (members.size() < 2) return;
  const auto from = [](const Record& record) {
    return record.outline_from() > 0 ? record.outline_from() : record.sequence();
  };
  Record least = records[members.front()], greatest = records[members.back()];
  if (least.has_steps()) {
    reduceToStep(*least.mutable_steps(), Extreme::kLeast);
    reduceToStep(*greatest.mutable_steps(), Extreme::kGreatest);
  }
  for (const std::size_t at : members) {
    take(least, records[at], Extreme::kLeast);
    take(greatest, records[at], Extreme::kGreatest);
  }
  if (!least.has_clock()) {
    least.set_outline_from(from(records[members.front()]));
    greatest.set_outline_from(least.outline_from());
  }
  for (const std::size_t at : members) records[at].Clear();
  records[members.front()] = std::move(least);
  records[members.back()] = std::move(greatest);
}

void reduceGroups(std::vector<Record>& records) {
  std::map<Group, std::vector<std::size_t>> groups;
  const auto reduceAll = [&] {
    for (const auto& [group, members] : groups) reduce(records, members);
    groups.clear();
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].has_recovering()) reduceAll();
    if (const auto group = groupOf(records[i])) groups[*group].push_back(i);
  }
  reduceAll();
}

bool tellsOfTrouble(const std::string& line) {
  constexpr std::string_view kWords[] = {"error",     "warn",   "fail",  "exception",
                                         "traceback", "abort",  "fatal", "critical",
                                         "nan",       "killed", "oom",   "out of memory"};
  std::string lower(line);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

// Shortens each rank's log lines; clears records that become empty.
void reduceLines(std::vector<Record>& records) {
  std::map<int, std::size_t> total, seen, trouble;
  for (const Record& record : records)
    total[record.log().rank()] += static_cast<std::size_t>(record.log().lines_size());
  std::map<int, std::uint64_t> dropped;  // not yet told
  std::map<int, std::size_t> last;       // record of a rank that has lines left
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].has_log() || records[i].log().rank() < 0) continue;
    run::v1::LogLines& log = *records[i].mutable_log();
    const int rank = log.rank();
    dropped[rank] += log.dropped();
    std::uint64_t before = 0;  // dropped before the first line kept here
    std::vector<std::string> kept;
    for (const std::string& line : log.lines()) {
      const std::size_t at = seen[rank]++;
      const bool edge = at < kEdgeLines || at + kEdgeLines >= total[rank];
      if (edge || (tellsOfTrouble(line) && trouble[rank]++ < kTroubleLines)) {
        if (kept.empty()) before = std::exchange(dropped[rank], 0);
        kept.push_back(line);
      } else {
        ++dropped[rank];
      }
    }
    if (kept.empty()) {
      records[i].Clear();
      continue;
    }
    log.set_dropped(before);
    *log.mutable_lines() = {kept.begin(), kept.end()};
    last[rank] = i;
  }
  for (const auto& [rank, count] : dropped)
    if (const auto at = last.find(rank); count > 0 && at != last.end())
      records[at->second].mutable_log()->set_dropped(records[at->second].log().dropped() + count);
}

// Of each value that a rank reports from one source: the first and the last, the least and the
// greatest, and the first that is no number. Readers take one source of those that report a value.
// Records that become empty are cleared.
void reduceScalars(std::vector<Record>& records) {
  struct Kept {
    const run::v1::Scalar *first = nullptr, *last = nullptr, *least = nullptr, *greatest = nullptr,
                          *nan = nullptr;
    bool has(const run::v1::Scalar* one) const {
      return one == first || one == last || one == least || one == greatest || one == nan;
    }
  };
  std::map<std::tuple<int, std::string, std::string>, Kept> kept;
  const auto keyOf = [](const run::v1::Scalars& of, const run::v1::Scalar& one) {
    return std::tuple(of.rank(), of.source(), one.tag());
  };
  for (const Record& record : records) {
    for (const run::v1::Scalar& one : record.scalars().scalars()) {
      Kept& of = kept[keyOf(record.scalars(), one)];
      if (of.first == nullptr) of.first = &one;
      of.last = &one;
      if (std::isnan(one.value())) {
        if (of.nan == nullptr) of.nan = &one;
        continue;
      }
      if (of.least == nullptr || one.value() < of.least->value()) of.least = &one;
      if (of.greatest == nullptr || one.value() > of.greatest->value()) of.greatest = &one;
    }
  }
  for (Record& record : records) {
    if (!record.has_scalars()) continue;
    google::protobuf::RepeatedPtrField<run::v1::Scalar> left;
    for (const run::v1::Scalar& one : record.scalars().scalars())
      if (kept[keyOf(record.scalars(), one)].has(&one)) *left.Add() = one;
    if (left.empty())
      record.Clear();
    else
      record.mutable_scalars()->mutable_scalars()->Swap(&left);
  }
}

// Keeps those of one step. Nodes sample the same steps, but each has slow ones of its own.
void reduceEvents(std::vector<Record>& records) {
  const run::v1::EventChunk* kept = nullptr;
  for (const Record& record : records)
    if (record.has_events() && (kept == nullptr || (kept->slow() && !record.events().slow())))
      kept = &record.events();
  if (kept == nullptr) return;
  const std::int64_t step = kept->step();
  for (Record& record : records)
    if (record.has_events() && record.events().step() != step) record.Clear();
}

}  // namespace

std::vector<Record> outlineOf(std::vector<Record> records) {
  reduceGroups(records);
  reduceLines(records);
  reduceScalars(records);
  reduceEvents(records);
  std::erase_if(records, [](const Record& record) { return record.sequence() == 0; });
  return records;
}

}  // namespace lockstep::agent
