// The lessons in the window, as a student goes through them with mouse and keyboard.
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QDir>
#include <QDockWidget>
#include <QFileDialog>
#include <QHelpEvent>
#include <QLabel>
#include <QListView>
#include <QPointer>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QToolButton>
#include <QToolTip>

#include "app/learn/lesson.h"
#include "app/learn/scene.h"
#include "tests/ui/studio_fixture.h"
#include "ui/dialogs/launch_dialog.h"
#include "ui/pages/learn_page.h"
#include "ui/pages/lesson_text.h"
#include "ui/pages/welcome_page.h"
#include "ui/plots/messages_view.h"
#include "ui/studio/lesson_session.h"
#include "ui/widgets/player.h"
#include "ui/widgets/widgets.h"

using namespace lockstep;
using namespace lockstep::ui;
using tests::StudioHome;

namespace {
constexpr int kLongMs = 60'000;
}

class LearnPageTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void initTestCase() {
    auto lessons = app::readLessons(lessonsPath().toStdString());
    QVERIFY2(lessons.ok(), lessons.ok() ? "" : lessons.error().text().c_str());
    lessons_ = std::move(*lessons);
    QVERIFY(!lessons_.empty());
  }
  void init() { start(lessonsPath()); }
  void cleanup() {
    tests::closeWindow(window_);
    home_.reset();
  }

  // From the welcome page by mouse, into the first lesson by keyboard, and back.
  void thePlaceIsFound() {
    QTest::mouseClick(window_->openWelcome()->findChild<QPushButton*>("learnButton"),
                      Qt::LeftButton);
    auto* page = qobject_cast<LearnPage*>(window_->currentPage());
    QVERIFY(page);
    auto* list = page->findChild<QListView*>("lessons");
    QCOMPARE(list->model()->rowCount(), static_cast<int>(lessons_.size()));
    list->setFocus();
    QTest::keyClick(list, Qt::Key_Return);
    QVERIFY(page->session());
    QCOMPARE(page->session()->lesson().id, lessons_[0].id);
    QTRY_VERIFY_WITH_TIMEOUT(page->session()->scene() != nullptr, kLongMs);
    QTest::mouseClick(page->findChild<QPushButton*>("toLessons"), Qt::LeftButton);
    QVERIFY(!page->session());
    window_->findChild<QAction*>("actionBack")->trigger();
    QVERIFY(page->session());
  }

  void pagesAreTurned() {
    LearnPage* page = open(0);
    const app::Lesson& lesson = page->session()->lesson();
    auto* next = page->findChild<QPushButton*>("lessonNext");
    auto* back = page->findChild<QPushButton*>("lessonBack");
    auto* tabs = page->findChild<QTabWidget*>("lessonTabs");
    QCOMPARE(tabs->count(), static_cast<int>(lesson.views.size()));
    const app::LessonState first = page->session()->state();
    for (std::size_t i = 1; i < lesson.pages.size(); ++i) {
      QTest::mouseClick(next, Qt::LeftButton);
      QCOMPARE(page->session()->page(), static_cast<int>(i));
      QCOMPARE(lesson.views[static_cast<std::size_t>(tabs->currentIndex())], lesson.pages[i].view);
      for (const auto& [name, value] : lesson.pages[i].state)
        QCOMPARE(page->session()->state().at(name), value);
    }
    QVERIFY(!next->isEnabled());
    back->setFocus();
    for (std::size_t i = 1; i < lesson.pages.size(); ++i) QTest::keyClick(back, Qt::Key_Space);
    QCOMPARE(page->session()->page(), 0);
    QCOMPARE(page->session()->state(), first);
    settle(page);
  }

  // Of each chart there is as much as the label of its x axis needs, in a window of 1280 × 800.
  void chartsAreWhole() {
    window_->resize(1280, 800);
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      const auto& views = lessons_[i].views;
      if (std::find(views.begin(), views.end(), app::LessonView::kChart) == views.end()) continue;
      LearnPage* page = open(i);
      showView(page, i, app::LessonView::kChart);
      auto* plot = page->findChild<QWidget*>("lessonChart0");
      QVERIFY(plot);
      QTRY_VERIFY_WITH_TIMEOUT(plot->findChild<QWidget*>("plotCanvas")->height() > 170, kLongMs);
      const auto* inSight = plot->parentWidget()->parentWidget();
      QTRY_VERIFY2_WITH_TIMEOUT(inSight->height() >= plot->minimumHeight(), lessons_[i].id.c_str(),
                                kLongMs);
    }
  }

  void bytesAreShownInBinaryUnits() {
    LearnPage* page = open(2);
    const auto shown = [&] { return page->findChild<QLabel*>("sliderValue.bucket")->text(); };
    QCOMPARE(shown(), QString("16\u00a0MiB"));
    page->session()->setValue("bucket", "262144");
    QCOMPARE(shown(), QString("256\u00a0KiB"));
    settle(page);
    const app::ChartScene& chart = page->session()->scene()->charts[0];
    QCOMPARE(chart.x.en, std::string("Bucket (MiB)"));
    QCOMPARE(chart.marked.value_or(0), 0.25);
  }

  void namedValuesAreShownByWords() {
    LearnPage* page = open(7);
    QCOMPARE(page->findChild<QLabel*>("sliderValue.repaired")->text(), QString("none"));
    page->session()->setValue("repaired", "6");
    QCOMPARE(page->findChild<QLabel*>("sliderValue.repaired")->text(), QString("6"));
    settle(page);
  }

  // So are those of a slider whose values are no numbers.
  void namedWordsAreShownByWords() {
    const QString folder = home_->path("lessons");
    QVERIFY(QDir().mkpath(folder));
    QFile written(lessonsPath() + "/10-scaling.yaml"), named(folder + "/10-scaling.yaml");
    QVERIFY(written.open(QIODevice::ReadOnly) && named.open(QIODevice::WriteOnly));
    const QByteArray values = "    values: [strong, weak]\n";
    QByteArray text = written.readAll();
    QCOMPARE(text.count(values), 1);
    named.write(
        text.replace(values, values + "    names: {weak: {en: \"it grows\", zh: \"增长\"}}\n"));
    named.close();
    tests::closeWindow(window_);
    open(folder);
    LearnPage* page = window_->openLearn();
    page->openLesson("10-scaling");
    settle(page);
    auto* scaling = page->findChild<QComboBox*>("slider.scaling");
    QVERIFY(scaling);
    QCOMPARE(scaling->itemText(0), QString("strong"));
    QCOMPARE(scaling->itemText(1), QString("it grows"));
    scaling->setCurrentIndex(1);
    QCOMPARE(page->session()->state().at("scaling"), std::string("weak"));
    window_->setLanguage("zh_CN");
    QTRY_COMPARE_WITH_TIMEOUT(scaling->itemText(1), QString("增长"), kLongMs);
    window_->setLanguage("en");
    settle(page);
  }

  // By keyboard: each value of each slider has a scene.
  void everySliderMoves() {
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      LearnPage* page = open(i);
      for (const app::Slider& slider : lessons_[i].sliders) {
        auto* part = page->findChild<QWidget*>("slider." + QString::fromStdString(slider.name));
        QVERIFY(part);
        QVERIFY(!part->accessibleName().isEmpty());
        part->setFocus();
        const bool fromEnd = slider.start + 1 == slider.values.size();
        const auto before = page->session()->scene();
        QTest::keyClick(part, fromEnd ? Qt::Key_Home : Qt::Key_End);
        QCOMPARE(page->session()->state().at(slider.name),
                 fromEnd ? slider.values.front() : slider.values.back());
        settle(page);
        QVERIFY(page->session()->scene() != before || page->session()->error());
      }
      QTest::mouseClick(page->findChild<QToolButton*>("lessonRestart"), Qt::LeftButton);
      QCOMPARE(page->session()->state(), lessons_[i].start());
      settle(page);
    }
  }

  void exercisesAreReached() {
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      LearnPage* page = open(i);
      for (std::size_t e = 0; e < lessons_[i].exercises.size(); ++e) {
        auto* hint = page->findChild<QPushButton*>(QString("exerciseHint%1").arg(e));
        hint->click();
        QVERIFY(page->findChild<QLabel*>(QString("exerciseHintText%1").arg(e))->isVisibleTo(page));
        page->session()->restart();
        QVERIFY(page->session()->setState(lessons_[i].exercises[e].solution).ok());
        const bool reached = QTest::qWaitFor(
            [&] { return page->session()->reached().contains(static_cast<int>(e)); }, kLongMs);
        QVERIFY2(
            reached,
            qPrintable(
                QString("%1, exercise %2").arg(QString::fromStdString(lessons_[i].id)).arg(e + 1)));
        QVERIFY(page->findChild<QLabel*>(QString("exerciseDone%1").arg(e))->isVisibleTo(page));
      }
      // It is remembered.
      page->openLesson({});
      page->openLesson(QString::fromStdString(lessons_[i].id));
      QCOMPARE(page->session()->reached().size(), lessons_[i].exercises.size());
      page->openLesson({});
      const QString text = page->findChild<QListView*>("lessons")
                               ->model()
                               ->index(static_cast<int>(i), 0)
                               .data(Qt::AccessibleTextRole)
                               .toString();
      QVERIFY2(text.contains("done"), qPrintable(text));
    }
  }

  // Where a slice begins, though the ranks do not divide the elements evenly.
  void aSliceTellsWhereItBegins() {
    auto scene = std::make_shared<app::MessagesScene>();
    scene->ranks = scene->slices = 3;
    scene->elements = 11;
    scene->sums = {std::vector(3, std::vector<int>(3, 1))};
    MessagesView view("messages");
    view.setMessages(scene);
    view.resize(520, 320);
    view.show();
    const QRectF box = view.boxOf(0);
    const QPoint last = QPointF(box.right() - 2, box.center().y()).toPoint();
    QHelpEvent help(QEvent::ToolTip, last, view.mapToGlobal(last));
    QApplication::sendEvent(&view, &help);
    QVERIFY2(QToolTip::text().contains("elements from 7:"), qPrintable(QToolTip::text()));
  }

  void messagesArePlayed() {
    const std::size_t at = lessonWith(app::LessonView::kMessages);
    LearnPage* page = open(at);
    showView(page, at, app::LessonView::kMessages);
    auto* view = page->findChild<MessagesView*>();
    QTRY_VERIFY_WITH_TIMEOUT(view->messages() != nullptr, kLongMs);
    const int rounds = view->messages()->rounds;
    auto* player = page->findChild<Player*>("messagesPlayer");
    QTest::keyClick(view, Qt::Key_Home);
    QCOMPARE(view->round(), 0.0);
    QTest::mouseClick(player->findChild<QToolButton*>("messagesPlayerForward"), Qt::LeftButton);
    QCOMPARE(view->round(), 1.0);
    QTest::keyClick(view, Qt::Key_Right);
    QCOMPARE(view->round(), std::min(2.0, static_cast<double>(rounds)));
    QTest::keyClick(view, Qt::Key_Left);
    QCOMPARE(view->round(), std::min(1.0, rounds - 1.0));
    const QString before = view->roundText();
    QTest::keyClick(view, Qt::Key_End);
    QCOMPARE(view->round(), static_cast<double>(rounds));
    QVERIFY(view->roundText() != before);
    QVERIFY(!player->findChild<QToolButton*>("messagesPlayerForward")->isEnabled());
    // Played at four times the speed, from the beginning, and paused.
    player->findChild<QComboBox*>("messagesPlayerSpeed")->setCurrentIndex(4);
    QTest::keyClick(view, Qt::Key_Space);
    QVERIFY(player->isPlaying());
    QTRY_VERIFY_WITH_TIMEOUT(view->round() > 0, kLongMs);
    if (player->isPlaying()) QTest::keyClick(view, Qt::Key_Space);
    QVERIFY(!player->isPlaying());
    page->findChild<QToolButton*>("messagesAsTable")->click();
    QCOMPARE(page->findChild<QTableView*>("messagesTable")->model()->rowCount(),
             static_cast<int>(view->messages()->messages.size()));
  }

  // The chart of a training is played: a line moves, and the values there are told.
  void aTrainingIsPlayed() {
    const auto at = static_cast<std::size_t>(
        std::find_if(lessons_.begin(), lessons_.end(),
                     [](const app::Lesson& one) { return one.id.find("server") != one.id.npos; }) -
        lessons_.begin());
    QVERIFY(at < lessons_.size());
    LearnPage* page = open(at);
    auto* player = page->findChild<Player*>("chartPlayer");
    QTRY_VERIFY_WITH_TIMEOUT(player->isVisibleTo(page), kLongMs);
    QVERIFY(player->atEnd());
    auto* moment = page->findChild<QLabel*>("lessonMoment");
    const QString end = moment->text();
    QVERIFY2(end.contains("in lockstep "), qPrintable(end));
    QTest::mouseClick(player->findChild<QToolButton*>("chartPlayerBack"), Qt::LeftButton);
    QVERIFY(!player->atEnd() && moment->text() != end);
    player->setPosition(0);
    QTest::mouseClick(player->findChild<QToolButton*>("chartPlayerPlay"), Qt::LeftButton);
    QTRY_VERIFY_WITH_TIMEOUT(player->position() > 0, kLongMs);
    player->pause();
    page->openLesson(QString::fromStdString(lessons_[lessonWith(app::LessonView::kMessages)].id));
    settle(page);
  }

  // Where a term is explained, it is in the text of a page: a link, in both languages.
  void everyTermIsInAText() {
    for (const app::Lesson& lesson : lessons_)
      for (const char* language : {"en", "zh_CN"})
        for (std::size_t term = 0; term < lesson.terms.size(); ++term) {
          const bool isThere = std::any_of(
              lesson.pages.begin(), lesson.pages.end(), [&](const app::LessonPage& page) {
                return lessonHtml(QString::fromStdString(page.text.in(language)), lesson.terms,
                                  language)
                    .contains(QString("\"term:%1\"").arg(term));
              });
          QVERIFY2(isThere, (lesson.id + ": " + lesson.terms[term].name.in(language)).c_str());
        }
  }

  void aTermIsExplained() {
    const std::vector<app::Term> terms{{{"all-reduce", "规约"}, {"sum", "和"}},
                                       {{"rank", "进程"}, {"worker", "工"}}};
    QCOMPARE(lessonHtml("The all-reduce of ranks, a Rank.", terms, "en").count("<a href"), 2);
    QCOMPARE(lessonHtml("A franked <b> letter", terms, "en").count("<a href"), 0);
    QVERIFY(lessonHtml("A <b> letter", terms, "en").contains("&lt;b&gt;"));
    QVERIFY(lessonHtml("做规约时", terms, "zh_CN").contains("term:0"));
    LearnPage* page = open(0);
    auto* text = page->findChild<QLabel*>("lessonPageText");
    if (!text->text().contains("term:")) QSKIP("the first page of the first lesson has no term");
    text->setFocus();
    QTest::keyClick(text, Qt::Key_Tab);
    QTest::keyClick(text, Qt::Key_Return);
    QVERIFY(page->findChild<QWidget*>("lessonTermBox")->isVisibleTo(page));
    settle(page);
  }

  void aStateIsSavedAndOpened() {
    LearnPage* page = open(0);
    const app::Slider& slider = lessons_[0].sliders[0];
    const std::string value = slider.start == 0 ? slider.values.back() : slider.values.front();
    page->session()->setValue(slider.name, value);
    page->findChild<QToolButton*>("lessonSave")->click();
    choose("saveLessonDialog", home_->path("mine.lesson"));
    QVERIFY(QFile::exists(home_->path("mine.lesson")));
    page->session()->restart();
    page->findChild<QToolButton*>("lessonOpen")->click();
    choose("openLessonDialog", home_->path("mine.lesson"));
    QCOMPARE(page->session()->state().at(slider.name), value);
    // As a link, to another studio.
    page->findChild<QToolButton*>("lessonLink")->click();
    const QString link = QApplication::clipboard()->text();
    QVERIFY2(link.startsWith("lockstep:learn/"), qPrintable(link));
    page->openLesson({});
    window_->openLink(link);
    QCOMPARE(page->session()->state().at(slider.name), value);
    window_->openLink("lockstep:learn/" + QString::fromStdString(lessons_[0].id) + "?nothing=1");
    QVERIFY(page->message()->isVisibleTo(page));
    settle(page);
  }

  // While a lesson is open, from English to Chinese and from Chinese to English in turn.
  void theLanguageChanges() {
    const char *now = "en", *next = "zh_CN";
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      LearnPage* page = open(i);
      checkTexts(page, lessons_[i], now);
      window_->setLanguage(next);
      QTRY_COMPARE_WITH_TIMEOUT(page->findChild<QLabel*>("lessonQuestion")->text(),
                                QString::fromStdString(lessons_[i].question.in(next)), kLongMs);
      checkTexts(page, lessons_[i], next);
      if (QTest::currentTestFailed()) return;
      std::swap(now, next);
      settle(page);
    }
    window_->setLanguage("en");
  }

  void aProjectorHasLargeType() {
    LearnPage* page = open(0);
    auto* text = page->findChild<QLabel*>("lessonPageText");
    const double before = text->font().pointSizeF();
    auto* dock = window_->findChildren<QDockWidget*>().first();
    page->findChild<QToolButton*>("lessonProjector")->click();
    QVERIFY(text->font().pointSizeF() > 1.3 * before);
    QVERIFY(dock->isHidden());
    window_->openWelcome();
    QVERIFY(!dock->isHidden());
    window_->openLearn();
    page = qobject_cast<LearnPage*>(window_->currentPage());
    page->findChild<QToolButton*>("lessonProjector")->click();
    QVERIFY(!dock->isHidden());
    QCOMPARE(text->font().pointSizeF(), before);
    settle(page);
  }

  // The launch dialog has the lesson's settings and its agents on this machine.
  void theRealRunIsOffered() {
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      const app::Lesson& lesson = lessons_[i];
      LearnPage* page = open(i);
      page->findChild<QPushButton*>("lessonRun")->click();
      const QPointer<LaunchDialog> dialog = window_->findChild<LaunchDialog*>();
      QVERIFY(dialog);
      QCOMPARE(dialog->findChild<QSpinBox*>("launchNodes")->value(), lesson.real.ranks);
      QVERIFY2(dialog->command().contains(QString::fromStdString(lesson.id) + ".yaml"),
               qPrintable(dialog->command()));
      QTRY_VERIFY2_WITH_TIMEOUT(dialog->ready(), lesson.id.c_str(), kLongMs);
      QCOMPARE(dialog->preview()->ranks.size(), static_cast<std::size_t>(lesson.real.ranks));
      dialog->close();
      QTRY_VERIFY_WITH_TIMEOUT(!dialog, kLongMs);
    }
  }

  // Those that a real run has and that no page has moved, as `lockstep learn --run --set` does.
  void theRealRunTakesMovedSliders() {
    LearnPage* page = open(9);
    const app::Lesson& lesson = lessons_[9];
    const auto press = [&](const char* slider, Qt::Key key) {
      QTest::keyClick(page->findChild<QWidget*>(QString("slider.") + slider), key);
    };
    const auto command = [&] { return page->findChild<QLabel*>("lessonRunCommand")->text(); };
    const QString own = "lockstep learn " + QString::fromStdString(lesson.id) + " --run";
    QCOMPARE(command(), own);
    press("ranks", Qt::Key_Right);
    press("ranks", Qt::Key_Right);
    press("batch", Qt::Key_End);
    press("scaling", Qt::Key_End);
    press("bandwidth", Qt::Key_Home);
    QCOMPARE(command(), own + " --set batch=4096 --set ranks=4");
    const QString settings = page->findChild<QLabel*>("lessonRunSettings")->text();
    QVERIFY2(settings.startsWith("4 ") && settings.contains("training.batch = 4096"),
             qPrintable(settings));
    page->findChild<QPushButton*>("lessonRun")->click();
    const QPointer<LaunchDialog> dialog = window_->findChild<LaunchDialog*>();
    QVERIFY(dialog);
    QCOMPARE(dialog->findChild<QSpinBox*>("launchNodes")->value(), 4);
    QCOMPARE(dialog->findChild<QSpinBox*>("launchBatch")->value(), 4096);
    QVERIFY2(dialog->command().contains(" --local 4") && !dialog->command().contains("--set"),
             qPrintable(dialog->command()));
    QTRY_VERIFY_WITH_TIMEOUT(dialog->ready(), kLongMs);
    dialog->close();
    QTRY_VERIFY_WITH_TIMEOUT(!dialog, kLongMs);
    // The next page moves the ranks.
    QTest::mouseClick(page->findChild<QPushButton*>("lessonNext"), Qt::LeftButton);
    QCOMPARE(page->session()->state().at("ranks"), std::string("8"));
    QCOMPARE(command(), own + " --set batch=4096");
    QTest::mouseClick(page->findChild<QToolButton*>("lessonRestart"), Qt::LeftButton);
    QCOMPARE(command(), own);
    QCOMPARE(page->session()->realRun().ranks, lesson.real.ranks);
    settle(page);
  }

  // A value of the start is run too where it was chosen.
  void theRealRunTakesAValueOfTheStart() {
    LearnPage* page = open(1);
    auto* algorithm = page->findChild<QComboBox*>("slider.algorithm");
    QCOMPARE(page->session()->realRun().settings.at("strategy.all_reduce"), std::string("ring"));
    QTest::keyClick(algorithm, Qt::Key_End);
    QTest::keyClick(algorithm, Qt::Key_Home);
    QCOMPARE(page->session()->state(), lessons_[1].start());
    QCOMPARE(page->session()->realRun().settings.at("strategy.all_reduce"), std::string("direct"));
    QVERIFY(
        page->findChild<QLabel*>("lessonRunCommand")->text().endsWith(" --set algorithm=direct"));
    QTest::mouseClick(page->findChild<QToolButton*>("lessonRestart"), Qt::LeftButton);
    QCOMPARE(page->session()->realRun().settings.at("strategy.all_reduce"), std::string("ring"));
    settle(page);
  }

  // The others can still be opened.
  void aDamagedLessonSaysWhy() {
    const QString folder = home_->path("lessons");
    QVERIFY(QDir().mkpath(folder));
    const QString id = QString::fromStdString(lessons_[0].id);
    QVERIFY(QFile::copy(lessonsPath() + "/" + id + ".yaml", folder + "/" + id + ".yaml"));
    QFile damaged(folder + "/zz-damaged.yaml");
    QVERIFY(damaged.open(QIODevice::WriteOnly));
    damaged.write("title: [not a lesson\n");
    damaged.close();
    tests::closeWindow(window_);
    open(folder);
    LearnPage* page = window_->openLearn();
    auto* list = page->findChild<QListView*>("lessons");
    QCOMPARE(list->model()->rowCount(), 2);
    const QRect row = list->visualRect(list->model()->index(1, 0));
    QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, row.center());
    QVERIFY(!page->session());
    QVERIFY2(page->message()->details().contains("zz-damaged.yaml"),
             qPrintable(page->message()->details()));
    QTest::mouseClick(list->viewport(), Qt::LeftButton, {},
                      list->visualRect(list->model()->index(0, 0)).center());
    QVERIFY(page->session());
    settle(page);
  }

  void withoutLessonsThePageSaysSo() {
    tests::closeWindow(window_);
    open(home_->path("absent"));
    LearnPage* page = window_->openLearn();
    auto* empty = page->findChild<QWidget*>("learnEmpty");
    QVERIFY(empty->isVisibleTo(page));
    QVERIFY(QDir().mkpath(home_->path("absent")));
    const QString id = QString::fromStdString(lessons_[0].id);
    QVERIFY(QFile::copy(lessonsPath() + "/" + id + ".yaml", home_->path("absent/" + id + ".yaml")));
    for (auto* button : empty->findChildren<QPushButton*>()) button->click();
    QVERIFY(!empty->isVisibleTo(page));
    QCOMPARE(page->findChild<QListView*>("lessons")->model()->rowCount(), 1);
  }

  // A scene that is made in spite of it is of earlier values, which is said.
  void whatIsMadeOfEarlierValuesIsSaid() {
    LearnPage* page = open(0);
    LessonSession* session = page->session();
    session->setValue("batch", "256");
    session->setValue("batch", "1024");  // is made after the other
    session->cancel();
    settle(page);
    QVERIFY(session->error());
    QCOMPARE(session->error()->code, Code::kCancelled);
    auto* again = page->findChild<QPushButton*>("lessonAgain");
    QVERIFY(again->isVisibleTo(page));
    QTest::mouseClick(again, Qt::LeftButton);
    settle(page);
    QVERIFY(!session->error() && !again->isVisibleTo(page));
  }

  // What takes seconds can be stopped, and made again.
  void whatIsSlowCanBeStopped() {
    for (std::size_t i = 0; i < lessons_.size(); ++i) {
      if (lessons_[i].scene != "training") continue;
      LearnPage* page = open(i, false);
      auto* cancel = page->findChild<QPushButton*>("lessonCancel");
      QTRY_VERIFY_WITH_TIMEOUT(cancel->isVisibleTo(page) || !page->session()->isMaking(), kLongMs);
      if (!page->session()->isMaking()) continue;  // a fast machine
      QTest::mouseClick(cancel, Qt::LeftButton);
      settle(page);
      if (page->session()->scene()) continue;  // it ended at that moment
      QCOMPARE(page->session()->error()->code, Code::kCancelled);
      QTest::mouseClick(page->findChild<QPushButton*>("lessonAgain"), Qt::LeftButton);
      QVERIFY(page->session()->isMaking());
      page->session()->cancel();
      settle(page);
    }
  }

 private:
  static QString lessonsPath() {
    return QString::fromStdString(lockstep::test::sourcePath("resources/lessons"));
  }
  void start(const QString& lessons) {
    home_ = std::make_unique<StudioHome>();
    open(lessons);
  }
  void open(const QString& lessons) {
    StudioOptions options = home_->options();
    options.lessons = lessons;
    window_ = std::make_unique<MainWindow>(options);
    window_->setLanguage("en");
    window_->show();
    QVERIFY(QTest::qWaitForWindowExposed(window_.get()));
  }
  LearnPage* open(std::size_t lesson, bool wait = true) {
    LearnPage* page = window_->openLearn();
    page->openLesson(QString::fromStdString(lessons_[lesson].id));
    if (wait) settle(page);
    return page;
  }
  static void settle(LearnPage* page) {
    QTRY_VERIFY_WITH_TIMEOUT(!page->session()->isMaking(), kLongMs);
  }
  std::size_t lessonWith(app::LessonView view) const {
    for (std::size_t i = 0; i < lessons_.size(); ++i)
      for (const app::LessonView has : lessons_[i].views)
        if (has == view) return i;
    return 0;
  }
  // The page shows the lesson's texts in this language.
  static void checkTexts(LearnPage* page, const app::Lesson& lesson, const char* language) {
    const auto shown = [&](const QString& name) { return page->findChild<QLabel*>(name)->text(); };
    const auto words = [&](const app::Words& text) {
      return QString::fromStdString(text.in(language));
    };
    QCOMPARE(shown("lessonTitle"), words(lesson.title));
    QCOMPARE(shown("lessonQuestion"), words(lesson.question));
    QCOMPARE(shown("lessonPageText"),
             lessonHtml(words(lesson.pages[0].text), lesson.terms, language));
    for (const app::Slider& slider : lesson.sliders)
      QCOMPARE(shown("sliderLabel." + QString::fromStdString(slider.name)), words(slider.label));
    for (std::size_t i = 0; i < lesson.exercises.size(); ++i)
      QCOMPARE(shown(QString("exerciseTask%1").arg(i)), words(lesson.exercises[i].task));
    QCOMPARE(shown("lessonRunText"), words(lesson.real.text));
    QCOMPARE(page->findChild<QPushButton*>("lessonNext")->text() == "Next",
             QString(language) == "en");
  }
  void showView(LearnPage* page, std::size_t lesson, app::LessonView view) const {
    const auto& views = lessons_[lesson].views;
    const auto at = std::find(views.begin(), views.end(), view) - views.begin();
    page->findChild<QTabWidget*>("lessonTabs")->setCurrentIndex(static_cast<int>(at));
  }
  void choose(const char* dialog, const QString& path) {
    auto* chooser = window_->findChild<QFileDialog*>(dialog);
    QVERIFY(chooser);
    chooser->close();
    Q_EMIT chooser->fileSelected(path);
  }

  std::unique_ptr<StudioHome> home_;
  std::unique_ptr<MainWindow> window_;
  std::vector<app::Lesson> lessons_;
};

QTEST_MAIN(LearnPageTest)
#include "learn_page_test.moc"
