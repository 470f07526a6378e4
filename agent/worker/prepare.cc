#include "agent/worker/prepare.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "agent/host/metrics.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/plan/plan.h"
#include "engine/planner/planner.h"
#include "engine/runtime/checkpoint.h"
#include "engine/specs/data_files.h"
#include "engine/specs/error_info.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"
#include "engine/specs/workload.h"
#include "engine/weights/files.h"

namespace lockstep::agent {
namespace {

constexpr int kBf16Major = 8;  // of the compute capability from which cuBLASLt multiplies bf16
constexpr std::int64_t kSpareBytes = std::int64_t{32} << 20;
constexpr std::int64_t kThreadsBytes = std::int64_t{6} << 20;
// A worker's code and that of its libraries, and room for workspaces of large layers' kernels.
constexpr std::int64_t kMarginBytes = std::int64_t{58} << 20;

// Of a file without dimensions, as one of weights.
constexpr std::string_view kNoShape = "-";

// Parses kNoShape, or the output of shapeText(); nullopt where no file can have that shape.
std::optional<Shape> readShape(std::istringstream& line) {
  std::string word, part;
  line >> word;
  if (word == kNoShape) return Shape();
  Shape out;
  std::int64_t count = 1;
  for (std::istringstream parts(word); std::getline(parts, part, 'x');) {
    std::int64_t extent = 0;
    const char* const end = part.data() + part.size();
    const auto [stop, failed] = std::from_chars(part.data(), end, extent);
    if (failed != std::errc() || stop != end || extent < 0 ||
        __builtin_mul_overflow(count, extent, &count))
      return std::nullopt;
    out.push_back(extent);
  }
  return out;
}

// The shape of one sample the plan's steps take; empty where they take none.
Shape sampleOf(const plan::Plan& plan) {
  const plan::Body* body = plan.reader("x", 0);
  if (body == nullptr) return {};
  for (const plan::Buffer& buffer : body->buffers)
    if (buffer.kind == plan::BufferKind::kInput && buffer.name == "x" && !buffer.type.shape.empty())
      return Shape(buffer.type.shape.begin() + 1, buffer.type.shape.end());
  return {};
}

}  // namespace

Progress progressOf(node::v1::DataProgress::Activity activity, const std::string& file,
                    const DataObserver& observer) {
  if (!observer) return {};
  return [activity, file, observer](std::int64_t done, std::int64_t total) {
    node::v1::DataProgress progress;
    progress.set_activity(activity);
    progress.set_file(file);
    progress.set_bytes_done(done);
    progress.set_bytes_total(total);
    return observer(progress);
  };
}

namespace {

// Notes a file's hash, and checks that it is the run's.
Status checkHash(const specs::DataFile& file, const std::string& sha256, FoundData& found) {
  found.hashes[file.name] = sha256;
  std::string expected = file.sha256;
  for (char& c : expected)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  if (expected.empty() || expected == sha256) return {};
  Error error =
      makeError(Code::kFailedPrecondition, "the data file {} is not the run's", file.path);
  error.why = message("its SHA-256 is {}, the run expects {}", sha256, expected);
  error.next = "copy the right file to this node, or set data.copy_to_nodes";
  return error;
}

// The file as the run expects it. Its hash is noted, and where it is decoded.
Result<data::FileFacts> inspectFile(const specs::DataFile& file, std::string_view format,
                                    const data::TableFile& table, DataCache& cache,
                                    FoundData& found, const DataObserver& observer) {
  const bool isText = format == "text", isTable = format == "table";
  // The facts of a table depend on the expected columns.
  const std::string kind = isText ? "text" : isTable ? data::tableDecoding(table) : "";
  bool wasRead = false;
  const auto read = [&] {
    wasRead = true;
    const Progress progress =
        progressOf(isText ? node::v1::DataProgress::HASHING : node::v1::DataProgress::DECODING,
                   file.path, observer);
    return isText    ? data::inspectText(file.path, progress)
           : isTable ? data::inspectTable(table, &cache.decoded(), progress)
                     : data::inspectIdx(file.path, &cache.decoded(), progress);
  };
  auto facts = cache.inspect(file.path, kind, read);
  if (!facts.ok()) {
    if (facts.error().next.empty() || facts.error().code == Code::kNotFound)
      facts.error().next =
          "put the file there, or correct its path in the run or in the node's `data`, or set "
          "data.copy_to_nodes";
    return facts;
  }
  LOCKSTEP_TRY(checkHash(file, facts->sha256, found));
  if (isText) return facts;
  const std::string decoding = isTable ? data::tableDecoding(table) : data::idxDecoding();
  const auto find = [&] {
    return cache.decoded().find(decoding, facts->sha256,
                                progressOf(node::v1::DataProgress::HASHING, file.path, observer));
  };
  std::string decoded = find();
  // It was removed, or there was no room when the file was read.
  if (decoded.empty() && !wasRead && cache.decoded().takes(elementCount(facts->dimensions)) &&
      read().ok())
    decoded = find();
  if (!decoded.empty()) found.decoded[file.name] = decoded;
  return facts;
}

// Of tokens only samples are read, and no rank holds them.
Status checkTokens(const specs::DataFile& file, const spec::v1::RunSpec& spec, bool train,
                   FoundData& found) {
  const data::TokenFiles tokens = specs::tokenFiles(spec, train, file.path);
  LOCKSTEP_ASSIGN(const data::FileFacts facts, data::inspectTokens(tokens));
  LOCKSTEP_TRY(checkHash(file, facts.sha256, found));
  return data::checkTokens(tokens, facts);
}

// The kinds of files of a format.
std::vector<std::string_view> kindsOf(const std::string& format) {
  if (format == "idx") return {"images", "labels"};
  return {format};
}

// The training or the evaluation data; evaluation data may be absent. The bytes of its elements are
// added to those in `found`.
Status checkData(const std::map<std::string, std::string>& paths, const std::string& which,
                 const node::v1::PrepareRequest& request, const Shape& sample, DataCache& cache,
                 FoundData& found, const DataObserver& observer) {
  const spec::v1::DataSpec& data = request.spec().data();
  const bool train = which == "train";
  std::vector<specs::DataFile> files;
  for (const std::string_view kind : kindsOf(data.format())) {
    specs::DataFile file{fmt::format("{}.{}", which, kind), "", ""};
    for (const specs::DataFile& given : specs::dataFiles(request.spec()))
      if (given.name == file.name) file.sha256 = given.sha256;
    if (const auto path = paths.find(file.name); path != paths.end()) file.path = path->second;
    files.push_back(std::move(file));
  }
  const auto missing =
      std::find_if(files.begin(), files.end(), [](const auto& file) { return file.path.empty(); });
  const bool any =
      std::any_of(files.begin(), files.end(), [](const auto& file) { return !file.path.empty(); });
  if (!any && !train) return {};
  if (missing != files.end()) {
    Error error = invalidArgument("the run has no data.{}", missing->name);
    error.next = "name the file in the run";
    return error;
  }
  if (data.format() == "tokens") return checkTokens(files[0], request.spec(), train, found);
  std::vector<data::FileFacts> facts;
  const data::TableFile table = specs::tableFile(request.spec(), train, files[0].path);
  for (const specs::DataFile& file : files) {
    LOCKSTEP_ASSIGN(data::FileFacts one,
                    inspectFile(file, data.format(), table, cache, found, observer));
    facts.push_back(std::move(one));
  }
  const auto& part = train ? data.train() : data.evaluate();
  const double share = data.format() == "idx" ? 1 : part.to() - part.from();
  for (std::size_t i = 0; i < files.size(); ++i)
    (found.decoded.contains(files[i].name) ? found.mappedBytes : found.ownBytes) +=
        static_cast<std::int64_t>(share * static_cast<double>(elementCount(facts[i].dimensions)));
  if (data.format() == "text") {
    data::TextFile text = specs::textFile(request.spec(), train, files[0].path);
    text.tokens = sample.empty() ? 1 : sample[0];
    return data::checkText(text, facts[0]);
  }
  if (data.format() == "table") return data::checkTable(table, facts[0]);
  const int classes = request.spec().model().classes();
  return data::checkIdx({files[0].path, files[1].path, {}, {}, {}, {}}, facts[0], facts[1], sample,
                        classes > 0 ? classes : 256);
}

// Every rank of the node holds its share of the plan and the data it does not map, and so does one
// that evaluates; what is mapped they have in common.
Status checkMemory(const node::v1::PrepareRequest& request, const plan::Plan& plan,
                   const plan::Plan* evaluation, const FoundData& data) {
  std::int64_t needed = data.mappedBytes;
  if (evaluation != nullptr) needed += workerMemory(*evaluation, 0, data.ownBytes) + kMarginBytes;
  const std::vector<specs::RankDevice> devices = devicesOf(request);
  for (int i = 0; i < request.ranks_size(); ++i)
    needed += kMarginBytes + (devices[static_cast<std::size_t>(i)].kind == "cpu"
                                  ? workerMemory(plan, request.ranks(i), data.ownBytes)
                                  : data.ownBytes + kThreadsBytes);
  const std::int64_t available = memoryAvailable();
  if (available < 0 || needed <= available) return {};
  Error error = makeError(Code::kResourceExhausted, "not enough memory for the run's ranks");
  error.why = message("{} ranks need {} MiB, {} MiB are available",
                      request.ranks_size() + (evaluation != nullptr ? 1 : 0), needed >> 20,
                      available >> 20);
  error.next = "use a smaller batch or model, put fewer ranks on this node, or free memory there";
  return error;
}

Result<plan::Plan> parsePlan(const node::v1::PrepareRequest& request) {
  LOCKSTEP_ASSIGN(plan::Plan plan, plan::parse(request.plan()));
  if (request.plan_hash() != sha256Hex(request.plan()) && request.plan_hash() != plan::hash(plan)) {
    Error error = invalidArgument("the plan is not the one that was announced");
    error.why = message("its hash is {}, announced was {}", plan::hash(plan), request.plan_hash());
    error.next = "launch again from one version of the program";
    return error;
  }
  LOCKSTEP_TRY(plan::verify(plan));
  return plan;
}

// Null where this node does not evaluate.
Result<std::optional<plan::Plan>> parseEvaluationPlan(const node::v1::PrepareRequest& request) {
  if (request.evaluation_plan().empty()) return std::optional<plan::Plan>();
  LOCKSTEP_ASSIGN(plan::Plan evaluation,
                  plan::parse(request.evaluation_plan(), "the plan that evaluates"));
  LOCKSTEP_TRY(plan::verify(evaluation));
  if (evaluation.mesh.size() != 1 || !request.ranks().empty())
    return invalidArgument("node {} evaluates by one rank, and has no ranks of the run",
                           request.node());
  const spec::v1::NodeSpec* const evaluator = specs::evaluatorNode(request.cluster());
  if (evaluator == nullptr || evaluator->name() != request.node())
    return invalidArgument("node {} is not the evaluator of the cluster", request.node());
  return std::optional<plan::Plan>(std::move(evaluation));
}

// Checks the specs before they are used: they may contain any number.
Status checkSpecs(const node::v1::PrepareRequest& request) {
  if (request.spec().has_workload()) {
    spec::v1::RunSpec spec = request.spec();
    LOCKSTEP_TRY(specs::checkAndFill(spec));
  }
  LOCKSTEP_TRY(specs::checkOptions(request.spec(), ""));
  LOCKSTEP_TRY(specs::checkOptions(request.cluster(), ""));
  return checkRankCounts(request.cluster());
}

Status checkRanks(const node::v1::PrepareRequest& request, int world) {
  if (request.ranks().empty() && request.evaluation_plan().empty() && !isSpare(request))
    return invalidArgument("no rank of the run is on node {}", request.node());
  std::set<int> seen;
  for (int rank : request.ranks()) {
    if (rank < 0 || rank >= world)
      return invalidArgument("rank {} is not in the plan, which has {}", rank, world);
    if (!seen.insert(rank).second)
      return invalidArgument("rank {} is listed twice on node {}", rank, request.node());
  }
  return {};
}

Status checkComm(const node::v1::PrepareRequest& request, int world) {
  if (request.spec().has_workload()) return {};  // its program exchanges in its own way
  const bool several = request.ranks_size() < world;
  if (several && !request.ranks().empty() && request.comm() != "gloo" && request.comm() != "nccl") {
    Error error = invalidArgument("comm \"{}\" reaches the ranks of one node only", request.comm());
    error.next = "use comm: gloo for a cluster of several nodes";
    return error;
  }
  if (request.comm() == "in-process" && world > 1) {
    Error error = invalidArgument("comm \"in-process\" is for one rank: ranks are processes here");
    error.next = "use comm: shm";
    return error;
  }
  const auto comms = specs::valuesOf<spec::v1::ClusterSpec>("comm");
  if (std::find(comms.begin(), comms.end(), request.comm()) == comms.end())
    return invalidArgument("unknown comm \"{}\"; expected one of {}", request.comm(),
                           fmt::join(comms, ", "));
  return {};
}

Status checkCoordinator(const node::v1::PrepareRequest& request, int world) {
  const std::vector<std::string> nodes = nodesOf(request);
  if (request.ranks_size() == world && nodes.size() <= 1) {
    if (request.coordinator()) return {};
    return invalidArgument("the only node of a run coordinates it");
  }
  if (nodes.empty() || (nodes.front() == request.node()) != request.coordinator())
    return invalidArgument("only the first node of the cluster coordinates a run");
  if (request.tls().key_pem().empty())
    return invalidArgument("a run on several nodes needs TLS keys");
  return {};
}

// The code of a program is on the node, where the run has some.
Status checkCode(const node::v1::PrepareRequest& request) {
  if (request.spec().workload().code().disabled()) return {};
  const auto file = request.data_paths().find(std::string(specs::kCodeFile));
  std::error_code failed;
  if (file != request.data_paths().end() && std::filesystem::is_regular_file(file->second, failed))
    return {};
  Error error = makeError(Code::kNotFound, "the program's code is not on the node");
  error.next = "launch again, which copies it";
  return error;
}

Status checkDevices(const node::v1::PrepareRequest& request, const plan::Plan& plan,
                    const std::optional<plan::Plan>& evaluation, const GpuSurveyor& survey) {
  const std::vector<specs::RankDevice> devices = devicesOf(request);
  if (std::none_of(devices.begin(), devices.end(),
                   [](const auto& device) { return device.kind == "cuda"; }))
    return {};
  std::vector<std::int64_t> bytes;  // a spare's ranks are not known yet
  for (const int rank : request.ranks()) bytes.push_back(planner::memory(plan, rank, true).total());
  if (evaluation) bytes.push_back(planner::memory(*evaluation, 0, true).total());
  bytes.resize(devices.size());
  LOCKSTEP_ASSIGN(const node::v1::GpuSurvey node, survey());
  LOCKSTEP_TRY(checkGpus(node, devices, bytes, plan.precision));
  if (request.comm() != "nccl" || plan.mesh.size() == 1 || evaluation || node.alone().empty())
    return {};
  Error error = makeError(Code::kFailedPrecondition,
                          "comm is nccl, and the node's GPUs cannot exchange among themselves");
  error.why = node.alone();
  error.next =
      "install NCCL there, or leave comm out of the cluster: what GPUs cannot exchange goes "
      "through the host";
  return error;
}

// `place` may not be there yet.
Status checkDisk(const std::filesystem::path& place, std::int64_t needed, const Message& next) {
  std::error_code failed;
  std::filesystem::path there = place;
  while (!std::filesystem::exists(there, failed) && there.has_relative_path())
    there = there.parent_path();
  const std::int64_t free = diskFree(there.string());
  if (free < 0 || free >= needed) return {};
  Error error = makeError(Code::kResourceExhausted, "no space for the run in {}", place.string());
  error.why = message("{} MiB are free, {} MiB are needed", free >> 20, needed >> 20);
  error.next = next;
  return error;
}

// Memory, and disk for the run's checkpoints, where these go; decoded data that nobody uses make
// room for them in the workdir.
Status checkRoom(const node::v1::PrepareRequest& request, const Workdir& workdir,
                 const plan::Plan& plan, const std::optional<plan::Plan>& evaluation,
                 DataCache& cache, FoundData& data) {
  const auto& checkpoint = request.spec().training().checkpoint();
  const std::int64_t keep = std::max(2, checkpoint.keep());
  std::int64_t kept =
      specs::takesCheckpoints(request.spec()) ? (keep + 1) * plan.logicalStateBytes() : 0;
  const std::string& path = checkpoint.path();
  if (!path.empty() && !specs::sharesCheckpoints(request.spec())) {
    // Each node writes about its part there, and copies of others' parts.
    const auto nodes = static_cast<std::int64_t>(
        specs::nodesWithRanks(request.cluster(), request.spec().strategy()).size());
    kept = kept / nodes * std::min<std::int64_t>(nodes, 1 + checkpoint.copies());
  }
  const std::int64_t needed = kSpareBytes + (path.empty() ? kept : 0);
  if (diskFree(workdir.path) < needed) cache.decoded().makeRoom(needed);
  // What had to go to make room, for the run or for another of its files, each worker reads.
  const auto isGone = [](const auto& file) {
    std::error_code failed;
    return !std::filesystem::exists(file.second, failed);
  };
  if (std::erase_if(data.decoded, isGone) > 0) data.ownBytes += std::exchange(data.mappedBytes, 0);
  LOCKSTEP_TRY(checkMemory(request, plan, evaluation ? &*evaluation : nullptr, data));
  LOCKSTEP_TRY(
      checkDisk(workdir.path, needed, message("free space there, or choose another workdir")));
  return path.empty() ? Status() : checkDisk(path, kept, message("free space there"));
}

}  // namespace

bool isSpare(const node::v1::PrepareRequest& request) {
  for (const auto* node : specs::spareNodes(request.cluster()))
    if (node->name() == request.node()) return true;
  return false;
}

Result<plan::Plan> readPlan(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, readFile(path));
  LOCKSTEP_ASSIGN(plan::Plan plan, plan::parse(text, path));
  LOCKSTEP_TRY(plan::verify(plan));
  return plan;
}

std::vector<std::string> nodesOf(const node::v1::PrepareRequest& request) {
  std::vector<std::string> out;
  for (const auto* node : specs::nodesWithRanks(request.cluster(), request.spec().strategy()))
    out.push_back(node->name());
  for (const auto* node : specs::spareNodes(request.cluster())) out.push_back(node->name());
  if (const auto* evaluator = specs::evaluatorNode(request.cluster()))
    out.push_back(evaluator->name());
  return out;
}

std::vector<specs::RankDevice> devicesOf(const node::v1::PrepareRequest& request) {
  // of a node that the cluster does not tell of: one device of a cpu for each rank
  spec::v1::NodeSpec node;
  for (const auto& one : request.cluster().nodes())
    if (one.name() == request.node()) node = one;
  std::vector<specs::RankDevice> out = specs::rankDevices(node, request.spec().training());
  const auto ranks = static_cast<std::size_t>(std::max(1, request.ranks_size()));  // one evaluates
  while (out.size() < ranks) {
    out.push_back(out.back());
    ++out.back().number;
  }
  out.resize(ranks);
  return out;
}

Status checkGpus(const node::v1::GpuSurvey& node, const std::vector<specs::RankDevice>& ranks,
                 const std::vector<std::int64_t>& bytes, std::string_view precision) {
  std::map<int, std::pair<int, std::int64_t>> gpus;  // by number: its ranks, and what they need
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].kind != "cuda") continue;
    auto& [count, needed] = gpus[ranks[i].number];
    ++count;
    needed += bytes[i];
  }
  const int needed = gpus.empty() ? 0 : gpus.rbegin()->first + 1;
  const std::string found = fmt::format("{}", fmt::join(node.libraries(), "; "));
  if (node.has_problem()) {
    const Error problem = specs::fromInfo(node.problem());
    Error error =
        makeError(Code::kFailedPrecondition, "the node cannot compute on a GPU: {}", problem.what);
    error.why = problem.why.empty() || found.empty() ? message("{}{}", problem.why, found)
                                                     : message("{}; {}", problem.why, found);
    error.next = message(
        "{}, or give the node devices of kind cpu",
        problem.next.empty() ? "see lockstep-agent selftest --device cuda there" : problem.next);
    return error;
  }
  if (needed > node.gpus_size()) {
    Error error =
        makeError(Code::kFailedPrecondition, "the run has ranks on {} GPUs of a node that has {}",
                  needed, node.gpus_size());
    std::vector<std::string> names;
    for (const auto& gpu : node.gpus()) names.push_back(gpu.name());
    error.why = message("{}; {}", fmt::join(names, ", "), found);
    error.next = message(
        "give its devices of kind cuda a count of {0} at most, or, for ranks to share them, gpus: "
        "{0}",
        node.gpus_size());
    return error;
  }
  for (const auto& [number, load] : gpus) {
    const auto& gpu = node.gpus(number);
    if (precision == "bf16" && gpu.major() < kBf16Major) {
      Error error = makeError(Code::kFailedPrecondition, "GPU {} cannot compute in bf16", number);
      error.why = message("{} has compute capability {}.{}, bf16 needs {}.0 or above", gpu.name(),
                          gpu.major(), gpu.minor(), kBf16Major);
      error.next = "set training.precision to fp16 or fp32";
      return error;
    }
    const auto [count, total] = load;
    if (total <= gpu.memory_bytes()) continue;
    Error error = makeError(Code::kResourceExhausted, "not enough memory on GPU {} for its {}",
                            number, count == 1 ? message("rank") : message("{} ranks", count));
    error.why = message("{} {} MiB, {} has {} MiB", count == 1 ? "the rank needs" : "they need",
                        total >> 20, gpu.name(), gpu.memory_bytes() >> 20);
    error.next = "use a smaller batch, more micro-batches, strategy.recompute, or more ranks";
    return error;
  }
  return {};
}

std::int64_t workerMemory(const plan::Plan& plan, int rank, std::int64_t dataBytes) {
  return planner::memory(plan, rank).total() + dataBytes + kThreadsBytes;
}

// A line: hash, dimensions, highest element, its place; then what it is remembered by.
void DataCache::load() {
  if (loaded_) return;
  loaded_ = true;
  auto text = readFile(path_, std::size_t{4} << 20);
  if (!text.ok()) return;
  std::string line;
  for (std::istringstream lines(*text); std::getline(lines, line);) {
    std::istringstream words(line);
    data::FileFacts facts;
    words >> facts.sha256;
    auto shape = readShape(words);
    std::string key;
    if (!shape || !(words >> facts.highest >> facts.highestAt) || words.get() != ' ' ||
        !std::getline(words, key))
      continue;
    facts.dimensions = std::move(*shape);
    known_[key] = std::move(facts);
  }
}

Result<data::FileFacts> DataCache::inspect(const std::string& file, const std::string& kind,
                                           const std::function<Result<data::FileFacts>()>& read) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0)
    return systemError(errno, message("cannot open the data file {}", file));
  const std::string key =
      fmt::format("{}{}.{:09} {} {}", kind.empty() ? "" : kind + " ", info.st_mtim.tv_sec,
                  info.st_mtim.tv_nsec, info.st_size, file);
  {
    std::lock_guard lock(mutex_);
    load();
    if (auto at = known_.find(key); at != known_.end()) return at->second;
  }
  LOCKSTEP_ASSIGN(data::FileFacts facts, read());
  std::lock_guard lock(mutex_);
  if (known_.size() > 1000) known_.clear();
  known_[key] = facts;
  std::string text;
  for (const auto& [name, known] : known_)
    text +=
        fmt::format("{} {} {} {} {}\n", known.sha256,
                    known.dimensions.empty() ? std::string(kNoShape) : shapeText(known.dimensions),
                    known.highest, known.highestAt, name);
  (void)writeFileAtomically(path_, text, 0600);
  return facts;
}

std::map<std::string, std::string> dataPaths(
    const spec::v1::RunSpec& spec, const google::protobuf::Map<std::string, std::string>& given) {
  std::map<std::string, std::string> out;
  for (const specs::DataFile& file : specs::dataFiles(spec)) out[file.name] = file.path;
  for (const auto& [name, path] : given) out[name] = path;
  std::erase_if(out, [](const auto& one) {
    return one.second.empty() || one.first.starts_with(specs::kDecoded);
  });
  return out;
}

Status checkRankCounts(const spec::v1::ClusterSpec& cluster) {
  for (const auto& node : cluster.nodes())
    if (specs::deviceCount(node) > specs::kMaxRanks)
      return invalidArgument("node {} has more than {} ranks", node.name(), specs::kMaxRanks);
  return {};
}

Status checkNames(const node::v1::PrepareRequest& request) {
  if (!isPlainName(request.run()))
    return invalidArgument("\"{}\" is not a run's id", request.run());
  if (!isPlainName(request.node()))
    return invalidArgument("\"{}\" is not a node's name", request.node());
  return {};
}

namespace {

// The weights that training starts from: where they are not the model's, the launch ends.
Status checkInit(const std::map<std::string, std::string>& paths,
                 const node::v1::PrepareRequest& request, const plan::Plan& plan, DataCache& cache,
                 FoundData& found, const DataObserver& observer) {
  const auto& init = request.spec().model().init_from();
  if (!request.spec().model().has_init_from() || !request.resume_from().empty()) return {};
  if (!init.checkpoint().empty()) {
    // Ranks of other nodes send what they have of it.
    Status there =
        request.coordinator() ? weights::newestCheckpoint(init.checkpoint()).status() : Status();
    if (!there.ok())
      there.error().next =
          "name a checkpoint or a folder of checkpoints on the first node in "
          "model.init_from.checkpoint";
    return there;
  }
  const auto path = paths.find(std::string(specs::kInitFile));
  if (path == paths.end()) return invalidArgument("the run has no model.init_from.file");
  LOCKSTEP_ASSIGN(const weights::Names names,
                  specs::weightNames(request.spec().model(), init.names()));
  const Status fits =
      weights::WeightsFile::open(path->second, names, weights::weightsOf(plan), init.partial())
          .status();
  if (!fits.ok()) {
    Error error = fits.error();
    if (error.code == Code::kNotFound)
      error.next =
          "put the file there, or correct its path in the run or in the node's `data`, or set "
          "data.copy_to_nodes";
    return error;
  }
  const auto read = [&]() -> Result<data::FileFacts> {
    data::FileFacts facts;
    LOCKSTEP_ASSIGN(facts.sha256,
                    sha256File(path->second, progressOf(node::v1::DataProgress::HASHING,
                                                        path->second, observer)));
    return facts;
  };
  LOCKSTEP_ASSIGN(const data::FileFacts facts, cache.inspect(path->second, "weights", read));
  return checkHash({path->first, path->second, init.file_sha256()}, facts.sha256, found);
}

// The files of training and evaluation, or the code of a program.
Status checkFiles(const node::v1::PrepareRequest& request, bool evaluates, const plan::Plan& plan,
                  DataCache& cache, FoundData& found, const DataObserver& observer) {
  if (request.spec().has_workload()) return checkCode(request);
  const auto paths = dataPaths(request.spec(), request.data_paths());
  const bool apart = std::any_of(paths.begin(), paths.end(), [](const auto& path) {
    return path.first.starts_with("evaluate.");
  });
  for (const std::string which : {"train", "evaluate"}) {
    if (evaluates && apart && which == "train") continue;  // it reads what it evaluates on
    LOCKSTEP_TRY(checkData(paths, which, request, sampleOf(plan), cache, found, observer));
  }
  return evaluates ? Status() : checkInit(paths, request, plan, cache, found, observer);
}

// Rank 0, which reads the checkpoint that the run continues from, is at the coordinator. A node
// that lacks the volume which all share would write the run's own ones to the disk beneath.
Status checkResumed(const node::v1::PrepareRequest& request) {
  const std::string& from = request.resume_from();
  const std::string& path = request.spec().training().checkpoint().path();
  const bool isShared = specs::sharesCheckpoints(request.spec()) && from.starts_with(path + "/");
  if (from.empty() || (!request.coordinator() && !isShared)) return {};
  Status found = weights::newestCheckpoint(from).status();
  if (found.ok()) return {};
  if (isShared)
    found.error().next =
        message("mount the volume of {} on this node, or rerun the run from its start", path);
  else
    found.error().next =
        "rerun it from its start, or name another run or a folder of checkpoints on this node";
  return found;
}

}  // namespace

Status checkPrepare(const node::v1::PrepareRequest& request, const Workdir& workdir,
                    DataCache& cache, FoundData& data, const GpuSurveyor& survey,
                    const DataObserver& observer) {
  LOCKSTEP_TRY(checkSpecs(request));
  LOCKSTEP_ASSIGN(const plan::Plan plan, parsePlan(request));
  LOCKSTEP_ASSIGN(const std::optional<plan::Plan> evaluation, parseEvaluationPlan(request));
  LOCKSTEP_TRY(checkRanks(request, plan.mesh.size()));
  LOCKSTEP_TRY(checkComm(request, plan.mesh.size()));
  LOCKSTEP_TRY(checkCoordinator(request, plan.mesh.size()));
  LOCKSTEP_TRY(checkDevices(request, plan, evaluation, survey));
  LOCKSTEP_TRY(checkFiles(request, evaluation.has_value(), plan, cache, data, observer));
  if (observer && !observer({})) return makeError(Code::kCancelled, "the launch was cancelled");
  LOCKSTEP_TRY(checkResumed(request));
  return checkRoom(request, workdir, plan, evaluation, cache, data);
}

}  // namespace lockstep::agent
