#include "app/alerts/alert_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/base/suggest.h"

namespace lockstep::app {
namespace {

const AlertFieldInfo kNone;

AlertFieldInfo seconds(double value, double low = 0) { return {"s", value, low, 86400}; }

std::vector<AlertRuleInfo> trainingRules() {
  return {
      {AlertRule::kLossNotFinite,
       "loss-not-finite",
       message("Loss not finite"),
       message("The loss is NaN or infinite, or the training diverged."),
       true,
       {kNone, kNone, kNone}},
      {AlertRule::kLossSpike,
       "loss-spike",
       message("Loss spike"),
       message(
           "The loss is this many median absolute deviations above the median of the window, for a "
           "number of steps."),
       true,
       {{{"× MAD", 12, 2, 1000}, {"steps", 100, 20, 2000, true}, {"steps", 3, 1, 1000, true}}},
       0.5},
      {AlertRule::kLossPlateau,
       "loss-plateau",
       message("Loss plateau"),
       message("The smoothed loss has not improved by this much within the window."),
       false,
       {{{"%", 1, 0.01, 50}, {"steps", 1000, 50, 1e6, true}, kNone}}},
      {AlertRule::kStall,
       "stall",
       message("Stall"),
       message("No step has completed for this many median steps, and for at least a number of "
               "seconds."),
       true,
       {{{"× median step", 10, 2, 1e6}, kNone, seconds(60, 1)}}},
      {AlertRule::kStraggler,
       "straggler",
       message("Straggler"),
       message("One rank makes the others wait for this share of the step."),
       true,
       {{{"%", 10, 1, 99}, kNone, seconds(5)}},
       0.8},
  };
}

std::vector<AlertRuleInfo> nodeRules() {
  return {
      {AlertRule::kNodeUnreachable,
       "node-unreachable",
       message("Node unreachable"),
       message("A node of the run does not answer."),
       true,
       {kNone, kNone, seconds(5)}},
      {AlertRule::kGpuThrottled,
       "gpu-throttled",
       message("GPU throttled"),
       message("A GPU was slowed down for heat, by its power supply or by its hardware for this "
               "share of the window. Its power limit does not count."),
       true,
       {{{"%", 50, 1, 100}, seconds(60, 5), seconds(10)}},
       0.8},
      {AlertRule::kGpuTemperature,
       "gpu-temperature",
       message("GPU temperature"),
       message("A GPU is at least this hot."),
       true,
       {{{"°C", 90, 30, 150}, kNone, seconds(30)}},
       0.95},
      {AlertRule::kDiskFree,
       "disk-free",
       message("Disk space"),
       message("The disk of a node's data folder has less free space than this."),
       true,
       {{{"GiB", 5, 0.01, 1e6}, kNone, seconds(10)}},
       1.05},
      {AlertRule::kNodeMemory,
       "node-memory",
       message("Node memory"),
       message("At least this share of a node's memory is used."),
       true,
       {{{"%", 95, 10, 100}, kNone, seconds(30)}},
       0.97},
      {AlertRule::kRunEnded,
       "run-ended",
       message("Run ended"),
       message("The run has succeeded, failed or was stopped."),
       true,
       {kNone, kNone, kNone}},
  };
}

constexpr std::array<std::string_view, 2> kBooleans{"true", "false"};

Result<bool> booleanOf(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return invalidArgument("'{}' is no value, expected {}", text, expectedOneOf(text, kBooleans));
}

Status setActions(AlertRuleSettings& rule, std::string_view text) {
  std::array<bool, 3> actions{};
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    const auto found = std::find(kAlertActions.begin(), kAlertActions.end(), name);
    if (found == kAlertActions.end())
      return invalidArgument("there is no action '{}', expected {}", name,
                             expectedOneOf(name, kAlertActions));
    actions[static_cast<std::size_t>(found - kAlertActions.begin())] = true;
  }
  rule.actions = actions;
  return {};
}

Status setRuleOption(AlertSettings& settings, AlertRule rule, std::string_view field,
                     std::string_view value) {
  AlertRuleSettings& set = settings.of(rule);
  if (field == "enabled") {
    LOCKSTEP_ASSIGN(set.enabled, booleanOf(value));
    return {};
  }
  if (field == "actions") return setActions(set, value);
  std::vector<std::string_view> known{"enabled"};
  for (std::size_t i = 0; i < kAlertFields.size(); ++i) {
    if (alertRuleInfo(rule).fields[i].unit.empty()) continue;
    known.push_back(kAlertFields[i]);
    if (field != kAlertFields[i]) continue;
    LOCKSTEP_ASSIGN(set.values[i], alertFieldValue(rule, static_cast<AlertField>(i), value));
    return {};
  }
  known.push_back("actions");
  return invalidArgument("there is no field '{}', expected {}", field, expectedOneOf(field, known));
}

Status setAction(AlertSettings& settings, std::string_view name, std::string_view value) {
  if (name == "notification") {
    LOCKSTEP_ASSIGN(settings.notification, booleanOf(value));
  } else if (name == "command") {
    LOCKSTEP_TRY(commandWords(value).status());
    settings.command = value;
  } else if (name == "webhook") {
    LOCKSTEP_TRY(checkWebhook(value));
    settings.webhook = value;
  } else {
    return invalidArgument("there is no action '{}', expected {}", name,
                           expectedOneOf(name, kAlertActions));
  }
  return {};
}

}  // namespace

std::span<const AlertRuleInfo> alertRuleTable() {
  static const std::vector<AlertRuleInfo> table = [] {
    std::vector<AlertRuleInfo> out = trainingRules();
    for (AlertRuleInfo& rule : nodeRules()) out.push_back(std::move(rule));
    return out;
  }();
  return table;
}

const AlertRuleInfo& alertRuleInfo(AlertRule rule) {
  return alertRuleTable()[static_cast<std::size_t>(rule)];
}

AlertSettings::AlertSettings() {
  for (const AlertRuleInfo& info : alertRuleTable()) {
    of(info.rule).enabled = info.enabled;
    for (std::size_t i = 0; i < info.fields.size(); ++i)
      of(info.rule).values[i] = info.fields[i].value;
  }
}

std::vector<std::string_view> AlertRuleSettings::actionNames() const {
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < kAlertActions.size(); ++i)
    if (actions[i]) out.push_back(kAlertActions[i]);
  return out;
}

bool AlertSettings::acts(AlertRule rule, AlertAction action) const {
  if (!of(rule).actions[static_cast<std::size_t>(action)]) return false;
  switch (action) {
    case AlertAction::kNotification:
      return notification;
    case AlertAction::kCommand:
      return !command.empty();
    case AlertAction::kWebhook:
      return !webhook.empty();
  }
  return false;
}

Result<AlertRule> findAlertRule(std::string_view name) {
  std::vector<std::string_view> names;
  for (const AlertRuleInfo& info : alertRuleTable()) {
    if (info.name == name) return info.rule;
    names.push_back(info.name);
  }
  return invalidArgument("there is no alert rule '{}', expected {}", name,
                         expectedOneOf(name, names));
}

Status setAlertOption(AlertSettings& settings, std::string_view path, std::string_view value) {
  const auto set = [&]() -> Status {
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos)
      return invalidArgument("'{}' is no option, expected RULE.FIELD", path);
    const std::string_view first = path.substr(0, dot), field = path.substr(dot + 1);
    if (first == "actions") return setAction(settings, field, value);
    LOCKSTEP_ASSIGN(const AlertRule rule, findAlertRule(first));
    return setRuleOption(settings, rule, field, value);
  };
  Status status = set();
  if (!status.ok()) status.error().field = path;
  return status;
}

std::vector<std::string> alertChanges(const AlertSettings& before, const AlertSettings& after) {
  std::vector<std::string> out;
  for (const AlertRuleInfo& info : alertRuleTable()) {
    const AlertRuleSettings &was = before.of(info.rule), &is = after.of(info.rule);
    if (was.enabled != is.enabled)
      out.push_back(fmt::format("{}.enabled={}", info.name, is.enabled));
    for (std::size_t i = 0; i < kAlertFields.size(); ++i)
      if (was.values[i] != is.values[i])
        out.push_back(fmt::format("{}.{}={}", info.name, kAlertFields[i], is.values[i]));
    if (was.actions != is.actions)
      out.push_back(fmt::format("{}.actions={}", info.name, fmt::join(is.actionNames(), ",")));
  }
  if (before.notification != after.notification)
    out.push_back(fmt::format("actions.notification={}", after.notification));
  if (before.command != after.command) out.push_back("actions.command=" + after.command);
  if (before.webhook != after.webhook) out.push_back("actions.webhook=" + after.webhook);
  return out;
}

Result<double> alertFieldValue(AlertRule rule, AlertField field, std::string_view text) {
  const AlertFieldInfo& info = alertRuleInfo(rule).field(field);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool isNumber = error == std::errc() && end == text.data() + text.size();
  if (!isNumber || !(value >= info.low && value <= info.high) ||
      (info.whole && value != std::floor(value)))
    return info.whole ? invalidArgument("'{}' is no whole number from {} to {} {}", text, info.low,
                                        info.high, info.unit)
                      : invalidArgument("'{}' is no number from {} to {} {}", text, info.low,
                                        info.high, info.unit);
  return value;
}

Result<std::vector<std::string>> commandWords(std::string_view command) {
  std::vector<std::string> out;
  bool inWord = false;
  char quote = 0;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (c == '\0' || c == '\n') return invalidArgument("the command is not one line");
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < command.size();
    if (quote == 0 && (c == ' ' || c == '\t')) {
      inWord = false;
      continue;
    }
    if (!inWord) out.emplace_back();
    inWord = true;
    if (escapes) {
      out.back() += command[++i];
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == c) {
      quote = 0;
    } else {
      out.back() += c;
    }
  }
  if (quote != 0) return invalidArgument("the command has no closing quote");
  if (!out.empty() && out[0].empty()) return invalidArgument("the command names no program");
  return out;
}

Status checkWebhook(std::string_view url) {
  if (url.empty()) return {};
  const std::size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  const bool isPlain = std::all_of(url.begin(), url.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && static_cast<unsigned char>(c) < 127;
  });
  if (scheme == 0 || !isPlain || url.size() > 2000 ||
      webhookHost(url).size() <= scheme + std::string_view("/…").size())
    return invalidArgument("the webhook is no URL, expected https://HOST/PATH");
  return {};
}

std::string webhookHost(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  std::string_view host = url.substr(scheme + 3);
  host = host.substr(0, host.find_first_of("/?#"));
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos)
    host.remove_prefix(at + 1);
  return fmt::format("{}://{}/…", url.substr(0, scheme), host);
}

}  // namespace lockstep::app
