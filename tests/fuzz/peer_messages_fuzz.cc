// Messages between the supervisors of a run: votes, copies of checkpoints, keys of the rendezvous,
// and reports of ranks that make no progress. Frames with even numbers are messages of the
// coordinator; the others come from n3 and n4 in turn. Half a heartbeat passes before each.
#include <memory>

#include "agent/supervisor/copy_rounds.h"
#include "agent/supervisor/hangs.h"
#include "agent/supervisor/members.h"
#include "agent/supervisor/recovery.h"
#include "agent/supervisor/rendezvous.h"
#include "agent/supervisor/requests.h"
#include "agent/supervisor/succession.h"
#include "engine/specs/specs.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"

namespace lockstep::fuzz {
namespace {

using namespace agent;
using node::v1::FromPeer;
using node::v1::ToPeer;

constexpr Nanoseconds kBeat = 500'000'000;
constexpr int kSilent = 4;  // heartbeats
const std::vector<std::string> kNodes{"n1", "n2", "n3", "n4"};

// Node n2 of a run that n1 coordinates.
class Node {
 public:
  explicit Node(bool ofProgram) : hangs_(loop_, ofProgram, hangHandlers()) {
    std::vector<node::v1::Listener> listeners;
    for (const char* name : {"n2", "n3", "n4"}) listeners.emplace_back().set_node(name);
    succession_.setListeners(std::move(listeners));
  }

  void pass() {
    now_ += kBeat / 2;
    succession_.beat(now_);
    hangs_.judge(now_);
    rounds_.begin({"n3", "n4"});
  }

  void take(const ToPeer& message) {
    heard_ = now_;
    if (message.has_decline()) succession_.onDecline(message.decline(), now_);
    if (message.has_kv_value()) rendezvous_.onValue(message.kv_value());
    if (message.has_copied()) rounds_.onCopied(message.copied().step());
    if (message.has_recover()) {
      succession_.clear(now_);
      rounds_.beginGeneration(message.recover().from_checkpoints(), message.recover().copied());
      hangs_.clear();
      rendezvous_.clear();
      requests_.onRestart(
          {message.recover().excluded().begin(), message.recover().excluded().end()});
      recovery_.continueFrom(message.recover().failures());
      LOCKSTEP_CHECK(recovery_.pause() >= 0 && recovery_.past().last_size() <= 5);
      if (apply(message.recover().members(), request_).ok())
        for (const auto& node : request_.cluster().nodes())
          LOCKSTEP_CHECK(specs::deviceCount(node) <= specs::kMaxRanks, "{}", node.name());
      coordinates_ = false;
    }
    if (message.has_go())
      succession_.setListeners({message.go().listeners().begin(), message.go().listeners().end()});
    if (message.has_abort()) succession_.withdraw();
    if (message.has_decisions()) {
      requests_.continueFrom(message.decisions());
      electorates_ = electoratesOf(message.decisions());
    }
    for (const std::string& node : requests_.excluding())
      LOCKSTEP_CHECK(!requests_.isExcluded(node), "{}", node);
  }

  void take(const std::string& node, const FromPeer& message) {
    if (message.has_hello()) succession_.onJoin(node, message.hello().address());
    if (message.has_ready()) succession_.onReached(node);
    if (message.has_done()) succession_.onUnreached(node, now_);
    if (message.has_vote()) {
      votes_.insert(node);
      succession_.onVote(node, message.generation(), now_);
    }
    rendezvous_.onPeerMessage(node, message);
    if (message.has_stalled()) hangs_.onStalled(message.stalled(), now_);
    if (message.has_stacks()) hangs_.onStacks(message.stacks());
    if (message.has_copied()) answer(node, message.copied());
    rounds_.onPublished(message.ping().sent_ns());
  }

 private:
  void answer(const std::string& node, const node::v1::CheckpointCopied& copied) {
    const std::int64_t step = rounds_.step();
    if (rounds_.onAnswer(node, copied.step(), copied.failed()) == CopyRounds::Answer::kNotOver)
      return;
    LOCKSTEP_CHECK(copied.step() == step && rounds_.step() == 0);
    for (const std::string& one : kNodes) LOCKSTEP_CHECK(!rounds_.awaits(one));
  }

  Hangs::Handlers hangHandlers() {
    Hangs::Handlers out;
    out.ranksByNode = [] {
      return std::map<std::string, std::vector<int>>{{"n1", {0, 1}}, {"n2", {2}}, {"n3", {3}}};
    };
    out.ending = [] { return false; };
    out.readStacks = [](int) {};
    out.say = [](const std::string&) {};
    out.warn = [](const Error& error) { (void)error.text(); };
    out.fail = [](const Error& error) { (void)error.text(); };
    return out;
  }

  Succession::Handlers successionHandlers() {
    Succession::Handlers out;
    out.say = [](const std::string&) {};
    out.situation = [this] {
      Succession::Situation now;
      now.follows = !coordinates_;
      now.continues = true;
      now.coordinator = "n1";
      now.heard = heard_;
      now.silent = now_ - heard_ > kSilent * kBeat;
      return now;
    };
    out.electorates = [this](const Succession::Voters&) { return electorates_; };
    out.nodesWithRanks = [] { return kNodes; };
    out.connect = [](const node::v1::Listener& to) { LOCKSTEP_CHECK(to.node() != "n2"); };
    out.disconnect = [] {};
    out.sendVote = [] {};
    out.sendDecline = [this](const std::string& node, const node::v1::Decline&) {
      LOCKSTEP_CHECK(votes_.contains(node));
    };
    out.leaveCoordinator = [] {};
    out.followCoordinator = [] {};
    out.takeOver = [this](const std::vector<std::string>& lost, const Succession::Voters& voters) {
      LOCKSTEP_CHECK(!electorates_.empty());
      for (const Electorate& electorate : electorates_) {
        std::size_t present = 0;
        for (const std::string& one : electorate) present += one == "n2" || voters.contains(one);
        LOCKSTEP_CHECK(present > 0 && 2 * present >= electorate.size(), "a minority takes over");
      }
      for (const std::string& one : lost)
        LOCKSTEP_CHECK(one != "n2" && !voters.contains(one), "{} has voted", one);
      for (const auto& [one, voter] : voters) LOCKSTEP_CHECK(votes_.contains(one));
      coordinates_ = true;
      succession_.clear(now_);
      return Status();
    };
    return out;
  }

  EventLoop loop_;
  node::v1::PrepareRequest request_;
  Nanoseconds now_ = kBeat, heard_ = kBeat;
  bool coordinates_ = false;
  Electorates electorates_ = {kNodes};
  std::set<std::string> votes_;
  Succession succession_{"n2", kNodes, kBeat, successionHandlers()};
  CopyRounds rounds_;
  Recovery recovery_{spec::v1::RecoverySpec()};
  Requests requests_;
  Hangs hangs_;
  Rendezvous rendezvous_{
      {[this] { return coordinates_; }, [](const FromPeer&) {}, [](const std::string&, ToPeer) {}}};
};

FromPeer vote() {
  FromPeer out;
  out.set_generation(1);
  out.mutable_vote();
  return out;
}

FromPeer stalled(int rank, std::initializer_list<int> awaits) {
  FromPeer out;
  node::v1::Stalled& one = *out.mutable_stalled();
  one.set_rank(rank);
  one.set_for_ns(30'000'000'000);
  one.set_step(7);
  one.set_name("grads.1");
  one.set_op("all-reduce");
  for (const int other : awaits) one.add_awaits(other);
  return out;
}

}  // namespace

// Both lengths of a file, odd and even: runs of the product's engine and of a program.
void addBoth(std::vector<std::string> frames, std::vector<std::string>& out) {
  out.push_back(framesOf(frames));
  frames.push_back("x");
  out.push_back(framesOf(frames));
}

std::vector<std::string> framesWith(const std::vector<FromPeer>& messages) {
  std::vector<std::string> out;
  for (const FromPeer& one : messages) {
    out.emplace_back();
    out.push_back(one.SerializeAsString());
  }
  return out;
}

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  // The coordinator is silent after 8 frames.
  std::vector<std::string> takeover(10);
  for (const std::string& one : framesWith(std::vector<FromPeer>(12, vote())))
    takeover.push_back(one);
  addBoth(takeover, out);
  FromPeer stacks;
  stacks.mutable_stacks()->set_rank(3);
  stacks.mutable_stacks()->add_lines("thread 1 training");
  stacks.mutable_stacks()->add_lines("  matmul (kernels.cc:7)");
  addBoth(framesWith({stalled(3, {}), stalled(2, {3}), stalled(0, {2}), stalled(1, {0}), stacks}),
          out);
  FromPeer published, copied;
  published.mutable_ping()->set_sent_ns(10);
  copied.mutable_copied()->set_step(10);
  std::vector<std::string> copies = framesWith({published, copied, copied, copied});
  ToPeer recover, decisions, decline;
  recover.mutable_recover()->set_from_checkpoints(true);
  recover.mutable_recover()->mutable_failures()->add_last()->add_nodes("n3");
  auto& cluster = *recover.mutable_recover()->mutable_members()->mutable_cluster();
  for (const std::string& name : kNodes) {
    cluster.add_nodes()->set_name(name);
    cluster.mutable_nodes()->rbegin()->add_devices()->set_count(2);
  }
  decisions.mutable_decisions()->add_excluding("n4");
  decisions.mutable_decisions()->add_shares(3);
  decisions.mutable_decisions()->set_revision(7);
  for (int i = 0; i < 2; ++i)
    decisions.mutable_decisions()->add_electorates()->mutable_nodes()->Assign(kNodes.begin(),
                                                                              kNodes.end() - i);
  decline.mutable_decline()->set_successor("n3");
  copies[0] = recover.SerializeAsString();
  copies[2] = decisions.SerializeAsString();
  copies.push_back(decline.SerializeAsString());
  addBoth(copies, out);
  return out;
}

std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t frame) {
  if (frame % 2 == 0) return std::make_unique<ToPeer>();
  return std::make_unique<FromPeer>();
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::vector<std::string> frames = fuzz::splitFrames(fuzz::textOf(bytes, size));
  fuzz::Node node(size % 2 == 0);
  for (std::size_t i = 0; i < frames.size() && i < 200; ++i) {
    node.pass();
    node::v1::ToPeer to;
    node::v1::FromPeer from;
    if (i % 2 == 0) {
      if (!frames[i].empty() && to.ParseFromString(frames[i])) node.take(to);
    } else if (from.ParseFromString(frames[i])) {
      node.take(i % 4 == 1 ? "n3" : "n4", from);
    }
  }
  return 0;
}
