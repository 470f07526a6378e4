#include "engine/base/tf_record.h"

#include <bit>
#include <span>

#include "engine/base/crc32c.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little endian");

template <typename T>
void add(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

std::uint32_t maskedCrc32c(std::string_view bytes) {
  return std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xa282ead8u;
}

std::string tfRecordHeader(std::uint64_t length) {
  std::string out;
  add(out, length);
  add(out, maskedCrc32c(out));
  return out;
}

std::string tfRecord(std::string_view data) {
  std::string out = tfRecordHeader(data.size());
  out += data;
  add(out, maskedCrc32c(data));
  return out;
}

}  // namespace lockstep
