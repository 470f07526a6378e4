// Records of TensorFlow's files, in which TensorBoard keeps events (TensorFlow,
// core/lib/io/record_writer.h): the length of the data in 8 bytes, the checksum of these bytes, the
// data, the checksum of the data. Little endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

inline constexpr std::size_t kTfRecordHeader = 12, kTfRecordTrailer = 4;  // bytes around the data

// The CRC-32C, rotated, plus a constant: a checksum of data that hold their own checksum would say
// little (TensorFlow, core/lib/hash/crc32c.h).
std::uint32_t maskedCrc32c(std::string_view bytes);

std::string tfRecordHeader(std::uint64_t length);
std::string tfRecord(std::string_view data);

}  // namespace lockstep
