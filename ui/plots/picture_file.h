// Pictures of plots as files: PNG at twice the density of a screen, SVG and PDF with lines and
// texts as such. Threads: GUI.
#pragma once

#include <QSize>
#include <QString>
#include <functional>

#include "engine/base/status.h"
#include "ui/theme/theme.h"

class QCPPainter;
class QWidget;

namespace lockstep::ui {

enum class PictureLook { kCurrent, kLight };  // the studio's theme, or light for print

inline constexpr int kPictureTitle = 26;  // the height of a title above what is drawn

// Draws a picture of `size` at (0, 0); the theme is that of the picture meanwhile.
struct Picture {
  QString name;  // of the file that is offered
  QSize size;
  std::function<void(QCPPainter& painter)> draw;
};

// Writes a picture; the format is the ending of `path`: png, svg or pdf. Replaces the file
// atomically. Errors: kInvalidArgument for another ending; those of the file.
Status writePicture(const QString& path, const Picture& picture, PictureLook look);

// Asks for a file and writes the picture there, or says in a message box why that failed.
void askPicture(QWidget* parent, const Picture& picture, PictureLook look);

// What a widget paints, under its accessible name; of a scroll area without its bars.
Picture pictureOf(QWidget* widget);
// A menu at the pointer or, by keyboard, at the widget: the widget's own actions, then copy, save,
// save for print.
void showPictureMenu(QWidget* widget, const QPoint& globalAt);

}  // namespace lockstep::ui
