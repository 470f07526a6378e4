#include "ui/studio/new_model.h"

#include <QFile>

#include "app/specs/spec_text.h"
#include "engine/base/status.h"

namespace lockstep::ui {

const QVector<ModelTemplate>& modelTemplates() {
  static const QVector<ModelTemplate> kinds{
      {"mlp", "fashion-mlp.yaml", nullptr, "", QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "MLP"),
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel",
                         "Dense layers. Starts with the Fashion-MNIST images.")},
      {"cnn", "fashion-cnn.yaml", nullptr, "", QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "CNN"),
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel",
                         "Convolutions and pooling. Starts with the Fashion-MNIST images.")},
      {"resnet", "fashion-resnet.yaml", nullptr, "",
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "ResNet"),
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel",
                         "Residual blocks with batch norm. Starts with the Fashion-MNIST images.")},
      {"gpt", "gpt-tiny.yaml", "text", "/usr/share/common-licenses/GPL-3",
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "GPT"),
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel",
                         "Transformer blocks that predict the next byte of a text.")},
      {"ctr", "ctr.yaml", "table", "ctr.tsv", QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "CTR"),
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel",
                         "Embedding tables and dense layers that predict clicks.")},
      {"program", "ddp.yaml", nullptr, "",
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "Own program"),
       QT_TRANSLATE_NOOP(
           "lockstep::ui::NewModel",
           "A program in PyTorch, TensorFlow, JAX or anything else, as it is. Expects "
           "train.py beside the new file.")},
      {"empty", nullptr, nullptr, "", QT_TRANSLATE_NOOP("lockstep::ui::NewModel", "Empty"),
       QT_TRANSLATE_NOOP("lockstep::ui::NewModel",
                         "No layers: build the model in the form or as text.")},
  };
  return kinds;
}

QString newModelText(const ModelTemplate& kind, const QString& name, const QString& data) {
  std::string text = "version: 1\n";
  if (kind.file) {
    QFile file(QString(":/templates/") + kind.file);
    LOCKSTEP_CHECK(file.open(QIODevice::ReadOnly), "the templates are compiled in");
    text = file.readAll().toStdString();
    // of the example, not of this model
    while (text.starts_with('#')) text.erase(0, text.find('\n') + 1);
  }
  const auto set = [&](const char* path, const QString& value) {
    const auto spec = app::SpecText::parse(text, {}, app::SpecKind::kRun);
    const auto edit = spec.edit(path, value.toStdString());
    LOCKSTEP_CHECK(edit.ok(), "a template without {}", path);
    text = edit->applied(text);
  };
  if (qstrcmp(kind.id, "program") == 0) {
    set("workload.name", name);
    set("workload.code", {});  // the new file's folder
    return QString::fromStdString(text);
  }
  set("model.name", name);
  if (kind.dataField) {
    for (const char* part : {"train", "evaluate"}) {
      set(qPrintable(QString("data.%1.%2").arg(QLatin1String(part), QLatin1String(kind.dataField))),
          data);
    }
    // A file of this machine is brought to the nodes that lack it.
    set("data.copy_to_nodes", "true");
  }
  return QString::fromStdString(text);
}

}  // namespace lockstep::ui
