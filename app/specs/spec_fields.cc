// The fields that a spec can have, from the option table.
#include <algorithm>

#include "app/specs/spec_state.h"
#include "app/specs/yaml_style.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"

namespace lockstep::app {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

namespace {

FieldType typeOfField(const FieldDescriptor& field) {
  const bool list = field.is_repeated();
  if (field.is_map()) return FieldType::kMap;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return list ? FieldType::kMessageList : FieldType::kMessage;
    case FieldDescriptor::CPPTYPE_STRING:
      return list ? FieldType::kTextList : FieldType::kText;
    case FieldDescriptor::CPPTYPE_BOOL:
      return FieldType::kBoolean;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? FieldType::kNumberList : FieldType::kNumber;
    default:
      return list ? FieldType::kIntegerList : FieldType::kInteger;
  }
}

// "learning_rate" → "Learning rate"
std::string labelOf(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') name[0] += 'A' - 'a';
  return name;
}

FieldInfo infoOf(const FieldDescriptor& field) {
  const auto& option = specs::optionOf(field);
  FieldInfo info;
  info.name = field.name();
  info.type = typeOfField(field);
  info.label = {option.label().empty() ? labelOf(field.name()) : option.label(), option.label_zh()};
  info.help = {option.help(), option.help_zh()};
  info.unset = {option.unset(), option.unset_zh()};
  if (!option.default_value().empty() && option.default_value() != "{}")
    info.unset = {option.default_value(), option.default_value()};
  info.choices.assign(option.values().begin(), option.values().end());
  info.unit = option.unit();
  if (option.has_min()) info.min = option.min();
  if (option.has_max()) info.max = option.max();
  if (option.has_below()) info.below = option.below();
  if (option.has_used_with())
    info.usedWith = fmt::format("{} {}", option.used_with().field(),
                                fmt::join(option.used_with().values(), " or "));
  info.needed = option.required();
  info.file = option.file();
  info.advanced = option.advanced();
  return info;
}

}  // namespace

std::vector<LayerKind> SpecText::layerKinds() {
  std::vector<LayerKind> kinds;
  const auto* kind = spec::v1::LayerSpec::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kind->field_count(); ++i) {
    const FieldDescriptor& field = *kind->field(i);
    YamlNode start;
    start.kind = YamlNode::Kind::kMap;
    for (int k = 0; k < field.message_type()->field_count(); ++k) {
      const FieldDescriptor& part = *field.message_type()->field(k);
      if (const std::string& value = specs::optionOf(part).start(); !value.empty()) {
        start.entries.push_back({scalarNode(part.name(), true), scalarNode(value, false)});
      }
    }
    kinds.push_back({infoOf(field), field.name() + ": " + yamlFlow(start)});
  }
  return kinds;
}

std::vector<FieldInfo> SpecText::fields(SpecKind kind, std::string_view path) {
  const google::protobuf::Descriptor* type = rootOf(kind);
  if (!splitPath(path).empty()) {
    const FieldDescriptor* field = findField(kind, path, nullptr);
    type = field == nullptr || field->is_map() ? nullptr : field->message_type();
  }
  std::vector<FieldInfo> infos;
  for (int i = 0; type != nullptr && i < type->field_count(); ++i) {
    const FieldDescriptor& field = *type->field(i);
    if (!specs::optionOf(field).former()) infos.push_back(infoOf(field));
  }
  return infos;
}

std::optional<FieldInfo> SpecText::field(SpecKind kind, std::string_view path) {
  const FieldDescriptor* field = findField(kind, path, nullptr);
  if (field == nullptr) return std::nullopt;
  return infoOf(*field);
}

bool SpecText::isUsed(SpecKind kind, std::string_view path, std::string_view name,
                      const std::vector<std::pair<std::string, std::string>>& values) {
  const FieldDescriptor* parent = findField(kind, path, nullptr);
  const Descriptor* type = parent == nullptr ? nullptr : parent->message_type();
  const FieldDescriptor* field =
      type == nullptr ? nullptr : type->FindFieldByName(std::string(name));
  if (field == nullptr) return false;
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  for (const auto& [other, value] : values)
    if (const FieldDescriptor* one = type->FindFieldByName(other); one != nullptr)
      specs::setField(*message, *one, value);
  return specs::isUsed(*message, *field);
}

}  // namespace lockstep::app
