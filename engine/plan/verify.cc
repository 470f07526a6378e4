// Verifies a Plan.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "engine/plan/verify_body.h"
#include "engine/plan/verify_schedule.h"

namespace lockstep::plan {
namespace {

Status verifyState(const Plan& plan) {
  std::set<std::string> slots, members;
  std::map<int, std::int64_t> reached;  // by stage
  // of a tensor, by first row
  std::map<std::string, std::map<std::int64_t, const StateSlot::Member*>> rowsOf;
  for (const StateSlot& slot : plan.state) {
    if (!slots.insert(slot.name).second) {
      return broken(fmt::format("state {} is given twice", slot.name));
    }
    if (slot.stage < 0 || slot.stage >= plan.mesh.stages()) {
      return broken(fmt::format("state {} is on stage {}, which the mesh does not have", slot.name,
                                slot.stage));
    }
    const std::int64_t each = Plan::copyBytes(slot);
    if (slot.copies < 1 || slot.offset < reached[slot.stage] || slot.offset % kAlignment != 0 ||
        slot.offset > plan.stateBytes || each > (plan.stateBytes - slot.offset) / slot.copies) {
      return broken(
          fmt::format("state {} at {} overlaps another, is not aligned to {} bytes or "
                      "reaches past the {} bytes of state",
                      slot.name, slot.offset, kAlignment, plan.stateBytes));
    }
    const bool ofServer = plan.mesh.servers() > 0 && slot.stage > 0;
    if (ofServer && !slot.axis.empty()) {
      return broken(fmt::format("state {} of a server lies along axis {}", slot.name, slot.axis));
    }
    if (slot.copies > 1 && !slot.members.empty()) {
      return broken(fmt::format("state {} has copies and members", slot.name));
    }
    if (!slot.axis.empty() && plan.mesh.axisSize(slot.axis) < 2) {
      return broken(
          fmt::format("state {} lies along axis {}, which has no two ranks", slot.name, slot.axis));
    }
    reached[slot.stage] = slot.offset + each * slot.copies;
    std::int64_t element = 0;
    for (const StateSlot::Member& member : slot.members) {
      const std::string_view kind = slot.kind();
      if (!members.insert(fmt::format("{}/{}/{}", kind, member.name, member.firstRow)).second) {
        return broken(fmt::format("member {} of state {} is given twice", member.name, kind));
      }
      if (member.rows < 0 || member.firstRow < 0 || (member.rows == 0 && member.firstRow > 0) ||
          (member.rows > 0 && (!member.axis.empty() || member.shape.empty() ||
                               member.firstRow > member.shape[0] - member.rows))) {
        return broken(fmt::format("member {} of state {} has rows that the tensor does not have",
                                  member.name, slot.name));
      }
      const int parts = plan.mesh.axisSize(member.axis);
      if (!member.axis.empty() &&
          (ofServer || parts < 2 || member.dim < 0 ||
           member.dim >= static_cast<int>(member.shape.size()) ||
           member.shape[static_cast<std::size_t>(member.dim)] % parts != 0)) {
        return broken(fmt::format("member {} of state {} cannot be divided along axis {}",
                                  member.name, slot.name, member.axis));
      }
      if (member.element < element ||
          member.element + plan.memberCount(member) > plan.groupCount(slot)) {
        return broken(fmt::format("member {} of state {} overlaps another or reaches past its end",
                                  member.name, slot.name));
      }
      element = member.element + plan.memberCount(member);
      if (member.rows > 0)
        rowsOf[fmt::format("{}/{}", kind, member.name)].emplace(member.firstRow, &member);
    }
  }
  for (const auto& [tensor, rows] : rowsOf) {
    const Shape& shape = rows.begin()->second->shape;
    std::int64_t next = 0;
    for (const auto& [first, member] : rows) {
      if (first != next || member->shape != shape)
        return broken(
            fmt::format("rows of {} from {} do not follow those before them", tensor, first));
      next += member->rows;
    }
    if (next != shape[0])
      return broken(fmt::format("rows of {} end at {} of {}", tensor, next, shape[0]));
  }
  return {};
}

Status verifyCuts(const std::vector<std::int64_t>& cuts, int shares, std::string_view what) {
  const bool ascending = std::is_sorted(cuts.begin(), cuts.end());
  if (cuts.empty()) return {};
  if (cuts.size() != static_cast<std::size_t>(shares) + 1 || cuts.front() != 0 || !ascending) {
    return broken(
        fmt::format("the cut-points of the {} do not ascend from 0 in {} shares", what, shares));
  }
  return {};
}

using Signature = std::tuple<ir::Op, std::string, std::string, DType, std::int64_t>;

// Returns the ordered collectives of a body along each axis; equal for the ranks of a group.
std::map<std::string, std::vector<Signature>> collectives(const Body& body) {
  std::map<std::string, std::vector<Signature>> result;
  for (const Step& step : body.steps) {
    if (step.kind != StepKind::kCollective || isMessage(step)) continue;
    const ir::TensorType& type = payload(body, step);
    const bool even = step.op == ir::Op::kAllReduce || step.op == ir::Op::kBroadcast;
    result[step.axis].emplace_back(step.op, step.name,
                                   fmt::format("{} {} {}", ir::textAttr(step.attrs, "op", ""),
                                               ir::textAttr(step.attrs, "algorithm", ""),
                                               fmt::join(ir::listAttr(step.attrs, "hosts"), " ")),
                                   type.dtype, even ? type.count() : 0);
  }
  return result;
}

using Message = std::tuple<ir::Op, std::string, std::string, int, int>;
std::vector<Message> messagesOf(const Body& body) {
  std::vector<Message> messages;
  for (const Step& step : body.steps) {
    if (!isMessage(step)) continue;
    const Peers peers = peersOf(step);
    messages.emplace_back(step.op, step.name, messageType(body, step).text(), peers.first,
                          peers.count);
  }
  return messages;
}

// Returns the ordered collectives over all axes; ranks of a stage with the same order cannot
// deadlock.
std::vector<std::pair<std::string, int>> axisOrder(const Body& body) {
  std::vector<std::pair<std::string, int>> axes;
  for (const Step& step : body.steps) {
    if (step.kind == StepKind::kCollective) axes.emplace_back(step.axis, step.stream);
  }
  return axes;
}

Status verifyProgram(const Plan& plan, const Program& program) {
  if (program.bodyOfRank.size() != static_cast<std::size_t>(plan.mesh.size())) {
    return broken(fmt::format("program {} is for {} ranks, the mesh has {}", program.name,
                              program.bodyOfRank.size(), plan.mesh.size()));
  }
  std::set<int> used;
  for (const int body : program.bodyOfRank) {
    if (body < 0 || static_cast<std::size_t>(body) >= program.bodies.size()) {
      return broken(fmt::format("program {}: a rank has no body", program.name));
    }
    used.insert(body);
  }
  std::vector<std::vector<int>> ranksOfBody(program.bodies.size());
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    std::vector<int>& ranks =
        ranksOfBody[static_cast<std::size_t>(program.bodyOfRank[static_cast<std::size_t>(rank)])];
    if (!ranks.empty() && plan.stageOf(ranks[0]) != plan.stageOf(rank)) {
      return broken(fmt::format("program {}: ranks of two stages run one body", program.name));
    }
    ranks.push_back(rank);
  }
  const auto stageOfBody = [&](std::size_t body) { return plan.stageOf(ranksOfBody[body][0]); };
  std::string_view name = program.name;  // as in the schedule
  if (plan.uncompressedWarmupSteps > 0 && name.ends_with(Plan::kUncompressed))
    name.remove_suffix(Plan::kUncompressed.size());
  const bool scheduled =
      std::any_of(plan.schedule.begin(), plan.schedule.end(), [&](const auto& entries) {
        return std::any_of(entries.begin(), entries.end(),
                           [&](const ScheduleEntry& entry) { return entry.program == name; });
      });
  std::set<std::string> roles;
  std::map<int, const Body*> firsts;  // by stage
  for (std::size_t i = 0; i < program.bodies.size(); ++i) {
    const Body& body = program.bodies[i];
    if (!roles.insert(body.role).second) {
      return broken(fmt::format("program {}: role {} is given twice", program.name, body.role));
    }
    LOCKSTEP_TRY(verifyBody(plan, program, body, ranksOfBody[i]));
    if (!ranksOfBody[i].empty()) firsts.emplace(stageOfBody(i), &body);
    if (!scheduled && program.name != "evaluate" && messagesOf(body).size() > 0) {
      return broken(fmt::format("program {} sends messages and is in no schedule", program.name));
    }
  }
  if (used.empty()) return {};
  const auto differ = [&](const Body& one, const Body& other) {
    return broken(
        fmt::format("program {}: bodies {} and {} run different collectives, so that "
                    "ranks would deadlock",
                    program.name, one.role, other.role));
  };
  std::map<int, std::map<std::string, std::vector<Signature>>> signatures;
  for (const int index : used) {
    const Body& body = program.bodies[static_cast<std::size_t>(index)];
    const Body& first = *firsts[stageOfBody(static_cast<std::size_t>(index))];
    if (axisOrder(body) != axisOrder(first) || messagesOf(body) != messagesOf(first)) {
      return differ(first, body);
    }
    signatures[index] = collectives(body);
  }
  std::set<std::tuple<std::string, int, int>> compared;
  for (const cluster::Axis& axis : plan.mesh.axes()) {
    if (axis.name == plan.mesh.messageAxis()) continue;  // see ScheduleRun
    for (int rank = 0; rank < plan.mesh.workers(); ++rank) {
      const int leader = plan.mesh.member(rank, axis.name, 0);
      const int mine = program.bodyOfRank[static_cast<std::size_t>(rank)];
      const int leaders = program.bodyOfRank[static_cast<std::size_t>(leader)];
      if (mine == leaders || !compared.emplace(axis.name, mine, leaders).second) continue;
      if (signatures[mine][axis.name] != signatures[leaders][axis.name]) {
        return differ(program.bodies[static_cast<std::size_t>(leaders)],
                      program.bodies[static_cast<std::size_t>(mine)]);
      }
    }
  }
  return {};
}

}  // namespace

Status verify(const Plan& plan) {
  LOCKSTEP_TRY(verifyState(plan));
  const int shares = plan.mesh.axisSize("data");
  LOCKSTEP_TRY(verifyCuts(plan.batchCuts, shares, "batch"));
  LOCKSTEP_TRY(verifyCuts(plan.evaluateCuts, shares, "evaluation batch"));
  if (plan.microBatches < 1) return broken("a plan needs a micro-batch");
  if (!plan.batchCuts.empty() && (plan.globalBatch % plan.microBatches != 0 ||
                                  plan.batchCuts.back() != plan.globalBatch / plan.microBatches)) {
    return broken("the cut-points of the micro-batches do not end at the batch");
  }
  if (plan.staleness < Plan::kAnyStaleness || (plan.isAsynchronous() && plan.mesh.servers() == 0)) {
    return broken(
        fmt::format("a staleness of {} with {} servers", plan.staleness, plan.mesh.servers()));
  }
  std::set<std::string> names;
  for (const Program& program : plan.programs) {
    if (!names.insert(program.name).second) {
      return broken(fmt::format("program {} is given twice", program.name));
    }
    LOCKSTEP_TRY(verifyProgram(plan, program));
  }
  return verifySchedule(plan);
}

}  // namespace lockstep::plan
