// Follows TensorBoard event files while a program writes them.
//
// A file is a sequence of records: u64 length, u32 masked CRC-32C of the length, data, u32 masked
// CRC-32C of the data, little endian (tensorboard/summary/writer/record_writer.py). The data are an
// Event (tensorboard/compat/proto/event.proto), of which scalars are read: Summary.Value with
// simple_value, or with a tensor of one element (float, double, half, bfloat16, integers). All else
// is passed over: images, histograms, text, scalars whose tag is empty or longer than 1 KiB.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "lockstep/run/v1/telemetry.pb.h"

namespace lockstep::agent {

class EventFiles {
 public:
  // Folders are searched recursively for files "*tfevents*"; they and the files may appear later.
  // Symbolic links to folders are not followed, except the given folders. A folder that is in
  // another one is read once, as part of the one that is given first. Files whose size at the first
  // poll() is not 0 were there before the program: they are read from their end where `fromEnd`.
  explicit EventFiles(std::vector<std::string> folders, bool fromEnd = false);
  ~EventFiles();

  // Returns scalars that were written since the last call, in the order of their files' paths and
  // then of the records; at most `most`, the others come at the next call. A record whose end is
  // not there yet is waited for. The tag is prefixed by the path of the file's folder below the
  // given folder: "train/loss" of train/events…; a file in the given folder itself has no prefix. A
  // step below 0 is returned as 0.
  std::vector<run::v1::Scalar> poll(std::size_t most = 4096);

  // Returns, once each, why a file is not read: it cannot be opened or read, which is tried again;
  // or it is damaged or became shorter, and is not read any further.
  std::vector<Error> takeErrors();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::agent
