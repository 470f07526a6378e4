// Which runs the history page shows, saved filters, and the tags and notes of runs.
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QStackedLayout>
#include <QStyle>
#include <QTableView>
#include <QToolButton>
#include <utility>

#include "engine/base/clock.h"
#include "ui/dialogs/name_dialog.h"
#include "ui/dialogs/tags_dialog.h"
#include "ui/models/run_table_model.h"
#include "ui/pages/history_page.h"
#include "ui/pages/with_history.h"
#include "ui/studio/background.h"
#include "ui/studio/workspace.h"
#include "ui/theme/error_text.h"
#include "ui/theme/message_text.h"
#include "ui/theme/tool_tip.h"
#include "ui/widgets/widgets.h"

namespace lockstep::ui {

struct HistoryPage::Loaded {
  std::vector<app::RunRow> rows;
  std::vector<app::SavedFilter> filters;
};

void HistoryPage::buildFilter() {
  auto* row = new QHBoxLayout;
  row->setSpacing(kSpaceS);
  search_ = new QLineEdit(this);
  search_->setObjectName("historySearch");
  search_->setClearButtonEnabled(true);
  filters_ = makeToolButton("filtersButton", "filter", this);
  filters_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  filters_->setPopupMode(QToolButton::InstantPopup);
  filterMenu_ = new QMenu(this);
  filterMenu_->setObjectName("filterMenu");
  filters_->setMenu(filterMenu_);
  connect(filterMenu_, &QMenu::aboutToShow, this, &HistoryPage::fillFilters);
  row->addWidget(search_, 1);
  row->addWidget(filters_);
  body()->addLayout(row);
  said_ = makeLabel("historySaid", this, "error");
  said_->setTextFormat(Qt::PlainText);
  said_->setWordWrap(true);
  said_->hide();
  body()->addWidget(said_);
  searchDelay_.setSingleShot(true);
  searchDelay_.setInterval(150);
  connect(&searchDelay_, &QTimer::timeout, this, &HistoryPage::reload);
  connect(search_, &QLineEdit::textChanged, this, [this] { searchDelay_.start(); });
  connect(search_, &QLineEdit::returnPressed, this, &HistoryPage::reload);
}

void HistoryPage::say(const QString& text, bool wrong) {
  const char* role = wrong ? "error" : "muted";
  if (said_->property("role") != role) {
    said_->setProperty("role", role);
    said_->style()->unpolish(said_);
    said_->style()->polish(said_);
  }
  said_->setText(text);
  said_->setVisible(!text.isEmpty());
}

// The runs of the last filter that was right stay while what is typed is wrong.
void HistoryPage::readFilter() {
  auto filter = app::RunFilter::parse(search_->text().toStdString(), wallNow());
  wrong_ = !filter.ok();
  if (filter) {
    filter_ = std::move(*filter);
    return;
  }
  const ErrorText text = describeError(filter.error());
  QStringList parts{text.what, text.why, text.next};
  parts.removeAll(QString());
  say(parts.join(QString::fromUtf8(" – ")), true);
}

void HistoryPage::reload() {
  searchDelay_.stop();
  const int generation = ++generation_;
  readFilter();
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), filter = filter_] {
        return withHistory(folder, [&](app::History& history) -> Result<Loaded> {
          (void)history.expireAbandoned();
          Loaded out;
          LOCKSTEP_ASSIGN(out.rows, history.list(filter));
          LOCKSTEP_ASSIGN(out.filters, history.savedFilters());
          return out;
        });
      },
      [this, generation](Result<Loaded> loaded) {
        // Notes that are being written stay in their cell; an editor that was closed is hidden.
        const auto* editor = table_->viewport()->findChild<QLineEdit*>();
        if (generation != generation_ || (editor && !editor->isHidden())) return;
        if (!loaded)
          message()->showError(loaded.error());
        else
          showRuns(std::move(*loaded));
      });
}

void HistoryPage::showRuns(Loaded loaded) {
  const QStringList chosen = selectedRuns();
  restoring_ = true;
  runs_->setRuns(std::move(loaded.rows));
  selectRuns(chosen);
  restoring_ = false;
  if (selectedRuns() != chosen) refreshOverlay();
  saved_ = std::move(loaded.filters);
  if (!filterMenu_->isVisible()) fillFilters();
  const bool all = filter_.empty();
  const bool none = runs_->rowCount() == 0;
  if (!wrong_) say(none && !all ? tr("No run matches the filter.") : QString(), false);
  stack_->setCurrentWidget(none && all ? static_cast<QWidget*>(empty_) : table_);
  refreshButtons();
  detailsDelay_.start();
  Q_EMIT inspectorChanged();
}

void HistoryPage::find() {
  search_->setFocus(Qt::ShortcutFocusReason);
  search_->selectAll();
}

void HistoryPage::fillFilters() {
  filterMenu_->clear();
  qDeleteAll(filterMenu_->findChildren<QMenu*>());  // which clear() leaves
  const QString now = search_->text().trimmed();
  const auto label = [](const std::string& name) {
    return QString::fromStdString(name).replace("&", "&&");
  };
  for (const app::SavedFilter& filter : saved_) {
    const QString text = QString::fromStdString(filter.text);
    QAction* action = filterMenu_->addAction(label(filter.name));
    action->setObjectName("savedFilter");
    action->setToolTip(toolTipText(text));
    action->setCheckable(true);
    action->setChecked(text == now);
    connect(action, &QAction::triggered, this, [this, text] {
      search_->setText(text);
      reload();
    });
  }
  filterMenu_->setToolTipsVisible(true);
  if (!saved_.empty()) filterMenu_->addSeparator();
  QAction* save = filterMenu_->addAction(Theme::instance().icon("save"), tr("Save this filter…"),
                                         this, &HistoryPage::askFilterName);
  save->setObjectName("saveFilter");
  if (saved_.empty()) return;
  QMenu* remove = filterMenu_->addMenu(Theme::instance().icon("delete"), tr("Delete filter"));
  remove->setObjectName("deleteFilterMenu");
  for (const app::SavedFilter& filter : saved_)
    remove->addAction(label(filter.name), this, [this, name = filter.name] {
      change([name](app::History& history) { return history.removeFilter(name); });
    });
}

void HistoryPage::askFilterName() {
  const QString text = search_->text().trimmed();
  const auto filter = app::RunFilter::parse(text.toStdString(), wallNow());
  if (!filter || filter->empty()) {
    say(tr("Write a filter first, then save it."), true);
    search_->setFocus();
    return;
  }
  QStringList taken;
  for (const app::SavedFilter& one : saved_) taken << QString::fromStdString(one.name);
  const auto check = [taken, text](const QString& name) -> NameDialog::Verdict {
    if (const Status fine = app::checkFilterName(name.toStdString()); !fine.ok())
      return {false, messageText(fine.error().message())};
    return {true,
            taken.contains(name, Qt::CaseInsensitive) ? tr("Replaces the filter of this name.")
                                                      : QString(),
            {"history", "filter", name, text}};
  };
  auto* dialog = new NameDialog({tr("Save filter"), text, tr("Save")}, {}, check, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog, text] {
    const app::SavedFilter filter{dialog->name().toStdString(), text.toStdString()};
    change([filter](app::History& history) { return history.saveFilter(filter); });
  });
  dialog->open();
}

void HistoryPage::askTags() {
  QStringList names;
  QVector<QStringList> ofRuns;
  std::vector<std::string> chosen;
  for (const QString& run : selectedRuns()) {
    QStringList tags;
    for (const auto& tag : runs_->runs()[static_cast<std::size_t>(runs_->find(run))].tags)
      tags << QString::fromStdString(tag);
    names << run;
    ofRuns << tags;
    chosen.push_back(run.toStdString());
  }
  if (ofRuns.isEmpty() || std::exchange(askingTags_, true)) return;
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder()] {
        return withHistory(folder, [](app::History& history) { return history.tags(); });
      },
      [this, names, ofRuns, chosen](Result<std::vector<app::TagUse>> uses) {
        askingTags_ = false;
        if (!uses) return message()->showError(uses.error());
        QStringList known;
        for (const app::TagUse& use : *uses) known << QString::fromStdString(use.tag);
        auto* dialog = new TagsDialog(known, names, ofRuns, this);
        dialog->setAttribute(Qt::WA_DeleteOnClose);
        connect(dialog, &TagsDialog::chosen, this, [this, chosen](const app::TagChange& wanted) {
          change([chosen, wanted](app::History& history) {
            return history.changeTags(chosen, wanted);
          });
        });
        dialog->open();
      });
}

void HistoryPage::writeNotes(const QString& run, const QString& notes) {
  change([run = run.toStdString(), notes = notes.toStdString()](app::History& history) {
    return history.setNotes(run, notes);
  });
}

void HistoryPage::change(std::function<Status(app::History&)> work) {
  runInBackground(
      this,
      [folder = workspace_.home().historyFolder(), work = std::move(work)] {
        return withHistory(folder, [&](app::History& history) -> Status { return work(history); });
      },
      [this](Status status) {
        if (!status.ok()) message()->showError(status.error());
        reload();
      });
}

}  // namespace lockstep::ui
