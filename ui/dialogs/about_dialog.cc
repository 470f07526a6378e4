#include "ui/dialogs/about_dialog.h"

#include <QCoreApplication>
#include <QIcon>
#include <QLabel>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

AboutDialog::AboutDialog(QWidget* parent) : Dialog("aboutDialog", parent) {
  icon_ = makeLabel("aboutIcon", this);
  icon_->setPixmap(QIcon(":/icons/lockstep.svg").pixmap(QSize(56, 56)));
  licences_ = new QPlainTextEdit(this);
  licences_->setObjectName("aboutLicences");
  licences_->setReadOnly(true);
  licences_->setMinimumSize(520, 220);
  content()->addWidget(icon_);
  content()->addWidget(licences_);
  retranslate();
}

void AboutDialog::retranslate() {
  setHeading(tr("Lockstep %1").arg(QCoreApplication::applicationVersion()),
             tr("A studio for training neural networks on a cluster."));
  icon_->setAccessibleName(tr("Icon of Lockstep"));
  licences_->setAccessibleName(tr("Licences"));
  licences_->setPlainText(
      tr("The sources of Lockstep are licensed under the Apache License 2.0.\n\n"
         "This program links QCustomPlot and is distributed under the GNU General Public License, "
         "version 3. Agent and engine do not link it.\n\n"
         "It uses:\n"
         "  Qt 6 — LGPLv3\n"
         "  QCustomPlot — GPLv3\n"
         "  gRPC — Apache-2.0\n"
         "  Protocol Buffers — BSD-3-Clause\n"
         "  libssh — LGPLv2.1\n"
         "  SQLite — public domain\n"
         "  yaml-cpp, fmt — MIT\n"
         "  OpenSSL — Apache-2.0\n"
         "  libcurl — curl"));
  setButtons(tr("Close"), {});
}

}  // namespace lockstep::ui
