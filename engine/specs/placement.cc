#include "engine/specs/placement.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/specs/field.h"
#include "engine/specs/node_names.h"
#include "engine/specs/options.h"

namespace lockstep::specs {

namespace {

using spec::v1::ClusterSpec;
using spec::v1::PlacementSpec;

bool isLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns whether the text is one word of an option of sbatch, which no quoting can change.
bool isWord(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return isLetterOrDigit(c) || std::string_view("_.,:+@/=-[]").find(c) != std::string_view::npos;
  });
}

bool isNumber(std::string_view text) {
  return !text.empty() && text.size() <= 6 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t numberOf(std::string_view digits) {
  std::int64_t out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

// What the batch script sets itself, or what its job would not be with.
bool isOwnOption(std::string_view text) {
  constexpr std::string_view kLong[] = {
      "array",     "chdir",    "nodes", "ntasks",  "ntasks-per-node", "signal",        "output",
      "error",     "job-name", "wrap",  "requeue", "no-requeue",      "parsable",      "open-mode",
      "partition", "account",  "qos",   "time",    "gpus-per-node",   "cpus-per-task", "no-kill",
      "export"};
  if (!text.starts_with("--"))
    return text.size() > 1 &&
           std::string_view("aDNnoeJpAqtck").find(text[1]) != std::string_view::npos;
  return std::ranges::find(kLong, text.substr(2, text.find_first_of("= ") - 2)) != std::end(kLong);
}

bool isOption(std::string_view text) {
  return text.size() > 1 && text.front() == '-' && std::ranges::all_of(text, [](char c) {
           return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
         });
}

// The names of Kubernetes: DNS subdomains (RFC 1123).
bool isDnsName(std::string_view text) {
  return text.size() <= 253 && text.front() != '-' && text.front() != '.' && text.back() != '-' &&
         text.back() != '.' && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
         });
}

bool isLabel(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return isLetterOrDigit(c) || std::string_view("_./-").find(c) != std::string_view::npos;
  });
}

// A number of bytes as Kubernetes writes it: 512Mi, 64Gi, 1.5G.
bool isQuantity(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
  return digits > 0 && digits < 16 && text.front() != '.' && text[digits - 1] != '.' &&
         std::ranges::count(text.substr(0, digits), '.') <= 1 &&
         std::ranges::find(kUnits, text.substr(digits)) != std::end(kUnits);
}

bool isPlain(std::string_view text) {
  return text.front() != '-' && std::ranges::all_of(text, [](char c) {
           return static_cast<unsigned char>(c) > 0x20 && c != 0x7f;
         });
}

Status checkPods(const PlacementSpec& placement) {
  for (const auto& [field, value] :
       {std::pair("namespace", placement.namespace_()), std::pair("queue", placement.queue()),
        std::pair("scheduler", placement.scheduler()),
        std::pair("service_account", placement.service_account()),
        std::pair("volume_claim", placement.volume_claim())})
    if (!value.empty() && !isDnsName(value))
      return wrongField(
          fmt::format("placement.{}", field),
          message("{} is \"{}\"; expected lower-case letters, digits, - and .", field, value));
  for (const auto& [field, value] :
       {std::pair("image", placement.image()), std::pair("context", placement.context())})
    if (!value.empty() && !isPlain(value))
      return wrongField(
          fmt::format("placement.{}", field),
          message("{} is \"{}\"; expected no spaces, nor a - at its start", field, value));
  if (placement.image().empty())
    return wrongField("placement.image", "image is missing; expected the image of the pods");
  if (!placement.memory().empty() && !isQuantity(placement.memory()))
    return wrongField("placement.memory",
                      message("memory is \"{}\"; expected a size like 64Gi", placement.memory()));
  for (const auto& [label, value] : placement.node_selector())
    if (label.empty() || !isLabel(label) || !isLabel(value))
      return wrongField(
          "placement.node_selector",
          message("the label \"{}\" with the value \"{}\" is not one of Kubernetes", label, value));
  if (!placement.workdir().empty() && placement.workdir().front() != '/')
    return wrongField("placement.workdir", message("workdir is \"{}\"; expected a path of a pod, "
                                                   "which starts with /",
                                                   placement.workdir()));
  if (placement.requeue() && placement.volume_claim().empty())
    return wrongField("placement.volume_claim",
                      "volume_claim is missing; expected one, since a job that follows continues "
                      "from the checkpoints there");
  return {};
}

}  // namespace

std::optional<std::int64_t> timeLimitSeconds(std::string_view text) {
  std::vector<std::int64_t> parts;
  const std::size_t dash = text.find('-');
  const bool hasDays = dash != std::string_view::npos;
  if (hasDays) {
    if (!isNumber(text.substr(0, dash))) return std::nullopt;
    parts.push_back(numberOf(text.substr(0, dash)));
    text.remove_prefix(dash + 1);
  }
  for (const std::size_t most = hasDays ? 4 : 3;;) {
    const std::size_t colon = text.find(':');
    if (parts.size() == most || !isNumber(text.substr(0, colon))) return std::nullopt;
    parts.push_back(numberOf(text.substr(0, colon)));
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  // To days, hours, minutes and seconds.
  if (!hasDays && parts.size() < 3) parts.insert(parts.begin(), 0);
  if (!hasDays && parts.size() < 3) parts.push_back(0);
  if (!hasDays) parts.insert(parts.begin(), 0);
  parts.resize(4);
  return ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3];
}

bool isKubernetes(const PlacementSpec& placement) { return placement.kind() == "kubernetes"; }

const char* schedulerName(const PlacementSpec& placement) {
  return isKubernetes(placement) ? "Kubernetes" : "Slurm";
}

bool awaitsAllocation(const ClusterSpec& spec) {
  return spec.has_placement() && spec.placement().job() == 0;
}

Status checkPlacement(const ClusterSpec& spec) {
  if (!spec.has_placement()) return {};
  const PlacementSpec& placement = spec.placement();
  LOCKSTEP_TRY(checkOptions(placement, "placement"));
  if (awaitsAllocation(spec) && !spec.nodes().empty())
    return wrongField("nodes",
                      "nodes are given, but the scheduler of placement provides them; expected one "
                      "of the two",
                      {{{"nodes", ""}}, {{"placement", ""}}});
  for (const auto& [field, value] :
       {std::pair("partition", placement.partition()), std::pair("account", placement.account()),
        std::pair("qos", placement.qos())})
    if (!isWord(value))
      return wrongField(
          fmt::format("placement.{}", field),
          message("{} is \"{}\"; expected letters, digits and . _ , : + @ / -", field, value));
  if (!placement.time().empty() && !timeLimitSeconds(placement.time()))
    return wrongField("placement.time", message("time is \"{}\"; expected MINUTES, "
                                                "HOURS:MINUTES:SECONDS or "
                                                "DAYS-HOURS:MINUTES:SECONDS",
                                                placement.time()));
  for (int i = 0; i < placement.extra_size(); ++i)
    if (!isOption(placement.extra(i)))
      return wrongField(fmt::format("placement.extra[{}]", i),
                        message("\"{}\" is not an option of sbatch; expected one like "
                                "--constraint=a100",
                                placement.extra(i)));
  for (int i = 0; i < placement.extra_size(); ++i)
    if (isOwnOption(placement.extra(i)))
      return wrongField(
          fmt::format("placement.extra[{}]", i),
          message("{} is set by Lockstep; expected a field of placement, or another option",
                  placement.extra(i)));
  const spec::v1::SshSpec login = loginOf(placement);
  if (!placement.login().empty() && (login.host().empty() || login.host().front() == '-'))
    return wrongField("placement.login",
                      message("login is \"{}\"; expected [USER@]HOST[:PORT]", placement.login()));
  if (!placement.workdir().empty() && placement.workdir().front() != '/' &&
      placement.workdir() != "~" && !placement.workdir().starts_with("~/"))
    return wrongField("placement.workdir",
                      message("workdir is \"{}\"; expected a path that starts with / or ~/",
                              placement.workdir()));
  return isKubernetes(placement) ? checkPods(placement) : Status();
}

spec::v1::SshSpec loginOf(const PlacementSpec& placement) {
  spec::v1::SshSpec out;
  std::string_view host = placement.login();
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    out.set_user(std::string(host.substr(0, at)));
    host.remove_prefix(at + 1);
  }
  const std::size_t colon = host.find(':');
  int port = 0;
  if (colon != std::string_view::npos && host.find(':', colon + 1) == std::string_view::npos) {
    const std::string_view digits = host.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    const auto [stop, failure] = std::from_chars(digits.data(), end, port);
    if (failure != std::errc() || stop != end || port < 1 || port > 65535) return {};
    host = host.substr(0, colon);
  }
  out.set_host(std::string(host));
  out.set_port(port);
  return out;
}

google::protobuf::RepeatedPtrField<spec::v1::DeviceSpec> placedDevices(
    const PlacementSpec& placement, int cpus) {
  if (!placement.devices().empty()) return placement.devices();
  google::protobuf::RepeatedPtrField<spec::v1::DeviceSpec> out;
  spec::v1::DeviceSpec& device = *out.Add();
  device.set_kind(placement.gpus_per_node() > 0 ? "cuda" : "cpu");
  device.set_count(std::max(1, placement.gpus_per_node()));
  device.set_threads(std::max(1, cpus / device.count()));
  return out;
}

Result<ClusterSpec> withExpectedNodes(const ClusterSpec& spec) {
  LOCKSTEP_TRY(checkPlacement(spec));
  LOCKSTEP_ASSIGN(ClusterSpec out, withExpandedNodes(spec));
  if (!awaitsAllocation(spec)) return out;
  const spec::v1::SshSpec login = loginOf(spec.placement());
  for (int i = 1; i <= std::max(1, spec.placement().nodes()); ++i) {
    spec::v1::NodeSpec& node = *out.add_nodes();
    node.set_name(fmt::format("{}{}", isKubernetes(spec.placement()) ? "pod" : "slurm", i));
    if (!login.host().empty()) *node.mutable_ssh() = login;
    *node.mutable_devices() = placedDevices(spec.placement(), spec.placement().cpus_per_task());
  }
  return out;
}

ClusterSpec withoutAllocation(ClusterSpec spec) {
  if (!spec.has_placement()) return spec;
  spec.clear_nodes();
  spec.mutable_placement()->clear_job();
  spec.mutable_placement()->clear_restarts();
  return spec;
}

}  // namespace lockstep::specs
