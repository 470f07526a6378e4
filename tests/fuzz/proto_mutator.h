// Inputs of protobuf messages, one message per frame. Targets that link fuzz_messages have inputs
// mutated by field: byte mutations would rarely leave a message that parses.
#pragma once

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fuzz {

// Frames: four bytes of length, little-endian, and the message.
std::string framesOf(const std::vector<std::string>& messages);
// A truncated frame at the end counts as a frame.
std::vector<std::string> splitFrames(std::string_view bytes);

// Defined by the target: returns an empty message of the type of this frame.
std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t frame);

}  // namespace lockstep::fuzz
