// The doors from messages: defaults, ranges, kinds, and the field each error names.
#include "engine/specs/specs.h"

#include <QTest>

#include <functional>
#include <memory>
#include <set>

#include "engine/backends/backend.h"
#include "engine/base/suggest.h"
#include "engine/cluster/strategies.h"
#include "engine/models/model.h"
#include "engine/specs/freeze.h"
#include "engine/specs/links.h"
#include "engine/specs/options.h"
#include "engine/specs/states.h"

using namespace lockstep;
using namespace lockstep::specs;
using spec::v1::ClusterSpec;
using spec::v1::RunSpec;
using spec::v1::StrategySpec;
using spec::v1::TrainingSpec;

namespace {

RunSpec cnn() {
  RunSpec spec;
  auto& model = *spec.mutable_model();
  model.set_name("fashion-cnn");
  for (int extent : {28, 28, 1}) model.mutable_input()->add_shape(extent);
  auto& conv = *model.add_layers()->mutable_conv2d();
  conv.set_filters(32);
  conv.set_kernel(3);
  conv.set_activation("relu");
  model.add_layers()->mutable_max_pool2d()->set_size(2);
  model.add_layers()->mutable_flatten();
  model.add_layers()->mutable_dense()->set_units(10);
  for (auto* files :
       {spec.mutable_data()->mutable_train(), spec.mutable_data()->mutable_evaluate()}) {
    files->set_images("images.gz");
    files->set_labels("labels.gz");
  }
  return spec;
}

QString messageOf(const Status& status) {
  return status.ok()
             ? QString("no error")
             : QString::fromStdString(status.error().field + " | " + status.error().what.text());
}

ClusterSpec nodes(int count) {
  ClusterSpec spec;
  for (int i = 0; i < count; ++i) spec.add_nodes()->set_name(fmt::format("n{}", i));
  return spec;
}

template <typename State>
void checkStates(const google::protobuf::EnumDescriptor& type) {
  for (int i = 0; i < type.value_count(); ++i) {
    const auto from = static_cast<State>(type.value(i)->number());
    const auto& entry = type.value(i)->options().GetExtension(run::v1::state);
    QVERIFY2(!entry.name().empty(), type.value(i)->name().c_str());
    for (const auto& next : entry.next())
      QVERIFY2(type.FindValueByName(next) != nullptr, next.c_str());
    for (int k = 0; k < type.value_count(); ++k) {
      const auto to = static_cast<State>(type.value(k)->number());
      const Status status = checkTransition(from, to);
      const bool named = std::find(entry.next().begin(), entry.next().end(),
                                   type.value(k)->name()) != entry.next().end();
      QCOMPARE(status.ok(), named || from == to);
      if (status.ok()) continue;
      QVERIFY(status.error().what.text().find(stateName(from)) != std::string::npos);
      QVERIFY(status.error().what.text().find(stateName(to)) != std::string::npos);
    }
  }
}

struct WrongRun {
  std::function<void(RunSpec& s)> change;  // of a right one
  std::string message;                     // field | what is wrong
};
const WrongRun kWrongRuns[] = {
    {[](RunSpec& s) {
       s.mutable_model()->mutable_layers()->at(0).mutable_conv2d()->set_kernel(29);
     },
     "model.layers[0].conv2d.kernel | layer conv1: kernel is 29 but its input is 28x28x1; "
     "expected at most 28, or padding same"},
    {[](RunSpec& s) {
       s.mutable_model()->mutable_layers()->at(0).mutable_conv2d()->set_padding("sme");
     },
     "model.layers[0].conv2d.padding | model.layers[0].conv2d.padding is \"sme\"; expected "
     "valid or same; did you "
     "mean same?"},
    {[](RunSpec& s) { s.mutable_model()->mutable_layers()->at(1).clear_kind(); },
     "model.layers[1] | the layer has no kind; expected dense, conv2d, max_pool2d, flatten, "
     "activation, add, embedding, layer_norm, transformer, batch_norm, "
     "global_average_pool, concat or dropout"},
    {[](RunSpec& s) { s.mutable_training()->mutable_optimizer()->set_kind("adm"); },
     "training.optimizer.kind | training.optimizer.kind is \"adm\"; expected sgd, adam or "
     "adagrad; did you mean adam?"},
    {[](RunSpec& s) { s.mutable_training()->mutable_optimizer()->set_momentum(0.9); },
     "training.optimizer.momentum | training.optimizer.momentum is not used with kind adam; "
     "expected it left out, or kind sgd"},
    {[](RunSpec& s) { s.mutable_training()->set_batch(-1); },
     "training.batch | training.batch is -1; expected 1 to 16777216"},
    {[](RunSpec& s) {
       s.mutable_training()->set_precision("fp64");
       s.mutable_training()->set_backend("onednn");
     },
     "training.backend | backend onednn has no fp64; expected reference, or precision fp32"},
    {[](RunSpec& s) { s.mutable_strategy()->set_kind("mirored"); },
     "strategy.kind | strategy.kind is \"mirored\"; expected {strategies}"},
    {[](RunSpec& s) { s.mutable_data()->mutable_evaluate()->clear_labels(); },
     "data.evaluate.labels | labels is missing; expected the path of an IDX file"},
    {[](RunSpec& s) { s.mutable_data()->mutable_train()->set_images_sha256("abc"); },
     "data.train.images_sha256 | not a SHA-256; expected 64 digits of 0-9 and a-f"},
    {[](RunSpec& s) {
       s.mutable_data()->mutable_train()->set_images("https://me:secret@host/images.gz");
     },
     "data.train.images | it has a user name or a password, and what a run's spec has is kept; "
     "leave them out: the node takes credentials for s3:// from its environment or from "
     "~/.aws/credentials, and uses none for other URLs"},
    {[](RunSpec& s) {
       s.mutable_data()->mutable_train()->set_labels("https://host/l?X-Amz-Signature=0");
     },
     "data.train.labels | it is signed, and what a run's spec has is kept; write objects of an S3 "
     "store as s3://bucket/key: the node signs its requests"},
    {[](RunSpec& s) { s.mutable_data()->mutable_train()->set_labels("https://host/l?sv=1&sig=0"); },
     "data.train.labels | it is signed, and what a run's spec has is kept; write objects of an S3 "
     "store as s3://bucket/key: the node signs its requests"},
    {[](RunSpec& s) { s.mutable_data()->mutable_train()->set_images("s3://bucket/"); },
     "data.train.images | it names no file; write https://host/path, http://host/path or "
     "s3://bucket/key"},
    {[](RunSpec& s) { s.mutable_data()->mutable_train()->set_images("http://host/a b"); },
     "data.train.images | it has characters that a URL cannot have; percent-encode them, as %20"},
    {[](RunSpec& s) { s.mutable_training()->mutable_optimizer()->set_learning_rate(std::nan("")); },
     "training.optimizer.learning_rate | training.optimizer.learning_rate is nan; expected a "
     "finite number, at "
     "least 0"},
    {[](RunSpec& s) { s.mutable_model()->set_loss("mse"); },
     "model.loss | model.loss is mse but the labels of idx are classes; expected cross-entropy"},
    {[](RunSpec& s) {
       s.mutable_model()->mutable_input()->set_vocabulary(256);
       s.mutable_model()->set_loss("binary-cross-entropy");
     },
     "model.loss | model.loss is binary-cross-entropy but the labels of a text are tokens; "
     "expected cross-entropy"},
    {[](RunSpec& s) { s.set_version(2); }, "version | version is 2; expected 1 to 1"},
    {[](RunSpec& s) { s.mutable_training()->mutable_optimizer()->set_beta1(1.5); },
     "training.optimizer.beta1 | training.optimizer.beta1 is 1.5; expected at least 0 and less "
     "than 1"},
    {[](RunSpec& s) { s.mutable_model()->mutable_layers()->at(3).add_inputs("flaten1"); },
     "model.layers[3].inputs[0] | layer dense1: there is no layer flaten1 before it; expected "
     "\"input\" or the name of a layer above; did you mean flatten1?"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("mirrored");
       s.mutable_strategy()->set_local_steps(4);
     },
     "strategy.local_steps | strategy.local_steps is 4, but mirrored has none; expected it left "
     "out"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("local-sgd");
       s.mutable_strategy()->set_local_steps(7);
     },
     "strategy.local_steps | strategy.local_steps is 7; expected a divisor of training.batch, "
     "64"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("mirrored");
       s.mutable_strategy()->set_staleness(1);
     },
     "strategy.staleness | strategy.staleness is 1, but mirrored is synchronous; "
     "expected 0, or "
     "kind parameter-server"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("auto");
       s.mutable_strategy()->set_servers(1);
       s.mutable_strategy()->set_tensor(2);
     },
     "strategy.tensor | strategy auto with servers cannot divide layers: strategy.tensor is 2"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("auto");
       s.mutable_strategy()->set_stages(2);
       s.mutable_strategy()->set_deterministic_parts(4);
     },
     "strategy.deterministic_parts | strategy.deterministic_parts is 4, but auto with stages "
     "cannot add up gradients in one order; expected 0"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("auto");
       s.mutable_strategy()->set_staleness(2);
       s.mutable_strategy()->set_micro_batches(2);
     },
     "strategy.staleness | strategy.staleness is 2 and strategy.micro_batches 2, but servers take "
     "what a worker sends as one update; expected one of them left out"},
    {[](RunSpec& s) {
       s.mutable_strategy()->set_kind("auto");
       s.mutable_strategy()->set_local_steps(2);
     },
     "strategy.local_steps | strategy.local_steps is 2, but strategy.kind auto does not try "
     "local-sgd, which changes results; expected it left out, or kind local-sgd"},
    {[](RunSpec& s) { s.mutable_strategy()->add_shares(2), s.mutable_strategy()->add_shares(0); },
     "strategy.shares[1] | strategy.shares[1] is 0; expected more than 0 and at most 1000000"},
    {[](RunSpec& s) { s.mutable_training()->mutable_optimizer()->set_for_batch(-1); },
     "training.optimizer.for_batch | training.optimizer.for_batch is -1; expected 0 to "
     "16777216"},
    {[](RunSpec& s) { s.mutable_strategy()->set_recompute("ful"); },
     "strategy.recompute | strategy.recompute is \"ful\"; expected none, selective or full; did "
     "you mean full?"},
    {[](RunSpec& s) { s.mutable_strategy()->set_overlap("allways"); },
     "strategy.overlap | strategy.overlap is \"allways\"; expected auto, always or never; did "
     "you mean always?"},
    {[](RunSpec& s) { s.mutable_strategy()->set_gather_bytes(-1); },
     "strategy.gather_bytes | strategy.gather_bytes is -1; expected 0 to 1099511627776"},
    {[](RunSpec& s) { s.mutable_training()->set_precision("fp15"); },
     "training.precision | training.precision is \"fp15\"; expected fp32, tf32, bf16, fp16 or "
     "fp64; did you mean fp16?"},
    {[](RunSpec& s) {
       s.mutable_training()->set_precision("bf16");
       s.mutable_training()->mutable_loss_scale()->set_fixed(true);
     },
     "training.loss_scale | training.loss_scale is not used with precision bf16; expected it "
     "left out, or precision fp16"},
    {[](RunSpec& s) {
       s.mutable_training()->set_precision("fp16");
       s.mutable_training()->mutable_loss_scale()->set_initial(1000);
     },
     "training.loss_scale.initial | training.loss_scale.initial is 1000; expected a power of "
     "two from 2^-64 to 2^64, as 65536"},
    {[](RunSpec& s) {
       s.mutable_training()->set_precision("fp16");
       s.mutable_training()->mutable_loss_scale()->set_growth_interval(-1);
     },
     "training.loss_scale.growth_interval | training.loss_scale.growth_interval is -1; expected "
     "1 to 16777216"},
    {[](RunSpec& s) { s.mutable_training()->set_on_nonfinite("continu"); },
     "training.on_nonfinite | training.on_nonfinite is \"continu\"; expected fail or continue; "
     "did you mean continue?"},
    {[](RunSpec& s) {
       s.mutable_strategy()->add_shares(2), s.mutable_strategy()->add_shares(1e-7);
     },
     "strategy.shares[1] | strategy.shares[1] is 1e-07 of 2.0000001; expected at least "
     "1/1000000 of all"},
    {[](RunSpec& s) { s.mutable_data()->mutable_csv()->set_label("y"); },
     "data.csv | only tables are CSV; expected it left out"},
    {[](RunSpec& s) {
       s.mutable_training()->add_freeze("conv*"), s.mutable_training()->add_freeze("dense2");
     },
     "training.freeze[1] | \"dense2\" matches no parameter; expected one of "
     "conv1.weight, conv1.bias, dense1.weight, dense1.bias, or a pattern, as block* or "
     "block[0-3]"},
    {[](RunSpec& s) {
       s.mutable_training()->add_freeze("conv1"), s.mutable_training()->add_freeze("dense?.*");
     },
     "training.freeze | training.freeze names all parameters; expected some to be left to train"},
};

RunSpec table() {
  RunSpec spec;
  auto& model = *spec.mutable_model();
  model.set_classes(3);
  model.mutable_input()->add_shape(2);
  model.mutable_input()->set_columns(1);
  model.mutable_input()->set_categories(50);
  auto& tables = *model.add_layers();
  tables.set_name("t");
  tables.add_inputs("categories");
  tables.mutable_embedding()->set_units(2);
  auto& join = *model.add_layers();
  join.add_inputs("input");
  join.add_inputs("t");
  join.mutable_concat();
  model.add_layers()->mutable_dense()->set_units(3);
  spec.mutable_data()->mutable_train()->set_table("train.csv");
  spec.mutable_data()->mutable_evaluate()->set_table("test.csv");
  auto& csv = *spec.mutable_data()->mutable_csv();
  csv.set_label("y");
  csv.add_numbers("a");
  csv.add_numbers("b");
  csv.add_categories("c");
  return spec;
}

}  // namespace

class SpecsTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // A range is of numbers, not of characters.
  void rangesOfFrozenLayers() {
    spec::v1::TrainingSpec training;
    training.add_freeze("block[0-11].qkv");
    std::vector<ir::Parameter> parameters(24);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      parameters[i].name = fmt::format("block{}.{}.weight", i / 2, i % 2 == 0 ? "qkv" : "out");
    parameters.emplace_back().name = "block12.qkv.weight";
    markFrozen(training, parameters);
    for (std::size_t i = 0; i < 24; ++i) QCOMPARE(parameters[i].frozen, i % 2 == 0);
    QVERIFY(!parameters.back().frozen);
  }

  void everyBackendCanBeAskedFor() {
    const auto kinds = valuesOf<TrainingSpec>("backend");
    const std::vector<std::string> names = backends::backendNames();
    QCOMPARE(std::set<std::string>(kinds.begin(), kinds.end()),
             std::set<std::string>(names.begin(), names.end()));
  }

  // The table lists what other modules define.
  void theTableNamesEveryStrategyAndFunction() {
    std::vector<std::string_view> strategies;
    for (const auto& strategy : cluster::strategies()) strategies.push_back(strategy.name);
    strategies.push_back(cluster::kAutoStrategy);
    QCOMPARE(valuesOf<StrategySpec>("kind"), strategies);
    const auto functions = models::activations();
    const std::vector<std::string_view> known(functions.begin(), functions.end());
    QCOMPARE(valuesOf<spec::v1::DenseLayer>("activation"), known);
    QCOMPARE(valuesOf<spec::v1::Conv2dLayer>("activation"), known);
    QCOMPARE(valuesOf<spec::v1::AddLayer>("activation"), known);
    QCOMPARE(valuesOf<spec::v1::BatchNormLayer>("activation"), known);
    QCOMPARE(valuesOf<spec::v1::ActivationLayer>("function"), known);
  }

  // Every default is a value of its field, every condition names a field of the same message, and
  // every default is in its own range.
  void theTableIsConsistent() {
    int seen = 0;
    const std::function<void(const google::protobuf::Descriptor&)> check =
        [&](const google::protobuf::Descriptor& type) {
          const std::unique_ptr<google::protobuf::Message> message(
              google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
          for (int i = 0; i < type.field_count(); ++i) {
            const auto& field = *type.field(i);
            const spec::v1::Option& option = optionOf(field);
            ++seen;
            QVERIFY2(field.is_map() || option.former() || !option.label_zh().empty(),
                     field.full_name().c_str());
            if (option.has_used_with()) {
              const auto* other = type.FindFieldByName(option.used_with().field());
              QVERIFY2(other != nullptr && other->index() < i, field.full_name().c_str());
              const auto& values = optionOf(*other).values();
              for (const auto& value : option.used_with().values())
                QVERIFY2(std::find(values.begin(), values.end(), value) != values.end(),
                         field.full_name().c_str());
            }
            if (field.is_map()) continue;
            if (field.message_type() != nullptr) {
              QVERIFY2(option.default_value().empty() || option.default_value() == "{}",
                       field.full_name().c_str());
              if (field.message_type() != &type) check(*field.message_type());
            } else if (!option.default_value().empty()) {
              QVERIFY2(setField(*message, field, option.default_value()),
                       field.full_name().c_str());
            }
          }
          fillDefaults(*message);
          const Status status = checkOptions(*message, "");
          QVERIFY2(
              status.ok() || status.error().text().find("is not used with") != std::string::npos,
              qPrintable(messageOf(status)));
        };
    check(*RunSpec::descriptor());
    check(*ClusterSpec::descriptor());
    QVERIFY(seen > 120);
  }

  // Each option of the table, with values around the ends of its range: what is in it is accepted,
  // what is not is refused by its path, with a remedy that is accepted.
  void rangesAreKept() {
    const std::function<void(google::protobuf::Message&, const std::string&)> check =
        [&](google::protobuf::Message& message, const std::string& path) {
          const auto& type = *message.GetDescriptor();
          for (int i = 0; i < type.field_count(); ++i) {
            const auto& field = *type.field(i);
            const spec::v1::Option& option = optionOf(field);
            const std::string at = path.empty() ? field.name() : path + "." + field.name();
            if (field.is_repeated()) continue;
            if (field.message_type() != nullptr) {
              const std::unique_ptr<google::protobuf::Message> below(
                  google::protobuf::MessageFactory::generated_factory()
                      ->GetPrototype(field.message_type())
                      ->New());
              check(*below, at);
              continue;
            }
            const auto tried = [&](double value) {
              message.Clear();
              if (option.has_used_with())
                setField(message, *type.FindFieldByName(option.used_with().field()),
                         option.used_with().values(0));
              setField(message, field, fmt::format("{}", value));
              return checkOptions(message, path);
            };
            const auto refused = [&](double value) {
              const Status status = tried(value);
              QVERIFY2(!status.ok(), at.c_str());
              QCOMPARE(status.error().field, at);
              QVERIFY(!status.error().remedies.empty());
              QVERIFY(tried(std::stod(status.error().remedies.front().front().value)).ok());
            };
            if (option.has_min()) {
              QCOMPARE(messageOf(tried(option.min())), "no error");
              refused(option.min() - (option.min() == 1 ? 2 : 1));  // 0 is left out
            }
            if (option.has_max()) {
              QCOMPARE(messageOf(tried(option.max())), "no error");
              if (option.max() < 2147483647) refused(option.max() + 1);
            }
            if (option.has_below()) refused(option.below());
          }
        };
    for (const auto* type :
         {RunSpec::descriptor(), ClusterSpec::descriptor(), spec::v1::NodeSpec::descriptor(),
          spec::v1::SshSpec::descriptor(), spec::v1::DeviceSpec::descriptor(),
          spec::v1::LinkSpec::descriptor()}) {
      const std::unique_ptr<google::protobuf::Message> message(
          google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
      check(*message, "");
    }
  }

  // Every name in `next` is a state, and each pair of states is allowed or refused by name.
  void statesAndTransitions() {
    checkStates<run::v1::RunState>(*run::v1::RunState_descriptor());
    checkStates<run::v1::NodeState>(*run::v1::NodeState_descriptor());
    for (const auto state :
         {run::v1::SUCCEEDED, run::v1::FAILED, run::v1::STOPPED, run::v1::EXPIRED})
      QVERIFY(isFinal(state));
    for (const auto state : {run::v1::RUN_STATE_UNSPECIFIED, run::v1::LAUNCHING, run::v1::PREPARED,
                             run::v1::RUNNING, run::v1::STOPPING})
      QVERIFY(!isFinal(state));
    QVERIFY(checkTransition(run::v1::RUNNING, run::v1::STOPPING).ok());
    QCOMPARE(messageOf(checkTransition(run::v1::SUCCEEDED, run::v1::RUNNING)),
             " | a run that is succeeded cannot become running");
  }

  // A learning rate of 0 is one; only its absence has a default.
  void aLearningRateOfZeroIsKept() {
    RunSpec spec = cnn();
    spec.mutable_training()->mutable_optimizer()->set_learning_rate(0);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(spec.training().optimizer().learning_rate(), 0.0);
  }

  void defaultsAreFilled() {
    RunSpec spec = cnn();
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(spec.version(), 1);
    QCOMPARE(spec.training().batch(), 64);
    QCOMPARE(spec.training().epochs(), 1);
    QCOMPARE(spec.training().seed(), 1u);
    QCOMPARE(spec.training().evaluate_batch(), 0);  // chosen when it is planned
    QCOMPARE(spec.training().precision(), std::string("fp32"));
    QCOMPARE(spec.training().backend(), std::string());  // as devices are
    QCOMPARE(spec.training().optimizer().kind(), std::string("adam"));
    QCOMPARE(spec.training().optimizer().learning_rate(), 1e-3);
    QCOMPARE(spec.training().optimizer().beta2(), 0.999);
    QCOMPARE(spec.training().schedule().kind(), std::string("constant"));
    QCOMPARE(spec.training().checkpoint().keep(), 2);
    QCOMPARE(spec.strategy().kind(), std::string("multi-worker-mirrored"));
    QCOMPARE(spec.data().format(), std::string("idx"));
    QCOMPARE(spec.model().layers(0).name(), std::string("conv1"));
    QCOMPARE(spec.model().layers(1).name(), std::string("pool1"));
    QCOMPARE(spec.model().layers(1).max_pool2d().stride(), 2);
    QCOMPARE(spec.model().classes(), 10);
    const RunSpec once = spec;
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(spec.SerializeAsString(), once.SerializeAsString());
  }

  // What an open strategy leaves out is chosen with it; the batch has one statistic.
  void anOpenStrategyStaysAsWritten() {
    RunSpec spec = cnn();
    spec.mutable_model()->mutable_layers()->at(1).mutable_batch_norm();
    spec.mutable_strategy()->set_kind("auto");
    spec.mutable_strategy()->set_recompute("full");
    const StrategySpec written = spec.strategy();
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(spec.strategy().SerializeAsString(), written.SerializeAsString());
    QCOMPARE(spec.model().layers(1).batch_norm().groups(), 1);
  }

  // Zero is a seed like any other; only its absence has a default.
  void everySeedIsKept() {
    RunSpec spec = cnn();
    spec.mutable_training()->set_seed(0);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QVERIFY(spec.training().has_seed());
    QCOMPARE(spec.training().seed(), 0u);
    RunSpec travelled;
    QVERIFY(travelled.ParseFromString(spec.SerializeAsString()));
    QCOMPARE(messageOf(checkAndFill(travelled)), "no error");
    QCOMPARE(travelled.training().seed(), 0u);
  }

  void deterministicPartsAreSharedByRanks() {
    RunSpec spec = cnn();
    spec.mutable_strategy()->set_deterministic_parts(8);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(*microBatches(spec, 1), 8);
    QCOMPARE(*microBatches(spec, 4), 2);
    QVERIFY(microBatches(spec, 3).error().text().find("expected a multiple of 3") !=
            std::string::npos);
    spec.mutable_strategy()->set_deterministic_parts(7);
    QCOMPARE(messageOf(checkAndFill(spec)),
             "strategy.deterministic_parts | strategy.deterministic_parts is 7; expected a divisor "
             "of training.batch, 64");
    spec.mutable_strategy()->set_deterministic_parts(8);
    spec.mutable_strategy()->set_micro_batches(2);
    QVERIFY(messageOf(checkAndFill(spec))
                .startsWith("strategy.deterministic_parts | strategy.deterministic_parts is 8 and "
                            "strategy.micro_batches 2"));
  }

  void ratesGrowWithTheBatch() {
    RunSpec spec = cnn();
    QCOMPARE(rateScale(spec.training()), 1.0);
    spec.mutable_training()->mutable_optimizer()->set_for_batch(16);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(rateScale(spec.training()), 4.0);
    QCOMPARE(spec.training().optimizer().learning_rate(), 1e-3);
  }

  void stepsAloneSayHowLong() {
    RunSpec spec = cnn();
    spec.mutable_training()->set_max_steps(5000);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(spec.training().epochs(), 0);
    QCOMPARE(spec.training().max_steps(), 5000);
    spec.mutable_training()->set_epochs(2);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
    QCOMPARE(spec.training().epochs(), 2);
    spec.mutable_training()->set_epochs(-1);
    QVERIFY(messageOf(checkAndFill(spec)).contains("training.epochs"));
  }

  void modelOfTheSpec() {
    const Result<models::Model> model = toModel(cnn().model());
    QVERIFY(model.ok());
    QCOMPARE(model->layers.size(), std::size_t{4});
    QCOMPARE(model->inputScale, 1.0 / 255);
    QCOMPARE(model->layers[0].stride, std::int64_t{1});
    QVERIFY(model->layers[0].bias);
    QCOMPARE(model->layers[3].name, std::string("dense1"));
  }

  void givenNamesAreKeptClear() {
    auto spec = cnn();
    spec.mutable_model()->mutable_layers(0)->set_name("dense1");
    const Result<models::Model> model = toModel(spec.model());
    QVERIFY(model.ok());
    QCOMPARE(model->layers[3].name, std::string("dense2"));
  }

  void wrongRuns_data() {
    QTest::addColumn<int>("index");
    for (int i = 0; i < static_cast<int>(std::size(kWrongRuns)); ++i) QTest::addRow("%d", i) << i;
  }
  void wrongRuns() {
    QFETCH(int, index);
    const WrongRun& wrong = kWrongRuns[index];
    RunSpec s = cnn();
    wrong.change(s);
    const std::string strategies = expectedOneOf("mirored", valuesOf<StrategySpec>("kind"));
    QCOMPARE(messageOf(checkAndFill(s)),
             QString::fromStdString(wrong.message)
                 .replace("{strategies}", QString::fromStdString(strategies)));
  }

  void columnsOfCsv() {
    const auto said = [](const std::function<void(spec::v1::CsvSpec&)>& change,
                         const char* loss = "cross-entropy") {
      RunSpec spec = table();
      spec.mutable_model()->set_loss(loss);
      change(*spec.mutable_data()->mutable_csv());
      return messageOf(checkAndFill(spec));
    };
    using Csv = spec::v1::CsvSpec;
    RunSpec good = table();
    QCOMPARE(messageOf(checkAndFill(good)), "no error");
    QCOMPARE(good.data().format(), std::string("table"));
    QCOMPARE(good.data().csv().transform(), std::string("log"));
    QCOMPARE(said([](Csv& csv) { csv.clear_label(); }),
             "data.csv.label | label is missing; expected the name of a column");
    QCOMPARE(said([](Csv& csv) { csv.add_numbers("d"); }),
             "data.csv.numbers | data.csv.numbers names 3 columns, and model.input.shape is 2; "
             "expected as many");
    QCOMPARE(said([](Csv& csv) { csv.clear_categories(); }),
             "data.csv.categories | data.csv.categories names 0 columns, and model.input.columns "
             "is 1; expected as many");
    QCOMPARE(said([](Csv& csv) { csv.set_numbers(1, "y"); }),
             "data.csv.numbers[1] | \"y\" is the label; expected another column");
    QCOMPARE(said([](Csv& csv) { csv.add_classes("no"); }),
             "data.csv.classes | data.csv.classes has 1 texts, and the model has 3 classes; "
             "expected as many");
    QCOMPARE(said([](Csv& csv) {
               for (const char* one : {"no", "yes", "no"}) csv.add_classes(one);
             }),
             "data.csv.classes[2] | \"no\" is listed twice");
    for (const char* separator : {"\"", ",,", "\n", "é"})
      QVERIFY(said([&](Csv& csv) {
                csv.set_separator(separator);
              }).startsWith("data.csv.separator | a separator is one ASCII character"));
    for (const char* separator : {"", ";", "\t", "|", " "})
      QCOMPARE(said([&](Csv& csv) { csv.set_separator(separator); }), "no error");
  }

  void aRowOfATableHasOneLabel() {
    RunSpec spec = table();
    spec.mutable_model()->set_loss("mse");
    QCOMPARE(messageOf(checkAndFill(spec)),
             "model.layers[2].dense | the last layer gives 3 values a sample; expected 1, as a row "
             "of a table has one label");
    spec.mutable_model()->mutable_layers(2)->mutable_dense()->set_units(1);
    QCOMPARE(messageOf(checkAndFill(spec)), "no error");
  }

  void halfPrecisionHasALossScale() {
    RunSpec spec = cnn();
    QVERIFY(checkAndFill(spec).ok());
    QVERIFY(!spec.training().has_loss_scale());
    QCOMPARE(spec.training().on_nonfinite(), "fail");
    spec.mutable_training()->set_precision("fp16");
    QVERIFY(checkAndFill(spec).ok());
    QCOMPARE(spec.training().loss_scale().initial(), 65536.0);
    QCOMPARE(spec.training().loss_scale().growth_interval(), 2000);
    QVERIFY(!spec.training().loss_scale().fixed());
    QVERIFY(precisionOf(spec.training()).matmulDtype == DType::kF16);
    QVERIFY(precisionOf(spec.training()).compute == DType::kF32);
  }

  void doublePrecisionChoosesTheReferenceBackend() {
    RunSpec spec = cnn();
    spec.mutable_training()->set_precision("fp64");
    QVERIFY(checkAndFill(spec).ok());
    QCOMPARE(backendOn("cpu", spec.training()), std::string("reference"));
    spec.mutable_training()->set_precision("bf16");
    QCOMPARE(backendOn("cpu", spec.training()), std::string("onednn"));
    QVERIFY(!precisionOf(spec.training()).tf32);
    spec.mutable_training()->set_precision("tf32");
    QVERIFY(checkAndFill(spec).ok());
    QVERIFY(precisionOf(spec.training()).tf32);
    QVERIFY(precisionOf(spec.training()).matmulDtype == DType::kF32);
  }

  void ranksComputeOnTheirDevices() {
    ClusterSpec spec = nodes(2);
    for (const auto& [kind, count] : {std::pair("cuda", 2), {"cpu", 1}, {"cuda", 0}}) {
      auto& device = *spec.mutable_nodes(1)->add_devices();
      device.set_kind(kind);
      device.set_count(count);
    }
    const auto said = [&](const spec::v1::TrainingSpec& training) {
      std::string out;
      for (const auto& node : spec.nodes())
        for (const RankDevice& rank : rankDevices(node, training))
          out += fmt::format("{} on {} {}, ", rank.backend, rank.kind, rank.number);
      return out;
    };
    spec::v1::TrainingSpec training;
    QCOMPARE(
        said(training),
        std::string(
            "onednn on cpu 0, cuda on cuda 0, cuda on cuda 1, onednn on cpu 0, cuda on cuda 2, "));
    training.set_backend("reference");
    QCOMPARE(said(training),
             std::string(
                 "reference on cpu 0, reference on cpu 0, reference on cpu 1, reference on cpu 2, "
                 "reference on cpu 3, "));
    training.set_backend("cuda");
    QCOMPARE(
        said(training),
        std::string(
            "cuda on cuda 0, cuda on cuda 0, cuda on cuda 1, cuda on cuda 2, cuda on cuda 3, "));
    training.clear_backend();
    const auto cluster = toCluster(spec, {}, {}, training);
    QVERIFY(cluster.ok());
    QCOMPARE(cluster->devices[2].kind, std::string("cuda"));
    QCOMPARE(cluster->devices[2].index, 1);
    RunSpec run;
    QVERIFY(!allOnGpus(spec, run));
    run.mutable_training()->set_backend("cuda");
    QVERIFY(allOnGpus(spec, run));
    training.set_precision("fp64");
    QCOMPARE(messageOf(toCluster(spec, {}, {}, training).status()),
             "nodes[1].devices[0].kind | kind is cuda, which has no fp64; expected cpu, or "
             "training.precision fp32, tf32, bf16 or fp16");
  }

  // Neighbours share a GPU where there are fewer than ranks.
  void ranksShareGpus() {
    ClusterSpec spec = nodes(1);
    for (const auto& [count, gpus] : {std::pair(5, 2), {2, 1}, {2, 0}, {1, 3}}) {
      auto& device = *spec.mutable_nodes(0)->add_devices();
      device.set_kind("cuda");
      device.set_count(count);
      device.set_gpus(gpus);
    }
    const auto cluster = toCluster(spec, {}, {});
    QVERIFY(cluster.ok());
    std::vector<int> numbers;
    for (const auto& device : cluster->devices) numbers.push_back(device.index);
    QVERIFY(numbers == (std::vector<int>{0, 0, 0, 1, 1, 2, 2, 3, 4, 5}));
    QCOMPARE(deviceCount(spec.nodes(0)), 10);
    spec::v1::TrainingSpec training;
    training.set_backend("onednn");
    for (const RankDevice& rank : rankDevices(spec.nodes(0), training))
      QCOMPARE(rank.kind, std::string("cpu"));
    spec.mutable_nodes(0)->mutable_devices(1)->set_kind("cpu");
    QCOMPARE(
        messageOf(toCluster(spec, {}, {}).status()),
        "nodes[0].devices[1].gpus | gpus is given for a device of kind cpu; expected kind: cuda");
  }

  void ncclIsOfGpusThatNoneShare() {
    ClusterSpec spec = nodes(2);
    spec.set_comm("nccl");
    for (int n = 0; n < 2; ++n) {
      auto& device = *spec.mutable_nodes(n)->add_devices();
      device.set_kind("cuda");
      device.set_count(2);
    }
    const auto cluster = toCluster(spec, {}, {});
    QVERIFY2(cluster.ok(), cluster.ok() ? "" : cluster.error().text().c_str());
    QCOMPARE(cluster->link.kind, std::string("nccl"));
    ClusterSpec chosen = spec;
    chosen.clear_comm();
    QCOMPARE(toCluster(chosen, {}, {})->link.kind, std::string("nccl"));
    chosen.mutable_nodes(1)->mutable_devices(0)->set_gpus(1);
    QCOMPARE(toCluster(chosen, {}, {})->link.kind, std::string("gloo"));
    spec::v1::StrategySpec servers;
    servers.set_kind("parameter-server");
    servers.set_servers(1);
    QCOMPARE(messageOf(toCluster(spec, {}, servers).status()),
             "comm | comm is nccl but parameter servers exchange through the host; expected shm or "
             "gloo");
    spec.mutable_nodes(1)->mutable_devices(0)->set_gpus(1);
    QCOMPARE(messageOf(toCluster(spec, {}, {}).status()),
             "comm | comm is nccl but ranks share GPU 0 of node n1; expected shm or gloo, or a GPU "
             "for each rank");
    spec.mutable_nodes(1)->clear_devices();
    QCOMPARE(messageOf(toCluster(spec, {}, {}).status()),
             "comm | comm is nccl but node n1 has ranks on processors; expected shm or gloo, or "
             "devices of kind cuda alone");
    spec::v1::TrainingSpec training;
    training.set_backend("cuda");
    QVERIFY(toCluster(spec, {}, {}, training).ok());
  }

  void ranksOfACluster() {
    ClusterSpec spec = nodes(3);
    auto& device = *spec.mutable_nodes(1)->add_devices();
    device.set_count(2);
    device.set_threads(4);
    spec.mutable_nodes(2)->add_roles("evaluator");
    const Result<cluster::Cluster> cluster = toCluster(spec, {{"n0", "boot", 16}}, {});
    QVERIFY(cluster.ok());
    QCOMPARE(cluster->devices.size(), std::size_t{3});
    QCOMPARE(cluster->devices[0].host, std::string("boot"));
    QCOMPARE(cluster->devices[2].node, std::string("n1"));
    QCOMPARE(cluster->devices[2].index, 1);
    QCOMPARE(cluster->devices[2].threads, 4);
    QCOMPARE(cluster->hosts.size(), std::size_t{2});
    QCOMPARE(cluster->hosts[0].cores, 16);
    QCOMPARE(cluster->hosts[1].cores, 8);
    QCOMPARE(cluster->mesh.text(), std::string("data 3"));
    QCOMPARE(cluster->link.kind, std::string("gloo"));
    QCOMPARE(toCluster(nodes(1), {}, {})->link.kind, std::string("shm"));
  }

  void sharedMemoryNeedsOneHost() {
    ClusterSpec spec = nodes(2);
    spec.set_comm("shm");
    const Result<cluster::Cluster> one =
        toCluster(spec, {{"n0", "boot", 2}, {"n1", "boot", 2}}, {});
    QVERIFY(one.ok());
    QCOMPARE(one->hosts.size(), std::size_t{1});
    QCOMPARE(messageOf(toCluster(spec, {{"n0", "a", 2}, {"n1", "b", 2}}, {}).status()),
             "comm | comm is shm but the nodes are on several hosts; expected gloo");
  }

  void knownLinksSetThePace() {
    ClusterSpec spec = nodes(2);
    auto& link = *spec.add_links();
    link.set_from("n0");
    link.set_to("n1");
    link.set_bandwidth_mbit(1000);
    link.set_latency_us(500);
    const Result<cluster::Cluster> cluster = toCluster(spec, {}, {});
    QVERIFY(cluster.ok());
    QCOMPARE(cluster->link.bytesPerSecond, 1.25e8);
    QCOMPARE(cluster->link.latency, 5e-4);
    link.set_to("n2");
    QCOMPARE(messageOf(checkLinks(spec)),
             "links[0].to | there is no node n2; expected the name of one");
    QVERIFY(toCluster(spec, {}, {}).ok());  // that node may have left the run
  }

  void wrongClusters() {
    QCOMPARE(messageOf(toCluster(nodes(0), {}, {}).status()),
             "nodes | there are no nodes; expected at least one");
    ClusterSpec twice = nodes(2);
    twice.mutable_nodes(1)->set_name("n0");
    QCOMPARE(messageOf(toCluster(twice, {}, {}).status()),
             "nodes[1].name | another node is named n0; expected a name of its own");
    ClusterSpec role = nodes(1);
    role.mutable_nodes(0)->add_roles("worke");
    QCOMPARE(messageOf(toCluster(role, {}, {}).status()),
             "nodes[0].roles[0] | nodes[0].roles[0] is \"worke\"; expected worker, ps, chief, "
             "evaluator or "
             "spare; did "
             "you mean worker?");
    ClusterSpec url = nodes(1);
    (*url.mutable_nodes(0)->mutable_data())["/data/images.gz"] = "http://me:secret@host/x";
    QVERIFY(messageOf(toCluster(url, {}, {}).status())
                .startsWith("nodes[0].data | it has a user name or a password"));
    ClusterSpec device = nodes(1);
    device.mutable_nodes(0)->add_devices()->set_kind("cdu");
    QCOMPARE(messageOf(toCluster(device, {}, {}).status()),
             "nodes[0].devices[0].kind | nodes[0].devices[0].kind is \"cdu\"; expected cpu or "
             "cuda; did you mean cpu?");
    ClusterSpec comm = nodes(1);
    comm.set_comm("glo");
    QCOMPARE(messageOf(toCluster(comm, {}, {}).status()),
             "comm | comm is \"glo\"; expected shm, gloo, in-process or nccl; did you mean gloo?");
    ClusterSpec noWorker = nodes(1);
    noWorker.mutable_nodes(0)->add_roles("ps");
    QCOMPARE(messageOf(toCluster(noWorker, {}, {}).status()),
             "nodes | no node has the role worker; expected at least one");
    ClusterSpec both = nodes(1);
    both.mutable_nodes(0)->add_roles("worker");
    both.mutable_nodes(0)->add_roles("ps");
    QCOMPARE(messageOf(toCluster(both, {}, {}).status()),
             "nodes[0].roles | roles is worker and ps; expected one of worker, ps, evaluator and "
             "spare; to give a host several roles, list it as several nodes");
  }

  void nodesOfRolePsAreTheServers() {
    ClusterSpec spec = nodes(4);
    spec.mutable_nodes(0)->add_roles("ps");
    spec.mutable_nodes(0)->add_devices()->set_count(2);
    spec.mutable_nodes(1)->add_roles("chief");
    spec.mutable_nodes(1)->add_roles("worker");
    spec.mutable_nodes(2)->add_roles("evaluator");
    QCOMPARE(evaluatorNode(spec)->name(), std::string("n2"));
    QVERIFY(evaluatorNode(nodes(2)) == nullptr);
    ClusterSpec two = spec;
    two.mutable_nodes(3)->add_roles("evaluator");
    QCOMPARE(messageOf(toCluster(two, {}, {}).status()),
             "nodes[3].roles | n3 is an evaluator, and so is n2; expected one in a cluster");
    spec::v1::StrategySpec strategy;
    strategy.set_kind("parameter-server");
    const Result<cluster::Cluster> served = toCluster(spec, {}, strategy);
    QVERIFY(served.ok());
    QCOMPARE(served->mesh.text(), std::string("data 2, servers 2"));
    std::string nodesOfRanks;
    for (const cluster::Device& device : served->devices) nodesOfRanks += device.node + " ";
    QCOMPARE(nodesOfRanks, std::string("n1 n3 n0 n0 "));
    QCOMPARE(served->devices[3].index, 1);
    strategy.set_servers(2);
    QVERIFY(toCluster(spec, {}, strategy).ok());
    strategy.set_servers(1);
    QCOMPARE(messageOf(toCluster(spec, {}, strategy).status()),
             "strategy.servers | strategy.servers is 1, and the nodes of role ps have 2 devices; "
             "expected it left out");
    // Without servers they take no part, and without roles servers are the last ranks.
    strategy.set_servers(0);
    strategy.set_kind("mirrored");
    QCOMPARE(toCluster(spec, {}, strategy)->mesh.text(), std::string("data 2"));
    strategy.set_kind("parameter-server");
    QCOMPARE(toCluster(nodes(3), {}, strategy)->mesh.text(), std::string("data 2, servers 1"));
    strategy.set_servers(2);
    QCOMPARE(toCluster(nodes(3), {}, strategy)->mesh.text(), std::string("data 1, servers 2"));
  }
};

QTEST_GUILESS_MAIN(SpecsTest)
#include "specs_test.moc"
