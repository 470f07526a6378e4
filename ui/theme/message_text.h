// Shows messages of other modules (errors, remarks, progress) in the studio's language. Their ids
// are the sources of the catalogue's context "lockstep::ui::Message"; arguments that are messages
// are translated in turn. What the catalogue does not have stays English.
#pragma once

#include <QString>

#include "engine/base/message.h"

namespace lockstep::ui {

QString messageText(const Message& message);

}  // namespace lockstep::ui
