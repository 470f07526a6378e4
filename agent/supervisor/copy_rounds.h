// CopyRounds: which checkpoints of a run exist, and of which other nodes have copies. The
// coordinator has one checkpoint at a time copied; of those that are published meanwhile, the
// newest has its turn afterwards. Has neither messages nor timers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace lockstep::agent {

class CopyRounds {
 public:
  // A new generation begins, from a checkpoint or not, and from one that others have copies of. The
  // newest checkpoint, if it is not copied, has its turn again.
  void beginGeneration(bool fromCheckpoint, bool isCopied);
  // The next generation has other nodes, which take a checkpoint of their own.
  void onMembersChange();
  // All ranks have completed a checkpoint.
  void onPublished(std::int64_t step);
  // All copies of a checkpoint are there.
  void onCopied(std::int64_t step);

  bool exists() const { return exists_; }              // a checkpoint
  bool isCopied() const { return isCopied_; }          // and other nodes have copies of one
  bool isCopiedHere() const { return isCopiedHere_; }  // nodes of this generation have them
  std::int64_t copied() const { return copied_; }      // step of the last with copies; 0: none

  // At the coordinator: begins a round of copies by these nodes. Returns the checkpoint's step; 0
  // if a round is under way, no checkpoint came after the last one, or there are no nodes.
  std::int64_t begin(std::set<std::string> by);
  std::int64_t step() const { return step_; }  // of the round; 0: none is under way
  bool awaits(const std::string& node) const { return awaited_.contains(node); }
  // Whether a later checkpoint waits for the round's end.
  bool isLate() const { return step_ != 0 && published_ > step_; }
  // Notes that something waits for the round's end. Returns false if that was noted before, or if
  // no round is under way.
  bool hurry() { return step_ != 0 && !std::exchange(isHurried_, true); }
  bool isHurried() const { return isHurried_; }
  enum class Answer { kNotOver, kAllCopied, kFailed };
  // A node has copied the checkpoint of this step, or could not. The last answer of a round ends
  // it. Without one of its copies a checkpoint counts as not copied.
  Answer onAnswer(const std::string& node, std::int64_t step, bool failed);
  void giveUp();  // ends the round without the answers that are missing

 private:
  bool exists_ = false, isCopied_ = false, isCopiedHere_ = false;
  std::int64_t copied_ = 0, published_ = 0;
  std::int64_t step_ = 0, last_ = 0;  // of this round, and of the last that has begun
  std::set<std::string> awaited_;
  bool failed_ = false, isHurried_ = false;
};

}  // namespace lockstep::agent
