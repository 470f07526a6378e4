// What Slurm's commands print, the batch script, and the placement of a cluster spec.
#include <QScopeGuard>
#include <QTest>
#include <thread>

#include "app/slurm/batch_script.h"
#include "app/slurm/job_node.h"
#include "app/slurm/slurm.h"
#include "app/specs/spec_text.h"
#include "app/ssh/run_process.h"
#include "app/ssh/this_machine.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

// As Slurm 22.05 prints it.
constexpr const char* kDetails =
    "JobId=2 JobName=sbatch UserId=u(1) NumNodes=3 NodeList=n[1-3] JOB_GRES=(null)   "
    "Nodes=n[1-2] CPU_IDs=0-3,8 Mem=0 GRES=   Nodes=n3 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1) "
    "MinCPUsNode=1";
constexpr const char* kNodes =
    "NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1 Version=22.05.8 OS=Linux 6.1 \n"
    "NodeName=n2 Arch=x86_64 NodeAddr=n2.cluster NodeHostName=n2 Version=22.05.8 \n";

ClusterSpecFile cluster(const std::string& placement) {
  const auto file =
      completeClusterSpec("version: 1\nname: hpc\nplacement: {" + placement + "}\n", "slurm.yaml");
  return file.ok() ? *file : ClusterSpecFile{nullptr, file.error().text(), {}, {}};
}

std::string refusal(const std::string& placement) {
  const ClusterSpecFile file = cluster(placement);
  return file.spec == nullptr ? file.yaml : "accepted";
}

std::string scriptOf(const std::string& placement) {
  return batchScript(cluster(placement).spec->placement(),
                     {std::string(64, 'a'), "my run/1", false});
}

}  // namespace

class SlurmTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void jobsAreParsed() {
    QCOMPARE(*parseJobNumber("17\n"), std::int64_t{17});
    QCOMPARE(*parseJobNumber("Welcome!\n18;big\n"), std::int64_t{18});
    for (const char* bad : {"", "x", "-3", "0", "12x", "99999999999999999999"})
      QVERIFY2(parseJobNumber(bad).status().code() == Code::kDataLoss, bad);

    auto job = parseJob("PENDING|Resources||2026-01-31T12:00:00\n0                   \n");
    QVERIFY(job.ok());
    QVERIFY(job->phase == SlurmJob::Phase::kQueued);
    QCOMPARE(job->reason, std::string("Resources"));
    QCOMPARE(job->start, std::string("2026-01-31T12:00:00"));
    job = parseJob("RUNNING|None|n[1-2,7],gpu-3|N/A\n2\n");
    QVERIFY(job.ok());
    QVERIFY(job->phase == SlurmJob::Phase::kRunning && job->reason.empty() && job->start.empty());
    QCOMPARE(job->restarts, 2);
    QVERIFY(parseJob("COMPLETING|None|n1|N/A\n0\n")->phase == SlurmJob::Phase::kEnding);
    for (const char* over :
         {"CANCELLED", "TIMEOUT", "FAILED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "COMPLETED"})
      QVERIFY(parseJob(std::string(over) + "|None|n1|N/A\n0\n")->phase == SlurmJob::Phase::kOver);
    for (const char* bad : {"", "PENDING", "PENDING|x||N/A", "pending|x||N/A\n0", "A|b|c|d|e\n0",
                            "RUNNING|None|n1;rm -rf /|N/A\n0", "RUNNING|None||N/A\n0",
                            "RUNNING|None|n1|N/A\n-1", "RUNNING|None|n1|N/A\nx"})
      QVERIFY2(!parseJob(bad).ok(), bad);
  }

  void nodesAreParsed() {
    const auto groups = parseNodeGroups(kDetails);
    QVERIFY(groups.ok());
    QCOMPARE(groups->size(), std::size_t{2});
    QCOMPARE((*groups)[0].nodes, std::string("n[1-2]"));
    QCOMPARE((*groups)[0].cpus, 5);
    QCOMPARE((*groups)[1].cpus, 1);
    for (const char* bad : {"", "NumNodes=2", " Nodes=n1 CPU_IDs=x Mem=0", " Nodes=$(x) CPU_IDs=0",
                            " Nodes=n1 CPU_IDs=3-1", " Nodes=n1 CPU_IDs=0-999999999"})
      QVERIFY2(!parseNodeGroups(bad).ok(), bad);
    const auto nodes = parseNodes(kNodes);
    QVERIFY(nodes.ok());
    QCOMPARE(nodes->size(), std::size_t{2});
    QCOMPARE((*nodes)[1].address, std::string("n2.cluster"));
    QVERIFY(parseNodes("NodeName=a NodeAddr=fe80::1 \n").ok());
    for (const char* bad : {"", "NodeName=a", "NodeName=../x NodeAddr=b", "NodeName=a NodeAddr=;b"})
      QVERIFY2(!parseNodes(bad).ok(), bad);
    QCOMPARE(parseNames("n1\nn2\n")->size(), std::size_t{2});
    QVERIFY(!parseNames("n1\n-n2\n").ok() && !parseNames("").ok());
  }

  void aPlacementIsChecked() {
    QCOMPARE(refusal("kind: slurm, login: me@hpc:2222, nodes: 2, time: 1-12:00:00, qos: high"),
             std::string("accepted"));
    QCOMPARE(refusal("kind: slurm, time: 30"), std::string("accepted"));
    const auto says = [](const std::string& placement, const char* text) {
      const std::string said = refusal(placement);
      QVERIFY2(said.starts_with("slurm.yaml:3:") && said.find(text) != std::string::npos,
               said.c_str());
    };
    says("kind: pbs", "expected one of slurm");
    says("nodes: 0", "at least 1");
    says("nodes: 5000", "expected 1 to 4096");
    says("time: 1h", "HOURS:MINUTES:SECONDS");
    says("time: '1:2:3:4'", "HOURS:MINUTES:SECONDS");
    says("partition: 'a b'", "letters, digits");
    says("account: \"a\\nb\"", "letters, digits");
    says("extra: [constraint=a100]", "option of sbatch");
    says("extra: [\"--x\\n#SBATCH -y\"]", "option of sbatch");
    says("login: -oProxyCommand=x", "[USER@]HOST[:PORT]");
    says("login: 'a:0'", "[USER@]HOST[:PORT]");
    says("workdir: lockstep", "starts with / or ~/");
    const auto both = completeClusterSpec(
        "version: 1\nnodes: [{name: a}]\nplacement: {kind: slurm}\n", "slurm.yaml");
    QVERIFY(!both.ok() && both.error().text().find("expected one of the two") != std::string::npos);
  }

  void expectedNodesArePlanned() {
    const auto file = cluster("login: hpc, nodes: 2, cpus_per_task: 4");
    QCOMPARE(file.spec->nodes_size(), 2);
    QCOMPARE(file.spec->nodes(1).name(), std::string("slurm2"));
    QCOMPARE(file.spec->nodes(1).ssh().host(), std::string("hpc"));
    QCOMPARE(file.spec->nodes(1).devices(0).threads(), 4);
    QVERIFY(specs::awaitsAllocation(*file.spec));
    QCOMPARE(specs::withoutAllocation(*file.spec).nodes_size(), 0);
    const auto gpus = cluster("nodes: 1, gpus_per_node: 8, cpus_per_task: 32").spec->nodes(0);
    QCOMPARE(gpus.devices(0).kind(), std::string("cuda"));
    QCOMPARE(gpus.devices(0).count(), 8);
    QCOMPARE(gpus.devices(0).threads(), 4);
    QVERIFY(!gpus.has_ssh());
    const auto own = cluster("nodes: 1, devices: [{kind: cpu, count: 2}]").spec->nodes(0);
    QCOMPARE(own.devices(0).count(), 2);
  }

  void theScriptSaysWhatWasAskedFor() {
    const std::string script = scriptOf(
        "nodes: 3, partition: gpu, account: ai, qos: high, time: '2:00:00', gpus_per_node: 8, "
        "cpus_per_task: 64, extra: ['--constraint=a100|h100', --exclusive], notice_seconds: 90, "
        "requeue: true");
    for (const char* line :
         {"#SBATCH --job-name=lockstep-myrun1\n", "#SBATCH --nodes=3\n",
          "#SBATCH --ntasks-per-node=1\n", "#SBATCH --partition=gpu\n", "#SBATCH --account=ai\n",
          "#SBATCH --qos=high\n", "#SBATCH --time=2:00:00\n", "#SBATCH --gpus-per-node=8\n",
          "#SBATCH --cpus-per-task=64\n", "#SBATCH --constraint=a100|h100\n",
          "#SBATCH --exclusive\n", "#SBATCH --signal=URG@90\n", "#SBATCH --requeue\n",
          "scontrol requeue", "cpus=--cpus-per-task=64\n"})
      QVERIFY2(script.find(line) != std::string::npos, line);
    const std::string plain = scriptOf("kind: slurm");
    for (const char* absent : {"scontrol requeue", "--partition", "--time", "--gpus", "allow-root"})
      QVERIFY2(plain.find(absent) == std::string::npos, absent);
    QVERIFY(plain.find("#SBATCH --no-requeue\n") != std::string::npos);
    for (const std::string& text : {script, plain}) {
      ProcessOptions options;
      options.input = text;
      const auto checked = runProcess({"sh", "-n"}, std::chrono::seconds(60), {}, options);
      QVERIFY(checked.ok() && checked->exitStatus == 0);
    }
  }

  // Streams of a command on this machine carry all bytes, both ways, until either side ends.
  void commandsOfThisMachineCarryStreams() {
    ThisMachine here("n1");
    QVERIFY(here.connect().ok());
    const auto ran = here.script("echo out; echo err >&2; exit 3\n");
    QVERIFY(ran.ok());
    QCOMPARE(ran->exitStatus, 3);
    QCOMPARE(ran->output + ran->errorOutput, std::string("out\nerr\n"));
    ExecOptions brief;
    brief.timeout = std::chrono::milliseconds(50);
    QVERIFY(here.exec("sleep 20", brief).status().code() == Code::kDeadlineExceeded);
    ExecOptions few;
    few.outputLimit = 1000;
    QVERIFY(here.exec("head -c 1000 /dev/zero", few).ok());
    QVERIFY(here.exec("head -c 1001 /dev/zero", few).status().code() == Code::kResourceExhausted);
    std::stop_source stop;
    std::jthread stopper([&] { stop.request_stop(); });
    QVERIFY(here.exec("sleep 20", {}, stop.get_token()).status().code() == Code::kCancelled);
    const auto socket = here.forward({}, "cat; echo end");
    QVERIFY(socket.ok());
    const std::string text =
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect('" + *socket +
        "')\ndata=bytes(range(256))*4096\nimport threading\n"
        "threading.Thread(target=lambda:(s.sendall(data),s.shutdown(socket.SHUT_WR))).start()\n"
        "got=b''\nwhile True:\n  part=s.recv(65536)\n  if not part: break\n  got+=part\n"
        "sys.exit(got!=data+b'end\\n')\n";
    const auto echoed = runProcess({"python3", "-c", text}, std::chrono::seconds(60));
    QVERIFY(echoed.ok());
    QCOMPARE(echoed->exitStatus, 0);
    here.close();
    QVERIFY(::access(socket->c_str(), F_OK) != 0);
  }

  // A host without Slurm: what the shell says is in the error.
  void errorsNameTheCommand() {
    const QByteArray path = qgetenv("PATH");
    qputenv("PATH", "/nonexistent");
    const auto restore = qScopeGuard([&] { qputenv("PATH", path); });
    ThisMachine here("n1");
    const auto job = Slurm(here).job(1, {});
    QVERIFY(!job.ok());
    const std::string text = job.error().text();
    QVERIFY2(text.find("`squeue --noheader") != std::string::npos &&
                 text.find("status 127") != std::string::npos,
             text.c_str());
  }
};

QTEST_GUILESS_MAIN(SlurmTest)
#include "slurm_test.moc"
