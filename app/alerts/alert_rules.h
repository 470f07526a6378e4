// Alert rules of runs: one table of names, units, ranges and defaults, from which the rules file,
// the command line, the window and the documentation come.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

enum class AlertRule : std::uint8_t {
  kLossNotFinite,
  kLossSpike,
  kLossPlateau,
  kStall,
  kStraggler,
  kNodeUnreachable,
  kGpuThrottled,
  kGpuTemperature,
  kDiskFree,
  kNodeMemory,
  kRunEnded,
};
inline constexpr std::size_t kAlertRules = 11;

enum class AlertField : std::uint8_t { kThreshold, kWindow, kHold };
inline constexpr std::array<std::string_view, 3> kAlertFields{"threshold", "window", "hold"};

// Actions of an alert besides its message: a desktop notification, a program, an HTTP request.
enum class AlertAction : std::uint8_t { kNotification, kCommand, kWebhook };
inline constexpr std::array<std::string_view, 3> kAlertActions{"notification", "command",
                                                               "webhook"};

struct AlertFieldInfo {
  Message unit;  // empty: the rule has no such field
  double value = 0, low = 0, high = 0;
  bool whole = false;
};
struct AlertRuleInfo {
  AlertRule rule;
  std::string_view name;  // "loss-spike"
  Message title;          // "Loss spike"
  Message help;
  bool enabled = true;
  std::array<AlertFieldInfo, 3> fields;  // by AlertField
  // An alert is over once its value is back within threshold · release.
  double release = 1;

  const AlertFieldInfo& field(AlertField which) const {
    return fields[static_cast<std::size_t>(which)];
  }
};
std::span<const AlertRuleInfo> alertRuleTable();  // indexed by AlertRule
const AlertRuleInfo& alertRuleInfo(AlertRule rule);

struct AlertRuleSettings {
  bool enabled = true;
  std::array<double, 3> values{};                   // by AlertField
  std::array<bool, 3> actions{{true, true, true}};  // by AlertAction
  std::vector<std::string_view> actionNames() const;
  bool operator==(const AlertRuleSettings&) const = default;
};

// The rules of a home, and what their actions do.
struct AlertSettings {
  AlertSettings();                                   // defaults
  std::array<AlertRuleSettings, kAlertRules> rules;  // by AlertRule
  bool notification = true;
  std::string command;  // program and arguments, see commandWords(); "": none
  std::string webhook;  // http:// or https:// URL; "": none

  AlertRuleSettings& of(AlertRule rule) { return rules[static_cast<std::size_t>(rule)]; }
  const AlertRuleSettings& of(AlertRule rule) const {
    return rules[static_cast<std::size_t>(rule)];
  }
  double value(AlertRule rule, AlertField field) const {
    return of(rule).values[static_cast<std::size_t>(field)];
  }
  // Whether an alert of the rule has this action.
  bool acts(AlertRule rule, AlertAction action) const;
  bool operator==(const AlertSettings&) const = default;
};

// Errors of all below: kInvalidArgument.
Result<AlertRule> findAlertRule(std::string_view name);
// Sets "RULE.FIELD" or "actions.ACTION" to the text of a value.
Status setAlertOption(AlertSettings& settings, std::string_view path, std::string_view value);
// Returns what setAlertOption() takes to make the one of the other: "stall.hold=120".
std::vector<std::string> alertChanges(const AlertSettings& before, const AlertSettings& after);
// Returns the number of a field, checked against its range.
Result<double> alertFieldValue(AlertRule rule, AlertField field, std::string_view text);
// Splits a command at blanks; "…", '…' and \ quote. No shell is involved.
Result<std::vector<std::string>> commandWords(std::string_view command);
Status checkWebhook(std::string_view url);
// Returns "https://host/…": paths and queries of webhooks contain secrets.
std::string webhookHost(std::string_view url);

}  // namespace lockstep::app
