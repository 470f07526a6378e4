// Succession: how another node takes over from a coordinator that is lost. One node's part, as a
// voter and as a successor. Has neither connections nor timers: it is told the time, what comes
// from other nodes and, at each heartbeat, to go on.
//
// The coordinator tells all nodes who succeeds it, in order. A node that has heard nothing from the
// coordinator for some heartbeats leaves it and votes for the first successor that it reaches,
// again at each heartbeat. Its vote lasts until that node declines it: because the coordinator
// answers that node, because it has voted itself (then the vote goes where its own went), because
// it has stood in vain, or because it has ended its part. Then the next successor has its turn, or
// the first again, at random, so that nodes cannot wait for each other in a circle. A successor to
// which the coordinator is silent too, and which has the votes of a majority (electorates.h),
// begins the next generation without those that have not voted.
//
// A node that has voted, or asks for votes, has left the coordinator. It follows the coordinator
// again only if the successor has given up; until then, neither counts on it twice. Likewise a
// coordinator that reaches fewer than half of the nodes does not continue.
//
// A node that is absent asks the successors in turn whether one of them has taken over.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "agent/supervisor/electorates.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

class Succession {
 public:
  static constexpr int kTurn = 4;  // heartbeats in which a successor is reached, or a vote repeated

  struct Situation {         // of this node, now
    bool follows = false;    // the run has not ended, and another node coordinates it
    bool continues = false;  // the run, without any one of its nodes
    bool absent = false;     // this node waits until the coordinator takes it back
    std::string coordinator;
    Nanoseconds heard = 0;  // when the last message came from the coordinator
    bool silent = false;    // none has come for some heartbeats
  };
  struct Voter {
    std::string address;  // where it listens
    int generation = 0;   // the last that it has heard of
  };
  using Voters = std::map<std::string, Voter>;  // by node
  struct Handlers {
    std::function<void(std::string line)> say;
    std::function<Situation()> situation;
    // Whose votes count, as the newest of the voters, or this node, knows.
    std::function<Electorates(const Voters&)> electorates;
    std::function<std::vector<std::string>()> nodesWithRanks;
    // Connects to a successor, instead of the one before; onReached() follows.
    std::function<void(const node::v1::Listener&)> connect;
    std::function<void()> disconnect;
    std::function<void()> sendVote;  // to that successor
    std::function<void(const std::string& node, const node::v1::Decline&)> sendDecline;
    std::function<void()> leaveCoordinator;
    std::function<void()> followCoordinator;  // again
    // Takes over without the nodes `lost`. Returns why the run cannot continue so.
    std::function<Status(const std::vector<std::string>& lost, const Voters&)> takeOver;
  };
  // This is `node`; the run was launched on the nodes `launched`.
  Succession(std::string node, std::vector<std::string> launched, Nanoseconds heartbeat,
             Handlers handlers);

  // The nodes that may succeed the coordinator, in this order.
  void setListeners(std::vector<node::v1::Listener> listeners);
  const std::vector<node::v1::Listener>& listeners() const { return listeners_; }

  void beat(Nanoseconds now);  // at each heartbeat, while another node coordinates
  // The successor is connected, or not any more.
  void onReached(const std::string& successor) { vote(successor); }
  void onUnreached(const std::string& successor, Nanoseconds now);
  void onDecline(const node::v1::Decline& decline, Nanoseconds now);  // from the successor
  // Another node, which listens at `address`, has joined this one.
  void onJoin(const std::string& node, const std::string& address) { addresses_[node] = address; }
  // It votes for this one, again at each heartbeat.
  void onVote(const std::string& node, int generation, Nanoseconds now);

  void withdraw();              // neither votes nor stands any more
  void clear(Nanoseconds now);  // a new generation begins

 private:
  struct Vote {
    Nanoseconds since = 0, last = 0;  // the first and the last time that it came
    int generation = 0;
  };
  void seek(std::size_t successor, Nanoseconds now);  // it has its turn
  void seekCoordinator(Nanoseconds now);              // while this node is absent
  void vote(const std::string& successor);            // again at each heartbeat
  void stand(Nanoseconds now);
  void dropLapsed(Nanoseconds now);  // votes that were not repeated
  void countVotes(Nanoseconds now);
  Voters voters() const;
  void answerVotes(Nanoseconds now);  // while this node does not stand
  void declineVotes(Nanoseconds until, const node::v1::Decline& decline = {});
  // The coordinator, after a vote that led to nothing; for so many heartbeats at least.
  void followAgain(int heartbeats, Nanoseconds now);
  void disconnect();
  int atRandom(int below);

  const std::string node_;
  const std::vector<std::string> launched_;
  const Nanoseconds heartbeat_;
  const Handlers handlers_;
  std::minstd_rand random_;  // of its own for each node
  std::vector<node::v1::Listener> listeners_;
  std::size_t turn_ = 0;                 // the next successor to try
  Nanoseconds seekUntil_ = 0;            // end of a successor's turn, or of a pause
  bool connects_ = false;                // to a successor
  bool voted_ = false, stands_ = false;  // for another node; for this one
  std::string candidateNode_;            // that it has voted for
  Nanoseconds candidateLost_ = 0;        // 0: it is connected
  Nanoseconds standsSince_ = 0;
  std::map<std::string, Vote> votes_;             // by node, like the next
  std::map<std::string, std::string> addresses_;  // at which those that joined listen
};

}  // namespace lockstep::agent
