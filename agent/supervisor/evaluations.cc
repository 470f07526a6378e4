#include "agent/supervisor/evaluations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/runtime/checkpoint.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kPartBytes = std::size_t{1} << 20;

}  // namespace

Evaluations::~Evaluations() {
  if (file_ >= 0) close(file_);
}

bool Evaluations::onCheckpoint(const run::v1::CheckpointInfo& checkpoint) {
  if (!ended_ || ended_->step() != checkpoint.step()) return false;
  path_ = weights::stateFile(checkpoint.folder());
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0) return false;
  newest_.emplace();
  *newest_->mutable_epoch() = *ended_;
  newest_->set_bytes(info.st_size);
  ended_.reset();
  return true;
}

std::optional<node::v1::Evaluate> Evaluations::newest() const {
  if (!newest_ || newest_->epoch().step() <= answered_) return std::nullopt;
  return newest_;
}

node::v1::CheckpointPart Evaluations::part(const node::v1::CheckpointGet& asked) {
  if (asked.step() != fetched_ || file_ < 0) {
    if (file_ >= 0) close(file_);
    file_ = newest_ && newest_->epoch().step() == asked.step()
                ? open(path_.c_str(), O_RDONLY | O_CLOEXEC)
                : -1;
    fetched_ = asked.step();
  }
  node::v1::CheckpointPart out;
  out.set_step(asked.step());
  out.set_offset(asked.offset());
  std::string& data = *out.mutable_data();
  data.resize(kPartBytes);
  const ssize_t count = file_ < 0 ? -1 : pread(file_, data.data(), data.size(), asked.offset());
  data.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return out;
}

bool Evaluations::onEvaluated(const node::v1::Evaluated& evaluated) {
  const std::int64_t step = evaluated.epoch().step();
  if (step <= answered_) return false;
  answered_ = step;
  if (evaluated.error().code().empty()) last_ = evaluated.epoch();
  return true;
}

}  // namespace lockstep::agent
