#include "agent/supervisor/requests.h"

#include <algorithm>

namespace lockstep::agent {

Message failingText(const Recovery& recovery, const std::string& node) {
  return message("{}, and is excluded", recovery.failuresText(node));
}

void Requests::exclude(const std::string& node, std::int64_t from) {
  if (!isExcluding(node)) excluding_.push_back(node);
  failing_.erase(node);
  excludeFrom_ = from;
}

void Requests::rebalance(std::vector<double> shares, std::int64_t from) {
  rebalancing_ = Rebalancing{std::move(shares), from};
}

void Requests::excludeFailing(const std::string& node) {
  if (isExcluding(node)) return;
  excluding_.push_back(node);
  failing_.insert(node);
}

node::v1::Decisions Requests::pending() const {
  node::v1::Decisions out;
  for (const std::string& node : excluding_)
    if (!isFailing(node)) out.add_excluding(node);
  const std::vector<double> all = shares();
  out.mutable_shares()->Assign(all.begin(), all.end());
  return out;
}

void Requests::continueFrom(const node::v1::Decisions& pending) {
  static_cast<void>(dropExclusions());
  static_cast<void>(dropRebalancing());
  for (const std::string& node : pending.excluding())
    if (!isExcluded(node)) exclude(node, 0);
  if (!pending.shares().empty()) rebalance({pending.shares().begin(), pending.shares().end()}, 0);
}

void Requests::dropExclusion(const std::string& node) {
  std::erase(excluding_, node);
  failing_.erase(node);
}

std::vector<std::string> Requests::dropExclusions() {
  failing_.clear();
  return std::exchange(excluding_, {});
}

void Requests::onRestart(std::set<std::string> excluded) {
  excluded_ = std::move(excluded);
  for (const std::string& node : excluded_) dropExclusion(node);
  excludeFrom_ = 0;
  restartFrom_.reset();
}

bool Requests::onLeftOut(const std::string& node) {
  if (!isExcluding(node)) return false;
  dropExclusion(node);
  excluded_.insert(node);
  return true;
}

Requests::Due Requests::due(std::int64_t step) const {
  Due out;
  out.exclusion = !excluding_.empty() && step >= excludeFrom_;
  out.restart = restartFrom_ && step >= *restartFrom_;
  out.rebalancing = rebalancing_ && step >= rebalancing_->from;
  return out;
}

std::vector<double> Requests::shares() const {
  return rebalancing_ ? rebalancing_->shares : std::vector<double>();
}

bool Requests::isExcluding(const std::string& node) const {
  return std::find(excluding_.begin(), excluding_.end(), node) != excluding_.end();
}

Message Requests::excludedText(const Recovery& recovery) const {
  Message out;
  std::vector<std::string> asked;
  for (const std::string& node : excluding_) {
    if (!isFailing(node)) {
      asked.push_back(node);
      continue;
    }
    const Message failing = failingText(recovery, node);
    out = out.empty() ? failing : message("{}; {}", out, failing);
  }
  if (asked.empty()) return out;
  const Message request =
      asked.size() == 1 ? message("node {} was excluded on request", asked.front())
                        : message("nodes {} were excluded on request", fmt::join(asked, ", "));
  return out.empty() ? request : message("{}; {}", out, request);
}

}  // namespace lockstep::agent
