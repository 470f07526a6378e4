#include "engine/planner/program_builder.h"

#include <algorithm>
#include <limits>

#include "engine/passes/compress.h"
#include "engine/passes/order_sums.h"
#include "engine/planner/lower.h"

namespace lockstep::planner {

using cluster::kDataAxis;

namespace {

// Seconds of computing that are worth a thread's waking and what its waking takes from the others.
constexpr double kWorthAThread = 1e-4;

bool compressesGradients(const plan::Program& program) {
  return std::any_of(program.bodies.begin(), program.bodies.end(), [](const plan::Body& body) {
    return std::any_of(body.steps.begin(), body.steps.end(),
                       [](const plan::Step& step) { return step.op == ir::Op::kEncode; });
  });
}

}  // namespace

std::vector<passes::Pass> ProgramBuilder::programPasses(const passes::Sources& sources) const {
  const bool parallel = context_.ranks() > 1;
  const auto place = [this, &sources](const ir::Graph& graph) {
    return passes::place(graph, kDataAxis, sources, context_.servers() > 0);
  };
  return {
      {"fuse-epilogues", passes::fuseEpilogues},
      {"remove-dead", passes::removeDead},
      {"place-data", place, parallel},
      {"remove-dead-placed", passes::removeDead, parallel},
  };
}

std::vector<passes::Pass> ProgramBuilder::rankPasses(int rank) const {
  const int ranks = context_.ranks();
  const bool ordersSums = context_.request.inOrder && ranks > 1;
  const bool compresses = !ordersSums && compresses_ && context_.compression.has_value();
  const auto localize = [this, rank](const ir::Graph& graph) {
    return passes::localise(graph, context_.mesh(), rank);
  };
  const auto orderSums = [ranks](const ir::Graph& graph) {
    return passes::orderSums(graph, kDataAxis, ranks);
  };
  const auto compress = [this, ranks](const ir::Graph& graph) {
    return passes::compress(graph, kDataAxis, ranks, gradients_, *context_.compression);
  };
  return {
      {"localize", localize},
      {"order-sums", orderSums, ordersSums},
      {"compress", compress, compresses},
      {"fold-casts", passes::foldCasts, context_.storesNarrow()},
  };
}

Status ProgramBuilder::add(const std::vector<std::string>& names, const ir::Graph& logical,
                           const passes::Sources& sources) {
  LOCKSTEP_ASSIGN(const ir::Graph graph, passes_.run(names[0], programPasses(sources), logical));
  if (context_.stages() > 1) return addStages(names, graph);
  plan::Program program;
  program.name = names[0];
  program.bodyOfRank = passes::localClasses(graph, context_.mesh());
  const int bodies = 1 + *std::max_element(program.bodyOfRank.begin(), program.bodyOfRank.end());
  for (int body = 0; body < bodies; ++body) {
    const auto first = std::find(program.bodyOfRank.begin(), program.bodyOfRank.end(), body);
    const int rank = static_cast<int>(first - program.bodyOfRank.begin());
    LOCKSTEP_ASSIGN(const ir::Graph local, passes_.run(names[0], rankPasses(rank), graph));
    LOCKSTEP_ASSIGN(plan::Body lowered, lower(local, plan_.state, role(program.name, rank, bodies),
                                              overlapOf(program.name)));
    program.bodies.push_back(std::move(lowered));
  }
  plan_.programs.push_back(std::move(program));
  return {};
}

Status ProgramBuilder::addTraining(const std::vector<std::string>& names, const ir::Graph& graph,
                                   const passes::Sources& sources,
                                   const passes::GradientNodes& gradients) {
  gradients_ = gradients;
  const auto first = static_cast<std::ptrdiff_t>(plan_.programs.size());
  LOCKSTEP_TRY(add(names, graph, sources));
  const bool warmsUp = context_.compression && context_.compression->coding == ir::Coding::kTopK &&
                       context_.request.topKAfter > 0;
  if (!warmsUp ||
      std::none_of(plan_.programs.begin() + first, plan_.programs.end(), compressesGradients)) {
    return {};
  }
  plan_.uncompressedWarmupSteps = context_.request.topKAfter;
  std::vector<std::string> uncompressed;
  for (const std::string& name : names)
    uncompressed.push_back(name + std::string(plan::Plan::kUncompressed));
  compresses_ = false;
  Status status = add(uncompressed, graph, sources);
  compresses_ = true;
  return status;
}

// On one host a collective is work for the cores that compute; between hosts it is waiting, and
// GPUs have a queue for it.
OverlapPolicy& ProgramBuilder::overlapOf(const std::string& program) {
  const auto [known, isNew] = overlap_.try_emplace(program);
  OverlapPolicy& policy = known->second;
  if (!isNew) return policy;
  policy.mayOverlap = [this](std::string_view axis) {
    return context_.request.overlap != "never" && axis != context_.mesh().messageAxis() &&
           context_.mesh().axisSize(axis) > 1 &&
           (context_.request.overlap == "always" || context_.cluster.link.kind == "nccl" ||
            crossesHosts(context_.mesh(), context_.cluster, axis));
  };
  const cluster::DeviceRates rates = workerRates(context_.cluster, plan_.precision, context_.cost);
  policy.flopsPerSecond = rates.flopsPerSecond;
  policy.bytesPerSecond = rates.bytesPerSecond;
  policy.leastSeconds = context_.request.overlap == "always" ? 0 : kWorthAThread;
  policy.gatheredBytes = context_.request.gatherBytes;
  return policy;
}

Status ProgramBuilder::addStages(const std::vector<std::string>& names, const ir::Graph& placed) {
  const bool usesSessions = names.size() > 1 && context_.servers() > 0;
  LOCKSTEP_ASSIGN(const std::vector<ir::Graph> graphs,
                  passes_.apply(names[0], "cut-stages", placed, [&](const ir::Graph& graph) {
                    return passes::cutStages(graph, context_.mesh(), usesSessions);
                  }));
  std::vector<plan::Program> programs(names.size());
  for (std::size_t part = 0; part < names.size(); ++part) {
    programs[part].name = names[part];
    programs[part].bodyOfRank.resize(static_cast<std::size_t>(context_.mesh().size()), -1);
  }
  const std::vector<int> classes = passes::localClasses(placed, context_.mesh());
  for (int stage = 0; stage < context_.stages(); ++stage) {
    const ir::Graph& graph = graphs[static_cast<std::size_t>(stage)];
    std::map<int, std::size_t> bodies;  // by the workers' class
    for (int rank = 0; rank < context_.mesh().size(); ++rank) {
      if (context_.mesh().stageOf(rank) != stage) continue;
      const int kind = context_.mesh().isServer(rank) ? 0 : classes[static_cast<std::size_t>(rank)];
      const auto [known, isNew] = bodies.emplace(kind, programs[0].bodies.size());
      if (isNew) LOCKSTEP_TRY(addBodies(programs, graph, stage, rank));
      for (plan::Program& program : programs) {
        program.bodyOfRank[static_cast<std::size_t>(rank)] = static_cast<int>(known->second);
      }
    }
  }
  for (plan::Program& program : programs) plan_.programs.push_back(std::move(program));
  return {};
}

int ProgramBuilder::copiesOf(int stage, const passes::SavedTensor& one) const {
  return one.sent ? pipeline_.copies[static_cast<std::size_t>(stage)]
                  : copiesBetween(pipeline_, stage, one.from, one.to);
}
// Copies are in numbers that divide their stage's, which may be larger than micro-batches are on
// the way: with that of up to twice as many all that is stashed takes least memory. Of 3, what 2
// micro-batches need would take 3; of 4 it takes 2.
void ProgramBuilder::chooseCopies(int stage, const std::vector<passes::SavedTensor>& saved) {
  int& copies = pipeline_.copies[static_cast<std::size_t>(stage)];
  const int needed = copies;
  int best = needed;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (copies = needed; copies < 2 * needed; ++copies) {
    std::int64_t bytes = 0;
    for (const passes::SavedTensor& one : saved) bytes += one.type.bytes() * copiesOf(stage, one);
    if (bytes < least) least = bytes, best = copies;
  }
  copies = best;
  for (plan::ScheduleEntry& entry : plan_.schedule[static_cast<std::size_t>(stage)])
    entry.copy = entry.micro % copies;
}

// One body of each program, of the rank's stage.
Status ProgramBuilder::addBodies(std::vector<plan::Program>& programs, const ir::Graph& graph,
                                 int stage, int rank) {
  LOCKSTEP_ASSIGN(const ir::Graph local, passes_.run(programs[0].name, rankPasses(rank), graph));
  const bool inParts = programs.size() > 1;
  const bool serverSession = inParts && context_.servers() > 0;
  std::vector<int> partOf(local.nodes().size(), 0);
  int copies = 1;
  if (serverSession && stage > 0) {
    // Workers run the first program, servers the others.
    partOf = passes::serverSessionParts(local);
    for (int& part : partOf) ++part;
    copies = context_.ranks();
  } else if (inParts && !serverSession) {
    partOf = passes::trainingParts(local, pipeline_.splitWeightGrad);
  }
  const bool ofPipeline = inParts && !serverSession;
  const std::string stashName = fmt::format("{}.{}", inParts ? "step" : programs[0].name, stage);
  LOCKSTEP_ASSIGN(
      const passes::Programs split,
      passes_.apply(programs[0].name, "split-programs", local, [&](const ir::Graph& whole) {
        return passes::splitPrograms(whole, partOf, static_cast<int>(programs.size()), stashName);
      }));
  if (ofPipeline && copiesChosen_.insert(stage).second) chooseCopies(stage, split.saved);
  if (ofPipeline) copies = pipeline_.copies[static_cast<std::size_t>(stage)];
  for (const passes::SavedTensor& saved : split.saved) {
    plan::StateSlot slot;
    slot.role = plan::StateRole::kStash;
    slot.name = saved.state;
    slot.type = saved.type;
    slot.stage = stage;
    slot.copies = ofPipeline ? copiesOf(stage, saved) : copies;
    const auto known =
        std::find_if(plan_.state.begin(), plan_.state.end(),
                     [&](const plan::StateSlot& other) { return other.name == slot.name; });
    if (known == plan_.state.end()) {
      state_.addSlot(std::move(slot));
    } else if (known->type != slot.type) {
      return makeError(Code::kInternal, "{} differs between ranks of stage {}", slot.name, stage);
    }
  }
  for (std::size_t part = 0; part < programs.size(); ++part) {
    LOCKSTEP_ASSIGN(plan::Body body,
                    lower(split.graphs[part], plan_.state, stageRole(programs[part], stage, rank),
                          overlapOf(programs[part].name)));
    programs[part].bodies.push_back(std::move(body));
  }
  return {};
}

// "stage.1"; "server.1"; "worker.22", as far as it is the first of its kind.
std::string ProgramBuilder::stageRole(const plan::Program& program, int stage, int rank) const {
  if (context_.isPipeline()) return fmt::format("stage.{}", stage);
  if (stage > 0) return fmt::format("server.{}", stage - 1);
  return role(program.name, rank, 2);
}
// "worker", or where shares differ "worker.22".
std::string ProgramBuilder::role(std::string_view program, int rank, int bodies) const {
  if (bodies == 1) return "worker";
  const auto& cuts = program == "evaluate" ? plan_.evaluateCuts : plan_.batchCuts;
  const auto c = static_cast<std::size_t>(context_.mesh().coordinate(rank, kDataAxis));
  return fmt::format("worker.{}", cuts[c + 1] - cuts[c]);
}

}  // namespace lockstep::planner
