// Pictures: JPEG and PNG files as pixels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace lockstep::pictures {

// u8[height × width × channels]: row by row, of a pixel its channels: red, green, blue, or grey
// alone.
struct Picture {
  std::int64_t height = 0, width = 0, channels = 3;
  std::string pixels;
};

// Decodes a JPEG or PNG file of at most 64 million pixels to red, green and blue. Of 16 bits a
// channel the upper eight count. Opacity is left out, as are the profile of colours and gamma, and
// the orientation that a camera notes (Exif). As Pillow's convert("RGB"), but for grey of 16 bits,
// which that cuts off at 255. Errors:
// kDataLoss for what is damaged or cut off, kInvalidArgument for other formats and CMYK, both
// without the name of the file.
Result<Picture> decodePicture(std::string_view file);

// ITU-R BT.601: 0.299 red + 0.587 green + 0.114 blue, as Pillow's mode L.
Picture grey(const Picture& picture);

// The largest part in the middle of the picture that has the proportions height : width, scaled to
// that size. The filter is a triangle, as wide as two pixels of the larger of the two sizes:
// Pillow's ImageOps.fit with BILINEAR. Beside the result it needs memory for the rows of that part
// at the new width. Precondition: no extent is 0.
Picture fit(const Picture& picture, std::int64_t height, std::int64_t width);

}  // namespace lockstep::pictures
