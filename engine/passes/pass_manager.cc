#include "engine/passes/pass_manager.h"

#include <algorithm>

namespace lockstep::passes {

std::vector<const ir::Graph*> graphsIn(const std::vector<ir::Graph>& graphs) {
  std::vector<const ir::Graph*> out;
  for (const ir::Graph& graph : graphs) out.push_back(&graph);
  return out;
}

void PassTrace::add(std::string_view program, std::string_view pass, Nanoseconds elapsed,
                    std::size_t nodesBefore, const std::vector<const ir::Graph*>& made) {
  auto record = std::find_if(records_.begin(), records_.end(), [&](const PassRecord& one) {
    return one.program == program && one.pass == pass;
  });
  if (record == records_.end()) {
    record = records_.insert(records_.end(), {std::string(program), std::string(pass)});
    record->nodesBefore = nodesBefore;
    for (const ir::Graph* graph : made) record->nodesAfter += graph->nodes().size();
  }
  ++record->runs;
  record->elapsed += elapsed;
  if (pass != dumpAfter_) return;
  for (const ir::Graph* graph : made)
    dump_ += fmt::format("# {} after {}\n{}\n", program, pass, ir::text(*graph));
}

Status PassManager::verify(std::string_view program, std::string_view pass,
                           const std::vector<const ir::Graph*>& made) {
  for (const ir::Graph* graph : made) {
    if (const Status status = ir::verify(*graph); !status.ok())
      return makeError(Code::kInternal, "pass {} of program {} broke graph {}: {}", pass, program,
                       graph->name(), status.error().text());
  }
  return {};
}

std::size_t PassManager::nodes(const std::vector<const ir::Graph*>& graphs) {
  std::size_t count = 0;
  for (const ir::Graph* graph : graphs) count += graph->nodes().size();
  return count;
}

}  // namespace lockstep::passes
