#include "engine/data/bpe.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#include <utility>

#include "engine/base/file.h"
#include "engine/base/utf8.h"
#include "engine/data/content.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kLargestFile = std::size_t{256} << 20;
constexpr std::size_t kWordsKept = std::size_t{1} << 20;
constexpr std::size_t kLongestKept = 64;                     // bytes
constexpr std::int64_t kMostTokens = std::int64_t{1} << 22;  // a string is kept for each

// What a word is, but for white space, which depends on what follows it. Unicode's White_Space,
// since RE2's \s is ASCII's.
#define LOCKSTEP_SPACES                                                                       \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"
const RE2& wordPattern() {
  static const RE2 out("('(?:s|t|re|ve|m|ll|d)| ?\\p{L}+| ?\\p{N}+| ?[^" LOCKSTEP_SPACES
                       "\\p{L}\\p{N}]+)");
  return out;
}
const RE2& spacesPattern() {
  static const RE2 out("([" LOCKSTEP_SPACES "]+)");
  return out;
}
#undef LOCKSTEP_SPACES

// The letter that stands for each byte in the files: printable Latin-1 for itself, others from
// U+0100 on.
std::array<std::uint32_t, 256> lettersOfBytes() {
  std::array<std::uint32_t, 256> out{};
  std::uint32_t next = 256;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
    out[byte] = itself ? byte : next++;
  }
  return out;
}

// The bytes that the letters of a token stand for; nullopt if one stands for none.
std::optional<std::string> bytesOf(std::string_view token) {
  static const auto kByteOf = [] {
    std::array<int, 512> out{};
    out.fill(-1);
    const auto letters = lettersOfBytes();
    for (std::size_t byte = 0; byte < letters.size(); ++byte)
      out[letters[byte]] = static_cast<int>(byte);
    return out;
  }();
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::uint32_t letter = static_cast<unsigned char>(token[i]);
    if (letter >= 0x80) {
      if (letter < 0xc0 || letter >= 0xe0 || i + 1 == token.size()) return std::nullopt;
      letter = (letter & 0x1f) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3f);
    }
    if (letter >= kByteOf.size() || kByteOf[letter] < 0) return std::nullopt;
    out += static_cast<char>(kByteOf[letter]);
  }
  return out;
}

std::uint64_t pairOf(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Length in bytes of the last letter of a text.
std::size_t lastLetter(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() &&
         (static_cast<unsigned char>(text[text.size() - size]) & 0xc0) == 0x80)
    ++size;
  return size;
}

}  // namespace

struct BytePairEncoder::State {
  struct Merge {
    std::int32_t rank = 0, token = 0;
  };
  std::unordered_map<std::string, std::int32_t> idOfText;  // as in the file
  std::vector<std::string> bytes;                          // by id
  std::array<std::int32_t, 256> idOfByte{};
  std::unordered_map<std::uint64_t, Merge> merges;
  std::unordered_map<std::string, std::vector<std::int32_t>> words;

  Status takeVocabulary(const std::string& path);
  Status takeMerges(const std::string& path);
  std::vector<std::int32_t> merged(std::string_view word) const;
  void encodeWord(std::string_view word, std::vector<std::int32_t>& out);
};

Status BytePairEncoder::State::takeVocabulary(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, readFile(path, kLargestFile));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.empty())
    return dataLoss(path, "it is not a JSON object of tokens and their ids");
  std::int64_t most = -1;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= kMostTokens)
      return dataLoss(path,
                      message("the id of token {} is {}; expected a number from 0 to {}", token,
                              id.is_primitive() ? id.dump() : id.type_name(), kMostTokens - 1));
    most = std::max(most, id.get<std::int64_t>());
  }
  bytes.resize(static_cast<std::size_t>(most + 1));
  for (const auto& [token, id] : json.items()) {
    const auto number = id.get<std::int32_t>();
    idOfText.emplace(token, number);
    // A special token stands for its own text.
    bytes[static_cast<std::size_t>(number)] = bytesOf(token).value_or(token);
  }
  std::array<bool, 256> known{};
  for (const auto& [token, id] : idOfText)
    if (const auto one = bytesOf(token); one && one->size() == 1) {
      const auto byte = static_cast<unsigned char>(one->front());
      known[byte] = true;
      idOfByte[byte] = id;
    }
  for (std::size_t byte = 0; byte < known.size(); ++byte)
    if (!known[byte]) return dataLoss(path, message("it has no token for the byte {}", byte));
  return {};
}

Status BytePairEncoder::State::takeMerges(const std::string& path) {
  LOCKSTEP_ASSIGN(const std::string text, readFile(path, kLargestFile));
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const std::size_t space = line.find(' ');
    const std::string left(line.substr(0, space)),
        right(space == std::string_view::npos ? "" : line.substr(space + 1));
    if (left.empty() || right.empty() || right.find(' ') != std::string::npos)
      return dataLoss(path, message("line {} is not two tokens with a space between them", number));
    const auto first = idOfText.find(left), second = idOfText.find(right),
               both = idOfText.find(left + right);
    for (const auto& [found, name] :
         {std::pair(first, left), std::pair(second, right), std::pair(both, left + right)})
      if (found == idOfText.end())
        return dataLoss(path, message("line {}: the vocabulary has no token {}", number, name));
    merges.emplace(pairOf(first->second, second->second),
                   Merge{static_cast<std::int32_t>(merges.size()), both->second});
  }
  return {};
}

// The pair that was learnt first is merged first; of equal ones the leftmost.
std::vector<std::int32_t> BytePairEncoder::State::merged(std::string_view word) const {
  struct Candidate {
    std::int32_t rank;
    int left, right;         // places
    std::int32_t tokens[2];  // of those places when it was found
    bool operator>(const Candidate& other) const {
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };
  const int count = static_cast<int>(word.size());
  std::vector<std::int32_t> tokens;
  std::vector<int> before, after;  // neighbours
  for (int i = 0; i < count; ++i) {
    tokens.push_back(idOfByte[static_cast<unsigned char>(word[static_cast<std::size_t>(i)])]);
    before.push_back(i - 1);
    after.push_back(i + 1);
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto look = [&](int left) {
    if (left < 0 || after[static_cast<std::size_t>(left)] >= count) return;
    const int right = after[static_cast<std::size_t>(left)];
    const std::int32_t a = tokens[static_cast<std::size_t>(left)],
                       b = tokens[static_cast<std::size_t>(right)];
    if (const auto found = merges.find(pairOf(a, b)); found != merges.end())
      queue.push({found->second.rank, left, right, {a, b}});
  };
  for (int i = 0; i + 1 < count; ++i) look(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const auto left = static_cast<std::size_t>(best.left),
               right = static_cast<std::size_t>(best.right);
    if (tokens[left] != best.tokens[0] || tokens[right] != best.tokens[1] ||
        after[left] != best.right)
      continue;
    tokens[left] = merges.at(pairOf(best.tokens[0], best.tokens[1])).token;
    tokens[right] = -1;
    after[left] = after[right];
    if (after[left] < count) before[static_cast<std::size_t>(after[left])] = best.left;
    look(before[left]);
    look(best.left);
  }
  std::erase(tokens, -1);
  return tokens;
}

void BytePairEncoder::State::encodeWord(std::string_view word, std::vector<std::int32_t>& out) {
  const std::string key(word);
  auto known = words.find(key);
  if (known == words.end()) {
    std::vector<std::int32_t> tokens = merged(word);
    if (word.size() > kLongestKept) {
      out.insert(out.end(), tokens.begin(), tokens.end());
      return;
    }
    if (words.size() >= kWordsKept) words.clear();
    known = words.emplace(key, std::move(tokens)).first;
  }
  out.insert(out.end(), known->second.begin(), known->second.end());
}

BytePairEncoder::BytePairEncoder(std::unique_ptr<State> state) : state_(std::move(state)) {}
BytePairEncoder::BytePairEncoder(BytePairEncoder&&) noexcept = default;
BytePairEncoder& BytePairEncoder::operator=(BytePairEncoder&&) noexcept = default;
BytePairEncoder::~BytePairEncoder() = default;

Result<BytePairEncoder> BytePairEncoder::open(const std::string& vocabulary,
                                              const std::string& merges) {
  auto state = std::make_unique<State>();
  LOCKSTEP_TRY(state->takeVocabulary(vocabulary));
  LOCKSTEP_TRY(state->takeMerges(merges));
  return BytePairEncoder(std::move(state));
}

std::int32_t BytePairEncoder::size() const {
  return static_cast<std::int32_t>(state_->bytes.size());
}

std::optional<std::int32_t> BytePairEncoder::find(const std::string& token) const {
  const auto found = state_->idOfText.find(token);
  return found == state_->idOfText.end() ? std::nullopt : std::optional(found->second);
}

void BytePairEncoder::encode(std::string_view text, std::vector<std::int32_t>& out) {
  re2::StringPiece rest(text.data(), text.size());
  while (!rest.empty()) {
    re2::StringPiece word;
    if (RE2::Consume(&rest, wordPattern(), &word)) {
      state_->encodeWord({word.data(), word.size()}, out);
      continue;
    }
    re2::StringPiece spaces;
    if (!RE2::Consume(&rest, spacesPattern(), &spaces)) {  // not UTF-8
      state_->encodeWord({rest.data(), 1}, out);
      rest.remove_prefix(1);
      continue;
    }
    // The last space belongs to the word that follows, which begins with it if it is U+0020.
    std::string_view run(spaces.data(), spaces.size());
    const std::size_t last = lastLetter(run);
    if (!rest.empty() && run.size() > last) {
      state_->encodeWord(run.substr(0, run.size() - last), out);
      run.remove_prefix(run.size() - last);
      rest = {run.data(), static_cast<std::size_t>(text.data() + text.size() - run.data())};
      continue;
    }
    state_->encodeWord(run, out);
  }
}

std::string BytePairEncoder::decode(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const std::int32_t token : tokens)
    if (token >= 0 && token < size()) out += state_->bytes[static_cast<std::size_t>(token)];
  return out;
}

std::size_t BytePairEncoder::safeEnd(std::string_view text) {
  const auto isAsciiSpace = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  for (std::size_t at = text.size(); at-- > 1;) {
    if (!isAsciiSpace(text[at])) continue;
    const std::string_view before = text.substr(0, at);
    const std::string_view letter = before.substr(at - lastLetter(before));
    if (!RE2::FullMatch(re2::StringPiece(letter.data(), letter.size()), spacesPattern())) return at;
  }
  return 0;
}

}  // namespace lockstep::data
