// IDX files, plain and gzip: as images and as labels.
#include "engine/data/dataset.h"
#include "engine/data/samples.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

constexpr int kClasses = 10, kSamples = 4;

std::string idx(const std::vector<int>& dimensions, std::size_t elements) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(dimensions.size())};
  for (const int extent : dimensions) out += {'\0', '\0', '\0', static_cast<char>(extent)};
  for (std::size_t i = 0; i < elements; ++i) out += static_cast<char>(i % kClasses);
  return out;
}
std::string images() { return idx({kSamples, 2, 3}, kSamples * 6); }
std::string labels() { return idx({kSamples}, kSamples); }

// Sample by sample; whatever is checked and found whole can be opened as a whole.
void show(const data::IdxFiles& files, bool opens) {
  const auto reader = data::readIdxSamples(files, {}, kClasses);
  if (!reader.ok()) {
    LOCKSTEP_CHECK(!opens, "{}", reader.error().text());
    return;
  }
  const std::int64_t some[] = {0, (*reader)->size() / 2 + 1};
  const auto samples = (*reader)->read(some);
  const bool counted = (*reader)->count({}).ok();
  LOCKSTEP_CHECK(!opens || (samples.ok() && counted));
  LOCKSTEP_CHECK((*reader)->check({}).ok() == opens);
}

void open(const std::string& imageFile, const std::string& labelFile) {
  const auto set = data::openIdx({imageFile, labelFile, "", ""}, kClasses);
  show({imageFile, labelFile, "", ""}, set.ok());
  if (!set.ok()) return;
  std::vector<std::byte> out(static_cast<std::size_t>((*set)->fields()[0].bytes()));
  for (std::int64_t i = 0; i < (*set)->size(); ++i) {
    std::int32_t label = -1;
    (*set)->read(i, 0, out.data());
    (*set)->read(i, 1, reinterpret_cast<std::byte*>(&label));
    LOCKSTEP_CHECK(label >= 0 && label < kClasses, "{}", label);
  }
}

}  // namespace

std::vector<std::string> seeds() {
  std::string wide = idx({kSamples}, 4 * kSamples);  // labels of 32 bits, most of them too high
  wide[2] = '\x0c';
  return {
      images(),         labels(),         idx({kSamples, 2, 2, 3}, kSamples * 12), gzipOf(images()),
      gzipOf(labels()), zstdOf(images()), gzipOf("\0") + gzipOf(images()),         wide};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  static const std::string images = fuzz::scratchFile("images", fuzz::images());
  static const std::string labels = fuzz::scratchFile("labels", fuzz::labels());
  const std::string file = fuzz::scratchFile("file", fuzz::textOf(bytes, size));
  const auto facts = data::inspectIdx(file);
  if (facts.ok()) LOCKSTEP_CHECK(elementCount(facts->dimensions) > 0);
  fuzz::open(file, labels);
  fuzz::open(images, file);
  return 0;
}
