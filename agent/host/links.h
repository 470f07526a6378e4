// Links of this node to others. LinkSampler: how fast the processes of a run send to other nodes,
// by the kernel's account of their TCP connections (sock_diag, tcp_info). Any program's connections
// count, whatever library opened them; RDMA does not.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

// Returns the speed that the driver tells of the adapter with this numeric address, in bytes per
// second; 0: it tells none, as those of the loopback and of many virtual machines.
double adapterSpeed(const std::string& address);
// Likewise, of the driver's text: megabits per second, -1 where it is not known.
double adapterSpeedIn(std::string_view text);

class LinkSampler {
 public:
  static constexpr Nanoseconds kInterval = 400'000'000;

  // Returns a sample for each node to which these processes have sent since the previous one, which
  // has to be taken before their connections are opened. Returns nothing within kInterval of it.
  // `nodes`: numeric address → name, of the other nodes.
  std::vector<run::v1::LinkSample> sample(const std::vector<int>& processes,
                                          const std::map<std::string, std::string>& nodes);

 private:
  // Since the connection was opened.
  struct Totals {
    std::uint64_t sent = 0;                  // bytes, acknowledged
    std::uint64_t segments = 0, resent = 0;  // segments with data, and those of them sent again
    double underWay = 0;                     // seconds in which data was
    double sending = 0;                      // of these, as LinkSample.sending
  };
  Nanoseconds before_ = 0;
  std::map<std::uint64_t, Totals> connections_;  // by inode
};

}  // namespace lockstep::agent
