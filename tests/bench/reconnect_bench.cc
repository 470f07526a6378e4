// Measures how soon nodes are connected again once the network has returned:
// lockstep_reconnect_bench [--nodes 32] [--away 20] [--rounds 3] [--judge]
//
// Hosts of their own with an sshd each, agents on them, a key with a passphrase, and the session of
// a studio. In each round all cables are cut, unnoticed by TCP, until every node is told as lost
// and for so many seconds more. Prints from the first cable on until the last node is connected
// again, and how often a person was asked in all. With --judge it exits 1 if a round takes more
// than 3 s, or if there was more than one question. Needs root, and the bundle. Exit 77: there can
// be no hosts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "app/cluster/cluster_session.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/bench/judge.h"
#include "tests/cluster/hosts.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;
namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kPassphrase = "of this key";
constexpr double kLimit = 300;  // seconds that anything may take

struct Options {
  int nodes = 32, away = 20, rounds = 3;
};

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::shared_ptr<const spec::v1::ClusterSpec> clusterOf(const std::string& folder, int nodes) {
  auto cluster = std::make_shared<spec::v1::ClusterSpec>();
  cluster->set_version(1);
  cluster->set_name("hosts");
  for (int i = 1; i <= nodes; ++i) {
    const std::string name = "n" + std::to_string(i);
    auto* node = cluster->add_nodes();
    node->set_name(name);
    node->mutable_ssh()->set_host(name);
    node->set_workdir(folder + "/work/" + name);
  }
  return cluster;
}

// The session of a studio, whose questions are answered at once, and counted.
class Studio {
 public:
  Studio(const std::string& folder, int nodes)
      : folder_(folder), session_(clusterOf(folder, nodes), options(), inbox_, observer()) {}
  ~Studio() { session_.end(); }
  int questions() const { return questions_; }

  // Returns after how many seconds; nothing: the limit came first, or a node failed for good. A few
  // at a time: agents that all start at once are a load of this machine, not of a cluster.
  std::optional<double> connect() {
    constexpr int kTogether = 4;
    const auto begin = Clock::now();
    for (int node = 0; node < session_.size(); ++node) {
      session_.connect(node);
      if (node % kTogether != 0 && node + 1 < session_.size()) continue;
      if (!drainUntil([&] { return areConnected(node + 1); })) return {};
      if (node == 0) copyVersions();
    }
    return secondsSince(begin);
  }
  std::optional<double> loseAll() {
    const auto begin = Clock::now();
    const auto lost = [&] {
      for (int i = 0; i < session_.size(); ++i)
        if (isAt(i, NodeState::CONNECTED)) return false;
      return true;
    };
    if (!drainUntil(lost)) return {};
    return secondsSince(begin);
  }
  std::optional<double> regain(Clock::time_point begin) {
    if (!drainUntil([&] { return session_.allConnected(); })) return {};
    return secondsSince(begin);
  }
  void rest(int seconds) {
    const auto begin = Clock::now();
    (void)drainUntil([&] { return secondsSince(begin) >= seconds; });
  }
  void printFailures() const {
    for (int i = 0; i < session_.size(); ++i)
      if (const NodeStatus& node = session_.status(i); node.error)
        std::fprintf(stderr, "%s: %s\n", node.name.c_str(), node.error->text().c_str());
  }

 private:
  ClusterSessionOptions options() const {
    ClusterSessionOptions out;
    out.home.root = folder_ + "/home";
    out.sshConfig = folder_ + "/config";
    return out;
  }
  ClusterObserver observer() {
    ClusterObserver out;
    out.onQuestion = [this](const NodeQuestion& question) {
      ++questions_;
      if (question.kind == NodeQuestion::Kind::kSecret)
        session_.answer(question.id, Secret(kPassphrase));
      else
        session_.answer(question.id, true);
    };
    return out;
  }
  bool isAt(int node, NodeState phase) const { return session_.status(node).phase == phase; }
  bool areConnected(int first) const {
    for (int node = 0; node < first; ++node)
      if (!isAt(node, NodeState::CONNECTED)) return false;
    return true;
  }
  template <typename Done>
  bool drainUntil(Done done) {
    const auto begin = Clock::now();
    while (!done()) {
      for (int i = 0; i < session_.size(); ++i)
        if (isAt(i, NodeState::UNAVAILABLE)) return false;
      if (secondsSince(begin) > kLimit) return false;
      inbox_.wait(std::chrono::milliseconds(10));
      inbox_.drain();
    }
    return true;
  }
  // The hosts have one disk: the others need no copy of what was uploaded to the first.
  void copyVersions() {
    for (int i = 1; i < session_.size(); ++i) {
      const std::string to = folder_ + "/work/" + session_.status(i).name;
      fs::create_directories(to);
      if (test::runCommand({"cp", "-al", folder_ + "/work/n1/versions", to}) != 0)
        std::fprintf(stderr, "%s gets its own upload\n", to.c_str());
    }
  }

  const std::string folder_;
  Inbox inbox_;
  int questions_ = 0;
  ClusterSession session_;
};

int failed(const Studio& studio, const char* what) {
  std::fprintf(stderr, "%s\n", what);
  studio.printFailures();
  return 1;
}

int measure(test::Hosts& hosts, const std::string& folder, const Options& options,
            test::Judge& judge) {
  Studio studio(folder, options.nodes);
  const auto connected = studio.connect();
  if (!connected) return failed(studio, "the nodes were not connected");
  std::printf("%d nodes: connected after %.1f s, uploading included\n", options.nodes, *connected);
  for (int round = 1; round <= options.rounds; ++round) {
    for (int host = 1; host <= options.nodes; ++host)
      if (!hosts.cut(host)) return failed(studio, "a cable cannot be cut");
    const auto lost = studio.loseAll();
    if (!lost) return failed(studio, "a node was not told as lost");
    studio.rest(options.away);
    const auto begin = Clock::now();
    for (int host = 1; host <= options.nodes; ++host)
      if (!hosts.heal(host)) return failed(studio, "a cable cannot be mended");
    const double mended = secondsSince(begin);
    const auto back = studio.regain(begin);
    if (!back) return failed(studio, "a node did not come back");
    std::printf(
        "round %d: lost after %.1f s; back %.2f s after the network (%.2f s of them to "
        "mend the cables), questions so far: %d\n",
        round, *lost, *back, mended, studio.questions());
    judge.atMost("until the last node is connected again", *back, 3, "s");
  }
  judge.atMost("questions", studio.questions(), 1, "");
  return judge.verdict();
}

}  // namespace

int main(int argc, char** argv) {
  test::Judge judge(argc, argv);
  Options options;
  const std::pair<std::string, int*> numbers[] = {
      {"--nodes", &options.nodes}, {"--away", &options.away}, {"--rounds", &options.rounds}};
  for (int i = 1; i < argc; i += 2) {
    const auto* found = std::find_if(std::begin(numbers), std::end(numbers),
                                     [&](const auto& one) { return one.first == argv[i]; });
    if (found == std::end(numbers) || i + 1 == argc) {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      return 2;
    }
    *found->second = std::max(1, std::atoi(argv[i + 1]));
  }
  if (options.nodes > test::Hosts::kMost) {
    std::fprintf(stderr, "there are addresses for %d nodes\n", test::Hosts::kMost);
    return 2;
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);
  ::setenv("LOCKSTEP_BUNDLE", test::buildPath("bundle").c_str(), 0);
  const test::TempFolder folder;
  test::makeKey(folder / "id", kPassphrase);
  std::string why;
  // Before there are threads: they all have to be on the studio's host.
  const auto hosts =
      test::Hosts::start(options.nodes, folder.path(), folder / "id", &why, "", true);
  if (!hosts || !hosts->enter()) {
    std::fprintf(stderr, "no hosts: %s\n", why.c_str());
    return 77;
  }
  fs::create_directories(folder / "home");
  fs::create_directories(folder / "work");
  test::writeText(folder / "config", hosts->sshConfig(folder / "known", folder / "id"), 0600);
  return measure(*hosts, folder.path(), options, judge);
}
