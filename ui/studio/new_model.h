// Templates of new run specs: models of each kind, and a program of a person's own.
#pragma once

#include <QString>
#include <QVector>

namespace lockstep::ui {

struct ModelTemplate {
  const char* id;         // "gpt"
  const char* file;       // in the resources; null: an empty model
  const char* dataField;  // the file that a person brings: "text", "table"; null: none
  const char* data;       // what it is at first
  const char* title;      // English, translated in this context: lockstep::ui::NewModel
  const char* help;
};
const QVector<ModelTemplate>& modelTemplates();

// Returns a run spec of the kind, called `name`; `data` is its data file, if the kind needs one.
QString newModelText(const ModelTemplate& kind, const QString& name, const QString& data);

}  // namespace lockstep::ui
