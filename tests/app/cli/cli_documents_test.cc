// What the table of commands is written into: completion in each shell, and the manual page.
#include <QRegularExpression>
#include <QStandardPaths>
#include <QTest>

#include "tests/app/cli/cli_runner.h"
#include "tests/support/paths.h"

using namespace lockstep::test;

class CliDocumentsTest : public QObject {
  Q_OBJECT

  // The first column of what can follow, given the words so far and the last one.
  static QStringList following(const Cli& cli, const QStringList& words) {
    const CliResult result = cli.run(QStringList{"completion", "words", "--"} + words);
    QStringList out;
    for (const QString& line : QString::fromUtf8(result.out).split('\n', Qt::SkipEmptyParts))
      out << line.section('\t', 0, 0);
    return out;
  }

  // All commands that the help lists: "run", "history list".
  static QStringList commands(const Cli& cli) {
    static const QRegularExpression usage("^  lockstep ([a-z-]+(?: [a-z-]+(?![a-z|]))?)");
    QStringList out;
    for (const QString& line : QString::fromUtf8(cli.run({"--help"}).out).split('\n'))
      if (const auto match = usage.match(line); match.hasMatch()) out << match.captured(1);
    return out;
  }

  // Runs a script of a shell with the program in its path.
  static QString inShell(const Cli& cli, const QStringList& words) {
    QProcess shell;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    const QString bin = QString::fromStdString(buildPath("bin"));
    environment.insert("PATH", bin + ":" + environment.value("PATH"));
    environment.insert("LOCKSTEP_HOME", cli.home());
    environment.insert("HOME", cli.home());
    environment.insert("TERM", "dumb");
    shell.setProcessEnvironment(environment);
    shell.start(words.front(), words.mid(1));
    shell.waitForFinished(60000);
    return QString::fromUtf8(shell.readAllStandardOutput());
  }

 private Q_SLOTS:
  void everyCommandIsCompletedAndInTheManual() {
    const Cli cli;
    const QStringList all = commands(cli);
    QVERIFY2(all.size() > 40 && all.contains("run") && all.contains("history list"),
             qPrintable(all.join('\n')));
    const CliResult manual = cli.run({"manual"});
    QCOMPARE(manual.exit, 0);
    QVERIFY(manual.out.contains(".B last\n"));
    QVERIFY(manual.out.contains("\\fBtag:A,B \\-tag:X\\fR\none of several; not\n"));
    const QStringList first = following(cli, {""});
    for (const QString& command : all) {
      const QString group = command.section(' ', 0, 0), second = command.section(' ', 1);
      QVERIFY2(first.contains(group), qPrintable(command));
      if (!second.isEmpty())
        QVERIFY2(following(cli, {group, ""}).contains(second), qPrintable(command));
      const QString heading = QString(".SS %1\n").arg(command).replace("-", "\\-");
      QVERIFY2(manual.out.contains(heading.toUtf8()), qPrintable(command));
    }
  }

  void whatFollowsIsOfTheUsage() {
    const Cli cli;
    QVERIFY(following(cli, {"run", ""}).contains("fashion-cnn"));
    QVERIFY(following(cli, {"run", ""}).contains(":files"));
    QVERIFY(!following(cli, {"run", ""}).contains("local-3"));  // a cluster
    QCOMPARE(following(cli, {"run", "x", ""}), QStringList());
    QCOMPARE(following(cli, {"run", "--cluster", ""}), QStringList{":files"});
    QCOMPARE(following(cli, {"history", "export", "r", "--format", "c"}), QStringList{"csv"});
    QCOMPARE(following(cli, {"history", "show", "r", "--document", "c"}),
             (QStringList{"cluster", "code"}));
    QCOMPARE(following(cli, {"history", "delete", "--f"}), QStringList{"--force"});
    QCOMPARE(following(cli, {"alerts", "test", "loss-sp"}), QStringList{"loss-spike"});
    QCOMPARE(following(cli, {"--home", "x", "help", "clus"}), QStringList{"cluster"});
    QCOMPARE(following(cli, {"plan", "x", "--set", "strategy.gat"}),
             QStringList{"strategy.gather_bytes="});
    QCOMPARE(following(cli, {"whatif", "r", "--with", "ra"}), QStringList{"ranks="});
    QCOMPARE(following(cli, {"tokenize", ""}), QStringList{":files"});
    QCOMPARE(cli.run({"completion", "tcsh"}).exit, 2);
    QCOMPARE(cli.run({"completion", "bash", "zsh"}).exit, 2);
  }

  // Nothing is offered that the command then refuses.
  void whatIsRefusedIsNotOffered() {
    const Cli cli;
    QVERIFY(following(cli, {""}).contains("help"));
    QVERIFY(!following(cli, {"help", ""}).contains("help"));
    QCOMPARE(following(cli, {"help", "run", ""}), QStringList());
    QCOMPARE(following(cli, {"plan", "x", "--set", "model.layers"}), QStringList());
    QCOMPARE(following(cli, {"advise", "x", "--pin", "strategy.ten"}),
             QStringList{"strategy.tensor"});
    QCOMPARE(following(cli, {"advise", "x", "--pin", "training.batch"}), QStringList());
  }

  void runsAreCompletedByTheirIds() {
    const Cli cli;
    const CliResult run = cli.run(training("mirrored", "1", 2));
    QCOMPARE(run.exit, 0);
    const QString id = runOf(run.out);
    QVERIFY2(!id.isEmpty(), run.text());
    QCOMPARE(following(cli, {"attach", id.first(4)}), QStringList{id});
    QVERIFY(cli.leave());
  }

  void bashCompletes() {
    const Cli cli;
    const QString file = cli.write("completion.bash", cli.run({"completion", "bash"}).out);
    const auto complete = [&](const QStringList& words) {
      const QString script =
          QString(
              "source '%1'; compopt() { :; }; COMP_WORDS=(lockstep '%2'); COMP_CWORD=%3; "
              "_lockstep; printf '%s\\n' \"${COMPREPLY[@]}\"")
              .arg(file, words.join("' '"))
              .arg(words.size());
      return inShell(cli, {"bash", "-c", script}).split('\n', Qt::SkipEmptyParts);
    };
    QVERIFY(complete({"ver"}).contains("verify"));
    QVERIFY(complete({"history", "ex"}).contains("export"));
    QVERIFY(complete({"run", "--de"}).contains("--detach"));
    QCOMPARE(complete({"run", "x.yaml", "--set", "strategy.gat"}),
             QStringList{"strategy.gather_bytes="});
    QCOMPARE(complete({"cluster", "check", cli.path("comp")}), QStringList{file});
    // Bash splits at = and :, as of --set training.max_steps=5.
    QVERIFY(complete({"run", "--set", "training.max_steps", "=", "5", "fashion-cn"})
                .contains("fashion-cnn"));
    QVERIFY(complete({"--home", "=", cli.home(), "histo"}).contains("history"));
    QVERIFY(complete({"--accept-host-key", "SHA256", ":", "x", "histo"}).contains("history"));
  }

  void fishCompletes() {
    if (QStandardPaths::findExecutable("fish").isEmpty()) QSKIP("fish is not installed");
    const Cli cli;
    const QString file = cli.write("completion.fish", cli.run({"completion", "fish"}).out);
    const QString script = QString(
        "source '%1'; complete -C 'lockstep history ex'; "
        "complete -C 'lockstep run x --set strategy.gat'");
    const QString out = inShell(cli, {"fish", "-c", script.arg(file)});
    QVERIFY2(out.contains("export\t"), qPrintable(out));
    QVERIFY2(out.contains("strategy.gather_bytes=\n"), qPrintable(out));
  }

  // An interactive zsh in a pseudo-terminal, with its completion system loaded.
  void zshCompletes() {
    if (QStandardPaths::findExecutable("zsh").isEmpty()) QSKIP("zsh is not installed");
    const Cli cli;
    const QString file = cli.write("completion.zsh", cli.run({"completion", "zsh"}).out);
    const QString script = cli.write("terminal.zsh", R"zsh(
zmodload zsh/zpty
zpty z "zsh -f -i"
zpty -w z "autoload -Uz compinit; compinit -u -d $HOME/dump; source $1; PS1=ready; PS1+=': '"
zpty -r -m z out '*ready:*' || exit
for line in 'history ex' 'run x --set strategy.gat'; do
  zpty -w -n z "lockstep $line"$'\t'
  zpty -r -m z out '*(port|er_bytes=)*' && print -r -- "$out"
  zpty -w -n z $'\x15'
done
zpty -d z
)zsh");
    const QString out = inShell(cli, {"zsh", "-f", script, file});
    QVERIFY2(out.contains("port"), qPrintable(out));
    QVERIFY2(out.contains("er_bytes="), qPrintable(out));
  }
};

QTEST_GUILESS_MAIN(CliDocumentsTest)
#include "cli_documents_test.moc"
