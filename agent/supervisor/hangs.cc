#include "agent/supervisor/hangs.h"

#include <algorithm>
#include <utility>

namespace lockstep::agent {
namespace {

constexpr std::size_t kMostStacks = 64;  // ranks whose stacks are read for one hang
constexpr Nanoseconds kStacksLimit = 5'000'000'000;

}  // namespace

void Hangs::clear() {
  watch_.clear();
  program_.clear();
  pending_.reset();
  found_.reset();
}

void Hangs::forget(int rank) {
  watch_.forget(rank);
  program_.forget(rank);
}

void Hangs::onStalled(const node::v1::Stalled& stalled, Nanoseconds now) {
  if (ofProgram_) return onProgramStalled(stalled);
  const bool hung = watch_.hangs();
  watch_.note(stalled, now);
  if (!hung || watch_.hangs()) return;
  pending_.reset();
  found_.reset();
  handlers_.say(fmt::format("rank {} goes on", stalled.rank()));
}

void Hangs::judge(Nanoseconds now) {
  if (handlers_.ending()) return;
  auto verdict = watch_.judge(now);
  if (!verdict) return;
  if (verdict->certain) found_ = verdict->warning;
  askStacks(std::move(*verdict));
}

// All ranks of a program are silent, or one of them is not any more.
void Hangs::onProgramStalled(const node::v1::Stalled& stalled) {
  program_.note(stalled);
  if (!program_.hangs()) pending_.reset();
  if (handlers_.ending()) return;
  std::size_t world = 0;
  for (const auto& [node, ranks] : handlers_.ranksByNode()) world += ranks.size();
  if (!program_.begins(static_cast<int>(world))) return;
  handlers_.say("the program is silent on all ranks: their stacks are read");
  HangWatch::Verdict all;
  all.ranks = program_.ranks();
  askStacks(std::move(all));
}

void Hangs::askStacks(HangWatch::Verdict verdict) {
  std::vector<int> asked = verdict.ranks;
  asked.resize(std::min(asked.size(), kMostStacks));
  const int id = pending_.emplace(Pending{std::move(verdict), {}, ++count_}).id;
  loop_.after(kStacksLimit, [this, id] {
    if (pending_ && pending_->id == id) tell();  // without the stacks that are missing
  });
  for (const int rank : asked) handlers_.readStacks(rank);
}

void Hangs::onStacks(const node::v1::Stacks& stacks) {
  if (!pending_) return;
  const std::vector<int>& ranks = pending_->verdict.ranks;
  if (std::find(ranks.begin(), ranks.end(), stacks.rank()) == ranks.end()) return;
  pending_->stacks[stacks.rank()].assign(stacks.lines().begin(), stacks.lines().end());
  if (pending_->stacks.size() == std::min(ranks.size(), kMostStacks)) tell();
}

void Hangs::tell() {
  const Pending pending = *std::exchange(pending_, std::nullopt);
  if (handlers_.ending()) return;
  if (ofProgram_) {
    Error error = program_.verdict(pending.stacks);
    error.node = nodeOf(error.rank);
    return handlers_.fail(std::move(error));
  }
  HangWatch::Verdict verdict = watch_.refine(pending.verdict, pending.stacks);
  verdict.warning.node = nodeOf(verdict.warning.rank);
  found_ = verdict.warning;
  handlers_.warn(std::move(verdict.warning));
}

std::string Hangs::nodeOf(int rank) const {
  for (const auto& [node, ranks] : handlers_.ranksByNode())
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) return node;
  return {};
}

}  // namespace lockstep::agent
