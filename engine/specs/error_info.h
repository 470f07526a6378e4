// Conversion between errors and messages, and their form on the wire and in the history.
#pragma once

#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::specs {

run::v1::Text toText(const Message& message);
Message fromText(const run::v1::Text& text);
// As JSON: {"text": …, "id": …, "arguments": […]}. What is not such an object is a text.
std::string toJson(const Message& message);
Message messageFromJson(const std::string& json);
run::v1::ErrorInfo toInfo(const Error& error);
Error fromInfo(const run::v1::ErrorInfo& info);

}  // namespace lockstep::specs
