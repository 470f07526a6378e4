// CommandPalette: a popup that searches all menu actions by parts of their name, in the studio's
// language or in English. Escape or losing the focus closes it.
#pragma once

#include <QAbstractListModel>
#include <QFrame>
#include <QSortFilterProxyModel>

class QAction;
class QLineEdit;
class QListView;

namespace lockstep::ui {

// Returns an action's text without mnemonic and "…".
QString plainActionText(const QAction* action);

class CommandModel : public QAbstractListModel {
  Q_OBJECT
 public:
  static constexpr int kShortcutRole = Qt::UserRole + 1;
  static constexpr int kSearchRole = Qt::UserRole + 2;  // name and English words
  using QAbstractListModel::QAbstractListModel;
  void setActions(QList<QAction*> actions);
  QAction* action(int row) const { return actions_.value(row); }
  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;

 private:
  QList<QAction*> actions_;
};

// All typed words must occur, in any order. Matches at word starts come first.
class WordFilter : public QSortFilterProxyModel {
  Q_OBJECT
 public:
  using QSortFilterProxyModel::QSortFilterProxyModel;
  void setText(const QString& text);

 protected:
  bool filterAcceptsRow(int row, const QModelIndex& parent) const override;
  bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;

 private:
  bool beginsWords(const QModelIndex& row) const;
  QStringList words_;
};

class CommandPalette : public QFrame {
  Q_OBJECT
 public:
  explicit CommandPalette(QWidget* window);
  void popUp(const QList<QAction*>& actions);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void retranslate();
  void accept();
  void chooseFirst();
  // Chooses the next command, from a row on, that can be done now; there is none: nothing changes.
  void choose(int row, int by);
  void fitHeight();

  QLineEdit* edit_ = nullptr;
  QListView* list_ = nullptr;
  CommandModel* model_ = nullptr;
  WordFilter* filter_ = nullptr;
};

}  // namespace lockstep::ui
