#include "engine/pictures/picture.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>
#include <memory>
#include <vector>

namespace lockstep::pictures {
namespace {

constexpr std::int64_t kMostPixels = 64'000'000;

Status checkSize(std::int64_t height, std::int64_t width) {
  if (height >= 1 && width >= 1 && height <= kMostPixels / width) return {};
  return makeError(Code::kResourceExhausted, "it is {}x{}; at most {} million pixels are read",
                   height, width, kMostPixels / 1'000'000);
}

std::string room(const Picture& picture, std::int64_t channels) {
  return std::string(static_cast<std::size_t>(picture.height * picture.width * channels), '\0');
}

Result<Picture> decodeJpeg(std::string_view file) {
  const std::unique_ptr<void, int (*)(tjhandle)> jpeg(tjInitDecompress(), tjDestroy);
  if (!jpeg) return makeError(Code::kResourceExhausted, "no memory for the JPEG decoder");
  const auto damaged = [&] {
    return makeError(Code::kDataLoss, "as a JPEG file it is damaged: {}",
                     std::string(tjGetErrorStr2(jpeg.get())));
  };
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = 0, height = 0, sampling = 0, colors = 0;
  if (tjDecompressHeader3(jpeg.get(), bytes, file.size(), &width, &height, &sampling, &colors) != 0)
    return damaged();
  if (colors == TJCS_CMYK || colors == TJCS_YCCK)
    return invalidArgument("its colours are CMYK; expected RGB or grey");
  LOCKSTEP_TRY(checkSize(height, width));
  Picture out{height, width, 3, {}};
  out.pixels = room(out, 3);
  // Warnings count as errors: of a file that is cut off the rest would be grey.
  if (tjDecompress2(jpeg.get(), bytes, file.size(),
                    reinterpret_cast<unsigned char*>(out.pixels.data()), width, 0, height, TJPF_RGB,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0)
    return damaged();
  return out;
}

// What libpng reads from, and why it failed. Where it fails it jumps over frames, so that those
// hold nothing that has a destructor.
struct PngSource {
  std::string_view left;
  char why[128] = "";
};

void readPng(png_structp png, png_bytep out, std::size_t bytes) {
  auto& source = *static_cast<PngSource*>(png_get_io_ptr(png));
  if (source.left.size() < bytes) png_error(png, "it ends early");
  std::copy_n(source.left.data(), bytes, reinterpret_cast<char*>(out));
  source.left.remove_prefix(bytes);
}

[[noreturn]] void failPng(png_structp png, png_const_charp why) {
  auto& source = *static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(source.why, sizeof source.why, "%s", why);
  png_longjmp(png, 1);
}

void warnPng(png_structp, png_const_charp) {}

class PngReader {
 public:
  explicit PngReader(std::string_view file)
      : source_{file},
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, failPng, warnPng)) {
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    png_set_read_fn(png_, &source_, readPng);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool isMade() const { return info_ != nullptr; }
  std::string why() const { return source_.why; }
  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }

  // Both return false where the file is damaged.
  bool readHeader() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    // Neither texts, which may be large once unpacked, nor the profile of colours are read.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool readPixels(char* pixels) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const std::size_t row = png_get_rowbytes(png_, info_);
    if (row != 3 * static_cast<std::size_t>(width())) png_error(png_, "its rows are too long");
    for (int pass = 0; pass < passes_; ++pass)
      for (png_uint_32 y = 0; y < png_get_image_height(png_, info_); ++y)
        png_read_row(png_, reinterpret_cast<png_bytep>(pixels + y * row), nullptr);
    return true;
  }

 private:
  PngSource source_;
  png_structp png_;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

Result<Picture> decodePng(std::string_view file) {
  PngReader png(file);
  if (!png.isMade()) return makeError(Code::kResourceExhausted, "no memory for the PNG decoder");
  const auto damaged = [&] {
    return makeError(Code::kDataLoss, "as a PNG file it is damaged: {}", png.why());
  };
  if (!png.readHeader()) return damaged();
  LOCKSTEP_TRY(checkSize(png.height(), png.width()));
  Picture out{png.height(), png.width(), 3, {}};
  out.pixels = room(out, 3);
  if (!png.readPixels(out.pixels.data())) return damaged();
  return out;
}

// The source elements that an element of the result is the weighted mean of.
struct Weights {
  std::int64_t first = 0;
  std::vector<float> factors;
};

// From `from` elements, of which those of [begin, begin + length) become `to`.
std::vector<Weights> triangle(std::int64_t from, double begin, double length, std::int64_t to) {
  const double scale = length / static_cast<double>(to), reach = std::max(scale, 1.0);
  std::vector<Weights> out;
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - reach + 0.5));
    const auto last = std::min(from, static_cast<std::int64_t>(center + reach + 0.5));
    Weights one{first, {}};
    double sum = 0;
    for (std::int64_t at = first; at < last; ++at) {
      const double far = std::abs(static_cast<double>(at) + 0.5 - center) / reach;
      one.factors.push_back(static_cast<float>(std::max(0.0, 1 - far)));
      sum += one.factors.back();
    }
    for (float& factor : one.factors) factor = static_cast<float>(factor / sum);
    out.push_back(std::move(one));
  }
  return out;
}

// Scales along one axis: of `outer` groups of elements that lie `step` bytes apart.
struct Axis {
  std::int64_t outer = 0, from = 0, step = 0;
};
std::string scaled(std::string_view pixels, const Axis& axis, const std::vector<Weights>& weights) {
  const auto to = std::ssize(weights);
  std::string out(static_cast<std::size_t>(axis.outer * to * axis.step), '\0');
  for (std::int64_t group = 0; group < axis.outer; ++group)
    for (std::int64_t i = 0; i < to; ++i) {
      const Weights& one = weights[static_cast<std::size_t>(i)];
      const char* const source = pixels.data() + (group * axis.from + one.first) * axis.step;
      char* const target = out.data() + (group * to + i) * axis.step;
      for (std::int64_t byte = 0; byte < axis.step; ++byte) {
        float sum = 0.5F;
        for (std::size_t k = 0; k < one.factors.size(); ++k)
          sum += one.factors[k] * static_cast<float>(static_cast<unsigned char>(
                                      source[static_cast<std::int64_t>(k) * axis.step + byte]));
        target[byte] = static_cast<char>(static_cast<int>(std::min(sum, 255.0F)));
      }
    }
  return out;
}

}  // namespace

Result<Picture> decodePicture(std::string_view file) {
  if (file.starts_with("\xff\xd8")) return decodeJpeg(file);
  if (file.starts_with("\x89PNG")) return decodePng(file);
  return invalidArgument("it is neither a JPEG nor a PNG file");
}

Picture grey(const Picture& picture) {
  Picture out{picture.height, picture.width, 1, {}};
  out.pixels = room(out, 1);
  for (std::size_t i = 0; i < out.pixels.size(); ++i) {
    const auto at = [&](std::size_t channel) {
      return static_cast<unsigned char>(picture.pixels[3 * i + channel]);
    };
    // In units of 1/65536, rounded.
    out.pixels[i] =
        static_cast<char>((19595 * at(0) + 38470 * at(1) + 7471 * at(2) + 0x8000) >> 16);
  }
  return out;
}

// Scales the width of the rows that the second pass reads alone: a tall picture has many others.
Picture fit(const Picture& picture, std::int64_t height, std::int64_t width) {
  const auto h = static_cast<double>(picture.height), w = static_cast<double>(picture.width);
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  const double cutWidth = std::min(w, h * ratio), cutHeight = std::min(h, w / ratio);
  const std::vector<Weights> across = triangle(picture.width, (w - cutWidth) / 2, cutWidth, width);
  std::vector<Weights> down = triangle(picture.height, (h - cutHeight) / 2, cutHeight, height);
  const std::int64_t first = down.front().first,
                     rows = down.back().first + std::ssize(down.back().factors) - first,
                     row = picture.width * picture.channels;
  for (Weights& one : down) one.first -= first;
  Picture out{height, width, picture.channels, {}};
  const std::string_view read(picture.pixels.data() + first * row,
                              static_cast<std::size_t>(rows * row));
  out.pixels = scaled(read, {rows, picture.width, picture.channels}, across);
  out.pixels = scaled(out.pixels, {1, rows, width * picture.channels}, down);
  return out;
}

}  // namespace lockstep::pictures
