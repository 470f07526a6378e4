// The loop of an agent or a supervisor, and a supervisor's end of a worker's channel.
#include "agent/base/event_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <QTest>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "agent/base/channel.h"
#include "engine/base/unique_fd.h"
#include "lockstep/node/v1/worker.pb.h"

using namespace lockstep;
using namespace lockstep::agent;

namespace {
constexpr Nanoseconds kMillisecond = 1'000'000;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) qFatal("no pipe");
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
  void fill() const {
    if (write(in.get(), "x", 1) != 1) qFatal("nothing written");
  }
  UniqueFd out, in;
};
}  // namespace

class EventLoopTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  // A handler closes a file that was found readable with its own, and watches another one that has
  // its number now and nothing to read.
  void eventsOfAClosedFileAreDropped() {
    Pipe first, second, empty;
    first.fill();
    second.fill();
    EventLoop loop;
    int stale = 0;
    bool isFilled = false, isOwn = false;
    // Files are gone through by their numbers.
    const bool inOrder = first.out.get() < second.out.get();
    const int closed = (inOrder ? second : first).out.get();
    const int earlier = (inOrder ? first : second).out.get();
    loop.watch(closed, POLLIN, [&](short) { ++stale; });
    loop.watch(earlier, POLLIN, [&](short) {
      loop.unwatch(earlier);
      loop.unwatch(closed);
      QVERIFY(dup3(empty.out.get(), closed, O_CLOEXEC) == closed);
      loop.watch(closed, POLLIN, [&](short) {
        isOwn = isFilled;
        loop.quit();
      });
      loop.after(20 * kMillisecond, [&] {
        isFilled = true;
        empty.fill();
      });
    });
    loop.run();
    QCOMPARE(stale, 0);
    QVERIFY(isOwn);
  }

  // What is called after the end is done by the caller, by one at a time.
  void whatHasToBeDoneIsDoneAfterTheEnd() {
    EventLoop loop;
    std::atomic<int> under{0}, done{0};
    std::atomic<bool> alone{true}, called{false};
    std::thread before([&] {
      called = loop.call([&] { ++done; });
      loop.callInAnyCase([&] { ++done; });
      loop.quit();
    });
    loop.run();
    before.join();
    QVERIFY(called);
    QCOMPARE(done.load(), 2);
    QVERIFY(!loop.call([&] { ++done; }));
    QCOMPARE(done.load(), 2);
    std::array<std::thread, 4> after;
    for (std::thread& one : after)
      one = std::thread([&] {
        loop.callInAnyCase([&] {
          if (++under > 1) alone = false;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          --under;
          ++done;
        });
      });
    for (std::thread& one : after) one.join();
    QCOMPARE(done.load(), 6);
    QVERIFY(alone);
  }

  // A worker whose channel has ended may still be told something before it is reaped.
  void aChannelEndsOnce() {
    std::array<int, 2> ends{-1, -1};
    QCOMPARE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    UniqueFd worker(ends[1]);
    EventLoop loop;
    int ended = 0;
    node::v1::ToWorker stop;
    stop.mutable_stop();
    std::optional<Channel> channel;
    channel.emplace(
        loop, ends[0], [](std::string_view) {},
        [&] {
          if (++ended > 1) return;
          loop.after(0, [&] {
            channel->send(stop);
            loop.after(0, [&] { loop.quit(); });  // events have been gone through once more
          });
        });
    channel->send(stop);
    worker.reset();
    loop.run();
    QCOMPARE(ended, 1);
  }
};

QTEST_GUILESS_MAIN(EventLoopTest)
#include "event_loop_test.moc"
