// What nodes keep in their workdirs, and garbage collection: runs that this history deleted, and
// with an age limit ended runs and data that nothing uses.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/cluster/node_access.h"
#include "app/core/home.h"
#include "engine/base/message.h"
#include "engine/base/status.h"
#include "engine/specs/states.h"

namespace lockstep::node::v1 {
class WorkdirItem;
}

namespace lockstep::app {

enum class KeptKind : std::uint8_t { kRun, kData, kDecoded, kVersion, kRemains, kProgram };
// Whether this history knows a run. A node does not know who launched it: a run that is in no
// history here may be of another computer or person with the same account.
enum class KnownHere : std::uint8_t { kNoRun, kListed, kDeleted, kUnknown };

struct KeptItem {
  KeptKind kind = KeptKind::kRemains;
  std::string name;       // its path below the workdir
  std::string run, node;  // of a run
  run::v1::RunState state = run::v1::RUN_STATE_UNSPECIFIED;
  KnownHere known = KnownHere::kNoRun;
  std::int64_t bytes = 0;
  bool partlyMeasured = false;   // `bytes` is a lower bound
  std::int64_t idleSeconds = 0;  // since it ended or was last used
  bool removed = false;          // or would be, in a dry run
  Message why;                   // why it stays
  Message problem;               // what could not be read
};

// What the node tells of an item: what stays, and what this history knows, is decided here.
KeptItem keptItem(const node::v1::WorkdirItem& item);

struct GarbageOptions {
  std::optional<std::int64_t> olderThanDays;
  bool dryRun = false;
};

struct CollectedGarbage {
  std::vector<KeptItem> items;
  std::optional<Error> error;  // why the node did not list all items, or remove all garbage
};

// Lists what a connected node keeps, and marks what is to be removed. Blocks.
CollectedGarbage findGarbage(const Home& home, NodeAccess& node, const GarbageOptions& options,
                             const std::stop_token& stop);
// Keeps runs that have ended on some of the nodes and are under way on others.
void keepRunsUnderWay(const std::vector<CollectedGarbage*>& nodes);
// Removes what is marked from the node, which checks each item again. Blocks. Does nothing in a dry
// run, or if the node did not list all items.
void removeGarbage(const Home& home, NodeAccess& node, const GarbageOptions& options,
                   CollectedGarbage& garbage, const std::stop_token& stop);

}  // namespace lockstep::app
