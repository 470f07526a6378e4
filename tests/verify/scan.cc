// Random combinations of shape, strategy, precision, devices and links, through the same planning
// that `lockstep plan` does, and small ones through what `lockstep verify` does.
//
// scan [--seed N] [--plans N] [--verify N] [--only KIND:N] [--print]
//   --plans    so many combinations are planned: none meets an internal error, and where one is
//   refused, each of
//              the refusal's remedies is applied and the combination then accepted
//   --verify   so many small ones, of 2 to 6 ranks, compute what one rank does
//   --only     "plan:17" or "verify:3": that one of the seed alone
//   --print    every combination with what came of it
// What fails is printed with seed, number, spec and cluster. How far it has come is told on stderr,
// on a terminal in one line, else every half minute. Exit 0 where nothing does.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>

#include "agent/worker/worker_verify.h"
#include "app/runs/preview.h"
#include "app/runs/verification.h"
#include "app/specs/spec_text.h"
#include "engine/base/clock.h"
#include "engine/cluster/strategies.h"
#include "engine/data/click_log.h"
#include "lockstep/node/v1/node.pb.h"
#include "lockstep/spec/v1/spec.pb.h"
#include "tests/support/made_up_data.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kRemediesInARow = 10;  // of one combination: it can be wrong in several ways

class Dice {
 public:
  explicit Dice(std::uint64_t key) : key_(key) {}
  std::uint64_t below(std::uint64_t limit) { return randomBits(key_, count_++) % limit; }
  bool oneIn(std::uint64_t n) { return below(n) == 0; }
  int from(int low, int high) {
    return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  template <typename T>
  T of(std::initializer_list<T> all) {
    return *(all.begin() + below(all.size()));
  }
  const char* text(std::initializer_list<const char*> all) { return of<const char*>(all); }

 private:
  std::uint64_t key_, count_ = 0;
};

struct Combination {
  std::string spec, cluster;
  std::vector<app::HostFacts> hosts;
  app::Precision precision = app::Precision::kSmallDouble;  // of a verification
};

// ---- What is combined.

struct Shape {
  std::string input, layers, data, loss = "cross-entropy";
  int layerCount = 0;
  std::vector<std::string> names;
};

void add(Shape& shape, const std::string& layer) {
  const std::string name = fmt::format("l{}", shape.layerCount++);
  shape.names.push_back(name);
  shape.layers += fmt::format("    - {{name: {}, {}}}\n", name, layer);
}

Shape gpt(Dice& dice, bool small, const std::string& folder) {
  Shape out;
  const int heads = small ? dice.from(1, 4) : dice.of({1, 2, 3, 4, 6, 8, 12, 16});
  const int channels = heads * (small ? dice.of({4, 8}) : dice.of({8, 16, 32, 64, 100, 128}));
  const int blocks = small ? dice.from(1, 3) : dice.of({1, 2, 3, 4, 6, 8, 12, 16, 24});
  const int tokens = small ? dice.of({6, 8, 16}) : dice.of({16, 64, 100, 128, 512, 1024});
  const int vocabulary = small ? 256 : dice.of({256, 300, 1000, 8192, 50304});
  out.input = fmt::format("{{shape: [{}], vocabulary: {}}}", tokens, vocabulary);
  add(out, fmt::format("embedding: {{units: {}}}", channels));
  const std::string dropout = dice.oneIn(6) ? ", dropout: 0.1" : "";
  const int said = !small && dice.oneIn(25) ? heads + 1 : heads;  // perhaps no divisor
  const bool odd = dice.oneIn(4);  // layers in an order that nobody's GPT has
  for (int block = 0; block < (odd ? dice.from(0, 2) : blocks); ++block)
    add(out, fmt::format("transformer: {{heads: {}{}{}}}", said, dropout,
                         dice.oneIn(12) ? ", not_causal: true" : ""));
  for (int i = odd ? dice.from(0, 3) : 0; i > 0; --i)
    add(out,
        dice.oneIn(3) ? std::string("dropout: {rate: 0.2}")
        : dice.oneIn(2)
            ? fmt::format("dense: {{units: {}{}}}", channels, dice.text({"", ", activation: gelu"}))
            : fmt::format("activation: {{function: {}}}", dice.text({"relu", "tanh"})));
  if (!odd || dice.oneIn(3)) add(out, "layer_norm: {}");
  add(out, dice.oneIn(3) ? fmt::format("dense: {{units: {}}}", vocabulary)
                         : fmt::format("dense: {{units: {}, tied: l0}}", vocabulary));
  out.data = fmt::format(
      "  format: text\n  train: {{text: {0}/made-up.txt, to: 0.9}}\n"
      "  evaluate: {{text: {0}/made-up.txt, from: 0.9}}\n",
      folder);
  return out;
}

std::string imageData(const std::string& folder) {
  return fmt::format(
      "  train: {{images: {0}/images, labels: {0}/labels}}\n"
      "  evaluate: {{images: {0}/images, labels: {0}/labels}}\n",
      folder);
}
constexpr int kSide = 12;

Shape mlp(Dice& dice, bool small, const std::string& folder) {
  Shape out;
  out.input = fmt::format("{{shape: [{0}, {0}, 1]}}", kSide);
  add(out, "flatten: {}");
  const int hidden = dice.from(0, small ? 3 : 6);
  for (int i = 0; i < hidden; ++i)
    add(out, fmt::format("dense: {{units: {}, activation: {}}}",
                         small ? dice.from(3, 16) : dice.of({7, 64, 128, 300, 1024, 4096}),
                         dice.text({"relu", "gelu", "tanh"})));
  add(out, "dense: {units: 10}");
  out.data = imageData(folder);
  return out;
}

Shape convolutions(Dice& dice, bool small, const std::string& folder) {
  Shape out;
  out.input = fmt::format("{{shape: [{0}, {0}, 1]}}", kSide);
  const bool norm = dice.oneIn(2);
  const std::string groups =
      norm && dice.oneIn(4) ? fmt::format("groups: {}", dice.of({1, 2, 3, 4, 8})) : "";
  const int count = dice.from(1, small ? 2 : 5);
  for (int i = 0; i < count; ++i) {
    add(out, fmt::format("conv2d: {{filters: {}, kernel: 3, padding: same{}}}",
                         small ? dice.from(2, 5) : dice.of({3, 16, 48, 64}),
                         norm ? dice.text({", no_bias: true", ""}) : ", activation: relu"));
    if (norm)
      add(out,
          fmt::format("batch_norm: {{activation: relu{}}}", groups.empty() ? "" : ", " + groups));
  }
  if (dice.oneIn(2)) add(out, "max_pool2d: {size: 2}");
  if (dice.oneIn(2))
    add(out, "global_average_pool: {}");
  else
    add(out, "flatten: {}");
  if (dice.oneIn(4)) add(out, "dropout: {rate: 0.2}");
  add(out, "dense: {units: 10}");
  out.data = imageData(folder);
  return out;
}

Shape clicks(Dice& dice, bool small, const std::string& folder) {
  Shape out;
  out.input = fmt::format("{{shape: [13], columns: 26, categories: {}}}",
                          small ? dice.of({20, 100}) : dice.of({100, 5000, 100000}));
  const int units = small ? dice.from(2, 4) : dice.of({4, 16, 64});
  out.layers = fmt::format(
      "    - {{name: l0, inputs: [categories], embedding: {{units: {}}}}}\n"
      "    - {{name: l1, inputs: [input, l0], concat: {{}}}}\n",
      units);
  out.names = {"l0", "l1"};
  out.layerCount = 2;
  const int hidden = dice.from(0, 3);
  for (int i = 0; i < hidden; ++i)
    add(out, fmt::format("dense: {{units: {}, activation: relu}}",
                         small ? dice.from(3, 8) : dice.of({32, 64, 512})));
  add(out, "dense: {units: 1}");
  out.loss = "binary-cross-entropy";
  out.data = fmt::format(
      "  format: table\n  train: {{table: {0}/made-up.tsv, to: 0.9}}\n"
      "  evaluate: {{table: {0}/made-up.tsv, from: 0.9}}\n",
      folder);
  return out;
}

std::string training(Dice& dice, bool small) {
  std::string out;
  const auto line = [&](const std::string& text) { out += "  " + text + "\n"; };
  line(fmt::format("batch: {}", small ? dice.of({6, 7, 8, 10, 12, 12, 24, 24})
                                      : dice.of({1, 7, 12, 37, 64, 96, 100, 128, 128, 256, 256, 480,
                                                 512, 960, 1024, 1920})));
  if (dice.oneIn(4))
    line(fmt::format("evaluate_batch: {}",
                     small ? dice.from(4, 40) : dice.of({1, 7, 64, 100, 256, 1000, 4096})));
  if (dice.oneIn(2)) line("max_steps: 500");
  const std::string precision =
      dice.text({"fp32", "fp32", "fp32", "bf16", "bf16", "fp16", "tf32", "fp64"});
  line("precision: " + precision);
  if (dice.oneIn(precision == "fp16" ? 3 : 40)) line("loss_scale: {initial: 1024}");
  if (!small && dice.oneIn(20))
    line(fmt::format("backend: {}", dice.text({"onednn", "reference", "timed", "cuda"})));
  const std::string clip = dice.oneIn(3) ? ", clip_norm: 1" : "",
                    decay = dice.oneIn(3) ? ", weight_decay: 0.01" : "";
  const std::string kind = dice.text({"adam", "adam", "sgd", "adagrad"});
  line(fmt::format("optimizer: {{kind: {}, learning_rate: 0.01{}{}{}{}}}", kind, clip, decay,
                   kind == "sgd" && dice.oneIn(2) ? ", momentum: 0.9" : "",
                   dice.oneIn(40) ? ", beta1: 0.8" : ""));
  if (dice.oneIn(4))
    line(fmt::format("schedule: {{kind: {}, warmup_steps: {}, every: {}}}",
                     dice.text({"cosine", "linear", "step", "constant"}), dice.of({0, 10}),
                     dice.of({0, 50})));
  return out;
}

std::string strategy(Dice& dice, const Shape& shape, int ranks, bool small) {
  const auto kinds = cluster::strategies();
  const cluster::Strategy& kind = kinds[dice.below(kinds.size())];
  std::string out = fmt::format("  kind: {}\n", kind.name);
  const auto line = [&](const std::string& text) { out += "  " + text + "\n"; };
  const auto maybe = [&](bool natural) { return natural ? dice.oneIn(2) : dice.oneIn(14); };
  const auto count = [&] { return dice.of({1, 2, 2, 3, 4, 4, 8}); };
  int tensor = 1;
  if (maybe(kind.axis == cluster::kModelAxis)) line(fmt::format("tensor: {}", tensor = count()));
  int stages = 1;
  if (maybe(kind.axis == cluster::kStageAxis)) line(fmt::format("stages: {}", stages = count()));
  if (kind.servers ? dice.oneIn(2) : dice.oneIn(50))
    line(fmt::format("servers: {}", dice.from(1, 3)));
  if (dice.oneIn(4)) line(fmt::format("micro_batches: {}", dice.of({1, 2, 3, 4, 4, 8, 10, 16})));
  if (kind.local ? dice.oneIn(2) : dice.oneIn(60))
    line(fmt::format("local_steps: {}", dice.of({1, 2, 3, 4, 8})));
  if (maybe(kind.staleness)) line(fmt::format("staleness: {}", dice.of({-1, 1, 2})));
  if (maybe(kind.servers)) line(fmt::format("dense: {}", dice.text({"servers", "all-reduce"})));
  if (maybe(stages > 1)) line(fmt::format("schedule: {}", dice.text({"1f1b", "gpipe", "zb-h1"})));
  if (dice.oneIn(8)) line(fmt::format("recompute: {}", dice.text({"selective", "full"})));
  if (dice.oneIn(6)) line(fmt::format("overlap: {}", dice.text({"always", "never"})));
  if (dice.oneIn(12)) line(fmt::format("gather_bytes: {}", dice.of({1000, 1000000})));
  if (dice.oneIn(8)) line(fmt::format("bucket_bytes: {}", dice.of({1000, 100000, 10000000})));
  if (dice.oneIn(12))
    line(fmt::format("compression: {}", dice.text({"fp16", "bf16", "int8", "top-k"})));
  if (dice.oneIn(14))
    line(fmt::format("all_reduce: {}",
                     dice.text({"direct", "ring", "halving-doubling", "tree", "hierarchical"})));
  if (dice.oneIn(16)) line(fmt::format("deterministic_parts: {}", dice.of({2, 3, 4, 6, 8, 12})));
  if (dice.oneIn(16)) {
    std::vector<int> shares;
    const int parts = std::max(1, dice.oneIn(8) ? ranks + 1 : ranks / tensor / stages);
    for (int i = 0; i < parts; ++i) shares.push_back(dice.of({1, 1, 2, 3, small ? 4 : 20}));
    line(fmt::format("shares: [{}]", fmt::join(shares, ", ")));
  }
  if (kind.pinned ? !dice.oneIn(6) : dice.oneIn(60)) {
    std::vector<std::string> pins;
    int on = 0;
    for (const std::string& name : shape.names) {
      pins.push_back(fmt::format("{{layer: {}, stage: {}}}", name, on));
      if (dice.oneIn(2)) on = dice.oneIn(10) ? dice.from(0, 4) : on + 1;
    }
    line(fmt::format("pins: [{}]", fmt::join(pins, ", ")));
  }
  return out;
}

int clusterOf(Dice& dice, Combination& out, bool small) {
  const int nodes = dice.of({1, 1, 1, 2, 2, 3, 4});
  const int most = small ? std::max(1, 6 / nodes) : 8;
  const std::string kinds = small ? "cpu" : dice.text({"cpu", "cuda", "cuda", "mixed"});
  const bool known = dice.oneIn(2), oneHost = dice.oneIn(2);
  int ranks = 0;
  std::string& text = out.cluster;
  text = "version: 1\nname: made-up\n";
  if (!small && dice.oneIn(10))
    text += fmt::format("comm: {}\n", dice.text({"gloo", "shm", "nccl", "in-process"}));
  text += "nodes:\n";
  for (int node = 0; node < nodes; ++node) {
    const int count = node == 0 && nodes == 1   ? dice.from(small ? 2 : 1, most)
                      : !small && dice.oneIn(2) ? dice.of({1, 2, 4, 8})
                                                : dice.from(1, most);
    const std::string kind = kinds == "mixed" ? dice.text({"cpu", "cuda"}) : kinds;
    text += fmt::format("  - name: n{}\n    address: 10.0.0.{}\n", node, node + 1);
    if (!small && node > 0 && dice.oneIn(20))
      text += fmt::format("    roles: [{}]\n", dice.text({"ps", "evaluator", "chief"}));
    text += fmt::format("    devices: [{{kind: {}, count: {}", kind, count);
    if (dice.oneIn(4)) text += fmt::format(", threads: {}", dice.from(1, 8));
    if (kind == "cuda" && dice.oneIn(8)) text += fmt::format(", gpus: {}", dice.from(1, count));
    text += "}]\n";
    if (known)
      out.hosts.push_back({fmt::format("n{}", node), oneHost ? "host" : fmt::format("host{}", node),
                           dice.of({2, 8, 64}),
                           dice.of<std::int64_t>({0, 0, 1'000'000'000, 64'000'000'000})});
    ranks += count;
  }
  if (nodes > 1 && dice.oneIn(2))
    text += fmt::format("links: [{{from: n0, to: n1, bandwidth_mbit: {}, latency_us: {}}}]\n",
                        dice.of({100, 1000, 10000, 100000}), dice.of({5, 50, 500}));
  return ranks;
}

Combination combine(std::uint64_t key, bool small, const std::string& folder) {
  Dice dice(key);
  Combination out;
  const int ranks = clusterOf(dice, out, small);
  const std::uint64_t which = dice.below(8);
  const Shape shape = which < 3   ? gpt(dice, small, folder)
                      : which < 5 ? mlp(dice, small, folder)
                      : which < 7 ? convolutions(dice, small, folder)
                                  : clicks(dice, small, folder);
  out.spec = fmt::format(
      "version: 1\nmodel:\n  name: made-up\n  input: {}\n  layers:\n{}  loss: "
      "{}\ndata:\n{}training:\n{}strategy:\n{}",
      shape.input, shape.layers, shape.loss, shape.data, training(dice, small),
      strategy(dice, shape, ranks, small));
  out.precision = dice.of({app::Precision::kSmallDouble, app::Precision::kSmallDouble,
                           app::Precision::kSmallSingle, app::Precision::kSingle});
  return out;
}

// ---- What comes of it.

struct Attempt {
  std::vector<std::string> sets;  // of the spec
  std::string cluster;
};

// What a remedy says, done to the attempt.
Status apply(const Remedy& remedy, Attempt& attempt) {
  for (const auto& [field, value] : remedy) {
    if (!field.starts_with("comm") && !field.starts_with("nodes") && !field.starts_with("links")) {
      attempt.sets.push_back(field + "=" + value);
      continue;
    }
    const app::SpecText text =
        app::SpecText::parse(attempt.cluster, "cluster.yaml", app::SpecKind::kCluster);
    LOCKSTEP_ASSIGN(const app::TextEdit edit, text.edit(field, value));
    attempt.cluster = edit.applied(attempt.cluster);
  }
  return {};
}

struct Specs {
  std::shared_ptr<const spec::v1::RunSpec> run;
  std::shared_ptr<const spec::v1::ClusterSpec> cluster;
};

Result<Specs> specsOf(const Combination& one, const Attempt& attempt) {
  LOCKSTEP_ASSIGN(const app::RunSpecFile run,
                  app::completeRunSpec(one.spec, "/spec.yaml", attempt.sets));
  LOCKSTEP_ASSIGN(const app::ClusterSpecFile cluster,
                  app::completeClusterSpec(attempt.cluster, "/cluster.yaml"));
  return Specs{run.spec, cluster.spec};
}

// Like `lockstep plan`: to the text of the plan and of its prediction.
Status planned(const Combination& one, const Attempt& attempt) {
  LOCKSTEP_ASSIGN(const Specs specs, specsOf(one, attempt));
  app::LaunchRequest request;
  request.spec = specs.run;
  request.cluster = specs.cluster;
  LOCKSTEP_ASSIGN(const app::Preview preview, app::makePreview(request, one.hosts));
  const auto wrong = [](std::string what) { return makeError(Code::kInternal, "{}", what); };
  if (!(preview.stepSeconds > 0) || !std::isfinite(preview.stepSeconds))
    return wrong(fmt::format("the predicted step takes {} s", preview.stepSeconds));
  for (const app::RankPreview& rank : preview.ranks)
    if (rank.parameterBytes < 0 || rank.optimizerBytes < 0 || rank.gradientBytes < 0 ||
        rank.activationBytes < 0 || rank.totalBytes() <= 0)
      return wrong(fmt::format("rank {} needs {} bytes", rank.rank, rank.totalBytes()));
  auto parsed = plan::parse(preview.planText);
  if (!parsed.ok()) return wrong("the plan's text does not parse: " + parsed.error().text());
  if (plan::text(*parsed) != preview.planText)
    return wrong("the plan's text is another one after parsing");
  if (!app::parsePrediction(app::predictionJson(preview)).ok())
    return wrong("the prediction does not parse");
  if (app::previewText(preview).empty()) return wrong("there is no text");
  if (preview.misfit && !preview.misfit->remedies.empty()) return *preview.misfit;
  return {};
}

std::map<std::string, int> undecided;  // verifications, by the check that one leaves undecided

Status verified(const Combination& one, const Attempt& attempt) {
  LOCKSTEP_ASSIGN(const Specs specs, specsOf(one, attempt));
  app::LaunchRequest request;
  request.spec = specs.run;
  request.cluster = specs.cluster;
  LOCKSTEP_TRY(app::makePreview(request, one.hosts).status());
  LOCKSTEP_ASSIGN(const app::VerifyCase question,
                  app::verifyCase(*specs.run, *specs.cluster, one.precision, 3));
  auto reply = agent::verifyPlans(*question.request);
  if (!reply.ok()) return makeError(Code::kInternal, "verification: {}", reply.error().text());
  for (const auto& finding : reply->findings()) {
    if (finding.undecided())
      ++undecided[finding.check() + " in " + question.request->spec().training().precision()];
    // chance decides that of so few and small steps
    if (!finding.holds() && finding.check() != "quality")
      return makeError(Code::kInternal, "{} differ by {:.1e}, limit {:.1e}: {}", finding.check(),
                       finding.difference(), finding.limit(), finding.where());
  }
  return {};
}

// The error without numbers and names, so that equal refusals have equal texts.
std::string kindOf(const Error& error) {
  std::string out;
  std::string what = error.what;
  for (const char* place : {"/spec.yaml:", "/cluster.yaml:"})
    if (what.starts_with(place)) what = what.substr(what.find(": ") + 2);
  for (const char c : what)
    if (c < '0' || c > '9')
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  return out;
}

bool isRefusal(Code code) {
  return code == Code::kInvalidArgument || code == Code::kResourceExhausted;
}

struct Outcome {
  bool refused = false, failed = false;
  int rounds = 0;    // remedies until it was accepted, at most
  std::string text;  // why it failed
  std::vector<std::string> refusals;
};

// Every remedy of the first refusal, and from there on the first of each.
Outcome tried(const Combination& one,
              const std::function<Status(const Combination&, const Attempt&)>& road) {
  Outcome out;
  const Status first = road(one, {{}, one.cluster});
  if (first.ok()) return out;
  out.refused = true;
  const auto fails = [&](const Error& error, std::string_view why, const Attempt& attempt) {
    out.failed = true;
    out.text = fmt::format("{}{}{}", why, error.text(),
                           attempt.sets.empty() ? ""
                                                : fmt::format("\n  after --set {}",
                                                              fmt::join(attempt.sets, " --set ")));
    return out;
  };
  if (!isRefusal(first.code())) return fails(first.error(), "", {});
  out.refusals.push_back(first.error().what.text() + " | " + first.error().next.text());
  if (first.error().remedies.empty()) return fails(first.error(), "refused without a remedy: ", {});
  for (const Remedy& remedy : first.error().remedies) {
    Attempt attempt{{}, one.cluster};
    Error refusal = first.error();
    const Remedy* next = &remedy;
    std::set<std::string> met;
    for (int round = 1;; ++round) {
      met.insert(kindOf(refusal));
      if (const Status done = apply(*next, attempt); !done.ok())
        return fails(done.error(), "a remedy cannot be applied: ", attempt);
      const Status status = road(one, attempt);
      out.rounds = std::max(out.rounds, round);
      if (status.ok()) break;
      if (!isRefusal(status.code())) return fails(status.error(), "", attempt);
      if (status.error().remedies.empty())
        return fails(status.error(), "refused without a remedy: ", attempt);
      if (met.contains(kindOf(status.error())) && round > 2)
        return fails(status.error(), "still refused: ", attempt);
      if (status.error().what == refusal.what)
        return fails(status.error(), "the remedy mends nothing: ", attempt);
      if (round == kRemediesInARow)
        return fails(status.error(), "refused again and again: ", attempt);
      refusal = status.error();
      next = &refusal.remedies.front();
    }
  }
  return out;
}

std::string underWay;  // for a person to see where the process died
void died(int signal) {
  [[maybe_unused]] const auto ignored = write(STDERR_FILENO, underWay.data(), underWay.size());
  std::signal(signal, SIG_DFL);
  raise(signal);
}

struct Options {
  std::uint64_t seed = 1;
  int plans = 2000, verifies = 300;
  std::string only;
  bool print = false;
};

struct Tally {
  int ran = 0, refused = 0, failed = 0;
  std::map<int, int> rounds;
};

// How many of `all` are done, and how long the others take where they take as long.
class Progress {
 public:
  Progress(const char* name, int all) : name_(name), all_(all) {}
  ~Progress() { erase(); }
  void show(const Tally& tally, int done) {
    const Nanoseconds now = monotonicNow();
    if (now - shown_ < (terminal_ ? kSecond / 5 : 30 * kSecond)) return;
    shown_ = now;
    const double seconds = static_cast<double>(now - begin_) * 1e-9;
    erase();
    std::fprintf(stderr, "%s %d of %d, %d refused, %d failed; %.0f s, some %.0f s to go%s", name_,
                 done, all_, tally.refused, tally.failed, seconds, seconds / done * (all_ - done),
                 terminal_ ? "" : "\n");
  }
  void erase() const {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  static constexpr Nanoseconds kSecond = 1'000'000'000;
  const char* const name_;
  const int all_;
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  const Nanoseconds begin_ = monotonicNow();
  Nanoseconds shown_ = begin_;
};

Tally scan(const Options& options, bool small, const std::string& folder) {
  const char* const name = small ? "verify" : "plan";
  Tally tally;
  const int all = small ? options.verifies : options.plans;
  Progress progress(name, all);
  for (int i = 0; i < all; ++i) {
    const std::string label = fmt::format("{}:{}", name, i);
    if (!options.only.empty() && options.only != label) continue;
    const Combination one =
        combine(randomBits(options.seed, 2 * static_cast<std::uint64_t>(i) + (small ? 1 : 0)),
                small, folder);
    underWay = fmt::format("scan: died at --seed {} --only {}\n", options.seed, label);
    const Nanoseconds begin = monotonicNow();
    const Outcome came = tried(one, small ? verified : planned);
    const double seconds = static_cast<double>(monotonicNow() - begin) * 1e-9;
    ++tally.ran;
    tally.refused += came.refused;
    tally.failed += came.failed;
    if (came.refused && !came.failed) ++tally.rounds[came.rounds];
    if (options.print || came.failed) progress.erase();
    if (options.print)
      std::printf("%s %s %.2f s%s%s\n", label.c_str(),
                  came.failed    ? "FAILS"
                  : came.refused ? "refused"
                                 : "accepted",
                  seconds, came.refusals.empty() ? "" : "  ",
                  came.refusals.empty() ? "" : came.refusals.front().c_str());
    if (came.failed)
      std::printf("FAILS --seed %llu --only %s\n  %s\n--- spec\n%s--- cluster\n%s---\n",
                  static_cast<unsigned long long>(options.seed), label.c_str(), came.text.c_str(),
                  one.spec.c_str(), one.cluster.c_str());
    std::fflush(stdout);
    if (options.only.empty()) progress.show(tally, i + 1);
  }
  progress.erase();
  std::string rounds;
  for (const auto& [count, times] : tally.rounds)
    rounds += fmt::format("{}{} after {}", rounds.empty() ? "" : ", ", times, count);
  std::printf(
      "seed %llu: %d combinations %s: %d accepted, %d refused and then accepted%s%s%s, %d failed\n",
      static_cast<unsigned long long>(options.seed), tally.ran, small ? "verified" : "planned",
      tally.ran - tally.refused,
      tally.refused - tally.failed < 0 ? 0 : tally.refused - tally.failed,
      rounds.empty() ? "" : " (", rounds.c_str(), rounds.empty() ? "" : (" of the remedies)"),
      tally.failed);
  for (const auto& [check, times] : undecided)
    if (small) std::printf("undecided %d times: %s\n", times, check.c_str());
  return tally;
}

bool number(const std::string& text, auto& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

int main(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool more = i + 1 < words.size();
    if (words[i] == "--print")
      options.print = true;
    else if (words[i] == "--seed" && more && number(words[i + 1], options.seed))
      ++i;
    else if (words[i] == "--plans" && more && number(words[i + 1], options.plans))
      ++i;
    else if (words[i] == "--verify" && more && number(words[i + 1], options.verifies))
      ++i;
    else if (words[i] == "--only" && more)
      options.only = words[++i];
    else {
      std::fprintf(stderr, "scan: %s is not understood\n", words[i].c_str());
      return 2;
    }
  }
  std::string folder = (fs::temp_directory_path() / "lockstep-scan-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  testing::madeUpText(folder);
  testing::madeUpImages(folder + "/images", folder + "/labels", 400, kSide, 10);
  if (!data::writeClickLog({.rows = 2000}, folder + "/made-up.tsv").ok()) return 2;
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, died);
  const Tally plans = scan(options, false, folder), verifies = scan(options, true, folder);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return plans.failed + verifies.failed > 0 || plans.ran + verifies.ran == 0 ? 1 : 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  return lockstep::main(std::vector<std::string>(argv + 1, argv + argc));
}
