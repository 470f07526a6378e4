#include "app/advice/advice.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>
#include <utility>

#include "app/advice/estimate.h"
#include "engine/cluster/assumed.h"
#include "engine/specs/specs.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBatch = 16;  // plans between two looks at what is left
constexpr double kDoubt = 1.15;     // an estimate may be too high by so much, of memory too
constexpr std::size_t kVaried = 2;  // how many of the best strategies are varied
constexpr double kJudging = 0.5;    // largest part of the time that estimates take
constexpr double kVarying = 0.25;   // part of the time that is kept for variants
constexpr double kAsGood = 1.015;   // steps that differ by less: predictions err by more

// Runs `work` for every index below `count`, on so many threads.
void inParallel(std::size_t count, std::size_t threads, const std::stop_token& stop,
                const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto loop = [&] {
    for (std::size_t i = next++; i < count && !stop.stop_requested(); i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(threads, count); ++t) others.emplace_back(loop);
  loop();
}

// By time; of those that are equally good as the best, the simplest is the best.
void sortByTime(std::vector<AdvisedStrategy>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.stepSeconds < b.stepSeconds; });
  if (rows.empty()) return;
  const double least = rows.front().stepSeconds;
  const auto end = std::find_if(rows.begin(), rows.end(),
                                [&](const auto& row) { return row.stepSeconds > kAsGood * least; });
  const auto simplest = std::min_element(rows.begin(), end, [](const auto& a, const auto& b) {
    return complexityOf(a.choice) < complexityOf(b.choice);
  });
  std::rotate(rows.begin(), simplest, simplest + 1);
}

struct Judged {
  Choice choice;
  enum Order { kLikely, kUnknown, kTooLarge } order = kLikely;  // which are planned first
  double seconds = 0;                                           // estimated
};

// The part of the search that plans.
class Search {
 public:
  Search(const LaunchRequest& request, const SpecWith& specWith,
         const std::vector<HostFacts>& hosts, const AdviceOptions& options, SearchSpace space,
         Choice current)
      : request_(request),
        specWith_(specWith),
        hosts_(hosts),
        options_(options),
        space_(std::move(space)),
        current_(std::move(current)) {}

  struct Outcome {
    AdvisedStrategy made;
    std::optional<Error> refusal, misfit;
    bool runs() const { return !refusal && !misfit; }
  };
  // Plans these until the time is up, and keeps those that run. Returns whether all were planned.
  bool plan(const std::vector<Choice>& choices, Clock::time_point end, Advice& advice) {
    std::vector<std::optional<Outcome>> outcomes(choices.size());
    inParallel(choices.size(), options_.threads, options_.stop, [&](std::size_t i) {
      if (Clock::now() >= end) {
        timeWasUp_ = true;
        return;
      }
      outcomes[i] = planned(choices[i]);
      ++done_;
      if (options_.onProgress) options_.onProgress(done_);
    });
    bool all = true;
    for (std::optional<Outcome>& one : outcomes) {
      all = all && one.has_value();
      if (!one) continue;
      Outcome& outcome = *one;
      ++advice.planned;
      if (outcome.refusal) {
        ++advice.refused;
        if (!firstError_ || outcome.made.choice == current_) firstError_ = outcome.refusal;
      } else if (outcome.misfit) {
        ++advice.misfits;
        if (!firstMisfit_ || outcome.made.choice == current_) firstMisfit_ = outcome.misfit;
      }
      if (outcome.made.choice == current_) {
        if (outcome.runs()) advice.current = outcome.made;
        advice.currentRefusal = outcome.refusal ? outcome.refusal : outcome.misfit;
      }
      if (outcome.runs() && isAllowed(outcome.made.choice, space_))
        advice.best.push_back(std::move(outcome.made));
    }
    sortByTime(advice.best);
    return all;
  }
  // Plans the most promising ones, so many at most. Returns whether nothing better is left.
  bool planInOrder(const std::vector<Judged>& judged, std::size_t most, Clock::time_point end,
                   Advice& advice) {
    std::vector<Choice> next;
    std::size_t tried = 0;
    for (std::size_t at = 0;; ++at) {
      const bool isEnd =
          at == judged.size() || (judged[at].order == Judged::kTooLarge && !advice.best.empty());
      if (isEnd || next.size() == kBatch) {
        if (!plan(next, end, advice)) return false;
        next.clear();
      }
      if (isEnd) return true;
      if (tried == most) {
        plan(next, end, advice);
        return false;
      }
      const bool isSlower = judged[at].order == Judged::kLikely &&
                            advice.best.size() >= options_.top &&
                            judged[at].seconds > kDoubt * advice.best[0].stepSeconds;
      if (isSlower) continue;
      next.push_back(judged[at].choice);
      ++tried;
    }
  }
  // Varies the best ones in what changes little, and keeps what is worth its settings.
  void vary(Clock::time_point end, Advice& advice) {
    std::vector<Choice> variants;
    const double least = advice.best[0].stepSeconds;
    for (std::size_t i = 0; i < std::min(kVaried, advice.best.size()); ++i)
      for (Choice& variant : refinementsOf(advice.best[i].choice, space_))
        if (std::find(variants.begin(), variants.end(), variant) == variants.end())
          variants.push_back(std::move(variant));
    Advice varied;
    advice.complete = plan(variants, end, varied) && advice.complete;
    advice.judged += varied.planned;
    advice.planned += varied.planned;
    advice.misfits += varied.misfits;
    advice.refused += varied.refused;
    for (AdvisedStrategy& one : varied.best)
      if (one.stepSeconds * kAsGood < least) advice.best.push_back(std::move(one));
  }
  bool timeWasUp() const { return timeWasUp_; }
  // Why nothing runs; `current`: why the spec's own strategy does not.
  Error failure(const std::optional<Error>& current) const {
    for (const auto& error : {firstMisfit_, firstError_, current})
      if (error) return *error;
    return makeError(Code::kNotFound, "no strategy that is searched has what is pinned");
  }

 private:
  Outcome planned(const Choice& choice) const {
    Outcome out;
    out.made.choice = choice;
    auto settings = settingsFor(*request_.spec, current_, choice, space_, specWith_);
    if (!settings.ok()) {
      out.refusal = settings.error();
      return out;
    }
    out.made.settings = *std::move(settings);
    for (const Setting& one : out.made.settings)
      if (options_.kept.contains(one.field)) {
        Error error = invalidArgument("the strategy cannot have {} as the spec sets it", one.field);
        error.field = one.field;
        out.refusal = withRemedies(std::move(error), {{{one.field, ""}}});
        return out;
      }
    auto spec = specWith_(out.made.settings);
    if (!spec.ok()) {
      out.refusal = spec.error();
      return out;
    }
    LaunchRequest request = request_;
    request.spec = *std::move(spec);
    const auto preview = makeBriefPreview(request, hosts_);
    if (!preview.ok()) {
      out.refusal = preview.error();
      return out;
    }
    out.misfit = preview->misfit;
    noteFigures(out.made, *preview);
    return out;
  }

  const LaunchRequest& request_;
  const SpecWith& specWith_;
  const std::vector<HostFacts>& hosts_;
  const AdviceOptions& options_;
  const SearchSpace space_;
  const Choice current_;
  std::optional<Error> firstError_, firstMisfit_;
  std::atomic<std::size_t> done_{0};
  std::atomic<bool> timeWasUp_{false};
};

// What decides about one, beside the best.
Message reasonFor(const AdvisedStrategy& one, const AdvisedStrategy& best) {
  const auto percent = [&](double part) { return 100 * part / std::max(one.stepSeconds, 1e-12); };
  if (&one == &best) {
    if (percent(one.exchanging) >= 5 && one.exchanging >= one.waiting)
      return message("it computes {:.0f} % of the step; exchanges take {:.0f} %",
                     percent(one.computing), percent(one.exchanging));
    if (percent(one.waiting) >= 5)
      return message("it computes {:.0f} % of the step; ranks wait {:.0f} %",
                     percent(one.computing), percent(one.waiting));
    return message("it computes {:.0f} % of the step", percent(one.computing));
  }
  const double slower = one.stepSeconds - best.stepSeconds;
  if (slower <= (kAsGood - 1) * best.stepSeconds)
    return one.memoryBytes < best.memoryBytes ? message("as fast, in less memory")
                                              : message("as fast");
  const double computing = 1e3 * (one.computing - best.computing);
  const double waiting = 1e3 * (one.waiting - best.waiting);
  const double exchanging = 1e3 * (one.exchanging - best.exchanging);
  if (computing >= std::max(waiting, exchanging))
    return message("ranks compute {:.2f} ms longer a step", computing);
  if (waiting >= exchanging) return message("ranks wait {:.2f} ms longer a step", waiting);
  return message("exchanges take {:.2f} ms longer a step", exchanging);
}

SearchSpace spaceOf(const LaunchRequest& request, const cluster::Cluster& cluster,
                    const AdviceOptions& options) {
  SearchSpace space;
  for (const spec::v1::NodeSpec& node : request.cluster->nodes())
    if (std::find(node.roles().begin(), node.roles().end(), "ps") != node.roles().end())
      space.servers += specs::deviceCount(node);
  space.workers = static_cast<int>(cluster.devices.size());
  space.layers = request.spec->model().layers_size();
  space.batch = request.spec->training().batch();
  space.oneNode =
      std::all_of(cluster.devices.begin(), cluster.devices.end(),
                  [&](const auto& device) { return device.node == cluster.devices[0].node; });
  space.precisions = options.precisions;
  space.devices = cluster.devices;
  return space;
}

// The ranks where none is a server.
Result<cluster::Cluster> workersOf(const LaunchRequest& request,
                                   const std::vector<HostFacts>& hosts) {
  LOCKSTEP_ASSIGN(spec::v1::ClusterSpec clusterSpec,
                  specs::withSpares(request.spec->recovery(), *request.cluster));
  if (!request.comm.empty()) clusterSpec.set_comm(request.comm);
  std::vector<specs::NodeHost> nodeHosts;
  for (const HostFacts& facts : hosts) nodeHosts.push_back({facts.node, facts.host, facts.cores});
  spec::v1::StrategySpec strategy;
  strategy.set_kind("multi-worker-mirrored");
  return specs::toCluster(clusterSpec, nodeHosts, strategy, request.spec->training());
}

// Bytes that a rank can have; 0: unknown.
double memoryOfARank(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                     const cluster::Cluster& cluster) {
  // of unequal ones that with the least memory
  const auto memoryOf = [&](const cluster::Device& one) {
    return cluster::assumedRates(one, request.spec->training().precision()).memoryBytes -
           cluster::reservedBytes(cluster, one);
  };
  const cluster::Device& device =
      *std::min_element(cluster.devices.begin(), cluster.devices.end(),
                        [&](const auto& a, const auto& b) { return memoryOf(a) < memoryOf(b); });
  const auto facts = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const auto& one) { return one.node == device.node; });
  const bool isKnown = facts != hosts.end();
  if (device.kind == "cuda") {
    if (isKnown && !facts->gpuMemory.empty())
      return static_cast<double>(facts->gpuMemory.front() -
                                 cluster::reservedBytes(cluster, device));
    return static_cast<double>(memoryOf(device));
  }
  const auto ranks = std::count_if(
      cluster.devices.begin(), cluster.devices.end(),
      [&](const auto& one) { return one.host == device.host && one.kind == device.kind; });
  return isKnown ? static_cast<double>(facts->memoryAvailable) / static_cast<double>(ranks) : 0;
}

// Nodes with ranks in host memory, of which nobody has told how much there is. That of GPUs is
// assumed by their model.
std::size_t unknownMemory(const std::vector<HostFacts>& hosts, const cluster::Cluster& cluster) {
  std::set<std::string> out;
  for (const cluster::Device& device : cluster.devices) {
    const bool isKnown = std::any_of(hosts.begin(), hosts.end(), [&](const HostFacts& one) {
      return one.node == device.node && one.memoryAvailable > 0;
    });
    if (!isKnown && device.kind != "cuda") out.insert(device.node);
  }
  return out.size();
}

// Estimates all choices and returns them in the order in which they are to be planned.
std::vector<Judged> judge(const LaunchRequest& request, const std::vector<HostFacts>& hosts,
                          const cluster::Cluster& cluster, const SearchSpace& space,
                          std::vector<Choice> choices, Clock::time_point end,
                          const AdviceOptions& options) {
  Estimator estimator(request, hosts, cluster, space);
  const auto probes = estimator.probesFor(choices);
  inParallel(probes.size(), options.threads, options.stop, [&](std::size_t i) {
    if (Clock::now() < end) estimator.plan(probes[i]);
    if (options.onProgress) options.onProgress(0);
  });
  const double room = kDoubt * memoryOfARank(request, hosts, cluster);
  std::vector<Judged> out;
  for (Choice& choice : choices) {
    Judged one;
    if (const auto estimate = estimator.of(choice)) {
      one.seconds = estimate->seconds;
      if (room > 0 && static_cast<double>(estimate->memoryBytes) > room)
        one.order = Judged::kTooLarge;
    } else if (!choice.hasServers() || choice.microBatches > 1) {
      one.order = Judged::kUnknown;
    }
    one.choice = std::move(choice);
    out.push_back(std::move(one));
  }
  std::stable_sort(out.begin(), out.end(), [](const Judged& a, const Judged& b) {
    return std::tie(a.order, a.seconds) < std::tie(b.order, b.seconds);
  });
  return out;
}

}  // namespace

Message unknownMemoryText(std::size_t nodes) {
  if (nodes == 1) return message("the memory of 1 node is not known until it is connected");
  return message("the memory of {} nodes is not known until they are connected", nodes);
}

void noteLinks(Advice& advice, const LaunchRequest& request, const SpecWith& specWith,
               const std::vector<HostFacts>& hosts, const AdviceOptions& options) {
  inParallel(advice.best.size(), options.threads, options.stop, [&](std::size_t i) {
    AdvisedStrategy& one = advice.best[i];
    if (one.ranks > kMostLinkedRanks) return;
    auto spec = specWith(one.settings);
    if (!spec.ok()) return;
    LaunchRequest own = request;
    own.spec = *std::move(spec);
    if (const auto preview = makeBriefPreview(own, hosts); preview.ok())
      one.linkBytes = linkBytes(*preview);
  });
}

void noteFigures(AdvisedStrategy& one, const Preview& preview) {
  one.ranks = static_cast<int>(preview.ranks.size());
  one.stepSeconds = preview.stepSeconds;
  one.wireBytes = wireBytes(preview.plan);
  one.memoryBytes = peakMemory(preview);
  one.bubbleShare = bubbleShare(preview);
  if (const Energy energy = predictedEnergy(preview); energy.isComplete()) {
    one.joules = energy.joules();
    one.cost = energy.cost.value_or(0);
    one.carbonGrams = energy.carbonGrams.value_or(0);
    one.currency = energy.currency;
  }
  const RankPreview mean = meanOfWorkers(preview);
  one.computing = mean.forward + mean.backward + mean.optimizer;
  one.waiting = mean.waiting;
  one.exchanging = mean.transfer;
  one.hidden = mean.hidden;
}

void rankStrategies(std::vector<AdvisedStrategy>& rows) {
  sortByTime(rows);
  // Recomputing only adds work: it comes after the same strategy without it, whatever was measured.
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Choice plain = rows[i].choice;
    plain.recompute = "none";
    const auto other = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(i) + 1, rows.end(),
                                    [&](const auto& row) { return row.choice == plain; });
    if (other == rows.end()) continue;
    std::rotate(rows.begin() + static_cast<std::ptrdiff_t>(i), other, other + 1);
  }
  for (AdvisedStrategy& one : rows) sayWhy(one, rows.front());
}

void sayWhy(AdvisedStrategy& one, const AdvisedStrategy& best) { one.why = reasonFor(one, best); }

Result<Advice> advise(const LaunchRequest& request, const SpecWith& specWith,
                      const std::vector<HostFacts>& hosts, const AdviceOptions& options) {
  const Clock::time_point begin = Clock::now(), never = Clock::time_point::max();
  const auto until = [&](double share) {
    return options.all ? never
                       : begin + std::chrono::duration_cast<Clock::duration>(share * options.time);
  };
  LOCKSTEP_ASSIGN(const cluster::Cluster cluster, workersOf(request, hosts));
  SearchSpace space = spaceOf(request, cluster, options);
  Advice advice;
  advice.unknownMemory = unknownMemory(hosts, cluster);
  const auto mesh = space.meshOf(*request.spec);
  if (!mesh.ok()) advice.currentRefusal = mesh.error();
  Choice current = choiceOf(*request.spec, mesh.ok() ? *mesh : cluster::Mesh());
  if (!mesh.ok()) current.kind.clear();  // it is like none
  LOCKSTEP_TRY(pin(space, current, options.pinned, specWith));
  for (const std::string& precision : space.precisions)
    if (const auto made = specWith({{"training.precision", precision}}); !made.ok())
      return made.error();
  std::vector<Choice> choices = choicesIn(space, current);
  std::erase(choices, current);
  advice.judged = choices.size() + 1;

  Search search(request, specWith, hosts, options, space, current);
  if (mesh.ok()) search.plan({current}, never, advice);  // in any case
  if (options.all) {
    advice.complete = search.plan(choices, never, advice);
  } else {
    const std::size_t most = options.mostPlans > 0 ? options.mostPlans : choices.size();
    const auto judged =
        judge(request, hosts, cluster, space, std::move(choices), until(kJudging), options);
    advice.timeWasUp = Clock::now() >= until(kJudging);
    advice.complete = search.planInOrder(judged, most, until(1 - kVarying), advice);
  }
  if (advice.best.empty() && options.stop.stop_requested())
    return makeError(Code::kCancelled, "the search was cancelled");
  if (advice.best.empty()) return search.failure(advice.currentRefusal);
  search.vary(until(1), advice);
  advice.timeWasUp = advice.timeWasUp || search.timeWasUp();

  sortByTime(advice.best);
  if (advice.best.size() > options.top) advice.best.resize(options.top);
  rankStrategies(advice.best);
  if (advice.current) sayWhy(*advice.current, advice.best.front());
  return advice;
}

}  // namespace lockstep::app
