#include "app/alerts/alert_file.h"

#include "app/specs/yaml_tree.h"
#include "engine/base/file.h"
#include "engine/base/suggest.h"

namespace lockstep::app {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

struct Place {
  const std::string& file;

  Error error(const YamlNode& node, const std::string& field, const Message& what) const {
    Error out = invalidArgument("{}:{}:{}: {}", file, node.line, node.column, what);
    out.field = field;
    return out;
  }
};

// Returns the text of a scalar, or of a list of scalars with commas between them.
Result<std::string> textOf(const YamlNode& node, const std::string& field, const Place& place) {
  if (node.kind == YamlNode::Kind::kNull) return std::string();
  if (node.kind == YamlNode::Kind::kScalar) return node.value;
  if (node.kind == YamlNode::Kind::kMap)
    return place.error(node, field, message("a map, expected a value"));
  std::string out;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::kScalar)
      return place.error(item, field, message("a list, expected a value"));
    out += (out.empty() ? "" : ",") + item.value;
  }
  return out;
}

Status readSection(const YamlNode& node, const std::string& section, const Place& place,
                   AlertSettings& settings) {
  if (node.kind == YamlNode::Kind::kNull) return {};
  if (node.kind != YamlNode::Kind::kMap)
    return place.error(node, section, message("no map, expected 'name: value'"));
  for (const auto& [key, value] : node.entries) {
    const std::string field = section + "." + key.value;
    LOCKSTEP_ASSIGN(const std::string text, textOf(value, field, place));
    if (Status set = setAlertOption(settings, field, text); !set.ok())
      return place.error(key, field, set.error().what);
  }
  return {};
}

Status readRules(const YamlNode& node, const Place& place, AlertSettings& settings) {
  if (node.kind == YamlNode::Kind::kNull) return {};
  if (node.kind != YamlNode::Kind::kMap)
    return place.error(node, "rules", message("no map, expected 'name: value'"));
  for (const auto& [key, value] : node.entries) {
    if (const auto rule = findAlertRule(key.value); !rule.ok())
      return place.error(key, "rules." + key.value, rule.error().what);
    LOCKSTEP_TRY(readSection(value, key.value, place, settings));
  }
  return {};
}

std::string ruleYaml(const AlertRuleInfo& info, const AlertRuleSettings& rule) {
  std::string out = fmt::format("{}: {{enabled: {}", info.name, rule.enabled);
  for (std::size_t i = 0; i < kAlertFields.size(); ++i)
    if (!info.fields[i].unit.empty())
      out += fmt::format(", {}: {}", kAlertFields[i], rule.values[i]);
  return out + fmt::format(", actions: [{}]}}", fmt::join(rule.actionNames(), ", "));
}

}  // namespace

std::string alertFile(const Home& home) { return home.root + "/alert-rules.yaml"; }

Result<AlertSettings> parseAlertSettings(const std::string& text, const std::string& file) {
  const Place place{file};
  YamlNode root;
  YamlFailure failure;
  if (!parseYaml(text, root, failure)) {
    YamlNode at;
    at.line = failure.line;
    at.column = failure.column;
    return place.error(at, {},
                       failure.expected.empty()
                           ? failure.what
                           : message("{}, {}", failure.what, failure.expected));
  }
  AlertSettings out;
  if (root.kind == YamlNode::Kind::kNull) return out;
  if (root.kind != YamlNode::Kind::kMap)
    return place.error(root, {}, message("no map, expected 'name: value'"));
  constexpr std::array<std::string_view, 2> kSections{"actions", "rules"};
  for (const auto& [key, value] : root.entries) {
    if (key.value == "actions") {
      LOCKSTEP_TRY(readSection(value, "actions", place, out));
    } else if (key.value == "rules") {
      LOCKSTEP_TRY(readRules(value, place, out));
    } else {
      return place.error(key, key.value,
                         message("there is no field '{}', expected {}", key.value,
                                 expectedOneOf(key.value, kSections)));
    }
  }
  return out;
}

std::string alertYaml(const AlertSettings& settings) {
  std::string out =
      "# Alert rules of Lockstep. The studio and `lockstep alerts set` write this file anew;\n"
      "# comments are not kept.\nactions:\n";
  out += fmt::format("  notification: {}\n", settings.notification);
  out += fmt::format("  command: {}\n", yamlScalar(settings.command, true));
  out += fmt::format("  webhook: {}\nrules:\n", yamlScalar(settings.webhook, true));
  for (const AlertRuleInfo& info : alertRuleTable()) {
    out += fmt::format("  # {}\n  {}\n", info.help, ruleYaml(info, settings.of(info.rule)));
  }
  return out;
}

Result<AlertSettings> loadAlertSettings(const std::string& file) {
  const auto text = readFile(file, kMostBytes);
  if (text.ok()) return parseAlertSettings(*text, file);
  if (text.error().code == Code::kNotFound) return AlertSettings();
  return text.error();
}

Status saveAlertSettings(const std::string& file, const AlertSettings& settings) {
  return writeFileAtomically(file, alertYaml(settings), 0600);
}

}  // namespace lockstep::app
