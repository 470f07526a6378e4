// lockstep-studio: the window.
#include <QApplication>
#include <QCommandLineParser>

#include "engine/base/log.h"
#include "ui/theme/error_text.h"
#include "ui/window/main_window.h"

int main(int argc, char** argv) {
  QApplication app(argc, argv);
  QApplication::setApplicationName("Lockstep");
  QApplication::setApplicationVersion(LOCKSTEP_VERSION);
  QApplication::setDesktopFileName("lockstep-studio");

  QCommandLineParser parser;
  parser.setApplicationDescription("Lockstep: a studio for training neural networks on a cluster.");
  parser.addHelpOption();
  parser.addVersionOption();
  const QCommandLineOption home("home", "Folder for settings and history.", "DIR");
  const QCommandLineOption ssh("ssh-config", "SSH configuration instead of ~/.ssh/config.", "FILE");
  const QCommandLineOption examples("examples", "Folder of example specs.", "DIR");
  const QCommandLineOption open("open", "Opens a run spec, ready to launch.", "FILE");
  const QCommandLineOption example("open-example", "The same with an example.", "NAME");
  const QCommandLineOption cluster("cluster", "What to launch it on: a file, or an example's name.", "CLUSTER");
  parser.addOptions({home, ssh, examples, open, example, cluster});
  parser.addPositionalArgument("files", "Clusters and run specs to open.", "[files…]");
  parser.process(app);

  auto opened = lockstep::app::openHome(parser.value(home).toStdString());
  if (!opened) {
    lockstep::logError("{}", opened.error().text());
    return 3;
  }
  lockstep::ui::StudioOptions options;
  options.home = *opened;
  options.sshConfig = parser.value(ssh);
  options.examples = parser.value(examples);
  lockstep::ui::MainWindow window(std::move(options));
  window.restoreSession();
  for (const QString& file : parser.positionalArguments()) window.openFile(file);
  window.show();
  if (parser.isSet(open)) window.openReady(parser.value(open), parser.value(cluster));
  if (parser.isSet(example)) window.openReady(parser.value(example), parser.value(cluster));
  return QApplication::exec();
}
