// The objects of a job in Kubernetes, what kubectl prints, the placement of a cluster spec, and
// files sent as the input of commands. tests/kubernetes_schema checks the objects against the
// schemas of Kubernetes.
#include <unistd.h>

#include <QDir>
#include <QScopeGuard>
#include <QTemporaryDir>
#include <QTest>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/cluster/allocation.h"
#include "app/deploy/stream_files.h"
#include "app/kubernetes/kubectl.h"
#include "app/kubernetes/manifest.h"
#include "app/specs/spec_text.h"
#include "app/ssh/run_process.h"
#include "app/ssh/this_machine.h"
#include "engine/base/file.h"
#include "engine/specs/placement.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::app;
using nlohmann::json;

namespace {

using Phase = JobState::Phase;

ClusterSpecFile cluster(const std::string& placement) {
  const auto file = completeClusterSpec(
      "version: 1\nname: k8s\nplacement: {kind: kubernetes, " + placement + "}\n", "k8s.yaml");
  return file.ok() ? *file : ClusterSpecFile{nullptr, file.error().text(), {}, {}};
}

json manifest(const std::string& placement) {
  return jobManifest(cluster(placement).spec->placement(), 12, "my \"run\"");
}

json listOf(std::initializer_list<json> items) {
  json out = json::array();
  for (const json& item : items) out.push_back(item);
  return out;
}
json pod(int index, const json& status, const std::string& name = "") {
  return {
      {"kind", "Pod"},
      {"metadata",
       {{"name", name.empty() ? "lockstep-12-" + std::to_string(index) : name},
        {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(index)}}}}},
      {"status", status}};
}
json running(const std::string& address) {
  const json state{{"state", {{"running", {{"startedAt", "x"}}}}}};
  return {{"phase", "Running"}, {"podIP", address}, {"containerStatuses", listOf({state})}};
}
json condition(const std::string& type, const std::string& reason, const std::string& status) {
  return {{"type", type}, {"status", status}, {"reason", reason}, {"message", "said"}};
}
json job(std::initializer_list<json> conditions = {}, bool suspended = false) {
  return {{"kind", "Job"},
          {"metadata", {{"name", "lockstep-12"}}},
          {"spec", {{"suspend", suspended}}},
          {"status", {{"conditions", listOf(conditions)}}}};
}
KubernetesJob parsed(std::initializer_list<json> items) {
  const auto out = parsePods(json{{"items", listOf(items)}}.dump(), 2);
  if (out.ok()) return *out;
  KubernetesJob refused;
  refused.state = out.error().text();
  return refused;
}

// Files that go to it only as the input of commands of this machine's shell.
class CommandsOnly final : public JobHost {
 public:
  CommandsOnly() : JobHost(std::make_unique<ThisMachine>("n1"), "env", false) {}
  Result<JobState> look(std::stop_token) override { return JobState(); }
};

}  // namespace

class KubernetesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void aPlacementIsChecked() {
    const auto refusal = [](const std::string& placement) {
      const ClusterSpecFile file = cluster(placement);
      return file.spec == nullptr ? file.yaml : std::string("accepted");
    };
    QCOMPARE(refusal("image: 'r.io/a/b:1@sha256:0', namespace: ml, context: me@hpc, memory: 1.5Gi, "
                     "queue: team-a, nodes: 2, time: 1-12:00:00, node_selector: {a.b/c: d}, "
                     "volume_claim: data, requeue: true, workdir: /data"),
             std::string("accepted"));
    const auto says = [&](const std::string& placement, const char* text) {
      const std::string said = refusal(placement);
      QVERIFY2(said.starts_with("k8s.yaml:3:") && said.find(text) != std::string::npos,
               said.c_str());
    };
    says("nodes: 2", "image is missing");
    says("image: 'a b'", "no spaces");
    says("image: -a", "no spaces");
    says("image: a, namespace: My_space", "lower-case letters");
    says("image: a, context: --token=x", "no spaces");
    says("image: a, queue: 'q\"'", "lower-case letters");
    says("image: a, memory: 64 GB", "a size like 64Gi");
    says("image: a, memory: 1.2.3Gi", "a size like 64Gi");
    says("image: a, node_selector: {'a b': c}", "not one of Kubernetes");
    says("image: a, workdir: ~/x", "path of a pod");
    says("image: a, requeue: true", "volume_claim is missing");
    says("image: a, login: hpc", "not used with kind kubernetes");
    says("image: a, time: 1h", "HOURS:MINUTES:SECONDS");
    const auto slurm = completeClusterSpec(
        "version: 1\nname: hpc\nplacement: {kind: slurm, image: a}\n", "slurm.yaml");
    QVERIFY(!slurm.ok());
    QVERIFY(slurm.error().text().find("not used with kind slurm") != std::string::npos);
  }

  void timeLimitsAreSeconds() {
    const auto seconds = [](const char* text) {
      return specs::timeLimitSeconds(text).value_or(-1);
    };
    QCOMPARE(seconds("90"), std::int64_t{5400});
    QCOMPARE(seconds("2:30"), std::int64_t{150});
    QCOMPARE(seconds("8:00:01"), std::int64_t{28801});
    QCOMPARE(seconds("1-12"), std::int64_t{129600});
    QCOMPARE(seconds("1-0:30"), std::int64_t{88200});
    QCOMPARE(seconds("1-12:00:05"), std::int64_t{129605});
    for (const char* bad : {"", "1h", "1:2:3:4", "-", "1-", "1-2:3:4:5", ":", "1::2", "9999999"})
      QCOMPARE(seconds(bad), std::int64_t{-1});
  }

  void expectedPodsArePlanned() {
    const auto file = cluster("image: a, nodes: 2, gpus_per_node: 8, cpus_per_task: 32");
    QCOMPARE(file.spec->nodes_size(), 2);
    QCOMPARE(file.spec->nodes(1).name(), std::string("pod2"));
    QCOMPARE(file.spec->nodes(1).devices(0).count(), 8);
    QVERIFY(!file.spec->nodes(0).has_ssh() && specs::awaitsAllocation(*file.spec));
  }

  void theManifestSaysWhatWasAskedFor() {
    const json made = manifest(
        "image: 'r.io/x:1', nodes: 3, gpus_per_node: 8, cpus_per_task: 16, memory: 64Gi, time: "
        "'2:00:00', queue: team-a, service_account: trainer, node_selector: {gpu: a100}, "
        "volume_claim: data, notice_seconds: 90, workdir: /data");
    const json& spec = made["spec"];
    QCOMPARE(made["metadata"]["name"].dump(), json("lockstep-12").dump());
    QCOMPARE(made["metadata"]["annotations"]["lockstep-run"].dump(), json("my \"run\"").dump());
    QCOMPARE(made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].dump(), json("team-a").dump());
    QCOMPARE(spec["completionMode"].dump(), json("Indexed").dump());
    QVERIFY(spec["completions"] == 3 && spec["parallelism"] == 3);
    QCOMPARE(spec["activeDeadlineSeconds"].dump(), json(7200).dump());
    const json& pods = spec["template"]["spec"];
    QVERIFY(!spec["template"]["metadata"]["labels"].contains("kueue.x-k8s.io/queue-name"));
    QCOMPARE(pods["terminationGracePeriodSeconds"].dump(), json(90).dump());
    QCOMPARE(pods["serviceAccountName"].dump(), json("trainer").dump());
    QVERIFY(!pods.contains("automountServiceAccountToken") && !pods.contains("schedulerName"));
    QCOMPARE(pods["nodeSelector"].dump(), std::string("{\"gpu\":\"a100\"}"));
    QCOMPARE(pods["volumes"][0]["persistentVolumeClaim"]["claimName"].dump(), json("data").dump());
    const json& container = pods["containers"][0];
    QCOMPARE(container["image"].dump(), json("r.io/x:1").dump());
    QCOMPARE(container["resources"]["limits"].dump(),
             std::string("{\"cpu\":\"16\",\"memory\":\"64Gi\",\"nvidia.com/gpu\":\"8\"}"));
    QCOMPARE(container["volumeMounts"][0]["mountPath"].dump(), json("/data").dump());
    const json service = serviceManifest(12, "u-1");
    QCOMPARE(service["spec"]["clusterIP"].dump(), json("None").dump());
    QCOMPARE(service["metadata"]["name"].dump(), pods["subdomain"].dump());
    QCOMPARE(service["metadata"]["ownerReferences"][0]["uid"].dump(), json("u-1").dump());
    const json& labels = spec["template"]["metadata"]["labels"];
    for (const auto& [label, value] : service["spec"]["selector"].items())
      QCOMPARE(labels[label].dump(), value.dump());
  }

  void volcanoPlacesAllPodsOrNone() {
    const json made = manifest("image: a, nodes: 3, scheduler: volcano, queue: team-a");
    QCOMPARE(made["spec"]["template"]["spec"]["schedulerName"].dump(), json("volcano").dump());
    const json& annotations = made["spec"]["template"]["metadata"]["annotations"];
    QCOMPARE(annotations["scheduling.volcano.sh/group-min-member"].dump(), json("3").dump());
    QCOMPARE(annotations["scheduling.volcano.sh/queue-name"].dump(), json("team-a").dump());
    QVERIFY(!made["metadata"]["labels"].contains("kueue.x-k8s.io/queue-name"));
    const json& pods = made["spec"]["template"]["spec"];
    QCOMPARE(pods["automountServiceAccountToken"].dump(), json(false).dump());
    QVERIFY(pods["volumes"][0].contains("emptyDir"));
  }

  void theCommandOfAPodIsAScript() {
    const json command =
        manifest("image: a")["spec"]["template"]["spec"]["containers"][0]["command"];
    const auto script = command[2].get<std::string>();
    ProcessOptions options;
    options.input = script;
    const auto checked = runProcess({"sh", "-n"}, std::chrono::seconds(60), {}, options);
    QVERIFY2(checked.ok(), checked.ok() ? "" : checked.error().text().c_str());
    QVERIFY2(checked->exitStatus == 0, checked->errorOutput.c_str());
    QCOMPARE(command[4].dump(), json("/lockstep/kubernetes/12").dump());
  }

  void jobsAreParsed() {
    KubernetesJob now = parsed({job(), pod(1, running("10.0.0.2")), pod(0, running("10.0.0.1"))});
    QVERIFY2(now.phase == Phase::kRunning && !now.stopped, now.state.c_str());
    QCOMPARE(now.pods[0].address, std::string("10.0.0.1"));
    QVERIFY(parsed({job(), pod(0, running("10.0.0.1"))}).phase == Phase::kQueued);  // of two
    QVERIFY(parsed({job(), pod(0, running("")), pod(1, running("1.2.3.4"))}).phase ==
            Phase::kQueued);
    now = parsed({job({}, true)});
    QVERIFY(now.phase == Phase::kQueued && now.state == "Suspended" && now.stopped);
    QVERIFY(parsed({}).phase == Phase::kOver);
    now = parsed({job({condition("FailureTarget", "DeadlineExceeded", "True")})});
    QVERIFY(now.phase == Phase::kEnding && now.stopped);
    now = parsed({job({condition("Failed", "DeadlineExceeded", "True")})});
    QVERIFY(now.phase == Phase::kOver && now.stopped);
    QCOMPARE(now.reason, std::string("DeadlineExceeded: said"));
    now = parsed({job({condition("Failed", "FailedIndexes", "True")})});
    QVERIFY(now.phase == Phase::kOver && now.stopped);
    now = parsed({job({condition("Complete", "x", "True")})});
    QVERIFY(now.phase == Phase::kOver && !now.stopped);
    QVERIFY(parsed({job({condition("Failed", "x", "False")})}).phase == Phase::kQueued);
  }

  // Why a pod waits or has failed.
  void reasonsAreTold() {
    const json unschedulable{
        {"phase", "Pending"},
        {"conditions", listOf({condition("PodScheduled", "Unschedulable", "False")})}};
    KubernetesJob now = parsed({job(), pod(0, running("10.0.0.1")), pod(1, unschedulable)});
    QVERIFY(now.phase == Phase::kQueued && now.state == "Pending");
    QCOMPARE(now.reason, std::string("Unschedulable: said"));
    const json waiting{
        {"state", {{"waiting", {{"reason", "ImagePullBackOff"}, {"message", "no such image"}}}}}};
    const json pulling{{"phase", "Pending"}, {"containerStatuses", listOf({waiting})}};
    now = parsed({job(), pod(0, pulling), pod(1, running("10.0.0.1"))});
    QCOMPARE(now.reason, std::string("ImagePullBackOff: no such image"));
    const json failed{{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "no disk"}};
    now = parsed({job(), pod(0, running("10.0.0.1")), pod(1, failed)});
    QVERIFY(now.phase == Phase::kOver);
    QCOMPARE(now.reason, std::string("Evicted: no disk"));
    json evicted = running("10.0.0.1");
    evicted["conditions"] = listOf({condition("DisruptionTarget", "x", "True")});
    QVERIFY(parsed({job(), pod(0, evicted), pod(1, running("10.0.0.2"))}).stopped);
  }

  void otherOutputIsRefused() {
    for (const char* bad : {"", "x", "[]", "{}", "{\"items\":3}"})
      QVERIFY2(parsePods(bad, 1).status().code() == Code::kDataLoss, bad);
    for (const auto& one : {pod(0, running("10.0.0.1"), "a b"), pod(0, running("$(x)")),
                            pod(0, running("10.0.0.1"), "-x"), pod(0, json{{"phase", "a b"}}),
                            pod(-1, running("10.0.0.1"), "p"), json{{"kind", "Pod"}}})
      QVERIFY2(!parsePods(json{{"items", listOf({job(), one})}}.dump(), 1).ok(),
               one.dump().c_str());
    for (const char* bad : {"", "{}", "{\"metadata\":{\"uid\":\"a b\"}}", "{\"metadata\":[]}"})
      QVERIFY2(!parseUid(bad).ok(), bad);
  }

  void wordsAreQuoted() {
    const auto file = cluster("image: a, context: 'a$(x)', namespace: ml");
    QCOMPARE(podPrefix(file.spec->placement(), "p-0"),
             std::string("kubectl '--context=a$(x)' '--namespace=ml' exec -i 'p-0' "
                         "--container=lockstep --"));
    QCOMPARE(podShell(file.spec->placement(), "p-0"),
             (std::vector<std::string>{"kubectl", "--context=a$(x)", "--namespace=ml", "exec",
                                       "-it", "p-0", "--container=lockstep", "--", "sh"}));
  }

  void aMissingKubectlIsNamed() {
    const QByteArray path = qgetenv("PATH");
    qputenv("PATH", "/nonexistent");
    const auto restore = qScopeGuard([&] { qputenv("PATH", path); });
    ThisMachine here("");
    const auto file = cluster("image: a");
    const auto state = Kubectl(here, file.spec->placement()).job(12, {});
    QVERIFY(!state.ok());
    const std::string text = state.error().text();
    QVERIFY2(text.find("install kubectl on this machine") != std::string::npos, text.c_str());
  }

  // An API server that is silent is asked again; a refusal is told.
  void silenceIsNoRefusal() {
    QTemporaryDir folder;
    const std::string program = folder.path().toStdString() + "/kubectl";
    const QByteArray path = qgetenv("PATH");
    qputenv("PATH", folder.path().toUtf8() + ":" + path);
    const auto restore = qScopeGuard([&] { qputenv("PATH", path); });
    ThisMachine here("");
    const auto file = cluster("image: a");
    const auto codeAfter = [&](const std::string& said) {
      std::ofstream(program) << "#!/bin/sh\necho '" << said << "' >&2\nexit 1\n";
      std::filesystem::permissions(program, std::filesystem::perms::owner_all);
      return Kubectl(here, file.spec->placement()).job(12, {}).status().code();
    };
    QVERIFY(codeAfter("Unable to connect to the server: dial tcp: i/o timeout") ==
            Code::kUnavailable);
    QVERIFY(codeAfter("Error from server (ServiceUnavailable): etcd") == Code::kUnavailable);
    QVERIFY(codeAfter("error: http2: client connection lost") == Code::kUnavailable);
    QVERIFY(codeAfter("Error from server (Forbidden): jobs is forbidden") ==
            Code::kFailedPrecondition);
  }

  // A job whose answer was lost may be there: it is deleted. One that was refused is not.
  void noJobIsLeft() {
    QTemporaryDir folder;
    const std::string own = folder.path().toStdString();
    const QByteArray path = qgetenv("PATH");
    qputenv("PATH", folder.path().toUtf8() + ":" + path);
    const auto restore = qScopeGuard([&] { qputenv("PATH", path); });
    ThisMachine here("");
    const auto file = cluster("image: a");
    const auto askedAfter = [&](const std::string& ending) {
      std::ofstream(own + "/kubectl") << "#!/bin/sh\necho \"$2\" >> " << own << "/asked\n"
                                      << ending << "\n";
      std::filesystem::permissions(own + "/kubectl", std::filesystem::perms::owner_all);
      std::filesystem::remove(own + "/asked");
      const Status made = Kubectl(here, file.spec->placement()).create(12, "run", {});
      if (made.ok()) return std::string("ok");
      const bool left = made.error().text().find("--selector=lockstep-job=12") != std::string::npos;
      return *readFile(own + "/asked") + (left ? "left" : "");
    };
    QCOMPARE(askedAfter("[ $2 = delete ] || { echo 'error: unexpected EOF' >&2; exit 1; }"),
             std::string("create\ndelete\n"));
    QCOMPARE(askedAfter("kill -KILL $$"), std::string("create\ndelete\nleft"));
    QCOMPARE(askedAfter("echo '{}'"), std::string("create\ndelete\n"));
    QCOMPARE(askedAfter("echo 'Error from server (Forbidden): no' >&2; exit 1"),
             std::string("create\n"));
  }

  // All bytes of all files arrive, with their modes, whatever their sizes.
  void filesAreStreamed() {
    QTemporaryDir folder;
    const std::string from = folder.path().toStdString() + "/from";
    const std::string to = folder.path().toStdString() + "/it's";
    Bundle bundle;
    bundle.folder = from;
    QVERIFY(QDir().mkpath(QString::fromStdString(from + "/lib")));
    std::uint32_t seed = 7;
    for (const std::size_t size : {0, 1, 4095, 65537, 5 << 20, 3 << 20, 2 << 20}) {
      BundleFile file;
      file.path = (size % 2 == 0 ? "lib/f" : "f") + std::to_string(size);
      file.mode = size > 4096 ? 0755 : 0644;
      std::string content(size, '\0');
      for (char& c : content) c = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
      std::ofstream(from + "/" + file.path, std::ios::binary) << content;
      file.bytes = size;
      bundle.files.push_back(file);
    }
    std::ofstream(from + "/manifest") << "manifest";
    CommandsOnly host;
    const Status sent = streamFiles(host, bundle, to, {});
    QVERIFY2(sent.ok(), sent.ok() ? "" : sent.error().text().c_str());
    for (const BundleFile& file : bundle.files) {
      QCOMPARE(*readFile(to + "/" + file.path), *readFile(from + "/" + file.path));
      QCOMPARE(::access((to + "/" + file.path).c_str(), X_OK) == 0, file.mode == 0755);
    }
    QCOMPARE(*readFile(to + "/manifest"), std::string("manifest"));
  }
};

QTEST_GUILESS_MAIN(KubernetesTest)
#include "kubernetes_test.moc"
