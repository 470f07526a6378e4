// make-data images: pictures to IDX files.
#include <charconv>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "engine/pictures/image_set.h"

namespace lockstep::app::cli {
namespace {

Result<pictures::ImageForm> formOf(const Arguments& arguments) {
  constexpr std::int64_t kLargest = 4096;
  const std::string text = arguments.text("size", "");
  pictures::ImageForm out;
  out.grey = arguments.has("grey");
  const char* const end = text.data() + text.size();
  const auto height = std::from_chars(text.data(), end, out.height);
  const bool both = height.ec == std::errc() && height.ptr != end && *height.ptr == 'x';
  const auto width = both ? std::from_chars(height.ptr + 1, end, out.width) : height;
  if (both && width.ec == std::errc() && width.ptr == end && out.height >= 1 && out.width >= 1 &&
      out.height <= kLargest && out.width <= kLargest)
    return out;
  if (!arguments.has("size")) return invalidArgument("--size is missing; expected 32x32, say");
  return invalidArgument("--size {}: expected height and width up to {}, as 32x32", text, kLargest);
}

struct Made {
  pictures::ImageSet set;
  std::vector<Error> damaged;  // pictures that were left out
  pictures::ImageFiles files;
};

Result<Made> make(const Arguments& arguments) {
  LOCKSTEP_ASSIGN(const pictures::ImageForm form, formOf(arguments));
  const std::string to = arguments.text("to", "");
  if (to.empty())
    return invalidArgument("--to is missing; expected the beginning of the files' names");
  std::vector<std::string> classes;
  if (arguments.has("classes")) {
    LOCKSTEP_ASSIGN(classes, pictures::readClasses(arguments.text("classes", "")));
  }
  Made out;
  LOCKSTEP_ASSIGN(out.set, pictures::findImages(arguments.words()[0], classes));
  ProgressLine line;
  const Progress progress = [&](std::int64_t done, std::int64_t total) {
    line.show(fmt::format("{} of {} pictures", done, total));
    return !isInterrupted();
  };
  if (arguments.has("skip-damaged")) {
    LOCKSTEP_ASSIGN(out.damaged, pictures::removeDamaged(out.set, progress));
  }
  auto written = pictures::writeImages(out.set, form, to, progress);
  if (!written.ok()) {
    Error error = written.error();
    if (error.code == Code::kDataLoss) error.next = "repair or remove it, or add --skip-damaged";
    return error;
  }
  out.files = *written;
  return out;
}

}  // namespace

int makeImagesCommand(const Globals&, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto made = make(arguments);
  if (!made.ok()) {
    report(made.error(), json);
    return exitCodeOf(made.error());
  }
  if (json) {
    for (const Error& one : made->damaged) errorLine(one, "skipped").print();
    JsonLine("images")
        .add("images", made->files.images)
        .add("labels", made->files.labels)
        .add("classes", made->files.classes)
        .add("count", std::ssize(made->set.images))
        .addRaw("names", jsonTexts(made->set.classes))
        .print();
    return kSucceeded;
  }
  for (const Error& one : made->damaged)
    put(stderr, fmt::format("left out: {}\n", printable(one.text())));
  put(stdout,
      fmt::format("{} images of {} classes in {} and {}; their names in {}\n",
                  made->set.images.size(), made->set.classes.size(), printable(made->files.images),
                  printable(made->files.labels), printable(made->files.classes)));
  return kSucceeded;
}

}  // namespace lockstep::app::cli
