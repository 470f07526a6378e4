// A run's file in the history, opened beside the product: to hold it, or to damage it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/storage/database.h"

namespace lockstep {

// `path` was made by makeRunStore(). Nothing is brought up to date: the file has the newest schema.
inline Result<std::unique_ptr<storage::Database>> openRunFile(const std::string& path) {
  constexpr std::size_t kVersions = 7;  // of the schema, as RunStore has them
  return storage::Database::open(path, std::vector<std::string_view>(kVersions));
}

}  // namespace lockstep
