// verify: several ranks against one, run by the worker of a local agent.
#include <grpcpp/channel.h>

#include <algorithm>
#include <cstdio>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/launch_request.h"
#include "app/cli/local_agent.h"
#include "app/cli/terminal.h"
#include "app/core/rpc.h"
#include "app/runs/verification.h"
#include "engine/specs/specs.h"
#include "lockstep/node/v1/node.grpc.pb.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

constexpr int kMostRanks = 64;
constexpr std::chrono::hours kLimit{1};

struct Question {
  RunSpecFile spec;                              // as written
  std::shared_ptr<const spec::v1::RunSpec> run;  // with its strategy
  ClusterSpecFile cluster;                       // the ranks are planned for
  int ranks = 0;
  std::int64_t steps = 0;  // 0: as many as what is compared needs
};

Status chooseStrategy(Question& question, const Arguments& arguments) {
  const RunSpecFile& spec = question.spec;
  const ClusterSpecFile& cluster = question.cluster;
  auto chosen =
      withStrategy(requestOf(spec, cluster, arguments), spec, hostsHere(*cluster.spec), arguments);
  if (!chosen.ok()) return withSourceLocation(chosen.error(), spec, cluster.written, cluster.file);
  question.run = chosen->spec;
  if (!chosen->chosen.empty()) put(stderr, chosen->chosen.text() + "\n");
  return {};
}

// Counts the ranks of the cluster with this strategy.
Status countRanks(Question& question, const spec::v1::StrategySpec& strategy,
                  const std::string& file) {
  question.ranks = 0;
  for (const auto* node : specs::nodesWithRanks(*question.cluster.spec, strategy))
    question.ranks += specs::deviceCount(*node);
  if (question.ranks <= kMostRanks) return {};
  return invalidArgument("{} has {} ranks; at most {} can be verified", file, question.ranks,
                         kMostRanks);
}

Result<Question> questionOf(const Globals& globals, const Arguments& arguments) {
  Question out;
  LOCKSTEP_ASSIGN(const std::int64_t ranks, arguments.integer("ranks", 0, 1, kMostRanks));
  LOCKSTEP_ASSIGN(out.steps, arguments.integer("steps", 0, 1, 1000));
  LOCKSTEP_ASSIGN(out.spec, loadRunSpec(modelFile(arguments.words()[0]), arguments.all("set")));
  LOCKSTEP_TRY(mustHaveModel(out.spec));
  if (arguments.has("cluster")) {
    LOCKSTEP_ASSIGN(out.cluster, loadClusterSpec(arguments.text("cluster")));
    const std::string file = arguments.text("cluster");
    // An open strategy has no more ranks than the one chosen: too many are refused before a search.
    LOCKSTEP_TRY(countRanks(out, out.spec.spec->strategy(), file));
    LOCKSTEP_TRY(chooseStrategy(out, arguments));
    LOCKSTEP_TRY(countRanks(out, out.run->strategy(), file));
    if (ranks > 0 && ranks != out.ranks)
      return invalidArgument("--ranks {}, but {} has {}", ranks, file, out.ranks);
    return out;
  }
  if (ranks == 0) {
    Error error = invalidArgument("--ranks is missing");
    error.next = "lockstep verify SPEC --ranks N";
    return error;
  }
  out.ranks = static_cast<int>(ranks);
  out.cluster = localCluster(out.ranks, globals.home.root + "/local", "shm");
  LOCKSTEP_TRY(chooseStrategy(out, arguments));
  return out;
}

std::string number(double value, double limit) {
  if (value == 0) return limit == 0 ? "same bits" : "0";
  return fmt::format("{:.1e}", value);
}

std::string titleOf(const VerifyCase& one) {
  const auto& training = one.request->spec().training();
  std::string out = fmt::format("{} on the {} backend, batch {}, {} steps", training.precision(),
                                training.backend(), training.batch(), one.request->steps());
  for (std::size_t i = 0; i < one.changes.size(); ++i)
    out += (i == 0 ? "; small variant: " : ", ") + one.changes[i];
  return out;
}

void printTable(const VerifyCase& one, const node::v1::VerifyReply& reply, const Style& style) {
  Table table;
  table.header = {"", "difference", "limit", "where", ""};
  table.right = {false, true, true, false, false};
  for (const auto& finding : reply.findings())
    table.rows.push_back({finding.check(), number(finding.difference(), finding.limit()),
                          number(finding.limit(), finding.limit()), finding.where(),
                          !finding.holds()      ? style.yellow("DOES NOT HOLD")
                          : finding.undecided() ? style.yellow("undecided")
                                                : style.green("holds")});
  put(stdout, fmt::format("\n{}\n{}", titleOf(one), table.text()));
  if (reply.rounding() > 0)
    put(stdout,
        fmt::format("rounding alone changes one rank's losses by {:.1e}\n", reply.rounding()));
}

void printLines(const Question& question, const VerifyCase& one,
                const node::v1::VerifyReply& reply) {
  const auto& spec = one.request->spec();
  for (const auto& finding : reply.findings())
    JsonLine("finding")
        .add("model", spec.model().name())
        .add("strategy", spec.strategy().kind())
        .add("ranks", question.ranks)
        .add("precision", spec.training().precision())
        .add("backend", spec.training().backend())
        .add("steps", one.request->steps())
        .add("check", finding.check())
        .add("difference", finding.difference())
        .add("limit", finding.limit())
        .add("where", finding.where())
        .add("holds", finding.holds())
        .add("undecided", finding.undecided())
        .print();
}

}  // namespace

int verifyCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  bool holds = true;
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const Question question, questionOf(globals, arguments));
    const auto& strategy = question.run->strategy();
    // Refused before anything runs.
    std::vector<VerifyCase> cases;
    for (const Precision precision : {Precision::kSmallDouble, Precision::kSingle}) {
      auto one = verifyCase(*question.run, *question.cluster.spec, precision, question.steps);
      if (!one.ok())
        return withSourceLocation(one.error(), question.spec, question.cluster.written,
                                  question.cluster.file);
      cases.push_back(std::move(*one));
    }
    if (!json)
      put(stdout, fmt::format("{}: {} on {} ranks against one\n",
                              question.spec.spec->model().name(), strategy.kind(), question.ranks));
    if (const std::string why = unequalByDesign(*question.run); !json && !why.empty())
      put(stdout,
          fmt::format("by design not equal to one rank: {}; compared are consistency and quality\n",
                      why));
    const auto local = localCluster(1, globals.home.root + "/local", "");
    for (const VerifyCase& one : cases) {
      put(stderr, fmt::format("running {} …\n", titleOf(one)));
      node::v1::VerifyReply reply;
      LOCKSTEP_TRY(onLocalAgent(globals, local.spec, "the verification",
                                [&](NodeAccess& access, std::stop_token stop) -> Status {
                                  LOCKSTEP_ASSIGN(const auto channel, access.agent());
                                  const auto stub = node::v1::Agent::NewStub(channel);
                                  grpc::ClientContext context;
                                  setLimit(context, kLimit);
                                  const CancelOnStop cancel(context, stop);
                                  return rpcStatus(stub->Verify(&context, *one.request, &reply),
                                                   "the verification failed", access.name());
                                }));
      for (const auto& finding : reply.findings()) holds = holds && finding.holds();
      if (json)
        printLines(question, one, reply);
      else
        printTable(one, reply, Style(wantsColour(1)));
    }
    if (json)
      JsonLine("certificate")
          .add("model", question.spec.spec->model().name())
          .add("strategy", strategy.kind())
          .add("ranks", question.ranks)
          .add("steps", cases.front().request->steps())
          .add("holds", holds)
          .print();
    else
      put(stdout,
          fmt::format(
              "\n{}\n",
              !holds ? "The certificate DOES NOT HOLD."
              : cases.front().request->unequal()
                  ? "The certificate holds."
                  : "The certificate holds: the distribution changes nothing but the speed."));
    return {};
  }();
  if (!status.ok()) return conclude(status, json);
  return holds ? kSucceeded : kRunFailed;
}

}  // namespace lockstep::app::cli
