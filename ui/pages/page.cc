#include "ui/pages/page.h"

#include <QEvent>
#include <QVBoxLayout>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

Page::Page(const QString& objectName, QString key, QWidget* parent)
    : QWidget(parent), key_(std::move(key)) {
  setObjectName(objectName);
  setAutoFillBackground(true);
  setBackgroundRole(QPalette::Base);
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(kSpaceL, kSpaceM, kSpaceL, kSpaceM);
  outer->setSpacing(kSpaceM);
  message_ = new MessagePanel(this);
  body_ = new QVBoxLayout;
  body_->setSpacing(kSpaceM);
  outer->addLayout(body_, 1);
}

void Page::sayExported(const QString& path, const Status& status) {
  if (!status.ok()) return message_->showError(status.error());
  message_->showNote(Tone::kGood, [path] {
    return MessagePanel::Note{tr("Exported to %1").arg(path), {}, {}, {}};
  });
}

void Page::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) {
    retranslate();
    Q_EMIT titleChanged();
    Q_EMIT inspectorChanged();
  }
  QWidget::changeEvent(event);
}

}  // namespace lockstep::ui
