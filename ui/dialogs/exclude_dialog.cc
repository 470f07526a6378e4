#include "ui/dialogs/exclude_dialog.h"

#include <QComboBox>
#include <QLabel>
#include <QVBoxLayout>
#include <utility>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

ExcludeDialog::ExcludeDialog(QString run, const QStringList& nodes, const QString& node,
                             QString reason, bool ofProgram, QWidget* parent)
    : Dialog("excludeDialog", parent),
      run_(std::move(run)),
      reasonOf_(node),
      reason_(std::move(reason)),
      ofProgram_(ofProgram) {
  nodes_ = new QComboBox(this);
  nodes_->setObjectName("excludeNode");
  nodes_->addItems(nodes);
  nodes_->setCurrentText(node);
  why_ = makeLabel("excludeReason", this);
  why_->setWordWrap(true);
  why_->setTextFormat(Qt::PlainText);
  content()->addWidget(nodes_);
  content()->addWidget(why_);
  connect(nodes_, &QComboBox::currentTextChanged, this, &ExcludeDialog::showNode);
  retranslate();
}

QString ExcludeDialog::node() const { return nodes_->currentText(); }

void ExcludeDialog::showNode() {
  why_->setVisible(!reason_.isEmpty() && node() == reasonOf_);
  showCommand({"exclude", run_, node()});
}

void ExcludeDialog::retranslate() {
  setHeading(tr("Exclude a node"),
             ofProgram_
                 ? tr("The program is ended, and started again without the node. A spare node "
                      "replaces it; if there is none, the program has fewer ranks. It continues "
                      "from what it has saved itself.")
                 : tr("The run takes a checkpoint and continues from it without the node. A spare "
                      "node replaces it; if there is none, the remaining nodes divide the batch."));
  setButtons(tr("Exclude"), tr("Cancel"));
  nodes_->setAccessibleName(tr("Node"));
  why_->setText(reason_);
  showNode();
}

}  // namespace lockstep::ui
