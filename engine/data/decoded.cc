#include "engine/data/decoded.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <utility>

#include "engine/base/hash.h"
#include "engine/base/list_folder.h"
#include "engine/base/log.h"
#include "engine/base/part_file.h"
#include "engine/base/unique_fd.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

// The trailing page: lines, blank padding, the SHA-256 of both.
constexpr std::size_t kPage = 4096, kHash = 64;
// Format version; changes whenever decoding yields other elements.
constexpr std::string_view kMagic = "lockstep-decoded-1";
constexpr std::string_view kPart = ".part-";
constexpr std::int64_t kLook = std::int64_t{1} << 20;  // granularity of reserving room, in bytes

Error dataLoss(const std::string& path, Message why) {
  Error error = makeError(Code::kDataLoss, "decoded data {}", path);
  error.why = std::move(why);
  error.next = "remove it: it is made again";
  return error;
}

std::string pageText(std::string_view decoding, const FileFacts& facts, std::int64_t size,
                     const std::string& sha256) {
  std::string shape = fmt::format("{}", fmt::join(facts.dimensions, " "));
  std::string out =
      fmt::format("{} {}\nof {} {} {} {} {}\nelements {} {}\n", kMagic, decoding, facts.sha256,
                  facts.highest, facts.highestAt, facts.dimensions.size(), shape, size, sha256);
  out.resize(kPage - kHash, ' ');
  return out + sha256Hex(out);
}

// Returns whether elements of these dimensions take `size` bytes: one each, or labels four.
bool hasSize(const Shape& dimensions, std::int64_t size) {
  std::int64_t count = 1;
  for (const std::int64_t extent : dimensions)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) return false;
  const bool labels = dimensions.size() == 1;
  return count > 0 && (count == size || (labels && size % 4 == 0 && count == size / 4));
}

bool readPage(const std::string& page, std::string_view decoding, Decoded& out) {
  if (sha256Hex(std::string_view(page).substr(0, kPage - kHash)) !=
      std::string_view(page).substr(kPage - kHash))
    return false;
  std::istringstream words(page);
  std::string magic, kind, of, elements;
  std::size_t rank = 0;
  words >> magic >> kind >> of >> out.facts.sha256 >> out.facts.highest >> out.facts.highestAt >>
      rank;
  if (!words || magic != kMagic || kind != decoding || of != "of" || rank > 255) return false;
  out.facts.dimensions.resize(rank);
  for (std::int64_t& extent : out.facts.dimensions) words >> extent;
  words >> elements >> out.size >> out.sha256;
  return words && elements == "elements" && hasSize(out.facts.dimensions, out.size);
}

std::int64_t freeBytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) return -1;
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

bool writeAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// A stamp that changes when the file is written to; empty if it does not exist.
std::string stampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return {};
  return fmt::format("{} {} {} {}.{:09}", path, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

}  // namespace

Bytes::~Bytes() {
  if (map_ != nullptr) munmap(const_cast<char*>(map_), size_);
}

Bytes& Bytes::operator=(Bytes&& other) noexcept {
  std::swap(own_, other.own_);
  std::swap(map_, other.map_);
  std::swap(size_, other.size_);
  return *this;
}

Result<Bytes> Bytes::map(int fd, std::size_t size) {
  Bytes out;
  if (size == 0) return out;
  void* const at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return systemError(errno, "cannot map a file");
  out.map_ = static_cast<const char*>(at);
  out.size_ = size;
  return out;
}

std::string idxDecoding() { return "idx"; }
std::string tableDecoding(const TableFile& table) {
  std::string out = fmt::format("table.{}.{}.{}.{}", table.numbers, table.columns, table.categories,
                                table.classes);
  if (!table.csv) return out;
  const CsvColumns& csv = *table.csv;
  std::string names =
      fmt::format("{} {} {}", static_cast<int>(csv.separator), csv.header, csv.logarithm);
  const auto add = [&](const std::vector<std::string>& list) {
    names += fmt::format(" {}", list.size());
    for (const std::string& name : list) names += fmt::format(" {}:{}", name.size(), name);
  };
  add({csv.label});
  for (const auto* list : {&csv.numbers, &csv.categories, &csv.classes}) add(*list);
  return out + ".csv-" + sha256Hex(names);
}

Result<Decoded> openDecoded(const std::string& path, std::string_view decoding) {
  const UniqueFd file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return systemError(errno, message("cannot open the decoded data {}", path));
  struct stat info {};
  if (fstat(file.get(), &info) != 0)
    return systemError(errno, message("cannot read the decoded data {}", path));
  const auto size = static_cast<std::int64_t>(info.st_size),
             pageBytes = static_cast<std::int64_t>(kPage);
  if (!S_ISREG(info.st_mode) || size < pageBytes) return dataLoss(path, "it is too short");
  std::string page(kPage, '\0');
  if (pread(file.get(), page.data(), kPage, size - pageBytes) != static_cast<ssize_t>(kPage))
    return systemError(errno, message("cannot read the decoded data {}", path));
  Decoded out;
  if (!readPage(page, decoding, out))
    return dataLoss(path, "its last page is not what was written");
  if (out.size != size - pageBytes)
    return dataLoss(path,
                    message("it has {} bytes of elements, not {}", size - pageBytes, out.size));
  LOCKSTEP_ASSIGN(out.bytes, Bytes::map(file.get(), static_cast<std::size_t>(size)));
  return out;
}

namespace {

// Compares the elements with their hash.
Status checkElements(const std::string& path, const Decoded& file, const Progress& progress) {
  Sha256 hash;
  const std::string_view all = file.elements();
  for (std::size_t at = 0; at < all.size();) {
    const std::string_view piece = all.substr(at, static_cast<std::size_t>(kLook));
    hash.update(piece);
    at += piece.size();
    LOCKSTEP_TRY(report(progress, static_cast<std::int64_t>(at), file.size));
  }
  if (hash.hex() != file.sha256) return dataLoss(path, "it is not what was written");
  return {};
}

}  // namespace

struct DecodedFolder::Entry {
  std::string path;
  std::int64_t bytes = 0;
  timespec used{};
};

DecodedFolder::DecodedFolder(std::string path, Limits limits)
    : path_(std::move(path)), limits_(limits) {
  for (const auto& entry : listFolder(path_))
    if (entry.filename().string().starts_with(kPart)) removeLeftPart(entry);
}

std::string DecodedFolder::nameOf(std::string_view decoding, std::string_view sha256) const {
  return fmt::format("{}/{}-{}", path_, decoding, sha256);
}

std::vector<DecodedFolder::Entry> DecodedFolder::entries() const {
  std::vector<Entry> out;
  for (const auto& entry : listFolder(path_)) {
    struct stat info {};
    if (entry.filename().string().starts_with('.') || stat(entry.c_str(), &info) != 0) continue;
    out.push_back({entry, static_cast<std::int64_t>(info.st_size), info.st_atim});
  }
  std::sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return out;
}

std::string DecodedFolder::find(std::string_view decoding, std::string_view sha256,
                                const Progress& progress) {
  std::string path = nameOf(decoding, sha256);
  const std::string stamp = stampOf(path);
  if (stamp.empty()) return {};
  const bool known = [&] {
    const std::lock_guard lock(mutex_);
    return whole_.contains(stamp);
  }();
  auto opened = openDecoded(path, decoding);
  if (opened.ok() && opened->facts.sha256 != sha256)
    opened = dataLoss(path, "it is not what was written");
  Status whole = opened.status();
  if (whole.ok() && !known) whole = checkElements(path, *opened, progress);
  const std::lock_guard lock(mutex_);
  if (!whole.ok()) {
    if (whole.code() == Code::kCancelled) return {};
    logWarning("{}", whole.error().text());
    // Not one that was put in its place meanwhile.
    if (whole.code() == Code::kDataLoss && stampOf(path) == stamp) unlink(path.c_str());
    return {};
  }
  whole_.insert(stamp);
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  utimensat(AT_FDCWD, path.c_str(), times, 0);
  return path;
}

bool DecodedFolder::takes(std::int64_t bytes) const {
  std::int64_t others = 0;
  for (const Entry& entry : entries()) others += entry.bytes;
  std::error_code failed;
  fs::path there = path_;
  while (!fs::exists(there, failed) && there.has_parent_path() && there != there.parent_path())
    there = there.parent_path();
  const std::int64_t free = freeBytes(there.string()),
                     whole = bytes + static_cast<std::int64_t>(kPage);
  return whole <= limits_.bytes && free + others >= whole + limits_.leftFree;
}

void DecodedFolder::makeRoom(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries()) {
    const std::int64_t free = freeBytes(path_);
    if (free < 0 || free >= bytes) return;
    unlink(entry.path.c_str());
  }
}

bool DecodedFolder::makeRoomFor(std::int64_t written, std::int64_t more) {
  const std::lock_guard lock(mutex_);
  std::int64_t others = 0;
  const std::vector<Entry> there = entries();
  for (const Entry& entry : there) others += entry.bytes;
  const std::int64_t left = limits_.leftFree + more;
  if (written + more > limits_.bytes || freeBytes(path_) + others < left) return false;
  for (const Entry& entry : there) {
    if (written + more + others <= limits_.bytes && freeBytes(path_) >= left) break;
    unlink(entry.path.c_str());
    others -= entry.bytes;
  }
  return freeBytes(path_) >= left;
}

struct DecodedFolder::Writer::State {
  DecodedFolder& folder;
  std::string decoding;
  std::string path;
  UniqueFd file;
  Sha256 hash;
  std::int64_t size = 0, room = 0;

  ~State() {
    if (!path.empty()) unlink(path.c_str());
  }
};

DecodedFolder::Writer::Writer(DecodedFolder* folder, std::string decoding) {
  if (folder == nullptr) return;
  std::error_code failed;
  fs::create_directories(folder->path_, failed);
  fs::permissions(folder->path_, fs::perms::owner_all, failed);
  std::unique_ptr<State> state(new State{*folder, std::move(decoding)});
  std::string path;
  {
    const std::lock_guard lock(folder->mutex_);
    path = fmt::format("{}/{}{}-{}", folder->path_, kPart, getpid(), ++folder->parts_);
  }
  state->file.reset(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400));
  if (!state->file) return;
  (void)holdPart(state->file.get());
  state->path = path;
  state_ = std::move(state);
}

DecodedFolder::Writer::~Writer() = default;

void DecodedFolder::Writer::expect(std::int64_t bytes) {
  if (state_ && !state_->folder.takes(bytes)) state_.reset();
}

void DecodedFolder::Writer::add(std::string_view elements) {
  if (!state_) return;
  state_->size += static_cast<std::int64_t>(elements.size());
  while (state_->size > state_->room) {
    if (!state_->folder.makeRoomFor(state_->room, kLook)) return state_.reset();
    state_->room += kLook;
  }
  state_->hash.update(elements);
  if (!writeAll(state_->file.get(), elements)) state_.reset();
}

void DecodedFolder::Writer::keep(const FileFacts& facts) {
  if (!state_) return;
  const std::unique_ptr<State> state = std::move(state_);
  DecodedFolder& folder = state->folder;
  const std::string name = folder.nameOf(state->decoding, facts.sha256);
  if (!writeAll(state->file.get(),
                pageText(state->decoding, facts, state->size, state->hash.hex())))
    return;
  // Not synced: find() detects incomplete files after a crash.
  const std::lock_guard lock(folder.mutex_);
  if (rename(state->path.c_str(), name.c_str()) != 0) return;
  state->path.clear();
  folder.whole_.insert(stampOf(name));
}

}  // namespace lockstep::data
