// Byte-level byte-pair encoding, as GPT-2's: text to tokens and back. Radford et al.: "Language
// models are unsupervised multitask learners", 2019; the files are those of
// https://github.com/openai/gpt-2 (encoder.json, vocab.bpe), which Hugging Face calls vocab.json
// and merges.txt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace lockstep::data {

// Threads: encode() keeps the words it has met, so one at a time; decode() and the rest may happen
// on several.
class BytePairEncoder {
 public:
  // `vocabulary`: a JSON object, token → id; `merges`: a pair a line, the first ones first. Errors
  // name the file and, of merges, the line: kNotFound; kDataLoss, also for a vocabulary that lacks
  // a byte or what a merge makes.
  static Result<BytePairEncoder> open(const std::string& vocabulary, const std::string& merges);
  BytePairEncoder(BytePairEncoder&&) noexcept;
  BytePairEncoder& operator=(BytePairEncoder&&) noexcept;
  ~BytePairEncoder();

  std::int32_t size() const;  // the highest id plus 1: what model.input.vocabulary has at least
  // Returns the id of a token of the vocabulary as it stands in the file: "<|endoftext|>".
  std::optional<std::int32_t> find(const std::string& token) const;
  // Appends the tokens of a text, which is UTF-8 and a whole one, or ends at a safeEnd(). Words for
  // special tokens, as
  // "<|endoftext|>", are taken as text.
  void encode(std::string_view text, std::vector<std::int32_t>& out);
  // Ids that are not in the vocabulary are left out.
  std::string decode(std::span<const std::int32_t> tokens) const;

  // Returns where a text that goes on can be divided: tokens before do not depend on what follows.
  // 0: nowhere.
  static std::size_t safeEnd(std::string_view text);

 private:
  struct State;
  explicit BytePairEncoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::data
