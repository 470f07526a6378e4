// Specs as messages, as a node takes them: defaults, checks, model, cluster, devices. Frames: a run
// spec, a cluster spec.
#include <memory>

#include "app/specs/spec_text.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  const std::string folder = lockstep::test::sourcePath("resources/examples/");
  std::vector<std::string> out, clusters;
  for (const char* name : {"cluster-gpus", "local-3"}) {
    const auto cluster =
        app::SpecText::parse(fileBytes(folder + name + ".yaml"), name, app::SpecKind::kCluster);
    clusters.push_back(cluster.cluster()->SerializeAsString());
  }
  for (const char* name : {"ctr", "fashion-cnn", "fashion-resnet", "gpt-tiny"}) {
    const auto run =
        app::SpecText::parse(fileBytes(folder + name + ".yaml"), name, app::SpecKind::kRun);
    out.push_back(framesOf({run.run()->SerializeAsString(), clusters[out.size() % 2]}));
  }
  return out;
}

std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t frame) {
  if (frame == 0) return std::make_unique<spec::v1::RunSpec>();
  return std::make_unique<spec::v1::ClusterSpec>();
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::vector<std::string> frames = fuzz::splitFrames(fuzz::textOf(bytes, size));
  spec::v1::RunSpec run;
  spec::v1::ClusterSpec cluster;
  if (frames.size() < 2 || !run.ParseFromString(frames[0]) || !cluster.ParseFromString(frames[1]))
    return 0;
  (void)app::toYaml(run);
  (void)specs::dataFiles(run);
  for (const auto& node : cluster.nodes())
    if (specs::deviceCount(node) <= specs::kMaxRanks)
      (void)specs::rankDevices(node, run.training());
  (void)specs::nodesWithRanks(cluster, run.strategy());
  (void)specs::checkDevices(cluster, run.training());
  if (!specs::checkAndFill(run).ok()) return 0;
  const auto made = specs::toCluster(cluster, {}, run.strategy(), run.training());
  if (!made.ok()) return 0;
  (void)specs::allOnGpus(cluster, run);
  (void)specs::microBatches(run, static_cast<int>(made->devices.size()));
  (void)specs::rateScale(run.training());
  return 0;
}
