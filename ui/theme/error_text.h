// Formats errors in the studio's language. Codes and locations are worded here; `what`, `why` and
// `next` are translated by messageText().
#pragma once

#include <QString>

#include "engine/base/status.h"

namespace lockstep::ui {

struct ErrorText {
  QString what, why, next;
};
ErrorText describeError(const Error& error);
QString codeText(Code code);  // "not reachable"

}  // namespace lockstep::ui
