#include "ui/plots/picture_file.h"

#include "ui/plots/custom_plot.h"

#include <QAbstractScrollArea>
#include <QApplication>
#include <QBuffer>
#include <QClipboard>
#include <QCoreApplication>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <QMessageBox>
#include <QPdfWriter>
#include <QPointer>
#include <QSvgGenerator>

#include "engine/base/file.h"
#include "ui/theme/format.h"
#include "ui/theme/message_text.h"

namespace lockstep::ui {
namespace {

constexpr double kDensity = 2;            // of PNG
constexpr int kDotsPerInch = 96;          // a pixel of a picture is a CSS pixel
constexpr double kPointsPerPixel = 0.75;  // of PDF

QString text(const char* source) {
  return QCoreApplication::translate("lockstep::ui::Picture", source);
}

void drawOn(QPaintDevice& device, const Picture& picture) {
  QCPPainter painter;
  painter.begin(&device);
  painter.fillRect(QRect({}, picture.size), Theme::instance().color("base"));
  picture.draw(painter);
  painter.end();
}

QByteArray pngOf(const Picture& picture) {
  QImage image(picture.size * kDensity, QImage::Format_RGB32);
  image.setDevicePixelRatio(kDensity);
  drawOn(image, picture);
  QByteArray out;
  QBuffer buffer(&out);
  image.save(&buffer, "PNG");
  return out;
}

QByteArray svgOf(const Picture& picture) {
  QByteArray out;
  QBuffer buffer(&out);
  QSvgGenerator generator;
  generator.setOutputDevice(&buffer);
  generator.setResolution(kDotsPerInch);
  generator.setSize(picture.size);
  generator.setViewBox(QRect({}, picture.size));
  generator.setTitle(picture.name.toHtmlEscaped());  // which Qt writes as it is
  drawOn(generator, picture);
  return out;
}

QByteArray pdfOf(const Picture& picture) {
  QByteArray out;
  QBuffer buffer(&out);
  buffer.open(QIODevice::WriteOnly);
  QPdfWriter writer(&buffer);
  writer.setResolution(kDotsPerInch);
  writer.setTitle(picture.name);
  writer.setCreator("Lockstep");
  writer.setPageSize(QPageSize(QSizeF(picture.size) * kPointsPerPixel, QPageSize::Point, QString(),
                               QPageSize::ExactMatch));
  writer.setPageMargins(QMarginsF());
  drawOn(writer, picture);
  return out;
}

QWidget* paintedPart(QWidget* widget) {
  const auto* area = qobject_cast<QAbstractScrollArea*>(widget);
  return area == nullptr ? widget : area->viewport();
}

}  // namespace

Status writePicture(const QString& path, const Picture& picture, PictureLook look) {
  const QString ending = QFileInfo(path).suffix().toLower();
  QByteArray (*const make)(const Picture&) = ending == "png"   ? pngOf
                                             : ending == "svg" ? svgOf
                                             : ending == "pdf" ? pdfOf
                                                               : nullptr;
  if (make == nullptr) {
    Error error = invalidArgument("a picture cannot be written to {}", path.toStdString());
    error.why = "its name does not end in .png, .svg or .pdf";
    return error;
  }
  const QByteArray bytes = [&] {
    const ThemeScope theme(look == PictureLook::kLight ? Theme::Mode::kLight
                                                       : Theme::instance().mode());
    return make(picture);
  }();
  return writeFileAtomically(path.toStdString(),
                             {bytes.constData(), static_cast<std::size_t>(bytes.size())});
}

void askPicture(QWidget* parent, const Picture& picture, PictureLook look) {
  const QString filters[] = {text(QT_TRANSLATE_NOOP("lockstep::ui::Picture", "PNG (*.png)")),
                             text(QT_TRANSLATE_NOOP("lockstep::ui::Picture", "SVG (*.svg)")),
                             text(QT_TRANSLATE_NOOP("lockstep::ui::Picture", "PDF (*.pdf)"))};
  auto* dialog =
      new QFileDialog(parent, text(QT_TRANSLATE_NOOP("lockstep::ui::Picture", "Save picture")),
                      QString(), filters[0] + ";;" + filters[1] + ";;" + filters[2]);
  dialog->setObjectName("savePictureDialog");
  dialog->setAcceptMode(QFileDialog::AcceptSave);
  dialog->setDefaultSuffix("png");
  dialog->selectFile(asFileName(picture.name) + ".png");
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  QObject::connect(dialog, &QFileDialog::filterSelected, dialog, [dialog](const QString& filter) {
    const qsizetype dot = filter.lastIndexOf("*.");
    const QString ending = filter.mid(dot + 2).chopped(1);
    dialog->setDefaultSuffix(ending);
    const QStringList chosen = dialog->selectedFiles();
    if (!chosen.isEmpty() && !QFileInfo(chosen.first()).isDir())
      dialog->selectFile(QFileInfo(chosen.first()).completeBaseName() + "." + ending);
  });
  QObject::connect(
      dialog, &QFileDialog::fileSelected, parent, [parent, picture, look](const QString& path) {
        const Status written = writePicture(path, picture, look);
        if (written.ok()) return;
        auto* box = new QMessageBox(
            QMessageBox::Warning,
            text(QT_TRANSLATE_NOOP("lockstep::ui::Picture", "The picture was not saved")),
            messageText(written.error().message()), QMessageBox::Close, parent);
        box->setObjectName("pictureError");
        box->setTextFormat(Qt::PlainText);
        box->setAttribute(Qt::WA_DeleteOnClose);
        box->open();
      });
  dialog->open();
}

Picture pictureOf(QWidget* widget) {
  QWidget* painted = paintedPart(widget);
  Picture out;
  out.name = widget->accessibleName();
  out.size = painted->size() + QSize(0, kPictureTitle);
  out.draw = [painted = QPointer<QWidget>(painted), title = out.name](QCPPainter& painter) {
    if (!painted) return;
    painter.setPen(Theme::instance().color("text"));
    painter.drawText(QRect(kSpaceS, 0, painted->width() - 2 * kSpaceS, kPictureTitle),
                     Qt::AlignLeft | Qt::AlignVCenter, title);
    painter.translate(0, kPictureTitle);
    painted->render(&painter, {}, {}, QWidget::DrawChildren);
  };
  return out;
}

void showPictureMenu(QWidget* widget, const QPoint& globalAt) {
  auto* menu = new QMenu(widget);
  menu->setObjectName("pictureMenu");
  menu->setAttribute(Qt::WA_DeleteOnClose);
  menu->addActions(widget->actions());
  if (!menu->isEmpty()) menu->addSeparator();
  const auto add = [&](const char* name, const char* source, auto call) {
    QAction* action = menu->addAction(text(source));
    action->setObjectName(name);
    QObject::connect(action, &QAction::triggered, widget, call);
  };
  add("pictureMenuCopy", QT_TRANSLATE_NOOP("lockstep::ui::Picture", "Copy picture"),
      [widget] { QApplication::clipboard()->setPixmap(paintedPart(widget)->grab()); });
  add("pictureMenuSave", QT_TRANSLATE_NOOP("lockstep::ui::Picture", "Save picture…"),
      [widget] { askPicture(widget, pictureOf(widget), PictureLook::kCurrent); });
  add("pictureMenuPrint", QT_TRANSLATE_NOOP("lockstep::ui::Picture", "Save picture for print…"),
      [widget] { askPicture(widget, pictureOf(widget), PictureLook::kLight); });
  menu->popup(globalAt);
}

}  // namespace lockstep::ui
