// RunControl: ranks that stand still.
#include <utility>

#include "agent/supervisor/run_control.h"

namespace lockstep::agent {

Hangs::Handlers RunControl::hangHandlers() {
  Hangs::Handlers out;
  out.ranksByNode = [this] { return ranksByNode(request_); };
  out.ending = [this] {
    // Once the outcome is known, an error changes nothing. Warnings are told until the workers
    // have left.
    return over_ || leaving_ || stopping_ || (ofProgram() && outcome_);
  };
  out.readStacks = [this](int rank) { readStacksAnywhere(rank); };
  out.say = [this](std::string line) { say(std::move(line)); };
  out.warn = [this](Error warning) { warn(std::move(warning)); };
  out.fail = [this](Error error) { noteFailure(std::move(error), false); };
  return out;
}

void RunControl::readStacksAnywhere(int rank) {
  readStacks(rank);
  node::v1::ToPeer message;
  message.mutable_read_stacks()->set_rank(rank);
  tellPeers(message);
}

void RunControl::readStacks(int rank) {
  const Worker* worker = workers_.of(rank);
  if (worker == nullptr) return;
  if (!ofProgram()) return readStacksOf(*worker);
  node::v1::ToWorker message;  // of its Python, if that can be
  message.mutable_read_stacks()->set_rank(rank);
  worker->process->send(message);
}

void RunControl::readStacksOf(const Worker& worker, const std::vector<std::string>& begin) {
  using Stacks = Result<node::v1::ReadRankStacksReply>;
  stacks_.read(worker.pid(), [this, rank = worker.rank, begin](const Stacks& stacks) {
    if (over_) return;
    std::vector<std::string> lines = begin;
    for (const std::string& line :
         stacks.ok() ? stackLines(*stacks) : std::vector<std::string>{stacks.error().text()})
      lines.push_back(line);
    tellStacks(rank, lines);
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
    hangs_.onStacks(news.stacks());
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
