// Plans of several ranks held against plans of one, all ranks as threads of this process.
#pragma once

#include <map>
#include <string>

#include "engine/base/status.h"
#include "engine/runtime/verify.h"
#include "lockstep/node/v1/node.pb.h"

namespace lockstep::agent {

// What one rank made of its plans is kept in `known`, where it is not null, for questions that have the
// same ones. Errors: kInvalidArgument of what cannot be read; what a rank says.
Result<node::v1::VerifyReply> verifyPlans(const node::v1::VerifyRequest& request,
                                          std::map<std::string, runtime::Reference>* known = nullptr);

}  // namespace lockstep::agent
