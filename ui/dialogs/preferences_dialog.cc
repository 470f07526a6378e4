#include "ui/dialogs/preferences_dialog.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>

#include "ui/widgets/widgets.h"

namespace lockstep::ui {

PreferencesDialog::PreferencesDialog(bool dark, const QString& language, QWidget* parent)
    : Dialog("preferencesDialog", parent) {
  auto* form = new QFormLayout;
  form->setHorizontalSpacing(kSpaceL);
  form->setVerticalSpacing(kSpaceS);
  const auto row = [&](QComboBox*& box, QLabel*& label, const char* name) {
    box = new QComboBox(this);
    box->setObjectName(name);
    box->setMinimumWidth(220);
    label = makeLabel(QString(name) + "Label", this);
    label->setBuddy(box);
    form->addRow(label, box);
  };
  row(theme_, themeLabel_, "preferencesTheme");
  theme_->addItem({}, false);
  theme_->addItem({}, true);
  theme_->setCurrentIndex(dark ? 1 : 0);
  row(language_, languageLabel_, "preferencesLanguage");
  language_->addItem("English", "en");
  language_->addItem(QString::fromUtf8("中文 (Chinese)"), "zh_CN");
  language_->setCurrentIndex(std::max(0, language_->findData(language)));
  content()->addLayout(form);
  connect(theme_, &QComboBox::activated, this,
          [this] { Q_EMIT darkChosen(theme_->currentData().toBool()); });
  connect(language_, &QComboBox::activated, this,
          [this] { Q_EMIT languageChosen(language_->currentData().toString()); });
  retranslate();
}

void PreferencesDialog::retranslate() {
  setHeading(tr("Preferences"), {});
  themeLabel_->setText(tr("Theme"));
  languageLabel_->setText(tr("Language"));
  theme_->setItemText(0, tr("Light"));
  theme_->setItemText(1, tr("Dark"));
  theme_->setAccessibleName(tr("Theme"));
  language_->setAccessibleName(tr("Language"));
  setButtons(tr("Close"), {});
}

}  // namespace lockstep::ui
