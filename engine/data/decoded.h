// Decoded data files: a node unpacks an archive, or reads the numbers of a table, once. Who opens
// one maps it, so that all processes of the node have it in memory once.
//
// Such a file holds the elements of one data file as readers have them, then a page that says what
// they are. Its name says what was decoded, by its SHA-256, and how. It is written under another
// name, gets its own when all of it is there, and is not written to again; it may be removed at any
// time, which, on the node itself, does not disturb those who map it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/data/dataset.h"

namespace lockstep::data {

// Bytes that nobody writes to: memory of this process, or of a file that it maps.
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

// How a file is decoded: what is decoded differently has another name.
std::string idxDecoding();
std::string tableDecoding(const TableFile& table);

struct Decoded {
  FileFacts facts;  // of what was decoded
  Bytes bytes;      // the elements, then the page
  std::string_view elements() const {
    return bytes.view().substr(0, static_cast<std::size_t>(size));
  }
  std::int64_t size = 0;  // of the elements
  std::string sha256;     // of the elements
};
// Maps one, having read its page. kNotFound; kDataLoss: it is not whole, or not what it should be.
Result<Decoded> openDecoded(const std::string& path, std::string_view decoding);

// A folder of them, of one process that writes there. Threads: any.
class DecodedFolder {
 public:
  struct Limits {
    // of all files: those that were not used for longest go
    std::int64_t bytes = std::int64_t{8} << 30;
    std::int64_t leftFree = std::int64_t{1} << 30;  // of the file system
  };
  // Removes what a process that was killed left half-written. The folder is made when it is needed.
  DecodedFolder(std::string path, Limits limits);
  explicit DecodedFolder(std::string path) : DecodedFolder(std::move(path), Limits()) {}

  // The path of what was decoded of the file with this hash; empty where it is not here. All of a
  // file is read when it is first asked for, and again when it was touched: one that is not what
  // was written is removed. Counts as a use.
  std::string find(std::string_view decoding, std::string_view sha256);
  // Whether there would be room for so many bytes, others removed.
  bool takes(std::int64_t bytes) const;
  // Removes files, least recently used first, until so many bytes are free on the file system or
  // none is left.
  void makeRoom(std::int64_t bytes);

  // Elements on their way into the folder. What goes wrong is no error: nothing is kept.
  class Writer {
   public:
    Writer(DecodedFolder* folder, std::string decoding);  // of null: keeps nothing
    ~Writer();                                            // removes what was not kept
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    // so many are about to come: where they have no room, nothing is removed for them
    void expect(std::int64_t bytes);
    void add(std::string_view elements);
    void keep(const FileFacts& facts);  // all were added

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Entry;
  std::string nameOf(std::string_view decoding, std::string_view sha256) const;
  std::vector<Entry> entries() const;                         // least recently used first
  bool makeRoomFor(std::int64_t written, std::int64_t more);  // of a file that is being written

  const std::string path_;
  const Limits limits_;
  std::mutex mutex_;
  std::set<std::string> whole_;  // mutex_; files that were read, as they were then
  int parts_ = 0;                // mutex_; ever begun
};

}  // namespace lockstep::data
