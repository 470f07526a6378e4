// Pixels of images of the format ARGB32_Premultiplied.
#pragma once

#include <qrgb.h>

namespace lockstep::ui {

// Source-over of a premultiplied colour on a premultiplied pixel.
inline QRgb blend(QRgb over, QRgb under) {
  const unsigned keep = 255 - qAlpha(over);
  const auto mix = [&](unsigned a, unsigned b) { return a + (b * keep + 127) / 255; };
  return qRgba(static_cast<int>(mix(qRed(over), qRed(under))),
               static_cast<int>(mix(qGreen(over), qGreen(under))),
               static_cast<int>(mix(qBlue(over), qBlue(under))),
               static_cast<int>(mix(qAlpha(over), qAlpha(under))));
}

}  // namespace lockstep::ui
