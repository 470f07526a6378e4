#include "ui/studio/new_model.h"

#include <QFile>

namespace lockstep::ui {

QString newModelText(const app::ModelTemplate& kind, const QString& name, const QString& data) {
  std::string example;
  if (kind.example) {
    QFile file(QString(":/templates/%1.yaml").arg(QLatin1String(kind.example)));
    LOCKSTEP_CHECK(file.open(QIODevice::ReadOnly), "the templates are compiled in");
    example = file.readAll().toStdString();
  }
  const auto text =
      app::newRunSpec(kind, std::move(example), name.toStdString(), data.toStdString());
  LOCKSTEP_CHECK(text.ok(), "a template that cannot be used: {}", text.error().text());
  return QString::fromStdString(*text);
}

}  // namespace lockstep::ui
