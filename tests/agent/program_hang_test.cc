// Which ranks of a program that stands still are named, by the stacks that Python prints.
#include <QTest>
#include <random>

#include "agent/supervisor/program_hang.h"

using namespace lockstep;
using agent::ProgramHang;
using Lines = std::vector<std::string>;

namespace {

node::v1::Stalled silent(int rank, std::int64_t seconds) {
  node::v1::Stalled out;
  out.set_rank(rank);
  out.set_for_ns(seconds * 1'000'000'000);
  return out;
}
node::v1::Stalled moves(int rank) {
  node::v1::Stalled out;
  out.set_rank(rank);
  out.set_moves(true);
  return out;
}

// As faulthandler prints it: other threads first.
Lines stack(const Lines& frames) {
  Lines out{"Thread 0x00007f0000001000 (most recent call first):",
            "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait",
            "  File \"/home/ann/prefetch.py\", line 9 in fill",
            "Current thread 0x00007f0000002000 (most recent call first):"};
  out.insert(out.end(), frames.begin(), frames.end());
  return out;
}
const Lines kInAllReduce =
    stack({"  File \"/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py\", line "
           "1322 in all_reduce",
           "  File \"/home/ann/code/train.py\", line 40 in train",
           "  File \"/home/ann/code/train.py\", line 60 in <module>"});
const Lines kInLoad = stack({"  File \"/home/ann/code/data.py\", line 88 in load_batch",
                             "  File \"/home/ann/code/train.py\", line 35 in train",
                             "  File \"/home/ann/code/train.py\", line 60 in <module>"});
// Of a framework that is in the program's own folder.
const Lines kInOwnFramework = stack({"  File \"deepspeed/comm/comm.py\", line 70 in all_reduce",
                                     "  File \"train.py\", line 40 in train"});
const Lines kInBackward =
    stack({"  File \"/opt/venv/lib/python3.12/site-packages/torch/autograd/__init__.py\", line 200 "
           "in backward",
           "  File \"/home/ann/code/train.py\", line 38 in train"});

}  // namespace

class ProgramHangTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void placesOfStacks() {
    const agent::PythonPlace collective = agent::placeOf(kInAllReduce);
    QCOMPARE(collective.function, "all_reduce");
    QCOMPARE(collective.own, "train");
    QCOMPARE(collective.file, "train.py");
    QCOMPARE(collective.line, 40);
    QVERIFY(collective.collective);
    QVERIFY(agent::placeOf(kInOwnFramework).collective);
    const agent::PythonPlace load = agent::placeOf(kInLoad);
    QCOMPARE(load.function, "load_batch");
    QCOMPARE(load.line, 88);
    QVERIFY(!load.collective);
    QVERIFY(!agent::placeOf(kInBackward).collective);
    QCOMPARE(agent::placeOf(kInBackward).line, 38);
    // A file of the program's folder before one of a module elsewhere, and with its path.
    const Lines elsewhere =
        stack({"  File \"/usr/lib/python3.11/threading.py\", line 320 in wait",
               "  File \"/home/ann/tools/queues.py\", line 7 in next",
               "  File \".venv/lib/python3.11/site-packages/feed/feed.py\", line 5 in feed",
               "  File \"data/load.py\", line 88 in load_batch",
               "  File \"train.py\", line 35 in train"});
    QCOMPARE(agent::placeOf(elsewhere).function, "wait");
    QCOMPARE(agent::placeOf(elsewhere).own, "load_batch");
    QCOMPARE(agent::placeOf(elsewhere).file, "data/load.py");
    QCOMPARE(agent::placeOf(elsewhere).line, 88);
    const Lines without(elsewhere.begin(), elsewhere.begin() + 7);
    QCOMPARE(agent::placeOf(without).file, "queues.py");
    for (const Lines& none :
         {Lines{}, Lines{""}, Lines{"  File \"x"}, Lines{"  File \"a\", line x in y"},
          Lines{"  File \"a\", line 99999999999999999999 in y"}})
      QCOMPARE(agent::placeOf(none).line, 0);
  }

  // Once for each silence of all ranks.
  void onlySilenceOfAllCounts() {
    ProgramHang hang;
    QVERIFY(!hang.begins(0));
    hang.note(silent(0, 30));
    hang.note(silent(2, 31));
    QVERIFY(!hang.begins(3));
    hang.note(silent(1, 30));
    QVERIFY(hang.begins(3));
    QVERIFY(!hang.begins(3));
    hang.note(moves(1));
    QVERIFY(!hang.hangs() && !hang.begins(3));
    hang.note(silent(1, 30));
    QVERIFY(hang.begins(3));
    hang.clear();
    QVERIFY(!hang.begins(3));
  }

  // The others wait for a rank that has ended.
  void ranksThatHaveEndedDoNotCount() {
    ProgramHang hang;
    node::v1::Stalled ended;
    ended.set_rank(1);
    hang.note(silent(0, 30));
    hang.note(ended);
    QVERIFY(!hang.begins(3));
    hang.note(silent(2, 30));
    QVERIFY(hang.begins(3));
    QCOMPARE(hang.ranks(), (std::vector<int>{0, 2}));
    const std::string text = hang.verdict({{0, kInAllReduce}, {2, kInAllReduce}}).text();
    QVERIFY2(text.find("rank 1 has ended") != std::string::npos, text.c_str());
    hang.note(moves(1));  // it was started again
    QVERIFY(!hang.begins(3));
    hang.note(silent(1, 30));
    QVERIFY(hang.begins(3));
    ProgramHang all;
    for (int rank = 0; rank < 3; ++rank) {
      ended.set_rank(rank);
      all.note(ended);
    }
    QVERIFY(!all.begins(3));
  }

  void theOneElsewhereIsNamed() {
    ProgramHang hang;
    for (int rank = 0; rank < 3; ++rank) hang.note(silent(rank, 30 + rank));
    const Error error = hang.verdict({{0, kInAllReduce}, {1, kInLoad}, {2, kInAllReduce}});
    QCOMPARE(error.rank, 1);
    const std::string text = error.text();
    for (const char* part :
         {"for 30 s", "ranks 0, 2 are in all_reduce, called by train, train.py:40",
          "rank 1 is in load_batch, data.py:88"})
      QVERIFY2(text.find(part) != std::string::npos, text.c_str());
  }

  // In which collective ranks are, or after which, and who has begun fewer.
  void collectivesAreNumbered() {
    const auto with = [](const Lines& counts, const Lines& stack) {
      Lines out = counts;
      out.insert(out.end(), stack.begin(), stack.end());
      return out;
    };
    const Lines inOne = with(
        {"Collective 3 of group 1: after broadcast", "Collective 41 of group world: in all_reduce"},
        kInAllReduce);
    ProgramHang hang;
    for (int rank = 0; rank < 3; ++rank) hang.note(silent(rank, 30));
    Error error =
        hang.verdict({{0, inOne},
                      {1, with({"Collective 40 of group world: after all_reduce"}, kInLoad)},
                      {2, inOne}});
    QCOMPARE(error.rank, 1);
    std::string text = error.text();
    for (const char* part : {"ranks 0, 2 are in all_reduce #41, called by train, train.py:40",
                             "rank 1 is in load_batch, data.py:88, after all_reduce #40",
                             "rank 1 is one collective behind"})
      QVERIFY2(text.find(part) != std::string::npos, text.c_str());
    // All wait, and one does in an earlier collective.
    error =
        hang.verdict({{0, inOne},
                      {1, inOne},
                      {2, with({"Collective 38 of group world: in all_reduce"}, kInAllReduce)}});
    QCOMPARE(error.rank, 2);
    text = error.text();
    QVERIFY2(text.find("rank 2 is 3 collectives behind") != std::string::npos, text.c_str());
    // As many of each group, whatever others have begun.
    error = hang.verdict({{0, inOne}, {1, inOne}, {2, inOne}});
    QCOMPARE(error.rank, -1);
    QVERIFY(error.text().find("behind") == std::string::npos);
  }

  // Collectives that nothing in Python calls, as of a backward pass.
  void collectivesOfTheFlightRecorderAreNamed() {
    const auto with = [](const Lines& recorded, const Lines& stack) {
      Lines out{"Collective 20 of group world: after DistributedDataParallel"};
      out.insert(out.end(), recorded.begin(), recorded.end());
      out.insert(out.end(), stack.begin(), stack.end());
      return out;
    };
    const Lines inBackward =
        with({"Recorded collective 3 of 3 of group nccl/1: completed broadcast, Float [3, 4]",
              "Recorded collective 41 of 44 of group nccl/world: started all_reduce, Float [1000]",
              "Recorded transfer 7 of 7 of group nccl/world: scheduled recv"},
             kInBackward);
    ProgramHang hang;
    for (int rank = 0; rank < 3; ++rank) hang.note(silent(rank, 30));
    Error error = hang.verdict(
        {{0, inBackward},
         {1, with({"Recorded collective 3 of 3 of group nccl/1: completed broadcast, Float [3, 4]",
                   "Recorded collective 40 of 40 of group nccl/world: completed all_reduce"},
                  kInBackward)},
         {2, inBackward}});
    QCOMPARE(error.rank, 1);
    std::string text = error.text();
    for (const char* part :
         {"ranks 0, 2 are in backward, called by train, train.py:38, with all_reduce #41 of "
          "nccl/world (Float [1000]) started",
          "rank 1 is in backward, called by train, train.py:38, after all_reduce #40 of nccl/world",
          "rank 1 is 4 collectives behind"})
      QVERIFY2(text.find(part) != std::string::npos, text.c_str());
    // Of transfers ranks have numbers of their own; one without a stack has its collective.
    error = hang.verdict(
        {{0, with({"Recorded transfer 7 of 7 of group gloo/world: scheduled recv"}, kInLoad)},
         {1, with({"Recorded transfer 9 of 9 of group gloo/world: completed send"}, kInLoad)},
         {2, {"Recorded collective 5 of 5 of group gloo/world: scheduled barrier"}}});
    text = error.text();
    QVERIFY2(text.find("behind") == std::string::npos, text.c_str());
    QVERIFY2(text.find("rank 2 is at a place that is not known, with barrier #5 of gloo/world "
                       "scheduled") != std::string::npos,
             text.c_str());
    // What NCCL tells of all ranks, once.
    const Lines ras{"NCCL RAS: Errors", "NCCL RAS: ======", "NCCL RAS: DEAD",
                    "NCCL RAS:   1 job process is considered dead"};
    Lines withRas = ras;
    withRas.insert(withRas.end(), kInLoad.begin(), kInLoad.end());
    text = hang.verdict({{0, withRas}, {1, kInAllReduce}, {2, withRas}}).text();
    QVERIFY2(text.find("ranks 0, 2 are in load_batch, data.py:88") != std::string::npos,
             text.c_str());
    QVERIFY2(
        text.find("NCCL's RAS tells: DEAD, 1 job process is considered dead") != std::string::npos,
        text.c_str());
    QVERIFY(agent::isEvidence(ras[3]));
    // A process that is no Python may have NCCL's collectives.
    text = hang.verdict({{0, {"Collective 7 of group nccl/27a079b828ff1a75: after AllReduce"}},
                         {1, {"Collective 8 of group nccl/27a079b828ff1a75: in AllReduce"}},
                         {2, {"Collective 8 of group nccl/27a079b828ff1a75: in AllReduce"}}})
               .text();
    for (const char* part : {"rank 0 is at a place that is not known, after AllReduce #7",
                             "ranks 1, 2 are in AllReduce #8", "rank 0 is one collective behind"})
      QVERIFY2(text.find(part) != std::string::npos, text.c_str());
    // A process with two GPUs has two communicators of one name.
    const Lines two{"Collective 7 of group nccl/1: in AllReduce",
                    "Collective 8 of group nccl/1: in AllReduce"};
    text = hang.verdict({{0, two}, {1, two}, {2, two}}).text();
    QVERIFY2(text.find("behind") == std::string::npos, text.c_str());
    QVERIFY(agent::isEvidence("Recorded transfer 9 of 9 of group gloo/world: completed send"));
    QVERIFY(!agent::isEvidence("Thread 0x00007f0000001000 (most recent call first):"));
  }

  // A majority that is not in a collective holds up the one that is.
  void aMajorityMayBeElsewhere() {
    ProgramHang hang;
    for (int rank = 0; rank < 3; ++rank) hang.note(silent(rank, 30));
    const Error error = hang.verdict({{0, kInLoad}, {1, kInAllReduce}, {2, kInLoad}});
    QCOMPARE(error.rank, 0);
  }

  // Nobody is named where nothing tells the ranks apart.
  void noneIsNamedWithoutEvidence() {
    ProgramHang hang;
    for (int rank = 0; rank < 4; ++rank) hang.note(silent(rank, 30));
    QCOMPARE(hang.verdict({}).rank, -1);
    QCOMPARE(
        hang.verdict({{0, kInAllReduce}, {1, kInAllReduce}, {2, kInAllReduce}, {3, kInAllReduce}})
            .rank,
        -1);
    QCOMPARE(hang.verdict({{0, kInBackward}, {1, kInLoad}, {2, kInBackward}, {3, kInLoad}}).rank,
             -1);
    QCOMPARE(
        hang.verdict({{0, kInBackward}, {1, kInLoad}, {2, kInBackward}, {3, kInBackward}}).rank, 1);
    QCOMPARE(hang.verdict({{1, {}}, {2, kInBackward}, {3, kInBackward}}).rank, -1);
  }

  // One of many ranks, wherever it is, is the one that is named.
  void anyRankOfManyIsNamed() {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
      const int world = 2 + static_cast<int>(random() % 40);
      const int culprit = static_cast<int>(random() % static_cast<unsigned>(world));
      ProgramHang hang;
      std::map<int, Lines> stacks;
      for (int rank = 0; rank < world; ++rank) {
        hang.note(silent(rank, 60));
        stacks[rank] = rank == culprit ? kInLoad : kInAllReduce;
      }
      QVERIFY(hang.begins(world));
      QCOMPARE(hang.verdict(stacks).rank, culprit);
    }
  }

  void anyLinesAreRead() {
    std::mt19937 random(11);
    const Lines words{"  File \"",
                      "\", line ",
                      " in ",
                      "88",
                      "Thread",
                      "\n",
                      "\"",
                      "/site-packages/",
                      "x",
                      "Collective ",
                      " of group ",
                      ": in ",
                      "Recorded collective ",
                      " of ",
                      ": started "};
    for (int round = 0; round < 2000; ++round) {
      Lines lines;
      for (unsigned line = 0; line < random() % 6; ++line) {
        std::string text;
        for (unsigned word = 0; word < random() % 8; ++word) text += words[random() % words.size()];
        lines.push_back(text);
      }
      (void)agent::placeOf(lines);
    }
  }
};

QTEST_GUILESS_MAIN(ProgramHangTest)
#include "program_hang_test.moc"
