// Conversion of errors to and from their protobuf message.
#pragma once

#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::specs {

run::v1::ErrorInfo toInfo(const Error& error);
Error fromInfo(const run::v1::ErrorInfo& info);

}  // namespace lockstep::specs
