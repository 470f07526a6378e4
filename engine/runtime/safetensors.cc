#include "engine/runtime/safetensors.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/file.h"

namespace lockstep::runtime {
namespace {

using nlohmann::json;

constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::kF32, "F32"}, {DType::kF64, "F64"}, {DType::kBf16, "BF16"}, {DType::kF16, "F16"},
    {DType::kI32, "I32"}, {DType::kI64, "I64"}, {DType::kU8, "U8"}};

std::string_view fileName(DType dtype) {
  for (const auto& [type, name] : kNames)
    if (type == dtype) return name;
  return "F32";
}

Error corrupt(const std::string& path, std::string why) {
  Error error = makeError(Code::kDataLoss, "{} is not a readable safetensors file", path);
  error.why = std::move(why);
  return error;
}

Status readEntry(const json& value, std::size_t dataSize, TensorFile::Entry& entry) {
  const auto bad = [](std::string_view what) { return makeError(Code::kDataLoss, "{}", what); };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    return bad("an entry needs dtype, shape and data_offsets");
  bool known = false;
  for (const auto& [type, name] : kNames)
    if (value["dtype"].get<std::string>() == name) {
      entry.dtype = type;
      known = true;
    }
  if (!known) return bad("unknown dtype " + value["dtype"].get<std::string>());
  std::uint64_t count = 1;
  for (const json& extent : value["shape"]) {
    if (!extent.is_number_unsigned()) return bad("a shape is a list of counts");
    const std::uint64_t n = extent.get<std::uint64_t>();
    if (n > dataSize || (n != 0 && count > dataSize / n)) return bad("a shape exceeds the file");
    count *= n;
    entry.shape.push_back(static_cast<std::int64_t>(n));
  }
  const json &from = value["data_offsets"][0], &to = value["data_offsets"][1];
  if (!from.is_number_unsigned() || !to.is_number_unsigned()) return bad("offsets are counts");
  const std::uint64_t begin = from.get<std::uint64_t>(), end = to.get<std::uint64_t>();
  if (begin > end || end > dataSize) return bad("offsets lie outside the file");
  if (end - begin != count * sizeOf(entry.dtype)) return bad("shape and offsets disagree");
  entry.offset = begin;
  entry.size = end - begin;
  return {};
}

}  // namespace

Status writeTensors(const std::string& path, const std::vector<TensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata, const TensorBytes& bytes) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const TensorInfo& tensor : tensors) {
    LOCKSTEP_CHECK(!header.contains(tensor.name), "two tensors are named {}", tensor.name);
    header[tensor.name] = {{"dtype", fileName(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string head(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = text.size();
  std::memcpy(head.data(), &length, sizeof length);
  head += text;
  return writeFileAtomically(path, [&](const Append& append) -> Status {
    LOCKSTEP_TRY(append(head));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      LOCKSTEP_ASSIGN(const std::span<const std::byte> data, bytes(i));
      LOCKSTEP_CHECK(static_cast<std::int64_t>(data.size()) == tensors[i].bytes());
      LOCKSTEP_TRY(append({reinterpret_cast<const char*>(data.data()), data.size()}));
    }
    return {};
  });
}

Result<TensorFile> readTensors(const std::string& path) {
  TensorFile out;
  LOCKSTEP_ASSIGN(out.storage, readFile(path, std::size_t{1} << 40));
  std::uint64_t length = 0;
  if (out.storage.size() < sizeof length) return corrupt(path, "shorter than its length field");
  std::memcpy(&length, out.storage.data(), sizeof length);
  if (length > out.storage.size() - sizeof length) return corrupt(path, "the header is cut off");
  out.dataOffset = sizeof length + length;
  const json header = json::parse(out.storage.data() + sizeof length,
                                  out.storage.data() + out.dataOffset, nullptr, false);
  if (!header.is_object()) return corrupt(path, "the header is not JSON");
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return corrupt(path, "__metadata__ is not an object");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) return corrupt(path, "__metadata__ holds something not text");
        out.metadata[key] = text.get<std::string>();
      }
      continue;
    }
    Status read = readEntry(value, out.storage.size() - out.dataOffset, out.entries[name]);
    if (!read.ok()) return corrupt(path, name + ": " + read.error().what);
  }
  return out;
}

}  // namespace lockstep::runtime
