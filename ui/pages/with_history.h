// Opens the history, does one thing with it and returns the outcome; to be run off the GUI thread.
#pragma once

#include <string>
#include <utility>

#include "app/history/history.h"

namespace lockstep::ui {

template <typename Work>
auto withHistory(const std::string& folder, Work work)
    -> decltype(work(std::declval<app::History&>())) {
  auto history = app::History::open(folder);
  if (!history) return history.error();
  return work(**history);
}

}  // namespace lockstep::ui
