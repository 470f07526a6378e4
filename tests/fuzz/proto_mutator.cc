#include "tests/fuzz/proto_mutator.h"

#include <google/protobuf/descriptor.h>

#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) {
  return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
}

std::int64_t integer(Random& random) {
  constexpr std::int64_t kValues[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      64,
                                      1 << 20,
                                      std::numeric_limits<std::int32_t>::max(),
                                      std::numeric_limits<std::int32_t>::min(),
                                      std::numeric_limits<std::int64_t>::max(),
                                      std::numeric_limits<std::int64_t>::min()};
  return below(random, 4) == 0 ? static_cast<std::int64_t>(random() % 100)
                               : kValues[below(random, std::size(kValues))];
}

double number(Random& random) {
  constexpr double kValues[] = {0,
                                -0.0,
                                1,
                                -1,
                                0.5,
                                1e-300,
                                1e300,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
  return kValues[below(random, std::size(kValues))];
}

std::string text(Random& random, const std::string& before) {
  const std::size_t at = below(random, before.size());
  switch (below(random, 6)) {
    case 0:
      return "";
    case 1:
      return before.substr(0, at);
    case 2:
      return before + before;
    case 3:
      return "../" + before;
    case 4:
      return std::string(below(random, 2000), 'x');
    default: {
      std::string out = before;
      if (!out.empty()) out[at] = static_cast<char>(random() % 128);
      return out;
    }
  }
}

void change(Random& random, Message& message, int depth);

// Sets the field, or with `add` adds an element; a repeated field has at least one element without.
void set(Random& random, Message& message, const FieldDescriptor* field, bool add, int depth) {
  const Reflection* r = message.GetReflection();
  const bool list = field->is_repeated();
  const int index =
      list && !add
          ? static_cast<int>(below(random, static_cast<std::size_t>(r->FieldSize(message, field))))
          : 0;
#define LOCKSTEP_SET(Name, value)                        \
  if (add)                                               \
    r->Add##Name(&message, field, value);                \
  else if (list)                                         \
    r->SetRepeated##Name(&message, field, index, value); \
  else                                                   \
    r->Set##Name(&message, field, value);                \
  break
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      LOCKSTEP_SET(Int32, static_cast<std::int32_t>(integer(random)));
    case FieldDescriptor::CPPTYPE_INT64:
      LOCKSTEP_SET(Int64, integer(random));
    case FieldDescriptor::CPPTYPE_UINT32:
      LOCKSTEP_SET(UInt32, static_cast<std::uint32_t>(integer(random)));
    case FieldDescriptor::CPPTYPE_UINT64:
      LOCKSTEP_SET(UInt64, static_cast<std::uint64_t>(integer(random)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      LOCKSTEP_SET(Double, number(random));
    case FieldDescriptor::CPPTYPE_FLOAT:
      LOCKSTEP_SET(Float, static_cast<float>(number(random)));
    case FieldDescriptor::CPPTYPE_BOOL:
      LOCKSTEP_SET(Bool, below(random, 2) == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      LOCKSTEP_SET(EnumValue, static_cast<int>(integer(random)));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string before = add    ? std::string("a")
                                 : list ? r->GetRepeatedString(message, field, index)
                                        : r->GetString(message, field);
      LOCKSTEP_SET(String, text(random, before));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      change(random,
             *(add    ? r->AddMessage(&message, field)
               : list ? r->MutableRepeatedMessage(&message, field, index)
                      : r->MutableMessage(&message, field)),
             depth + 1);
  }
#undef LOCKSTEP_SET
}

void change(Random& random, Message& message, int depth) {
  constexpr int kDeepest = 12, kMostElements = 200;
  const auto* type = message.GetDescriptor();
  const Reflection* r = message.GetReflection();
  if (type->field_count() == 0 || depth > kDeepest) return;
  // Fields that are set, mostly.
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(message, &fields);
  const FieldDescriptor* field = !fields.empty() && below(random, 5) != 0
                                     ? fields[below(random, fields.size())]
                                     : type->field(static_cast<int>(below(
                                           random, static_cast<std::size_t>(type->field_count()))));
  if (!field->is_repeated()) {
    if (below(random, 8) == 0) return r->ClearField(&message, field);
    return set(random, message, field, false, depth);
  }
  const int size = r->FieldSize(message, field);
  switch (below(random, 5)) {
    case 0:
      if (size < kMostElements) set(random, message, field, true, depth);
      break;
    case 1:
      if (size > 0) r->RemoveLast(&message, field);
      break;
    case 2:
      if (size > 1)
        r->SwapElements(&message, field, 0,
                        static_cast<int>(below(random, static_cast<std::size_t>(size))));
      break;
    default:
      if (size > 0) set(random, message, field, false, depth);
  }
}

}  // namespace

std::string framesOf(const std::vector<std::string>& messages) {
  std::string out;
  for (const std::string& message : messages) {
    const auto size = static_cast<std::uint32_t>(message.size());
    for (int i = 0; i < 4; ++i) out += static_cast<char>(size >> (8 * i));
    out += message;
  }
  return out;
}

std::vector<std::string> splitFrames(std::string_view bytes) {
  std::vector<std::string> out;
  while (bytes.size() >= 4) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
      size |= std::size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    out.emplace_back(bytes.substr(4, size));
    bytes.remove_prefix(4 + out.back().size());
  }
  return out;
}

}  // namespace lockstep::fuzz

// Changes a field of one of the messages, or the order of the frames.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size,
                                               std::size_t most, unsigned int seed) {
  using namespace lockstep::fuzz;
  Random random(seed);
  std::vector<std::string> frames = splitFrames(textOf(bytes, size));
  if (frames.empty()) frames.emplace_back();
  const std::size_t at = below(random, frames.size());
  const std::size_t other = below(random, frames.size());
  switch (below(random, 8)) {
    case 0:
      frames.insert(frames.begin() + static_cast<std::ptrdiff_t>(other), std::string(frames[at]));
      break;
    case 1:
      std::swap(frames[at], frames[other]);
      break;
    default: {
      const auto message = emptyMessage(at);
      if (!message->ParsePartialFromString(frames[at])) message->Clear();
      for (std::size_t i = 0; i < 1 + below(random, 3); ++i) change(random, *message, 0);
      message->SerializePartialToString(&frames[at]);
    }
  }
  const std::string out = framesOf(frames);
  if (out.size() > most) return size;
  std::memcpy(bytes, out.data(), out.size());
  return out.size();
}
