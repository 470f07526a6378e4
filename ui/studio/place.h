// Place: what a person looks at: a document, a part of it and, of a run, the moment of a rank.
// A place of a run, or of a lesson with the values of its sliders, can be written as a link, which
// `lockstep open` opens: "lockstep:run/<id>?part=steps&rank=3&step=1200",
// "lockstep:learn/<lesson>?batch=64&ranks=4".
#pragma once

#include <QMap>
#include <QString>
#include <optional>

namespace lockstep::ui {

struct Place {
  QString key;    // Page::key()
  QString part;   // of a run's page, "": the first one; the lesson, "": the list of lessons
  int rank = -1;  // -1: none
  qint64 step = 0;
  QMap<QString, QString> values = {};  // of a lesson: of its sliders

  bool operator==(const Place&) const = default;
};

QString linkOf(const Place& place);                 // "": it has none
std::optional<Place> placeOf(const QString& link);  // nullopt: no link, or a damaged one

}  // namespace lockstep::ui
