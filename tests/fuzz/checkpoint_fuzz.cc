// The manifest of a checkpoint, whose checksum is made right, so that what it says is reached.
#include "engine/base/crc32c.h"
#include "engine/weights/checkpoint_files.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

constexpr std::string_view kSumLine = "\ncrc32c ";

std::string withSum(std::string text) {
  text += kSumLine;
  const auto sum = crc32c(std::as_bytes(std::span(text)));
  return text + fmt::format("{:08x}\n", sum);
}

}  // namespace

// An input is what comes before the checksum.
std::vector<std::string> seeds() {
  weights::Manifest manifest;
  manifest.id = "id";
  manifest.metadata = {
      {"step", "40"}, {"batch", "64"}, {"loss_sum", "0.5"}, {"weight_sum", "64.0"}, {"seed", "1"}};
  const TensorInfo weight{"params/a", DType::kF32, {4, 6}}, step{"t", DType::kI64, {}};
  manifest.tensors = {{weight.name, weight}, {step.name, step}};
  manifest.contents["shard-00000.safetensors"] = {{weight, 1, 0, 2, 0, 12}, {step, 0, 0, 1, 0, 1}};
  manifest.contents["shard-00001.safetensors"] = {{weight, 1, 1, 2, 0, 6},
                                                  {weight, 1, 1, 2, 6, 12}};
  const std::string text = textOf(manifest);
  LOCKSTEP_CHECK(withSum(text.substr(0, text.rfind(kSumLine))) == text);
  return {text.substr(0, text.rfind(kSumLine))};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string text = fuzz::withSum(std::string(fuzz::textOf(bytes, size)));
  const auto manifest = weights::parseManifest(text, "manifest.json");
  if (!manifest.ok()) {
    (void)manifest.error().text();
    return 0;
  }
  (void)weights::progressOf(manifest->metadata);
  std::vector<weights::Piece> pieces;
  for (const auto& [file, rows] : manifest->contents)
    for (const weights::Piece& piece : rows) {
      LOCKSTEP_CHECK(piece.bytes() >= 0 && piece.bytes() <= piece.tensor.bytes());
      LOCKSTEP_CHECK(piece.stored().bytes() == piece.bytes());
      if (pieces.empty() || pieces[0].tensor.name == piece.tensor.name) pieces.push_back(piece);
    }
  if (!pieces.empty()) (void)plan::coverOf(pieces, pieces.back());
  const auto again = weights::parseManifest(textOf(*manifest), "manifest.json");
  LOCKSTEP_CHECK(again.ok() && textOf(*again) == textOf(*manifest), "{}", text);
  return 0;
}
