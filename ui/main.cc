// lockstep-studio: the window.
#include <QApplication>
#include <QCommandLineParser>
#include <QTimer>
#include <QUrl>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string_view>

#include "engine/base/log.h"
#include "ui/studio/background.h"
#include "ui/window/main_window.h"

namespace {

// Help and version need no display.
bool asksForText(int argc, char** argv) {
  const auto end = std::find(argv + 1, argv + argc, std::string_view("--"));
  return std::any_of(argv + 1, end, [](const char* word) {
    const std::string_view text(word);
    return text == "-h" || text == "--help" || text == "--help-all" || text == "-v" ||
           text == "--version";
  });
}

// Qt would end with an abort.
bool displayIsThere(int argc, char** argv) {
  return qEnvironmentVariableIsSet("DISPLAY") || qEnvironmentVariableIsSet("WAYLAND_DISPLAY") ||
         qEnvironmentVariableIsSet("QT_QPA_PLATFORM") ||
         std::any_of(argv + 1, argv + argc,
                     [](const char* word) { return std::string_view(word) == "-platform"; });
}

int runWindow(lockstep::ui::StudioOptions given, const QStringList& files, const QString& model,
              const QString& cluster) {
  lockstep::ui::MainWindow window(std::move(given));
  window.restoreSession(files.isEmpty() && model.isEmpty());  // no run before a file that was named
  for (const QString& file : files) {
    if (lockstep::ui::placeOf(file))
      window.openLink(file);
    else
      window.openFile(file.startsWith("file:") ? QUrl(file).toLocalFile() : file);
  }
  window.show();
  // The frame's size is known once the window manager has put it round the window.
  for (const int after : {0, 150, 600})
    QTimer::singleShot(after, &window, &lockstep::ui::MainWindow::fitToScreen);
  if (!model.isEmpty()) window.openReady(model, cluster);
  return QApplication::exec();
}

}  // namespace

int main(int argc, char** argv) {
  const bool text = asksForText(argc, argv);
  if (!text && !displayIsThere(argc, argv)) {
    std::fprintf(stderr,
                 "lockstep-studio: there is no display (DISPLAY and WAYLAND_DISPLAY are not set): "
                 "start it in a "
                 "graphical session, or use lockstep, which needs none\n");
    return 3;
  }
  const std::unique_ptr<QCoreApplication> app(text ? new QCoreApplication(argc, argv)
                                                   : new QApplication(argc, argv));
  QCoreApplication::setApplicationName("Lockstep");
  QCoreApplication::setApplicationVersion(LOCKSTEP_VERSION);
  if (!text) QGuiApplication::setDesktopFileName("lockstep-studio");

  QCommandLineParser parser;
  parser.setApplicationDescription("Lockstep: a studio for training neural networks on a cluster.");
  parser.addHelpOption();
  parser.addVersionOption();
  const QCommandLineOption home("home", "Folder for settings and history.", "DIR");
  const QCommandLineOption ssh("ssh-config", "SSH configuration instead of ~/.ssh/config.", "FILE");
  const QCommandLineOption examples("examples", "Folder of example specs.", "DIR");
  const QCommandLineOption open("open", "Opens a run spec, ready to launch.", "FILE");
  const QCommandLineOption example("open-example", "The same with an example.", "NAME");
  const QCommandLineOption cluster("cluster", "What to launch it on: a file, or an example's name.",
                                   "CLUSTER");
  parser.addOptions({home, ssh, examples, open, example, cluster});
  parser.addPositionalArgument("files", "Clusters, run specs and links to open.", "[files…]");
  parser.process(*app);

  auto opened = lockstep::app::openHome(parser.value(home).toStdString());
  if (!opened) {
    lockstep::logError("{}", opened.error().text());
    return 3;
  }
  lockstep::ui::StudioOptions options;
  options.home = *opened;
  options.sshConfig = parser.value(ssh);
  options.examples = parser.value(examples);
  const QString model = parser.value(parser.isSet(example) ? example : open);
  const int result =
      runWindow(std::move(options), parser.positionalArguments(), model, parser.value(cluster));
  lockstep::ui::endBackground();  // the window is gone, the application is not
  return result;
}
