// What a node is asked by the studio, and what it is sent by others: checked before anything of it
// is believed. Frames: a PrepareRequest, the node's GpuSurvey, a FindFileRequest, and the parts of
// a file (StageFileRequest).
#include <memory>

#include "agent/node/staging.h"
#include "agent/worker/prepare.h"
#include "app/specs/spec_text.h"
#include "engine/base/hash.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/support/paths.h"

namespace lockstep::fuzz {
namespace {

std::string idx(const std::vector<int>& dimensions) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  std::size_t elements = 1;
  for (const int extent : dimensions) {
    out += {'\0', '\0', '\0', static_cast<char>(extent)};
    elements *= static_cast<std::size_t>(extent);
  }
  return out + std::string(elements, '\x03');
}

node::v1::PrepareRequest prepareRequest(bool several) {
  const std::string source = lockstep::test::sourcePath(".");
  node::v1::PrepareRequest out;
  out.set_run("r1");
  out.set_generation(1);
  out.set_node("n1");
  out.set_coordinator(true);
  out.set_comm(several ? "gloo" : "in-process");
  const auto text = fileBytes(source + "/resources/examples/fashion-mlp.yaml");
  const auto spec = app::completeRunSpec(text, source + "/resources/examples/x.yaml");
  LOCKSTEP_CHECK(spec.ok(), "{}", spec.error().text());
  *out.mutable_spec() = *spec->spec;
  auto& paths = *out.mutable_data_paths();
  for (const char* part : {"train", "evaluate"}) {
    paths[fmt::format("{}.images", part)] = scratchFile("images", idx({4, 28, 28}));
    paths[fmt::format("{}.labels", part)] = scratchFile("labels", idx({4}));
  }
  out.set_plan(
      fileBytes(fmt::format("{}/tests/golden/fashion-mlp.{}-ranks.plan", source, several ? 3 : 1)));
  out.set_plan_hash(sha256Hex(out.plan()));
  for (int i = 0; i < (several ? 2 : 1); ++i) {
    auto& node = *out.mutable_cluster()->add_nodes();
    node.set_name(fmt::format("n{}", i + 1));
    node.set_address("10.0.0.1");
    auto& device = *node.add_devices();
    device.set_kind("cpu");
    device.set_count(several && i == 0 ? 2 : 1);
  }
  out.add_ranks(0);
  if (several) {
    out.add_ranks(1);
    out.mutable_tls()->set_key_pem("key");
  }
  return out;
}

std::string framesFor(const node::v1::PrepareRequest& prepare) {
  node::v1::GpuSurvey survey;
  auto& gpu = *survey.add_gpus();
  gpu.set_name("NVIDIA H200");
  gpu.set_memory_bytes(std::int64_t{140} << 30);
  gpu.set_major(9);
  node::v1::StageFileRequest part;
  part.set_data("content");
  part.set_bytes(14);
  part.set_name("name.gz");
  part.set_sha256(sha256Hex("contentcontent"));
  node::v1::FindFileRequest find;
  find.set_sha256(part.sha256());
  find.set_path(scratchFolder() + "/images");
  const std::string bytes = part.SerializeAsString();
  return framesOf({prepare.SerializeAsString(), survey.SerializeAsString(),
                   find.SerializeAsString(), bytes, bytes});
}

}  // namespace

std::vector<std::string> seeds() {
  node::v1::PrepareRequest one = prepareRequest(false), gpu = one;
  gpu.mutable_cluster()->mutable_nodes(0)->mutable_devices(0)->set_kind("cuda");
  return {framesFor(one), framesFor(prepareRequest(true)), framesFor(gpu)};
}

std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t frame) {
  if (frame == 0) return std::make_unique<node::v1::PrepareRequest>();
  if (frame == 1) return std::make_unique<node::v1::GpuSurvey>();
  if (frame == 2) return std::make_unique<node::v1::FindFileRequest>();
  return std::make_unique<node::v1::StageFileRequest>();
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  using namespace lockstep::node::v1;
  static const agent::Workdir workdir{fuzz::scratchFolder(), fuzz::scratchFolder()};
  static agent::DataCache cache(workdir);
  static agent::Staging staging(workdir, cache);
  std::vector<std::string> frames = fuzz::splitFrames(fuzz::textOf(bytes, size));
  frames.resize(std::max<std::size_t>(frames.size(), 3));
  PrepareRequest prepare;
  GpuSurvey survey;
  if (prepare.ParseFromString(frames[0]) && survey.ParseFromString(frames[1]) &&
      agent::checkNames(prepare).ok()) {
    agent::FoundData found;
    const Status checked = agent::checkPrepare(
        prepare, workdir, cache, found, [&]() -> Result<GpuSurvey> { return survey; },
        [](const DataProgress&) { return true; });
    if (!checked.ok()) (void)checked.error().text();
  }
  FindFileRequest find;
  if (find.ParseFromString(frames[2])) (void)staging.find(find);
  std::size_t next = 3;
  const auto staged = staging.receive(
      [&](StageFileRequest& part) {
        return next < frames.size() && part.ParseFromString(frames[next++]);
      },
      [] { return false; });
  if (staged.ok())
    LOCKSTEP_CHECK(staged->path().starts_with(workdir.path + "/data/"), "{}", staged->path());
  return 0;
}
