// Verification: plans of several ranks against plans of one rank, with all ranks as threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/runtime/verify.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

using WrapBackend =
    std::function<std::unique_ptr<backends::Backend>(int rank, std::unique_ptr<backends::Backend>)>;

// `known`, if not null, caches one-rank results for requests with the same one-rank plans.
// `wrapSeveral`, if not null, wraps the backends of the several ranks, to inject faults in tests.
// Errors: kInvalidArgument for an invalid request; those of a rank.
Result<node::v1::VerifyReply> verifyPlans(
    const node::v1::VerifyRequest& request,
    std::map<std::string, runtime::Reference>* known = nullptr,
    const WrapBackend& wrapSeveral = nullptr);

}  // namespace lockstep::agent
