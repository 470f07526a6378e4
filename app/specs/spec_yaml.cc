// Spec messages as YAML: the fields that are set, in the order of their definition.
#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "app/specs/spec_decode.h"
#include "app/specs/spec_text.h"
#include "app/specs/yaml_style.h"
#include "engine/specs/options.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<const FieldDescriptor*> fieldsSet(const Message& message) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  std::sort(set.begin(), set.end(), [](const FieldDescriptor* a, const FieldDescriptor* b) {
    return a->index() < b->index();
  });
  return set;
}

YamlNode nodeOf(const Message& message, const FieldDescriptor& field, int index) {
  YamlNode out;
  out.kind = YamlNode::Kind::kScalar;
  out.value = specs::fieldText(message, field, index);
  out.quoted = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return out;
}

YamlNode keyOf(std::string name) {
  YamlNode out;
  out.kind = YamlNode::Kind::kScalar;
  out.value = std::move(name);
  return out;
}

// Writes the fields that are set.
YamlNode nodeOf(const Message& message) {
  const auto* r = message.GetReflection();
  YamlNode out;
  out.kind = YamlNode::Kind::kMap;
  for (const auto* field : fieldsSet(message)) {
    YamlNode value;
    if (field->is_map()) {
      value.kind = YamlNode::Kind::kMap;
      for (int i = 0; i < r->FieldSize(message, field); ++i) {
        const Message& pair = r->GetRepeatedMessage(message, field, i);
        value.entries.push_back(
            {keyOf(pair.GetReflection()->GetString(pair, field->message_type()->map_key())),
             nodeOf(pair, *field->message_type()->map_value(), -1)});
      }
    } else if (field->is_repeated()) {
      value.kind = YamlNode::Kind::kList;
      for (int i = 0; i < r->FieldSize(message, field); ++i) {
        value.items.push_back(field->message_type() != nullptr
                                  ? nodeOf(r->GetRepeatedMessage(message, field, i))
                                  : nodeOf(message, *field, i));
      }
    } else {
      value = field->message_type() != nullptr ? nodeOf(r->GetMessage(message, field))
                                               : nodeOf(message, *field, -1);
    }
    out.entries.push_back({keyOf(field->name()), std::move(value)});
  }
  return out;
}

std::string yamlOf(const Message& message) {
  std::string out;
  for (const auto& entry : nodeOf(message).entries) {
    const auto* field = message.GetDescriptor()->FindFieldByName(entry.key.value);
    out += yamlEntry(entry.key.value, entry.node, field->message_type(), 0) + "\n";
  }
  return out;
}

}  // namespace

std::string toYaml(const spec::v1::RunSpec& spec) { return yamlOf(spec); }

std::string toYaml(const spec::v1::ClusterSpec& spec) { return yamlOf(spec); }

}  // namespace lockstep::app
