// An error as a person reads it, in the studio's language. Errors travel as code and arguments; the
// words for codes and places are made here, and what a module wrote in `what`, `why` and `next`
// goes through messageText().
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
