#include "app/slurm/slurm.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "engine/base/shell_text.h"
#include "engine/base/text.h"

namespace lockstep::app {
namespace {

constexpr std::chrono::seconds kCommandLimit{60};
constexpr std::size_t kMostOutput = std::size_t{4} << 20;
constexpr int kMostNodes = 4096;
constexpr const char* kGone = "Invalid job id specified";

Error notUnderstood(std::string_view command, std::string_view printed) {
  Error error = makeError(Code::kDataLoss, "the output of {} is not understood", command);
  error.why = message("it printed \"{}\"", withoutLineEnds(std::string(printed.substr(0, 200))));
  error.next = "check that the login node has Slurm 22.05 or newer";
  return error;
}

template <typename T>
bool parseNumber(std::string_view text, T& out) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);)
    if (line = withoutLineEnds(line); !line.empty()) out.push_back(line);
  return out;
}

bool isName(std::string_view text) {
  return !text.empty() && text.size() <= 128 && text.front() != '.' && text.front() != '-' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

// A list of nodes as Slurm writes it: "n[1-3,7],gpu1".
bool isNodeList(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-,[]").find(c) != std::string_view::npos;
  });
}

// The value of "Key=value" in a line; the key stands at its start or after a blank.
std::optional<std::string> valueOf(std::string_view line, std::string_view key) {
  const std::string wanted = std::string(key) + "=";
  for (std::size_t at = line.find(wanted); at != std::string_view::npos;
       at = line.find(wanted, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::string_view rest = line.substr(at + wanted.size());
    return std::string(rest.substr(0, rest.find(' ')));
  }
  return std::nullopt;
}

// The number of identifiers in "0-3,8"; 0 for other text.
int countOf(std::string_view ids) {
  int count = 0;
  while (!ids.empty()) {
    const std::string_view part = ids.substr(0, ids.find(','));
    ids.remove_prefix(std::min(ids.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    int first = 0, last = 0;
    if (!parseNumber(part.substr(0, dash), first)) return 0;
    last = first;
    if (dash != std::string_view::npos && !parseNumber(part.substr(dash + 1), last)) return 0;
    if (first < 0 || last < first || last > 1'000'000) return 0;
    count += last - first + 1;
    if (count > 1'000'000) return 0;
  }
  return count;
}

SlurmJob::Phase phaseOf(std::string_view state) {
  using Phase = SlurmJob::Phase;
  for (const std::string_view word : {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
                                      "SPECIAL_EXIT", "CONFIGURING", "RESV_DEL_HOLD"})
    if (state == word) return Phase::kQueued;
  for (const std::string_view word : {"RUNNING", "SUSPENDED", "RESIZING", "SIGNALING", "STOPPED"})
    if (state == word) return Phase::kRunning;
  if (state == "COMPLETING" || state == "STAGE_OUT") return Phase::kEnding;
  return Phase::kOver;
}

}  // namespace

Result<std::int64_t> parseJobNumber(std::string_view printed) {
  const std::vector<std::string> lines = linesOf(printed);
  std::int64_t job = 0;
  // A shell may have greeted before; the cluster's name may follow.
  if (lines.empty() ||
      !parseNumber(std::string_view(lines.back()).substr(0, lines.back().find(';')), job) ||
      job <= 0)
    return notUnderstood("sbatch", printed);
  return job;
}

Result<SlurmJob> parseJob(std::string_view printed) {
  SlurmJob out;
  std::vector<std::string> fields;
  const std::vector<std::string> lines = linesOf(printed);
  if (lines.size() >= 2) {
    const std::string& last = lines.back();
    if (!parseNumber(std::string_view(last).substr(0, last.find(' ')), out.restarts) ||
        out.restarts < 0)
      return notUnderstood("squeue", printed);
    std::string_view rest = lines[lines.size() - 2];
    for (std::size_t bar = rest.find('|'); bar != std::string_view::npos; bar = rest.find('|')) {
      fields.emplace_back(rest.substr(0, bar));
      rest.remove_prefix(bar + 1);
    }
    fields.emplace_back(rest);
  }
  const auto isWord = [](std::string_view text) {
    return !text.empty() &&
           std::ranges::all_of(text, [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; });
  };
  if (fields.size() != 4 || !isWord(fields[0]) || (!fields[2].empty() && !isNodeList(fields[2])))
    return notUnderstood("squeue", printed);
  out.state = fields[0];
  out.phase = phaseOf(out.state);
  if (fields[1] != "None") out.reason = fields[1];
  out.nodes = fields[2];
  if (fields[3] != "N/A") out.start = fields[3];
  if (out.phase == SlurmJob::Phase::kRunning && out.nodes.empty())
    return notUnderstood("squeue", printed);
  return out;
}

Result<std::vector<SlurmNodeGroup>> parseNodeGroups(std::string_view printed) {
  std::vector<SlurmNodeGroup> out;
  for (std::size_t at = printed.find(" Nodes="); at != std::string_view::npos;
       at = printed.find(" Nodes=", at + 1)) {
    const std::string_view rest = printed.substr(at + 1);
    const std::string_view group = rest.substr(0, rest.find(" Nodes="));
    const auto ids = valueOf(group, "CPU_IDs");
    if (!ids) continue;  // another field of this name
    SlurmNodeGroup one{valueOf(group, "Nodes").value_or(""), countOf(*ids)};
    if (!isNodeList(one.nodes) || one.cpus == 0) return notUnderstood("scontrol show job", group);
    out.push_back(std::move(one));
  }
  if (out.empty() || out.size() > kMostNodes) return notUnderstood("scontrol show job", printed);
  return out;
}

Result<std::vector<SlurmNode>> parseNodes(std::string_view printed) {
  std::vector<SlurmNode> out;
  for (const std::string& line : linesOf(printed)) {
    const auto name = valueOf(line, "NodeName"), address = valueOf(line, "NodeAddr");
    if (!name && !address) continue;
    // An IPv6 address has colons.
    std::string plain = address.value_or("");
    std::ranges::replace(plain, ':', '.');
    while (plain.starts_with('.')) plain.erase(0, 1);
    if (!name || !isName(*name) || !isName(plain)) return notUnderstood("scontrol show node", line);
    out.push_back({*name, *address, 0});
  }
  if (out.empty()) return notUnderstood("scontrol show node", printed);
  return out;
}

Result<std::vector<std::string>> parseNames(std::string_view printed) {
  std::vector<std::string> out = linesOf(printed);
  if (out.empty() || out.size() > kMostNodes || !std::ranges::all_of(out, isName))
    return notUnderstood("scontrol show hostnames", printed);
  return out;
}

// --unbuffered: else slurmstepd holds back what does not end in a newline. It has no --gres, since
// a step of the job that has its GPUs would have this one wait; --mem=0 likewise shares the memory.
std::string slurmNodePrefix(std::int64_t job, const std::string& node) {
  return fmt::format(
      "srun --jobid={} --overlap --nodelist={} --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=0 "
      "--gres=none --mpi=none --quiet --unbuffered",
      job, node);
}

Result<std::string> Slurm::run(const std::string& command, const std::string& input,
                               std::stop_token stop) {
  ExecOptions options;
  options.timeout = kCommandLimit;
  options.outputLimit = kMostOutput;
  options.input = input;
  LOCKSTEP_ASSIGN(const ExecResult ran, host_.exec(command, std::move(options), std::move(stop)));
  if (ran.exitStatus == 0) return ran.output;
  Error error = commandError(command, ran);
  if (ran.exitStatus == 127)
    error.next = "name a login node that has Slurm's commands on the PATH of commands run over SSH";
  return error;
}

Result<std::int64_t> Slurm::submit(const std::string& script, const std::string& folder,
                                   std::stop_token stop) {
  const std::string quoted = shellQuote(folder);
  LOCKSTEP_ASSIGN(const std::string printed,
                  run("mkdir -p " + quoted + " && cd " + quoted + " && sbatch --parsable", script,
                      std::move(stop)));
  return parseJobNumber(printed);
}

Result<SlurmJob> Slurm::job(std::int64_t job, std::stop_token stop) {
  auto printed =
      run(fmt::format("squeue --noheader --states=all --jobs={0} --format='%T|%r|%N|%S' && "
                      "squeue --noheader --states=all --jobs={0} --Format=RestartCnt",
                      job),
          {}, std::move(stop));
  if (!printed.ok()) {
    if (printed.error().text().find(kGone) == std::string::npos) return printed.error();
    SlurmJob gone;
    gone.phase = SlurmJob::Phase::kOver;
    return gone;
  }
  if (linesOf(*printed).empty()) {
    SlurmJob gone;
    gone.phase = SlurmJob::Phase::kOver;
    return gone;
  }
  return parseJob(*printed);
}

Result<std::optional<int>> Slurm::position(std::int64_t job, std::stop_token stop) {
  LOCKSTEP_ASSIGN(const std::string printed,
                  run(fmt::format("squeue --noheader --states=PENDING --sort=-p,i --format=%i "
                                  "--partition=\"$(squeue --noheader --jobs={} --format=%P)\"",
                                  job),
                      {}, std::move(stop)));
  int place = 0;
  for (const std::string& line : linesOf(printed)) {
    ++place;
    std::int64_t number = 0;  // others may be arrays: "12_[1-3]"
    if (parseNumber(std::string_view(line), number) && number == job) return std::optional(place);
  }
  return std::optional<int>();
}

Result<std::vector<SlurmNode>> Slurm::nodes(std::int64_t job, std::stop_token stop) {
  LOCKSTEP_ASSIGN(const SlurmJob now, this->job(job, stop));
  if (!isNodeList(now.nodes))
    return makeError(Code::kFailedPrecondition, "Slurm job {} has no nodes", job);
  LOCKSTEP_ASSIGN(const std::string names,
                  run("scontrol show hostnames " + shellQuote(now.nodes), {}, stop));
  LOCKSTEP_ASSIGN(const std::vector<std::string> order, parseNames(names));
  LOCKSTEP_ASSIGN(const std::string described,
                  run("scontrol --oneliner show node " + shellQuote(now.nodes), {}, stop));
  LOCKSTEP_ASSIGN(const std::vector<SlurmNode> known, parseNodes(described));
  LOCKSTEP_ASSIGN(const std::string details,
                  run(fmt::format("scontrol --details --oneliner show job {}", job), {}, stop));
  LOCKSTEP_ASSIGN(const std::vector<SlurmNodeGroup> groups, parseNodeGroups(details));
  std::vector<SlurmNode> out;
  for (const std::string& name : order) {
    const auto found = std::ranges::find(known, name, &SlurmNode::name);
    if (found == known.end()) return notUnderstood("scontrol show node", described);
    out.push_back(*found);
  }
  for (const SlurmNodeGroup& group : groups) {
    LOCKSTEP_ASSIGN(const std::string members,
                    run("scontrol show hostnames " + shellQuote(group.nodes), {}, stop));
    LOCKSTEP_ASSIGN(const std::vector<std::string> of, parseNames(members));
    for (SlurmNode& node : out)
      if (std::ranges::find(of, node.name) != of.end()) node.cpus = group.cpus;
  }
  if (std::ranges::any_of(out, [](const SlurmNode& node) { return node.cpus == 0; }))
    return notUnderstood("scontrol show job", details);
  return out;
}

Status Slurm::cancel(std::int64_t job, std::stop_token stop) {
  const auto ended = run(fmt::format("scancel {}", job), {}, std::move(stop));
  if (ended.ok() || ended.error().text().find(kGone) != std::string::npos ||
      ended.error().text().find("already completing or completed") != std::string::npos)
    return {};
  return ended.error();
}

}  // namespace lockstep::app
