// Test cases of every op that has a kernel: shapes, attributes and fill of the operands. Results of
// a backend are compared with the reference backend in f64, by a node's self-test and by
// backends_conformance_test, which requires a case of every op. Threads: one at a time.
#pragma once

#include <string>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/case_tensor.h"

namespace lockstep::backends {

struct CaseInput {
  Shape shape;
  Fill fill = Fill::kNormal;
};
struct Case {
  std::string name;
  ir::Op op;
  ir::Attrs attrs;
  std::vector<CaseInput> inputs;
  // additional tolerance on GPUs that may round operands, in the same terms
  double rounding = 0;
};
std::vector<Case> allCases();

bool isMatmulOrConv(ir::Op op);

}  // namespace lockstep::backends
