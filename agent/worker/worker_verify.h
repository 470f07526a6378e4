// Plans of several ranks held against plans of one, all ranks as threads of this process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/runtime/verify.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

using OpenBackend = std::function<Result<std::unique_ptr<backends::Backend>>(int rank)>;

// What one rank made of its plans is kept in `known`, where it is not null, for questions that have
// the same ones. `openSeveral`, where not null, opens the backends of the several ranks. Errors:
// kInvalidArgument of what cannot be read; what a rank says.
Result<node::v1::VerifyReply> verifyPlans(
    const node::v1::VerifyRequest& request,
    std::map<std::string, runtime::Reference>* known = nullptr,
    const OpenBackend& openSeveral = nullptr);

}  // namespace lockstep::agent
