#include "app/specs/spec_decode.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "engine/base/byte_size.h"
#include "engine/base/suggest.h"
#include "engine/specs/options.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {

std::string nearest(std::string_view text, const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  return lockstep::nearest(text, known);
}

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ProtoMessage = google::protobuf::Message;

// Of those that are suggested.
std::vector<std::string> fieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i)
    if (!specs::optionOf(*type.field(i)).former()) names.push_back(type.field(i)->name());
  return names;
}

// Adds the paths of the fields of a message that have this name, or that others call so.
void findNamed(const Descriptor& type, const std::string& path, const std::string& name,
               std::vector<std::string>& found) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (specs::optionOf(field).former()) continue;
    const std::string below = path.empty() ? field.name() : path + "." + field.name();
    const auto& also = specs::optionOf(field).also();
    if (field.name() == name || std::find(also.begin(), also.end(), name) != also.end())
      found.push_back(below);
    if (!field.is_repeated() && field.message_type() != nullptr)
      findNamed(*field.message_type(), below, name, found);
  }
}

struct Decoder {
  const std::string& file;
  std::vector<SpecProblem>& problems;
  std::string* modelPath;
  const Descriptor& root;

  // Of a text that has nothing right the first thousand are told.
  bool isFull() const { return problems.size() >= 1000; }
  void problem(const YamlNode& at, const std::string& path, Message what, Message expected) const {
    if (isFull()) return;
    problems.push_back({file, at.line, at.column, std::move(what), std::move(expected), path});
  }

  static Message shown(const YamlNode& node) {
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        return "empty";
      case YamlNode::Kind::kMap:
        return "a group of fields";
      case YamlNode::Kind::kList:
        return "a list";
      case YamlNode::Kind::kScalar:
        break;
    }
    std::size_t most = std::min<std::size_t>(node.value.size(), 40);  // bytes of whole characters
    while (most < node.value.size() && (node.value[most] & 0xc0) == 0x80) --most;
    std::string text = node.value.substr(0, most);
    if (text.size() < node.value.size()) text += "…";
    return lockstep::message("'{}'", text);
  }
  static Message fieldIs(std::string_view name, const YamlNode& node) {
    return lockstep::message("'{}' is {}", name, shown(node));
  }
  static std::string lastName(const std::string& path) {
    const auto dot = path.rfind('.');
    return dot == std::string::npos ? path : path.substr(dot + 1);
  }

  void message(const YamlNode& node, const std::string& path, ProtoMessage& out) const {
    if (node.kind == YamlNode::Kind::kNull) return;
    const Descriptor& type = *out.GetDescriptor();
    if (node.kind == YamlNode::Kind::kScalar && type.name() == "LayerSpec") {
      // "- flatten" for "- flatten: {}"
      const auto* kind = type.FindFieldByName(node.value);
      if (kind != nullptr && kind->message_type() != nullptr) {
        out.GetReflection()->MutableMessage(&out, kind);
        return;
      }
    }
    if (node.kind != YamlNode::Kind::kMap) {
      problem(node, path,
              path.empty() ? lockstep::message("the file is {}", shown(node))
                           : fieldIs(lastName(path), node),
              lockstep::message("expected {}", fieldList(type)));
      return;
    }
    for (const auto& entry : node.entries) {
      const std::string& name = entry.key.value;
      const std::string below = path.empty() ? name : path + "." + name;
      const FieldDescriptor* field = type.FindFieldByName(name);
      if (field == nullptr) {
        unknown(entry.key, path, below, type);
        continue;
      }
      this->field(entry.node, below, *field, out);
    }
    if (type.name() == "LayerSpec") checkLayer(node, path, type);
    if (type.FindFieldByName("version") != nullptr) checkVersion(node, path);
  }

  void unknown(const YamlNode& key, const std::string& path, const std::string& below,
               const Descriptor& type) const {
    if (isFull()) return;
    problem(key, below,
            path.empty() ? lockstep::message("unknown field '{}'", key.value)
                         : lockstep::message("unknown field '{}' in {}", key.value, path),
            meant(key.value, path, type));
  }

  // The field of the message, or the only one of the file, that may be meant. Entries of lists, as
  // layers, have their own fields alone.
  Message meant(const std::string& name, const std::string& path, const Descriptor& type) const {
    std::vector<std::string> elsewhere;
    const std::vector<std::string> names = fieldNames(type);
    std::string near = nearest(name, names);
    if (near.empty() && path.find('[') == std::string::npos) findNamed(root, "", name, elsewhere);
    if (elsewhere.size() == 1) near = elsewhere.front();
    if (near.empty()) return lockstep::message("expected {}", fieldList(type));
    if (!elsewhere.empty() && !path.empty() && near.find('.') == std::string::npos)
      return lockstep::message("did you mean '{}' outside of {}?", near, path);
    return lockstep::message("did you mean '{}'?", near);
  }

  void checkVersion(const YamlNode& node, const std::string& path) const {
    const auto* version = node.find("version");
    if (version != nullptr && version->node.kind == YamlNode::Kind::kScalar &&
        version->node.value != "1" && version->node.value != "0") {
      problem(version->node, path.empty() ? "version" : path + ".version",
              lockstep::message("version {} of this format is not known", version->node.value),
              "expected 1");
    }
  }

  void checkLayer(const YamlNode& node, const std::string& path, const Descriptor& type) const {
    std::vector<std::string> kinds;
    int given = 0;
    const YamlNode* second = nullptr;
    for (int i = 0; i < type.field_count(); ++i) {
      if (type.field(i)->containing_oneof() == nullptr) continue;
      kinds.push_back(type.field(i)->name());
      if (const auto* entry = node.find(type.field(i)->name())) {
        if (++given == 2) second = &entry->key;
      }
    }
    if (given == 0) {
      bool unknown = false;
      for (const auto& entry : node.entries) {
        unknown = unknown || type.FindFieldByName(entry.key.value) == nullptr;
      }
      if (!unknown)
        problem(node, path, "a layer without a kind",
                lockstep::message("expected one of {}", join(kinds)));
    } else if (given > 1) {
      problem(*second, path, "a layer of two kinds",
              lockstep::message("expected one of {}", join(kinds)));
    }
  }

  static std::string join(const std::vector<std::string>& names) {
    std::string text;
    for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
  }
  static Message fieldList(const Descriptor& type) {
    const std::vector<std::string> names = fieldNames(type);
    if (names.empty()) return "no fields: {}";
    return lockstep::message("the fields {}", join(names));
  }

  void field(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
             ProtoMessage& out) const {
    const auto* reflection = out.GetReflection();
    if (field.is_map()) {
      map(node, path, field, out);
    } else if (field.is_repeated()) {
      if (node.kind == YamlNode::Kind::kNull) return;
      if (node.kind != YamlNode::Kind::kList) {
        problem(node, path, fieldIs(field.name(), node),
                field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                    ? "expected a list ('- …' lines)"
                    : "expected a list: [a, b]");
        return;
      }
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const std::string below = path + "[" + std::to_string(i) + "]";
        if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          message(node.items[i], below, *reflection->AddMessage(&out, &field));
        } else {
          scalar(node.items[i], below, field, out, true);
        }
      }
      const std::string& empty = specs::optionOf(field).empty_list();
      if (node.items.empty() && !empty.empty()) specs::setField(out, field, empty);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (modelPath != nullptr && field.full_name() == "lockstep.spec.v1.RunSpec.model" &&
          node.kind == YamlNode::Kind::kScalar) {
        *modelPath = node.value;
        return;
      }
      message(node, path, *reflection->MutableMessage(&out, &field));
    } else {
      if (node.kind == YamlNode::Kind::kNull) {
        problem(node, path, lockstep::message("'{}' is empty", field.name()), expected(field));
        return;
      }
      scalar(node, path, field, out, false);
    }
  }

  void map(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
           ProtoMessage& out) const {
    if (node.kind == YamlNode::Kind::kNull) return;
    if (node.kind != YamlNode::Kind::kMap) {
      problem(node, path, fieldIs(field.name(), node), "expected 'path: path' lines");
      return;
    }
    const auto* entryType = field.message_type();
    for (const auto& entry : node.entries) {
      if (entry.node.kind != YamlNode::Kind::kScalar) {
        problem(entry.node, path + "[" + entry.key.value + "]",
                fieldIs(entry.key.value, entry.node), "expected text");
        continue;
      }
      ProtoMessage* pair = out.GetReflection()->AddMessage(&out, &field);
      pair->GetReflection()->SetString(pair, entryType->map_key(), entry.key.value);
      pair->GetReflection()->SetString(pair, entryType->map_value(), entry.node.value);
    }
  }

  static Message expected(const FieldDescriptor& field) {
    const auto& option = specs::optionOf(field);
    if (!option.values().empty())
      return lockstep::message("expected one of {}",
                               join({option.values().begin(), option.values().end()}));
    if (specs::isByteSize(field)) return "expected bytes, as 65536 or 256MiB";
    const double min = option.has_min() ? option.min() : -1;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_INT64:
        if (!option.automatic().empty())
          return lockstep::message("expected {}, or a whole number, at least {}",
                                   option.automatic(), min);
        if (min > 0) return lockstep::message("expected a whole number, at least {}", min);
        return "expected a whole number";
      case FieldDescriptor::CPPTYPE_UINT64:
        return "expected a whole number, 0 or more";
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return "expected a number";
      case FieldDescriptor::CPPTYPE_BOOL:
        return "expected true or false";
      default:
        return "expected text";
    }
  }

  // A message without presence takes 0 as left out: where the least is above it, 0 is refused here.
  static bool isZeroRefused(const FieldDescriptor& field, std::string_view text) {
    const auto& option = specs::optionOf(field);
    const bool isZero = text == "0" || text == "+0" || text == "-0" ||
                        (specs::isByteSize(field) && parseByteSize(text) == 0);
    return !field.has_presence() && option.min() > 0 && isZero;
  }

  void scalar(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
              ProtoMessage& out, bool item) const {
    const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    std::string near;
    bool right = node.kind == YamlNode::Kind::kScalar && (text || !node.quoted) &&
                 !isZeroRefused(field, node.value);
    const auto& values = specs::optionOf(field).values();
    if (right && !values.empty() && !node.value.empty() &&
        std::find(values.begin(), values.end(), node.value) == values.end()) {
      right = false;
      near = nearest(node.value, {values.begin(), values.end()});
    }
    if (right && specs::setField(out, field, node.value)) return;
    problem(node, path, fieldIs(item ? lastName(path) : field.name(), node),
            near.empty() ? expected(field)
                         : lockstep::message("{} (did you mean '{}'?)", expected(field), near));
  }
};

}  // namespace

const Descriptor* rootOf(SpecKind kind) {
  switch (kind) {
    case SpecKind::kRun:
      return spec::v1::RunSpec::descriptor();
    case SpecKind::kCluster:
      return spec::v1::ClusterSpec::descriptor();
    case SpecKind::kModel:
      return spec::v1::ModelSpec::descriptor();
  }
  return nullptr;
}

std::vector<std::string> splitPath(std::string_view path) {
  std::vector<std::string> parts;
  std::string word;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '.') {
      if (!word.empty()) parts.push_back(std::move(word));
      word.clear();
    } else if (path[i] == '[') {
      if (!word.empty()) parts.push_back(std::move(word));
      word.clear();
      const auto close = path.find(']', i);
      const auto end = close == std::string_view::npos ? path.size() : close + 1;
      parts.emplace_back(path.substr(i, end - i));
      i = end - 1;
    } else {
      word += path[i];
    }
  }
  if (!word.empty()) parts.push_back(std::move(word));
  return parts;
}

const FieldDescriptor* findField(SpecKind kind, std::string_view path, const Descriptor** parent) {
  const Descriptor* type = rootOf(kind);
  const FieldDescriptor* field = nullptr;
  for (const auto& part : splitPath(path)) {
    if (part[0] == '[') continue;
    if (type == nullptr) return nullptr;
    field = type->FindFieldByName(part);
    if (field == nullptr) return nullptr;
    if (parent != nullptr) *parent = type;
    type = field->is_map() ? nullptr : field->message_type();
  }
  return field;
}

void decode(const YamlNode& node, const std::string& file, ProtoMessage& message,
            std::string* modelPath, std::vector<SpecProblem>& problems) {
  Decoder{file, problems, modelPath, *message.GetDescriptor()}.message(node, "", message);
}

}  // namespace lockstep::app
