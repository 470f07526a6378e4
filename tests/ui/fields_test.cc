// The form of a model page by mouse and keyboard: values are typed into their cells, layers are
// moved by the buttons above the list, a wrong value is named, and all is undone with Ctrl+Z.
#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "ui/models/field_model.h"
#include "ui/models/layer_table_model.h"
#include "ui/pages/model_page.h"
#include "ui/widgets/delegates.h"
#include "ui/widgets/tables.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class FieldsTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    const QString path = home_->path("cnn.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    tests::openWindow(window_, *home_, {1400, 900});
    page_ = qobject_cast<ModelPage*>(window_->openFile(path));
    QVERIFY(page_);
    fields_ = page_->findChild<QTableView*>("fieldTable");
    before_ = page_->document()->text();
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void aValueIsTyped() {
    choose("model.layers[0].conv2d.filters");
    type("48");
    QVERIFY2(page_->document()->text().contains("filters: 48"),
             qPrintable(page_->document()->text()));
    QVERIFY(page_->document()->spec().ok());
    QVERIFY(page_->isModified());
    undo();
    choose("model.layers[0].conv2d.filters");  // Escape leaves the value as it was
    QTest::keyClick(fields_, Qt::Key_F2);
    QLineEdit* editor = shownEditor();
    QVERIFY(editor);
    QTest::keyClicks(editor, "99");
    QTest::keyClick(editor, Qt::Key_Escape);
    QVERIFY(wait([&] { return !shownEditor(); }));
    QCOMPARE(page_->document()->text(), before_);
  }

  void aChoiceIsMade() {
    choose("model.layers[0].conv2d.activation");
    QTest::keyClick(fields_, Qt::Key_F2);
    QComboBox* choices = nullptr;
    QVERIFY(wait([&] {
      choices = fields_->viewport()->findChild<QComboBox*>();
      return choices && choices->isVisible();
    }));
    QVERIFY(choices->count() > 2);
    QCOMPARE(choices->currentData().toString(), QString("relu"));
    const bool isLast = choices->currentIndex() + 1 == choices->count();
    QTest::keyClick(choices, isLast ? Qt::Key_Up : Qt::Key_Down);
    QVERIFY(wait([&] { return page_->document()->text() != before_; }));
    QVERIFY(page_->document()->spec().ok());
    QVERIFY(page_->document()->spec().value("model.layers[0].conv2d.activation") != "relu");
    undo();
  }

  // The problem names line and field, and nothing can be launched until it is mended.
  void aWrongValueIsNamed() {
    const auto* launch = page_->findChild<QPushButton*>("modelLaunchButton");
    const auto* problems = page_->findChild<QListWidget*>("problemList");
    QVERIFY(launch->isEnabled() && !problems->isVisible());
    choose("model.layers[0].conv2d.filters");
    type("many");
    QVERIFY(wait([&] { return problems->isVisible() && problems->count() > 0; }));
    const QString said = problems->item(0)->text() + "\n" + problems->item(0)->toolTip();
    QVERIFY2(said.contains("filters") && said.contains("Line 7"), qPrintable(said));
    QVERIFY(!launch->isEnabled());
    undo();
    QVERIFY(launch->isEnabled() && !problems->isVisible());
  }

  // In the form, the list and the inspector.
  void aTextThatIsCutIsInTheToolTip() {
    const QString name = "a_name_" + QString("that_no_table_has_room_for_").repeated(4) + "1";
    const auto tipOf = [](QTableView* table, const QModelIndex& index) {
      table->scrollTo(index);
      const QPoint at = table->visualRect(index).center();
      const QPoint global = table->viewport()->mapToGlobal(at);
      QToolTip::showText(global, "before", table);
      QHelpEvent event(QEvent::ToolTip, at, global);
      QApplication::sendEvent(table->viewport(), &event);
      return QToolTip::text();
    };
    choose("model.layers[0].name");
    const QString help = fields_->currentIndex().data(Qt::ToolTipRole).toString();
    QVERIFY(!help.isEmpty());
    QCOMPARE(tipOf(fields_, fields_->currentIndex()), help);
    type(name);
    QVERIFY(page_->document()->text().contains(name));
    choose("model.layers[0].name");
    const QString tip = tipOf(fields_, fields_->currentIndex());
    QVERIFY2(tip.startsWith("<p>" + name) && tip.contains(help.toHtmlEscaped()), qPrintable(tip));
    auto* layers = page_->findChild<QTableView*>("layerTable");
    QVERIFY(wait([&] { return layers->model()->index(0, 0).data().toString() == name; }));
    QVERIFY(tipOf(layers, layers->model()->index(0, 0)).contains(name));
    auto* inspector = window_->findChild<QTableView*>("inspector");
    QVERIFY(wait([&] { return inspector->model()->index(0, 0).data().toString() == name; }));
    QVERIFY(tipOf(inspector, inspector->model()->index(0, 0)).contains(name));
    undo();
  }

  // Rows of one column and of both, as those of the inspector are.
  void wrappedRowsAreAsHighAsTheirText() {
    constexpr int kRows = 60;
    QStandardItemModel model(kRows, 2);
    QTableView table;
    table.setModel(&model);
    applyTableStyle(&table);
    table.setWordWrap(true);
    table.setItemDelegate(new WrapDelegate(&table));
    for (int row = 0; row < kRows; ++row) {
      model.setItem(row, 0,
                    new QStandardItem(QString(row % 2 ? "各份为样本" : "the rest ").repeated(row)));
      if (row % 3) table.setSpan(row, 0, 1, 2);
    }
    table.horizontalHeader()->setStretchLastSection(false);
    for (const int width : {90, 130, 171}) {
      setColumns(&table, {width, 301 - width});
      table.resizeRowsToContents();
      for (int row = 0; row < kRows; ++row) {
        const QModelIndex index = model.index(row, 0);
        const QRect room(0, 0, table.visualRect(index).width() - 2 * kCellPad, 10'000);
        QCOMPARE(table.visualRect(index).width(), row % 3 ? 301 : width);
        const int needed = table.fontMetrics()
                               .boundingRect(room, Qt::TextWordWrap, index.data().toString())
                               .height();
        QVERIFY2(
            table.rowHeight(row) >= needed,
            qPrintable(QString("row %1: %2 of %3").arg(row).arg(table.rowHeight(row)).arg(needed)));
        QVERIFY(table.rowHeight(row) < needed + 40);
      }
    }
  }

  // A problem is told whole in as many lines as it takes, also in a list that became narrower.
  void aLongProblemIsWrapped() {
    auto* problems = page_->findChild<QListWidget*>("problemList");
    choose("model.layers[0].conv2d.filters");
    type("as many of them as there have ever been in a layer of a model of this kind");
    QVERIFY(wait([&] { return problems->isVisible() && problems->count() > 0; }));
    const auto fits = [&] {
      const QRect row = problems->visualItemRect(problems->item(0));
      const QRect text = problems->fontMetrics().boundingRect(
          QRect(0, 0, row.width(), 1000), Qt::TextWordWrap, problems->item(0)->text());
      return row.width() <= problems->viewport()->width() &&
             text.height() > problems->fontMetrics().height() && row.height() >= text.height();
    };
    QVERIFY(wait(fits));
    window_->resize(1000, 800);
    QVERIFY(wait(fits));
    QVERIFY(problems->item(0)->toolTip().startsWith(problems->item(0)->text().section(": ", 1)));
    undo();
  }

  void layersAreMovedByTheButtons() {
    auto* layers = page_->findChild<QTableView*>("layerTable");
    const auto kinds = [&] {
      QStringList out;
      for (int row = 0; row < page_->layers()->rowCount(); ++row)
        out << QString::fromStdString(
            page_->document()->spec().layerKind(fmt::format("model.layers[{}]", row)));
      return out.join(' ');
    };
    QCOMPARE(kinds(), QString("conv2d max_pool2d flatten dense"));
    QTest::mouseClick(layers->viewport(), Qt::LeftButton, {},
                      layers->visualRect(layers->model()->index(1, 0)).center());
    QCOMPARE(layers->currentIndex().row(), 1);
    click("layerUpButton");
    QCOMPARE(kinds(), QString("max_pool2d conv2d flatten dense"));
    QCOMPARE(layers->currentIndex().row(), 0);
    for (int i = 0; i < 2; ++i) click("layerDownButton");
    QCOMPARE(kinds(), QString("conv2d flatten max_pool2d dense"));
    QCOMPARE(layers->currentIndex().row(), 2);
    click("removeLayerButton");
    QCOMPARE(kinds(), QString("conv2d flatten dense"));
    for (int i = 0; i < 3; ++i) press();
    undo();
    QVERIFY(!page_->isModified());
  }

 private:
  // The cell of a field has the keyboard.
  void choose(const char* path) {
    page_->selectLayer(0);
    const int row = page_->fields()->find(path);
    QVERIFY2(row >= 0, path);
    fields_->setFocus();
    QVERIFY(wait([&] { return fields_->hasFocus(); }));
    fields_->setCurrentIndex(page_->fields()->index(row, 1));
  }
  QLineEdit* shownEditor() const {
    for (auto* one : fields_->viewport()->findChildren<QLineEdit*>())
      if (one->isVisible()) return one;
    return nullptr;
  }
  // Into the current cell: what is there is replaced.
  void type(const QString& text) {
    QTest::keyClick(fields_, Qt::Key_F2);
    QLineEdit* editor = shownEditor();
    QVERIFY(editor);
    QTest::keyClick(editor, Qt::Key_A, Qt::ControlModifier);
    QTest::keyClicks(editor, text);
    QTest::keyClick(editor, Qt::Key_Return);
    QVERIFY(wait([&] { return !shownEditor(); }));
  }
  void press() { QTest::keyClick(window_.get(), Qt::Key_Z, Qt::ControlModifier); }
  // The last change: then the text is that of the file.
  void undo() {
    QVERIFY(wait([&] { return window_->findChild<QAction*>("actionUndo")->isEnabled(); }));
    press();
    QCOMPARE(page_->document()->text(), before_);
  }
  void click(const char* button) {
    auto* one = page_->findChild<QToolButton*>(button);
    QVERIFY2(one && one->isVisible() && one->isEnabled(), button);
    QTest::mouseClick(one, Qt::LeftButton);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  ModelPage* page_ = nullptr;
  QTableView* fields_ = nullptr;
  QString before_;
};

QTEST_MAIN(FieldsTest)
#include "fields_test.moc"
