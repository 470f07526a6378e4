// Mutates inputs of protobuf messages, one message per frame, by field: byte mutations would rarely
// leave a message that parses.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::fuzz {

// Frames: four bytes of length, little-endian, and the message.
std::string framesOf(const std::vector<std::string>& messages);
// A truncated frame at the end counts as a frame.
std::vector<std::string> splitFrames(std::string_view bytes);

// Changes a field of one of the messages in place; returns the new size, at most `most`. `make`
// returns an empty message of the type of frame i.
using MakeMessage = std::function<std::unique_ptr<google::protobuf::Message>(std::size_t frame)>;
std::size_t mutateFrames(std::uint8_t* bytes, std::size_t size, std::size_t most, unsigned seed,
                         const MakeMessage& make);

}  // namespace lockstep::fuzz
