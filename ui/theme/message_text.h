// Texts that other modules make in English (errors, notes, progress), in the studio's language. The
// English text is the key: it is held against patterns with %1 … for what varies, and the pattern's
// translation is filled with what stood there, itself translated where it is known. So texts that
// come from nodes or lie in the history are translated too. What no pattern meets stays as it is,
// and so does what follows the first line of a long text: a worker's last lines are nobody's
// message.
#pragma once

#include <QString>
#include <span>
#include <string>

namespace lockstep::ui {

QString messageText(const std::string& text);
std::span<const char* const> messagePatterns();

}  // namespace lockstep::ui
