// New run specs, made from the templates that are compiled in.
#pragma once

#include <QString>

#include "app/specs/new_spec.h"

namespace lockstep::ui {

// Returns a run spec of the kind, called `name`; `data` is its data file, if the kind needs one.
QString newModelText(const app::ModelTemplate& kind, const QString& name, const QString& data);

}  // namespace lockstep::ui
