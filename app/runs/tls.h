// Identities of the supervisors of one run: a certificate authority made for it and thrown away,
// and a certificate a node, whose subject alternative name is the URI
// lockstep://run/<run>/node/<node>/generation/<generation>. EC P-256. Valid at any time: nodes drop
// the keys when the run ends, whatever their clocks say.
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
