// alerts, alerts set, alerts test.
#include <cstdio>

#include "app/alerts/alert_actions.h"
#include "app/alerts/alert_file.h"
#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"

namespace lockstep::app::cli {
namespace {

// "8 × MAD"; "–" where the rule has no such field.
std::string fieldText(const AlertRuleInfo& info, const AlertRuleSettings& rule, AlertField field) {
  const Message& unit = info.field(field).unit;
  if (unit.empty()) return "–";
  return fmt::format("{} {}", rule.values[static_cast<std::size_t>(field)], unit);
}

std::string actionsText(const AlertRuleSettings& rule) {
  const auto names = rule.actionNames();
  return names.empty() ? "–" : fmt::format("{}", fmt::join(names, ", "));
}

void printJson(const AlertSettings& settings) {
  for (const AlertRuleInfo& info : alertRuleTable()) {
    const AlertRuleSettings& rule = settings.of(info.rule);
    JsonLine line("rule");
    line.add("rule", info.name).add("enabled", rule.enabled);
    for (std::size_t i = 0; i < kAlertFields.size(); ++i) {
      if (info.fields[i].unit.empty()) continue;
      line.add(kAlertFields[i], rule.values[i]);
      line.add(fmt::format("{}_unit", kAlertFields[i]), info.fields[i].unit.text());
    }
    std::vector<std::string> actions;
    for (const std::string_view name : rule.actionNames())
      actions.push_back(fmt::format("\"{}\"", name));
    line.addRaw("actions", fmt::format("[{}]", fmt::join(actions, ",")));
    line.add("help", info.help.text());
    line.print();
  }
  JsonLine line("actions");
  line.add("notification", settings.notification).add("command", settings.command);
  line.add("webhook", webhookHost(settings.webhook));
  line.print();
}

void printTable(const AlertSettings& settings) {
  Table table;
  table.header = {"rule", "enabled", "threshold", "window", "hold", "actions"};
  table.right = {false, false, false, false, false, false};
  for (const AlertRuleInfo& info : alertRuleTable()) {
    const AlertRuleSettings& rule = settings.of(info.rule);
    table.rows.push_back({std::string(info.name), rule.enabled ? "yes" : "no",
                          fieldText(info, rule, AlertField::kThreshold),
                          fieldText(info, rule, AlertField::kWindow),
                          fieldText(info, rule, AlertField::kHold), actionsText(rule)});
  }
  put(stdout, table.text());
  put(stdout, fmt::format("\nnotification  {}\ncommand       {}\nwebhook       {}\n",
                          settings.notification ? "yes (in the studio)" : "no",
                          settings.command.empty() ? "–" : settings.command,
                          settings.webhook.empty() ? "–" : webhookHost(settings.webhook)));
}

std::string markdown() {
  const AlertSettings defaults;
  std::string out =
      "# Alert rules\n\nMade by `lockstep alerts --markdown` from the table in "
      "`app/alerts/alert_rules.cc`.\n\n| rule | raised when | enabled | threshold | window | hold "
      "|\n|---|---|---|---|---|---|\n";
  for (const AlertRuleInfo& info : alertRuleTable()) {
    const AlertRuleSettings& rule = defaults.of(info.rule);
    out += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", info.name, info.help,
                       rule.enabled ? "yes" : "no", fieldText(info, rule, AlertField::kThreshold),
                       fieldText(info, rule, AlertField::kWindow),
                       fieldText(info, rule, AlertField::kHold));
  }
  return out;
}

int refuse(const Error& error, bool json) {
  report(error, json);
  return exitCodeOf(error);
}

}  // namespace

int alertsCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  if (arguments.has("markdown")) {
    put(stdout, markdown());
    return kSucceeded;
  }
  const auto settings = loadAlertSettings(alertFile(globals.home));
  if (!settings.ok()) return refuse(settings.error(), json);
  if (json)
    printJson(*settings);
  else
    printTable(*settings);
  return kSucceeded;
}

int alertsSetCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json"), defaults = arguments.has("defaults");
  const std::string file = alertFile(globals.home);
  AlertSettings settings;
  const Status done = [&]() -> Status {
    if (arguments.words().empty() && !defaults)
      return invalidArgument("alerts set needs RULE.FIELD=VALUE or --defaults");
    if (!defaults) {
      LOCKSTEP_ASSIGN(settings, loadAlertSettings(file));
    }
    for (const std::string& word : arguments.words()) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos)
        return invalidArgument("'{}' sets nothing, expected RULE.FIELD=VALUE", word);
      LOCKSTEP_TRY(setAlertOption(settings, word.substr(0, equals),
                                  std::string_view(word).substr(equals + 1)));
    }
    return saveAlertSettings(file, settings);
  }();
  if (!done.ok()) return refuse(done.error(), json);
  if (json) printJson(settings);
  return kSucceeded;
}

int alertsTestCommand(const Globals& globals, const Arguments& arguments) {
  const bool json = arguments.has("json");
  const auto settings = loadAlertSettings(alertFile(globals.home));
  if (!settings.ok()) return refuse(settings.error(), json);
  const auto rule = findAlertRule(arguments.words()[0]);
  if (!rule.ok()) return refuse(rule.error(), json);
  int performed = 0, exit = kSucceeded;
  for (const AlertAction action : {AlertAction::kCommand, AlertAction::kWebhook}) {
    if (!settings->acts(*rule, action)) continue;
    ++performed;
    const Status done = performAlertAction(action, *settings, sampleAlert(*rule));
    const std::string_view name = kAlertActions[static_cast<std::size_t>(action)];
    if (!done.ok())
      exit = refuse(done.error(), json);
    else if (json)
      JsonLine("action").add("action", name).add("done", true).print();
    else
      put(stdout, fmt::format("{}: done\n", name));
  }
  if (performed > 0) return exit;
  Error error = makeError(Code::kFailedPrecondition, "the rule {} has no command and no webhook",
                          arguments.words()[0]);
  error.next = "lockstep alerts set actions.command='PROGRAM ARGUMENT…' sets one";
  return refuse(error, json);
}

}  // namespace lockstep::app::cli
