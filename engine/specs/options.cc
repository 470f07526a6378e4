#include "engine/specs/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/byte_size.h"
#include "engine/cluster/strategies.h"
#include "engine/specs/field.h"
#include "engine/specs/specs.h"

namespace lockstep::specs {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using spec::v1::Option;
using spec::v1::StrategySpec;

namespace {

bool isMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

// Returns whether the field is written. A field without presence is left out by its zero.
bool isWritten(const Message& message, const FieldDescriptor& field) {
  return field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) > 0
                             : message.GetReflection()->HasField(message, &field);
}

template <typename T>
bool parseNumber(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+') text.remove_prefix(1);
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size();
}

bool isUsedBy(const StrategySpec& spec, spec::v1::UsedBy users) {
  if (isOpen(spec)) return users != spec::v1::LOCAL_UPDATES;
  const cluster::Strategy* found = cluster::findStrategy(spec.kind());
  const cluster::Strategy& strategy = found != nullptr ? *found : cluster::strategies().front();
  const bool asynchronous = strategy.staleness && spec.staleness() != 0;
  const bool dividesLayers = !strategy.servers && !strategy.local;
  switch (users) {
    case spec::v1::ALL_RANKS_COMPUTE:
      return !strategy.servers;
    case spec::v1::DIVIDES_LAYERS:
      return dividesLayers;
    case spec::v1::STAGES:
      return dividesLayers &&
             (spec.stages() > 1 || (spec.stages() == 0 && strategy.axis == cluster::kStageAxis));
    case spec::v1::SERVERS:
      return strategy.servers;
    case spec::v1::SYNCHRONOUS_SERVERS:
      return strategy.servers && !asynchronous;
    case spec::v1::STALENESS:
      return strategy.staleness;
    case spec::v1::LOCAL_UPDATES:
      return strategy.local;
    case spec::v1::SYNCHRONOUS_UPDATES:
      return !strategy.local && !asynchronous;
    case spec::v1::SHARDED_GRADIENTS:
      return strategy.splitGradients;
    default:
      return true;
  }
}

Status checkValues(const Message& message, const FieldDescriptor& field, int index,
                   const std::string& path) {
  const Option& option = optionOf(field);
  if (option.values().empty()) return {};
  const std::vector<std::string_view> values(option.values().begin(), option.values().end());
  return checkKind(path, fieldText(message, field, index), values);
}

Status checkField(const Message& message, const FieldDescriptor& field, const std::string& path) {
  const auto& r = *message.GetReflection();
  const Option& option = optionOf(field);
  const bool ranged = option.has_min() || option.has_max() || option.has_below();
  const auto whole = [&](std::int64_t value) {
    return checkRange(path, value, static_cast<std::int64_t>(option.min()),
                      option.has_max() ? static_cast<std::int64_t>(option.max())
                                       : std::numeric_limits<std::int64_t>::max());
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return ranged ? whole(r.GetInt32(message, &field)) : Status();
    case FieldDescriptor::CPPTYPE_INT64:
      return ranged ? whole(r.GetInt64(message, &field)) : Status();
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      if (!ranged) return {};
      constexpr double kAny = std::numeric_limits<double>::max();
      const double value = r.GetDouble(message, &field);
      if (option.has_max() && value > option.max())
        return wrongField(path,
                          lockstep::message("{} is {}; expected {} to {}", path, value,
                                            option.min(), option.max()),
                          {{{path, fmt::format("{}", option.max())}}});
      return checkNumber(path, value, option.min(), option.has_below() ? option.below() : kAny);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return checkValues(message, field, -1, path);
    default:
      return {};
  }
}

Status checkAllowed(const Message& message, const FieldDescriptor& field, const std::string& path) {
  if (isAllowed(message, field)) return {};
  const auto& condition = optionOf(field).used_with();
  const FieldDescriptor& other = *message.GetDescriptor()->FindFieldByName(condition.field());
  const std::string_view parent =
      std::string_view(path).substr(0, path.size() - field.name().size());
  std::vector<Remedy> remedies{{{path, ""}}};
  for (const auto& value : condition.values())
    remedies.push_back({{fmt::format("{}{}", parent, other.name()), value}});
  return wrongField(path,
                    lockstep::message("{} is not used with {} {}; expected it left out, or {} {}",
                                      path, other.name(), fieldText(message, other), other.name(),
                                      fmt::join(condition.values(), " or ")),
                    std::move(remedies));
}

}  // namespace

const Option& optionOf(const FieldDescriptor& field) {
  return field.options().GetExtension(spec::v1::option);
}

bool isByteSize(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 && optionOf(field).unit() == "bytes";
}

bool isAllowed(const Message& message, const FieldDescriptor& field) {
  const Option& option = optionOf(field);
  if (!option.has_used_with()) return true;
  const FieldDescriptor& other =
      *message.GetDescriptor()->FindFieldByName(option.used_with().field());
  const std::string value =
      isWritten(message, other) ? fieldText(message, other) : optionOf(other).default_value();
  const auto& values = option.used_with().values();
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool isUsed(const Message& message, const FieldDescriptor& field) {
  if (!isAllowed(message, field)) return false;
  const auto* strategy = google::protobuf::DynamicCastToGenerated<StrategySpec>(&message);
  return strategy == nullptr || isUsedBy(*strategy, optionOf(field).used_by());
}

std::string fieldText(const Message& message, const FieldDescriptor& field, int index) {
  const auto* r = message.GetReflection();
  const bool item = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return fmt::format(
          "{}", item ? r->GetRepeatedInt32(message, &field, index) : r->GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return fmt::format(
          "{}", item ? r->GetRepeatedInt64(message, &field, index) : r->GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fmt::format("{}", item ? r->GetRepeatedUInt64(message, &field, index)
                                    : r->GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{}", item ? r->GetRepeatedDouble(message, &field, index)
                                    : r->GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return r->GetBool(message, &field) ? "true" : "false";
    default:
      break;
  }
  return item ? r->GetRepeatedString(message, &field, index) : r->GetString(message, &field);
}

bool setField(Message& message, const FieldDescriptor& field, std::string_view text) {
  const auto& r = *message.GetReflection();
  const bool add = field.is_repeated();
  if (const std::string& word = optionOf(field).automatic(); !word.empty() && text == word) {
    r.ClearField(&message, &field);
    return true;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      std::int32_t value = 0;
      if (!parseNumber(text, value)) return false;
      add ? r.AddInt32(&message, &field, value) : r.SetInt32(&message, &field, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      std::int64_t value = 0;
      if (!parseNumber(text, value)) {
        const auto size = isByteSize(field) ? parseByteSize(text) : std::nullopt;
        if (!size) return false;
        value = *size;
      }
      add ? r.AddInt64(&message, &field, value) : r.SetInt64(&message, &field, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      std::uint64_t value = 0;
      if (!parseNumber(text, value)) return false;
      add ? r.AddUInt64(&message, &field, value) : r.SetUInt64(&message, &field, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!parseNumber(text, value) || !std::isfinite(value)) return false;
      add ? r.AddDouble(&message, &field, value) : r.SetDouble(&message, &field, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return false;
      r.SetBool(&message, &field, text == "true");
      return true;
    case FieldDescriptor::CPPTYPE_STRING:
      if (text.find('\0') != std::string_view::npos) return false;
      add ? r.AddString(&message, &field, std::string(text))
          : r.SetString(&message, &field, std::string(text));
      return true;
    default:
      return false;
  }
}

void fillDefaults(Message& message) {
  const auto& r = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_map()) continue;
    const Option& option = optionOf(field);
    const bool fill = !option.default_value().empty() && isAllowed(message, field);
    if (!isMessage(field)) {
      if (fill && !isWritten(message, field)) setField(message, field, option.default_value());
    } else if (field.is_repeated()) {
      for (int k = 0; k < r.FieldSize(message, &field); ++k)
        fillDefaults(*r.MutableRepeatedMessage(&message, &field, k));
    } else if (fill || isWritten(message, field)) {
      fillDefaults(*r.MutableMessage(&message, &field));
    }
  }
}

Status checkOptions(const Message& message, std::string_view path) {
  const auto& r = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_map() || !isWritten(message, field)) continue;
    const std::string at = path.empty() ? field.name() : fmt::format("{}.{}", path, field.name());
    LOCKSTEP_TRY(checkAllowed(message, field, at));
    const int items = field.is_repeated() ? r.FieldSize(message, &field) : 0;
    for (int k = 0; k < items; ++k) {
      const std::string item = fmt::format("{}[{}]", at, k);
      LOCKSTEP_TRY(isMessage(field) ? checkOptions(r.GetRepeatedMessage(message, &field, k), item)
                                    : checkValues(message, field, k, item));
    }
    if (items > 0) continue;
    LOCKSTEP_TRY(isMessage(field) ? checkOptions(r.GetMessage(message, &field), at)
                                  : checkField(message, field, at));
  }
  return {};
}

}  // namespace lockstep::specs
