// Cache of decoded data files: a node decompresses an archive, or parses a table, once; all
// processes of the node then map the same file.
//
// A cached file holds the elements of one data file in their decoded form, then a page that
// describes them. Its name encodes the SHA-256 of the source and the decoding. It is written under
// a temporary name, renamed when complete, and then immutable. It may be removed at any time, which
// does not disturb processes of this node that map it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/progress.h"
#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

// Read-only bytes, owned in memory or mapped from a file.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::string own) : own_(std::move(own)) {}
  ~Bytes();
  Bytes(Bytes&& other) noexcept { *this = std::move(other); }
  Bytes& operator=(Bytes&& other) noexcept;
  static Result<Bytes> map(int fd, std::size_t size);
  std::string_view view() const {
    return map_ != nullptr ? std::string_view(map_, size_) : std::string_view(own_);
  }

 private:
  std::string own_;
  const char* map_ = nullptr;
  std::size_t size_ = 0;
};

// Names of decodings; a changed decoding gets a new name.
std::string idxDecoding();
std::string tableDecoding(const TableFile& table);

struct Decoded {
  FileFacts facts;  // of the source file
  Bytes bytes;      // the elements, followed by the page
  std::string_view elements() const {
    return bytes.view().substr(0, static_cast<std::size_t>(size));
  }
  std::int64_t size = 0;  // of the elements
  std::string sha256;     // of the elements
};
// Maps a cached file and validates its page. Errors: kNotFound; kDataLoss if it is incomplete or
// not as expected.
Result<Decoded> openDecoded(const std::string& path, std::string_view decoding);

// A folder of cached files, written by one process. Thread-safe.
class DecodedFolder {
 public:
  struct Limits {
    // total size; least recently used files are evicted
    std::int64_t bytes = std::int64_t{8} << 30;
    std::int64_t leftFree = std::int64_t{1} << 30;  // to be left free on the file system
  };
  // Removes files that a killed process left incomplete. The folder is created on demand.
  DecodedFolder(std::string path, Limits limits);
  explicit DecodedFolder(std::string path) : DecodedFolder(std::move(path), Limits()) {}

  // Returns the path of the decoding of the file with this hash; empty if not cached. The file is
  // read in full and validated when it is first requested, and again when modified; an invalid one
  // is removed. Counts as a use. Empty, too, if `progress` cancels the validation.
  std::string find(std::string_view decoding, std::string_view sha256,
                   const Progress& progress = {});
  // Whether this many bytes would fit after evicting others.
  bool takes(std::int64_t bytes) const;
  // Evicts least recently used files until this many bytes are free on the file system or none is
  // left.
  void makeRoom(std::int64_t bytes);

  // Writes elements into the folder. Failures are silent: nothing is cached then.
  class Writer {
   public:
    Writer(DecodedFolder* folder, std::string decoding);  // null: caches nothing
    ~Writer();                                            // removes an unfinished file
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    // Announces the number of bytes to come; if they cannot fit, nothing is evicted for them.
    void expect(std::int64_t bytes);
    void add(std::string_view elements);
    void keep(const FileFacts& facts);  // call once all elements were added

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Entry;
  std::string nameOf(std::string_view decoding, std::string_view sha256) const;
  std::vector<Entry> entries() const;                         // least recently used first
  bool makeRoomFor(std::int64_t written, std::int64_t more);  // for a file being written

  const std::string path_;
  const Limits limits_;
  std::mutex mutex_;
  std::set<std::string> whole_;  // mutex_; validated files, by identity
  int parts_ = 0;                // mutex_; temporary files begun so far
};

}  // namespace lockstep::data
