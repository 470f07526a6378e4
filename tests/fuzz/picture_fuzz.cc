// JPEG and PNG files ('p' and the file), lists of pictures ('l') and files of classes ('c').
#include "engine/pictures/picture.h"

#include "engine/pictures/image_set.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/pictures.h"

namespace lockstep::fuzz {

std::vector<std::string> seeds() {
  std::string pixels;
  for (int i = 0; i < 9 * 10 * 3; ++i) pixels += static_cast<char>(37 * i);
  return {"p" + tests::jpegOf(9, 10, pixels, 80),
          "p" + tests::pngOf(9, 10, PNG_FORMAT_RGB, pixels),
          "p" + tests::pngOf(9, 10, PNG_FORMAT_GRAY, pixels),
          "p" + tests::pngOf(20000, 1, PNG_FORMAT_GRAY, std::string(20000, '\x55')),
          "la.png\t1\nb c.jpg 2\n",
          "cone\ntwo\r\nthree\n"};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::string_view file = fuzz::textOf(bytes + 1, size - 1);
  if (*bytes == 'p') {
    const auto picture = pictures::decodePicture(file);
    if (!picture.ok()) return 0;
    const pictures::Picture small = pictures::grey(pictures::fit(*picture, 3, 4));
    LOCKSTEP_CHECK(small.pixels.size() == 12);
    LOCKSTEP_CHECK(pictures::fit(*picture, 64, 512).pixels.size() == 3 * 64 * 512);
    return 0;
  }
  if (*bytes == 'c') {
    (void)pictures::readClasses(fuzz::scratchFile("classes", file));
    return 0;
  }
  const auto set = pictures::findImages(fuzz::scratchFile("list", file), {});
  if (!set.ok()) return 0;
  for (const pictures::ImageSet::Image& image : set->images)
    LOCKSTEP_CHECK(image.label >= 0 && image.label < std::ssize(set->classes));
  return 0;
}
