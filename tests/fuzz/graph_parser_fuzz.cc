// libFuzzer on the graph's text: arbitrary bytes never crash the parser, and what it accepts has a
// canonical text. Seeds: tests/golden/*.txt.
#include <cstddef>
#include <cstdint>

#include "engine/ir/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using lockstep::ir::parse;
  using lockstep::ir::text;
  const auto graph = parse({reinterpret_cast<const char*>(bytes), size});
  if (!graph.ok()) return 0;
  const std::string canonical = text(*graph);
  const auto again = parse(canonical);
  LOCKSTEP_CHECK(again.ok(), "{}", canonical);
  LOCKSTEP_CHECK(text(*again) == canonical, "{}", canonical);
  return 0;
}
