// The messages of the node's kernel.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// Reads the newest messages from /dev/kmsg, or from the system call of dmesg where a container has
// no such device. Errors: kInvalidArgument; kPermissionDenied, with what to do.
Result<node::v1::ReadKernelLogReply> readKernelLog(const node::v1::ReadKernelLogRequest& request);

// A record of /dev/kmsg: "6,339,5140900,-;text\n KEY=value". Absent: it is none.
std::optional<node::v1::ReadKernelLogReply::Line> parseKernelRecord(std::string_view record);
// A line as the system call returns it: "<6>[    5.140900] text"; without a time it is 0.
std::optional<node::v1::ReadKernelLogReply::Line> parseKernelLine(std::string_view line);

}  // namespace lockstep::agent
