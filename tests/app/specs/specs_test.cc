#include <QTemporaryDir>
#include <QTest>
#include <functional>
#include <map>
#include <random>

#include "app/specs/cluster_edits.h"
#include "app/specs/spec_text.h"
#include "engine/base/file.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/paths.h"

using namespace lockstep;
using namespace lockstep::app;

namespace {

const std::string kRun =
    "version: 1\n"
    "model:\n"
    "  name: m\n"
    "  input: {shape: [28, 28, 1]}  # one picture\n"
    "  layers:\n"
    "    # the first\n"
    "    - conv2d: {filters: 32, kernel: 3, activation: relu}\n"
    "    - max_pool2d: {size: 2}\n"
    "    - flatten\n"
    "    - dense:\n"
    "        units: 10  # classes\n"
    "  classes: 10\n"
    "data:\n"
    "  train: {images: a.gz, labels: b.gz}\n"
    "  evaluate: {images: c.gz, labels: d.gz}\n"
    "training:\n"
    "  batch: 64\n"
    "  optimizer: {kind: adam}\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) qFatal("no '%s' in the text", from.c_str());
  return text.replace(at, from.size(), to);
}

QString firstProblem(const std::string& text, SpecKind kind) {
  const SpecText spec = SpecText::parse(text, "f.yaml", kind);
  return spec.problems().empty() ? ""
                                 : QString::fromStdString(spec.problems().front().error().what);
}

std::string edited(const std::string& text, const char* path, const char* value) {
  const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
  const auto edit = spec.edit(path, value);
  if (!edit.ok()) return "error: " + edit.error().text();
  return edit->applied(text);
}

}  // namespace

class SpecsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void mistakes_data() {
    QTest::addColumn<QString>("from");
    QTest::addColumn<QString>("to");
    QTest::addColumn<QString>("message");
    const auto row = [](const char* name, const char* from, const char* to, const char* message) {
      QTest::newRow(name) << QString(from) << QString(to) << QString(message);
    };
    row("misspelt section", "training:", "trainnig:",
        "f.yaml:16:1: unknown field 'trainnig', did you mean 'training'?");
    row("misspelt field", "optimizer:", "optimiser:",
        "f.yaml:18:3: unknown field 'optimiser' in training, did you mean 'optimizer'?");
    row("unknown field", "batch: 64", "batch: 64\n  colour: red",
        "f.yaml:18:3: unknown field 'colour' in training, expected the fields batch, epochs, "
        "max_steps, seed, optimizer, precision, schedule, checkpoint, no_shuffle, backend, "
        "evaluate_batch, unpinned, loss_scale, on_nonfinite, watch, activations, freeze");
    row("wrong type", "batch: 64", "batch: many",
        "f.yaml:17:10: 'batch' is 'many', expected a whole number, at least 1");
    row("long", "batch: 64", "batch: 一二三四五六七八九十一二三四五",
        "f.yaml:17:10: 'batch' is '一二三四五六七八九十一二三…', expected a whole number, at least "
        "1");
    row("zero", "batch: 64", "batch: 0",
        "f.yaml:17:10: 'batch' is '0', expected a whole number, at least 1");
    row("fraction", "batch: 64", "batch: 6.4",
        "f.yaml:17:10: 'batch' is '6.4', expected a whole number, at least 1");
    row("quoted number", "batch: 64", "batch: \"64\"",
        "f.yaml:17:10: 'batch' is '64', expected a whole number, at least 1");
    row("list for number", "batch: 64", "batch: [64]",
        "f.yaml:17:10: 'batch' is a list, expected a whole number, at least 1");
    row("empty", "batch: 64",
        "batch:", "f.yaml:17:9: 'batch' is empty, expected a whole number, at least 1");
    row("choice", "kind: adam", "kind: adma",
        "f.yaml:18:21: 'kind' is 'adma', expected one of sgd, adam, adagrad (did you mean "
        "'adam'?)");
    row("byte size", "version: 1", "version: 1\nstrategy: {bucket_bytes: 4 Mb}",
        "f.yaml:2:26: 'bucket_bytes' is '4 Mb', expected bytes, as 65536 or 256MiB");
    row("byte size of zero", "version: 1", "version: 1\nworkload: {code: {max_bytes: 0MiB}}",
        "f.yaml:2:30: 'max_bytes' is '0MiB', expected bytes, as 65536 or 256MiB");
    row("boolean", "batch: 64", "no_shuffle: yes",
        "f.yaml:17:15: 'no_shuffle' is 'yes', expected true or false");
    row("list item", "[28, 28, 1]", "[28, x, 1]",
        "f.yaml:4:23: 'shape[1]' is 'x', expected a whole number");
    row("unknown layer", "max_pool2d: {size: 2}", "maxpool2d: {size: 2}",
        "f.yaml:8:7: unknown field 'maxpool2d' in model.layers[1], did you mean 'max_pool2d'?");
    row("layer without kind", "- flatten", "- name: x",
        "f.yaml:9:7: a layer without a kind, expected one of dense, conv2d, max_pool2d, flatten, "
        "activation, add, embedding, layer_norm, transformer, batch_norm, global_average_pool, "
        "concat, dropout");
    row("layer of two kinds", "max_pool2d: {size: 2}", "max_pool2d: {size: 2}\n      add: {}",
        "f.yaml:9:7: a layer of two kinds, expected one of dense, conv2d, max_pool2d, flatten, "
        "activation, add, embedding, layer_norm, transformer, batch_norm, global_average_pool, "
        "concat, dropout");
    row("group for list", "[28, 28, 1]", "28",
        "f.yaml:4:18: 'shape' is '28', expected a list: [a, b]");
    row("twice", "batch: 64", "batch: 64\n  batch: 32",
        "f.yaml:18:3: 'batch' is given twice, expected it once (first in line 17)");
    row("anchor", "batch: 64", "batch: &x 64",
        "f.yaml:17:10: an anchor (&), expected the value itself: anchors and aliases are not used "
        "here");
    row("tag", "batch: 64", "batch: !!int 64",
        "f.yaml:17:10: a tag (tag:yaml.org,2002:int), expected a plain value: tags are not used "
        "here");
    row("second document",
        "data:", "---\ndata:", "f.yaml:13:1: a second document, expected one document only");
    row("version", "version: 1", "version: 2",
        "f.yaml:1:10: version 2 of this format is not known, expected 1");
  }
  void mistakes() {
    QFETCH(QString, from);
    QFETCH(QString, to);
    QFETCH(QString, message);
    QCOMPARE(firstProblem(replaced(kRun, from.toStdString(), to.toStdString()), SpecKind::kRun),
             message);
  }

  void meaning() {
    QCOMPARE(firstProblem(kRun, SpecKind::kRun), QString());
    const QString kernel = firstProblem(replaced(kRun, "kernel: 3", "kernel: 30"), SpecKind::kRun);
    QVERIFY2(kernel.startsWith("f.yaml:7:37: "), qPrintable(kernel));
    QVERIFY2(kernel.contains("expected"), qPrintable(kernel));
    const QString units = firstProblem(replaced(kRun, "units: 10", "units: 0"), SpecKind::kRun);
    QVERIFY2(units.startsWith("f.yaml:11:16: "), qPrintable(units));
    const QString batch = firstProblem(replaced(kRun, "batch: 64", "batch: -3"), SpecKind::kRun);
    QVERIFY2(batch.startsWith("f.yaml:17:10: "), qPrintable(batch));
    const QString data = firstProblem(replaced(kRun, "images: c.gz, ", ""), SpecKind::kRun);
    QVERIFY2(data.startsWith("f.yaml:15:"), qPrintable(data));
    // Which of the fields of that name is missing, and that it is no mistake but a gap.
    QVERIFY2(data.contains(": data.evaluate.images: images is missing"), qPrintable(data));
    const auto missing = [](const std::string& text, SpecKind kind) {
      const SpecText spec = SpecText::parse(text, "f.yaml", kind);
      return !spec.problems().empty() && spec.problems().front().missing;
    };
    QVERIFY(missing(replaced(kRun, "images: c.gz, ", ""), SpecKind::kRun));
    QVERIFY(missing("version: 1\n", SpecKind::kRun));
    QVERIFY(missing("version: 1\nname: c\nnodes: []\n", SpecKind::kCluster));
    QVERIFY(!missing(replaced(kRun, "units: 10", "units: 0"), SpecKind::kRun));
  }

  // A model made of nothing but edits of fields and lists, as the form makes it, reads as one
  // written by hand.
  void growsFromNothing() {
    std::string text;
    const auto set = [&](const char* path, const char* value) { text = edited(text, path, value); };
    const auto add = [&](const char* list, const char* yaml) {
      const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
      const auto edit = spec.insertItem(list, 1000, yaml);
      QVERIFY2(edit.ok(), edit.ok() ? "" : edit.error().text().c_str());
      text = edit->applied(text);
    };
    set("version", "1");
    set("model.name", "gpt");
    set("model.input.shape", "64");
    set("model.input.vocabulary", "256");
    for (const auto& kind : {"embedding", "transformer", "layer_norm", "dense"}) {
      for (const LayerKind& known : SpecText::layerKinds()) {
        if (known.field.name == kind) add("model.layers", known.yaml.c_str());
      }
    }
    set("model.layers[3].dense.units", "256");
    set("model.layers[3].dense.activation", "");
    set("model.layers[3].dense.tied", "embedding1");
    set("model.loss", "cross-entropy");
    set("data.train.text", "/usr/share/common-licenses/GPL-3");
    set("data.train.to", "0.9");
    set("data.evaluate.text", "/usr/share/common-licenses/GPL-3");
    set("data.evaluate.from", "0.9");
    set("training.batch", "12");
    set("training.max_steps", "100");
    set("training.optimizer.kind", "adam");
    set("training.schedule.kind", "cosine");
    set("training.schedule.warmup_steps", "10");
    set("strategy.kind", "placement");
    const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
    QVERIFY2(spec.ok(), qPrintable(firstProblem(text, SpecKind::kRun) + "\n" + text.c_str()));
    set("strategy.pins", SpecText::pins(spec.layerNames(), {0, 0, 1, 1}).c_str());
    QCOMPARE(QString::fromStdString(text),
             QString("version: 1\n"
                     "model:\n"
                     "  name: gpt\n"
                     "  input: {shape: [64], vocabulary: 256}\n"
                     "  layers:\n"
                     "    - embedding: {units: 128}\n"
                     "    - transformer: {heads: 4}\n"
                     "    - layer_norm: {}\n"
                     "    - dense: {units: 256, tied: embedding1}\n"
                     "  loss: cross-entropy\n"
                     "data:\n"
                     "  train:\n"
                     "    text: /usr/share/common-licenses/GPL-3\n"
                     "    to: 0.9\n"
                     "  evaluate:\n"
                     "    text: /usr/share/common-licenses/GPL-3\n"
                     "    from: 0.9\n"
                     "training:\n"
                     "  batch: 12\n"
                     "  max_steps: 100\n"
                     "  optimizer: {kind: adam}\n"
                     "  schedule: {kind: cosine, warmup_steps: 10}\n"
                     "strategy:\n"
                     "  kind: placement\n"
                     "  pins: [{layer: embedding1, stage: 0}, {layer: norm1, stage: 1}]\n"));
    const SpecText pinned = SpecText::parse(text, "f.yaml", SpecKind::kRun);
    QCOMPARE(pinned.layerStages(), (std::vector<int>{0, 0, 1, 1}));
  }

  // From the list in brackets that a new cluster begins with.
  void nodesAreAddedOneByOne() {
    std::string text = "version: 1\nname: lab\nnodes: []\n";
    for (const char* node :
         {"{name: \"n1\", ssh: {host: \"n1.lab\", user: \"ann\"}, address: \"10.0.0.1\"}",
          "{name: \"n2\", devices: [{kind: cuda, count: 4}]}"}) {
      const SpecText cluster = SpecText::parse(text, "lab.yaml", SpecKind::kCluster);
      const auto edit = cluster.insertItem("nodes", cluster.count("nodes"), node);
      QVERIFY(edit.ok());
      text = edit->applied(text);
    }
    QCOMPARE(QString::fromStdString(text), QString("version: 1\nname: lab\n"
                                                   "nodes:\n"
                                                   "  - name: n1\n"
                                                   "    ssh: {host: n1.lab, user: ann}\n"
                                                   "    address: 10.0.0.1\n"
                                                   "  - name: n2\n"
                                                   "    devices: [{kind: cuda, count: 4}]\n"));
  }

  // Seeded edits of any field of any message, in any order, from texts in any style: what was
  // written is there, nothing else has changed, and no line the form wrote is longer than a line.
  void anyFieldCanBeEdited() {
    std::mt19937 random(5);
    std::vector<std::string> paths;
    const std::function<void(const std::string&)> walk = [&](const std::string& path) {
      for (const FieldInfo& field : SpecText::fields(SpecKind::kRun, path)) {
        const std::string below = path.empty() ? field.name : path + "." + field.name;
        if (field.type == FieldType::kMessage) walk(below);
        if (field.type == FieldType::kText || field.type == FieldType::kInteger ||
            field.type == FieldType::kIntegerList || field.type == FieldType::kTextList) {
          paths.push_back(below);
        }
      }
    };
    walk("");
    QVERIFY(paths.size() > 40);
    for (int round = 0; round < 120; ++round) {
      std::string text = round % 3 == 0   ? ""
                         : round % 3 == 1 ? kRun
                                          : "version: 1\nmodel: {}\ntraining:\n";
      std::map<std::string, std::string> wanted;
      for (int step = 0; step < 25; ++step) {
        const std::string& path = paths[random() % paths.size()];
        const bool number = round % 2 == 0;
        const std::string value =
            number ? std::to_string(random() % 1000) : "word" + std::to_string(random() % 100);
        text = edited(text, path.c_str(), value.c_str());
        wanted[path] = value;
        const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
        QVERIFY2(spec.readable(), text.c_str());
        for (const auto& [field, was] : wanted) {
          QVERIFY2(spec.value(field).value_or("") == was,
                   fmt::format("{} is not {} after {} in\n{}", field, was, path, text).c_str());
        }
        std::size_t begin = 0;
        for (std::size_t end = text.find('\n'); end != std::string::npos;
             begin = end + 1, end = text.find('\n', begin)) {
          QVERIFY2(end - begin <= 100, text.c_str());
        }
      }
    }
  }

  // What a field that is left out means is known of every one.
  void everyFieldSaysWhatItIsWithoutAValue() {
    std::string text = kRun;
    QStringList silent;
    const std::function<void(const SpecText&, const std::string&)> walk =
        [&](const SpecText& spec, const std::string& path) {
          for (const FieldInfo& field : SpecText::fields(spec.kind(), path)) {
            const std::string below = path.empty() ? field.name : path + "." + field.name;
            if (field.type == FieldType::kMessage || field.type == FieldType::kMessageList) {
              walk(spec, field.type == FieldType::kMessage ? below : below + "[0]");
            } else if (field.type != FieldType::kBoolean && field.type != FieldType::kMap &&
                       field.unset.empty() && !field.needed && !spec.defaultOf(below)) {
              silent << QString::fromStdString(below);
            }
          }
        };
    walk(SpecText::parse(text, "f.yaml", SpecKind::kRun), "");
    // nothing yet, and the defaults are known
    walk(SpecText::parse("", "f.yaml", SpecKind::kRun), "");
    walk(SpecText::parse("", "f.yaml", SpecKind::kCluster), "");
    QVERIFY2(silent.isEmpty(), qPrintable(silent.join('\n')));
    const SpecText spec = SpecText::parse(kRun, "f.yaml", SpecKind::kRun);
    QCOMPARE(spec.defaultOf("training.optimizer.learning_rate").value_or(""), std::string("0.001"));
    QCOMPARE(spec.defaultOf("model.layers[0].name").value_or(""), std::string("conv1"));
    QCOMPARE(spec.defaultOf("model.layers[1].max_pool2d.stride").value_or(""), std::string("2"));
    QCOMPARE(SpecText::parse("", "", SpecKind::kRun).defaultOf("training.batch").value_or(""),
             std::string("64"));
  }

  void everyLayerKindCanBeAdded() {
    const auto kinds = SpecText::layerKinds();
    QCOMPARE(static_cast<int>(kinds.size()),
             spec::v1::LayerSpec::descriptor()->FindOneofByName("kind")->field_count());
    for (const LayerKind& kind : kinds) {
      QVERIFY(!kind.field.help.empty());
      const SpecText spec = SpecText::parse(
          "version: 1\nmodel:\n  layers:\n    - " + kind.yaml + "\n", "f", SpecKind::kRun);
      QCOMPARE(QString::fromStdString(spec.layerKind("model.layers[0]")),
               QString::fromStdString(kind.field.name));
      // Nothing about the layer's own fields is wrong: what it may say is about its place.
      for (const SpecProblem& problem : spec.problems())
        QVERIFY2(!problem.path.starts_with("model.layers[0]." + kind.field.name),
                 problem.message().text().c_str());
    }
  }

  void tooLargeOrDeep() {
    QVERIFY(firstProblem(std::string(1100000, ' '), SpecKind::kRun).contains("at most 1 MiB"));
    QVERIFY(firstProblem("model: " + std::string(5000, '['), SpecKind::kRun).contains("32 levels"));
    std::string deep;
    for (int i = 0; i < 40; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    QVERIFY(firstProblem(deep, SpecKind::kRun).contains("32 levels"));
  }

  void marksAndValues() {
    const SpecText spec = SpecText::parse(kRun, "f.yaml", SpecKind::kRun);
    QVERIFY(spec.ok());
    const auto mark = spec.mark("model.layers[0].conv2d.kernel");
    QVERIFY(mark.has_value());
    QCOMPARE(mark->line, 7);
    QCOMPARE(kRun.substr(mark->offset, mark->length), std::string("3"));
    QCOMPARE(*spec.value("training.batch"), std::string("64"));
    QCOMPARE(spec.count("model.layers"), 4);
    QCOMPARE(spec.layerKind("model.layers[2]"), std::string("flatten"));
    QCOMPARE(spec.layerKind("model.layers[3]"), std::string("dense"));
    QCOMPARE(spec.run()->model().layers(0).conv2d().filters(), std::int64_t{32});
    QVERIFY(!spec.mark("model.layers[7]").has_value());
  }

  void edits() {
    QCOMPARE(edited(kRun, "training.batch", "96"), replaced(kRun, "batch: 64", "batch: 96"));
    QCOMPARE(edited(kRun, "model.layers[3].dense.units", "12"),
             replaced(kRun, "units: 10 ", "units: 12 "));
    QCOMPARE(
        edited(kRun, "training.epochs", "3"),
        replaced(kRun, "  optimizer: {kind: adam}\n", "  optimizer: {kind: adam}\n  epochs: 3\n"));
    QCOMPARE(edited(kRun, "training.optimizer.learning_rate", "0.1"),
             replaced(kRun, "{kind: adam}", "{kind: adam, learning_rate: 0.1}"));
    QCOMPARE(edited(kRun, "model.layers[0].conv2d.activation", ""),
             replaced(kRun, ", activation: relu", ""));
    QCOMPARE(edited(kRun, "model.layers[0].conv2d.filters", ""),
             replaced(kRun, "filters: 32, ", ""));
    QCOMPARE(edited(kRun, "strategy.kind", "mirrored"), kRun + "strategy:\n  kind: mirrored\n");
    QCOMPARE(edited(kRun, "model.name", "1e5"), replaced(kRun, "name: m", "name: \"1e5\""));
    QCOMPARE(edited(kRun, "training.batch", ""), replaced(kRun, "  batch: 64\n", ""));
    QCOMPARE(edited(kRun, "training.schedule.kind", "constant"),
             replaced(kRun, "{kind: adam}\n", "{kind: adam}\n  schedule: {kind: constant}\n"));
    QVERIFY(edited(kRun, "training.colour", "x").rfind("error", 0) == 0);
    // The empty text grows into a spec.
    QCOMPARE(edited("", "training.batch", "8"), std::string("training:\n  batch: 8\n"));
    QCOMPARE(edited("version: 1\nmodel:\n", "model.input.shape", "28x28x1"),
             std::string("version: 1\nmodel:\n  input: {shape: [28, 28, 1]}\n"));
    QCOMPARE(edited(kRun, "model.input.shape", "1, 2"), replaced(kRun, "[28, 28, 1]", "[1, 2]"));
    QCOMPARE(edited(kRun, "data.augment.flip", "true"),
             replaced(kRun, "  evaluate: {images: c.gz, labels: d.gz}\n",
                      "  evaluate: {images: c.gz, labels: d.gz}\n  augment: {flip: true}\n"));
    QCOMPARE(edited(kRun, "strategy.pins", "[{layer: conv1, stage: 0}, {layer: dense1, stage: 1}]"),
             kRun + "strategy:\n  pins: [{layer: conv1, stage: 0}, {layer: dense1, stage: 1}]\n");
    QCOMPARE(edited(kRun, "model.layers[2].name", "flat"),
             replaced(kRun, "- flatten\n", "- {flatten: {}, name: flat}\n"));
    QCOMPARE(edited(replaced(kRun, "max_pool2d: {size: 2}", "max_pool2d"),
                    "model.layers[1].max_pool2d.size", "2"),
             replaced(kRun, "max_pool2d: {size: 2}", "{max_pool2d: {size: 2}}"));
    QCOMPARE(edited(kRun, "model.layers[1].inputs", "input, conv1"),
             replaced(kRun, "- max_pool2d: {size: 2}\n",
                      "- max_pool2d: {size: 2}\n      inputs: [input, conv1]\n"));
  }

  // Whatever is typed into a text field comes back as it was typed.
  void editsKeepTheirValue() {
    for (const char* value :
         {"a: b", "- x",         "#1",         "it's", "\"q\"",    "true",     "null",
          "~",    "Null",        "NULL",       "1e5",  " padded ", "日本",     "a,b",
          "{x}",  "[y]",         "&z",         "*z",   "!t",       "%d",       "@h",
          "`c`",  "back\\slash", "two\nlines", "?",    "-",        "x # y",    "|",
          ">",    "0x10",        "=",          "<<",   "a\x7f",    "\xc2\x9f", "b\xc2\x85 c"}) {
      for (const char* path : {"model.name", "data.train.images", "model.layers[0].name",
                               "model.layers[2].name", "model.layers[3].name", "strategy.kind"}) {
        const SpecText spec = SpecText::parse(edited(kRun, path, value), "f.yaml", SpecKind::kRun);
        QVERIFY2(spec.readable(), spec.text().c_str());
        QVERIFY2(spec.value(path).has_value(), spec.text().c_str());
        QCOMPARE(QString::fromStdString(*spec.value(path)), QString(value));
        // And again, over what was written.
        const auto again = spec.edit(path, "plain");
        QVERIFY2(again.ok(), spec.text().c_str());
        const SpecText plain =
            SpecText::parse(again->applied(spec.text()), "f.yaml", SpecKind::kRun);
        QCOMPARE(*plain.value(path), std::string("plain"));
      }
    }
  }

  // Fields are added after a text of several lines, not within it.
  void textsOfSeveralLinesStayWhole() {
    for (const char* text : {"|\n        cd ops\n        make\n        cd ..\n        cd ..\n",
                             ">-  # folded\n        cd ops;\n        cd ..;\n\n        cd ..\n",
                             "cd ops;\n        cd ..;\n        cd ..;\n        cd ..\n"}) {
      const std::string yaml = fmt::format("workload:\n  command: [a]\n  setup:\n    - {}", text);
      const SpecText before = SpecText::parse(yaml, "f.yaml", SpecKind::kRun);
      QVERIFY2(before.ok(), yaml.c_str());
      const SpecText after =
          SpecText::parse(edited(yaml, "workload.launcher", "single"), "f.yaml", SpecKind::kRun);
      QVERIFY2(after.ok(), after.text().c_str());
      QVERIFY2(after.text().starts_with(yaml), after.text().c_str());
      QCOMPARE(after.value("workload.launcher").value_or(""), std::string("single"));
      QVERIFY(after.value("workload.setup[0]") == before.value("workload.setup[0]"));
    }
  }

  // Some editors begin a file with a mark of UTF-8: it stays, and moves nothing.
  void aMarkBeforeTheText() {
    const std::string marked = "\xef\xbb\xbf" + kRun;
    const SpecText spec = SpecText::parse(marked, "f.yaml", SpecKind::kRun);
    QVERIFY(spec.ok());
    const auto place = spec.mark("training.batch");
    QCOMPARE(marked.substr(place->offset, place->length), std::string("64"));
    for (const char* value : {"96", ""})
      QCOMPARE(edited(marked, "training.batch", value),
               "\xef\xbb\xbf" + edited(kRun, "training.batch", value));
  }

  void clusters_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("begin");
    const auto row = [](const char* name, const char* text, const char* begin) {
      QTest::newRow(name) << QString(text) << QString(begin);
    };
    row("good", "nodes:\n  - name: a\n", "");
    row("ssh", "nodes:\n  - name: a\n    ssh: n1\n",
        "f.yaml:3:10: 'ssh' is 'n1', expected the fields host, user, port");
    row("port", "nodes:\n  - name: a\n    ssh: {host: n1, port: ssh}\n",
        "f.yaml:3:27: 'port' is 'ssh', expected a whole number");
    row("role", "nodes:\n  - name: a\n    roles: [wroker]\n",
        "f.yaml:3:13: 'roles[0]' is 'wroker', expected one of worker, ps, chief, evaluator, "
        "spare (did you mean 'worker'?)");
    row("comm", "comm: glue\nnodes:\n  - name: a\n",
        "f.yaml:1:7: 'comm' is 'glue', expected one of");
    row("twice the name", "nodes:\n  - name: a\n  - name: a\n", "f.yaml:3:");
    row("no nodes", "name: x\n", "f.yaml:");
    row("list", "- a\n",
        "f.yaml:1:1: the file is a list, expected the fields version, name, nodes");
  }
  void clusters() {
    QFETCH(QString, text);
    QFETCH(QString, begin);
    const QString problem = firstProblem(text.toStdString(), SpecKind::kCluster);
    QVERIFY2(begin.isEmpty() ? problem.isEmpty() : problem.startsWith(begin), qPrintable(problem));
  }

  void listEdits() {
    const SpecText spec = SpecText::parse(kRun, "f.yaml", SpecKind::kRun);
    const auto apply = [&](Result<TextEdit> edit) {
      return edit.ok() ? edit->applied(kRun) : edit.error().text();
    };
    QCOMPARE(apply(spec.insertItem("model.layers", 4, "dense: {units: 5}")),
             replaced(kRun, "# classes\n", "# classes\n    - dense: {units: 5}\n"));
    QCOMPARE(apply(spec.insertItem("model.layers", 1, "dense: {units: 5}")),
             replaced(kRun, "    - max", "    - dense: {units: 5}\n    - max"));
    QCOMPARE(apply(spec.removeItem("model.layers", 1)),
             replaced(kRun, "    - max_pool2d: {size: 2}\n", ""));
    QCOMPARE(apply(spec.moveItem("model.layers", 1, 2)),
             replaced(kRun, "    - max_pool2d: {size: 2}\n    - flatten\n",
                      "    - flatten\n    - max_pool2d: {size: 2}\n"));
    QCOMPARE(apply(spec.moveItem("model.input.shape", 0, 2)),
             replaced(kRun, "[28, 28, 1]", "[28, 1, 28]"));
    // A comment may stand between a dash and its item.
    const std::string noted = "nodes:\n  - # rack-1\n    name: a\n";
    const SpecText racks = SpecText::parse(noted, "c.yaml", SpecKind::kCluster);
    QCOMPARE(racks.insertItem("nodes", 1, "name: b")->applied(noted), noted + "  - name: b\n");
    QCOMPARE(racks.removeItem("nodes", 0)->applied(noted), std::string("nodes:\n  []\n"));
    // Every edit leaves a text that reads as YAML and has what was asked for.
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        const std::string text = apply(spec.moveItem("model.layers", from, to));
        const SpecText moved = SpecText::parse(text, "f.yaml", SpecKind::kRun);
        QVERIFY2(moved.readable(), text.c_str());
        QCOMPARE(moved.layerKind("model.layers[" + std::to_string(to) + "]"),
                 spec.layerKind("model.layers[" + std::to_string(from) + "]"));
      }
    }
  }

  void fields() {
    const auto training = SpecText::fields(SpecKind::kRun, "training");
    QCOMPARE(training.front().name, std::string("batch"));
    QCOMPARE(training.front().type, FieldType::kInteger);
    const auto conv = SpecText::fields(SpecKind::kRun, "model.layers[3].conv2d");
    QCOMPARE(conv.size(), std::size_t{6});
    QVERIFY(SpecText::fields(SpecKind::kCluster, "nodes[0].data").empty());
    // Every field has a line of help.
    for (const char* path : {"training", "training.optimizer", "training.loss_scale",
                             "model.layers[].dense", "model.layers[].batch_norm", "data.augment"}) {
      for (const auto& field : SpecText::fields(SpecKind::kRun, path)) {
        if (field.type == FieldType::kMessage) continue;
        QVERIFY2(!field.help.empty(), field.name.c_str());
      }
    }
  }

  void yamlRoundTrip() {
    for (const char* name : {"fashion-mlp.yaml", "fashion-cnn.yaml", "fashion-resnet.yaml",
                             "gpt-tiny.yaml", "gpt-small.yaml", "ctr.yaml"}) {
      const auto loaded = loadRunSpec(lockstep::test::sourcePath("resources/examples/") + name);
      QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
      const SpecText again = SpecText::parse(toYaml(*loaded->spec), name, SpecKind::kRun);
      QVERIFY2(again.ok(), toYaml(*loaded->spec).c_str());
      QCOMPARE(again.run()->SerializeAsString(), loaded->spec->SerializeAsString());
    }
    const auto cluster =
        loadClusterSpec(lockstep::test::sourcePath("resources/examples/local-3.yaml"));
    QVERIFY2(cluster.ok(), cluster.ok() ? "" : cluster.error().text().c_str());
    QCOMPARE(cluster->spec->nodes_size(), 3);
    const SpecText again = SpecText::parse(toYaml(*cluster->spec), "local-3", SpecKind::kCluster);
    QVERIFY(again.ok());
    QCOMPARE(again.cluster()->SerializeAsString(), cluster->spec->SerializeAsString());
    const auto gpus =
        loadClusterSpec(lockstep::test::sourcePath("resources/examples/cluster-gpus.yaml"));
    QVERIFY2(gpus.ok(), gpus.ok() ? "" : gpus.error().text().c_str());
    const auto devices = specs::toCluster(*gpus->spec, {}, {});
    QVERIFY2(devices.ok(), devices.ok() ? "" : devices.error().text().c_str());
    QCOMPARE(devices->devices.size(), std::size_t{8});
    QCOMPARE(devices->link.kind, std::string("nccl"));
    QCOMPARE(localCluster(3, "/h", "shm").spec->nodes_size(), 1);
    QCOMPARE(localCluster(3, "/h", "").spec->nodes_size(), 3);
  }

  // Of fields that were taken for another, or for nothing.
  void fieldsThatWouldBeIgnored() {
    const std::string examples = lockstep::test::sourcePath("resources/examples/");
    const auto refused = [&](const char* example, const std::string& set) {
      const auto spec = loadRunSpec(examples + example, {set});
      return spec.ok() ? std::string() : spec.error().text();
    };
    // What the path would be without its mistake is not taken for it.
    for (const char* set : {"training..batch=3", ".training.batch=3", "training.batch.=3"})
      QCOMPARE(refused("fashion-mlp.yaml", set),
               fmt::format("--set {}: '{}' is not the path of a field (did you mean "
                           "'training.batch'?)",
                           set, std::string(set).substr(0, std::string(set).find('='))));
    QVERIFY(!refused("fashion-mlp.yaml", "model.layers[0=3").empty());
    // What --set sets is not in the file.
    const std::string negative = refused("fashion-mlp.yaml", "training.batch=-5");
    QVERIFY2(negative.starts_with("--set training.batch=-5: training.batch is -5"),
             negative.c_str());
    for (const char* part : {"data.train.from=0.5", "data.train.to=0.01", "data.train.to=-1",
                             "data.evaluate.to=1e308"})
      QVERIFY2(
          refused("fashion-mlp.yaml", part)
                  .find("only texts, tokens and tables can be used in part") != std::string::npos,
          part);
    for (const char* size : {"-1", "-5", "-2147483649"}) {
      const std::string text =
          refused("gpt-tiny.yaml", std::string("model.layers[1].transformer.feed_forward=") + size);
      QVERIFY2(text.find(std::string("feed_forward is ") + size) != std::string::npos,
               text.c_str());
    }
  }

  // The warm-up is what is wrong with a short run, and what is advised leaves it one.
  void aShortRunHasAShortWarmup() {
    const std::string gpt = lockstep::test::sourcePath("resources/examples/gpt-tiny.yaml");
    for (const int steps : {1, 5, 50, 99, 100, 101, 500}) {
      const std::string most = fmt::format("training.max_steps={}", steps);
      const auto loaded = loadRunSpec(gpt, {most});
      QCOMPARE(loaded.ok(), steps > 100);
      if (loaded.ok()) continue;
      QVERIFY2(loaded.error().what.text().find(fmt::format(
                   "the warm-up of 100 steps does not end before training.max_steps, {}", steps)) !=
                   std::string::npos,
               loaded.error().text().c_str());
      QCOMPARE(loaded.error().remedies.size(), std::size_t{2});
      for (const Remedy& remedy : loaded.error().remedies) {
        std::vector<std::string> sets{most};
        for (const auto& [field, value] : remedy) sets.push_back(field + "=" + value);
        QVERIFY2(loadRunSpec(gpt, sets).ok(), sets.back().c_str());
      }
    }
  }

  void otherRanksOnANode() {
    const auto cluster =
        loadClusterSpec(lockstep::test::sourcePath("resources/examples/local-3.yaml"));
    QVERIFY(cluster.ok());
    const auto changed = withRanks(*cluster, {"local2=4"});
    QVERIFY2(changed.ok(), changed.ok() ? "" : changed.error().text().c_str());
    QCOMPARE(changed->spec->nodes(0).devices(0).count(), 1);
    QCOMPARE(changed->spec->nodes(1).devices(0).count(), 4);
    QVERIFY(SpecText::parse(changed->yaml, "changed", SpecKind::kCluster).ok());
    for (const char* wrong : {"local2", "local2=0", "local2=x", "=2", "local9=1"}) {
      QVERIFY2(!withRanks(*cluster, {wrong}).ok(), wrong);
    }
    QCOMPARE(QString::fromStdString(withRanks(*cluster, {"local[3-1]=2"}).error().text()),
             "--ranks local[3-1]=2: [3-1] is no range: 3 is after 1");
  }

  // A cluster of 128 nodes in ten lines; what is wrong stands where it is written.
  void clustersByPattern() {
    const std::string text =
        "version: 1\n"
        "name: big\n"
        "nodes:\n"
        "  - {name: login, roles: [evaluator]}\n"
        "  - name: n[001-128]\n"
        "    ssh: {host: 'n[001-128].big'}\n"
        "    devices: [{kind: cuda, count: 8, model: H100-SXM-80GB}]\n"
        "links:\n"
        "  - {inside: 'n*', kind: nvlink-4}\n"
        "  - {from: 'n*', to: 'n*', kind: ndr, rails: 8}\n";
    const auto whole = completeClusterSpec(text, "big.yaml");
    QVERIFY2(whole.ok(), whole.ok() ? "" : whole.error().text().c_str());
    QCOMPARE(whole->spec->nodes_size(), 129);
    QCOMPARE(whole->spec->nodes(17).name(), std::string("n017"));
    QCOMPARE(whole->spec->nodes(17).ssh().host(), std::string("n017.big"));
    QCOMPARE(specs::toCluster(*whole->spec, {}, {})->devices.size(), std::size_t{1024});
    // As all its nodes it is the same.
    const auto again = completeClusterSpec(toYaml(*whole->spec), "again.yaml");
    QVERIFY2(again.ok(), again.ok() ? "" : again.error().text().c_str());
    QCOMPARE(again->spec->SerializeAsString(), whole->spec->SerializeAsString());
    const SpecText written = SpecText::parse(text, "big.yaml", SpecKind::kCluster);
    QCOMPARE(written.cluster()->nodes_size(), 2);
    QCOMPARE(written.nodeNames("nodes[1].name").size(), std::size_t{128});
    QCOMPARE(written.nodeNames("nodes[1].ssh.host").back(), std::string("n128.big"));
    QVERIFY(written.nodeNames("nodes[0].ssh.host").empty());
    // An error about one of the nodes names the line of all of them.
    const auto located =
        written.locate(withRemedies(Error{.what = "x", .field = "nodes[77].devices[0].kind"},
                                    {{{"nodes[77].devices[0].kind", "cpu"}}}));
    QCOMPARE(located.path, std::string("nodes[1].devices[0].kind"));
    QCOMPARE(located.line, 7);
    QCOMPARE(located.remedies[0][0].field, std::string("nodes[1].devices[0].kind"));
    for (const auto& [from, to, place, what] :
         std::vector<std::tuple<std::string, std::string, std::string, std::string>>{
             {"n[001-128]\n", "n[128-1]\n", "big.yaml:5:11: ", "[128-1] is no range"},
             {"n[001-128].big", "n[001-127].big", "big.yaml:6:17: ", "stands for 127"},
             {"n[001-128]\n", "login\n", "big.yaml:", "n[001-128].big stands for 128"},
             {"inside: 'n*'", "inside: 'm*'", "big.yaml:9:14: ", "no node has a name like m*"},
             {"kind: nvlink-4", "kind: nvlink-9", "big.yaml:9:26: ", "nvlink-9"},
             {"kind: nvlink-4", "kind: hdr", "big.yaml:9:26: ", "hdr links nodes"},
             {"to: 'n*', kind", "to: 'n129', kind", "big.yaml:10:", "there is no node n129"},
             {"rails: 8}\n", "rails: 8}\n  - {from: n001, to: n002}\n",
              "big.yaml:11:", "it never applies"},
             {"model: H100-SXM-80GB", "model: H100", "big.yaml:7:", "H100"},
             {"kind: cuda, count: 8", "kind: cpu, count: 8", "big.yaml:7:", "model is given"},
             {"kind: cuda, count: 8", "kind: cuda, count: 64", "big.yaml:", "4096 ranks"}}) {
      const auto wrong = completeClusterSpec(replaced(text, from, to), "big.yaml");
      QVERIFY2(!wrong.ok(), to.c_str());
      const std::string told = wrong.error().text();
      QVERIFY2(told.starts_with(place) && told.find(what) != std::string::npos, told.c_str());
    }
    const auto fewer = withRanks(*whole, {"n[001-064]=4", "n1*=2"});
    QVERIFY2(fewer.ok(), fewer.ok() ? "" : fewer.error().text().c_str());
    QCOMPARE(fewer->spec->nodes(64).devices(0).count(), 4);
    QCOMPARE(fewer->spec->nodes(65).devices(0).count(), 8);
    QCOMPARE(fewer->spec->nodes(100).devices(0).count(), 2);
    QVERIFY(!withRanks(*whole, {"m*=2"}).ok());
  }

  void requeueIsOverridden() {
    const auto with = [](const char* placement, bool requeue) {
      const auto cluster = completeClusterSpec(
          fmt::format("version: 1\nname: a\nplacement: {{{}}}\n", placement), "a.yaml");
      return withRequeue(*cluster, requeue);
    };
    const auto on = with("kind: slurm", true), off = with("kind: slurm, requeue: true", false);
    QVERIFY(on.ok() && on->spec->placement().requeue());
    QVERIFY(off.ok() && !off->spec->placement().requeue());
    QVERIFY(on->yaml.find("requeue: true") != std::string::npos);
    QCOMPARE(on->spec->nodes_size(), 1);
    QVERIFY(completeClusterSpec(on->yaml, "b.yaml").ok());  // as a resumed run reads it
    QVERIFY(on->written.find("requeue") == std::string::npos);
    const auto lost = with("kind: kubernetes, image: a", true);
    QVERIFY(!lost.ok() && lost.error().text().find("volume_claim is missing") != std::string::npos);
    const auto listed = withRequeue(localCluster(2, "/l", ""), true);
    QVERIFY(!listed.ok() && listed.error().text().find("no scheduler") != std::string::npos);
  }

  void filesAndSets() {
    QTemporaryDir folder;
    const std::string root = folder.path().toStdString();
    const std::string model =
        "name: other\ninput: {shape: [28, 28, 1]}\nlayers:\n  - flatten\n  - dense: {units: 10}\n";
    QVERIFY(writeFileAtomically(root + "/model.yaml", model).ok());
    const std::string spec = "model: model.yaml\n" + kRun.substr(kRun.find("data:"));
    QVERIFY(writeFileAtomically(root + "/run.yaml", spec).ok());
    auto loaded = loadRunSpec(root + "/run.yaml", {"training.batch=96", "model.name=renamed"});
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().text().c_str());
    QCOMPARE(loaded->spec->model().name(), std::string("renamed"));
    QCOMPARE(loaded->spec->training().batch(), std::int64_t{96});
    QCOMPARE(loaded->spec->data().train().images(), root + "/a.gz");
    QCOMPARE(loaded->spec->training().optimizer().kind(), std::string("adam"));

    for (const char* none : {"training.optimizer=%foo", "strategy=---", "training=...",
                             "model.name=# x", "training.batch= "}) {
      const auto refused = loadRunSpec(root + "/run.yaml", {none});
      QVERIFY2(!refused.ok(), none);
      QVERIFY2(refused.error().what.text().find("there is no value") != std::string::npos,
               refused.error().text().c_str());
    }
    for (const char* some : {"model.name='%foo'", "training.optimizer=~", "training.optimizer="})
      QVERIFY2(loadRunSpec(root + "/run.yaml", {some}).ok(), some);
    auto wrong = loadRunSpec(root + "/run.yaml", {"training.bach=96"});
    QVERIFY(!wrong.ok());
    QVERIFY(QString::fromStdString(wrong.error().text()).contains("did you mean 'batch'?"));
    wrong = loadRunSpec(root + "/run.yaml", {"training.batch=x"});
    QVERIFY(QString::fromStdString(wrong.error().text()).contains("expected a whole number"));
    wrong = loadRunSpec(root + "/absent.yaml");
    QCOMPARE(wrong.error().code, Code::kNotFound);

    // A mistake in the model's own file is told there.
    QVERIFY(
        writeFileAtomically(root + "/model.yaml", replaced(model, "units: 10", "units: -1")).ok());
    wrong = loadRunSpec(root + "/run.yaml");
    QVERIFY2(wrong.error().what.text().rfind(root + "/model.yaml:5:", 0) == 0,
             wrong.error().what.text().c_str());

    spec::v1::RunSpec plain;
    QVERIFY(applySet(plain, "training.optimizer.learning_rate=0.5").ok());
    QCOMPARE(plain.training().optimizer().learning_rate(), 0.5);
    QVERIFY(!applySet(plain, "version=1").ok());
  }

  void imports() {
    const auto tf = importTfConfig(
        R"({"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"]},
            "task": {"type": "worker", "index": 0}})",
        "tf");
    QVERIFY2(tf.ok(), tf.ok() ? "" : tf.error().text().c_str());
    SpecText cluster = SpecText::parse(*tf, "tf.yaml", SpecKind::kCluster);
    QVERIFY2(cluster.ok(), cluster.ok() ? "" : cluster.problems().front().error().text().c_str());
    QCOMPARE(cluster.cluster()->nodes_size(), 3);
    const auto hosts = importHostfile("# ours\nn1 slots=2\nn2 slots=4 max_slots=8\n\nn1\n", "h");
    QVERIFY(hosts.ok());
    cluster = SpecText::parse(*hosts, "h.yaml", SpecKind::kCluster);
    QCOMPARE(cluster.cluster()->nodes_size(), 2);
    QCOMPARE(cluster.cluster()->nodes(0).devices(0).count(), 3);
    const auto brackets = importHostfile(std::string(100, '[') + "\n", "h");
    QVERIFY(SpecText::parse(*brackets, "h.yaml", SpecKind::kCluster).readable());
    const auto login = importHostfile("ann@n1.lab slots=2\n", "h");
    cluster = SpecText::parse(*login, "h.yaml", SpecKind::kCluster);
    QCOMPARE(cluster.value("nodes[0].name").value_or(""), std::string("n1.lab"));
    QCOMPARE(cluster.value("nodes[0].ssh.host").value_or(""), std::string("n1.lab"));
    QCOMPARE(cluster.value("nodes[0].ssh.user").value_or(""), std::string("ann"));
    QCOMPARE(cluster.value("nodes[0].address").value_or(""), std::string("n1.lab"));
    QVERIFY(!importHostfile("ann@\n", "h").ok());
    QVERIFY(!importHostfile("n1 slots=x\n", "h").ok());
    QVERIFY(!importTfConfig("{}", "t").ok());
    QVERIFY(importCluster(" \n{\"cluster\": {\"worker\": [\"b:2222\"]}}", "t").ok());
    QVERIFY(importCluster("n1 slots=2\n", "h").ok());
    const std::string mark = "\xef\xbb\xbf";  // of UTF-8, which some editors begin a file with
    cluster =
        SpecText::parse(*importCluster(mark + "n1 slots=2\n", "h"), "h.yaml", SpecKind::kCluster);
    QCOMPARE(cluster.value("nodes[0].ssh.host").value_or(""), std::string("n1"));
    QVERIFY(importCluster(mark + "{\"cluster\": {\"worker\": [\"b:2222\"]}}", "t").ok());
  }

  // One at a time, until none is left; comments stay.
  void nodesComeAndGo() {
    const auto parsed = [](std::string text) {
      return SpecText::parse(std::move(text), "c.yaml", SpecKind::kCluster);
    };
    SpecText cluster = parsed("# ours\n" + newClusterYaml("a \"b\""));
    QCOMPARE(cluster.value("name").value_or(""), std::string("a \"b\""));
    for (const NewNode& node :
         {NewNode{.name = "n1", .host = "ann@n1.lab", .user = "other", .port = 2201},
          NewNode{.name = "here", .gpus = true, .ranks = 2}, NewNode{.name = "n[3-5]", .host = "x"},
          NewNode{.name = "n1", .host = "n1.lab"}}) {
      const auto text = withNode(cluster, node);
      QCOMPARE(text.ok(), node.name == "here" || node.port > 0);
      if (text.ok()) cluster = parsed(*text);
    }
    QVERIFY2(cluster.ok(), cluster.text().c_str());
    QCOMPARE(cluster.cluster()->nodes(0).ssh().user(), std::string("ann"));
    QCOMPARE(cluster.cluster()->nodes(1).devices(0).kind(), std::string("cuda"));
    const auto edit =
        cluster.insertItem("nodes", 2, "{name: \"m[1-3]\", ssh: {host: \"m[1-3].lab\"}}");
    QVERIFY(edit.ok());
    cluster = parsed(edit->applied(cluster.text()));
    for (const char* name : {"m2", "here", "m1", "n1", "m3"}) {
      const auto text = withoutNode(cluster, name);
      QVERIFY2(text.ok(), text.ok() ? "" : text.error().text().c_str());
      cluster = parsed(*text);
      QVERIFY(withoutNode(cluster, name).error().code == Code::kNotFound);
    }
    QVERIFY(cluster.text().starts_with("# ours\n"));
    QVERIFY(allNodeNames(cluster).empty());
  }

  void namesOfHosts() {
    QCOMPARE(nodeNameOf("ann@n1.lab"), std::string("n1"));
    QCOMPARE(nodeNameOf("10.0.0.2"), std::string("10.0.0.2"));
    QCOMPARE(nodeNameOf("fe80::1"), std::string("fe80-1"));
    QVERIFY(isNodeName(nodeNameOf("a_b.c")) && !isNodeName("") && !isNodeName("-a"));
  }

  // Any bytes give problems, never a crash or a hang, and marks stay within the text.
  void mutations() {
    std::mt19937 random(7);
    const std::string pieces =
        "{}[]:,-#&*!|>'\"%@` \n\t\\\xff\x80"
        "a0:";
    for (int i = 0; i < 3000; ++i) {
      std::string text = kRun;
      const int count = 1 + static_cast<int>(random() % 6);
      for (int k = 0; k < count; ++k) {
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text[at] = pieces[random() % pieces.size()];
            break;
          case 1:
            text.erase(at, 1 + random() % 8);
            break;
          case 2:
            text.insert(at, 1 + random() % 3, pieces[random() % pieces.size()]);
            break;
          default:
            text.insert(at, text.substr(random() % text.size(), random() % 20));
        }
        if (text.empty()) text = " ";
      }
      const SpecText spec = SpecText::parse(text, "f.yaml", SpecKind::kRun);
      for (const auto& problem : spec.problems()) {
        QVERIFY(problem.line >= 0);
        QVERIFY(!problem.what.empty());
      }
      for (const char* path : {"model", "model.layers[1]", "training.batch", "data.train.images"}) {
        if (const auto mark = spec.mark(path)) {
          QVERIFY(mark->offset + mark->length <= text.size());
        }
        if (const auto edit = spec.edit(path, "7"); edit.ok()) edit->applied(text);
      }
      if (const auto edit = spec.moveItem("model.layers", 0, 1); edit.ok()) edit->applied(text);
      if (const auto edit = spec.removeItem("model.layers", 0); edit.ok()) edit->applied(text);
    }
  }
};

QTEST_GUILESS_MAIN(SpecsTest)
#include "specs_test.moc"
