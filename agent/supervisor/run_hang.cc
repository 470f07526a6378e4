// RunControl: ranks that stand still.
#include <algorithm>
#include <utility>

#include "agent/supervisor/run_control.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kMostStacks = 64;  // ranks whose stacks are read for one hang
constexpr Nanoseconds kStacksLimit = 5'000'000'000;

}  // namespace

void RunControl::onStalled(const node::v1::Stalled& stalled) {
  if (ofProgram()) return onProgramStalled(stalled);
  const bool hung = hangs_.hangs();
  hangs_.note(stalled, monotonicNow());
  if (!hung || hangs_.hangs()) return;
  pendingHang_.reset();
  hang_.reset();
  say(fmt::format("rank {} goes on", stalled.rank()));
}

void RunControl::judgeHang() {
  if (!coordinates() || leaving_ || stopping_) return;
  auto verdict = hangs_.judge(monotonicNow());
  if (!verdict) return;
  if (verdict->certain) hang_ = verdict->warning;
  askStacks(std::move(*verdict));
}

// All ranks of a program are silent, or one of them is not any more.
void RunControl::onProgramStalled(const node::v1::Stalled& stalled) {
  programHang_.note(stalled);
  if (!programHang_.hangs()) pendingHang_.reset();
  if (leaving_ || stopping_ || outcome_) return;
  std::size_t world = 0;
  for (const auto& [node, ranks] : ranksByNode(request_)) world += ranks.size();
  if (!programHang_.begins(static_cast<int>(world))) return;
  say("the program is silent on all ranks: their stacks are read");
  HangWatch::Verdict all;
  all.ranks = programHang_.ranks();
  askStacks(std::move(all));
}

void RunControl::askStacks(HangWatch::Verdict verdict) {
  std::vector<int> asked = verdict.ranks;
  asked.resize(std::min(asked.size(), kMostStacks));
  const int id = pendingHang_.emplace(PendingHang{std::move(verdict), {}, ++hangCount_}).id;
  loop_.after(kStacksLimit, [this, id] {
    if (pendingHang_ && pendingHang_->id == id) tellHang();  // of the stacks that have come
  });
  readStacksAnywhere(asked);
}

void RunControl::readStacksAnywhere(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    readStacks(rank);
    node::v1::ToPeer message;
    message.mutable_read_stacks()->set_rank(rank);
    tellPeers(message);
  }
}

void RunControl::onStacks(const node::v1::Stacks& stacks) {
  if (!pendingHang_) return;
  const std::vector<int>& ranks = pendingHang_->verdict.ranks;
  if (std::find(ranks.begin(), ranks.end(), stacks.rank()) == ranks.end()) return;
  pendingHang_->stacks[stacks.rank()].assign(stacks.lines().begin(), stacks.lines().end());
  if (pendingHang_->stacks.size() == std::min(ranks.size(), kMostStacks)) tellHang();
}

void RunControl::tellHang() {
  const PendingHang pending = *std::exchange(pendingHang_, std::nullopt);
  if (over_ || leaving_ || stopping_) return;
  if (ofProgram()) {
    Error error = programHang_.verdict(pending.stacks);
    for (const auto& [node, ranks] : ranksByNode(request_))
      if (std::find(ranks.begin(), ranks.end(), error.rank) != ranks.end()) error.node = node;
    return noteFailure(std::move(error), false);
  }
  HangWatch::Verdict verdict = hangs_.refine(pending.verdict, pending.stacks);
  for (const auto& [node, ranks] : ranksByNode(request_))
    if (std::find(ranks.begin(), ranks.end(), verdict.warning.rank) != ranks.end())
      verdict.warning.node = node;
  hang_ = verdict.warning;
  warn(std::move(verdict.warning));
}

void RunControl::readStacks(int rank) {
  const Worker* worker = workers_.of(rank);
  if (worker == nullptr) return;
  if (!ofProgram()) return readStacksOf(*worker);
  node::v1::ToWorker message;  // of its Python, if that can be
  message.mutable_read_stacks()->set_rank(rank);
  worker->process->send(message);
}

void RunControl::readStacksOf(const Worker& worker) {
  using Stacks = Result<node::v1::ReadRankStacksReply>;
  stacks_.read(worker.pid(), [this, rank = worker.rank](const Stacks& stacks) {
    if (over_) return;
    tellStacks(rank,
               stacks.ok() ? stackLines(*stacks) : std::vector<std::string>{stacks.error().text()});
  });
}

// To the log and to the coordinator.
void RunControl::tellStacks(int rank, const std::vector<std::string>& lines) {
  run::v1::Record record;
  record.mutable_log()->set_rank(rank);
  record.mutable_log()->mutable_lines()->Assign(lines.begin(), lines.end());
  spool_.append(std::move(record));
  node::v1::FromPeer news;
  news.mutable_stacks()->set_rank(rank);
  news.mutable_stacks()->mutable_lines()->Assign(lines.begin(), lines.end());
  if (coordinates())
    onStacks(news.stacks());
  else if (client_)
    client_->send(std::move(news));
}

Result<int> RunControl::processOf(int rank) const {
  if (const Worker* worker = workers_.of(rank)) return worker->pid();
  Error error = makeError(Code::kNotFound, "rank {} has no worker on this node", rank);
  error.why = over_ ? "the run has ended" : workers_.empty() ? "its ranks are not running" : "";
  error.node = request_.node();
  return error;
}

}  // namespace lockstep::agent
