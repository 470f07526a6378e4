// The text of a graph: what the parser accepts has a canonical text.
#include "engine/ir/graph.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const char* name : {"fashion-mlp.forward", "fashion-mlp.autodiff", "fashion-mlp.fused",
                           "fashion-mlp.placed", "fashion-mlp.local", "fashion-cnn.autodiff"})
    out.push_back(fileBytes(lockstep::test::sourcePath(fmt::format("tests/golden/{}.txt", name))));
  return out;
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const auto graph = ir::parse(fuzz::textOf(bytes, size));
  if (!graph.ok()) return 0;
  const std::string canonical = ir::text(*graph);
  const auto again = ir::parse(canonical);
  LOCKSTEP_CHECK(again.ok(), "{}", canonical);
  LOCKSTEP_CHECK(ir::text(*again) == canonical, "{}", canonical);
  return 0;
}
