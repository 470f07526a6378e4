#include "engine/specs/error_info.h"

#include <google/protobuf/util/json_util.h>

namespace lockstep::specs {

run::v1::Text toText(const Message& message) {
  run::v1::Text out;
  out.set_text(message.text());
  if (message.arguments().empty()) return out;
  out.set_id(message.id());
  for (const Message& argument : message.arguments()) *out.add_arguments() = toText(argument);
  return out;
}

Message fromText(const run::v1::Text& text) {
  std::vector<Message> arguments;
  for (const run::v1::Text& argument : text.arguments()) arguments.push_back(fromText(argument));
  return {text.text(), text.id(), std::move(arguments)};
}

std::string toJson(const Message& message) {
  std::string out;
  (void)google::protobuf::util::MessageToJsonString(toText(message), &out);
  return out;
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
  info.set_field(error.field);
  if (!error.why.empty()) *info.mutable_why() = toText(error.why);
  if (!error.next.empty()) *info.mutable_next() = toText(error.next);
  info.set_node(error.node);
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
