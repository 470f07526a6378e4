// A program of the user's own as the child of a worker: its environment, its file, its process.
#include "agent/workload/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <QDir>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "agent/workload/environment.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"

using namespace lockstep;
using agent::Program;
using agent::ProgramRank;
using agent::resolveProgram;
using spec::v1::WorkloadSpec;

namespace {

using Variables = std::map<std::string, std::string>;

constexpr Nanoseconds kSecond = 1'000'000'000;

Variables environmentOf(const WorkloadSpec& workload, const ProgramRank& rank,
                        const std::vector<std::string>& inherited = {}) {
  Variables out;
  for (const std::string& entry : agent::programEnvironment(workload, rank, "/code", inherited)) {
    const std::size_t equals = entry.find('=');
    const bool added = out.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second;
    if (!added) qFatal("%s comes twice", entry.c_str());
  }
  return out;
}

WorkloadSpec workloadOf(const std::string& launcher) {
  WorkloadSpec out;
  out.set_launcher(launcher);
  return out;
}

int numberOf(const Variables& variables, const char* name) {
  const auto at = variables.find(name);
  return at == variables.end() ? -1 : QString::fromStdString(at->second).toInt();
}

// Ranks of nodes of different sizes; those of a node need not be neighbours.
node::v1::ProgramPlaces randomPlaces(std::mt19937& random, bool mixed) {
  const int nodes = 1 + static_cast<int>(random() % 5);
  std::vector<int> homes;
  for (int node = 0; node < nodes; ++node) homes.insert(homes.end(), 1 + random() % 5, node);
  if (mixed) std::shuffle(homes.begin(), homes.end(), random);
  node::v1::ProgramPlaces out;
  int port = 20000 + static_cast<int>(random() % 1000);
  for (const int home : homes) {
    auto& place = *out.add_places();
    place.set_node(fmt::format("n{}", home));
    place.set_address(home % 2 == 0 ? fmt::format("10.0.0.{}", home)
                                    : fmt::format("fd00::{}", home));
    place.set_port(port++);
  }
  return out;
}

ProgramRank rankOf(const node::v1::ProgramPlaces& places, int rank) {
  ProgramRank out;
  out.rank = rank;
  out.run = "the-run";
  out.restarts = 2;
  out.maxRestarts = 5;
  out.threads = 3;
  out.places = places;
  return out;
}

node::v1::ProgramPlaces placesOf(int ranks, const std::string& address) {
  node::v1::ProgramPlaces out;
  for (int rank = 0; rank < ranks; ++rank) {
    auto& place = *out.add_places();
    place.set_node("n");
    place.set_address(address);
    place.set_port(3000 + rank);
  }
  return out;
}

// 4(x2),3 becomes 4,4,3, with a comma at the end.
QString expandedCounts(const QString& text) {
  QString out;
  for (const QString& part : text.split(',')) {
    const int times = part.contains("(x") ? part.section("(x", 1).chopped(1).toInt() : 1;
    for (int i = 0; i < times; ++i) out += part.section('(', 0, 0) + ',';
  }
  return out;
}

std::string bracketed(const std::string& address) {
  return address.find(':') == std::string::npos ? address : "[" + address + "]";
}

Program::Options shell(const std::string& script, const std::string& folder = "/") {
  return {"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin", "A=b c"}, folder};
}

// Runs a program to its end, for at most the limit. Returns its output.
struct Ended {
  std::string output;
  int status = -1;
  Nanoseconds took = 0;
};
Ended finish(const Program::Options& options, Nanoseconds limit = 20 * kSecond) {
  auto program = Program::start(options);
  Ended out;
  if (!program.ok()) {
    out.output = program.error().text();
    return out;
  }
  const Nanoseconds began = monotonicNow();
  while (program->wait(kSecond, [&](std::string_view bytes) { out.output += bytes; }))
    if (monotonicNow() - began > limit) return out;
  out.took = monotonicNow() - began;
  out.status = program->status();
  return out;
}

bool isThere(int pid) {
  const auto status = readFile(fmt::format("/proc/{}/status", pid));
  return status.ok() && status->find("State:\tZ") == std::string::npos;
}

void makeFile(const std::string& path, const std::string& text, mode_t mode) {
  QVERIFY(writeFileAtomically(path, text).ok());
  QCOMPARE(chmod(path.c_str(), mode), 0);
}

}  // namespace

class ProgramTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void ranksKnowEachOther_data() {
    QTest::addColumn<bool>("mixed");
    QTest::newRow("node after node") << false;
    QTest::newRow("mixed") << true;
  }
  // What every rank is told is one world, as torchrun would tell it.
  void ranksKnowEachOther() {
    QFETCH(bool, mixed);
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
      const node::v1::ProgramPlaces places = randomPlaces(random, mixed);
      const int world = places.places_size();
      std::set<std::pair<int, int>> taken;   // of a group, a local rank
      std::map<int, int> sizes, groupSizes;  // by group: its size as told, and as it is
      std::map<int, std::string> nodes;      // by group
      for (int rank = 0; rank < world; ++rank) {
        const Variables told = environmentOf(workloadOf("ranks"), rankOf(places, rank));
        QCOMPARE(numberOf(told, "RANK"), rank);
        QCOMPARE(numberOf(told, "ROLE_RANK"), rank);
        QCOMPARE(numberOf(told, "WORLD_SIZE"), world);
        QCOMPARE(numberOf(told, "ROLE_WORLD_SIZE"), world);
        const int group = numberOf(told, "GROUP_RANK"), local = numberOf(told, "LOCAL_RANK");
        QVERIFY(taken.emplace(group, local).second);
        QVERIFY(local >= 0 && local < numberOf(told, "LOCAL_WORLD_SIZE"));
        QVERIFY(group >= 0 && group < numberOf(told, "GROUP_WORLD_SIZE"));
        QCOMPARE(nodes.emplace(group, places.places(rank).node()).first->second,
                 places.places(rank).node());
        QCOMPARE(sizes.emplace(group, numberOf(told, "LOCAL_WORLD_SIZE")).first->second,
                 numberOf(told, "LOCAL_WORLD_SIZE"));
        ++groupSizes[group];
        QCOMPARE(numberOf(told, "CROSS_RANK"), group);
        QCOMPARE(numberOf(told, "CROSS_SIZE"), numberOf(told, "GROUP_WORLD_SIZE"));
        QCOMPARE(numberOf(told, "LOCAL_SIZE"), numberOf(told, "LOCAL_WORLD_SIZE"));
        QCOMPARE(told.at("MASTER_ADDR"), places.places(0).address());
        QCOMPARE(numberOf(told, "MASTER_PORT"), places.places(0).port());
        QCOMPARE(numberOf(told, "TORCHELASTIC_RESTART_COUNT"), 2);
        QCOMPARE(numberOf(told, "TORCHELASTIC_MAX_RESTARTS"), 5);
        QCOMPARE(told.at("TORCHELASTIC_RUN_ID"), std::string("the-run"));
        QCOMPARE(numberOf(told, "OMP_NUM_THREADS"), 3);
        QCOMPARE(numberOf(told, "JAX_NUM_PROCESSES"), world);
        QCOMPARE(numberOf(told, "JAX_PROCESS_ID"), rank);
        QCOMPARE(
            told.at("JAX_COORDINATOR_ADDRESS"),
            fmt::format("{}:{}", bracketed(places.places(0).address()), places.places(0).port()));
        QCOMPARE(static_cast<int>(numberOf(told, "GROUP_WORLD_SIZE")), static_cast<int>([&] {
                   std::set<std::string> names;
                   for (const auto& place : places.places()) names.insert(place.node());
                   return names.size();
                 }()));
        QVERIFY(!told.contains("PET_NNODES"));
      }
      QVERIFY(sizes == groupSizes);
      QVERIFY(taken.contains({0, 0}));  // rank 0
    }
  }

  // As srun tells its tasks, also in a job where the agent is one of them.
  void slurmsTasksAreTheRanks_data() {
    QTest::addColumn<QString>("launcher");
    QTest::newRow("ranks") << "ranks";
    QTest::newRow("mpi") << "mpi";
  }
  void slurmsTasksAreTheRanks() {
    QFETCH(QString, launcher);
    const std::vector<std::string> job = {"SLURM_JOB_ID=9",
                                          "SLURM_PROCID=77",
                                          "SLURM_LOCALID=77",
                                          "SLURM_NTASKS=1",
                                          "SLURM_TASKS_PER_NODE=1(x9)",
                                          "SLURM_CPUS_PER_TASK=4",
                                          "SLURM_TRES_PER_TASK=cpu:4"};
    const WorkloadSpec workload = workloadOf(launcher.toStdString());
    std::mt19937 random(6);
    for (int round = 0; round < 300; ++round) {
      const node::v1::ProgramPlaces places = randomPlaces(random, round % 2 == 0);
      const int world = places.places_size();
      std::map<std::pair<int, int>, int> ranks;  // by node and number there
      std::set<std::string> perNode;
      for (int rank = 0; rank < world; ++rank) {
        const Variables told = environmentOf(workload, rankOf(places, rank), job);
        QCOMPARE(told.at("SLURM_JOB_ID"), std::string("9"));
        QCOMPARE(numberOf(told, "SLURM_PROCID"), rank);
        for (const char* name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"})
          QCOMPARE(numberOf(told, name), world);
        QCOMPARE(numberOf(told, "SLURM_STEP_NUM_NODES"), numberOf(told, "SLURM_NNODES"));
        QVERIFY(numberOf(told, "SLURM_LOCALID") < numberOf(told, "SLURM_NTASKS_PER_NODE"));
        QVERIFY(!told.contains("SLURM_TRES_PER_TASK"));
        QCOMPARE(numberOf(told, "SLURM_CPUS_PER_TASK"),
                 std::max(1, 4 / numberOf(told, "SLURM_NTASKS_PER_NODE")));
        ranks[{numberOf(told, "SLURM_NODEID"), numberOf(told, "SLURM_LOCALID")}] = rank;
        perNode.insert(told.at("SLURM_TASKS_PER_NODE"));
        perNode.insert(told.at("SLURM_STEP_TASKS_PER_NODE"));
        const Variables own = environmentOf(workload, rankOf(places, rank));
        QVERIFY(!own.contains("SLURM_JOB_ID") && !own.contains("SLURM_CPUS_PER_TASK"));
        QCOMPARE(numberOf(own, "SLURM_PROCID"), launcher == "mpi" ? -1 : rank);
      }
      QCOMPARE(static_cast<int>(ranks.size()), world);
      std::map<int, int> sizes;
      for (const auto& [place, rank] : ranks) ++sizes[place.first];
      QString expanded;
      for (const auto& [node, size] : sizes) expanded += QString("%1,").arg(size);
      QCOMPARE(perNode.size(), std::size_t{1});
      QCOMPARE(expandedCounts(QString::fromStdString(*perNode.begin())), expanded);
    }
    // A command that starts its own processes is a task of the job.
    for (const char* other : {"single", "torchrun"})
      QCOMPARE(numberOf(environmentOf(workloadOf(other), rankOf(placesOf(2, "::1"), 1), job),
                        "SLURM_PROCID"),
               77);
  }

  void tensorFlowKnowsAllWorkers() {
    std::mt19937 random(4);
    for (int round = 0; round < 100; ++round) {
      const node::v1::ProgramPlaces places = randomPlaces(random, true);
      const int world = places.places_size();
      std::set<nlohmann::json> clusters;
      for (int rank = 0; rank < world; ++rank) {
        const Variables told = environmentOf(workloadOf("ranks"), rankOf(places, rank));
        QCOMPARE(told.contains("TF_CONFIG"), world > 1);
        if (world == 1) continue;
        const auto config = nlohmann::json::parse(told.at("TF_CONFIG"));
        QCOMPARE(config["task"]["type"].get<std::string>(), std::string("worker"));
        QCOMPARE(config["task"]["index"].get<int>(), rank);
        const auto workers = config["cluster"]["worker"].get<std::vector<std::string>>();
        QCOMPARE(static_cast<int>(workers.size()), world);
        QCOMPARE(std::set<std::string>(workers.begin(), workers.end()).size(), workers.size());
        for (int other = 0; other < world; ++other)
          QCOMPARE(workers[static_cast<std::size_t>(other)],
                   fmt::format("{}:{}", bracketed(places.places(other).address()),
                               places.places(other).port()));
        clusters.insert(config["cluster"]);
      }
      QVERIFY(clusters.size() <= 1);
    }
  }

  void launchers() {
    node::v1::ProgramPlaces places = placesOf(3, "fd00::7");
    for (int rank = 0; rank < 3; ++rank)
      places.mutable_places(rank)->set_node(std::to_string(rank));
    const WorkloadSpec workload = workloadOf("torchrun");
    Variables told = environmentOf(workload, rankOf(places, 1));
    QCOMPARE(numberOf(told, "PET_NNODES"), 3);
    QCOMPARE(numberOf(told, "PET_NODE_RANK"), 1);
    QCOMPARE(told.at("PET_MASTER_ADDR"), std::string("fd00::7"));
    QCOMPARE(numberOf(told, "PET_MASTER_PORT"), 3000);
    QCOMPARE(numberOf(told, "PET_NPROC_PER_NODE"), 1);
    // A torchrun for several ranks of a node.
    node::v1::ProgramPlaces twice;
    for (const auto& place : places.places())
      for (int rank = 0; rank < 2; ++rank) *twice.add_places() = place;
    ProgramRank first = rankOf(twice, 4);
    first.pythonFolder = "/run/python";
    first.pythonPipe = "/run/python/local-0";
    first.localPipes = "/run/python/local-";
    // Of a program of another run, or a batch script, that the agent was started in.
    const std::vector<std::string> outer = {"LOCAL_RANK=7", "LOCKSTEP_LOCAL_PIPES=/outer",
                                            "LOCKSTEP_LAUNCHED=1", "LOCKSTEP_PIPE=/outer"};
    told = environmentOf(workload, first, outer);
    QVERIFY(!told.contains("LOCKSTEP_LAUNCHED"));
    QCOMPARE(numberOf(told, "PET_NPROC_PER_NODE"), 2);
    QCOMPARE(numberOf(told, "PET_NNODES"), 3);
    QCOMPARE(numberOf(told, "PET_NODE_RANK"), 2);
    QCOMPARE(told.at("LOCKSTEP_PIPE"), first.pythonPipe);
    QCOMPARE(told.at("LOCKSTEP_LOCAL_PIPES"), first.localPipes);
    QCOMPARE(told.at("LOCKSTEP_HOOKS"),
             std::string("c10d ddp wandb transformers lightning keras tensorflow jax stacks "
                         "mlflow"));
    for (const char* launcher : {"ranks", "mpi", "single"})
      QVERIFY(!environmentOf(workloadOf(launcher), first, outer).contains("LOCKSTEP_LOCAL_PIPES"));
    const Variables single = environmentOf(workloadOf("single"), rankOf(placesOf(1, "::1"), 0));
    QVERIFY(!single.contains("PET_NNODES"));
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TF_CONFIG",
                             "JAX_PROCESS_ID", "CROSS_RANK", "TORCHELASTIC_RUN_ID"}) {
      QVERIFY2(!told.contains(name), name);
      QVERIFY2(!single.contains(name), name);
    }
  }

  // One torchrun for each node, which may have different numbers of ranks.
  void torchrunKnowsTheRanksOfItsNode() {
    std::mt19937 random(5);
    for (int round = 0; round < 100; ++round) {
      const node::v1::ProgramPlaces places = randomPlaces(random, round % 2 == 0);
      std::map<std::string, int> sizes;
      for (const auto& place : places.places()) ++sizes[place.node()];
      for (int rank = 0; rank < places.places_size(); ++rank) {
        const Variables told = environmentOf(workloadOf("torchrun"), rankOf(places, rank));
        QCOMPARE(numberOf(told, "PET_NNODES"), static_cast<int>(sizes.size()));
        QCOMPARE(numberOf(told, "PET_NPROC_PER_NODE"), sizes.at(places.places(rank).node()));
      }
    }
  }

  // The spec's come last; what the engine sets for its own threads is not inherited.
  void whoseValueCounts() {
    const std::vector<std::string> inherited = {"OMP_NUM_THREADS=9",
                                                "OMP_DYNAMIC=false",
                                                "OMP_PROC_BIND=false",
                                                "OMP_WAIT_POLICY=x",
                                                "GOMP_SPINCOUNT=0",
                                                "OPENBLAS_NUM_THREADS=9",
                                                "MKL_NUM_THREADS=9",
                                                "HOME=/home/ann",
                                                "RANK=77",
                                                "GLOO_SOCKET_IFNAME=e0",
                                                "A=x=y",
                                                "EMPTY=",
                                                "no equals sign",
                                                "=C:"};
    ProgramRank one = rankOf(placesOf(1, "127.0.0.1"), 0);
    one.threads = 1;
    Variables told = environmentOf(workloadOf("ranks"), one, inherited);
    for (const char* gone : {"OMP_NUM_THREADS", "OMP_DYNAMIC", "OMP_PROC_BIND", "OMP_WAIT_POLICY",
                             "GOMP_SPINCOUNT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
      QVERIFY2(!told.contains(gone), gone);
    QCOMPARE(told.at("HOME"), std::string("/home/ann"));
    QCOMPARE(told.at("A"), std::string("x=y"));
    QCOMPARE(told.at("EMPTY"), std::string());
    QCOMPARE(told.at("RANK"), std::string("0"));
    QCOMPARE(told.at("PATH"), std::string("/usr/local/bin:/usr/bin:/bin"));
    QCOMPARE(told.at("PYTHONUNBUFFERED"), std::string("1"));

    const ProgramRank rank = rankOf(placesOf(2, "127.0.0.1"), 1);
    WorkloadSpec workload = workloadOf("ranks");
    told = environmentOf(workload, rank, inherited);
    QCOMPARE(told.at("GLOO_SOCKET_IFNAME"), std::string("e0"));
    QCOMPARE(told.at("NCCL_SOCKET_IFNAME"), std::string("=lo"));
    QCOMPARE(environmentOf(workload, rank).at("GLOO_SOCKET_IFNAME"), std::string("lo"));
    for (const auto& [name, value] : Variables{{"RANK", "5"},
                                               {"OMP_NUM_THREADS", "12"},
                                               {"NCCL_SOCKET_IFNAME", "ib0"},
                                               {"PATH", "/mine"},
                                               {"PYTHONUNBUFFERED", ""},
                                               {"MASTER_PORT", "1"}})
      (*workload.mutable_env())[name] = value;
    told = environmentOf(workload, rank, inherited);
    for (const auto& [name, value] : workload.env()) QCOMPARE(told.at(name), value);
    ProgramRank withNccl = rank;
    withNccl.rasPort = 4711;
    withNccl.ncclProfiler = "/agent/profiler.so";
    QCOMPARE(environmentOf(workload, withNccl).at("NCCL_PROFILER_PLUGIN"), withNccl.ncclProfiler);
    QCOMPARE(
        environmentOf(workload, withNccl, {"NCCL_PROFILER_PLUGIN=own"}).at("NCCL_PROFILER_PLUGIN"),
        std::string("own"));
    QCOMPARE(environmentOf(workload, withNccl).at("NCCL_RAS_ADDR"), std::string("127.0.0.1:4711"));
    QCOMPARE(environmentOf(workload, withNccl, {"NCCL_RAS_ADDR=[::1]:5"}).at("NCCL_RAS_ADDR"),
             std::string("[::1]:5"));
    QVERIFY(!told.contains("NCCL_RAS_ADDR"));
    // A rank alone has none to talk to.
    QVERIFY(!environmentOf(workloadOf("ranks"), one).contains("GLOO_SOCKET_IFNAME"));
  }

  void pythons_data() {
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("path");
    QTest::addColumn<QString>("first");     // folder of PATH
    QTest::addColumn<QString>("variable");  // NAME=value
    QTest::newRow("path") << "path"
                          << "/opt/py/bin"
                          << "/opt/py/bin"
                          << "";
    QTest::newRow("venv") << "venv"
                          << "/opt/venv"
                          << "/opt/venv/bin"
                          << "VIRTUAL_ENV=/opt/venv";
    QTest::newRow("venv in the code") << "venv"
                                      << ".venv"
                                      << "/code/.venv/bin"
                                      << "VIRTUAL_ENV=/code/.venv";
    QTest::newRow("conda") << "conda"
                           << "/opt/conda/envs/e"
                           << "/opt/conda/envs/e/bin"
                           << "CONDA_PREFIX=/opt/conda/envs/e";
    QTest::newRow("none") << "none"
                          << ""
                          << "/usr/bin"
                          << "";
  }
  void pythons() {
    QFETCH(QString, kind);
    QFETCH(QString, path);
    QFETCH(QString, first);
    QFETCH(QString, variable);
    WorkloadSpec workload = workloadOf("ranks");
    workload.mutable_python()->set_kind(kind.toStdString());
    workload.mutable_python()->set_path(path.toStdString());
    const Variables told = environmentOf(workload, rankOf(placesOf(1, "::1"), 0),
                                         {"PATH=/usr/bin:/bin", "PYTHONHOME=/old"});
    const QString rest = kind == "none" ? ":/bin" : ":/usr/bin:/bin";
    QCOMPARE(QString::fromStdString(told.at("PATH")), first + rest);
    QCOMPARE(told.contains("PYTHONHOME"), kind == "none");
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
      if (told.contains(name))
        QCOMPARE(QString("%1=%2").arg(name, QString::fromStdString(told.at(name))), variable);
    if (!variable.isEmpty()) QVERIFY(told.contains(variable.section('=', 0, 0).toStdString()));
  }

  // Of ranks that start at the same time on a node, each has its own.
  void portsAreDistinct() {
    std::set<int> ports;
    std::vector<agent::FreePort> held;
    for (int i = 0; i < 1000; ++i) {
      auto port = agent::freePort();
      QVERIFY2(port.ok(), port.ok() ? "" : port.error().text().c_str());
      QVERIFY(port->port > 0);
      QVERIFY(ports.insert(port->port).second);
      held.push_back(std::move(*port));
    }
  }

  void programsAreFound() {
    QTemporaryDir temporary;
    const std::string root = temporary.path().toStdString();
    for (const char* folder : {"/one", "/two", "/code", "/code/sub"})
      QVERIFY(QDir().mkpath(temporary.path() + folder));
    makeFile(root + "/one/tool", "#!/bin/sh\n", 0600);  // not executable: passed over
    makeFile(root + "/two/tool", "#!/bin/sh\n", 0700);
    makeFile(root + "/one/python3", "#!/bin/sh\n", 0700);
    makeFile(root + "/two/python", "#!/bin/sh\n", 0700);
    makeFile(root + "/code/sub/go.sh", "#!/bin/sh\n", 0700);
    makeFile(root + "/code/plain.py", "print()\n", 0600);
    const std::string path = "/nowhere::" + root + "/one:" + root + "/two";
    const auto found = [&](const std::string& name) {
      const auto out = resolveProgram(name, path, root + "/code");
      return out.ok() ? *out : out.error().text();
    };
    QCOMPARE(found("tool"), root + "/two/tool");
    QCOMPARE(found("python3"), root + "/one/python3");
    QCOMPARE(found("python"), root + "/one/python3");  // the first folder's
    QCOMPARE(found("sub/go.sh"), root + "/code/sub/go.sh");
    QCOMPARE(found("./sub/go.sh"), root + "/code/./sub/go.sh");
    QCOMPARE(found(root + "/two/tool"), root + "/two/tool");

    const auto absent = resolveProgram("absent", path, root);
    QCOMPARE(absent.error().code, Code::kNotFound);
    QVERIFY(absent.error().text().find("it was looked for in /nowhere::") != std::string::npos);
    QVERIFY(absent.error().text().find("workload.python") != std::string::npos);
    const auto missing = resolveProgram("./absent.sh", path, root + "/code");
    QCOMPARE(missing.error().code, Code::kNotFound);
    QVERIFY(missing.error().next.text().find("what git ignores") != std::string::npos);
    const auto nowhere = resolveProgram(root + "/absent.sh", path, root + "/code");
    QVERIFY(nowhere.error().next.text().starts_with("create it on the node"));
  }

  void notExecutable() {
    QTemporaryDir temporary;
    const std::string root = temporary.path().toStdString();
    makeFile(root + "/plain.py", "print()\n", 0600);
    const auto plain = resolveProgram("./plain.py", "/bin", root);
    QVERIFY(!plain.ok());
    QCOMPARE(plain.error().code, Code::kFailedPrecondition);
    QVERIFY(plain.error().text().find("[python3, ./plain.py]") != std::string::npos);
    QVERIFY(!resolveProgram("", "/bin", root).ok());
    QVERIFY(!resolveProgram("./", "/bin", root).ok());
    QVERIFY(!resolveProgram("/", "/bin", root).ok());
  }

  // What cannot become a process says why, at once.
  void whatCannotRun_data() {
    QTest::addColumn<QByteArray>("text");
    QTest::addColumn<QString>("why");
    QTest::newRow("no interpreter named") << QByteArray("print(1)\n") << "first line";
    QTest::newRow("interpreter missing")
        << QByteArray("#!/nowhere/python\nprint(1)\n") << "is not on this node";
    QTest::newRow("another machine's") << QByteArray(
                                              "\x7f"
                                              "ELF\x02\x01\x01 of nothing\n")
                                       << "first line";
    QTest::newRow("nothing") << QByteArray() << "first line";
  }
  void whatCannotRun() {
    QFETCH(QByteArray, text);
    QFETCH(QString, why);
    QTemporaryDir temporary;
    const std::string file = temporary.path().toStdString() + "/a {b}.py";
    makeFile(file, text.toStdString(), 0700);
    const auto program = Program::start({file, {"./a {b}.py"}, {}, "/"});
    QVERIFY(!program.ok());
    QCOMPARE(program.error().code, Code::kFailedPrecondition);
    const QString shown = QString::fromStdString(program.error().text());
    QVERIFY2(shown.contains(why) && shown.contains(QString::fromStdString(file)) &&
                 shown.contains("[python3, ./a {b}.py]"),
             qPrintable(shown));
  }
  void noSuchFolder() {
    const auto program = Program::start(shell("true", "/nowhere/at all"));
    QVERIFY(!program.ok());
    QVERIFY2(program.error().text().find("/nowhere/at all") != std::string::npos,
             program.error().text().c_str());
    QCOMPARE(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
  }

  void argumentsArriveAsTheyAre() {
    QTemporaryDir temporary;
    const std::string root = QFileInfo(temporary.path()).canonicalFilePath().toStdString();
    const std::vector<std::string> odd = {"",
                                          " ",
                                          "a b",
                                          "it's",
                                          "\"q\"",
                                          "two\nlines",
                                          "$HOME",
                                          "*",
                                          "训练",
                                          "\xff\xfe",
                                          "-",
                                          "--",
                                          std::string(100000, 'x')};
    Program::Options options = shell("printf '%s\\0' \"$PWD\" \"$A\" \"$@\"", root);
    options.words.emplace_back("sh");
    options.words.insert(options.words.end(), odd.begin(), odd.end());
    std::string wanted = root + '\0' + "b c" + '\0';
    for (const std::string& word : odd) wanted += word + '\0';
    const Ended ended = finish(options);
    QCOMPARE(ended.status, 0);
    QVERIFY(ended.output == wanted);
  }

  void allOutputArrives_data() {
    QTest::addColumn<qint64>("size");
    QTest::addColumn<QString>("script");
    QTest::newRow("nothing") << qint64{0} << "true";
    QTest::newRow("no newline") << qint64{3} << "printf abc";
    QTest::newRow("both streams") << qint64{6} << "printf abc; printf def >&2";
    QTest::newRow("8 MiB") << (qint64{8} << 20) << "head -c 8388608 /dev/urandom";
    QTest::newRow("in pieces") << qint64{500}
                               << "i=0; while [ $i -lt 100 ]; do printf abcde; i=$((i+1)); done";
    QTest::newRow("at its end") << (qint64{60000}) << "head -c 60000 /dev/zero; exit 0";
  }
  void allOutputArrives() {
    QFETCH(qint64, size);
    QFETCH(QString, script);
    const Ended ended = finish(shell(script.toStdString()));
    QCOMPARE(ended.status, 0);
    QCOMPARE(static_cast<qint64>(ended.output.size()), size);
  }
  void bytesAreNotChanged() {
    QTemporaryDir temporary;
    const std::string file = temporary.path().toStdString() + "/bytes";
    std::mt19937 random(5);
    std::string bytes(3'000'001, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    QVERIFY(writeFileAtomically(file, bytes).ok());
    const Ended ended = finish(shell("cat '" + file + "'"));
    QVERIFY(ended.output == bytes);
  }

  void ends() {
    QCOMPARE(WEXITSTATUS(finish(shell("exit 7")).status), 7);
    QCOMPARE(WEXITSTATUS(finish(shell("exit 127")).status), 127);
    const Ended killed = finish(shell("kill -9 $$"));
    QVERIFY(WIFSIGNALED(killed.status));
    QCOMPARE(WTERMSIG(killed.status), SIGKILL);
    // Signals that the caller ignores have their defaults; stdin is empty.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    const Ended terminated = finish(shell("kill -TERM $$; sleep 5"));
    signal(SIGTERM, SIG_DFL);
    QVERIFY(WIFSIGNALED(terminated.status));
    QCOMPARE(WTERMSIG(terminated.status), SIGTERM);
    QCOMPARE(finish(shell("cat; echo end")).output, std::string("end\n"));
    // No descriptor of the caller's.
    const int open = ::open("/dev/null", O_RDONLY);
    const Ended listed = finish(shell("ls /proc/self/fd"));
    close(open);
    QCOMPARE(listed.output, std::string("0\n1\n2\n3\n"));  // 3: of the folder that ls reads
  }

  void signalsReachIt() {
    auto program = Program::start(
        shell("trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done"));
    QVERIFY(program.ok());
    std::string output;
    const auto take = [&](std::string_view bytes) { output += bytes; };
    while (output.find("ready") == std::string::npos) QVERIFY(program->wait(kSecond, take));
    program->signal(SIGTERM);
    const Nanoseconds began = monotonicNow();
    while (program->wait(kSecond, take)) QVERIFY(monotonicNow() - began < 60 * kSecond);
    QCOMPARE(output, std::string("ready\nsaved\n"));
    QCOMPARE(WEXITSTATUS(program->status()), 3);
    program->signal(SIGTERM);  // to none
  }

  // A process that it started and that has its output open does not keep it from its end.
  void grandchildren_data() {
    QTest::addColumn<QString>("script");
    QTest::newRow("silent") << "sleep 30 & echo $!";
    QTest::newRow("prints for ever") << "(while :; do echo more; done) & echo $!";
    QTest::newRow("in a session of its own") << "setsid sleep 30 & echo $!";
  }
  void grandchildren() {
    QFETCH(QString, script);
    const Ended ended = finish(shell(script.toStdString() + "; echo last; exit 4"));
    QVERIFY(WIFEXITED(ended.status));
    QCOMPARE(WEXITSTATUS(ended.status), 4);
    QVERIFY(ended.output.find("last\n") != std::string::npos);
    QVERIFY2(ended.took < 15 * kSecond, std::to_string(ended.took).c_str());
    QByteArray first = QByteArray::fromStdString(ended.output);
    for (const QByteArray& line : first.split('\n'))
      if (const int pid = line.toInt(); pid > 0) kill(pid, SIGKILL);
  }

  // Also where its parent has no time to end it.
  void itDiesWithItsParent() {
    int tell[2];
    QCOMPARE(pipe(tell), 0);
    const pid_t parent = fork();
    if (parent == 0) {
      auto program = Program::start(shell("sleep 30"));
      const int pid = program.ok() ? program->pid() : 0;
      (void)!write(tell[1], &pid, sizeof pid);
      pause();
      _exit(0);
    }
    int pid = 0;
    QCOMPARE(read(tell[0], &pid, sizeof pid), ssize_t{sizeof pid});
    QVERIFY(pid > 0 && isThere(pid));
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    QTRY_VERIFY_WITH_TIMEOUT(!isThere(pid), 60000);
    for (const int fd : tell) close(fd);
  }
  void itDiesWithItsObject() {
    int pid = 0;
    {
      auto program = Program::start(shell("trap '' TERM; sleep 30"));
      QVERIFY(program.ok());
      pid = program->pid();
      Program moved = std::move(*program);
      QVERIFY(moved.wait(1000, [](std::string_view) {}));
      QVERIFY(isThere(pid));
    }
    QVERIFY(!isThere(pid));
  }
};

QTEST_GUILESS_MAIN(ProgramTest)
#include "program_test.moc"
