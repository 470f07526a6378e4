#include "engine/pictures/picture.h"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
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

Result<Picture> decodePng(std::string_view file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_imagep)> freed(&image, png_image_free);
  const auto damaged = [&] {
    return makeError(Code::kDataLoss, "as a PNG file it is damaged: {}",
                     std::string(image.message));
  };
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) return damaged();
  LOCKSTEP_TRY(checkSize(image.height, image.width));
  Picture out{image.height, image.width, 3, {}};
  image.format = PNG_FORMAT_RGBA;  // not mixed with a background, as without opacity
  std::string pixels = room(out, 4);
  if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) return damaged();
  out.pixels = room(out, 3);
  for (std::size_t i = 0; 4 * i < pixels.size(); ++i)
    std::copy_n(pixels.data() + 4 * i, 3, out.pixels.data() + 3 * i);
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
std::string scaled(const std::string& pixels, const Axis& axis,
                   const std::vector<Weights>& weights) {
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

Picture fit(const Picture& picture, std::int64_t height, std::int64_t width) {
  const auto h = static_cast<double>(picture.height), w = static_cast<double>(picture.width);
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  const double cutWidth = std::min(w, h * ratio), cutHeight = std::min(h, w / ratio);
  Picture out{height, width, picture.channels, {}};
  out.pixels = scaled(picture.pixels, {picture.height, picture.width, picture.channels},
                      triangle(picture.width, (w - cutWidth) / 2, cutWidth, width));
  out.pixels = scaled(out.pixels, {1, picture.height, width * picture.channels},
                      triangle(picture.height, (h - cutHeight) / 2, cutHeight, height));
  return out;
}

}  // namespace lockstep::pictures
