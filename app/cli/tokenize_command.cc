// tokenize: texts to a file of tokens.
#include <filesystem>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "engine/base/utf8.h"
#include "engine/data/bpe.h"
#include "engine/data/content.h"
#include "engine/data/token_writer.h"

namespace lockstep::app::cli {
namespace {

constexpr std::size_t kAtOnce = std::size_t{1} << 22;        // bytes of text
constexpr std::size_t kLongestRun = std::size_t{256} << 20;  // without a space

// A text that comes in pieces.
class Tokenizer {
 public:
  Tokenizer(data::BytePairEncoder& encoder, data::TokenWriter& writer)
      : encoder_(encoder), writer_(writer) {}

  Status add(std::string_view bytes) {
    text_ += bytes;
    if (text_.size() < kAtOnce) return {};
    const std::size_t end = data::BytePairEncoder::safeEnd(text_);
    if (end > 0) return take(end);
    if (text_.size() < kLongestRun) return {};
    return makeError(Code::kDataLoss, "{} MiB of it are without a space", text_.size() >> 20);
  }
  Status finish() { return take(text_.size()); }

 private:
  Status take(std::size_t end) {
    const std::string_view text = std::string_view(text_).substr(0, end);
    if (const std::size_t at = firstNotUtf8(text); at != std::string_view::npos) {
      Error error = makeError(Code::kDataLoss, "byte {} of it is not UTF-8",
                              done_ + static_cast<std::int64_t>(at));
      error.next = "convert it, as with iconv -t UTF-8";
      return error;
    }
    tokens_.clear();
    encoder_.encode(text, tokens_);
    done_ += static_cast<std::int64_t>(end);
    text_.erase(0, end);
    return writer_.add(tokens_);
  }

  data::BytePairEncoder& encoder_;
  data::TokenWriter& writer_;
  std::string text_;
  std::int64_t done_ = 0;
  std::vector<std::int32_t> tokens_;
};

struct Done {
  std::int64_t tokens = 0, bytes = 0;
  int bytesPerToken = 0;
};

Result<Done> tokenize(const Arguments& arguments) {
  for (const char* flag : {"vocabulary", "merges", "to"})
    if (arguments.text(flag, "").empty())
      return invalidArgument("--{} is missing; expected a file", flag);
  LOCKSTEP_ASSIGN(auto encoder, data::BytePairEncoder::open(arguments.text("vocabulary", ""),
                                                            arguments.text("merges", "")));
  std::vector<std::int32_t> end;
  if (const std::string token = arguments.text("end-of-text", ""); !token.empty()) {
    const auto found = encoder.find(token);
    if (!found) return invalidArgument("the vocabulary has no token {}", token);
    end.push_back(*found);
  }
  std::vector<std::string> read = arguments.words();
  read.insert(read.end(), {arguments.text("vocabulary"), arguments.text("merges")});
  for (const std::string& file : read)
    if (std::error_code none; std::filesystem::equivalent(file, arguments.text("to", ""), none))
      return invalidArgument("--to is {}, which would be replaced", file);
  constexpr std::int32_t kTwoBytesHold = 1 << 16;
  Done out;
  out.bytesPerToken = encoder.size() <= kTwoBytesHold ? 2 : 4;
  LOCKSTEP_ASSIGN(auto writer,
                  data::TokenWriter::open(arguments.text("to", ""), out.bytesPerToken));
  for (const std::string& file : arguments.words()) {
    Tokenizer tokenizer(encoder, writer);
    const auto add = [&](std::string_view bytes) -> Status {
      if (isInterrupted()) return makeError(Code::kCancelled, "tokenizing was cancelled");
      out.bytes += std::ssize(bytes);
      return tokenizer.add(bytes);
    };
    Status status = data::readContent(file, false, add).status();
    if (status.ok()) status = tokenizer.finish();
    if (!status.ok()) {
      if (status.error().code == Code::kDataLoss && status.error().why.empty()) {
        Error error = data::dataLoss(file, status.error().what);
        error.next = status.error().next;
        return error;
      }
      return status.error();
    }
    LOCKSTEP_TRY(writer.add(end));
  }
  LOCKSTEP_TRY(writer.finish());
  out.tokens = writer.count();
  return out;
}

}  // namespace

int tokenizeCommand(const Globals&, const Arguments& arguments) {
  watchInterrupts();
  const bool json = arguments.has("json");
  const auto done = tokenize(arguments);
  if (!done.ok()) {
    report(done.error(), json);
    return exitCodeOf(done.error());
  }
  const std::string to = arguments.text("to", "");
  if (json)
    JsonLine("tokenized")
        .add("file", to)
        .add("tokens", done->tokens)
        .add("bytes", done->bytes)
        .add("bytes_per_token", done->bytesPerToken)
        .print();
  else
    put(stdout, fmt::format("{} tokens of {} in {}\n", done->tokens,
                            bytesText(static_cast<double>(done->bytes)), to));
  return kSucceeded;
}

}  // namespace lockstep::app::cli
