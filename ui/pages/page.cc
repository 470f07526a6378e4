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

void Page::changeEvent(QEvent* event) {
  if (event->type() == QEvent::LanguageChange) {
    retranslate();
    Q_EMIT titleChanged();
    Q_EMIT inspectorChanged();
  }
  QWidget::changeEvent(event);
}

}  // namespace lockstep::ui
