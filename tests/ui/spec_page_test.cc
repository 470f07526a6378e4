// The page of a spec: form and text, what is found in the text, what is wrong with it.
#include <QSignalSpy>
#include <QTest>
#include <QtWidgets>

#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/new_model_dialog.h"
#include "ui/models/layer_table_model.h"
#include "ui/pages/model_page.h"
#include "ui/studio/new_model.h"
#include "ui/theme/theme.h"
#include "ui/widgets/widgets.h"
#include "ui/widgets/yaml_editor.h"

using namespace lockstep;
using namespace lockstep::ui;
using lockstep::tests::examplePath;
using lockstep::tests::StudioHome;
using lockstep::tests::wait;

class SpecPageTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void init() {
    home_ = std::make_unique<StudioHome>();
    tests::openWindow(window_, *home_);
  }
  void cleanup() { tests::closeStudio(window_, home_); }

  void everyKindOfModelIsChosen_data() {
    QTest::addColumn<bool>("byKeys");
    QTest::newRow("by mouse") << false;
    QTest::newRow("by keys") << true;
  }
  void everyKindOfModelIsChosen() {
    QFETCH(bool, byKeys);
    const auto& templates = app::modelTemplates();
    for (int row = 0; row < static_cast<int>(templates.size()); ++row) {
      const app::ModelTemplate& kind = templates[static_cast<std::size_t>(row)];
      NewModelDialog* dialog = window_->newModel();
      QVERIFY(QTest::qWaitForWindowActive(dialog));
      auto* kinds = dialog->findChild<QListWidget*>("newModelKinds");
      QVERIFY(wait([&] { return kinds->hasFocus(); }));
      if (byKeys)
        for (int i = 0; i < row; ++i) QTest::keyClick(kinds, Qt::Key_Down);
      else
        QTest::mouseClick(kinds->viewport(), Qt::LeftButton, {},
                          kinds->visualItemRect(kinds->item(row)).center());
      const QString name = dialog->findChild<QLineEdit*>("newModelName")->text();
      auto* accept = dialog->findChild<QPushButton*>("newModelDialogAccept");
      if (byKeys)
        QTest::keyClick(kinds, Qt::Key_Return);
      else
        QTest::mouseClick(accept, Qt::LeftButton);
      QVERIFY(wait([&] {
        const auto* page = qobject_cast<ModelPage*>(window_->currentPage());
        return page && page->document()->name() == name;
      }));
      QCOMPARE(qobject_cast<ModelPage*>(window_->currentPage())->document()->text(),
               newModelText(kind, name, kind.data));
    }
  }

  void aLayerIsAddedByMouse() {
    ModelPage* page = openCopy("fashion-cnn.yaml");
    const auto* layers = page->layers();
    const int before = layers->rowCount();
    auto* table = page->findChild<QTableView*>("layerTable");
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {},
                      table->visualRect(layers->index(0, 0)).center());
    auto* menu = page->findChild<QMenu*>("addLayerMenu");
    bool opened = false;
    QTimer whenOpen;  // the click comes back when the menu is closed
    connect(&whenOpen, &QTimer::timeout, menu, [&] {
      if (!menu->isVisible()) return;
      whenOpen.stop();
      opened = true;
      auto* entry = page->findChild<QAction*>("addLayer_batch_norm");
      QTest::mouseClick(menu, Qt::LeftButton, {}, menu->actionGeometry(entry).center());
      menu->close();
    });
    whenOpen.start(10);
    QTest::mouseClick(page->findChild<QToolButton*>("addLayerButton"), Qt::LeftButton);
    QVERIFY(opened);
    QCOMPARE(layers->rowCount(), before + 1);
    QCOMPARE(layers->index(1, LayerTableModel::kKind).data().toString(), QString("batch_norm"));
    QCOMPARE(table->currentIndex().row(), 1);
    QVERIFY(page->document()->text().contains("- batch_norm"));
  }

  // Its operations and memory, and those of the layers that follow it.
  void whatALayerCostsFollowsTheText() {
    window_->resize(1800, 900);
    ModelPage* page = openCopy("fashion-mlp.yaml");
    const auto* layers = page->layers();
    QVERIFY(wait([&] { return layers->described(); }));
    const auto* table = page->findChild<QTableView*>("layerTable");
    QVERIFY(!table->isColumnHidden(LayerTableModel::kFlops) &&
            !table->isColumnHidden(LayerTableModel::kMemory));
    const auto costs = [&] {
      QStringList out;
      for (int row = 1; row < layers->rowCount(); ++row)
        for (const int column : {LayerTableModel::kFlops, LayerTableModel::kMemory})
          out << layers->index(row, column).data().toString();
      return out;
    };
    QCOMPARE(costs(), (QStringList{"201 kFLOP", "512 B", "2.57 kFLOP", "40 B"}));
    auto* editor = page->findChild<YamlEditor*>("yamlEditor");
    editor->setFocus();
    editor->setTextCursor(editor->document()->find("units: 128"));
    QTest::keyClick(editor, Qt::Key_Right);
    QTest::keyClick(editor, Qt::Key_0);
    const QStringList tenfold{"2.01 MFLOP", "5.12 kB", "25.6 kFLOP", "40 B"};
    QVERIFY2(wait([&] { return costs() == tenfold; }), qPrintable(costs().join(", ")));
  }

  void keysAndCommentsAreColoured() {
    ModelPage* page = openCopy("fashion-cnn.yaml");
    auto* editor = page->findChild<YamlEditor*>("yamlEditor");
    editor->setFocus();
    QTest::keyClick(editor, Qt::Key_End, Qt::ControlModifier);
    QTest::keyClick(editor, Qt::Key_Home);
    QTest::keyClicks(editor, "seed: 7  # why");
    for (const Theme::Mode mode : {Theme::Mode::kLight, Theme::Mode::kDark}) {
      Theme::instance().apply(mode);
      const auto formats = editor->textCursor().block().layout()->formats();
      const auto colorAt = [&](int at) {
        for (const QTextLayout::FormatRange& one : formats)
          if (at >= one.start && at < one.start + one.length)
            return one.format.foreground().color();
        return QColor();
      };
      QCOMPARE(colorAt(0), Theme::instance().color("syntaxKey"));
      QCOMPARE(colorAt(4), QColor());  // the colon
      QCOMPARE(colorAt(6), Theme::instance().color("syntaxNumber"));
      QCOMPARE(colorAt(9), Theme::instance().color("syntaxComment"));
    }
  }

  void formAndTextAreOneDocument() {
    ModelPage* page = openCopy("fashion-cnn.yaml");
    auto* editor = page->findChild<YamlEditor*>("yamlEditor");
    const QString before = editor->toPlainText();
    page->selectLayer(1);
    page->addLayer("dense: {units: 64, activation: relu}");
    QVERIFY(editor->toPlainText().contains("units: 64"));
    QVERIFY(page->isModified());
    // The inspector has the layer that is selected.
    const auto* inspector = window_->findChild<QTableView*>("inspector")->model();
    for (const int row : {0, 2, 1}) {
      page->selectLayer(row);
      QCOMPARE(inspector->index(0, 0).data().toString(),
               page->layers()->index(row, LayerTableModel::kName).data().toString());
    }
    QAction* undo = window_->findChild<QAction*>("actionUndo");
    QVERIFY(undo->isEnabled());
    undo->trigger();
    QCOMPARE(editor->toPlainText(), before);
    QVERIFY(!page->isModified());
    // By hand: an error is marked at its line.
    editor->setFocus();
    QTextCursor cursor = editor->document()->find("kernel");
    cursor.insertText("kernal");
    QVERIFY(!editor->marks().isEmpty());
    QCOMPARE(editor->marks()[0].line, editor->document()->find("kernal").blockNumber() + 1);
    QVERIFY(page->findChild<QListWidget*>("problemList")->isVisibleTo(page));
    QVERIFY(!page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
    undo->trigger();
    QCOMPARE(editor->toPlainText(), before);
    QVERIFY(page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
    // Saved through the action.
    page->addLayer("dense: {units: 64, activation: relu}");
    window_->findChild<QAction*>("actionSave")->trigger();
    QFile saved(page->filePath());
    QVERIFY(saved.open(QIODevice::ReadOnly));
    QCOMPARE(QString::fromUtf8(saved.readAll()), editor->toPlainText());
    QVERIFY(!page->isModified());
  }

  // Ctrl+F looks for a text in a spec: forwards, backwards, round the end, and again after an edit.
  void textIsFoundInASpec() {
    const QString path = home_->path("cnn.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-cnn.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    for (const QString& file : {path, QString::fromStdString(examplePath("local-3.yaml"))}) {
      Page* page = window_->openFile(file);
      auto* editor = page->findChild<YamlEditor*>("yamlEditor");
      auto* bar = page->findChild<QWidget*>("yamlFind");
      QVERIFY(!bar->isVisible());
      QVERIFY(window_->findChild<QAction*>("actionFind")->isEnabled());
      window_->findChild<QAction*>("actionFind")->trigger();
      auto* edit = page->findChild<QLineEdit*>("yamlFindText");
      QVERIFY(bar->isVisible());
      QCOMPARE(window_->focusWidget(), edit);
      QTest::keyClicks(edit, "NAME");
      const int all = editor->toPlainText().count("name", Qt::CaseInsensitive);
      QVERIFY(all > 0);
      const auto count = [&] { return page->findChild<QLabel*>("yamlFindCount")->text(); };
      QCOMPARE(count(), QString("1/%1").arg(all));
      QCOMPARE(editor->textCursor().selectedText().toLower(), QString("name"));
      for (int at = 1; at <= all; ++at) {
        QTest::keyClick(edit, Qt::Key_Return);
        QCOMPARE(count(), QString("%1/%2").arg(at % all + 1).arg(all));
      }
      QTest::keyClick(edit, Qt::Key_Return, Qt::ShiftModifier);
      QCOMPARE(count(), QString("%1/%1").arg(all));
      page->findChild<QToolButton*>("yamlFindNext")->click();
      QCOMPARE(count(), QString("1/%1").arg(all));
      QTest::keyClicks(edit, "less");
      QCOMPARE(count(), QString("0/0"));
      QVERIFY(!page->findChild<QToolButton*>("yamlFindNext")->isEnabled());
      for (int i = 0; i < 4; ++i) QTest::keyClick(edit, Qt::Key_Backspace);
      QCOMPARE(editor->foundCount(), all);
      QVERIFY(!page->isModified());
      if (file == path) {  // what is written meanwhile counts
        qobject_cast<ModelPage*>(page)->addLayer("dense: {units: 8, name: head}");
        QCOMPARE(editor->foundCount(), all + 1);
        window_->findChild<QAction*>("actionUndo")->trigger();
        QCOMPARE(editor->foundCount(), all);
      }
      QTest::keyClick(edit, Qt::Key_Escape);
      QVERIFY(!bar->isVisible());
      QCOMPARE(window_->focusWidget(), editor);
      QCOMPARE(editor->foundCount(), 0);
    }
  }

  // The next line starts below this one; a text before which Enter is pressed moves down as it is.
  void enterKeepsTheIndentation() {
    YamlEditor editor("editor");
    const QString text = "a:\n  b: 1";
    const auto enter = [&](int from, int to) {
      editor.setText(text);
      QTextCursor cursor(editor.document());
      cursor.setPosition(from);
      cursor.setPosition(to, QTextCursor::KeepAnchor);
      editor.setTextCursor(cursor);
      QTest::keyClick(&editor, Qt::Key_Return);
      return editor.toPlainText();
    };
    QCOMPARE(enter(9, 9), QString("a:\n  b: 1\n  "));
    QCOMPARE(enter(3, 3), QString("a:\n\n  b: 1"));
    QCOMPARE(enter(4, 4), QString("a:\n \n  b: 1"));
    QCOMPARE(enter(2, 9), QString("a:\n"));  // what is selected goes
  }

  // One edit, so that one undo takes it back; an empty line stays empty.
  void tabIndentsAllSelectedLines() {
    YamlEditor editor("editor");
    const auto tab = [&](int from, int to) {
      editor.setText("a:\n\nb: 1\nc: 2");
      QTextCursor cursor(editor.document());
      cursor.setPosition(from);
      cursor.setPosition(to, QTextCursor::KeepAnchor);
      editor.setTextCursor(cursor);
      QSignalSpy edited(&editor, &YamlEditor::edited);
      QTest::keyClick(&editor, Qt::Key_Tab);
      return edited.size() == 1 ? editor.toPlainText() : QString("not one edit");
    };
    QCOMPARE(tab(1, 6), QString("  a:\n\n  b: 1\nc: 2"));
    QCOMPARE(tab(6, 1), QString("  a:\n\n  b: 1\nc: 2"));
    QCOMPARE(tab(4, 9), QString("a:\n\n  b: 1\nc: 2"));  // ends before the last line
    QVERIFY(editor.textCursor().hasSelection());
    QCOMPARE(tab(4, 5), QString("a:\n\n  : 1\nc: 2"));  // within a line it is replaced
    QCOMPARE(tab(1, 1), QString("a  :\n\nb: 1\nc: 2"));
  }

  // The problem of a spec: what is wrong where, and what was expected, as the command line says it.
  void wrongSpecSaysWhere_data() {
    QTest::addColumn<QString>("text");
    QTest::addColumn<int>("line");
    QTest::addColumn<int>("column");
    QTest::addColumn<QString>("says");
    QTest::newRow("misspelt field") << "version: 1\ntraining:\n  optimiser: {kind: sgd}\n"
                                    << 3 << 3 << "optimizer";
    QTest::newRow("wrong type") << "version: 1\ntraining:\n  batch: many\n" << 3 << 10 << "batch";
    QTest::newRow("no YAML") << "version: 1\ntraining: {batch\n" << 3 << 1 << "";
  }
  void wrongSpecSaysWhere() {
    QFETCH(QString, text);
    QFETCH(int, line);
    QFETCH(int, column);
    QFETCH(QString, says);
    const QString path = home_->path("wrong.yaml");
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(text.toUtf8());
    file.close();
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    QVERIFY(page);
    auto* problems = page->findChild<QListWidget*>("problemList");
    QVERIFY(problems->isVisibleTo(page));
    const QString place = QString("wrong.yaml:%1:%2: ").arg(line).arg(column);
    bool found = false;
    QString all;
    for (int row = 0; row < problems->count(); ++row) {
      const auto* item = problems->item(row);
      all += item->toolTip() + "\n";
      const bool helps =
          item->toolTip().contains("expected") || item->toolTip().contains("did you mean");
      found = found ||
              (item->toolTip().contains(place) && helps &&
               item->text().contains(QString("Line %1").arg(line)) && item->text().contains(says));
    }
    QVERIFY2(found, qPrintable(all));
    QVERIFY(!page->findChild<QPushButton*>("modelLaunchButton")->isEnabled());
  }

  void missingFileSaysWhatAndWhy() {
    QVERIFY(!window_->openFile(home_->path("absent.yaml")));
    MessagePanel* message = window_->currentPage()->message();
    QVERIFY(message->isVisibleTo(window_->currentPage()));
    QVERIFY(message->what().contains("absent.yaml"));
    QVERIFY(!message->details().isEmpty());
  }

  void unsavedTabAsksInThePage() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-mlp.yaml")), path));
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    page->addLayer("dense: {units: 8}");
    QPointer<Page> alive(page);
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    QVERIFY(window_->pages().contains(page));
    page->message()->findChild<QPushButton*>("messageAction")->click();
    QVERIFY(wait([&] { return alive.isNull(); }));
  }

  // What came after the question stays when there is nothing to ask any more.
  void savingTakesTheQuestionAlone() {
    const QString path = home_->path("mine.yaml");
    QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-mlp.yaml")), path));
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    auto* page = qobject_cast<ModelPage*>(window_->openFile(path));
    page->addLayer("dense: {units: 8}");
    window_->findChild<QAction*>("actionCloseTab")->trigger();
    auto* action = page->message()->findChild<QPushButton*>("messageAction");
    page->message()->showError(invalidArgument("a data file is missing"));
    QVERIFY(action->isVisible());
    QVERIFY(page->save());
    QVERIFY(!action->isVisible());
    QVERIFY(page->message()->isVisible());
    QCOMPARE(page->message()->what(), QString("a data file is missing"));
  }

  // A file has one tab: what another one shows is not saved over.
  void oneTabIsNotSavedOverAnother() {
    QList<ModelPage*> pages;
    for (const char* name : {"one.yaml", "two.yaml"}) {
      const QString path = home_->path(name);
      QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-mlp.yaml")), path));
      QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
      pages << qobject_cast<ModelPage*>(window_->openFile(path));
    }
    const auto saveAs = [&](const QString& path) {
      window_->findChild<QAction*>("actionSaveAs")->trigger();
      auto* dialog = window_->findChild<QFileDialog*>("saveAsDialog");
      Q_EMIT dialog->fileSelected(path);
      delete dialog;
    };
    pages[1]->addLayer("dense: {units: 8}");
    saveAs(home_->path("one.yaml"));
    QVERIFY(pages[1]->isModified());
    QCOMPARE(pages[1]->filePath(), home_->path("two.yaml"));
    QVERIFY2(pages[1]->message()->what().contains("is open in another tab"),
             qPrintable(pages[1]->message()->what()));
    saveAs(home_->path("three.yaml"));
    QVERIFY(!pages[1]->isModified());
    QCOMPARE(pages[1]->filePath(), home_->path("three.yaml"));
    saveAs(home_->path("three.yaml"));  // no other tab has it
    QCOMPARE(pages[1]->filePath(), home_->path("three.yaml"));
    // A tab whose file is gone does not show a file that is not there yet.
    QVERIFY(QFile::remove(home_->path("one.yaml")));
    saveAs(home_->path("four.yaml"));
    QCOMPARE(pages[1]->filePath(), home_->path("four.yaml"));
  }

  // Each of several asks for itself, until it is saved.
  void unsavedTabsAskEachForItself() {
    QList<ModelPage*> pages;
    for (const char* name : {"one.yaml", "two.yaml"}) {
      const QString path = home_->path(name);
      QVERIFY(QFile::copy(QString::fromStdString(examplePath("fashion-mlp.yaml")), path));
      QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
      pages << qobject_cast<ModelPage*>(window_->openFile(path));
      pages.back()->addLayer("dense: {units: 8}");
      window_->findChild<QAction*>("actionCloseTab")->trigger();
      QVERIFY(pages.back()->message()->isVisibleTo(pages.back()));
    }
    QVERIFY(pages[1]->save());
    QVERIFY(!pages[1]->message()->isVisibleTo(pages[1]));
    QVERIFY(window_->pages().contains(pages[1]));
    QVERIFY(pages[0]->message()->isVisibleTo(pages[0]));
    QPointer<Page> alive(pages[0]);
    pages[0]->message()->findChild<QPushButton*>("messageAction")->click();
    QVERIFY(wait([&] { return alive.isNull(); }));
  }

 private:
  // That can be written to.
  ModelPage* openCopy(const char* example) {
    const QString path = home_->path(example);
    QFile::copy(QString::fromStdString(examplePath(example)), path);
    QFile::setPermissions(path, QFile::ReadOwner | QFile::WriteOwner);
    return qobject_cast<ModelPage*>(window_->openFile(path));
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
};

QTEST_MAIN(SpecPageTest)
#include "spec_page_test.moc"
