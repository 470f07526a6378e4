#include "app/specs/yaml_style.h"

#include <algorithm>
#include <array>

namespace lockstep::app {
namespace {

using google::protobuf::Descriptor;

bool isLayer(const Descriptor* type) { return type != nullptr && type->name() == "LayerSpec"; }

const Descriptor* typeOf(const Descriptor* type, const std::string& key) {
  const auto* field = type == nullptr ? nullptr : type->FindFieldByName(key);
  return field == nullptr || field->is_map() ? nullptr : field->message_type();
}

// The fields of a map, each on a line of its own, the first without its indentation.
std::string lines(const YamlNode& map, const Descriptor* type, std::size_t indent) {
  std::string out;
  for (const auto& entry : map.entries) {
    if (!out.empty()) out += "\n" + std::string(indent, ' ');
    out += yamlEntry(yamlScalar(entry.key.value, true), entry.node, typeOf(type, entry.key.value),
                     indent);
  }
  return out;
}

}  // namespace

bool isYamlSection(const Descriptor* type) {
  static constexpr std::array<std::string_view, 9> kSections{
      "RunSpec",      "ModelSpec",   "DataSpec", "DataFiles",   "TrainingSpec",
      "StrategySpec", "ClusterSpec", "NodeSpec", "WorkloadSpec"};
  return type != nullptr &&
         std::find(kSections.begin(), kSections.end(), type->name()) != kSections.end();
}

std::string yamlFlow(const YamlNode& node) {
  std::string out;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return out;
    case YamlNode::Kind::kScalar:
      return yamlScalar(node.value, node.quoted);
    case YamlNode::Kind::kMap:
      for (const auto& entry : node.entries) {
        const std::string value = yamlFlow(entry.node);
        out += (out.empty() ? "" : ", ") + yamlScalar(entry.key.value, true) + ":" +
               (value.empty() ? "" : " " + value);
      }
      return "{" + out + "}";
    case YamlNode::Kind::kList:
      for (const auto& item : node.items) out += (out.empty() ? "" : ", ") + yamlFlow(item);
      return "[" + out + "]";
  }
  return out;
}

std::string yamlValue(const YamlNode& node, const Descriptor* type, std::size_t indent,
                      std::size_t column) {
  const bool map = node.kind == YamlNode::Kind::kMap && !node.entries.empty();
  const bool list = node.kind == YamlNode::Kind::kList && !node.items.empty() &&
                    node.items.front().kind == YamlNode::Kind::kMap;
  const std::string flow = yamlFlow(node);
  const bool large = isYamlSection(type) || (list && isLayer(type));
  if (!(map || list) || (!large && column + 1 + flow.size() <= kYamlLine)) {
    return flow.empty() ? "" : " " + flow;
  }
  const std::string start = "\n" + std::string(indent + 2, ' ');
  if (map) return start + lines(node, type, indent + 2);
  std::string out;
  for (const auto& item : node.items) out += start + yamlItem(item, type, indent + 2);
  return out;
}

std::string yamlEntry(const std::string& key, const YamlNode& value, const Descriptor* type,
                      std::size_t indent) {
  return key + ":" + yamlValue(value, type, indent, indent + key.size() + 1);
}

std::string yamlItem(const YamlNode& item, const Descriptor* type, std::size_t indent) {
  if (item.kind != YamlNode::Kind::kMap || item.entries.empty()) return "- " + yamlFlow(item);
  // A layer with nothing but its kind needs no braces of its own.
  const bool bare = isLayer(type) && item.entries.size() == 1;
  const std::string flow = yamlFlow(item);
  if (!isYamlSection(type) && !bare && indent + 2 + flow.size() <= kYamlLine) return "- " + flow;
  return "- " + lines(item, type, indent + 2);
}

}  // namespace lockstep::app
