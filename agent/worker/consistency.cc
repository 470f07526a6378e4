#include "agent/worker/consistency.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "engine/base/hash.h"
#include "engine/base/hex.h"
#include "engine/base/log.h"
#include "engine/models/model.h"
#include "engine/planner/planner.h"
#include "engine/runtime/kept_batches.h"
#include "engine/runtime/verify.h"
#include "engine/specs/specs.h"

namespace lockstep::agent {
namespace {

constexpr double kClockLimit = 2;  // seconds
// Of the greater: kinds of processors add up in other orders, and of 16-bit factors some round more
// of them than others do.
double numbersAgree(std::string_view precision) {
  if (precision == "bf16") return 4.0 / 256;  // units of its fraction
  if (precision == "fp16") return 4.0 / 2048;
  return 1e-3;
}
constexpr std::string_view kLibrary = "library ";

// Those that belong to a node's system, not to the bundle.
bool isOfTheSystem(std::string_view thing) {
  if (!thing.starts_with(kLibrary)) return false;
  thing.remove_prefix(kLibrary.size());
  for (const char* name : {"libc.so", "libm.so", "ld-linux", "libpthread.so", "libdl.so",
                           "librt.so", "libresolv.so", "linux-vdso", "libnss"})
    if (thing.starts_with(name)) return true;
  return false;
}

std::string buildIdOf(const dl_phdr_info& info) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info.dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const unsigned char*>(info.dlpi_addr + part.p_vaddr);
    const auto* const end = at + part.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const auto aligned = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
      const unsigned char* const name = at + sizeof note;
      const unsigned char* const content = name + aligned(note.n_namesz);
      if (content + note.n_descsz > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return toHex({reinterpret_cast<const char*>(content), note.n_descsz});
      at = content + aligned(note.n_descsz);
    }
  }
  return {};
}

// Its size and some of its samples, as they were read on this node.
std::string dataHash(const data::Dataset& data) {
  constexpr std::int64_t kSamples = 64;
  Sha256 hash;
  hash.update(fmt::format("{} samples\n", data.size()));
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < std::min(kSamples, data.size()); ++i)
    for (std::size_t field = 0; field < data.fields().size(); ++field) {
      bytes.resize(static_cast<std::size_t>(data.fields()[field].bytes()));
      data.read(i * (data.size() / std::min(kSamples, data.size())), field, bytes.data());
      hash.update(bytes);
    }
  return hash.hex();
}

// Ranks at one place of all axes but data hold the same weights.
std::string placeOf(const plan::Plan& plan, int rank) {
  std::string out = fmt::format("weights of stage {}", plan.stageOf(rank));
  for (const cluster::Axis& axis : plan.mesh.axes())
    if (axis.name != "data" && axis.name != cluster::kStageAxis && axis.size > 1)
      out += fmt::format(", {} {}", axis.name, plan.mesh.coordinate(rank, axis.name));
  return out;
}

std::string adviceFor(std::string_view thing) {
  if (thing == "data") return "copy the same data files to every node";
  if (thing == "program" || thing.starts_with(kLibrary))
    return "deploy the same version of Lockstep to every node";
  if (thing.starts_with("weights") || thing == "loss" || thing.starts_with("gradient"))
    return "test that node's memory and processor, or run without it";
  return "launch again from one version of the program";
}

Error differs(const RankFacts& other, const RankFacts& usual, std::string_view thing,
              std::string why) {
  Error error = makeError(Code::kFailedPrecondition, "rank {} differs from rank {} in its {}",
                          other.rank, usual.rank, thing);
  error.why = std::move(why);
  error.next = adviceFor(thing);
  error.node = other.node;
  error.rank = other.rank;
  return error;
}

Message brief(const std::string& hash) {
  return hash.empty() ? Message("nothing") : message("{}", hash.substr(0, 16));
}

// As the small variant takes them: samples of text are shorter, and there are fewer categories.
class SmallSamples final : public data::Dataset {
 public:
  SmallSamples(const data::Dataset& from, const spec::v1::InputSpec& input)
      : from_(from),
        fields_(from.fields()),
        categories_(static_cast<std::int32_t>(input.categories())) {
    for (data::Field& field : fields_)
      if (input.vocabulary() > 0 && field.shape.size() == 1)
        field.shape[0] = std::min(field.shape[0], input.shape(0));
  }
  std::int64_t size() const override { return from_.size(); }
  const std::vector<data::Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    std::vector<std::byte> whole(static_cast<std::size_t>(from_.fields()[field].bytes()));
    from_.read(index, field, whole.data());
    const auto bytes = static_cast<std::size_t>(fields_[field].bytes());
    std::memcpy(out, whole.data(), bytes);
    if (fields_[field].name != "categories") return;
    for (std::size_t at = 0; at < bytes; at += sizeof categories_) {
      std::int32_t id = 0;
      std::memcpy(&id, out + at, sizeof id);
      id %= categories_;
      std::memcpy(out + at, &id, sizeof id);
    }
  }

 private:
  const data::Dataset& from_;
  std::vector<data::Field> fields_;
  std::int32_t categories_;
};

double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<double> readNumber(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

// Whoever's clock is elsewhere than between the asking and the answer.
Status compareClocks(const std::vector<RankFacts>& ranks, WorkerLink& link, Nanoseconds limit) {
  const double asked = wallSeconds();
  LOCKSTEP_TRY(link.set("consistency/clock", "now"));
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    LOCKSTEP_ASSIGN(const std::string text,
                    link.get(fmt::format("consistency/clock/{}", i), limit));
    const std::optional<double> there = readNumber(text);
    const double now = wallSeconds();
    const double ahead = !there           ? 0
                         : *there > now   ? *there - now
                         : *there < asked ? *there - asked
                                          : 0;
    if (std::abs(ahead) > kClockLimit)
      logWarning(
          "the clock of node {} is {:.1f} s {} that of node {}: set both by the network's time",
          ranks[i].node, std::abs(ahead), ahead > 0 ? "ahead of" : "behind", ranks[0].node);
  }
  return {};
}

}  // namespace

// A line each: kind, name and value between tabs.
std::string factsText(const RankFacts& facts) {
  std::string out = fmt::format("rank\t{}\t{}\n", facts.node, facts.rank);
  for (const auto& [name, value] : facts.things) out += fmt::format("thing\t{}\t{}\n", name, value);
  for (const auto& [name, value] : facts.numbers)
    out += fmt::format("number\t{}\t{}\n", name, value);
  return out;
}

Result<RankFacts> parseFacts(std::string_view text) {
  const Error unreadable = makeError(Code::kDataLoss, "a rank's facts cannot be read");
  RankFacts out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t first = line.find('\t'), last = line.rfind('\t');
    if (first == std::string_view::npos || last == first) return unreadable;
    const std::string_view kind = line.substr(0, first), value = line.substr(last + 1);
    std::string name(line.substr(first + 1, last - first - 1));
    if (kind == "thing") {
      out.things.emplace_back(std::move(name), value);
      continue;
    }
    const std::optional<double> number =
        value == "nan" || value == "-nan" ? NAN : readNumber(value);
    if (!number) return unreadable;
    if (kind == "rank") {
      if (!(*number >= 0 && *number <= std::numeric_limits<int>::max())) return unreadable;
      out.node = std::move(name);
      out.rank = static_cast<int>(*number);
    } else {
      out.numbers.emplace_back(std::move(name), *number);
    }
  }
  if (out.rank < 0) return unreadable;
  return out;
}

Status compareFacts(const std::vector<RankFacts>& ranks, std::string_view precision,
                    std::vector<std::string>& warnings) {
  struct Kind {
    std::string value;
    std::vector<const RankFacts*> ranks;
  };
  std::vector<std::string> order;
  std::map<std::string, std::vector<Kind>> things;
  for (const RankFacts& facts : ranks)
    for (const auto& [name, value] : facts.things) {
      if (!things.contains(name)) order.push_back(name);
      auto& kinds = things[name];
      const auto kind =
          std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.value == value; });
      if (kind == kinds.end())
        kinds.push_back({value, {&facts}});
      else
        kind->ranks.push_back(&facts);
    }
  for (const std::string& name : order) {
    auto& kinds = things[name];
    if (kinds.size() < 2) continue;
    const auto usual = std::max_element(
        kinds.begin(), kinds.end(),
        [](const Kind& a, const Kind& b) { return a.ranks.size() < b.ranks.size(); });
    const Kind& other = kinds[usual == kinds.begin() ? 1 : 0];
    if (isOfTheSystem(name)) {
      warnings.push_back(fmt::format(
          "node {} has another {} than node {}: the last digits may differ",
          other.ranks.front()->node, name.substr(kLibrary.size()), usual->ranks.front()->node));
      continue;
    }
    return differs(*other.ranks.front(), *usual->ranks.front(), name,
                   message("{} here, {} there", brief(other.value), brief(usual->value)));
  }
  // Numbers: the rank that is farthest from the middle one.
  if (ranks.empty()) return {};
  for (std::size_t i = 0; i < ranks.front().numbers.size(); ++i) {
    std::vector<std::pair<double, const RankFacts*>> values;
    const std::string& name = ranks.front().numbers[i].first;
    for (const RankFacts& facts : ranks) {
      if (i >= facts.numbers.size() || facts.numbers[i].first != name)
        return differs(facts, ranks.front(), "model", fmt::format("it has no {}", name));
      if (!std::isfinite(facts.numbers[i].second)) {
        const auto other = std::find_if(ranks.begin(), ranks.end(), [&](const RankFacts& one) {
          return i < one.numbers.size() && std::isfinite(one.numbers[i].second);
        });
        if (other != ranks.end()) return differs(facts, *other, name, "it is not a number");
        Error error = makeError(Code::kFailedPrecondition,
                                "the {} of the first samples is not a number", name);
        error.why = "every rank finds the same";
        error.next = "look for numbers in the data that are too large, or lower model.input.scale";
        return error;
      }
      values.emplace_back(facts.numbers[i].second, &facts);
    }
    auto sorted = values;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const auto& middle = sorted[(sorted.size() - 1) / 2];
    for (const auto& [value, facts] : values)
      if (std::abs(value - middle.first) >
          numbersAgree(precision) * std::max(std::abs(value), std::abs(middle.first)))
        return differs(*facts, *middle.second, name,
                       fmt::format("{:.9g} here, {:.9g} there", value, middle.first));
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> loadedLibraries() {
  std::vector<std::pair<std::string, std::string>> out;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        const std::string name = std::filesystem::path(info->dlpi_name).filename();
        if (const std::string id = buildIdOf(*info); !name.empty() && !id.empty())
          static_cast<std::vector<std::pair<std::string, std::string>>*>(to)->emplace_back(name,
                                                                                           id);
        return 0;
      },
      &out);
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::vector<std::pair<std::string, double>>> sharedMicroBatch(
    const spec::v1::RunSpec& spec, const data::Dataset& data, std::string_view backend,
    const backends::BackendOptions& options) {
  spec::v1::RunSpec alone = spec;
  alone.clear_strategy();
  const specs::SmallRun small = specs::smallVariant(alone, 1, 1);
  const std::int64_t batch = small.spec.training().batch();
  const auto [compute, matmulDtype, tf32] = specs::precisionOf(spec.training());
  LOCKSTEP_ASSIGN(const models::Model model, specs::toModel(small.spec.model()));
  planner::PlanRequest request;
  request.matmulDtype = matmulDtype;
  request.tf32 = tf32;
  request.activations = spec.training().activations();
  LOCKSTEP_ASSIGN(request.step, models::build(model, batch, compute, models::Use::kTraining));
  LOCKSTEP_ASSIGN(request.evaluate, models::build(model, batch, compute, models::Use::kEvaluation));
  request.training.optimizer = {.kind = "sgd"};
  request.strategy = "multi-worker-mirrored";
  cluster::Cluster one;
  one.hosts = {{"host", 1}};
  one.devices = {{"node", "host", "cpu", 0, 1}};
  one.mesh = cluster::Mesh({{"data", 1}});
  LOCKSTEP_ASSIGN(const plan::Plan plan, planner::makePlan(request, one, {}));
  const SmallSamples samples(data, small.spec.model().input());
  LOCKSTEP_ASSIGN(const runtime::KeptBatches batches,
                  runtime::KeptBatches::make(
                      samples, {.batch = batch, .steps = 1, .shuffle = false, .augment = {}}));
  return runtime::gradientLengths(plan, batches, backend, options);
}

Result<RankFacts> rankFacts(const node::v1::WorkerStart& start, const plan::Plan& plan,
                            const data::Dataset& data) {
  RankFacts mine;
  mine.rank = start.rank();
  mine.node = start.node();
  mine.things.emplace_back("spec", sha256Hex(start.spec().SerializeAsString()));
  mine.things.emplace_back("plan", plan::hash(plan));
  LOCKSTEP_ASSIGN(std::string program, sha256File("/proc/self/exe"));
  mine.things.emplace_back("program", std::move(program));
  for (auto& [name, id] : loadedLibraries())
    mine.things.emplace_back(std::string(kLibrary) + name, id);
  mine.things.emplace_back("data", dataHash(data));
  LOCKSTEP_ASSIGN(mine.numbers,
                  sharedMicroBatch(start.spec(), data, backendName(start), backendOptions(start)));
  return mine;
}

Status checkConsistency(RankFacts mine, const plan::Plan& plan, const std::string& replica,
                        WorkerLink& link, Nanoseconds limit) {
  const int world = plan.mesh.size();
  const Nanoseconds begin = monotonicNow();
  if (!replica.empty()) mine.things.emplace_back(placeOf(plan, mine.rank), replica);
  LOCKSTEP_TRY(link.set(fmt::format("consistency/{}", mine.rank), factsText(mine)));
  if (mine.rank != 0) {
    LOCKSTEP_TRY(link.get("consistency/clock", limit).status());
    return link.set(fmt::format("consistency/clock/{}", mine.rank),
                    fmt::format("{}", wallSeconds()));
  }
  std::vector<RankFacts> ranks{std::move(mine)};
  for (int rank = 1; rank < world; ++rank) {
    LOCKSTEP_ASSIGN(const std::string text, link.get(fmt::format("consistency/{}", rank), limit));
    LOCKSTEP_ASSIGN(RankFacts facts, parseFacts(text));
    ranks.push_back(std::move(facts));
  }
  std::vector<std::string> warnings;
  LOCKSTEP_TRY(compareFacts(ranks, plan.precision, warnings));
  for (const std::string& warning : warnings) logWarning("{}", warning);
  LOCKSTEP_TRY(compareClocks(ranks, link, limit));
  logInfo(
      "{} ranks agree on spec, plan, program, libraries, data, weights and a shared micro-batch "
      "({} ms)",
      world, (monotonicNow() - begin) / 1'000'000);
  return {};
}

}  // namespace lockstep::agent
