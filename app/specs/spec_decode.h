// From a YAML tree to a spec message by reflection, with every mistake told at its place.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"

namespace lockstep::app {

// Writes what is right into `message` and appends a problem for each mistake. `modelPath`, where
// not null, receives the path of a run spec whose model is the name of a file.
void decode(const YamlNode& node, const std::string& file, google::protobuf::Message& message,
            std::string* modelPath, std::vector<SpecProblem>& problems);

// The nearest of `names` to `text`, "" where none is near.
std::string nearest(const std::string& text, const std::vector<std::string>& names);

// The field at the end of `path` below the message of `kind`; null where there is none. `parent`
// receives the message that has it. Indices and map keys are ignored.
const google::protobuf::FieldDescriptor* findField(SpecKind kind, std::string_view path,
                                                   const google::protobuf::Descriptor** parent);
const google::protobuf::Descriptor* rootOf(SpecKind kind);

// "a.b[2].c[key]" → {"a","b","[2]","c","[key]"}
std::vector<std::string> splitPath(std::string_view path);

// Words a text field may have; empty: free.
const std::vector<std::string>& choicesOf(const google::protobuf::FieldDescriptor& field);
std::string helpOf(const google::protobuf::FieldDescriptor& field);
// What leaving the field out means, in words; "" where a default is filled in or it is needed.
std::string unsetOf(const google::protobuf::FieldDescriptor& field);
bool isNeeded(const google::protobuf::FieldDescriptor& field);
bool isFile(const google::protobuf::FieldDescriptor& field);  // the path of one
// The value a field of a new layer begins with; "" : it is left out.
std::string startOf(const google::protobuf::FieldDescriptor& field);
// A scalar field of a message as YAML has it, without quotes.
std::string fieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field, int index = -1);

}  // namespace lockstep::app
