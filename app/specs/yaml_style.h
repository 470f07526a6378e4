// How specs are written as YAML: sections (training, a node, …) with one field per line; what is
// small, such as an optimizer or a layer, in the braces of one line while it fits.
#pragma once

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <string>

#include "app/specs/yaml_tree.h"

namespace lockstep::app {

inline constexpr std::size_t kYamlLine = 100;  // columns

// Whether messages of this type have one field per line; null: false.
bool isYamlSection(const google::protobuf::Descriptor* type);

// In one line: "{kind: adam, learning_rate: 0.1}".
std::string yamlFlow(const YamlNode& node);
// What follows "key:" where the key starts at column `indent`, from 0: " 64", " {kind: adam}" or
// lines below. `column` is where the text starts. `type` is the message of the value, or of the
// items of a list; null for scalars. No newline at the end.
std::string yamlValue(const YamlNode& node, const google::protobuf::Descriptor* type,
                      std::size_t indent, std::size_t column);
// "key: value" from column `indent`.
std::string yamlEntry(const std::string& key, const YamlNode& value,
                      const google::protobuf::Descriptor* type, std::size_t indent);
// "- item" from column `indent`.
std::string yamlItem(const YamlNode& item, const google::protobuf::Descriptor* type,
                     std::size_t indent);

}  // namespace lockstep::app
