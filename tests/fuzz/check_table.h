// What is checked of a table of two numbers, two columns of 50 categories and two classes: where it
// is accepted, numbers are finite, categories and labels within their ranges, and every row is
// shown without a problem.
#pragma once

#include <cmath>

#include "engine/data/dataset.h"
#include "engine/data/samples.h"

namespace lockstep::fuzz {

inline void checkShown(const data::TableFile& file, std::int64_t rows) {
  const auto reader = data::readTableSamples(file);
  if (!reader.ok()) {
    LOCKSTEP_CHECK(rows < 0, "{}", reader.error().text());
    return;
  }
  const std::int64_t some[] = {0, 1, 2, 5};
  (void)(*reader)->read(some);
  const bool counted = (*reader)->count({}).ok();
  const auto samples = (*reader)->read(some);
  if (rows < 0) return;
  LOCKSTEP_CHECK(counted && (*reader)->size() == rows && samples.ok());
  for (const data::StoredSample& sample : *samples)
    LOCKSTEP_CHECK(!sample.problem && (!file.csv || sample.cells.size() == 4), "{}",
                   sample.problem ? sample.problem->text() : "cells");
}

inline void checkTable(const data::TableFile& file) {
  const auto facts = data::inspectTable(file);
  const auto set = data::openTable(file);
  LOCKSTEP_CHECK(!set.ok() || (facts.ok() && facts->dimensions[0] == (*set)->size()));
  checkShown(file, set.ok() ? (*set)->size() : -1);
  for (std::int64_t row = 0; set.ok() && row < (*set)->size(); ++row) {
    float x[2];
    std::int32_t ids[2], label = -1;
    (*set)->read(row, 0, reinterpret_cast<std::byte*>(x));
    (*set)->read(row, 1, reinterpret_cast<std::byte*>(ids));
    (*set)->read(row, 2, reinterpret_cast<std::byte*>(&label));
    LOCKSTEP_CHECK(std::isfinite(x[0]) && std::isfinite(x[1]) && label >= 0 && label < 2 &&
                   ids[0] >= 0 && ids[0] < 50 && ids[1] >= 50 && ids[1] < 100);
  }
}

}  // namespace lockstep::fuzz
