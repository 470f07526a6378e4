// The option table (proto/lockstep/spec/v1/option.proto) as code uses it: defaults and checks of
// all fields of a spec. Only relations between options are left to code.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/spec/v1/option.pb.h"

namespace lockstep::specs {

const spec::v1::Option& optionOf(const google::protobuf::FieldDescriptor& field);

// Returns all that a text field may be, in the order of the table.
template <typename M>
std::vector<std::string_view> valuesOf(const std::string& field) {
  const auto& values = optionOf(*M::descriptor()->FindFieldByName(field)).values();
  return {values.begin(), values.end()};
}

// Returns whether the field's values may have units, as "256MiB" (engine/base/byte_size.h).
bool isByteSize(const google::protobuf::FieldDescriptor& field);

// Returns whether the other fields of `message` let this one be written: Option.used_with.
bool isAllowed(const google::protobuf::Message& message,
               const google::protobuf::FieldDescriptor& field);
// Returns whether the field has an effect: isAllowed(), and for a field of StrategySpec the
// strategy is one of Option.used_by.
bool isUsed(const google::protobuf::Message& message,
            const google::protobuf::FieldDescriptor& field);

// Returns the scalar as YAML has it, without quotes. `index` is of a repeated field.
std::string fieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field, int index = -1);
// Sets the scalar to what YAML has, or clears it where that is Option.automatic. Returns false if
// the text is not a value of the field's type.
bool setField(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
              std::string_view text);

// Writes the default value into each field that is left out and allowed, here and below.
void fillDefaults(google::protobuf::Message& message);
// Checks each field that is set, recursively: its range, its values and that it is allowed.
// `path` is that of `message`: "training.optimizer", or "" for a whole spec. Errors:
// kInvalidArgument with `field` and remedies.
Status checkOptions(const google::protobuf::Message& message, std::string_view path);

}  // namespace lockstep::specs
