// Builders: graphs of the example models, descriptions for people, and what wrong models say.
#include "engine/models/model.h"

#include <QTest>

#include "engine/ir/ops.h"
#include "tests/support/example_models.h"
#include "tests/support/golden.h"

using namespace lockstep;
using namespace lockstep::models;
using namespace lockstep::testing;

namespace {

QString messageOf(const Model& model) {
  const Result<ir::ModelGraph> built = build(model, 4, DType::kF32, Use::kTraining);
  return built.ok()
             ? QString("no error")
             : QString::fromStdString(built.error().field + " | " + built.error().what.text());
}

Model residual() {
  Model model;
  model.name = "residual";
  model.input = {8, 8, 4};
  model.classes = 3;
  model.layers = {conv2d("conv1", 4, 3, "relu", true),  conv2d("conv2", 4, 3, "", true),
                  layer(Layer::Kind::kAdd, "sum"),      layer(Layer::Kind::kActivation, "act"),
                  layer(Layer::Kind::kFlatten, "flat"), dense("head", 3)};
  model.layers[2].inputs = {"input", "conv2"};
  model.layers[3].activation = "relu";
  model.layers[1].bias = false;
  return model;
}

}  // namespace

class ModelTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void forwardGraphs() {
    for (const auto& [name, model] : {std::pair("fashion-mlp.forward.txt", fashionMlp()),
                                      std::pair("fashion-cnn.forward.txt", fashionCnn())}) {
      const Result<ir::ModelGraph> built = build(model, 64, DType::kF32, Use::kTraining);
      QVERIFY2(built.ok(), built.ok() ? "" : built.error().text().c_str());
      QVERIFY(ir::verify(built->graph).ok());
      const std::string text = ir::text(built->graph);
      QCOMPARE(differsFromGolden(name, text), std::string());
      const Result<ir::Graph> back = ir::parse(text);
      QVERIFY(back.ok());
      QCOMPARE(ir::text(*back), text);
    }
  }

  void rolesOfValues() {
    const Result<ir::ModelGraph> built = build(fashionMlp(), 64, DType::kF64, Use::kTraining);
    QVERIFY(built.ok());
    QCOMPARE(built->batch, std::int64_t{64});
    QCOMPARE(built->parameters.size(), std::size_t{4});
    QCOMPARE(built->parameters[0].name, std::string("dense1.weight"));
    QCOMPARE(built->parameters[0].initializer, std::string("torch-uniform"));
    QCOMPARE(built->parameters[0].fanIn, std::int64_t{784});
    QCOMPARE(built->parameters[1].fanIn, std::int64_t{784});
    QCOMPARE(built->parameters[3].shape, (Shape{10}));
    for (ir::ValueId value : {built->loss, built->weight, built->metricSums})
      QCOMPARE(built->graph.value(value).type.text(), std::string("f64[1]"));
  }

  // Statistics are state: replaced in training, read in evaluation; the graphs share all names.
  void batchNorm() {
    Model model = residual();
    Layer norm = layer(Layer::Kind::kBatchNorm, "norm");
    norm.groups = 2;
    norm.activation = "relu";
    model.layers.insert(model.layers.begin() + 1, norm);
    model.layers.insert(model.layers.end() - 2, layer(Layer::Kind::kGlobalAveragePool, "mean"));
    const auto training = build(model, 4, DType::kF32, Use::kTraining);
    const auto evaluation = build(model, 3, DType::kF32, Use::kEvaluation);
    QVERIFY2(training.ok(), training.ok() ? "" : training.error().text().c_str());
    QVERIFY2(evaluation.ok(), evaluation.ok() ? "" : evaluation.error().text().c_str());
    for (const auto* built : {&*training, &*evaluation}) {
      QVERIFY(ir::verify(built->graph).ok());
      QCOMPARE(built->statistics.size(), std::size_t{2});
      QCOMPARE(built->statistics[0].name, std::string("norm.mean"));
      QCOMPARE(built->statistics[1].initializer, std::string("ones"));
      QCOMPARE(built->graph.value(built->graph.find("mean.mean-pool2d")->outputs[0]).type.shape[1],
               std::int64_t{4});
    }
    QCOMPARE(training->graph.value(training->graph.find("norm.moments")->outputs[0]).type.text(),
             std::string("f32[2x9]"));
    QVERIFY(training->graph.find("norm.variance.store") != nullptr);
    QVERIFY(evaluation->graph.find("norm.variance.store") == nullptr);
    QVERIFY(evaluation->graph.find("norm.moments") == nullptr);
    const auto layers = describe(model);
    QVERIFY(layers.ok());
    QCOMPARE((*layers)[1].kind, std::string("batch_norm"));
    QCOMPARE((*layers)[1].parameters, std::int64_t{8});
    QCOMPARE(QString::fromStdString(build(model, 5, DType::kF32, Use::kTraining).error().what),
             QString("layer norm: groups is 2; expected a divisor of the batch, 5"));
  }

  void describesLayers() {
    const Result<std::vector<LayerInfo>> layers = describe(fashionCnn());
    QVERIFY(layers.ok());
    QCOMPARE(layers->size(), std::size_t{4});
    QCOMPARE((*layers)[0].output, (Shape{26, 26, 32}));
    QCOMPARE((*layers)[0].kind, std::string("conv2d"));
    QCOMPARE((*layers)[0].parameters, std::int64_t{320});
    QCOMPARE((*layers)[0].activationBytes, std::int64_t{26 * 26 * 32 * 4});
    QCOMPARE((*layers)[0].forwardFlops, 26.0 * 26 * 32 * (2 * 9 + 1 + 1));
    QCOMPARE((*layers)[2].output, (Shape{5408}));
    QCOMPARE((*layers)[3].parameters, std::int64_t{54090});
    std::int64_t mlp = 0;
    const auto mlpLayers = describe(fashionMlp());
    for (const LayerInfo& info : *mlpLayers) mlp += info.parameters;
    QCOMPARE(mlp, std::int64_t{101770});
  }

  void residualsAreExpressible() {
    const Result<ir::ModelGraph> built = build(residual(), 2, DType::kF32, Use::kTraining);
    QVERIFY2(built.ok(), built.ok() ? "" : built.error().text().c_str());
    QVERIFY(built->graph.find("conv2.bias") == nullptr);
    const ir::Node* sum = built->graph.find("sum.add");
    QVERIFY(sum != nullptr);
    QCOMPARE(built->graph.value(sum->inputs[0]).type.text(), std::string("f32[2x8x8x4]"));
  }

  // Tensor ranks divide the weights of two dense layers in a row, unless another layer is tied to
  // one of them.
  void sharedWeightsAreWhole() {
    Model model;
    model.name = "shared";
    model.input = {6};
    model.loss = "mse";
    model.layers = {dense("code", 4), dense("between", 4), dense("back", 6), dense("head", 1)};
    for (const char* tied : {"", "code"}) {
      model.layers[2].tied = tied;
      const Result<ir::ModelGraph> built = build(model, 2, DType::kF32, Use::kTraining);
      QVERIFY2(built.ok(), built.ok() ? "" : built.error().text().c_str());
      QCOMPARE(built->parameters[0].name, std::string("code.weight"));
      QCOMPARE(built->parameters[0].isDivided(2), std::string_view(tied).empty());
    }
  }

  void meanSquaredError() {
    Model model = fashionMlp();
    model.loss = "mse";
    const Result<ir::ModelGraph> built = build(model, 4, DType::kF32, Use::kTraining);
    QVERIFY(built.ok());
    QCOMPARE(built->metricSums, -1);
    QVERIFY(built->metric.empty());
  }

  void wrongModels_data() {
    QTest::addColumn<QString>("message");
    QTest::addColumn<int>("change");
    auto row = [](const char* name, int change, const char* message) {
      QTest::newRow(name) << QString(message) << change;
    };
    row("kernel", 0,
        "layers[0].conv2d.kernel | layer conv1: kernel is 9 but its input is 8x8x4; "
        "expected at most 8, or padding same");
    row("even same", 1,
        "layers[0].conv2d.kernel | layer conv1: kernel is 4 with padding same; "
        "expected an odd number");
    row("flatten", 2,
        "layers[4].dense | layer head: its input is 8x8x4, not flat; add a flatten "
        "layer before it");
    row("unknown input", 3,
        "layers[2].inputs[1] | layer sum: there is no layer covn2 before it; "
        "expected \"input\" or the name of a layer above; did you mean conv2?");
    row("shapes", 4,
        "layers[2].inputs | layer sum: its inputs are 8x8x4 and 8x8x5; expected equal "
        "shapes");
    row("classes", 5,
        "layers[5].dense.units | layer head: the last layer gives 3 values a sample; "
        "expected 10, the number of classes");
    row("activation", 6,
        "layers[3].activation.function | layer act: unknown activation rleu; "
        "expected relu, gelu or tanh; did you mean relu?");
    row("unused", 7,
        "layers[0].name | layer conv1: no later layer takes its output; expected it "
        "among the inputs of one, or the layer left out");
    row("twice", 8,
        "layers[1].name | layer conv1: another layer or the input has this name; "
        "expected a name of its own");
    row("one input", 9, "layers[2].inputs | layer sum: add takes two inputs, not 1");
    row("loss", 10,
        "loss | unknown loss crossentropy; expected cross-entropy, binary-cross-entropy or mse; "
        "did you mean "
        "cross-entropy?");
    row("no layers", 11, "layers | there are no layers; expected at least one");
    row("units", 12, "layers[5].dense.units | layer head: units is 0; expected at least 1");
    row("huge", 13,
        "layers[5].dense | layer head: its parameters [256x1099511627776] are too large");
    row("input", 14,
        "input.shape | the input has no shape; expected that of one sample, such as "
        "[28, 28, 1]");
    row("vocabulary", 15,
        "classes | classes is 128; expected at least 256, the vocabulary: the label of a token is "
        "the next one");
    row("tokens", 16,
        "layers[0].dense | layer head: its input is ids of tokens or categories; expected an "
        "embedding before it");
    row("categories", 17,
        "layers[0].inputs[1] | layer join: its input is ids of tokens or categories; expected an "
        "embedding before it");
  }
  void wrongModels() {
    QFETCH(QString, message);
    QFETCH(int, change);
    Model m = residual();
    switch (change) {
      case 0:
        m.layers[0].kernel = 9, m.layers[0].same = false;
        break;
      case 1:
        m.layers[0].kernel = 4;
        break;
      case 2:
        m.layers.erase(m.layers.begin() + 4);
        break;
      case 3:
        m.layers[2].inputs[1] = "covn2";
        break;
      case 4:
        m.layers[1].units = 5;
        break;
      case 5:
        m.classes = 10;
        break;
      case 6:
        m.layers[3].activation = "rleu";
        break;
      case 7:
        m.layers[1].inputs = {"input"};
        break;
      case 8:
        m.layers[1].name = "conv1";
        break;
      case 9:
        m.layers[2].inputs.clear();
        break;
      case 10:
        m.loss = "crossentropy";
        break;
      case 11:
        m.layers.clear();
        break;
      case 12:
        m.layers[5].units = 0;
        break;
      case 13:
        m.layers[5].units = std::int64_t{1} << 40;
        break;
      case 14:
        m.input.clear();
        break;
      case 15:
        m.input = {8};
        m.vocabulary = 256;
        m.classes = 128;
        m.layers = {layer(Layer::Kind::kEmbedding, "table"), dense("head", 128)};
        m.layers[0].units = 4;
        break;
      case 16:
        m.input = {8};
        m.vocabulary = m.classes = 256;
        m.layers = {dense("head", 256)};
        break;
      case 17:
        m.input = {3};
        m.columns = m.categories = 4;
        m.layers = {layer(Layer::Kind::kConcat, "join"), dense("head", 3)};
        m.layers[0].inputs = {"input", "categories"};
        break;
      default:
        QFAIL("no such change");
    }
    QCOMPARE(messageOf(m), message);
  }

  // No description crashes the builder: sizes are checked before they are multiplied.
  void extremeSizesAreRefused() {
    const std::int64_t extremes[] = {-1,
                                     0,
                                     1,
                                     std::int64_t{1} << 40,
                                     std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()};
    for (std::int64_t value : extremes)
      for (int field = 0; field < 6; ++field) {
        Model m = residual();
        std::int64_t* fields[] = {&m.layers[0].units, &m.layers[0].kernel, &m.layers[0].stride,
                                  &m.layers[5].units, &m.input[0],         &m.classes};
        *fields[field] = value;
        (void)build(m, 1, DType::kF32, Use::kTraining).ok();
        (void)build(m, value, DType::kF32, Use::kTraining).ok();
      }
  }
};

QTEST_GUILESS_MAIN(ModelTest)
#include "model_test.moc"
