// How many collectives a program's process has begun in each group, as it keeps them in a file
// beside the pipe of its rank (counts_file.h). They are told as the first lines of its stacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::agent {

struct CollectiveCount {
  std::string group;       // "world"; of others, PyTorch's name, or NCCL's: "nccl/27a079b8…"
  std::int64_t begun = 0;  // at least 1
  std::string last;        // "all_reduce"
  bool inside = false;     // the last goes on
};

// The text as a word of a line: without spaces, colons and commas.
std::string oneWord(std::string_view text);

// Returns the process that counts in the CountsTable; 0: none has.
int countingProcess(std::string_view table);

// Returns those in the CountsTable, the one that was begun last at the end. The program may write
// there what it likes: names are one line of text.
std::vector<CollectiveCount> countsIn(std::string_view table);

// "Collective 41 of group world: in all_reduce", or "after".
std::string countLine(const CollectiveCount& count);
std::optional<CollectiveCount> countOf(std::string_view line);

}  // namespace lockstep::agent
