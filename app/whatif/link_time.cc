#include "app/whatif/link_time.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "engine/plan/sent_bytes.h"

namespace lockstep::app {
namespace {

using Link = std::pair<std::string, std::string>;  // from, to
using Bytes = std::map<Link, double>;

// What an exchange sends between nodes. Messages of one step are sent one a peer.
Bytes bytesOf(const MeasuredRun& run, const MeasuredRun::Exchange& exchange) {
  Bytes out;
  for (const auto& [rank, id] : exchange.places) {
    const MeasuredRun::Rank& own = run.ranks[static_cast<std::size_t>(rank)];
    const auto at = static_cast<std::size_t>(id);
    const plan::ScheduleEntry& entry = run.plan.entriesOf(rank)[own.entryOf[at]];
    for (const plan::Traffic& sent : plan::sentIn(
             run.plan, rank, entry, *run.plan.find(entry.program, rank), *own.script[at])) {
      const std::string& from = run.nodes[static_cast<std::size_t>(sent.from)];
      const std::string& to = run.nodes[static_cast<std::size_t>(sent.to)];
      if (from != to) out[{from, to}] += static_cast<double>(sent.bytes);
    }
  }
  return out;
}

double busiest(const Bytes& bytes, const Bytes& rates) {
  double longest = 0;
  for (const auto& [link, count] : bytes)
    if (const auto rate = rates.find(link); rate != rates.end())
      longest = std::max(longest, count / rate->second);
  return longest;
}

}  // namespace

Result<std::vector<ExchangeLinks>> exchangeLinks(const MeasuredRun& run,
                                                 const std::vector<LinkRate>& rates) {
  std::vector<ExchangeLinks> out(run.exchanges.size());
  if (rates.empty()) return out;
  std::vector<Bytes> bytes;
  Bytes known = run.linkRates;
  for (const MeasuredRun::Exchange& exchange : run.exchanges) {
    bytes.push_back(bytesOf(run, exchange));
    if (exchange.seconds <= 0) continue;
    for (const auto& [link, count] : bytes.back())
      known[link] = std::max(known[link], count / exchange.seconds);
  }
  Bytes changed = known;
  for (const LinkRate& rate : rates) {
    bool carries = false;
    for (const Link& link : {Link{rate.a, rate.b}, Link{rate.b, rate.a}}) {
      carries = carries || std::any_of(bytes.begin(), bytes.end(),
                                       [&](const Bytes& one) { return one.contains(link); });
      changed[link] = rate.bytesPerSecond;
    }
    if (!carries)
      return invalidArgument("the ranks of {} and {} exchange nothing with each other", rate.a,
                             rate.b);
  }
  for (std::size_t e = 0; e < out.size(); ++e) {
    if (run.exchanges[e].seconds <= 0) {  // how long its link took is not known
      out[e].changed = busiest(bytes[e], changed);
      continue;
    }
    out[e] = {busiest(bytes[e], known), busiest(bytes[e], changed)};
  }
  return out;
}

}  // namespace lockstep::app
