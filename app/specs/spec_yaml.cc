// Spec messages as YAML: fields set, in the order of their definition, layers in one line each.
#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string scalar(const Message& message, const FieldDescriptor& field, int index) {
  const auto* r = message.GetReflection();
  const bool item = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format(
          "{}", item ? r->GetRepeatedInt32(message, &field, index) : r->GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format(
          "{}", item ? r->GetRepeatedInt64(message, &field, index) : r->GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", item ? r->GetRepeatedUInt64(message, &field, index)
                                    : r->GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{}", item ? r->GetRepeatedDouble(message, &field, index)
                                    : r->GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r->GetBool(message, &field) ? "true" : "false";
    default:
      break;
  }
  return yamlScalar(
      item ? r->GetRepeatedString(message, &field, index) : r->GetString(message, &field), true);
}

std::vector<const FieldDescriptor*> fieldsSet(const Message& message) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  std::sort(set.begin(), set.end(), [](const FieldDescriptor* a, const FieldDescriptor* b) {
    return a->index() < b->index();
  });
  return set;
}

std::string flow(const Message& message);

std::string flowValue(const Message& message, const FieldDescriptor& field) {
  const auto* r = message.GetReflection();
  if (!field.is_repeated()) {
    return field.message_type() != nullptr ? flow(r->GetMessage(message, &field))
                                           : scalar(message, field, -1);
  }
  std::string out;
  for (int i = 0; i < r->FieldSize(message, &field); ++i) {
    if (i > 0) out += ", ";
    if (field.is_map()) {
      const Message& pair = r->GetRepeatedMessage(message, &field, i);
      const auto* p = pair.GetReflection();
      out += yamlScalar(p->GetString(pair, field.message_type()->map_key()), true) + ": " +
             yamlScalar(p->GetString(pair, field.message_type()->map_value()), true);
    } else if (field.message_type() != nullptr) {
      out += flow(r->GetRepeatedMessage(message, &field, i));
    } else {
      out += scalar(message, field, i);
    }
  }
  return field.is_map() ? "{" + out + "}" : "[" + out + "]";
}

std::string flow(const Message& message) {
  std::string out;
  for (const auto* field : fieldsSet(message)) {
    out += (out.empty() ? "" : ", ") + field->name() + ": " + flowValue(message, *field);
  }
  return "{" + out + "}";
}

bool small(const Message& message) {
  const std::string& name = message.GetDescriptor()->name();
  return name != "RunSpec" && name != "ModelSpec" && name != "DataSpec" && name != "DataFiles" &&
         name != "TrainingSpec" && name != "StrategySpec" && name != "ClusterSpec" &&
         name != "NodeSpec";
}

void block(const Message& message, std::size_t depth, std::string& out);

// "- " and the fields of one item.
void item(const Message& message, std::size_t depth, std::string& out) {
  const std::string indent(depth * 2, ' ');
  if (small(message)) {
    std::string text = flow(message);
    if (message.GetDescriptor()->name() == "LayerSpec" && text.size() > 2) {
      const auto set = fieldsSet(message);
      if (set.size() == 1) text = text.substr(1, text.size() - 2);
    }
    out += indent + "- " + text + "\n";
    return;
  }
  std::string fields;
  block(message, depth + 1, fields);
  if (fields.empty()) {
    out += indent + "- {}\n";
    return;
  }
  fields.replace(depth * 2, 2, "- ");
  out += fields;
}

void block(const Message& message, std::size_t depth, std::string& out) {
  const std::string indent(depth * 2, ' ');
  const auto* r = message.GetReflection();
  for (const auto* field : fieldsSet(message)) {
    out += indent + field->name() + ":";
    if (field->message_type() != nullptr && !field->is_map() && field->is_repeated()) {
      out += "\n";
      for (int i = 0; i < r->FieldSize(message, field); ++i) {
        item(r->GetRepeatedMessage(message, field, i), depth + 1, out);
      }
    } else if (field->message_type() != nullptr && !field->is_repeated() &&
               !small(r->GetMessage(message, field))) {
      std::string fields;
      block(r->GetMessage(message, field), depth + 1, fields);
      out += fields.empty() ? " {}\n" : "\n" + fields;
    } else {
      out += " " + flowValue(message, *field) + "\n";
    }
  }
}

}  // namespace

std::string toYaml(const spec::v1::RunSpec& spec) {
  std::string out;
  block(spec, 0, out);
  return out;
}

std::string toYaml(const spec::v1::ClusterSpec& spec) {
  std::string out;
  block(spec, 0, out);
  return out;
}

}  // namespace lockstep::app
