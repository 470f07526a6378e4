#include "engine/pictures/image_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "engine/base/file.h"
#include "engine/base/threads.h"
#include "engine/data/content.h"
#include "engine/data/idx_header.h"
#include "engine/pictures/picture.h"

namespace lockstep::pictures {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = std::size_t{256} << 20, kLargestList = std::size_t{256} << 20,
                      kLargestClasses = std::size_t{16} << 20;
constexpr std::int64_t kMostNarrowClasses = 256;  // whose labels are a byte each

std::string textOf(const fs::path& path) { return path.string(); }

bool isPicture(const fs::path& path) {
  std::string end = path.extension().string();
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return std::tolower(c); });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

bool isHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool isFolder(const fs::path& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

// Device and inode of a folder, links followed.
using FolderId = std::pair<dev_t, ino_t>;
std::optional<FolderId> idOf(const fs::path& folder) {
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return std::nullopt;
  return FolderId{info.st_dev, info.st_ino};
}

Result<std::vector<fs::path>> entriesOf(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    out.push_back(entry->path());
  if (failed) return systemError(failed.value(), message("cannot list {}", textOf(folder)));
  return out;
}

// Returns the pictures in the folder of a class and below. A folder that several links lead to is
// read once, and `root`, the folder of all classes, is not read.
Result<std::vector<std::string>> picturesIn(const fs::path& folder, const FolderId& root) {
  std::vector<std::string> out;
  std::set<FolderId> visited{root};
  std::vector<fs::path> left{folder};
  while (!left.empty()) {
    const fs::path next = std::move(left.back());
    left.pop_back();
    const auto id = idOf(next);
    if (id && !visited.insert(*id).second) continue;
    LOCKSTEP_ASSIGN(const std::vector<fs::path> entries, entriesOf(next));
    for (const fs::path& path : entries) {
      if (isHidden(path)) continue;
      if (isFolder(path))
        left.push_back(path);
      else if (isPicture(path))
        out.push_back(textOf(path));
    }
  }
  std::ranges::sort(out);
  return out;
}

// Numbers the classes that occur: as given, or in their order.
class Numbers {
 public:
  static Result<Numbers> of(const std::set<std::string>& names,
                            const std::vector<std::string>& given, const std::string& source) {
    Numbers out;
    out.classes_ = given.empty() ? inOrder(names) : given;
    for (int label = 0; label < static_cast<int>(out.classes_.size()); ++label)
      out.labels_[out.classes_[static_cast<std::size_t>(label)]] = label;
    for (const std::string& name : names) {
      if (name.find_first_of("\r\n") != std::string::npos)  // they become lines of a file
        return invalidArgument("{} has a class with a line break in its name", source);
      if (!out.labels_.contains(name)) {
        Error error = invalidArgument("{} has the class {}", source, name);
        error.why = message("the given classes are {}", fmt::format("{}", fmt::join(given, ", ")));
        return error;
      }
    }
    return out;
  }
  int operator[](const std::string& name) const { return labels_.at(name); }
  std::vector<std::string> take() { return std::move(classes_); }

 private:
  static std::optional<std::int64_t> number(const std::string& text) {
    std::int64_t out = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return out;
  }
  static std::vector<std::string> inOrder(const std::set<std::string>& names) {
    std::vector<std::string> out(names.begin(), names.end());
    if (std::ranges::all_of(out, [](const std::string& name) { return number(name).has_value(); }))
      std::ranges::stable_sort(out, {}, [](const std::string& name) { return *number(name); });
    return out;
  }

  std::vector<std::string> classes_;
  std::map<std::string, int> labels_;
};

Result<ImageSet> findInFolder(const fs::path& folder, const std::vector<std::string>& given) {
  std::map<std::string, std::vector<std::string>> found;  // by class
  LOCKSTEP_ASSIGN(const std::vector<fs::path> entries, entriesOf(folder));
  const FolderId root = idOf(folder).value_or(FolderId{});
  for (const fs::path& path : entries) {
    if (!isFolder(path) || isHidden(path) || idOf(path) == root) continue;
    LOCKSTEP_ASSIGN(found[textOf(path.filename())], picturesIn(path, root));
  }
  if (found.empty()) {
    Error error = invalidArgument("{} has no folders", folder.string());
    error.why = message("each folder in it is a class of pictures");
    return error;
  }
  std::set<std::string> names;
  for (const auto& [name, pictures] : found) names.insert(name);
  LOCKSTEP_ASSIGN(Numbers numbers, Numbers::of(names, given, folder.string()));
  ImageSet out;
  for (auto& [name, pictures] : found)
    for (std::string& path : pictures) out.images.push_back({std::move(path), numbers[name]});
  std::ranges::stable_sort(out.images, {}, &ImageSet::Image::label);
  out.classes = numbers.take();
  return out;
}

Error atLine(const std::string& list, std::size_t line, Message why) {
  Error error = makeError(Code::kDataLoss, "{}, line {}", list, line);
  error.why = std::move(why);
  return error;
}

Result<ImageSet> findInList(const std::string& list, const std::vector<std::string>& given) {
  LOCKSTEP_ASSIGN(const std::string text, readFile(list, kLargestList));
  const fs::path folder = fs::path(list).parent_path();
  std::vector<std::pair<std::string, std::string>> found;  // path, class
  std::set<std::string> names;
  std::size_t line = 0;
  for (std::string_view rest = text; !rest.empty();) {
    ++line;
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view row = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (!row.empty() && (row.back() == '\r' || row.back() == ' ')) row.remove_suffix(1);
    if (row.empty()) continue;
    // A path may have spaces where a tab ends it.
    std::size_t cut = row.find('\t');
    if (cut == std::string_view::npos) cut = row.rfind(' ');
    if (cut == std::string_view::npos || cut == 0)
      return atLine(list, line,
                    message("a path and a class were expected, with a tab or a space "
                            "between them"));
    std::string_view path = row.substr(0, cut), name = row.substr(cut + 1);
    while (path.ends_with(' ')) path.remove_suffix(1);
    while (name.starts_with(' ') || name.starts_with('\t')) name.remove_prefix(1);
    if (path.empty() || name.empty()) return atLine(list, line, message("the class is missing"));
    found.emplace_back(textOf(folder / path), name);
    names.emplace(name);
  }
  LOCKSTEP_ASSIGN(Numbers numbers, Numbers::of(names, given, list));
  ImageSet out;
  for (auto& [path, name] : found) out.images.push_back({std::move(path), numbers[name]});
  out.classes = numbers.take();
  return out;
}

Result<Picture> readPicture(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string bytes, readFile(path, kLargestFile));
  auto picture = decodePicture(bytes);
  if (picture.ok()) return picture;
  Error error = makeError(picture.error().code, "the picture {}", path);
  error.why = picture.error().what;
  return error;
}

// Calls `each` for all images, on all cores, and `take` with the results, of so many bytes each, in
// the order of the images.
template <typename Each, typename Take>
Status forAll(const ImageSet& set, std::size_t bytes, const Each& each, const Take& take,
              const Progress& progress) {
  using Out = std::invoke_result_t<Each, const std::string&>;
  constexpr std::size_t kMost = 16, kMostBytes = std::size_t{16} << 20;  // of a thread
  const std::size_t atOnce =
      std::clamp<std::size_t>(kMostBytes / std::max<std::size_t>(bytes, 1), 1, kMost);
  const std::size_t threads = std::max<std::size_t>(1, givenCores().size());
  const std::vector<ImageSet::Image>& images = set.images;
  for (std::size_t begin = 0; begin < images.size(); begin += threads * atOnce) {
    std::vector<std::future<std::vector<Out>>> parts;
    for (std::size_t t = 0; t < threads; ++t) {
      const std::size_t from = std::min(images.size(), begin + t * atOnce);
      const std::size_t to = std::min(images.size(), from + atOnce);
      parts.push_back(std::async(std::launch::async, [&images, &each, from, to] {
        std::vector<Out> out;
        for (std::size_t i = from; i < to; ++i) out.push_back(each(images[i].path));
        return out;
      }));
    }
    std::size_t at = begin;
    for (auto& part : parts)
      for (Out& out : part.get()) LOCKSTEP_TRY(take(at++, std::move(out)));
    LOCKSTEP_TRY(report(progress, static_cast<std::int64_t>(at), std::ssize(images)));
  }
  return {};
}

std::string labelBytes(const ImageSet& set, int elementBytes) {
  std::string out = data::idxHeader({std::ssize(set.images)}, elementBytes);
  for (const ImageSet::Image& image : set.images)
    for (int shift = 8 * (elementBytes - 1); shift >= 0; shift -= 8)
      out += static_cast<char>(image.label >> shift & 0xff);
  return out;
}

Status checkSize(const ImageSet& set, const ImageForm& form, std::int64_t channels) {
  if (set.images.empty()) return invalidArgument("there are no pictures");
  const double bytes = static_cast<double>(set.images.size()) * static_cast<double>(form.height) *
                       static_cast<double>(form.width) * static_cast<double>(channels);
  if (bytes < static_cast<double>(data::kLargestContent)) return {};
  Error error = makeError(Code::kResourceExhausted, "the images are too large for one file");
  error.why =
      message("{} of {}x{}x{} bytes are {:.1f} GiB; a file has at most {}", set.images.size(),
              form.height, form.width, channels, bytes / 0x1p30, data::kLargestContent >> 30);
  error.next = "choose a smaller size, or fewer pictures";
  return error;
}

}  // namespace

Result<ImageSet> findImages(const std::string& source, const std::vector<std::string>& classes) {
  std::error_code failed;
  if (!fs::exists(source, failed)) return makeError(Code::kNotFound, "{} does not exist", source);
  return isFolder(source) ? findInFolder(source, classes) : findInList(source, classes);
}

Result<std::vector<std::string>> readClasses(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, readFile(path, kLargestClasses));
  std::vector<std::string> out;
  std::set<std::string> known;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (name.ends_with('\r')) name.remove_suffix(1);
    out.emplace_back(name);
    if (name.empty()) return atLine(path, out.size(), message("the name of a class was expected"));
    if (!known.insert(out.back()).second)
      return atLine(path, out.size(), message("the class {} stands there twice", out.back()));
  }
  if (out.empty()) return atLine(path, 1, message("the name of a class was expected"));
  return out;
}

Result<std::vector<Error>> removeDamaged(ImageSet& set, const Progress& progress) {
  std::vector<Error> out;
  std::vector<ImageSet::Image> whole;
  LOCKSTEP_TRY(forAll(
      set, sizeof(Error), [](const std::string& path) { return readPicture(path).status(); },
      [&](std::size_t i, Status status) -> Status {
        if (status.ok())
          whole.push_back(set.images[i]);
        else
          out.push_back(status.error());
        return {};
      },
      progress));
  set.images = std::move(whole);
  return out;
}

Result<ImageFiles> writeImages(const ImageSet& set, const ImageForm& form,
                               const std::string& prefix, const Progress& progress) {
  const std::int64_t channels = form.grey ? 1 : 3;
  LOCKSTEP_TRY(checkSize(set, form, channels));
  const auto made = [&](const std::string& path) -> Result<std::string> {
    LOCKSTEP_ASSIGN(const Picture picture, readPicture(path));
    Picture out = fit(picture, form.height, form.width);
    return form.grey ? grey(out).pixels : std::move(out.pixels);
  };
  const ImageFiles out{prefix + "-images.idx", prefix + "-labels.idx", prefix + "-classes.txt"};
  LOCKSTEP_TRY(writeFileAtomically(out.images, [&](const Append& append) -> Status {
    std::vector<std::int64_t> dimensions{std::ssize(set.images), form.height, form.width};
    if (channels > 1) dimensions.push_back(channels);
    LOCKSTEP_TRY(append(data::idxHeader(dimensions, 1)));
    return forAll(
        set, static_cast<std::size_t>(form.height * form.width * channels), made,
        [&](std::size_t, Result<std::string> pixels) -> Status {
          LOCKSTEP_TRY(pixels.status());
          return append(*pixels);
        },
        progress);
  }));
  const int elementBytes = std::ssize(set.classes) <= kMostNarrowClasses ? 1 : 4;
  LOCKSTEP_TRY(writeFileAtomically(out.labels, labelBytes(set, elementBytes)));
  LOCKSTEP_TRY(writeFileAtomically(out.classes, fmt::format("{}\n", fmt::join(set.classes, "\n"))));
  return out;
}

}  // namespace lockstep::pictures
