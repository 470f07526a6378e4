// Decodes a YAML tree into a spec message by reflection; every mistake is reported at its place.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "app/specs/spec_text.h"
#include "app/specs/yaml_tree.h"

namespace lockstep::app {

// Sets the valid fields of `message` and appends a problem for each mistake. `modelPath`, if not
// null, receives the path of a run spec's model that is in a file of its own.
void decode(const YamlNode& node, const std::string& file, google::protobuf::Message& message,
            std::string* modelPath, std::vector<SpecProblem>& problems);

// Returns the closest of `names` (lockstep::nearest), "" if none is close.
std::string nearest(std::string_view text, const std::vector<std::string>& names);

// Returns the field at the end of `path` in a spec of `kind`; null if there is none. `parent`
// receives the type that has it. Indices and map keys are ignored.
const google::protobuf::FieldDescriptor* findField(SpecKind kind, std::string_view path,
                                                   const google::protobuf::Descriptor** parent);
const google::protobuf::Descriptor* rootOf(SpecKind kind);

// Splits a path: "a.b[2].c[key]" → {"a","b","[2]","c","[key]"}
std::vector<std::string> splitPath(std::string_view path);

}  // namespace lockstep::app
