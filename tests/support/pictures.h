// JPEG and PNG files, as the libraries write them.
#pragma once

#include <png.h>
#include <turbojpeg.h>

#include <stdexcept>
#include <string>

namespace lockstep::tests {

// `format`: PNG_FORMAT_RGB and the like; `pixels` has as many bytes a pixel as that has channels.
inline std::string pngOf(int height, int width, png_uint_32 format, const std::string& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = format;
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  std::string out(size, '\0');
  if (png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  out.resize(size);
  return out;
}

// Of red, green and blue; `quality` up to 100.
inline std::string jpegOf(int height, int width, const std::string& pixels, int quality) {
  const tjhandle jpeg = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT: the library's type
  const int failed =
      tjCompress2(jpeg, reinterpret_cast<const unsigned char*>(pixels.data()), width, 0, height,
                  TJPF_RGB, &bytes, &size, TJSAMP_444, quality, TJFLAG_ACCURATEDCT);
  std::string out(reinterpret_cast<const char*>(bytes), failed == 0 ? size : 0);
  tjFree(bytes);
  tjDestroy(jpeg);
  if (failed != 0) throw std::runtime_error("the picture was not written");
  return out;
}

}  // namespace lockstep::tests
