// What the CUDA module calls in the driver, cuBLASLt and NCCL, recorded by fake libraries: streams,
// events and their order, and operand layouts, equal on every rank; and error handling when peers
// fail.
#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <thread>

#include "engine/device/module.h"
#include "engine/runtime/device_groups.h"
#include "engine/runtime/device_run.h"
#include "engine/runtime/executor.h"
#include "tests/support/communicator_groups.h"

using namespace lockstep;
using device::Queue;

namespace {

constexpr int kRanks = 2;
constexpr int kF32 = 7, kU8 = 1;               // of ncclDataType_t
constexpr Nanoseconds kLimit = 1'000'000'000;  // also of groups that are to form
constexpr int kConnecting = 12;  // collectives and messages that connect a group of two

class Launching final : public backends::Kernel {
 public:
  explicit Launching(device::Device& device) : device_(device) {}
  void run() override { device_.launch({}); }
  std::int64_t workspaceBytes() const override { return 0; }

 private:
  device::Device& device_;
};

// One rank with a GPU, and its groups.
struct Rank {
  std::unique_ptr<device::Device> device;
  runtime::DeviceGroups groups;
  runtime::Groups along;
  Status status;
};

// The ranks of a mesh, with groups if they could be formed.
std::vector<Rank> ranksOf(const cluster::Mesh& mesh) {
  static int meetings = 0;
  const std::string prefix = std::to_string(++meetings);
  tests::MemoryStore store;
  std::vector<Rank> out(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    auto opened = device::open(rank);
    if (!opened.ok()) qFatal("%s", opened.error().text().c_str());
    out[static_cast<std::size_t>(rank)].device = std::move(*opened);
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      Rank& mine = out[static_cast<std::size_t>(rank)];
      auto formed = runtime::DeviceGroups::form(mesh, *mine.device, store, {rank, prefix, kLimit});
      mine.status = formed.status();
      if (!formed.ok()) return;
      mine.groups = std::move(*formed);
      mine.groups.addTo(mine.along);
    });
  for (std::thread& thread : threads) thread.join();
  return out;
}

}  // namespace

class NcclTest : public QObject {
  Q_OBJECT
  QTemporaryDir folder_;
  QString log_ = folder_.filePath("log");
  qint64 seen_ = 0;  // of it

  // Returns the calls recorded since the last time.
  std::map<int, QStringList> asked() {
    QFile file(log_);
    std::map<int, QStringList> out;
    if (!file.open(QIODevice::ReadOnly) || !file.seek(seen_)) return out;
    // others may be writing: leave an incomplete line for the next read
    QByteArray more = file.readAll();
    more.truncate(more.lastIndexOf('\n') + 1);
    seen_ += more.size();
    for (const QString& line : QString::fromUtf8(more).split('\n', Qt::SkipEmptyParts))
      out[line.section(' ', 0, 0).toInt()] << line.section(' ', 1);
    return out;
  }
  // The calls without those that connect a group when it is formed.
  static QStringList withoutConnecting(const QStringList& calls) {
    QStringList out;
    for (const QString& call : calls)
      if (call.startsWith("init") || call.startsWith("split") || call.startsWith("exchange stream"))
        out << call;
    return out;
  }
  // Waits until both communicators of a GPU are aborted, on whichever threads. Returns the other
  // calls.
  QStringList askedBeside(QStringList aborts) {
    QStringList calls = asked().begin()->second;
    const auto missing = [&] {
      return std::any_of(aborts.begin(), aborts.end(),
                         [&](const QString& one) { return !calls.contains(one); });
    };
    for (int i = 0; i < 6000 && missing(); ++i) {
      QTest::qWait(10);
      for (const auto& [gpu, more] : asked()) calls << more;
    }
    if (missing()) return {"not aborted: " + calls.join(", ")};
    for (const QString& one : aborts) calls.removeOne(one);
    return calls;
  }
  static QString at(const char* what, const void* in, const void* out, std::int64_t count,
                    int type) {
    const auto shown = [](const void* p) {
      return p != nullptr ? QString("0x%1").arg(reinterpret_cast<std::uintptr_t>(p), 0, 16)
                          : QString("(nil)");
    };
    return QString("%1 comm 1 in %2 out %3 count %4 type %5 on exchange")
        .arg(what, shown(in), shown(out))
        .arg(count)
        .arg(type);
  }

 private Q_SLOTS:
  void initTestCase() {
    for (const char* name :
         {"libcuda.so.1", "libcublasLt.so.13", "libcublasLt.so.14", "libnccl.so.2"})
      QVERIFY(QFile::link(LOCKSTEP_FAKE_GPUS_FILE, folder_.filePath(name)));
    qputenv("LOCKSTEP_CUDA_LIBRARIES", folder_.path().toUtf8());
    qputenv("LOCKSTEP_FAKE_GPUS_LOG", log_.toUtf8());
    const device::Survey node = device::survey();
    QVERIFY2(node.usable.ok(), node.usable.ok() ? "" : node.usable.error().text().c_str());
    QCOMPARE(node.devices.size(), std::size_t{kRanks});
    QVERIFY(node.devices[0].id != node.devices[1].id);
    QCOMPARE(node.libraries.back().name, std::string("NCCL"));
    QVERIFY2(node.libraries.back().found.starts_with("2."), node.libraries.back().problem.c_str());
  }
  void init() {
    qputenv("LOCKSTEP_FAKE_NCCL", "");
    asked();
  }

  // What a GPU has free explains no lack of the host's memory.
  void whatDoesNotFit() {
    const auto gpu = device::open(0);
    const std::int64_t bytes = std::int64_t{9} << 30;
    const Error there = (*gpu)->allocate(bytes, device::Where::kDevice).error(),
                here = (*gpu)->allocate(bytes, device::Where::kPinned).error();
    QCOMPARE(there.what.text(), std::string("cannot allocate 9216 MiB of GPU memory"));
    QCOMPARE(there.why.text(), std::string("CUDA_ERROR_FAKE: a fake one; 8192 of 8192 MiB of the "
                                           "GPU are free"));
    QCOMPARE(here.what.text(), std::string("cannot allocate 9216 MiB of pinned memory"));
    QCOMPARE(here.why.text(), std::string("CUDA_ERROR_FAKE: a fake one"));
  }

  // cuBLASLt's matrices are column-major: b is its first operand, and rows are columns.
  void matmulOperandsAndLayouts() {
    auto opened = device::open(0);
    QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().text().c_str());
    const auto at = [](std::uintptr_t address) { return reinterpret_cast<void*>(address); };
    device::Matmul p{100,          27,         64,         false,      false,
                     DType::kBf16, at(0x1010), at(0x2100), at(0x3000), at(0x4004)};
    p.pitch = 32;
    device::Matmul adds{27,         100,        64,      true,       false, DType::kF32,
                        at(0x1100), at(0x2008), nullptr, at(0x3000), true};
    adds.pitch = 28;
    adds.adds = true;
    const device::Matmul plain{100,         64,         27,         false,   true,
                               DType::kF32, at(0x1100), at(0x2100), nullptr, at(0x3100)};
    for (const device::Matmul& matmul : {p, adds, plain}) {
      auto work = (*opened)->bind(matmul);
      QVERIFY2(work.ok(), work.ok() ? "" : work.error().text().c_str());
      (*work)->enqueue();
    }
    QVERIFY((*opened)->synchronize().ok());
    // operations: 0 none, 1 transposed; types: 0 f32, 14 bf16; computing: 68 f32, 77 by tf32
    QCOMPARE(asked()[0],
             (QStringList{"choose a product, aligned 256 16 4 4",
                          "product op 0 of 0x2100 64x27 pitch 64 type 14, op 0 of 0x1010 27x100 "
                          "pitch 32 type 14, to 0x4004 64x100 "
                          "pitch 64 type 0 times 0, compute 68, epilogue 4 on compute",
                          "choose a product, aligned 8 256 256 256",
                          "product op 0 of 0x2008 64x100 pitch 64 type 0, op 1 of 0x1100 27x100 "
                          "pitch 28 type 0, to 0x3000 64x27 "
                          "pitch 64 type 0 times 1, compute 77, epilogue 1 on compute",
                          "choose a product, aligned 256 256 256 256",
                          "product op 1 of 0x2100 64x27 pitch 64 type 0, op 0 of 0x1100 64x100 "
                          "pitch 64 type 0, to 0x3100 27x100 "
                          "pitch 27 type 0 times 0, compute 68, epilogue 1 on compute"}));
  }

  // The library has the product: it was chosen before.
  void aProductThatFails() {
    qputenv("LOCKSTEP_FAKE_NCCL", "no products");
    const auto gpu = device::open(0);
    std::vector<float> memory(64);
    device::Matmul product{2, 4, 8};
    product.a = product.b = product.y = memory.data();
    const auto work = (*gpu)->bind(product);
    QVERIFY2(work.ok(), work.ok() ? "" : work.error().text().c_str());
    (*work)->enqueue();
    const Status status = (*gpu)->synchronize();
    QVERIFY(!status.ok() && status.error().code == Code::kInternal);
    QCOMPARE(status.error().text(),
             std::string("the GPU failed at a product of 2×4 by 4×8: a fake one"));
  }

  // One communicator of all ranks, split for each axis of several ranks, without blocking calls.
  void groupsAreFormed() {
    {
      auto ranks = ranksOf(cluster::Mesh({{"data", 2}, {"model", 1}}));
      QVERIFY(ranks[0].status.ok() && ranks[0].groups.whyNot().empty());
      QVERIFY(ranks[0].along.devicesAlong("data") != nullptr &&
              ranks[0].along.devicesAlong("model") == nullptr);
      const auto calls = asked();
      for (int rank = 0; rank < kRanks; ++rank)
        QCOMPARE(withoutConnecting(calls.at(rank)),
                 (QStringList{"exchange stream, priority -5",
                              QString("init comm 0 rank %1 of 2 id 7").arg(rank),
                              QString("split comm 0 color 0 key %1").arg(rank)}));
    }
    // Without failures, communicators are finalized in order.
    for (const auto& [rank, calls] : asked())
      QCOMPARE(calls, (QStringList{"finalize comm 1", "destroy comm 1", "finalize comm 0",
                                   "destroy comm 0"}));
  }

  void collectivesLieWherePlansSay() {
    auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
    QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
    asked();
    for (std::size_t r = 0; r < kRanks; ++r) {
      device::Group& group = *ranks[r].along.devicesAlong("data");
      QCOMPARE(group.rank(), static_cast<int>(r));
      QCOMPARE(group.size(), kRanks);
      std::array<float, 16> in{}, out{};
      const auto* first = in.data();
      const std::array<std::int64_t, 3> even{0, 4, 8}, uneven{0, 3, 4}, empty{0, 4, 4};
      group.allReduce(out.data(), 16, DType::kF32, device::Reduce::kMax);
      group.reduceScatter(first, out.data(), even, DType::kF32, device::Reduce::kSum);
      group.reduceScatter(first, out.data(), uneven, DType::kF32, device::Reduce::kSum);
      group.allGather(first, out.data(), even, DType::kF32);
      group.allGather(first, out.data(), uneven, DType::kF32);
      group.allGather(first, out.data(), empty, DType::kF32);
      group.broadcast(out.data(), 12, 1);
      group.allToAll(first, out.data(), 8);
      const std::array<device::Group::Message, 3> messages{
          {{true, in.data(), 8, 1}, {false, out.data(), 4, 1}, {true, in.data() + 2, 12, 1}}};
      group.exchange(messages);
      const float* const theirs = out.data() + 3;
      const auto* bytes = reinterpret_cast<const std::byte*>(first);
      const auto* to = reinterpret_cast<const std::byte*>(out.data());
      QCOMPARE(
          asked()[static_cast<int>(r)],
          (QStringList{at("all-reduce max", out.data(), out.data(), 16, kF32),
                       at("reduce-scatter", first, out.data(), 4, kF32),
                       "group start",
                       at("reduce to 0", first, out.data(), 3, kF32),
                       at("reduce to 1", first + 3, out.data(), 1, kF32),
                       "group end",
                       at("all-gather", first, out.data(), 4, kF32),
                       "group start",
                       at("broadcast from 0", r == 0 ? first : out.data(), out.data(), 3, kF32),
                       at("broadcast from 1", r == 1 ? first : theirs, theirs, 1, kF32),
                       "group end",
                       "group start",
                       at("broadcast from 0", r == 0 ? first : out.data(), out.data(), 4, kF32),
                       "group end",
                       at("broadcast from 1", out.data(), out.data(), 12, kU8),
                       "group start",
                       at("send to 0", bytes, nullptr, 8, kU8),
                       at("receive from 0", nullptr, to, 8, kU8),
                       at("send to 1", bytes + 8, nullptr, 8, kU8),
                       at("receive from 1", nullptr, to + 8, 8, kU8),
                       "group end",
                       "group start",
                       at("send to 1", bytes, nullptr, 8, kU8),
                       at("receive from 1", nullptr, to, 4, kU8),
                       at("send to 1", bytes + 8, nullptr, 12, kU8),
                       "group end"}));
    }
  }

  // A step with kernels, an asynchronous collective after one of them, and a synchronous one: one
  // capture, in which the exchange stream forks from and joins the other, and one launch per run.
  // Identical on each rank.
  void aStepIsOneGraph() {
    auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
    QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
    asked();
    std::vector<QStringList> captured, runCalls;
    for (Rank& rank : ranks) {
      Launching kernel(*rank.device);
      runtime::DeviceRun run(*rank.device);
      device::Group* const group = rank.along.devicesAlong("data");
      run.addKernel(kernel, &runtime::Breakdown::backward);
      run.addExchange([&] { group->allReduce(nullptr, 64, DType::kF32, device::Reduce::kSum); },
                      true);
      run.addKernel(kernel, &runtime::Breakdown::backward);
      run.await(1);
      run.addKernel(kernel, &runtime::Breakdown::optimizer);
      run.addExchange([&] { group->allReduce(nullptr, 32, DType::kF32, device::Reduce::kSum); },
                      false);
      QVERIFY(run.capture().ok());
      captured.push_back(asked().begin()->second);
      runtime::Breakdown spent;
      const auto none = [](std::size_t) -> Status {
        return makeError(Code::kInternal, "no collective is the host's");
      };
      QVERIFY(run.run(none, nullptr, spent, nullptr).ok());
      QVERIFY(run.run(none, nullptr, spent, nullptr).ok());
      runCalls.push_back(asked().begin()->second);
      QVERIFY(spent.backward > 0 && spent.optimizer > 0 && spent.communication > 0 &&
              spent.firstCollective > 0);
    }
    const QString reduce = " comm 1 in (nil) out (nil) count ";
    // Before and after each collective, the device notes how far it has come: from a table of 4.
    const QString note = "copy 8 on exchange captured";
    const QStringList expected{"copy 32 on compute",
                               "begin capture",
                               "time 1 on compute",
                               "launch on compute",
                               "time 2 on compute",
                               "record 3 on compute",
                               "wait 3 on exchange",
                               note,
                               "all-reduce" + reduce + "64 type 7 on exchange captured",
                               note,
                               "record 4 on exchange",
                               "launch on compute",
                               "time 8 on compute",
                               "wait 4 on compute",
                               "time 9 on compute",
                               "launch on compute",
                               "time 10 on compute",
                               "record 11 on compute",
                               "wait 11 on exchange",
                               note,
                               "all-reduce" + reduce + "32 type 7 on exchange captured",
                               note,
                               "record 12 on exchange",
                               "wait 12 on compute",
                               "time 16 on compute",
                               "end capture"};
    QCOMPARE(captured[0].join("\n"), expected.join("\n"));
    QCOMPARE(captured[1].join("\n"), expected.join("\n"));
    for (const QStringList& calls : runCalls)
      QCOMPARE(calls, (QStringList{"launch graph on compute", "launch graph on compute"}));
  }

  // NCCL connects ranks on the first exchange of a kind, which involves all of them: every kind is
  // exercised before anything is captured.
  void everyKindIsConnectedBeforeCapture() {
    for (const char* axis : {"data", "stage", "model"}) {
      auto ranks = ranksOf(cluster::Mesh({{axis, 2}}));
      QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
      for (const auto& [gpu, calls] : asked()) {
        for (const char* kind : {"all-reduce", "reduce-scatter", "reduce to 0", "reduce to 1",
                                 "all-gather", "broadcast from 0", "broadcast from 1", "send to 0",
                                 "receive from 0", "send to 1", "receive from 1"})
          QVERIFY2(!calls.filter(QString("%1 comm 1").arg(kind)).isEmpty(), kind);
        QVERIFY(calls.filter("captur").isEmpty());
        QCOMPARE(calls.last(), QString("wait 0 on compute"));  // and it has been waited for
      }
      // whichever algorithm a size takes
      QCOMPARE(qgetenv("NCCL_RUNTIME_CONNECT"), QByteArray("0"));
    }
  }

  // Messages are captured: receives are waited for, sends overlap computation.
  void messagesAreGivenTogether() {
    auto ranks = ranksOf(cluster::Mesh({{"stage", 2}, {"data", 1}}));
    QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
    asked();
    Launching kernel(*ranks[0].device);
    runtime::DeviceRun run(*ranks[0].device);
    device::Group* const group = ranks[0].along.devicesAlong("stage");
    const auto enqueue = [&](bool sends, bool receives) {
      return [=] {
        std::vector<device::Group::Message> messages;
        if (sends) messages.push_back({true, nullptr, 8, 1});
        if (receives) messages.push_back({false, nullptr, 4, 1});
        group->exchange(messages);
      };
    };
    run.addMessages(enqueue(true, true), true);
    run.addReceived();
    run.addKernel(kernel, &runtime::Breakdown::forward);
    run.addMessages(enqueue(true, false), false);
    run.addKernel(kernel, &runtime::Breakdown::forward);
    run.addPosted();
    QVERIFY(run.capture().ok());
    const auto message = [](const char* what, int bytes) {
      return QString("%1 comm 1 in (nil) out (nil) count %2 type 1 on exchange captured")
          .arg(what)
          .arg(bytes);
    };
    QStringList untimed;
    const QStringList captured = asked().begin()->second;
    for (const QString& call : captured)
      if (!call.startsWith("time")) untimed << call;
    const QString note = "copy 8 on exchange captured";
    const QStringList expected{"copy 32 on compute",
                               "begin capture",
                               "record 2 on compute",
                               "wait 2 on exchange",
                               note,
                               "group start",
                               message("send to 1", 8),
                               message("receive from 1", 4),
                               "group end",
                               note,
                               "record 3 on exchange",
                               "wait 3 on compute",
                               "launch on compute",
                               "record 9 on compute",
                               "wait 9 on exchange",
                               note,
                               "group start",
                               message("send to 1", 8),
                               "group end",
                               note,
                               "record 10 on exchange",
                               "launch on compute",
                               "wait 10 on compute",
                               "end capture"};
    QCOMPARE(untimed.join("\n"), expected.join("\n"));
  }

  // Samples are copied on a stream of their own, which waits only for the previous ones to leave.
  void samplesAreAhead() {
    const auto gpu = device::open(0);
    QVERIFY(gpu.ok());
    runtime::DeviceMirrors mirrors(**gpu);
    const auto there = (*gpu)->allocate(64, device::Where::kDevice);
    const auto place = mirrors.addAhead({*there, {DType::kF32, {16}}});
    QVERIFY(place.ok() && place->data != *there);
    QCOMPARE(mirrors.waitingBytes(), std::int64_t{64});
    QVERIFY(mirrors.prepare().ok());
    Launching kernel(**gpu);
    runtime::DeviceRun run(**gpu, &mirrors);
    run.addKernel(kernel, &runtime::Breakdown::forward);
    QVERIFY(run.capture().ok());
    asked();
    const auto none = [](std::size_t) -> Status {
      return makeError(Code::kInternal, "no collective is the host's");
    };
    const auto next = [&]() -> Status {
      mirrors.awaitPlaces();
      mirrors.send();
      return {};
    };
    runtime::Breakdown spent;
    QVERIFY(run.run(none, next, spent, nullptr).ok());
    QVERIFY(run.run(none, nullptr, spent, nullptr).ok());
    QStringList calls = asked()[0];
    // Events are numbered from the device's first.
    const QString sent = calls.filter("on ahead").filter("record").first().section(' ', 1, 1);
    const QString taken = calls.filter("on ahead").filter("wait").first().section(' ', 1, 1);
    QVERIFY(sent != taken);
    for (QString& call : calls) {
      if (call.startsWith("copy")) continue;
      call.replace(" " + sent + " ", " sent ").replace(" " + taken + " ", " taken ");
      if (call == "await " + sent) call = "await sent";
    }
    const QStringList expected{"copy 64 on ahead",     "record sent on ahead",
                               "wait sent on compute", "launch graph on compute",
                               "await sent",           "wait taken on ahead",
                               "copy 64 on ahead",     "record sent on ahead",
                               "wait sent on compute", "launch graph on compute"};
    QCOMPARE(calls.join("\n"), expected.join("\n"));
    (*gpu)->release(*there, device::Where::kDevice);
  }

  void aGroupThatDoesNotFormIsGivenUp() {
    qputenv("LOCKSTEP_FAKE_NCCL", "never");
    const Nanoseconds begin = monotonicNow();
    {
      const auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
      for (const Rank& rank : ranks) {
        QVERIFY(rank.status.code() == Code::kDeadlineExceeded);
        QCOMPARE(rank.status.error().what,
                 std::string("the GPUs of 2 ranks do not become a group"));
      }
    }
    QVERIFY(monotonicNow() - begin >= kLimit);
    for (const auto& [rank, calls] : asked()) QCOMPARE(calls.back(), QString("abort comm 0"));
  }

  // A collective fails on rank 0: it aborts its groups, and so does rank 1, whose step would not
  // end.
  void whatFailsIsAbortedEverywhere() {
    auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
    qputenv("LOCKSTEP_FAKE_NCCL", QString("fail %1").arg(kConnecting + 2).toUtf8());
    QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
    std::vector<std::string> said;
    for (Rank& rank : ranks) {
      asked();
      runtime::DeviceRun run(*rank.device);
      device::Group* const group = rank.along.devicesAlong("data");
      for (int i = 0; i < 3; ++i)
        run.addExchange([&] { group->allReduce(nullptr, 64, DType::kF32, device::Reduce::kSum); },
                        false);
      runtime::Breakdown spent;
      Status status = run.capture();
      if (status.ok())
        status = run.run([](std::size_t) { return Status(); }, nullptr, spent, nullptr);
      QVERIFY(!status.ok());
      QVERIFY(!rank.device->synchronize().ok());  // persistent
      said.push_back(status.error().text());
      const QStringList calls = askedBeside({"abort comm 0", "abort comm 1"});
      // nothing more is enqueued
      QCOMPARE(calls.filter("all-reduce").size(), said.size() == 1 ? 2 : 3);
    }
    QVERIFY2(
        said[0].find("an all-reduce of GPUs failed: NCCL says: a fake fault") != std::string::npos,
        said[0].c_str());
    QVERIFY2(said[1].find("what GPUs exchange failed: NCCL says: a fake peer's fault") !=
                 std::string::npos,
             said[1].c_str());
  }

  void whatDoesNotEndIsGivenUp() {
    auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
    QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
    runtime::DeviceRun run(*ranks[0].device);
    device::Group* const group = ranks[0].along.devicesAlong("data");
    run.addExchange([&] { group->allReduce(nullptr, 64, DType::kF32, device::Reduce::kSum); },
                    false);
    QVERIFY(run.capture().ok());
    qputenv("LOCKSTEP_FAKE_NCCL", "hang");
    asked();
    runtime::Breakdown spent;
    const Nanoseconds begin = monotonicNow();
    const Status status = run.run([](std::size_t) { return Status(); }, nullptr, spent, nullptr);
    const Nanoseconds took = monotonicNow() - begin;
    QVERIFY(status.code() == Code::kDeadlineExceeded);
    QVERIFY(took >= kLimit && took < 20 * kLimit);
    QCOMPARE(askedBeside({"abort comm 0", "abort comm 1"}), QStringList{"launch graph on compute"});
  }

  // The error is reported while the graphs that captured the groups are alive: NCCL releases a
  // communicator only after them. Also covers a completed step before its device goes, and groups
  // destroyed before the graphs.
  void groupsAreAbortedUnderTheirGraphs() {
    for (const char* fault : {"hang", "fail"}) {
      auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
      QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
      std::vector<std::unique_ptr<runtime::DeviceRun>> runs;
      for (int i = 0; i < 3; ++i) {
        runs.push_back(std::make_unique<runtime::DeviceRun>(*ranks[0].device));
        device::Group* const group = ranks[0].along.devicesAlong("data");
        runs.back()->addExchange(
            [=] { group->allReduce(nullptr, 64, DType::kF32, device::Reduce::kSum); }, i % 2 == 0);
        QVERIFY(runs.back()->capture().ok());
      }
      const bool hangs = fault == std::string("hang");
      qputenv("LOCKSTEP_FAKE_NCCL",
              hangs ? "hang" : QString("fail %1").arg(kConnecting + 4).toUtf8());
      asked();
      runtime::Breakdown spent;
      const auto none = [](std::size_t) { return Status(); };
      const Nanoseconds begin = monotonicNow();
      Status status;
      if (hangs) {
        status = runs[1]->run(none, nullptr, spent, nullptr);
      } else {
        device::Group* const group = ranks[0].along.devicesAlong("data");
        group->allReduce(nullptr, 64, DType::kF32, device::Reduce::kSum);
        status = ranks[0].device->synchronize();
      }
      QVERIFY(!status.ok());
      QVERIFY(monotonicNow() - begin < 20 * kLimit);
      if (!hangs) ranks[0].groups = {};
      runs.clear();
      QCOMPARE(askedBeside({"abort comm 0", "abort comm 1"}).filter("abort"), QStringList());
      qputenv("LOCKSTEP_FAKE_NCCL", "");
      const Nanoseconds ending = monotonicNow();
      ranks.clear();
      QVERIFY(monotonicNow() - ending < 20 * kLimit);
    }
  }

  // A GPU that does not stop when aborted: reported once, and never waited for again.
  void aGpuThatDoesNotStopIsLeft() {
    Nanoseconds told = 0;
    {
      auto ranks = ranksOf(cluster::Mesh({{"data", 2}}));
      QVERIFY(ranks[0].status.ok() && ranks[1].status.ok());
      auto memory = device::Memory::allocate(*ranks[0].device, 64, device::Where::kDevice);
      QVERIFY(memory.ok());
      runtime::DeviceRun run(*ranks[0].device);
      device::Group* const group = ranks[0].along.devicesAlong("data");
      run.addExchange([&] { group->allReduce(nullptr, 64, DType::kF32, device::Reduce::kSum); },
                      false);
      QVERIFY(run.capture().ok());
      qputenv("LOCKSTEP_FAKE_NCCL", "deaf");
      runtime::Breakdown spent;
      const Status status = run.run([](std::size_t) { return Status(); }, nullptr, spent, nullptr);
      QVERIFY(status.code() == Code::kDeadlineExceeded);
      QVERIFY2(
          status.error().why.text().find("the GPU has not stopped in 5 s") != std::string::npos,
          status.error().why.text().c_str());
      told = monotonicNow();
    }
    QVERIFY(monotonicNow() - told < 12'000'000'000);
  }

  // No groups, with the reason, identically on all ranks.
  void twoRanksOnOneGpuGoThroughTheHost() {
    tests::MemoryStore store;
    std::vector<std::string> said(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        const auto gpu = device::open(0);
        const auto formed = runtime::DeviceGroups::form(cluster::Mesh({{"data", 2}}), **gpu, store,
                                                        {rank, "one", kLimit});
        said[static_cast<std::size_t>(rank)] =
            formed.ok() ? formed->whyNot() : formed.error().text();
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& one : said)
      QCOMPARE(one, std::string("ranks 0 and 1 are on one device"));
  }
};

QTEST_GUILESS_MAIN(NcclTest)
#include "nccl_test.moc"
