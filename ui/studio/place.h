// Place: what a person looks at: a document, a part of it and, of a run, the moment of a rank.
// A place of a run can be written as a link, which `lockstep open` opens:
// "lockstep:run/<id>?part=steps&rank=3&step=1200".
#pragma once

#include <QString>
#include <optional>

namespace lockstep::ui {

struct Place {
  QString key;    // Page::key()
  QString part;   // of a run's page; "": the first one
  int rank = -1;  // -1: none
  qint64 step = 0;

  bool operator==(const Place&) const = default;
};

QString linkOf(const Place& place);                 // "": it has none
std::optional<Place> placeOf(const QString& link);  // nullopt: no link, or a damaged one

}  // namespace lockstep::ui
