#include "engine/specs/error_info.h"

#include <google/protobuf/util/json_util.h>

#include "engine/base/utf8.h"

namespace lockstep::specs {

namespace {

// Protobuf reads at most 100 levels; a list of many items may be nested deeper.
constexpr int kDeepest = 30;

void addText(const Message& message, int depth, run::v1::Text& out) {
  // A path may hold any bytes; a proto3 string that is not UTF-8 makes the whole record unreadable.
  out.set_text(validUtf8(message.text()));
  if (depth == kDeepest) return;
  out.set_id(validUtf8(message.id()));
  for (const Message& argument : message.arguments())
    addText(argument, depth + 1, *out.add_arguments());
}

}  // namespace

run::v1::Text toText(const Message& message) {
  run::v1::Text out;
  addText(message, 1, out);
  return out;
}

Message fromText(const run::v1::Text& text) {
  std::vector<Message> arguments;
  for (const run::v1::Text& argument : text.arguments()) arguments.push_back(fromText(argument));
  return {text.text(), text.id(), std::move(arguments)};
}

std::string toJson(const Message& message) {
  std::string out;
  const auto status = google::protobuf::util::MessageToJsonString(toText(message), &out);
  return status.ok() ? out : "{}";
}

Message messageFromJson(const std::string& json) {
  run::v1::Text text;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(json, &text, options).ok()) return json;
  return fromText(text);
}

run::v1::ErrorInfo toInfo(const Error& error) {
  run::v1::ErrorInfo info;
  info.set_code(std::string(codeName(error.code)));
  *info.mutable_what() = toText(error.what);
  info.set_field(validUtf8(error.field));
  if (!error.why.empty()) *info.mutable_why() = toText(error.why);
  if (!error.next.empty()) *info.mutable_next() = toText(error.next);
  info.set_node(validUtf8(error.node));
  info.set_rank(error.rank);
  info.set_step(error.step);
  return info;
}

Error fromInfo(const run::v1::ErrorInfo& info) {
  Error error;
  error.code = codeFromName(info.code()).value_or(Code::kInternal);
  error.field = info.field();
  if (info.has_what()) {
    error.what = fromText(info.what());
    error.why = fromText(info.why());
    error.next = fromText(info.next());
  } else {
    error.what = info.plain_what();
    error.why = info.plain_why();
    error.next = info.plain_next();
  }
  error.node = info.node();
  error.rank = info.rank();
  error.step = info.step();
  return error;
}

}  // namespace lockstep::specs
