#include "app/kubernetes/kubectl.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "app/core/shallow_json.h"
#include "app/kubernetes/manifest.h"
#include "engine/base/shell_text.h"
#include "engine/base/text.h"
#include "lockstep/spec/v1/cluster.pb.h"

namespace lockstep::app {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kCommandLimit{60};
constexpr std::size_t kMostOutput = std::size_t{64} << 20;
constexpr std::size_t kMostPods = 4096;
// What kubectl says where the API server is silent or busy, or the link to it was lost.
constexpr const char* kSilent[] = {"Unable to connect to the server",
                                   "connection refused",
                                   "was refused - did you specify",
                                   "connection reset",
                                   "connection lost",
                                   "EOF",
                                   "timeout",
                                   "deadline exceeded",
                                   "TooManyRequests",
                                   "ServiceUnavailable",
                                   "InternalError"};

Error notUnderstood(std::string_view command, std::string_view printed) {
  Error error = makeError(Code::kDataLoss, "the output of {} is not understood", command);
  error.why = message("it printed \"{}\"", withoutLineEnds(std::string(printed.substr(0, 200))));
  error.next = "check that kubectl is of version 1.29 or newer";
  return error;
}

// Returns the member, or null where there is none.
const json& at(const json& value, const char* name) {
  static const json kNone;
  const auto found = value.find(name);
  return found == value.end() ? kNone : *found;
}

bool isTrue(const json& condition) { return textOf(condition, "status") == "True"; }

bool isPodName(std::string_view text) {
  return !text.empty() && text.size() <= 253 && text.front() != '-' && text.front() != '.' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

bool isAddress(std::string_view text) {
  return text.size() <= 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
                  c == '.' || c == ':';
         });
}

bool isWord(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

// "Unschedulable: 0/3 nodes are available"; one of the two where the other is absent.
std::string reasonOf(const json& value) {
  const std::string reason = textOf(value, "reason");
  const std::string more = withoutLineEnds(textOf(value, "message")).substr(0, 500);
  return reason.empty() || more.empty() ? reason + more : reason + ": " + more;
}

// Why a pod waits or failed: its container's state, else its own.
std::string podReason(const json& status) {
  for (const char* containers : {"containerStatuses", "initContainerStatuses"})
    for (const json& container : at(status, containers))
      for (const char* state : {"waiting", "terminated"})
        if (std::string why = reasonOf(at(at(container, "state"), state)); !why.empty()) return why;
  if (std::string why = reasonOf(status); !why.empty()) return why;
  for (const json& condition : at(status, "conditions"))
    if (textOf(condition, "type") == "PodScheduled" && !isTrue(condition))
      return reasonOf(condition);
  return {};
}

bool containerRuns(const json& status) {
  const json& containers = at(status, "containerStatuses");
  return containers.is_array() && !containers.empty() &&
         at(at(containers.front(), "state"), "running").is_object();
}

std::optional<Pod> podOf(const json& item) {
  const json& metadata = at(item, "metadata");
  const json& status = at(item, "status");
  Pod out;
  out.name = textOf(metadata, "name");
  out.phase = textOf(status, "phase");
  out.address = textOf(status, "podIP");
  out.reason = podReason(status);
  out.ready = out.phase == "Running" && containerRuns(status) && !out.address.empty() &&
              !metadata.contains("deletionTimestamp");
  const std::string index =
      textOf(at(metadata, "annotations"), "batch.kubernetes.io/job-completion-index");
  const char* const end = index.data() + index.size();
  const auto [stop, failure] = std::from_chars(index.data(), end, out.index);
  if (failure != std::errc() || stop != end || out.index < 0 || !isPodName(out.name) ||
      !isAddress(out.address) || !isWord(out.phase))
    return std::nullopt;
  return out;
}

// A pod that is ended for another reason than its own.
bool isDisrupted(const json& item) {
  for (const json& condition : at(at(item, "status"), "conditions"))
    if (textOf(condition, "type") == "DisruptionTarget" && isTrue(condition)) return true;
  return false;
}

void takeJob(const json& item, KubernetesJob& out) {
  using Phase = JobState::Phase;
  out.phase = Phase::kRunning;
  out.state = "Running";
  out.start = textOf(at(item, "status"), "startTime");
  if (const json& suspended = at(at(item, "spec"), "suspend"); suspended == json(true)) {
    out.phase = Phase::kQueued;
    out.state = "Suspended";
    out.stopped = true;  // if it had run: Kueue preempts so
  }
  for (const json& condition : at(at(item, "status"), "conditions")) {
    const std::string type = textOf(condition, "type");
    const bool over = type == "Complete" || type == "Failed";
    const bool ending = type == "FailureTarget" || type == "SuccessCriteriaMet";
    if (!isTrue(condition) || (!over && !ending) || out.phase == Phase::kOver) continue;
    out.phase = over ? Phase::kOver : Phase::kEnding;
    out.state = type;
    out.reason = reasonOf(condition);
    out.stopped = type == "Failed" || type == "FailureTarget";
  }
  if (at(item, "metadata").contains("deletionTimestamp") && out.phase != Phase::kOver) {
    out.phase = Phase::kEnding;
    out.state = "Terminating";
  }
}

// The job runs once all its pods do; until then it is as the first that does not. Without one of
// them it never will.
void takePods(int expected, KubernetesJob& out) {
  using Phase = JobState::Phase;
  if (out.phase != Phase::kRunning) return;
  const auto ended = std::ranges::find_if(
      out.pods, [](const Pod& pod) { return pod.phase == "Failed" || pod.phase == "Succeeded"; });
  const auto waiting = std::ranges::find(out.pods, false, &Pod::ready);
  const auto shown = ended != out.pods.end() ? ended : waiting;
  if (shown == out.pods.end() && std::ssize(out.pods) >= expected) return;
  out.phase = ended != out.pods.end() ? Phase::kOver : Phase::kQueued;
  out.state = shown == out.pods.end() ? "Pending" : shown->phase;
  if (shown != out.pods.end()) out.reason = shown->reason;
  if (out.state == "Running") out.state = "Starting";
}

std::vector<std::string> kubectl(const spec::v1::PlacementSpec& placement) {
  std::vector<std::string> out{"kubectl"};
  if (!placement.context().empty()) out.push_back("--context=" + placement.context());
  if (!placement.namespace_().empty()) out.push_back("--namespace=" + placement.namespace_());
  return out;
}

}  // namespace

Result<std::string> parseUid(std::string_view printed) {
  const json object = parseShallow(std::string(printed));
  std::string uid = textOf(at(object, "metadata"), "uid");
  const bool known = !uid.empty() && uid.size() <= 128 && std::ranges::all_of(uid, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!known) return notUnderstood("kubectl create", printed);
  return uid;
}

Result<KubernetesJob> parsePods(std::string_view printed, int expected) {
  const json list = parseShallow(std::string(printed));
  const json& items = at(list, "items");
  if (!items.is_array() || items.size() > 2 * kMostPods)
    return notUnderstood("kubectl get", printed);
  KubernetesJob out;
  out.phase = JobState::Phase::kOver;
  bool disrupted = false;
  for (const json& item : items) {
    if (textOf(item, "kind") == "Job") {
      takeJob(item, out);
    } else if (textOf(item, "kind") == "Pod") {
      auto pod = podOf(item);
      if (!pod) return notUnderstood("kubectl get", printed);
      disrupted = disrupted || isDisrupted(item);
      out.pods.push_back(*std::move(pod));
    }
  }
  std::ranges::stable_sort(out.pods, {}, &Pod::index);
  out.stopped = out.stopped || disrupted;
  takePods(expected, out);
  return out;
}

Result<std::string> parseLastEvent(std::string_view printed) {
  const json list = parseShallow(std::string(printed));
  const json& items = at(list, "items");
  if (!items.is_array()) return notUnderstood("kubectl get events", printed);
  return items.empty() ? std::string() : reasonOf(items.back());
}

std::string kubectlWords(const spec::v1::PlacementSpec& placement) {
  std::string out;
  for (const std::string& word : kubectl(placement))
    out += out.empty() ? word : " " + shellQuote(word);
  return out;
}

std::vector<std::string> podShell(const spec::v1::PlacementSpec& placement,
                                  const std::string& pod) {
  std::vector<std::string> out = kubectl(placement);
  for (const char* word : {"exec", "-it", pod.c_str(), "--container=lockstep", "--", "sh"})
    out.emplace_back(word);
  return out;
}

std::string podPrefix(const spec::v1::PlacementSpec& placement, const std::string& pod) {
  return kubectlWords(placement) + " exec -i " + shellQuote(pod) + " --container=lockstep --";
}

Kubectl::Kubectl(Host& host, const spec::v1::PlacementSpec& placement)
    : host_(host), placement_(placement) {}

Result<std::string> Kubectl::run(const std::string& arguments, const std::string& input,
                                 std::stop_token stop) {
  ExecOptions options;
  options.timeout = kCommandLimit;
  options.outputLimit = kMostOutput;
  options.input = input;
  const std::string command = kubectlWords(placement_) + " --request-timeout=30s " + arguments;
  LOCKSTEP_ASSIGN(const ExecResult ran, host_.exec(command, std::move(options), std::move(stop)));
  if (ran.exitStatus == 0) return ran.output;
  Error error = commandError(command, ran);
  const std::string said = failureText(ran);
  if (ran.exitStatus > 128 || std::ranges::any_of(kSilent, [&](const char* text) {
        return said.find(text) != std::string::npos;
      }))
    error.code = Code::kUnavailable;
  error.next = ran.exitStatus == 127
                   ? "install kubectl on this machine, and give it the cluster's configuration"
                   : "try the same command by hand; kubectl uses its own configuration";
  return error;
}

Status Kubectl::create(std::int64_t job, const std::string& name, std::stop_token stop) {
  const auto send = [&](const json& object) {
    return run("create --output=json --filename=-",
               object.dump(-1, ' ', false, json::error_handler_t::replace), stop);
  };
  const auto printed = send(jobManifest(placement_, job, name));
  // Refused: there is none of ours.
  if (printed.status().code() == Code::kFailedPrecondition) return printed.error();
  const auto uid = printed.ok() ? parseUid(*printed) : Result<std::string>(printed.error());
  const Status created = uid.ok() ? send(serviceManifest(job, *uid)).status() : uid.status();
  if (created.ok()) return created;
  Error error = created.error();
  if (!remove(job, {}).ok()) error.next = howToRemove(job);
  return error;
}

Result<KubernetesJob> Kubectl::job(std::int64_t job, std::stop_token stop) {
  LOCKSTEP_ASSIGN(
      const std::string printed,
      run("get jobs,pods --output=json --selector=" + kubernetesSelector(job), {}, stop));
  LOCKSTEP_ASSIGN(KubernetesJob out, parsePods(printed, std::max(1, placement_.nodes())));
  if (out.phase == JobState::Phase::kQueued && out.pods.empty() && out.reason.empty())
    out.reason = lastEvent(job, std::move(stop));
  return out;
}

std::string Kubectl::lastEvent(std::int64_t job, std::stop_token stop) {
  const auto printed =
      run("get events --output=json --sort-by=.metadata.creationTimestamp "
          "--field-selector=involvedObject.kind=Job,involvedObject.name=" +
              kubernetesName(job),
          {}, std::move(stop));
  if (!printed.ok()) return {};
  const auto event = parseLastEvent(*printed);
  return event.ok() ? *event : std::string();
}

std::string Kubectl::log(const std::string& pod, std::stop_token stop) {
  const auto said = run("logs --tail=20 " + shellQuote(pod), {}, std::move(stop));
  return said.ok() ? withoutLineEnds(said->substr(0, 1000)) : std::string();
}

Status Kubectl::remove(std::int64_t job, std::stop_token stop) {
  return run("delete jobs,services --wait=false --ignore-not-found --selector=" +
                 kubernetesSelector(job),
             {}, std::move(stop))
      .status();
}

Message Kubectl::howToRemove(std::int64_t job) const {
  return message("run `{} delete jobs,services --selector={}`", kubectlWords(placement_),
                 kubernetesSelector(job));
}

}  // namespace lockstep::app
