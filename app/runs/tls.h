// TLS identities of the supervisors of one run: an ephemeral certificate authority, and one
// certificate per node, with the URI lockstep://run/<run>/node/<node>/generation/<generation> as
// subject alternative name. EC P-256. No expiry, since clocks may be wrong; nodes drop the keys
// when the run ends.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::app {

struct RunIdentity {
  std::string caPem, certificatePem, keyPem;
};
Result<std::map<std::string, RunIdentity>> makeRunIdentities(const std::string& run, int generation,
                                                             const std::vector<std::string>& nodes);

}  // namespace lockstep::app
