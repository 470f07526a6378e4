// Reads checkpoints: the newest complete one, on any number of ranks. Each rank reads its own
// parts; parts that it does not have are sent by a rank that does, to those that need them.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/runtime/agree.h"
#include "engine/runtime/checkpoint.h"
#include "engine/runtime/checkpoint_inventory.h"
#include "engine/runtime/divergence.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/multicast.h"
#include "engine/weights/files.h"

namespace lockstep::runtime {
namespace {

namespace fs = std::filesystem;

// Pieces of one tensor, the file of each, and its number among those of the checkpoint.
struct Pieces {
  std::vector<Piece> pieces;
  std::vector<std::string> files;
  std::vector<std::size_t> numbers;
};

template <typename T>
void addTo(std::span<const std::byte> parts, std::int64_t begin, std::span<std::byte> sum) {
  const std::size_t count = sum.size() / sizeof(T);
  for (std::size_t i = 0; i * sizeof(T) < parts.size(); ++i) {
    T one{}, all{};
    std::byte* const to = sum.data() + (static_cast<std::size_t>(begin) + i) % count * sizeof(T);
    std::memcpy(&one, parts.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&all, to, sizeof(T));
    all += one;
    std::memcpy(to, &all, sizeof(T));
  }
}

Piece wholeOf(const TensorInfo& tensor) { return {tensor, 0, 0, 1, 0, elementCount(tensor.shape)}; }

// What is read of a checkpoint, and into which state.
struct Wanted {
  bool weightsOnly = false;  // parameters and running statistics; all else stays as it is
  bool partial = false;      // names may differ
};

// Reads one checkpoint, or a file of weights, into the state of all ranks.
class Reading {
 public:
  Reading(const RankState& state, const Manifest& manifest, const KnownCheckpoint& known,
          const SeenCheckpoint* seen, const Wanted& wanted, const WeightsFile* weights = nullptr)
      : state_(state),
        manifest_(manifest),
        known_(known),
        seen_(seen),
        wanted_(wanted),
        weights_(weights) {
    for (const auto& [file, pieces] : manifest.contents) {
      files_.push_back(file);
      for (const Piece& piece : pieces) {
        Pieces& stored = stored_[piece.tensor.name];
        stored.numbers.push_back(stored.pieces.size());
        stored.pieces.push_back(piece);
        stored.files.push_back(file);
      }
    }
    for (int rank = 0; rank < state.plan.mesh.size(); ++rank)
      for (const HeldPiece& held : plan::piecesHeldBy(state.plan, rank))
        if (isWanted(held)) held_[held.piece.tensor.name].emplace_back(rank, held);
  }

  // kInvalidArgument if the checkpoint lacks something that the plan needs.
  Status checkFits() const;
  // kDataLoss if no rank has a needed part.
  Status checkComplete() const;
  // Collective. If a file is damaged, `item` is its index in files().
  Result<Standing> fill() const;
  const std::vector<std::string>& files() const { return files_; }
  // Of weights: names of the model and of the checkpoint.
  Mismatch mismatch() const;

 private:
  bool isWanted(const HeldPiece& held) const {
    if (!wanted_.weightsOnly) return true;
    const plan::StateRole role = held.slot->role;
    return (role == plan::StateRole::kParameters || role == plan::StateRole::kStatistics) &&
           (!wanted_.partial || manifest_.tensors.contains(held.piece.tensor.name));
  }
  // Residuals belong to a rank: they are kept if the number of ranks is the same; otherwise the
  // first rank takes their sum. If the checkpoint has none, they are zero.
  bool isOtherResidual(const HeldPiece& held) const {
    return held.slot->role == plan::StateRole::kResidual && !has(held.piece.tensor);
  }
  bool has(const TensorInfo& tensor) const {
    const auto found = manifest_.tensors.find(tensor.name);
    return found != manifest_.tensors.end() && found->second.shape == tensor.shape &&
           found->second.dtype == tensor.dtype;
  }
  // Returns the part of a stored tensor that a rank needs; nullopt: nothing.
  std::optional<Piece> neededFor(const HeldPiece& held) const;
  bool isHeldBy(int rank, const std::string& file) const { return holders(file).contains(rank); }
  // Returns those of them that a rank has; -1: that any rank has.
  Pieces visible(const std::string& tensor, int rank) const;
  const std::set<int>& holders(const std::string& file) const;
  // Returns the numbers of the stored pieces that a rank needs: those that it has itself if they
  // are enough, else of those that any rank has. Precondition: checkComplete().
  std::vector<std::size_t> sourcesOf(const HeldPiece& held, int rank, const Pieces& anywhere) const;
  Status readOwn(std::int64_t& part) const;
  Result<Standing> receive(const std::string& tensor) const;
  // Returns the elements of a stored piece to read for a rank's: those that they have in common,
  // where they are one range whose checksums can be verified; else all.
  Piece rangeOf(const std::string& file, const Piece& piece, const HeldPiece& held) const;
  Result<std::vector<std::byte>> read(const std::string& file, const Piece& piece,
                                      const Piece& range) const;
  void put(const HeldPiece& held, const Piece& piece, std::span<const std::byte> bytes) const;
  std::int64_t numberOf(const std::string& file) const {
    return std::find(files_.begin(), files_.end(), file) - files_.begin();
  }

  const RankState& state_;
  const Manifest& manifest_;
  const KnownCheckpoint& known_;
  const SeenCheckpoint* const seen_;
  const Wanted wanted_;
  const WeightsFile* const weights_;  // null: a checkpoint
  std::vector<std::string> files_;
  std::map<std::string, Pieces> stored_;                                // by tensor
  std::map<std::string, std::vector<std::pair<int, HeldPiece>>> held_;  // likewise, with the rank
};

Mismatch Reading::mismatch() const {
  Mismatch out;
  const auto weights = weightsOf(state_.plan);
  for (const auto& [name, tensor] : weights) {
    const auto found = manifest_.tensors.find(name);
    if (found == manifest_.tensors.end())
      out.missing.push_back(weightName(name));
    else if (!has(tensor))
      out.wrong.push_back(message("{} is {}[{}] there, the model has {}[{}]", weightName(name),
                                  dtypeName(found->second.dtype), shapeText(found->second.shape),
                                  dtypeName(tensor.dtype), shapeText(tensor.shape)));
    else
      ++out.shared;
  }
  for (const auto& [name, tensor] : manifest_.tensors)
    if (!weightName(name).empty() && !weights.contains(name))
      out.leftOver.push_back(weightName(name));
  return out;
}

Status Reading::checkFits() const {
  if (wanted_.weightsOnly) return mismatch().check(known_.folder, wanted_.partial);
  const auto unfit = [](Error error) {
    error.next = "resume with the spec the checkpoint was made with";
    return error;
  };
  const fs::path folder = known_.folder;
  const std::string path =
      folder / (manifest_.id.empty() ? std::string(kStateFile) : std::string(kManifestFile));
  for (const auto& [name, held] : held_) {
    const HeldPiece& one = held.front().second;
    // of other ranks they will do
    if (one.slot->role == plan::StateRole::kResidual) continue;
    const auto found = manifest_.tensors.find(name);
    if (found == manifest_.tensors.end())
      return unfit(
          invalidArgument("{} has no tensor {}, which this model and optimizer need", path, name));
    if (!has(one.piece.tensor))
      return unfit(invalidArgument("{}: tensor {} is {}[{}], but the plan needs {}[{}]", path, name,
                                   dtypeName(found->second.dtype), shapeText(found->second.shape),
                                   dtypeName(one.piece.tensor.dtype),
                                   shapeText(one.piece.tensor.shape)));
  }
  return {};
}

Status Reading::checkComplete() const {
  for (const auto& [name, held] : held_) {
    const auto stored = manifest_.tensors.find(name);
    if (stored == manifest_.tensors.end()) continue;
    if (plan::coverOf(visible(name, -1).pieces, wholeOf(stored->second))) continue;
    const auto pieces = stored_.find(name);
    for (const std::string& file :
         pieces == stored_.end() ? std::vector<std::string>() : pieces->second.files)
      if (holders(file).empty())
        return makeError(Code::kDataLoss, "no rank can read {}",
                         (fs::path(known_.folder) / file).string());
    return makeError(Code::kDataLoss, "{} does not list all parts of tensor {}",
                     (fs::path(known_.folder) / kManifestFile).string(), name);
  }
  return {};
}

const std::set<int>& Reading::holders(const std::string& file) const {
  static const std::set<int> kNone;
  const auto found = known_.holders.find(file);
  return found == known_.holders.end() ? kNone : found->second;
}

Pieces Reading::visible(const std::string& tensor, int rank) const {
  Pieces out;
  const auto found = stored_.find(tensor);
  if (found == stored_.end()) return out;
  for (std::size_t i = 0; i < found->second.pieces.size(); ++i) {
    const std::set<int>& seenBy = holders(found->second.files[i]);
    if (rank < 0 ? seenBy.empty() : !seenBy.contains(rank)) continue;
    out.pieces.push_back(found->second.pieces[i]);
    out.files.push_back(found->second.files[i]);
    out.numbers.push_back(i);
  }
  return out;
}

std::optional<Piece> Reading::neededFor(const HeldPiece& held) const {
  if (!isOtherResidual(held)) return held.piece;
  const auto stored = manifest_.tensors.find(held.piece.tensor.name);
  const std::int64_t each = held.slot->type.count();
  const bool takes = stored != manifest_.tensors.end() && held.piece.begin == 0 &&
                     held.member->axis.empty() && stored->second.dtype == held.piece.tensor.dtype &&
                     elementCount(stored->second.shape) % each == 0;
  return takes ? std::optional(wholeOf(stored->second)) : std::nullopt;
}

std::vector<std::size_t> Reading::sourcesOf(const HeldPiece& held, int rank,
                                            const Pieces& anywhere) const {
  std::vector<std::size_t> out;
  const auto needed = neededFor(held);
  if (!needed) return out;
  const Pieces own = visible(held.piece.tensor.name, rank);
  const auto ofOwn = plan::coverOf(own.pieces, *needed);
  const auto cover = ofOwn ? ofOwn : plan::coverOf(anywhere.pieces, *needed);
  LOCKSTEP_CHECK(cover, "nobody has all of {}", held.piece.tensor.name);
  for (const std::size_t i : *cover) out.push_back((ofOwn ? own : anywhere).numbers[i]);
  return out;
}

Piece Reading::rangeOf(const std::string& file, const Piece& piece, const HeldPiece& held) const {
  const Piece& needed = held.piece;
  const bool isSplitAlike =
      piece.dim == needed.dim && piece.part == needed.part && piece.parts == needed.parts;
  Piece out = piece;
  if (weights_ != nullptr || !isSplitAlike || isOtherResidual(held) ||
      !seen_->files.at(file)->verifiesRanges())
    return out;
  out.begin = std::max(piece.begin, needed.begin);
  out.end = std::min(piece.end, needed.end);
  return out.begin < out.end ? out : piece;
}

Result<std::vector<std::byte>> Reading::read(const std::string& file, const Piece& piece,
                                             const Piece& range) const {
  if (weights_ != nullptr) return weights_->read(piece);
  const TensorReader& reader = *seen_->files.at(file);
  const TensorInfo stored = piece.stored();
  const auto found = reader.entries().find(stored.name);
  if (found == reader.entries().end() || found->second.shape != stored.shape ||
      found->second.dtype != stored.dtype)
    return makeError(Code::kDataLoss,
                     "the file {} does not have tensor {}, which the manifest lists", reader.path(),
                     stored.name);
  std::vector<std::byte> bytes(static_cast<std::size_t>(range.bytes()));
  if (bytes.size() == found->second.size) {
    LOCKSTEP_TRY(reader.read(stored.name, bytes));
  } else {
    const auto width = static_cast<std::int64_t>(sizeOf(stored.dtype));
    const std::int64_t begin = (range.begin - piece.begin) * width;
    LOCKSTEP_TRY(reader.readRange(stored.name, static_cast<std::size_t>(begin), bytes));
  }
  return bytes;
}

void Reading::put(const HeldPiece& held, const Piece& piece,
                  std::span<const std::byte> bytes) const {
  std::byte* const to = state_.arena.data() + held.offset;
  if (!isOtherResidual(held)) {
    plan::copyCommon(piece, bytes.data(), held.piece, to);
    return;
  }
  const std::span sum(to, static_cast<std::size_t>(held.slot->type.bytes()));
  (held.slot->type.dtype == DType::kF64 ? addTo<double> : addTo<float>)(bytes, piece.begin, sum);
}

Status Reading::readOwn(std::int64_t& part) const {
  for (const auto& [tensor, all] : held_) {
    const Pieces anywhere = visible(tensor, -1);
    for (const auto& [rank, held] : all) {
      if (rank != state_.rank) continue;
      for (const std::size_t i : sourcesOf(held, rank, anywhere)) {
        const Pieces& stored = stored_.at(tensor);
        if (!isHeldBy(rank, stored.files[i])) continue;
        part = numberOf(stored.files[i]);
        const Piece range = rangeOf(stored.files[i], stored.pieces[i], held);
        LOCKSTEP_ASSIGN(const auto bytes, read(stored.files[i], stored.pieces[i], range));
        put(held, range, bytes);
      }
    }
  }
  return {};
}

// The stored pieces of a tensor that some ranks lack are sent to these.
Result<Standing> Reading::receive(const std::string& tensor) const {
  const Pieces anywhere = visible(tensor, -1);
  std::map<std::size_t, std::vector<const std::pair<int, HeldPiece>*>> lacking;
  for (const auto& one : held_.at(tensor))
    for (const std::size_t i : sourcesOf(one.second, one.first, anywhere))
      if (!isHeldBy(one.first, stored_.at(tensor).files[i])) lacking[i].push_back(&one);
  for (const auto& [i, all] : lacking) {
    const Piece& piece = stored_.at(tensor).pieces[i];
    const std::string& file = stored_.at(tensor).files[i];
    const int from = *holders(file).begin();
    std::set<int> to;
    for (const auto* one : all) to.insert(one->first);
    const Multicast multicast(state_.plan.mesh, from, to);
    std::vector<std::byte> bytes;
    LOCKSTEP_ASSIGN(Together done,
                    doTogether(state_.groups, state_.rank, "reading " + known_.folder,
                               [&](std::int64_t& part) -> Status {
                                 part = numberOf(file);
                                 if (state_.rank == from) {
                                   LOCKSTEP_ASSIGN(bytes, read(file, piece, piece));
                                 } else if (multicast.reaches(state_.rank)) {
                                   bytes.resize(static_cast<std::size_t>(piece.bytes()));
                                 }
                                 return {};
                               }));
    if (done.all.failed != Standing::kNone) return done.all;
    LOCKSTEP_TRY(multicast.send(state_.groups, state_.rank, bytes.data(), piece.bytes()));
    for (const auto* one : all)
      if (one->first == state_.rank) put(one->second, piece, bytes);
  }
  return Standing();
}

Result<Standing> Reading::fill() const {
  for (const plan::StateSlot& slot : state_.plan.state)
    if (!wanted_.weightsOnly && state_.plan.stageOf(state_.rank) == slot.stage)
      std::memset(state_.arena.data() + slot.offset, 0,
                  static_cast<std::size_t>(slot.type.bytes()));
  LOCKSTEP_ASSIGN(Together own, doTogether(state_.groups, state_.rank, "reading " + known_.folder,
                                           [&](std::int64_t& part) { return readOwn(part); }));
  if (own.all.failed != Standing::kNone) return own.all;
  for (const auto& [tensor, held] : held_) {
    LOCKSTEP_ASSIGN(const Standing received, receive(tensor));
    if (received.failed != Standing::kNone) return received;
  }
  return Standing();
}

// Collective. Returns the error, with the first element, if one is not finite.
Status checkFinite(Error error, const RankState& state) {
  std::optional<Found> mine;
  for (const HeldPiece& held : plan::piecesHeldBy(state.plan, state.rank)) {
    const std::span bytes(state.arena.data() + held.offset,
                          static_cast<std::size_t>(held.piece.bytes()));
    const std::int64_t at = firstNonFinite(bytes, held.piece.tensor.dtype);
    if (at < 0) continue;
    mine = Found{
        0,
        {held.number, fmt::format("{} {}", plan::elementInWhole(held.piece, held.piece.begin + at),
                                  stateTensorText(*held.slot, held.member->name))}};
    break;
  }
  LOCKSTEP_ASSIGN(const FoundMessage first, firstFound(messageOf(state.rank, mine), state.groups));
  if (first.step == kNotFound) return {};
  const std::string_view found = first.text.data();  // the element and its tensor
  const std::size_t space = found.find(' ');
  error.why = message("the {} is not finite from element {} on", found.substr(space + 1),
                      found.substr(0, space));
  return error;
}

Error divergedCheckpoint(const std::string& folder) {
  Error error = invalidArgument("the checkpoint {} comes from training that diverged", folder);
  error.next =
      "resume from an earlier checkpoint with a lower training.optimizer.learning_rate, or set "
      "training.on_nonfinite=continue to use this one anyway";
  return error;
}

Error nonFiniteWeights(const std::string& source) {
  Error error = invalidArgument("the weights in {} cannot be trained on", source);
  error.next =
      "name other weights in model.init_from, or set training.on_nonfinite=continue to start from "
      "these anyway";
  return error;
}

struct Loaded {
  std::string folder;
  Metadata metadata;
  Mismatch mismatch;  // of weights
};

// Collective. Reads a checkpoint into the state of all ranks.
Result<Loaded> readOne(Inventory& inventory, const CheckpointKey& key, const Wanted& wanted,
                       const RankState& state) {
  const KnownCheckpoint& known = inventory.known().at(key);
  LOCKSTEP_ASSIGN(const Manifest manifest, inventory.manifestOf(key, state));
  const Reading reading(state, manifest, known, inventory.seen(key), wanted);
  LOCKSTEP_TRY(reading.checkFits());
  std::optional<Error> damage;
  for (;;) {  // another rank may have an intact copy of a damaged file
    const Status complete = reading.checkComplete();
    if (!complete.ok()) return damage ? *damage : complete.error();
    LOCKSTEP_ASSIGN(const Standing standing, reading.fill());
    if (standing.failed == Standing::kNone) {
      Loaded out{known.folder, manifest.metadata, {}};
      if (wanted.weightsOnly) out.mismatch = reading.mismatch();
      return out;
    }
    Error error = makeError(static_cast<Code>(standing.code), "{}", standing.text.data());
    if (error.code != Code::kDataLoss) return error;
    inventory.strike(key, reading.files()[static_cast<std::size_t>(standing.item)],
                     static_cast<int>(standing.failed));
    if (!damage) damage = std::move(error);
  }
}

void warnOf(const ReadOptions& options, const std::vector<std::pair<std::int64_t, Error>>& unusable,
            const std::string& taken) {
  for (const auto& [step, bad] : unusable) {
    Error warning = makeError(
        Code::kDataLoss, "the checkpoint {} cannot be used; training continues from {}",
        fmt::format("{}{:09}", kCheckpointPrefix, step), fs::path(taken).filename().string());
    warning.why = bad.why.empty() ? bad.what : message("{}: {}", bad.what, bad.why);
    options.warn(warning);
  }
}

// Errors after which an older checkpoint must not be used instead: it would only lose steps.
bool isRefusal(const Error& error) {
  return error.code == Code::kResourceExhausted || error.code == Code::kPermissionDenied;
}

// Collective. Reads the newest complete checkpoint that fits the plan.
Result<Loaded> readNewest(const std::string& path, const ReadOptions& options, const Wanted& wanted,
                          const RankState& state) {
  LOCKSTEP_ASSIGN(Inventory inventory, Inventory::make(path, state));
  std::map<std::int64_t, std::vector<CheckpointKey>, std::greater<>> steps;
  for (const auto& [step, errors] : inventory.problems()) steps[step];
  for (const auto& [key, known] : inventory.known()) steps[key.first].push_back(key);
  const bool warns = state.rank == 0 && options.warn != nullptr;
  std::vector<std::pair<std::int64_t, Error>> unusable;
  for (const auto& [step, keys] : steps) {
    const auto problems = inventory.problems().find(step);
    std::optional<Error> why;
    if (problems != inventory.problems().end()) {
      for (const Error& problem : problems->second)
        if (isRefusal(problem)) return problem;
      why = problems->second.front();
    }
    for (const CheckpointKey& key : keys) {
      auto loaded = readOne(inventory, key, wanted, state);
      if (loaded.ok()) {
        if (warns) warnOf(options, unusable, loaded->folder);
        const SeenCheckpoint* const seen = inventory.seen(key);
        if (warns && seen != nullptr && key.second.empty() &&
            !seen->files.begin()->second->hasChecksums()) {
          Error warning =
              makeError(Code::kDataLoss,
                        "the checkpoint {} has no checksums, so damage to it would go unnoticed",
                        loaded->folder);
          warning.why = "it was written by an earlier version";
          options.warn(warning);
        }
        return loaded;
      }
      const Code code = loaded.error().code;
      if (code != Code::kDataLoss && code != Code::kInvalidArgument) return loaded.error();
      if (!why) why = loaded.error();
    }
    unusable.emplace_back(step, *why);
  }
  if (unusable.empty()) {
    const auto none = newestCheckpoint(path);
    return none.ok() ? makeError(Code::kNotFound, "there is no checkpoint in {}", path)
                     : none.error();
  }
  Error error = unusable.front().second;
  if (error.code == Code::kDataLoss || error.code == Code::kNotFound)
    error.next =
        unusable.size() > 1
            ? message("none of the {} checkpoints there can be used: start over", unusable.size())
            : "resume from another checkpoint, or start over";
  return error;
}

// Checks that a run with this seed and batch can continue from the checkpoint.
Result<Progress> progressFrom(const Loaded& loaded, const ReadOptions& options,
                              const RankState& state) {
  if (options.nonFinite == NonFinite::kRefused)
    LOCKSTEP_TRY(checkFinite(divergedCheckpoint(loaded.folder), state));
  // Steps count batches: with another batch they would point elsewhere in the data.
  LOCKSTEP_ASSIGN(const std::int64_t batch, integerOf(loaded.metadata, "batch"));
  if (batch != state.plan.globalBatch) {
    Error error = invalidArgument("the checkpoint was made with batch {}, this run has {}", batch,
                                  state.plan.globalBatch);
    error.next = message("resume with training.batch={}", batch);
    return error;
  }
  LOCKSTEP_ASSIGN(const Progress progress, progressOf(loaded.metadata));
  if (progress.seed != options.seed)
    return invalidArgument("the checkpoint was made with seed {}, this run has {}", progress.seed,
                           options.seed);
  return progress;
}

// Collective. Each rank reads what it holds of a file that all can read.
Status readWeightsFile(const InitFrom& from, const RankState& state, Mismatch& mismatch) {
  std::optional<WeightsFile> file;
  const auto open = [&](std::int64_t&) -> Status {
    LOCKSTEP_ASSIGN(file,
                    WeightsFile::open(from.file, from.names, weightsOf(state.plan), from.partial));
    return {};
  };
  LOCKSTEP_ASSIGN(const Together opened,
                  doTogether(state.groups, state.rank, "reading " + from.file, open));
  LOCKSTEP_TRY(opened.result());
  KnownCheckpoint known{from.file, {}, {}};
  for (const auto& [name, pieces] : file->manifest().contents)
    for (int rank = 0; rank < state.plan.mesh.size(); ++rank) known.holders[name].insert(rank);
  const Reading reading(state, file->manifest(), known, nullptr, {true, true}, &*file);
  LOCKSTEP_ASSIGN(const Standing standing, reading.fill());
  if (standing.failed != Standing::kNone)
    return makeError(static_cast<Code>(standing.code), "{}", standing.text.data());
  mismatch = file->mismatch();
  return {};
}

// Where one was asked for with `partial`.
void warnOfRest(const std::string& source, const Mismatch& rest, const ReadOptions& options,
                const RankState& state) {
  if (state.rank != 0 || !options.warn || rest.fits()) return;
  Error warning =
      makeError(Code::kInvalidArgument, "training starts from a part of the weights in {}", source);
  warning.why = rest.text();
  options.warn(warning);
}

}  // namespace

Result<Progress> readCheckpoint(const std::string& checkpoint, const ReadOptions& options,
                                const RankState& state) {
  auto progress = [&]() -> Result<Progress> {
    LOCKSTEP_ASSIGN(const Loaded loaded, readNewest(checkpoint, options, {}, state));
    return progressFrom(loaded, options, state);
  }();
  if (progress.ok() || state.rank == 0) return progress;
  const Code code = progress.error().code;  // rank 0 says what all ranks found
  if (code == Code::kAborted || code == Code::kDeadlineExceeded) return progress;
  return makeError(Code::kAborted, "rank 0 could not read the checkpoint");
}

Status readWeights(const InitFrom& from, const ReadOptions& options, const RankState& state) {
  std::string source = from.file;
  Mismatch mismatch;
  if (!from.file.empty()) {
    LOCKSTEP_TRY(readWeightsFile(from, state, mismatch));
  } else {
    LOCKSTEP_ASSIGN(const Loaded loaded,
                    readNewest(from.checkpoint, options, {true, from.partial}, state));
    source = loaded.folder;
    mismatch = loaded.mismatch;
  }
  if (options.nonFinite == NonFinite::kRefused)
    LOCKSTEP_TRY(checkFinite(nonFiniteWeights(source), state));
  warnOfRest(source, mismatch, options, state);
  return {};
}

Status readModel(const std::string& checkpoint, const RankState& state) {
  return readNewest(checkpoint, {}, {}, state).status();
}

}  // namespace lockstep::runtime
