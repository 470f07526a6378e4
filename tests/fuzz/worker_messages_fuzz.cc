// The ranks' store, by way of the channel between a supervisor and its worker. The same bytes come
// to both ends: as frames from a worker at the supervisor's, which keeps the store, and from a
// supervisor at the worker's, which asks it where all ranks are and what they have found. Frames
// with even numbers are made for the worker, the others for the supervisor.
#include <sys/socket.h>

#include <memory>

#include "agent/base/channel.h"
#include "agent/supervisor/rendezvous.h"
#include "agent/worker/consistency.h"
#include "agent/worker/worker_link.h"
#include "agent/workload/environment.h"
#include "engine/base/unique_fd.h"
#include "engine/specs/error_info.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/proto_mutator.h"

namespace lockstep::fuzz {
namespace {

using namespace agent;
using node::v1::FromWorker;
using node::v1::ToWorker;

constexpr int kWorld = 2;

struct Ends {
  UniqueFd here, there;
  Ends() {
    int fds[2];
    LOCKSTEP_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    here = UniqueFd(fds[0]);
    there = UniqueFd(fds[1]);
  }
  // All that comes from the other end: inputs are shorter than the buffer of a socket.
  void say(std::string_view bytes) const {
    LOCKSTEP_CHECK(send(there.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) ==
                   std::ssize(bytes));
    shutdown(there.get(), SHUT_WR);
  }
};

void hearAsSupervisor(std::string_view bytes) {
  Ends ends;
  ends.say(bytes);
  EventLoop loop;
  std::unique_ptr<Channel> channel;
  Rendezvous store({[] { return true; }, [](const node::v1::FromPeer&) {},
                    [](const std::string&, const node::v1::ToPeer&) {}});
  std::vector<std::string> frames;
  channel = std::make_unique<Channel>(
      loop, ends.here.release(),
      [&](std::string_view frame) {
        frames.emplace_back(frame);
        FromWorker message;
        if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return;
        if (message.has_kv_set()) store.set(message.kv_set().key(), message.kv_set().value());
        if (message.has_kv_get())
          store.get(message.kv_get().key(),
                    [&, id = message.kv_get().id(),
                     key = message.kv_get().key()](const std::string& value) {
                      channel->send(keyValueReply<ToWorker>(id, key, value));
                    });
      },
      [&loop] { loop.quit(); });
  loop.run();
  // Nothing but frames that came whole.
  std::size_t total = 0;
  for (const std::string& frame : frames) total += 4 + frame.size();
  LOCKSTEP_CHECK(total <= bytes.size() && bytes.starts_with(framesOf(frames)));
}

void hearAsWorker(std::string_view bytes) {
  Ends ends, fromLink;
  ends.say(bytes);
  BlockingChannel channel(ends.here.get());
  WorkerLink link(fromLink.here.get());
  std::string frame;
  while (channel.receive(frame)) {
    ToWorker message;
    if (message.ParseFromString(frame)) link.onMessage(message);
  }
  // The store's answers to the first two questions.
  if (const auto told = link.get("program/places", 0); told.ok())
    if (const auto places = parsePlaces(*told, kWorld); places.ok()) {
      ProgramRank rank;
      rank.rank = 1;
      rank.places = *places;
      (void)programEnvironment({}, rank, "/code", {"PATH=/bin"});
    }
  if (const auto told = link.get("consistency/1", 0); told.ok())
    if (const auto facts = parseFacts(*told); facts.ok()) {
      const auto again = parseFacts(factsText(*facts));
      LOCKSTEP_CHECK(again.ok() && again->rank == facts->rank && again->things == facts->things);
    }
}

ToWorker answer(std::uint64_t id, const std::string& value) {
  return keyValueReply<ToWorker>(id, "key", value);
}

}  // namespace

std::vector<std::string> seeds() {
  node::v1::ProgramPlaces places;
  for (const char* address : {"10.0.0.1", "fd00::2"}) {
    node::v1::ProgramPlace& place = *places.add_places();
    place.set_node(address);
    place.set_address(address);
    place.set_port(29500);
  }
  RankFacts facts;
  facts.rank = 1;
  facts.node = "n1";
  facts.things = {{"spec", "aa"}, {"library libz.so.1", "bb"}};
  facts.numbers = {{"loss", 0.25}};
  FromWorker set, get, steps, stalled, failed;
  set.mutable_kv_set()->set_key("program/1");
  set.mutable_kv_set()->set_value(places.places(1).SerializeAsString());
  get.mutable_kv_get()->set_id(1);
  get.mutable_kv_get()->set_key("program/1");
  steps.mutable_steps()->set_first_step(10);
  steps.mutable_steps()->add_loss(0.5);
  stalled.mutable_stalled()->set_rank(1);
  *failed.mutable_failed() = specs::toInfo(makeError(Code::kAborted, "rank {} failed", 1));
  ToWorker go, copied, profile;
  go.mutable_go();
  copied.mutable_copied()->set_step(40);
  profile.mutable_profile()->set_first(7);
  profile.mutable_profile()->set_count(20);
  return {
      framesOf({answer(1, places.SerializeAsString()).SerializeAsString(), set.SerializeAsString(),
                answer(2, factsText(facts)).SerializeAsString(), get.SerializeAsString()}),
      framesOf({go.SerializeAsString(), get.SerializeAsString(), copied.SerializeAsString(),
                set.SerializeAsString(), profile.SerializeAsString(), steps.SerializeAsString()}),
      framesOf(
          {go.SerializeAsString(), stalled.SerializeAsString(), "", failed.SerializeAsString()})};
}

std::unique_ptr<google::protobuf::Message> emptyMessage(std::size_t frame) {
  if (frame % 2 == 0) return std::make_unique<ToWorker>();
  return std::make_unique<FromWorker>();
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text = lockstep::fuzz::textOf(bytes, size);
  lockstep::fuzz::hearAsSupervisor(text);
  lockstep::fuzz::hearAsWorker(text);
  return 0;
}
