// lockstep generate: a text that goes on as a trained model has it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/model_source.h"
#include "app/cli/terminal.h"
#include "app/runs/forward.h"
#include "engine/base/random.h"
#include "engine/base/utf8.h"
#include "engine/data/bpe.h"
#include "engine/specs/field.h"
#include "engine/specs/options.h"
#include "engine/specs/specs.h"

namespace lockstep::app::cli {
namespace {

// The tokens of a model: bytes, or those of a byte-pair vocabulary.
class Tokens {
 public:
  static Result<Tokens> open(const spec::v1::RunSpec& spec, const Arguments& arguments) {
    const std::string vocabulary = arguments.text("vocabulary", "");
    const std::string merges = arguments.text("merges", "");
    if (vocabulary.empty() != merges.empty())
      return invalidArgument("--{} is missing; expected both files of a vocabulary",
                             vocabulary.empty() ? "vocabulary" : "merges");
    Tokens out;
    if (vocabulary.empty()) {
      if (spec.data().format() != "tokens") return out;
      Error error = invalidArgument("the model has tokens of a vocabulary, which is not given");
      error.next = "add --vocabulary vocab.json --merges merges.txt";
      return error;
    }
    LOCKSTEP_ASSIGN(auto encoder, data::BytePairEncoder::open(vocabulary, merges));
    out.encoder_.emplace(std::move(encoder));
    if (out.size() > spec.model().input().vocabulary())
      return invalidArgument("{} has {} tokens; the model has {}", vocabulary, out.size(),
                             spec.model().input().vocabulary());
    return out;
  }
  std::int64_t size() const { return encoder_ ? encoder_->size() : 256; }
  std::optional<std::int32_t> find(const std::string& token) const {
    return encoder_ ? encoder_->find(token) : std::nullopt;
  }
  Result<std::vector<std::int32_t>> encode(const std::string& text) {
    std::vector<std::int32_t> out;
    if (!encoder_) {
      for (const char byte : text) out.push_back(static_cast<unsigned char>(byte));
      return out;
    }
    if (const std::size_t at = firstNotUtf8(text); at != std::string::npos)
      return invalidArgument("--prompt: byte {} is not UTF-8", at);
    encoder_->encode(text, out);
    return out;
  }
  std::string decode(std::int32_t token) const {
    if (!encoder_) return std::string(1, static_cast<char>(token));
    return encoder_->decode(std::span(&token, 1));
  }

 private:
  std::optional<data::BytePairEncoder> encoder_;
};

struct Sampling {
  double temperature = 1;
  std::int64_t topK = 0;  // 0: all
  double topP = 1;
  std::uint64_t seed = 1;
};

struct Choice {
  std::int32_t token = 0;
  double logProbability = 0;  // by the model among all tokens, whatever the sampling
};

// Chooses the `position`-th token that is generated. A token of equal logit and lower id goes
// first.
Choice choose(const std::vector<double>& logits, const Sampling& sampling, std::int64_t position) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return at(a) > at(b); });
  const double most = at(order.front());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - most);
  const auto chosen = [&](std::int32_t token) {
    return Choice{token, at(token) - most - std::log(sum)};
  };
  if (sampling.temperature == 0) return chosen(order.front());
  if (sampling.topK > 0 && sampling.topK < std::ssize(order))
    order.resize(static_cast<std::size_t>(sampling.topK));
  std::vector<double> upTo;  // sums of the weights
  for (const std::int32_t token : order)
    upTo.push_back((upTo.empty() ? 0 : upTo.back()) +
                   std::exp((at(token) - most) / sampling.temperature));
  // The fewest that have together the probability top-p.
  const auto nucleus = std::lower_bound(upTo.begin(), upTo.end(), sampling.topP * upTo.back());
  if (nucleus != upTo.end()) upTo.erase(nucleus + 1, upTo.end());
  constexpr std::uint64_t kStream = 0x67656e6572617465;  // "generate"
  const double drawn = upTo.back() * randomUniform(randomKey(sampling.seed, kStream),
                                                   static_cast<std::uint64_t>(position));
  const auto found = std::upper_bound(upTo.begin(), upTo.end(), drawn);
  const auto index = std::min(found - upTo.begin(), std::ssize(upTo) - 1);
  return chosen(order[static_cast<std::size_t>(index)]);
}

// Prints a text as it comes, no character in parts.
class Stream {
 public:
  void add(std::string_view bytes) {
    pending_ += bytes;
    const std::size_t end = whole(pending_);
    put(stdout, pending_.substr(0, end));
    pending_.erase(0, end);
  }
  void finish() { put(stdout, pending_ + "\n"); }

 private:
  // Returns how many bytes do not end amid a character that could go on.
  static std::size_t whole(std::string_view text) {
    for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
      const auto byte = static_cast<unsigned char>(text[text.size() - back]);
      if ((byte & 0xc0) == 0x80) continue;  // goes on
      const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
      return length > back ? text.size() - back : text.size();
    }
    return text.size();
  }
  std::string pending_;
};

struct Question {
  ModelSource model;
  std::string names;
  std::string prompt;
  std::int64_t count = 0;  // of tokens to be generated
  Sampling sampling;
};

Status checkModel(const spec::v1::RunSpec& spec) {
  if (spec.model().input().vocabulary() == 0) {
    Error error = invalidArgument("the model takes no text");
    error.next = "lockstep predict";
    return error;
  }
  LOCKSTEP_ASSIGN(const models::Model model, specs::toModel(spec.model()));
  for (const models::Layer& layer : model.layers)
    if (layer.kind == models::Layer::Kind::kTransformer && !layer.causal)
      return invalidArgument(
          "tokens of layer {} attend to later ones: the model does not predict the next token",
          layer.name);
  return {};
}

Result<Question> questionOf(const Globals& globals, const Arguments& arguments) {
  Question out;
  out.names = arguments.text("names", "lockstep");
  LOCKSTEP_TRY(
      specs::checkKind("--names", out.names, specs::valuesOf<spec::v1::InitSpec>("names")));
  out.prompt = arguments.text("prompt", "");
  if (out.prompt.empty())
    return invalidArgument("--prompt is missing; expected the beginning of the text");
  LOCKSTEP_ASSIGN(out.count, arguments.integer("tokens", 100, 1, 1'000'000));
  LOCKSTEP_ASSIGN(out.sampling.temperature, arguments.number("temperature", 1, 0, 1000));
  LOCKSTEP_ASSIGN(out.sampling.topK, arguments.integer("top-k", 0, 1, 1 << 30));
  LOCKSTEP_ASSIGN(out.sampling.topP, arguments.number("top-p", 1, 0, 1));
  LOCKSTEP_ASSIGN(const std::int64_t seed, arguments.integer("seed", 1, 0, INT64_MAX));
  out.sampling.seed = static_cast<std::uint64_t>(seed);
  LOCKSTEP_ASSIGN(out.model, modelWithSpec(globals, arguments));
  LOCKSTEP_TRY(checkModel(*out.model.spec));
  return out;
}

struct Generated {
  std::string text;
  std::int64_t tokens = 0;
  double logProbability = 0;  // mean of the tokens
};

// Runs the model for each token on all that it sees: the last tokens, as many as its input has.
// Later tokens change nothing at earlier ones, so that a shorter text is padded at its end.
Result<Generated> generate(const Question& question, const Arguments& arguments) {
  const spec::v1::RunSpec& spec = *question.model.spec;
  LOCKSTEP_ASSIGN(Tokens tokens, Tokens::open(spec, arguments));
  LOCKSTEP_ASSIGN(std::vector<std::int32_t> text, tokens.encode(question.prompt));
  std::optional<std::int32_t> end;
  if (const std::string token = arguments.text("end-of-text", ""); !token.empty()) {
    end = tokens.find(token);
    if (!end) return invalidArgument("--end-of-text: the vocabulary has no token {}", token);
  }
  LOCKSTEP_ASSIGN(const auto model,
                  Forward::start(spec, {question.model.path, question.names}, 1, isInterrupted));
  const bool json = arguments.has("json");
  const std::int64_t window = spec.model().input().shape(0);
  Generated out;
  Stream stream;
  for (; out.tokens < question.count; ++out.tokens) {
    const std::int64_t seen = std::min(window, std::ssize(text));
    const std::span<std::byte> input = model->input("x");
    std::memset(input.data(), 0, input.size());
    std::memcpy(input.data(), text.data() + (std::ssize(text) - seen),
                static_cast<std::size_t>(seen) * sizeof(std::int32_t));
    if (Status ran = model->run(); !ran.ok()) {
      if (!json) stream.finish();
      return ran.error();
    }
    std::vector<double> logits = model->row(seen - 1);
    logits.resize(std::min(logits.size(), static_cast<std::size_t>(tokens.size())));
    if (std::any_of(logits.begin(), logits.end(), [](double one) { return !std::isfinite(one); }))
      return makeError(Code::kFailedPrecondition,
                       "the model's output is not finite after {} tokens", std::ssize(text));
    const Choice next = choose(logits, question.sampling, out.tokens);
    if (next.token == end) break;
    text.push_back(next.token);
    const std::string piece = tokens.decode(next.token);
    out.text += piece;
    out.logProbability += next.logProbability;
    if (json)
      JsonLine("token")
          .add("id", next.token)
          .add("text", piece)
          .add("log_probability", next.logProbability)
          .print();
    else
      stream.add(piece);
  }
  if (!json) stream.finish();
  if (out.tokens > 0) out.logProbability /= static_cast<double>(out.tokens);
  return out;
}

}  // namespace

int generateCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto done = [&]() -> Result<Generated> {
    LOCKSTEP_ASSIGN(const Question question, questionOf(globals, arguments));
    return generate(question, arguments);
  }();
  if (!done.ok()) {
    report(done.error(), json);
    return exitCodeOf(done.error());
  }
  if (json)
    JsonLine("generated")
        .add("text", done->text)
        .add("tokens", done->tokens)
        .add("log_probability", done->logProbability)
        .print();
  return kSucceeded;
}

}  // namespace lockstep::app::cli
