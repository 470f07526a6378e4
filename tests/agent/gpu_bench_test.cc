// Speeds of a node's GPUs, by a real agent and its workers, on libraries that write down what they
// are asked: two GPUs, on which whatever is timed takes a millisecond.
#include <grpcpp/grpcpp.h>

#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "tests/agent/agent_node.h"

using namespace lockstep;
using namespace lockstep::agent_test;

class GpuBenchTest : public QObject {
  Q_OBJECT

  QTemporaryDir folder_;
  const std::string log_ = folder_.filePath("log").toStdString();
  std::unique_ptr<Node> node_;
  node::v1::BenchReply reply_;

  grpc::Status bench(const char* kind, std::vector<int> devices, int ranks) {
    QFile::remove(QString::fromStdString(log_));
    node::v1::BenchRequest request;
    request.set_ranks(ranks);
    request.set_seconds(0.002);  // few runs
    auto& speed = *request.mutable_speed();
    speed.set_kind(kind);
    speed.add_precisions("tf32");
    speed.set_min(64);
    speed.set_max(64);
    speed.set_backend("cuda");
    speed.mutable_devices()->Assign(devices.begin(), devices.end());
    reply_.Clear();
    return node_->agent().Bench(deadline(90).get(), request, &reply_);
  }
  // Whether the GPU was asked for such a thing.
  bool wasAsked(int gpu, const std::string& what) const {
    const auto log = readFile(log_);
    return log.ok() &&
           ("\n" + *log).find("\n" + std::to_string(gpu) + " " + what) != std::string::npos;
  }

 private Q_SLOTS:
  void initTestCase() {
    for (const char* name :
         {"libcuda.so.1", "libcublasLt.so.13", "libcublasLt.so.14", "libnccl.so.2"})
      QVERIFY(QFile::link(LOCKSTEP_FAKE_GPUS_FILE, folder_.filePath(name)));
    qputenv("LOCKSTEP_CUDA_LIBRARIES", folder_.path().toUtf8());
    qputenv("LOCKSTEP_FAKE_GPUS_LOG", QByteArray::fromStdString(log_));
    node_ = std::make_unique<Node>("n1");
    node_->start();
  }
  void cleanupTestCase() { node_.reset(); }

  void eachIsMeasuredByARankOfItsOwn() {
    const grpc::Status status = bench("gemm", {1, 0}, 2);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QCOMPARE(reply_.speeds_size(), 2);
    for (int i = 0; i < 2; ++i) {
      const auto& speed = reply_.speeds(i);
      QVERIFY2(speed.why_not().empty(), speed.why_not().c_str());
      QCOMPARE(speed.device(), 1 - i);
      QCOMPARE(speed.name(), std::string("tf32"));
      QVERIFY(std::abs(speed.seconds() - 0.001) < 1e-6);
      QCOMPARE(speed.work(), 2.0 * 64 * 64 * 64);
      QVERIFY(wasAsked(i, "product "));
    }
  }

  // As the driver and NCCL tell them.
  void versionsAreTold() {
    const grpc::Status status = bench("gemm", {0}, 1);
    QVERIFY2(status.ok(), status.error_message().c_str());
    const QRegularExpression ofCuda("^\\d+\\.\\d+$"), ofNccl("^2\\.\\d+\\.\\d+$");
    QVERIFY2(ofCuda.match(QString::fromStdString(reply_.cuda_version())).hasMatch(),
             reply_.cuda_version().c_str());
    QVERIFY2(ofNccl.match(QString::fromStdString(reply_.nccl_version())).hasMatch(),
             reply_.nccl_version().c_str());
  }

  void oneOfThemAlone() {
    const grpc::Status status = bench("memory", {1}, 1);
    QVERIFY2(status.ok(), status.error_message().c_str());
    QCOMPARE(reply_.speeds_size(), 3);  // read, scale, add
    for (const auto& speed : reply_.speeds()) {
      QVERIFY2(speed.why_not().empty(), speed.why_not().c_str());
      QCOMPARE(speed.device(), 1);
    }
    QVERIFY(wasAsked(1, "launch "));
    QVERIFY(!wasAsked(0, "launch "));
  }

  void whatThereIsNotIsRefused() {
    QCOMPARE(bench("gemm", {0, 1}, 1).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    QVERIFY(!bench("gemm", {2}, 1).ok());
  }
};

QTEST_GUILESS_MAIN(GpuBenchTest)
#include "gpu_bench_test.moc"
