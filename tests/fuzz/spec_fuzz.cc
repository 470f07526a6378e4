// Specs in YAML: of a run, a cluster and a model, and edits of their text. The first byte says
// which.
#include "app/specs/spec_text.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  const std::string folder = lockstep::test::sourcePath("resources/examples/");
  for (const char* name : {"ctr", "fashion-cnn", "fashion-mlp", "gpt-tiny"})
    out.push_back("r" + fileBytes(folder + name + ".yaml"));
  for (const char* name : {"cluster-gpus", "local-3"})
    out.push_back("c" + fileBytes(folder + name + ".yaml"));
  out.push_back(
      "mname: m\ninput: {shape: [28, 28, 1]}\nlayers:\n  - conv2d: {filters: 32, kernel: 3}\n"
      "  - flatten\n  - dense: {units: 10}\nclasses: 10\n");
  out.push_back(
      "rmodel: other.yaml\ndata: {train: {images: \"a\\tb\", labels: 'it''s'}}\n"
      "training: {batch: 64, optimizer: {kind: adam, learning_rate: 1e-3}}\n");
  return out;
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  using app::SpecKind;
  if (size == 0) return 0;
  const std::string text(fuzz::textOf(bytes + 1, size - 1));
  const SpecKind kind = *bytes % 3 == 'r' % 3   ? SpecKind::kRun
                        : *bytes % 3 == 'c' % 3 ? SpecKind::kCluster
                                                : SpecKind::kModel;
  const app::SpecText spec = app::SpecText::parse(text, "spec.yaml", kind);
  for (const app::SpecProblem& problem : spec.problems()) (void)problem.error().text();
  (void)spec.layerNames();
  (void)spec.layerStages();
  const std::vector<std::string> paths =
      kind == SpecKind::kCluster
          ? std::vector<std::string>{"nodes[0].name", "nodes[1].ssh.host", "name"}
          : std::vector<std::string>{"training.batch", "model.layers[1].dense.units",
                                     "layers[0].conv2d.filters", "data.train.images"};
  for (const std::string& path : paths) {
    (void)spec.nodeNames(path);
    if (const auto mark = spec.mark(path)) {
      LOCKSTEP_CHECK(mark->offset <= text.size() && mark->length <= text.size() - mark->offset,
                     "{}", path);
    }
    for (const char* value : {"3", ""})
      if (const auto edit = spec.edit(path, value); edit.ok()) (void)edit->applied(text);
  }
  for (const char* list : {"nodes", "layers", "model.layers"}) {
    if (const auto edit = spec.removeItem(list, 0); edit.ok()) (void)edit->applied(text);
    if (const auto edit = spec.moveItem(list, 0, spec.count(list) - 1); edit.ok())
      (void)edit->applied(text);
  }
  if (const auto run = spec.run()) (void)app::toYaml(*run);
  if (const auto cluster = spec.cluster()) (void)app::toYaml(*cluster);
  if (const auto model = spec.model()) (void)app::describeModel(*model);
  if (kind == SpecKind::kRun)
    (void)app::completeRunSpec(text, fuzz::scratchFolder() + "/spec.yaml");
  if (kind == SpecKind::kCluster)
    (void)app::completeClusterSpec(text, fuzz::scratchFolder() + "/spec.yaml");
  return 0;
}
