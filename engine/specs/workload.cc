#include "engine/specs/workload.h"

#include <re2/re2.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/below.h"
#include "engine/specs/field.h"
#include "engine/specs/options.h"
#include "engine/specs/sinks.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {
namespace {

using spec::v1::ClusterSpec;
using spec::v1::RunSpec;
using spec::v1::WorkloadSpec;

constexpr std::string_view kNoHooks = "none";  // what hooks: [] stands for

// A name of an environment variable that a shell would take.
bool isVariable(const std::string& name) {
  return !name.empty() && (name[0] < '0' || name[0] > '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

bool isEvaluator(const spec::v1::NodeSpec& node) {
  return std::find(node.roles().begin(), node.roles().end(), "evaluator") != node.roles().end();
}

// What only a model trains with.
Status checkAlone(const RunSpec& run) {
  const std::pair<const char*, bool> given[] = {
      {"model", run.has_model()},
      {"data", run.has_data()},
      {"training", run.has_training()},
      {"strategy", run.has_strategy()},
  };
  for (const auto& [field, is] : given)
    if (is)
      return wrongField(field,
                        message("{} is not used with workload, whose program does this itself; "
                                "expected it left out",
                                field),
                        {{{field, ""}}});
  return {};
}

Error bothGiven(const char* field, const char* other) {
  return wrongField(field, message("{} and {} are both given; expected one of them", other, field),
                    {{{field, ""}}});
}

// Moves what specs of older versions say to the fields that say it now.
Status moveFormer(WorkloadSpec& workload) {
  if (workload.no_hooks()) {
    if (!workload.metrics().hooks().empty())
      return bothGiven("workload.no_hooks", "workload.metrics.hooks");
    workload.mutable_metrics()->add_hooks(std::string(kNoHooks));
    workload.clear_no_hooks();
  }
  if (workload.hang_seconds() != 0) {
    if (workload.restart().hang_seconds() != 0)
      return bothGiven("workload.hang_seconds", "workload.restart.hang_seconds");
    workload.mutable_restart()->set_hang_seconds(workload.hang_seconds());
    workload.clear_hang_seconds();
  }
  return {};
}

// recovery.max_restarts and recovery.on say the same as workload.restart, which has what they say.
Status moveRestarts(RunSpec& run) {
  if (!run.has_recovery()) return {};
  spec::v1::RecoverySpec& recovery = *run.mutable_recovery();
  spec::v1::RestartSpec& restart = *run.mutable_workload()->mutable_restart();
  if (recovery.max_restarts() != 0) {
    if (restart.max() != 0) return bothGiven("recovery.max_restarts", "workload.restart.max");
    restart.set_max(recovery.max_restarts());
    recovery.clear_max_restarts();
  }
  if (!recovery.on().empty()) {
    if (!restart.on().empty()) return bothGiven("recovery.on", "workload.restart.on");
    restart.mutable_on()->Swap(recovery.mutable_on());
  }
  return {};
}

Status checkHooks(const spec::v1::WorkloadMetrics& metrics) {
  const auto& hooks = metrics.hooks();
  if (hooks.size() < 2 || std::find(hooks.begin(), hooks.end(), kNoHooks) == hooks.end()) return {};
  return wrongField("workload.metrics.hooks",
                    "hooks has none beside others; expected one of them left out",
                    {{{"workload.metrics.hooks", ""}}});
}

Status checkPython(const spec::v1::PythonSpec& python) {
  for (int i = 0; i < python.binds_size(); ++i)
    if (!python.binds(i).starts_with('/') ||
        python.binds(i).find_first_of(":,") != std::string::npos)
      return wrongField(
          fmt::format("workload.python.binds[{}]", i),
          message("\"{}\" is not the absolute path of a folder, without : and ,", python.binds(i)));
  if (python.kind() == "none" || python.kind() == "uv" || !python.path().empty()) return {};
  return wrongField("workload.python.path",
                    message("workload.python.kind is {}, and its folder is missing; expected "
                            "workload.python.path",
                            python.kind()),
                    {{{"workload.python.kind", "none"}}});
}

Status checkLauncher(const WorkloadSpec& workload) {
  if (workload.launcher() != "single" || workload.ranks_per_node() <= 1) return {};
  return wrongField("workload.ranks_per_node",
                    message("workload.ranks_per_node is {}, but launcher single starts one "
                            "process; expected it left out",
                            workload.ranks_per_node()),
                    {{{"workload.ranks_per_node", ""}}, {{"workload.launcher", "ranks"}}});
}

// Commands run in a copy of the code.
Status checkSetup(const WorkloadSpec& workload) {
  if (workload.setup().empty()) return {};
  if (workload.code().disabled())
    return wrongField("workload.setup",
                      "setup runs in the program's copy of the code, and code.disabled makes none; "
                      "expected one of them left out",
                      {{{"workload.setup", ""}}, {{"workload.code.disabled", ""}}});
  for (int i = 0; i < workload.setup_size(); ++i)
    if (workload.setup(i).empty() || workload.setup(i).find('\0') != std::string::npos)
      return wrongField(fmt::format("workload.setup[{}]", i),
                        "a command of setup is empty, or has a zero byte");
  return {};
}

Status checkArtifacts(const spec::v1::ArtifactsSpec& artifacts) {
  for (int i = 0; i < artifacts.collect_size(); ++i) {
    const Message why = whyNotBelow(artifacts.collect(i));
    if (why.empty()) continue;
    return wrongField(fmt::format("workload.artifacts.collect[{}]", i),
                      message("\"{}\" is not a pattern of files below the folder of the code: {}",
                              artifacts.collect(i), why));
  }
  return {};
}

}  // namespace

Status checkSecrets(const WorkloadSpec& workload) {
  for (int i = 0; i < workload.env_from_size(); ++i) {
    const std::string& name = workload.env_from(i);
    const std::string path = fmt::format("workload.env_from[{}]", i);
    if (!isVariable(name))
      return wrongField(path, message("\"{}\" is not the name of an environment variable", name));
    if (workload.env().contains(name))
      return wrongField(path,
                        message("{} is in workload.env too; expected it in one of them", name));
  }
  return {};
}

Status checkPattern(const std::string& path, const std::string& pattern) {
  const RE2 compiled(pattern, RE2::Quiet);
  if (!compiled.ok())
    return wrongField(path, message("not a regular expression: {}", compiled.error()));
  if (compiled.NamedCapturingGroups().empty())
    return wrongField(path, "no group has a name; expected one as in loss=(?P<loss>[0-9.]+)");
  return {};
}

std::vector<std::string> hooksOf(const WorkloadSpec& workload) {
  if (workload.no_hooks()) return {};  // of an older client
  const spec::v1::WorkloadMetrics& metrics = workload.metrics();
  std::vector<std::string> out(metrics.hooks().begin(), metrics.hooks().end());
  if (out.empty())
    for (const std::string_view hook : valuesOf<spec::v1::WorkloadMetrics>("hooks"))
      out.emplace_back(hook);
  else if (out.front() == kNoHooks)
    return {};
  std::erase(out, kNoHooks);
  if (!metrics.has_mlflow() || metrics.mlflow()) out.emplace_back("mlflow");
  return out;
}

int hangSecondsOf(const WorkloadSpec& workload) {
  const int seconds = workload.restart().hang_seconds();
  return seconds != 0 ? seconds : workload.hang_seconds();  // of an older client
}

spec::v1::RecoverySpec recoveryOf(const RunSpec& run) {
  spec::v1::RecoverySpec out = run.recovery();
  if (!run.has_workload()) return out;
  const spec::v1::RestartSpec& restart = run.workload().restart();
  if (restart.max() != 0) out.set_max_restarts(restart.max());  // 0: of an older client
  if (!restart.on().empty()) *out.mutable_on() = restart.on();
  return out;
}

Status checkAndFillWorkload(RunSpec& run) {
  LOCKSTEP_TRY(checkAlone(run));
  LOCKSTEP_TRY(moveFormer(*run.mutable_workload()));
  LOCKSTEP_TRY(moveRestarts(run));
  WorkloadSpec& workload = *run.mutable_workload();
  fillDefaults(workload);
  if (run.version() == 0) run.set_version(1);
  fillDefaults(*run.mutable_recovery());
  run.mutable_recovery()->clear_max_restarts();
  LOCKSTEP_TRY(checkOptions(run, ""));
  if (workload.command().empty() || workload.command(0).empty())
    return wrongField("workload.command",
                      "command is missing; expected a program and its arguments, as "
                      "[python3, train.py]");
  for (const auto& [name, value] : workload.env())
    if (!isVariable(name))
      return wrongField(fmt::format("workload.env[{}]", name),
                        message("\"{}\" is not the name of an environment variable", name));
  LOCKSTEP_TRY(checkSecrets(workload));
  LOCKSTEP_TRY(checkPython(workload.python()));
  LOCKSTEP_TRY(checkLauncher(workload));
  LOCKSTEP_TRY(checkHooks(workload.metrics()));
  LOCKSTEP_TRY(checkSetup(workload));
  LOCKSTEP_TRY(checkArtifacts(workload.artifacts()));
  LOCKSTEP_TRY(checkSinks(run.sinks()));
  const auto& patterns = workload.metrics().stdout();
  for (int i = 0; i < patterns.size(); ++i)
    LOCKSTEP_TRY(checkPattern(fmt::format("workload.metrics.stdout[{}]", i), patterns.Get(i)));
  if (workload.name().empty()) workload.set_name(nameOf(run));
  return {};
}

// Without a name, that of the first argument that looks like a script, else of the program.
std::string nameOf(const RunSpec& run) {
  if (!run.has_workload()) return run.model().name();
  const WorkloadSpec& workload = run.workload();
  if (!workload.name().empty()) return workload.name();
  const auto& words = workload.command();
  if (words.empty()) return "program";
  const auto script = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
    return word.ends_with(".py") || word.ends_with(".sh");
  });
  const std::string& named = script == words.end() ? words.Get(0) : *script;
  std::string stem = std::filesystem::path(named).stem().string();
  return stem.empty() ? "program" : stem;
}

ClusterSpec placed(const RunSpec& run, const ClusterSpec& cluster) {
  if (!run.has_workload()) return cluster;
  const WorkloadSpec& workload = run.workload();
  ClusterSpec out = cluster;
  const bool single = workload.launcher() == "single";
  const int count = single ? 1 : workload.ranks_per_node();
  std::vector<std::string> working;
  for (const auto* node : nodesWithRanks(cluster, {})) working.push_back(node->name());
  auto& nodes = *out.mutable_nodes();
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), isEvaluator), nodes.end());
  for (auto& node : nodes) {
    if (count > 0) {
      if (node.devices().empty()) node.add_devices();
      node.mutable_devices()->DeleteSubrange(1, node.devices_size() - 1);
      node.mutable_devices(0)->set_count(count);
    }
    // The others wait, in case the first is lost.
    const auto at = std::find(working.begin(), working.end(), node.name());
    if (single && at != working.end() && at != working.begin()) {
      node.clear_roles();
      node.add_roles("spare");
    }
  }
  return out;
}

bool takesCheckpoints(const RunSpec& run) {
  return !run.has_workload() && !run.training().checkpoint().disabled();
}

plan::Plan programPlan(const RunSpec& run, int ranks) {
  plan::Plan out;
  out.name = nameOf(run);
  out.strategy = kProgramStrategy;
  out.mesh = cluster::Mesh({{"data", ranks}});
  out.schedule.resize(1);
  return out;
}

}  // namespace lockstep::specs
