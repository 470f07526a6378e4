// The text of a plan: what is parsed and verifies has a canonical text, and its sizes add up.
#include "engine/plan/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const char* name : {"1-ranks", "3-ranks"})
    out.push_back(fileBytes(
        lockstep::test::sourcePath(fmt::format("tests/golden/fashion-mlp.{}.plan", name))));
  return out;
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const auto plan = plan::parse(fuzz::textOf(bytes, size));
  if (!plan.ok() || !plan::verify(*plan).ok()) return 0;
  const std::string canonical = plan::text(*plan);
  const auto again = plan::parse(canonical);
  LOCKSTEP_CHECK(again.ok(), "{}: {}", again.error().text(), canonical);
  LOCKSTEP_CHECK(plan::text(*again) == canonical, "{}", canonical);
  LOCKSTEP_CHECK(plan->logicalStateBytes() >= 0);
  return 0;
}
