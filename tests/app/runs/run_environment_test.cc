// What a launch keeps of its nodes, read back, and told where nodes or runs differ.
#include "app/runs/run_environment.h"

#include <fmt/format.h>

#include <QTest>
#include <nlohmann/json.hpp>
#include <random>

#include "app/runs/participant.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

using Random = std::mt19937_64;

std::string nodesJson(const Participants& participants) {
  auto out = nlohmann::json::array();
  for (const Participant& one : participants)
    out.push_back({{"node", one.name},
                   {"ranks", one.ranks},
                   {"host", one.inventory.hostname},
                   {"environment", environmentJson(one)}});
  return out.dump();
}

Participant participant(int index, Random& random) {
  const auto maybe = [&](const char* text) {
    return random() % 4 == 0 ? std::string() : fmt::format("{} {}", text, random() % 3);
  };
  Participant out;
  out.name = fmt::format("n{}", index);
  for (int rank = 0; rank < static_cast<int>(random() % 3); ++rank) out.ranks.push_back(rank);
  NodeInventory& has = out.inventory;
  has.hostname = maybe("host");
  has.os = maybe("Debian");
  has.kernel = maybe("6.1");
  has.cpu = maybe("模型 \"EPYC\"");
  has.cores = static_cast<int>(random() % 3) * 64;
  has.memoryBytes = static_cast<std::int64_t>(random() % 3) << 38;
  for (std::uint64_t gpu = random() % 3; gpu > 0; --gpu) has.gpus.push_back(maybe("NVIDIA H200"));
  has.gpuDriver = maybe("580");
  has.agentVersion = maybe("5f1c");
  if (random() % 2 == 0) out.versions = {{"python", maybe("3.11")}, {"torch", maybe("2.1")}};
  return out;
}

NodeEnvironment environmentOf(const Participant& of) {
  const NodeInventory& has = of.inventory;
  return {of.name,       has.hostname,     of.ranks,  has.os,          has.kernel, has.cpu,
          has.gpuDriver, has.agentVersion, has.cores, has.memoryBytes, has.gpus,   of.versions};
}

QString valueOf(const std::vector<EnvironmentField>& fields, const std::string& name) {
  for (const EnvironmentField& field : fields)
    if (field.name == name) return QString::fromStdString(field.value);
  return {};
}

}  // namespace

class RunEnvironmentTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void whatIsKeptIsRead() {
    Random random(11);
    for (int round = 0; round < 200; ++round) {
      Participants participants;
      std::vector<NodeEnvironment> expected;
      for (int i = 0; i < static_cast<int>(random() % 5); ++i) {
        participants.push_back(participant(i, random));
        expected.push_back(environmentOf(participants.back()));
      }
      const std::string json = nodesJson(participants);
      QVERIFY2(nodeEnvironments(json) == expected, json.c_str());
    }
  }

  // As earlier versions wrote them, and damaged ones.
  void nodesWithoutItAreRead() {
    const std::string earlier =
        R"([{"node":"n1","host":"a","ranks":[0,1],"socket":"/s"},{"node":"n2"}])";
    const auto nodes = nodeEnvironments(earlier);
    QCOMPARE(nodes.size(), std::size_t{2});
    QCOMPARE(nodes[0].host, std::string("a"));
    QCOMPARE(nodes[0].ranks, (std::vector<int>{0, 1}));
    QVERIFY(environmentFields(nodes).empty());
    QVERIFY(nodeEnvironments("").empty());
    QVERIFY(nodeEnvironments("{\"node\":1}").empty());
    Random random(12);
    const std::string whole = nodesJson({participant(1, random), participant(2, random)});
    for (int round = 0; round < 3000; ++round) {
      std::string text = whole;
      for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
      (void)environmentFields(nodeEnvironments(text));
    }
    const std::string wrong = R"([3,{"node":[],"ranks":{"a":1},"environment":[1]},)"
                              R"({"node":"n","ranks":["x",2.5,4],"environment":{"os":7,)"
                              R"("cores":"8","gpus":[1,"g"],"versions":{"torch":[]}}}])";
    const auto left = nodeEnvironments(wrong);
    QCOMPARE(left.size(), std::size_t{2});
    NodeEnvironment n;
    n.node = "n";
    n.ranks = {4};
    n.gpus = {"g"};
    QVERIFY(left[1] == n);
  }

  // A value is told once, or with the nodes that have it.
  void nodesThatDifferAreNamed() {
    std::vector<NodeEnvironment> nodes(20);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].node = fmt::format("n{}", i);
      nodes[i].kernel = "6.1";
      nodes[i].cores = 64;
      nodes[i].memoryBytes = std::int64_t{3} << 29;
      nodes[i].gpus = {"A100", "A100", "T4"};
      nodes[i].versions = {{"torch", "2.1.0"}};
    }
    auto fields = environmentFields(nodes);
    QCOMPARE(fields.size(), std::size_t{5});
    QCOMPARE(valueOf(fields, "kernel"), QString("6.1"));
    QCOMPARE(valueOf(fields, "memory"), QString("1.5 GiB"));
    QCOMPARE(valueOf(fields, "gpus"), QString("2 × A100 + T4"));
    nodes[17].kernel = "6.6";
    nodes[3].versions = {};
    nodes[4].versions["python"] = "3.11.2";
    fields = environmentFields(nodes);
    QCOMPARE(valueOf(fields, "kernel"),
             QString("6.1 (n0, n1, n2, n3, n4, n5, n6, n7, …); 6.6 (n17)"));
    QCOMPARE(valueOf(fields, "torch"),
             QString("2.1.0 (n0, n1, n2, n4, n5, n6, n7, n8, …); – (n3)"));
    QCOMPARE(valueOf(fields, "python"),
             QString("– (n0, n1, n2, n3, n5, n6, n7, n8, …); 3.11.2 (n4)"));
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].gpuDriver = fmt::format("580.{}", i);
    QCOMPARE(valueOf(environmentFields(nodes), "gpu_driver"),
             QString("580.0 (n0); 580.1 (n1); 580.2 (n2); 580.3 (n3); 580.4 (n4); 580.5 (n5); "
                     "580.6 (n6); 580.7 (n7); …"));
    QCOMPARE(environmentTitle("gpu_driver").text(), std::string("GPU driver"));
    QCOMPARE(environmentTitle("torch").text(), std::string("torch"));
  }

  void runsAreComparedByIt() {
    RunDocuments one, other;
    one.specYaml = other.specYaml = "training:\n  batch: 64\n";
    one.nodes = R"([{"node":"a","environment":{"kernel":"6.1","os":"Debian"}}])";
    other.nodes = R"([{"node":"b","environment":{"kernel":"6.6","os":"Debian"}}])";
    const auto differences = specDifferences({comparedFields(one), comparedFields(other)});
    QCOMPARE(differences.size(), std::size_t{1});
    QCOMPARE(differences[0].field, std::string("environment.kernel"));
    QCOMPARE(differences[0].values, (std::vector<std::string>{"6.1", "6.6"}));
    other.specResolved = "training:\n  batch: 96\n";
    QCOMPARE(specDifferences({comparedFields(one), comparedFields(other)}).size(), std::size_t{2});
  }
};

QTEST_GUILESS_MAIN(RunEnvironmentTest)
#include "run_environment_test.moc"
