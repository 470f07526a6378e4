// RunControl: ranks that stand still.
#include <algorithm>

#include "agent/supervisor/run_control.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kMostStacks = 8;  // ranks whose stacks one hang logs

}  // namespace

void RunControl::onStalled(const node::v1::Stalled& stalled) {
  const bool hung = hangs_.hangs();
  hangs_.note(stalled, monotonicNow());
  if (hung && !hangs_.hangs()) say(fmt::format("rank {} goes on", stalled.rank()));
}

void RunControl::judgeHang() {
  if (!coordinates() || leaving_ || stopping_) return;
  auto verdict = hangs_.judge(monotonicNow());
  if (!verdict) return;
  const auto nodes = ranksByNode(request_);
  for (const auto& [node, ranks] : nodes)
    if (std::find(ranks.begin(), ranks.end(), verdict->ranks.front()) != ranks.end())
      verdict->warning.node = node;
  warn(verdict->warning);
  for (std::size_t i = 0; i < std::min(verdict->ranks.size(), kMostStacks); ++i)
    logStacksAnywhere(verdict->ranks[i]);
}

void RunControl::logStacksAnywhere(int rank) {
  logStacks(rank);
  node::v1::ToPeer message;
  message.mutable_read_stacks()->set_rank(rank);
  tellPeers(message);
}

void RunControl::logStacks(int rank) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [rank](const auto& one) {
    return one->rank == rank && !one->exited;
  });
  if (worker == workers_.end()) return;
  stacks_.read((*worker)->process->pid(), [this, rank](std::vector<std::string> lines) {
    run::v1::Record record;
    record.mutable_log()->set_rank(rank);
    for (std::string& line : lines) record.mutable_log()->add_lines(std::move(line));
    if (!over_) spool_.append(std::move(record));
  });
}

}  // namespace lockstep::agent
