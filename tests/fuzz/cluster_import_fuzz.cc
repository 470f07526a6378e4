// Clusters of other tools: TF_CONFIG and MPI hostfiles. What is imported is a cluster that parses.
#include "app/specs/cluster_edits.h"
#include "app/specs/spec_text.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  return {R"({"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["[::1]:1"]},
 "task": {"type": "worker", "index": 0}})",
          "# ours\nn1 slots=2\nn2 slots=4 max_slots=8\n\nn1\nn3:7\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string_view text = fuzz::textOf(bytes, size);
  for (const auto& yaml : {app::importTfConfig(text, "name"), app::importHostfile(text, "name"),
                           app::importCluster(text, "name")})
    if (yaml.ok()) {
      const auto spec = app::SpecText::parse(*yaml, "cluster.yaml", app::SpecKind::kCluster);
      LOCKSTEP_CHECK(spec.readable(), "{}\n{}", spec.problems().front().error().text(), *yaml);
    }
  return 0;
}
