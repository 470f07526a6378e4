// What an agent says its workdir keeps, and what it removes of that: links, unknown content,
// folders that are deep, data in use.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QTest>
#include <filesystem>
#include <map>

#include "engine/base/file.h"
#include "tests/agent/agent_node.h"

using namespace lockstep;
using namespace lockstep::agent_test;

namespace {

namespace fs = std::filesystem;
using node::v1::WorkdirItem;
using Items = std::map<std::string, WorkdirItem>;

constexpr std::int64_t kDay = 24 * 3600;

void write(const std::string& path, const std::string& text = "text") {
  fs::create_directories(fs::path(path).parent_path());
  if (!writeFileAtomically(path, text).ok()) qWarning("cannot write %s", path.c_str());
}

void age(const std::string& path, int days = 40) {
  const timespec past{time(nullptr) - days * kDay, 0};
  const timespec times[2] = {past, past};
  if (utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
    qWarning("cannot change the time of %s", path.c_str());
}

Items list(Node& node, double seconds = 0) {
  node::v1::ListWorkdirRequest request;
  request.set_seconds(seconds);
  const auto context = deadline(60);
  const auto stream = node.agent().ListWorkdir(context.get(), request);
  Items out;
  for (WorkdirItem item; stream->Read(&item);) out[item.name()] = item;
  if (!stream->Finish().ok()) qWarning("ListWorkdir failed");
  return out;
}

// Name → why it was kept; "": it is gone.
std::map<std::string, std::string> remove(Node& node, const std::vector<std::string>& names,
                                          std::int64_t days) {
  node::v1::RemoveFromWorkdirRequest request;
  for (const std::string& name : names) request.add_names(name);
  request.set_idle_seconds(days * kDay);
  const auto context = deadline(60);
  const auto stream = node.agent().RemoveFromWorkdir(context.get(), request);
  std::map<std::string, std::string> out;
  for (node::v1::WorkdirRemoval removal; stream->Read(&removal);)
    out[removal.name()] = removal.kept().text();
  if (!stream->Finish().ok()) qWarning("RemoveFromWorkdir failed");
  return out;
}

// A run that has ended, `days` ago.
std::string endedRun(Node& node, const std::string& run, int days,
                     const std::map<std::string, std::string>& dataPaths = {}) {
  node::v1::PrepareRequest request;
  request.set_run(run);
  request.set_node("n1");
  for (const auto& [name, path] : dataPaths) (*request.mutable_data_paths())[name] = path;
  const std::string folder = node.workdir() + "/runs/" + run + "/n1";
  write(folder + "/request.pb", request.SerializeAsString());
  write(folder + "/state", "SUCCEEDED\n");
  age(folder + "/state", days);
  return folder;
}

}  // namespace

class AgentWorkdirTest : public QObject {
  Q_OBJECT

 private Q_SLOTS:
  void itemsHaveSizesAndAges() {
    Node node("n1");
    node.start();
    const std::string workdir = node.workdir(), hash(64, 'a');
    const std::string folder = endedRun(node, "old", 40);
    write(folder + "/checkpoints/step-1/shard", std::string(5000, 'x'));
    write(workdir + "/data/" + hash + "/text.gz", std::string(700, 'x'));
    write(workdir + "/decoded/host/idx-" + hash, std::string(300, 'x'));
    write(workdir + "/versions/" + hash + "/lockstep-agent", std::string(900, 'x'));
    write(workdir + "/versions/." + hash + ".tmp-1/lib", std::string(100, 'x'));
    write(workdir + "/runs/half/n1/plan.txt");
    Items items = list(node);
    QCOMPARE(items.size(), std::size_t{6});
    const WorkdirItem run = items["runs/old/n1"];
    QVERIFY(run.kind() == WorkdirItem::RUN && run.state() == run::v1::SUCCEEDED);
    QVERIFY(run.run() == "old" && run.node() == "n1" && !run.has_in_use());
    QVERIFY(run.bytes() > 5000 && run.bytes() < 6000 && !run.partly_measured());
    QVERIFY(run.idle_seconds() >= 40 * kDay && run.idle_seconds() < 41 * kDay);
    const WorkdirItem data = items["data/" + hash + "/text.gz"];
    QVERIFY(data.kind() == WorkdirItem::DATA && data.bytes() == 700 && data.idle_seconds() < 60);
    QCOMPARE(items["decoded/host/idx-" + hash].kind(), WorkdirItem::DECODED);
    QCOMPARE(items["versions/" + hash].bytes(), 900);
    QCOMPARE(items["versions/." + hash + ".tmp-1"].kind(), WorkdirItem::REMAINS);
    QCOMPARE(items["runs/half/n1"].kind(), WorkdirItem::REMAINS);
    // A limit of time: all items are listed, sizes are lower bounds.
    items = list(node, 1e-9);
    QCOMPARE(items.size(), std::size_t{6});
    QVERIFY(items["runs/old/n1"].partly_measured());
  }

  void onlyWhatIsIdleIsRemoved() {
    Node node("n1");
    node.start();
    const std::string workdir = node.workdir(), hash(64, 'a'), other(64, 'b');
    const std::string used = workdir + "/data/" + other + "/used";
    const std::string archive = endedRun(node, "old", 40) + "/code/archive";
    write(archive + "/file");  // that may not be written to
    chmod(archive.c_str(), 0500);
    endedRun(node, "young", 5, {{"train.text", used}});
    write(workdir + "/data/" + hash + "/unused");
    write(used);
    write(workdir + "/versions/" + hash + "/lockstep-agent");
    for (const std::string& path :
         {workdir + "/data/" + hash + "/unused", used, workdir + "/versions/" + hash})
      age(path);
    std::vector<std::string> names;
    for (const auto& [name, item] : list(node)) names.push_back(name);
    const auto kept = remove(node, names, 30);
    QCOMPARE(kept.at("runs/old/n1"), std::string());
    QCOMPARE(kept.at("runs/young/n1"), std::string("it was used more recently"));
    QCOMPARE(kept.at("data/" + hash + "/unused"), std::string());
    // A run used it until five days ago.
    QCOMPARE(kept.at("data/" + other + "/used"), std::string("it was used more recently"));
    QVERIFY(!kept.at("versions/" + hash).empty());
    QVERIFY(!fs::exists(workdir + "/runs/old") && !fs::exists(workdir + "/data/" + hash));
    QVERIFY(fs::exists(workdir + "/runs/young/n1/request.pb") && fs::exists(used));
    QVERIFY(fs::exists(workdir + "/versions/" + hash));
    // Idempotent.
    QCOMPARE(remove(node, {"runs/old/n1"}, 30).at("runs/old/n1"), std::string());
    // Whatever the limit, what was used in the last hour stays.
    endedRun(node, "new", 0);
    QVERIFY(!remove(node, {"runs/new/n1"}, 0).at("runs/new/n1").empty());
  }

  // A supervisor's lock says that a run is under way, whatever the times of its files.
  void aLockedRunStays() {
    Node node("n1");
    node.start();
    const std::string workdir = node.workdir(), data = workdir + "/data/" + std::string(64, 'a');
    write(data + "/used");
    age(data + "/used");
    const std::string source = endedRun(node, "source", 40);
    const std::string folder = endedRun(node, "live", 40, {{"train.text", data + "/used"}});
    node::v1::PrepareRequest request;
    QVERIFY(request.ParseFromString(*readFile(folder + "/request.pb")));
    request.set_resume_from(source + "/checkpoints/step-5");
    write(folder + "/request.pb", request.SerializeAsString());
    write(folder + "/state", "RUNNING\n");
    age(folder + "/state");
    const int lock = open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    QCOMPARE(flock(lock, LOCK_EX), 0);
    const std::vector<std::string> names{"runs/live/n1", "runs/source/n1",
                                         "data/" + std::string(64, 'a') + "/used"};
    auto kept = remove(node, names, 30);
    QCOMPARE(kept[names[0]], std::string("the run is under way"));
    QCOMPARE(kept[names[1]], std::string("run live starts from its checkpoint"));
    QCOMPARE(kept[names[2]], std::string("run live uses it"));
    node::v1::RemoveRunRequest one;
    one.set_run("source");
    node::v1::RemoveRunReply reply;
    QCOMPARE(node.agent().RemoveRun(deadline().get(), one, &reply).error_code(),
             grpc::StatusCode::FAILED_PRECONDITION);
    QVERIFY(fs::exists(source) && fs::exists(data + "/used"));
    // Its supervisor was killed: it has ended, when it last wrote.
    close(lock);
    QCOMPARE(list(node)["runs/live/n1"].state(), run::v1::FAILED);
    kept = remove(node, names, 30);
    for (const std::string& name : names) QCOMPARE(kept[name], std::string());
  }

  void linksAreNotFollowed() {
    Node node("n1");
    node.start();
    const std::string workdir = node.workdir();
    QTemporaryDir elsewhere;
    const std::string outside = elsewhere.path().toStdString();
    node::v1::PrepareRequest request;
    request.set_run("evil");
    write(outside + "/run/n1/request.pb", request.SerializeAsString());
    write(outside + "/run/n1/state", "SUCCEEDED\n");
    write(outside + "/big", std::string(100000, 'x'));
    fs::create_directory_symlink(outside + "/run", workdir + "/runs/evil");
    fs::create_directories(workdir + "/runs/linked");
    fs::create_directory_symlink(outside + "/run/n1", workdir + "/runs/linked/n1");
    const std::string folder = endedRun(node, "old", 40);
    fs::create_directory_symlink(outside, folder + "/checkpoints");
    fs::create_directory_symlink(outside, workdir + "/decoded");
    fs::create_directories(workdir + "/data/" + std::string(64, 'a'));
    fs::create_symlink(outside + "/big", workdir + "/data/" + std::string(64, 'a') + "/big");
    for (const char* path : {"/run/n1/state", "/run", "/big"}) age(outside + path);
    for (const char* path : {"/runs/evil", "/runs/linked/n1", "/decoded"}) age(workdir + path);
    Items items = list(node);
    for (const char* name : {"runs/evil", "runs/linked/n1", "decoded"}) {
      QVERIFY2(items.contains(name), name);
      QVERIFY(items[name].has_in_use() && items[name].has_problem());
    }
    QVERIFY(items["runs/old/n1"].bytes() < 1000);
    std::vector<std::string> names{"runs/evil/n1", "../big", "/etc/passwd", "runs/../..", "", "."};
    for (const auto& [name, item] : items) names.push_back(name);
    remove(node, names, 1);
    QVERIFY(!fs::exists(folder));
    for (const char* path : {"/run/n1/request.pb", "/run/n1/state", "/big"})
      QVERIFY(fs::exists(outside + path));
    QVERIFY(fs::exists(workdir + "/runs/evil") && fs::exists(workdir + "/decoded"));
    // Nor when the run is removed by its id.
    node::v1::RemoveRunRequest one;
    one.set_run("evil");
    node::v1::RemoveRunReply reply;
    QVERIFY(!node.agent().RemoveRun(deadline().get(), one, &reply).ok());
    QVERIFY(fs::exists(outside + "/run/n1/request.pb"));
  }

  void oddContentIsReported() {
    Node node("n1");
    node.start();
    const std::string workdir = node.workdir();
    write(workdir + "/runs/file");
    QCOMPARE(mkfifo((workdir + "/runs/pipe").c_str(), 0600), 0);
    fs::create_directories(workdir + "/runs/odd/n1");
    QCOMPARE(mkfifo((workdir + "/runs/odd/n1/state").c_str(), 0600), 0);
    write(workdir + "/runs/odd/n1/request.pb", std::string(1000, '\xff'));
    std::string deep = endedRun(node, "deep", 40);
    for (int level = 0; level < 100; ++level) deep += "/d";
    write(deep + "/file");
    if (geteuid() != 0) {
      fs::create_directories(workdir + "/decoded/host");
      chmod((workdir + "/decoded").c_str(), 0);
    }
    Items items = list(node);
    QVERIFY(items["runs/file"].has_problem() && items["runs/pipe"].has_problem());
    QVERIFY(items.contains("runs/odd/n1"));
    QVERIFY(items["runs/deep/n1"].partly_measured());
    QVERIFY(items["runs/deep/n1"].problem().text().ends_with("is nested too deeply"));
    if (geteuid() != 0) {
      QVERIFY(items["decoded"].has_problem());
      chmod((workdir + "/decoded").c_str(), 0700);
    }
    QCOMPARE(remove(node, {"runs/deep/n1"}, 30).at("runs/deep/n1"), std::string());
    QVERIFY(!fs::exists(workdir + "/runs/deep"));
    QVERIFY(fs::exists(workdir + "/runs/file"));
  }
};

QTEST_GUILESS_MAIN(AgentWorkdirTest)
#include "agent_workdir_test.moc"
