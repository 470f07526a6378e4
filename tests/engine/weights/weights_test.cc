// Weights as other programs have them: names, layouts, types, and files of GPT-2's full size, which
// tests/oracle/gpt2_weights writes and compares.
#include "engine/weights/files.h"

#include <QDir>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "tests/support/paths.h"

using namespace lockstep;
using models::Layer;

namespace {

int oracle(const QStringList& arguments) {
  QStringList all{QString::fromStdString(test::sourcePath("tests/oracle/gpt2_weights"))};
  return QProcess::execute("/usr/bin/python3", all + arguments);
}

// As tests/gpu/gpt2-124m.yaml, with GPT-2's own vocabulary.
models::Model gpt2(std::int64_t channels, std::int64_t heads, int blocks, std::int64_t vocabulary) {
  models::Model out;
  out.input = {1024};
  out.vocabulary = vocabulary;
  const auto add = [&](Layer::Kind kind, const std::string& name) -> Layer& {
    Layer& layer = out.layers.emplace_back();
    layer.kind = kind;
    layer.name = name;
    return layer;
  };
  add(Layer::Kind::kEmbedding, "embedding1").units = channels;
  for (int i = 0; i < blocks; ++i)
    add(Layer::Kind::kTransformer, fmt::format("transformer{}", i + 1)).heads = heads;
  add(Layer::Kind::kLayerNorm, "norm");
  Layer& head = add(Layer::Kind::kDense, "head");
  head.units = vocabulary;
  head.tied = "embedding1";
  out.classes = vocabulary;
  return out;
}

std::map<std::string, TensorInfo> parametersOf(const models::Model& model) {
  std::map<std::string, TensorInfo> out;
  const auto graph = models::build(model, 1, DType::kF32, models::Use::kTraining).value();
  for (const ir::Parameter& parameter : graph.parameters) {
    const std::string name = "params/" + parameter.name;
    out[name] = {name, DType::kF32, parameter.shape};
  }
  return out;
}

}  // namespace

class WeightsTest : public QObject {
  Q_OBJECT

  QTemporaryDir dir_;
  std::string path(const char* name) const { return dir_.filePath(name).toStdString(); }

 private Q_SLOTS:
  void headsAreInterleaved() {
    // One row of two heads of one channel: q0 q1 k0 k1 v0 v1 in the file.
    const std::array<float, 6> file{1, 2, 3, 4, 5, 6};
    std::array<float, 6> here{}, back{};
    const weights::Stored stored{"", weights::Layout::kQkv, 2};
    weights::fromFile(stored, {1, 6}, DType::kF32, std::as_bytes(std::span(file)), DType::kF32,
                      std::as_writable_bytes(std::span(here)));
    QCOMPARE(here, (std::array<float, 6>{1, 3, 5, 2, 4, 6}));
    weights::toFile(stored, {1, 6}, DType::kF32, std::as_bytes(std::span(here)), DType::kF32,
                    std::as_writable_bytes(std::span(back)));
    QCOMPARE(back, file);
  }

  void typesAreRounded() {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    const std::array<float, 6> values{1, 1.00390625F, 1.01171875F, -kInf, 65520, 1e-8F};
    std::array<std::uint16_t, 6> bf16{}, f16{};
    weights::convert(DType::kF32, std::as_bytes(std::span(values)).data(), DType::kBf16,
                     std::as_writable_bytes(std::span(bf16)).data(), 6);
    const std::int64_t lost =
        weights::convert(DType::kF32, std::as_bytes(std::span(values)).data(), DType::kF16,
                         std::as_writable_bytes(std::span(f16)).data(), 6);
    QCOMPARE(lost, std::int64_t{1});  // 65520, not the infinity
    QCOMPARE(bf16[0], std::uint16_t{0x3f80});
    QCOMPARE(bf16[1], std::uint16_t{0x3f80});  // ties to even
    QCOMPARE(bf16[2], std::uint16_t{0x3f82});
    QCOMPARE(bf16[3], std::uint16_t{0xff80});
    QCOMPARE(f16[0], std::uint16_t{0x3c00});
    QCOMPARE(f16[3], std::uint16_t{0xfc00});
    QCOMPARE(f16[4], std::uint16_t{0x7c00});
    QCOMPARE(f16[5], std::uint16_t{0});
    // Every number of 16 bits comes back.
    for (const DType type : {DType::kBf16, DType::kF16})
      for (int i = 0; i < 1 << 16; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        float wide = 0;
        std::uint16_t back = 0;
        weights::convert(type, std::as_bytes(std::span(&bits, 1)).data(), DType::kF32,
                         std::as_writable_bytes(std::span(&wide, 1)).data(), 1);
        weights::convert(DType::kF32, std::as_bytes(std::span(&wide, 1)).data(), type,
                         std::as_writable_bytes(std::span(&back, 1)).data(), 1);
        if (!std::isnan(wide)) QCOMPARE(back, bits);
      }
  }

  // Of two folders that have the same, one; of parts, all of them; no optimizer state.
  void filesOfWeightsAreFew() {
    const TensorInfo weight{"params/a", DType::kF32, {4, 6}}, mean{"stats/b", DType::kF32, {4}},
        moment{"adam.m/a", DType::kF32, {4, 6}};
    weights::Manifest manifest;
    for (const auto& [rank, begin, end] : {std::tuple(0, 0, 12), {1, 12, 24}, {2, 0, 24}})
      manifest.contents[weights::shardFile(rank)] = {{weight, 0, 0, 1, begin, end}};
    manifest.contents[weights::shardFile(3)] = {{moment, 0, 0, 1, 0, 24}};
    using Files = std::vector<std::string>;
    QCOMPARE(weights::filesOfWeights(manifest), Files{weights::shardFile(2)});
    manifest.contents.erase(weights::shardFile(2));
    QCOMPARE(weights::filesOfWeights(manifest),
             (Files{weights::shardFile(0), weights::shardFile(1)}));
    for (const int rank : {3, 4})
      manifest.contents[weights::shardFile(rank)].push_back({mean, 0, 0, 1, 0, 4});
    QCOMPARE(weights::filesOfWeights(manifest),
             (Files{weights::shardFile(0), weights::shardFile(1), weights::shardFile(3)}));
  }

  // Names of layers may have a '/'. What is before it is a kind in checkpoints alone.
  void namesOfLayersWithSlashes() {
    const auto written = [&](const char* name, const std::vector<std::string>& tensors) {
      const std::array<float, 2> values{1, 2};
      std::vector<TensorInfo> infos;
      for (const std::string& tensor : tensors) infos.push_back({tensor, DType::kF32, {2}});
      const Status done = weights::writeTensors(
          path(name), infos, {}, [&](std::size_t) -> Result<std::span<const std::byte>> {
            return std::span<const std::byte>(std::as_bytes(std::span(values)));
          });
      return done.ok() ? path(name) : std::string();
    };
    const auto namesIn = [](const std::string& file) {
      std::vector<std::string> out;
      const auto model = weights::ModelWeights::open(file);
      if (!model.ok()) return out;
      for (const auto& [name, tensor] : model->tensors()) {
        std::array<float, 2> values{};
        if (model->read(name, std::as_writable_bytes(std::span(values))).ok() && values[1] == 2)
          out.push_back(name);
      }
      return out;
    };
    const std::vector<std::string> both{"encoder/up.weight", "head.weight"};
    const std::string plain = written("plain", both);
    QCOMPARE(namesIn(plain), both);
    QCOMPARE(namesIn(written("kept", {"adam.m/encoder/up.weight", "params/encoder/up.weight",
                                      "params/head.weight"})),
             both);
    // One that the model does not have is left over.
    const std::map<std::string, TensorInfo> wanted{
        {"params/head.weight", {"params/head.weight", DType::kF32, {2}}}};
    const auto file = weights::WeightsFile::open(plain, {}, wanted, true);
    QVERIFY2(file.ok(), file.ok() ? "" : file.error().text().c_str());
    QCOMPARE(file->mismatch().leftOver, std::vector<std::string>{"encoder/up.weight"});
    QVERIFY(!weights::WeightsFile::open(plain, {}, wanted, false).ok());
  }

  void aCancelledExportLeavesNothing() {
    const std::string from = path("whole.safetensors"), to = path("cancelled.safetensors");
    const std::array<float, 4> values{1, 2, 3, 4};
    const auto bytes = [&](std::size_t) -> Result<std::span<const std::byte>> {
      return std::span<const std::byte>(std::as_bytes(std::span(values)));
    };
    const std::vector<TensorInfo> tensors{{"a.weight", DType::kF32, {4}},
                                          {"b.weight", DType::kF32, {4}}};
    QVERIFY(weights::writeTensors(from, tensors, {}, bytes).ok());
    const auto model = weights::ModelWeights::open(from);
    QVERIFY(model.ok());
    const Progress first = [](std::int64_t done, std::int64_t) { return done < 1; };
    QCOMPARE(weights::exportWeights(*model, {}, std::nullopt, to, first).code(), Code::kCancelled);
    QDir folder(dir_.path());
    QVERIFY(folder.entryList({"cancelled*"}).isEmpty());
    QVERIFY(weights::exportWeights(*model, {}, std::nullopt, to).ok());
  }

  void otherModelsHaveNoSuchNames() {
    models::Model model = gpt2(8, 2, 1, 256);
    QVERIFY(weights::gpt2Names(model).ok());
    std::swap(model.layers[1], model.layers[2]);
    QCOMPARE(weights::gpt2Names(model).error().code, Code::kInvalidArgument);
    model = gpt2(8, 2, 1, 256);
    model.layers[1].causal = false;
    QVERIFY(!weights::gpt2Names(model).ok());
    model = gpt2(8, 2, 1, 256);
    model.layers.pop_back();
    QVERIFY(!weights::gpt2Names(model).ok());
    model = gpt2(8, 2, 1, 256);
    model.layers.back().tied.clear();  // it has a bias
    QVERIFY(!weights::gpt2Names(model).ok());
  }

  // 124 million weights: read piece by piece into the model's layout, kept, and exported again.
  void gpt2OfFullSize() {
    const std::string given = path("given"), kept = path("kept"), out = path("out");
    if (oracle({"write", QString::fromStdString(given)}) != 0)
      QSKIP("there is no /usr/bin/python3 with NumPy");
    const models::Model model = gpt2(768, 12, 12, 50257);
    const weights::Names names = weights::gpt2Names(model).value();
    const auto wanted = parametersOf(model);
    const auto file = weights::WeightsFile::open(given, names, wanted, false);
    QVERIFY2(file.ok(), file.ok() ? "" : file.error().text().c_str());
    QCOMPARE(file->manifest().tensors.size(), wanted.size());
    std::int64_t elements = 0;
    std::vector<TensorInfo> tensors;
    for (const auto& [name, tensor] : wanted) {
      elements += elementCount(tensor.shape);
      tensors.push_back({weights::weightName(name), tensor.dtype, tensor.shape});
    }
    QCOMPARE(elements, std::int64_t{124439808});
    std::vector<std::byte> whole;
    const auto bytes = [&](std::size_t index) -> Result<std::span<const std::byte>> {
      whole.resize(static_cast<std::size_t>(tensors[index].bytes()));
      for (const auto& [source, pieces] : file->manifest().contents)
        for (const plan::Piece& piece : pieces) {
          if (weights::weightName(piece.tensor.name) != tensors[index].name) continue;
          LOCKSTEP_ASSIGN(const auto read, file->read(piece));
          std::copy(read.begin(), read.end(), whole.begin() + piece.begin * 4);
        }
      return std::span<const std::byte>(whole);
    };
    QVERIFY(weights::writeTensors(kept, tensors, {}, bytes).ok());
    const auto trained = weights::ModelWeights::open(kept);
    QVERIFY(trained.ok());
    QVERIFY(weights::exportWeights(*trained, names, std::nullopt, out).ok());
    QCOMPARE(oracle({"same", QString::fromStdString(given), QString::fromStdString(out)}), 0);
    QVERIFY(oracle({"same", QString::fromStdString(given), QString::fromStdString(kept)}) != 0);
  }
};

QTEST_GUILESS_MAIN(WeightsTest)
#include "weights_test.moc"
