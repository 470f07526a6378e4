// Runs of a program of the user's own: defaults, what is refused, and where its ranks are.
#include "engine/specs/workload.h"

#include <QTest>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "engine/specs/planned.h"
#include "engine/specs/specs.h"

using namespace lockstep;
using namespace lockstep::specs;
using spec::v1::ClusterSpec;
using spec::v1::NodeSpec;
using spec::v1::RunSpec;
using spec::v1::WorkloadSpec;

namespace {

RunSpec programOf(const std::vector<std::string>& command) {
  RunSpec run;
  run.mutable_workload()->mutable_command()->Add(command.begin(), command.end());
  return run;
}

QString messageOf(const Status& status) {
  return status.ok()
             ? QString("no error")
             : QString::fromStdString(status.error().field + " | " + status.error().what.text());
}

struct Wrong {
  const char* name;
  std::function<void(RunSpec& run, WorkloadSpec& workload)> change;  // of a right one
  const char* message;                                               // field | what is wrong
};
const Wrong kWrong[] = {
    {"model", [](RunSpec& run, WorkloadSpec&) { run.mutable_model()->set_name("m"); },
     "model | model is not used with workload, whose program does this itself; expected it left "
     "out"},
    {"data", [](RunSpec& run, WorkloadSpec&) { run.mutable_data(); }, "data | data is not used"},
    {"training", [](RunSpec& run, WorkloadSpec&) { run.mutable_training()->set_batch(8); },
     "training | training is not used"},
    {"strategy", [](RunSpec& run, WorkloadSpec&) { run.mutable_strategy()->set_kind("zero-1"); },
     "strategy | strategy is not used"},
    {"no command", [](RunSpec&, WorkloadSpec& workload) { workload.clear_command(); },
     "workload.command | "},
    {"empty program", [](RunSpec&, WorkloadSpec& workload) { workload.set_command(0, ""); },
     "workload.command | command is missing"},
    {"variable with a dash",
     [](RunSpec&, WorkloadSpec& workload) { (*workload.mutable_env())["A-B"] = "1"; },
     "workload.env[A-B] | \"A-B\" is not the name of an environment variable"},
    {"variable that begins with a digit",
     [](RunSpec&, WorkloadSpec& workload) { (*workload.mutable_env())["1A"] = "1"; },
     "workload.env[1A] | "},
    {"variable with an equals sign",
     [](RunSpec&, WorkloadSpec& workload) { (*workload.mutable_env())["A=B"] = "1"; },
     "workload.env[A=B] | "},
    {"variable without a name",
     [](RunSpec&, WorkloadSpec& workload) { (*workload.mutable_env())[""] = "1"; },
     "workload.env[] | \"\" is not the name"},
    {"pattern",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.mutable_metrics()->add_stdout("(?P<a>1)");
       workload.mutable_metrics()->add_stdout("loss=(");
     },
     "workload.metrics.stdout[1] | not a regular expression: missing )"},
    {"pattern without a name",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_metrics()->add_stdout("loss=(.*)"); },
     "workload.metrics.stdout[0] | no group has a name"},
    {"python without a folder",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_python()->set_kind("venv"); },
     "workload.python.path | workload.python.kind is venv, and its folder is missing"},
    {"kind of python",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_python()->set_kind("pyenv"); },
     "workload.python.kind | "},
    {"folder of no python",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_python()->set_path("/usr/bin"); },
     "workload.python.path | "},
    {"launcher", [](RunSpec&, WorkloadSpec& workload) { workload.set_launcher("srun"); },
     "workload.launcher | "},
    {"several of a single one",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.set_launcher("single");
       workload.set_ranks_per_node(2);
     },
     "workload.ranks_per_node | workload.ranks_per_node is 2, but launcher single starts one"},
    {"image of a container",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_python()->set_kind("apptainer"); },
     "workload.python.path | workload.python.kind is apptainer"},
    {"bound folder",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.mutable_python()->set_kind("apptainer");
       workload.mutable_python()->set_path("a.sif");
       workload.mutable_python()->add_binds("/data");
       workload.mutable_python()->add_binds("data");
     },
     "workload.python.binds[1] | \"data\" is not the absolute path"},
    {"bound folders of no container",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_python()->add_binds("/data"); },
     "workload.python.binds | "},
    {"setup without code",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.add_setup("make");
       workload.mutable_code()->set_disabled(true);
     },
     "workload.setup | setup runs in the program's copy of the code"},
    {"no command of setup",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.add_setup("make");
       workload.add_setup("");
     },
     "workload.setup[1] | a command of setup is empty"},
    {"files of any folder",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.mutable_artifacts()->add_collect("*.pt");
       workload.mutable_artifacts()->add_collect("/data/*.pt");
     },
     "workload.artifacts.collect[1] | \"/data/*.pt\" is not a pattern of files below"},
    {"files above",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.mutable_artifacts()->add_collect("a/../../*");
     },
     "workload.artifacts.collect[0] | "},
    {"no size of files",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_artifacts()->set_max_bytes(-1); },
     "workload.artifacts.max_bytes | "},
    {"ranks", [](RunSpec&, WorkloadSpec& workload) { workload.set_ranks_per_node(-1); },
     "workload.ranks_per_node | "},
    {"many ranks", [](RunSpec&, WorkloadSpec& workload) { workload.set_ranks_per_node(4097); },
     "workload.ranks_per_node | "},
    {"size of the code",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.mutable_code()->set_max_bytes((std::int64_t{1} << 30) + 1);
     },
     "workload.code.max_bytes | "},
    {"none beside hooks",
     [](RunSpec&, WorkloadSpec& workload) {
       for (const char* hook : {"c10d", "none"}) workload.mutable_metrics()->add_hooks(hook);
     },
     "workload.metrics.hooks | hooks has none beside others"},
    {"unknown hook",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_metrics()->add_hooks("cupti"); },
     "workload.metrics.hooks[0] | "},
    {"unknown failure",
     [](RunSpec&, WorkloadSpec& workload) { workload.mutable_restart()->add_on("crash"); },
     "workload.restart.on[0] | "},
    {"restarts twice",
     [](RunSpec& run, WorkloadSpec& workload) {
       run.mutable_recovery()->set_max_restarts(3);
       workload.mutable_restart()->set_max(3);
     },
     "recovery.max_restarts | workload.restart.max and recovery.max_restarts are both given"},
    {"failures twice",
     [](RunSpec& run, WorkloadSpec& workload) {
       run.mutable_recovery()->add_on("exit");
       workload.mutable_restart()->add_on("hang");
     },
     "recovery.on | workload.restart.on and recovery.on are both given"},
    {"hooks twice",
     [](RunSpec&, WorkloadSpec& workload) {
       workload.set_no_hooks(true);
       workload.mutable_metrics()->add_hooks("ddp");
     },
     "workload.no_hooks | workload.metrics.hooks and workload.no_hooks are both given"},
    {"policy", [](RunSpec& run, WorkloadSpec&) { run.mutable_recovery()->set_policy("hope"); },
     "recovery.policy | "},
};

constexpr const char* kLaunchers[] = {"ranks", "torchrun", "mpi", "single"};

// Nodes of all roles and kinds of devices, one of them a worker.
ClusterSpec randomCluster(std::mt19937& random) {
  ClusterSpec out;
  const int count = 1 + static_cast<int>(random() % 7);
  const int worker = static_cast<int>(random()) % count;
  bool hasEvaluator = false;
  for (int i = 0; i < count; ++i) {
    NodeSpec& node = *out.add_nodes();
    node.set_name(fmt::format("n{}", i));
    static constexpr const char* kRoles[] = {"", "worker", "chief", "ps", "evaluator", "spare"};
    const std::string role = i == std::abs(worker) ? "worker" : kRoles[random() % 6];
    if (!role.empty() && !(role == "evaluator" && std::exchange(hasEvaluator, true)))
      node.add_roles(role);
    for (int device = static_cast<int>(random() % 4); device > 0; --device) {
      auto& added = *node.add_devices();
      added.set_kind(random() % 2 == 0 ? "cpu" : "cuda");
      added.set_count(static_cast<int>(random() % 5));
      added.set_threads(static_cast<int>(random() % 3));
      if (added.kind() == "cuda" && added.count() > 1)
        added.set_gpus(static_cast<int>(random()) % added.count() == 0 ? 0 : 1);
    }
  }
  return out;
}

bool hasRole(const NodeSpec& node, std::string_view role) {
  return std::find(node.roles().begin(), node.roles().end(), role) != node.roles().end();
}

int rankCount(const ClusterSpec& cluster) {
  int out = 0;
  for (const NodeSpec* node : nodesWithRanks(cluster, {})) out += deviceCount(*node);
  return out;
}

// How many ranks the run has on the cluster, from the meaning of its fields.
int expectedRanks(const WorkloadSpec& workload, const ClusterSpec& cluster) {
  if (workload.launcher() == "single") return 1;
  int out = 0;
  for (const NodeSpec* node : nodesWithRanks(cluster, {}))
    out += workload.ranks_per_node() > 0 ? workload.ranks_per_node() : deviceCount(*node);
  return out;
}

}  // namespace

class WorkloadTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void defaults() {
    RunSpec run = programOf({"python", "a/train.py", "--lr", "1"});
    QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
    const WorkloadSpec& workload = run.workload();
    QCOMPARE(run.version(), 1);
    QCOMPARE(workload.name(), std::string("train"));
    QCOMPARE(workload.launcher(), std::string("ranks"));
    QCOMPARE(workload.ranks_per_node(), 0);
    QCOMPARE(workload.code().from(), std::string("."));
    QCOMPARE(workload.code().exclude(), std::string(".lockstepignore"));
    QCOMPARE(workload.code().max_bytes(), std::int64_t{256} << 20);
    QCOMPARE(workload.python().kind(), std::string("none"));
    QVERIFY(workload.has_metrics());
    QCOMPARE(workload.artifacts().max_bytes(), std::int64_t{10} << 30);
    QVERIFY(!run.recovery().policy().empty());
    QCOMPARE(workload.restart().max(), 10);
    QVERIFY(workload.metrics().mlflow());
    for (const bool has : {run.has_model(), run.has_data(), run.has_training(), run.has_strategy()})
      QVERIFY(!has);
    QVERIFY(!takesCheckpoints(run));
    RunSpec again = run;
    QCOMPARE(messageOf(checkAndFill(again)), QString("no error"));
    QCOMPARE(again.SerializeAsString(), run.SerializeAsString());
  }

  void refusals_data() {
    QTest::addColumn<int>("index");
    for (int i = 0; i < static_cast<int>(std::size(kWrong)); ++i)
      QTest::newRow(kWrong[i].name) << i;
  }
  void refusals() {
    QFETCH(int, index);
    const Wrong& wrong = kWrong[index];
    RunSpec run = programOf({"python", "train.py"});
    wrong.change(run, *run.mutable_workload());
    const QString message = messageOf(checkAndFill(run));
    QVERIFY2(message.startsWith(wrong.message), qPrintable(message));
  }

  // Each of what an error offers to do about it resolves it.
  void remediesHelp() {
    RunSpec run = programOf({"python", "train.py"});
    run.mutable_workload()->set_launcher("single");
    run.mutable_workload()->set_ranks_per_node(2);
    RunSpec wrong = run;
    const Status status = checkAndFill(wrong);
    QVERIFY(!status.ok());
    QCOMPARE(status.error().remedies.size(), std::size_t{2});
    RunSpec ranks = run;
    ranks.mutable_workload()->set_launcher("ranks");
    QCOMPARE(messageOf(checkAndFill(ranks)), QString("no error"));
    run.mutable_workload()->clear_ranks_per_node();
    QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
  }

  void hooks() {
    RunSpec run = programOf({"a"});
    QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
    const std::vector<std::string> all = hooksOf(run.workload());
    QCOMPARE(all, (std::vector<std::string>{"c10d", "ddp", "wandb", "transformers", "lightning",
                                            "keras", "tensorflow", "jax", "stacks", "mlflow"}));
    auto& metrics = *run.mutable_workload()->mutable_metrics();
    metrics.add_hooks("ddp");
    QCOMPARE(hooksOf(run.workload()), (std::vector<std::string>{"ddp", "mlflow"}));
    metrics.set_mlflow(false);
    QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
    QCOMPARE(hooksOf(run.workload()), std::vector<std::string>{"ddp"});
    metrics.set_mlflow(true);
    metrics.set_hooks(0, "none");
    QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
    QVERIFY(hooksOf(run.workload()).empty());
  }

  // An agent reads them of an older client; checkAndFill() moves them.
  void formerFields() {
    RunSpec run = programOf({"a"});
    run.mutable_workload()->set_no_hooks(true);
    run.mutable_workload()->set_hang_seconds(7);
    for (const bool isMoved : {false, true}) {
      if (isMoved) QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
      QVERIFY(hooksOf(run.workload()).empty());
      QCOMPARE(hangSecondsOf(run.workload()), 7);
    }
    QVERIFY(!run.workload().no_hooks());
    QCOMPARE(run.workload().hang_seconds(), 0);
    QCOMPARE(run.workload().restart().hang_seconds(), 7);
  }

  void recoveryIsAsRestartSays() {
    RunSpec run = programOf({"a"});
    run.mutable_workload()->mutable_restart()->set_max(3);
    run.mutable_workload()->mutable_restart()->add_on("hang");
    run.mutable_recovery()->set_policy("shrink");
    QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
    const spec::v1::RecoverySpec recovery = recoveryOf(run);
    QCOMPARE(recovery.policy(), std::string("shrink"));
    QCOMPARE(recovery.max_restarts(), 3);
    QCOMPARE(recovery.on_size(), 1);
    QCOMPARE(recovery.on(0), std::string("hang"));
    QVERIFY(recovery.heartbeat_ms() > 0);
    // As it is written for a model.
    RunSpec moved = programOf({"a"});
    moved.mutable_recovery()->set_max_restarts(4);
    moved.mutable_recovery()->add_on("exit");
    QCOMPARE(messageOf(checkAndFill(moved)), QString("no error"));
    QCOMPARE(moved.workload().restart().max(), 4);
    QCOMPARE(moved.workload().restart().on(0), std::string("exit"));
    QCOMPARE(recoveryOf(moved).max_restarts(), 4);
    QCOMPARE(recoveryOf(moved).on_size(), 1);
    RunSpec model;
    model.mutable_recovery()->set_max_restarts(7);
    QCOMPARE(recoveryOf(model).max_restarts(), 7);
  }

  void names_data() {
    QTest::addColumn<QStringList>("command");
    QTest::addColumn<QString>("name");
    QTest::newRow("nothing") << QStringList{} << "program";
    QTest::newRow("program") << QStringList{"/opt/bin/trainer"} << "trainer";
    QTest::newRow("script") << QStringList{"python3", "-u", "sub/fit.py", "x.py"} << "fit";
    QTest::newRow("shell") << QStringList{"bash", "./go.sh"} << "go";
    QTest::newRow("script alone") << QStringList{"./fit.py", "--a"} << "fit";
    QTest::newRow("module") << QStringList{"python", "-m", "pkg.train"} << "python";
    QTest::newRow("folder") << QStringList{"/"} << "program";
    QTest::newRow("any UTF-8") << QStringList{"python", "训练.py"} << "训练";
  }
  void names() {
    QFETCH(QStringList, command);
    QFETCH(QString, name);
    RunSpec run = programOf({});
    for (const QString& word : command) run.mutable_workload()->add_command(word.toStdString());
    QCOMPARE(QString::fromStdString(nameOf(run)), name);
    run.mutable_workload()->set_name("mine");
    QCOMPARE(nameOf(run), std::string("mine"));
    RunSpec model;
    model.mutable_model()->set_name("net");
    QCOMPARE(nameOf(model), std::string("net"));
  }

  void everyNodeHasItsRanks() {
    std::mt19937 random(11);
    for (int round = 0; round < 2000; ++round) {
      RunSpec run = programOf({"a"});
      WorkloadSpec& workload = *run.mutable_workload();
      workload.set_launcher(kLaunchers[random() % 4]);
      if (workload.launcher() != "single")
        workload.set_ranks_per_node(static_cast<int>(random() % 6));
      QCOMPARE(messageOf(checkAndFill(run)), QString("no error"));
      const ClusterSpec cluster = randomCluster(random);
      const std::string shown = cluster.DebugString() + workload.launcher();
      const Status valid = toCluster(cluster, {}, {}).status();
      QVERIFY2(valid.ok(), shown.c_str());

      const ClusterSpec out = placed(run, cluster);
      QCOMPARE(placed(run, out).SerializeAsString(), out.SerializeAsString());
      QVERIFY2(rankCount(out) == expectedRanks(workload, cluster), shown.c_str());
      QVERIFY(std::none_of(out.nodes().begin(), out.nodes().end(),
                           [](const NodeSpec& node) { return hasRole(node, "evaluator"); }));
      // The nodes, their order and what waits to take over are those of the cluster.
      int next = 0;
      std::size_t spares = 0;
      for (const NodeSpec& node : cluster.nodes()) {
        if (hasRole(node, "evaluator")) continue;
        QVERIFY(next < out.nodes_size());
        QCOMPARE(out.nodes(next++).name(), node.name());
        if (hasRole(node, "spare")) ++spares;
      }
      QCOMPARE(out.nodes_size(), next);
      const std::size_t others =
          workload.launcher() == "single" ? nodesWithRanks(cluster, {}).size() - 1 : 0;
      QVERIFY2(spareNodes(out).size() == spares + others, shown.c_str());
      // The first rank is on the first node with ranks.
      QCOMPARE(nodesWithRanks(out, {}).front()->name(),
               nodesWithRanks(cluster, {}).front()->name());
      const auto planned = makePlanned(run, cluster, {}, {});
      QVERIFY2(planned.ok(), planned.ok() ? "" : planned.error().text().c_str());
      QCOMPARE(planned->plan.mesh.size(), rankCount(out));
      QCOMPARE(static_cast<int>(planned->cluster.devices.size()), rankCount(out));
    }
  }

  void theLastNodesAreTheSpares() {
    std::mt19937 random(14);
    int refused = 0, kept = 0;
    for (int round = 0; round < 300; ++round) {
      const ClusterSpec cluster = randomCluster(random);
      spec::v1::RecoverySpec recovery;
      recovery.set_spares(static_cast<int>(random() % 5));
      const std::string shown = fmt::format("{}{}", cluster.DebugString(), recovery.spares());
      const std::size_t before = spareNodes(cluster).size();
      const auto wanted = std::max(before, static_cast<std::size_t>(recovery.spares()));
      const std::size_t working = nodesWithRanks(cluster, {}).size();
      const auto out = withSpares(recovery, cluster);
      if (wanted - before >= working) {
        ++refused;
        QVERIFY2(!out.ok() && out.error().field == "recovery.spares", shown.c_str());
        continue;
      }
      QVERIFY2(out.ok(), shown.c_str());
      QVERIFY2(spareNodes(*out).size() == wanted, shown.c_str());
      QCOMPARE(withSpares(recovery, *out)->SerializeAsString(), out->SerializeAsString());
      if (wanted == before) {
        ++kept;
        QCOMPARE(out->SerializeAsString(), cluster.SerializeAsString());
      }
      // The first nodes with ranks still have theirs, and the rest is as it was.
      const auto left = nodesWithRanks(*out, {}), all = nodesWithRanks(cluster, {});
      for (std::size_t i = 0; i < left.size(); ++i) QCOMPARE(left[i]->name(), all[i]->name());
      QCOMPARE(left.size(), working - (wanted - before));
      QCOMPARE(out->nodes_size(), cluster.nodes_size());
    }
    QVERIFY(refused > 20 && kept > 20);
  }

  void otherRunsStayWhereTheyAre() {
    std::mt19937 random(12);
    RunSpec run;
    run.mutable_model()->set_name("m");
    for (int round = 0; round < 100; ++round) {
      const ClusterSpec cluster = randomCluster(random);
      QCOMPARE(placed(run, cluster).SerializeAsString(), cluster.SerializeAsString());
    }
    QVERIFY(takesCheckpoints(run));
  }

  void thePlanIsOfItsRanksAlone() {
    for (const int ranks : {1, 2, 3, 64, kMaxRanks}) {
      const RunSpec run = programOf({"python", "a b \"c\".py"});
      const plan::Plan plan = programPlan(run, ranks);
      const Status verified = plan::verify(plan);
      QVERIFY2(verified.ok(), verified.ok() ? "" : verified.error().text().c_str());
      const std::string text = plan::text(plan);
      const auto parsed = plan::parse(text);
      QVERIFY2(parsed.ok(), parsed.ok() ? "" : parsed.error().text().c_str());
      QVERIFY(*parsed == plan);
      QCOMPARE(plan::text(*parsed), text);
      QCOMPARE(parsed->mesh.size(), ranks);
      QCOMPARE(parsed->strategy, std::string(kProgramStrategy));
      QCOMPARE(plan.logicalStateBytes(), std::int64_t{0});
    }
  }
};

QTEST_GUILESS_MAIN(WorkloadTest)
#include "workload_test.moc"
