// Translates English texts of other modules (errors, notes, progress) into the studio's language. A
// text is matched against patterns with placeholders %1 …; the pattern's translation is filled with
// the matched parts, which are translated in turn. So texts from nodes and from the history are
// translated too. Texts without a pattern stay English, and so do all lines after the first, which
// are a worker's output.
#pragma once

#include <QString>
#include <span>
#include <string>

namespace lockstep::ui {

QString messageText(const std::string& text);
std::span<const char* const> messagePatterns();

}  // namespace lockstep::ui
