#include "ui/pages/field_form.h"

#include <QHeaderView>
#include <QLabel>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/field_model.h"
#include "ui/widgets/tables.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

FieldForm::FieldForm(const QString& name, SpecDocument* document, QWidget* parent)
    : QWidget(parent),
      fields_(new FieldModel(document, this)),
      table_(new QTableView(this)),
      problem_(makeLabel(name + "Problem", this, "error")) {
  table_->setObjectName(name);
  table_->setModel(fields_);
  applyTableStyle(table_);
  table_->verticalHeader()->setDefaultSectionSize(28);
  table_->horizontalHeader()->hide();
  table_->setItemDelegateForColumn(1, new FieldDelegate(table_));
  table_->setEditTriggers(QAbstractItemView::SelectedClicked | QAbstractItemView::DoubleClicked |
                          QAbstractItemView::EditKeyPressed | QAbstractItemView::AnyKeyPressed);
  table_->setColumnWidth(0, 180);
  table_->setMinimumHeight(60);
  problem_->setWordWrap(true);
  QSizePolicy policy = problem_->sizePolicy();
  policy.setHorizontalPolicy(QSizePolicy::Ignored);  // a long word widens no page
  problem_->setSizePolicy(policy);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins({});
  layout->setSpacing(kSpaceXs);
  layout->addWidget(table_, 1);
  layout->addWidget(problem_);
  connect(fields_, &FieldModel::dataChanged, this, &FieldForm::tellProblem);
  connect(fields_, &FieldModel::modelReset, this, &FieldForm::tellProblem);
  connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
          &FieldForm::tellProblem);
  tellProblem();
}

void FieldForm::tellProblem() {
  int row = table_->currentIndex().row();
  if (row < 0 || fields_->problem(row).isEmpty())
    for (row = 0; row < fields_->rowCount() && fields_->problem(row).isEmpty();) ++row;
  const bool any = row < fields_->rowCount();
  if (any)
    problem_->setText(
        QString("%1: %2").arg(fields_->index(row, 0).data().toString(), fields_->problem(row)));
  problem_->setVisible(any);
}

std::string FieldForm::currentPath() const {
  return table_->currentIndex().data(FieldModel::kPathRole).toString().toStdString();
}

void FieldForm::give(int row) {
  const QModelIndex at = fields_->index(row, 1);
  table_->setCurrentIndex(at);
  table_->scrollTo(at);
  table_->setFocus();
}

bool FieldForm::showField(const std::string& path) {
  const int row = fields_->find(path);
  if (row >= 0) give(row);
  return row >= 0;
}

void FieldForm::enter() {
  for (int row = 0; row < fields_->rowCount(); ++row)
    if (fields_->flags(fields_->index(row, 1)) & Qt::ItemIsEditable) return give(row);
  table_->setFocus();
}

void FieldForm::retranslate() {
  table_->setAccessibleName(tr("Fields"));
  fields_->retranslate();
}

}  // namespace lockstep::ui
