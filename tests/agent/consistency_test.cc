// What ranks compare before the first step: every difference is found, and its rank named.
#include <QTest>

#include <cmath>
#include <cstring>

#include "agent/worker/consistency.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

using namespace lockstep;
using namespace lockstep::agent;

namespace {

std::vector<RankFacts> fourEqual() {
  RankFacts facts;
  facts.things = {{"spec", "a"},
                  {"plan", "b"},
                  {"program", "c"},
                  {"library libdnnl.so.2", "d"},
                  {"library libm.so.6", "e"},
                  {"data", "f"}};
  facts.numbers = {{"loss", 2.3}, {"gradient of dense1.weight", 0.5}};
  std::vector<RankFacts> out;
  for (int rank = 0; rank < 4; ++rank) {
    facts.rank = rank;
    facts.node = "n" + std::to_string(rank + 1);
    out.push_back(facts);
    out.back().things.emplace_back(rank < 2 ? "weights of stage 0" : "weights of stage 1",
                                   rank < 2 ? "x" : "y");
  }
  return out;
}

std::string& thingOf(RankFacts& facts, const std::string& name) {
  for (auto& [key, value] : facts.things)
    if (key == name) return value;
  throw std::runtime_error("no " + name);
}

// Samples of noise; `changed` has another first sample.
class Images final : public data::Dataset {
 public:
  explicit Images(bool changed = false) : changed_(changed) {}
  std::int64_t size() const override { return 200; }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    if (field == 1) {
      const auto label = static_cast<std::int32_t>(index % 10);
      std::memcpy(out, &label, sizeof label);
      return;
    }
    for (std::int64_t i = 0; i < 784; ++i)
      out[i] =
          static_cast<std::byte>((index * 31 + i * 7 + (changed_ && index == 0 ? 60 : 0)) % 251);
  }

 private:
  bool changed_;
  std::vector<data::Field> fields_{{"x", DType::kU8, {28, 28, 1}}, {"label", DType::kI32, {}}};
};

spec::v1::RunSpec mlp() {
  spec::v1::RunSpec spec;
  spec.mutable_model()->set_name("mlp");
  for (int extent : {28, 28, 1}) spec.mutable_model()->mutable_input()->add_shape(extent);
  spec.mutable_model()->add_layers()->mutable_flatten();
  auto* hidden = spec.mutable_model()->add_layers()->mutable_dense();
  hidden->set_units(16);
  hidden->set_activation("relu");
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(10);
  spec.mutable_model()->set_classes(10);
  for (auto* files :
       {spec.mutable_data()->mutable_train(), spec.mutable_data()->mutable_evaluate()}) {
    files->set_images("images");
    files->set_labels("labels");
  }
  const Status status = specs::checkAndFill(spec);
  if (!status.ok()) throw std::runtime_error(status.error().text());
  return spec;
}

}  // namespace

class ConsistencyTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void equalRanksAgree() {
    std::vector<std::string> warnings;
    const Status status = compareFacts(fourEqual(), "fp32", warnings);
    QVERIFY2(status.ok(), status.ok() ? "" : status.error().text().c_str());
    QVERIFY(warnings.empty());
  }

  void everyThingIsNamed_data() {
    QTest::addColumn<QString>("thing");
    QTest::addColumn<QString>("advice");
    QTest::newRow("spec") << "spec"
                          << "launch again";
    QTest::newRow("plan") << "plan"
                          << "launch again";
    QTest::newRow("program") << "program"
                             << "deploy";
    QTest::newRow("library") << "library libdnnl.so.2"
                             << "deploy";
    QTest::newRow("data") << "data"
                          << "copy the same data";
    QTest::newRow("weights") << "weights of stage 1"
                             << "memory";
  }
  void everyThingIsNamed() {
    QFETCH(QString, thing);
    QFETCH(QString, advice);
    auto ranks = fourEqual();
    thingOf(ranks[3], thing.toStdString()) = "another";
    std::vector<std::string> warnings;
    const Status status = compareFacts(ranks, "fp32", warnings);
    QVERIFY(!status.ok());
    QCOMPARE(status.error().rank, 3);
    QCOMPARE(status.error().node, std::string("n4"));
    QVERIFY2(status.error().what.text().find(thing.toStdString()) != std::string::npos,
             status.error().text().c_str());
    QVERIFY2(status.error().why.text().find("another") != std::string::npos,
             status.error().text().c_str());
    QVERIFY2(status.error().next.text().find(advice.toStdString()) != std::string::npos,
             status.error().next.text().c_str());
  }

  void theFewAreNamedNotTheMany() {
    auto ranks = fourEqual();
    thingOf(ranks[0], "data") = "another";
    std::vector<std::string> warnings;
    const Status status = compareFacts(ranks, "fp32", warnings);
    QVERIFY(!status.ok());
    QCOMPARE(status.error().rank, 0);
    QCOMPARE(status.error().node, std::string("n1"));
  }

  void theSystemsLibrariesMayDiffer() {
    auto ranks = fourEqual();
    thingOf(ranks[2], "library libm.so.6") = "another";
    std::vector<std::string> warnings;
    QVERIFY(compareFacts(ranks, "fp32", warnings).ok());
    QCOMPARE(warnings.size(), std::size_t{1});
    QVERIFY2(warnings[0].starts_with("node n3 has another libm.so.6"), warnings[0].c_str());
  }

  void computedNumbersAgree() {
    auto ranks = fourEqual();
    std::vector<std::string> warnings;
    ranks[1].numbers[1].second *= 1 + 1e-5;  // another kind of processor
    QVERIFY(compareFacts(ranks, "fp32", warnings).ok());
    ranks[1].numbers[1].second *= 1.01;
    Status status = compareFacts(ranks, "fp32", warnings);
    QVERIFY(!status.ok());
    QCOMPARE(status.error().rank, 1);
    QVERIFY(status.error().what.text().find("gradient of dense1.weight") != std::string::npos);
    // Of 16-bit factors some kinds round more of them.
    QVERIFY(compareFacts(ranks, "bf16", warnings).ok());
    QVERIFY(!compareFacts(ranks, "fp16", warnings).ok());
    ranks[1].numbers[1].second *= 1.01;
    QVERIFY(!compareFacts(ranks, "bf16", warnings).ok());
    ranks = fourEqual();
    ranks[2].numbers[0].second = NAN;
    status = compareFacts(ranks, "fp32", warnings);
    QVERIFY(!status.ok());
    QCOMPARE(status.error().rank, 2);
    ranks = fourEqual();
    ranks[0].numbers[0].second = NAN;
    status = compareFacts(ranks, "fp32", warnings);
    QVERIFY(!status.ok());
    QCOMPARE(status.error().what, std::string("rank 0 differs from rank 1 in its loss"));
    for (RankFacts& one : ranks) one.numbers[0].second = INFINITY;
    status = compareFacts(ranks, "fp32", warnings);
    QVERIFY(!status.ok());
    QVERIFY2(status.error().what.text().find("the loss of the first samples") != std::string::npos,
             status.error().text().c_str());
  }

  void whatIsToldIsRead() {
    RankFacts facts = fourEqual()[2];
    facts.numbers.emplace_back("odd", NAN);
    const auto read = parseFacts(factsText(facts));
    QVERIFY(read.ok());
    QCOMPARE(read->rank, 2);
    QCOMPARE(read->node, std::string("n3"));
    QVERIFY(read->things == facts.things);
    QCOMPARE(read->numbers[0], facts.numbers[0]);
    QVERIFY(std::isnan(read->numbers[2].second));
    QVERIFY(!parseFacts("nonsense").ok());
    QVERIFY(!parseFacts("number\tloss\tmuch\n").ok());
  }

  void librariesHaveBuildIds() {
    const auto libraries = loadedLibraries();
    const auto library = std::find_if(libraries.begin(), libraries.end(), [](const auto& one) {
      return one.first.starts_with("libdnnl");
    });
    QVERIFY(library != libraries.end());
    QVERIFY(library->second.size() >= 16);
  }

  void aSharedMicroBatchShowsOtherData() {
    for (const char* backend : {"reference", "onednn"}) {
      const auto one = sharedMicroBatch(mlp(), Images(), backend, {}),
                 again = sharedMicroBatch(mlp(), Images(), backend, {}),
                 other = sharedMicroBatch(mlp(), Images(true), backend, {});
      QVERIFY2(one.ok(), one.ok() ? "" : one.error().text().c_str());
      QVERIFY(again.ok() && other.ok());
      QCOMPARE(*one, *again);
      QCOMPARE(one->front().first, std::string("loss"));
      QCOMPARE(one->size(), std::size_t{5});
      for (const auto& [name, value] : *one)
        QVERIFY2(std::isfinite(value) && value > 0, name.c_str());
      RankFacts first, second;
      first.rank = 0;
      second.rank = 1;
      first.numbers = *one;
      second.numbers = *other;
      std::vector<std::string> warnings;
      QVERIFY(!compareFacts({first, second}, "fp32", warnings).ok());
    }
  }
};

QTEST_GUILESS_MAIN(ConsistencyTest)
#include "consistency_test.moc"
