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

using WrapBackend =
    std::function<std::unique_ptr<backends::Backend>(int rank, std::unique_ptr<backends::Backend>)>;

// Results of one rank are cached in `known`, where it is not null, for requests with the same
// one-rank plans. `wrapSeveral`, where not null, wraps the backends of the several ranks, for tests
// of faults. Errors: kInvalidArgument for a request that cannot be read; those of a rank.
Result<node::v1::VerifyReply> verifyPlans(
    const node::v1::VerifyRequest& request,
    std::map<std::string, runtime::Reference>* known = nullptr,
    const WrapBackend& wrapSeveral = nullptr);

}  // namespace lockstep::agent
