// NCCL's RAS: what the NCCL of a program's processes knows of its communicators, on all nodes.
// Since NCCL 2.24 a thread of each process answers at the TCP address NCCL_RAS_ADDR.
//
// The protocol is lines of text (NCCL's docs/userguide/source/troubleshooting/ras.rst and
// src/ras/client.cc): "CLIENT PROTOCOL 2" is answered by "SERVER PROTOCOL 2", "TIMEOUT 1" by "OK",
// and "VERBOSE STATUS" by a text, at whose end the server closes the connection.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/clock.h"

namespace lockstep::agent {

// Whether the process has NCCL loaded.
bool hasNccl(int pid);

// Asks what answers at "HOST:PORT", a number or localhost, for at most `limit`. Returns the text,
// or why there is none, line by line, as evidence: each begins with "NCCL RAS: ". At most 200
// lines.
std::vector<std::string> askRas(const std::string& address, Nanoseconds limit);
bool isRasLine(std::string_view line);
// Returns a text that was told as such lines.
std::vector<std::string> rasLines(std::string_view text);

// Returns the first problems that such lines tell, "INCOMPLETE, Missing communicator data from 1
// rank"; "": none.
std::string rasProblems(const std::vector<std::string>& lines);

}  // namespace lockstep::agent
