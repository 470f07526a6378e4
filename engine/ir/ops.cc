#include "engine/ir/ops.h"

#include <map>
#include <utility>

#include "engine/ir/ops_rules.h"

namespace lockstep::ir {
namespace {

struct Table {
  std::vector<OpInfo> rows;
  std::map<std::string_view, Op> names;

  Table() {
    std::vector<const OpInfo*> found(kOpCount, nullptr);
    std::vector<std::vector<OpInfo>> families;
    families.push_back(rules::sourceOps());
    families.push_back(rules::elementwiseOps());
    families.push_back(rules::denseOps());
    families.push_back(rules::imageOps());
    families.push_back(rules::batchNormOps());
    families.push_back(rules::sequenceOps());
    families.push_back(rules::lossOps());
    families.push_back(rules::optimizerOps());
    families.push_back(rules::compressionOps());
    families.push_back(rules::collectiveOps());
    for (const auto& family : families)
      for (const OpInfo& row : family) found[static_cast<std::size_t>(row.op)] = &row;
    for (std::size_t i = 0; i < kOpCount; ++i) {
      LOCKSTEP_CHECK(found[i] != nullptr, "op {} has no row", i);
      rows.push_back(*found[i]);
      rows.back().inPlace.resize(static_cast<std::size_t>(found[i]->outputs), -1);
      if (found[i]->narrowOutput) rows.back().attrs.push_back({kStored, AttrKind::kText, false});
    }
    for (const OpInfo& row : rows) names[row.name] = row.op;
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

template <typename T>
const T* find(const Attrs& attrs, std::string_view key) {
  const auto it = attrs.find(key);
  if (it == attrs.end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  LOCKSTEP_CHECK(value != nullptr, "attribute {} has another type", key);
  return value;
}

}  // namespace

const OpInfo& info(Op op) { return table().rows[static_cast<std::size_t>(op)]; }

bool hasKernel(Op op) {
  const OpInfo& row = info(op);
  const bool isBoundary =
      op == Op::kInput || op == Op::kState || op == Op::kStore || op == Op::kResult;
  return !(isBoundary || row.isView || row.isCollective);
}

std::optional<Op> opFromName(std::string_view name) {
  const auto it = table().names.find(name);
  if (it == table().names.end()) return std::nullopt;
  return it->second;
}

std::int64_t intAttr(const Attrs& attrs, std::string_view key, std::int64_t fallback) {
  const auto* value = find<std::int64_t>(attrs, key);
  return value ? *value : fallback;
}

double floatAttr(const Attrs& attrs, std::string_view key, double fallback) {
  const auto* value = find<double>(attrs, key);
  return value ? *value : fallback;
}

std::string_view textAttr(const Attrs& attrs, std::string_view key, std::string_view fallback) {
  const auto* value = find<std::string>(attrs, key);
  return value ? std::string_view(*value) : fallback;
}

std::vector<std::int64_t> listAttr(const Attrs& attrs, std::string_view key) {
  const auto* value = find<std::vector<std::int64_t>>(attrs, key);
  return value ? *value : std::vector<std::int64_t>{};
}

}  // namespace lockstep::ir
