// The two files of a tokenizer, and a text: an input is the vocabulary, the merges and the text,
// with a zero byte between them. Without a vocabulary, that of all bytes and some pairs is taken;
// then every text comes back as it was.
#include "engine/data/bpe.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

// The letter that stands for a byte in the files (bytes_to_unicode() of GPT-2).
std::string letterOf(int byte) {
  const auto isPlain = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); };
  int letter = byte;
  if (!isPlain(byte)) {
    letter = 256;
    for (int b = 0; b < byte; ++b) letter += isPlain(b) ? 0 : 1;
  }
  if (letter < 0x80) return {static_cast<char>(letter)};
  return {static_cast<char>(0xc0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3f))};
}

std::string vocabulary(const std::vector<std::string>& pairs) {
  std::string out;
  int id = 0;
  const auto add = [&](const std::string& token) {
    const std::string quoted = token == "\"" || token == "\\" ? "\\" + token : token;
    out += fmt::format("{}\"{}\": {}", out.empty() ? "{" : ", ", quoted, id++);
  };
  for (int byte = 0; byte < 256; ++byte) add(letterOf(byte));
  for (const std::string& pair : pairs) add(pair);
  return out + "}";
}

const std::string& usual() {
  static const std::string text =
      vocabulary({"th", "the", letterOf(' ') + "t", "aa", "aaaa", "<|endoftext|>"});
  return text;
}

std::string input(const std::string& vocabulary, const std::string& merges,
                  const std::string& text) {
  return vocabulary + '\0' + merges + '\0' + text;
}

}  // namespace

std::vector<std::string> seeds() {
  const std::string merges = "#version: 0.2\nt h\nth e\na a\naa aa\n" + letterOf(' ') + " t\n";
  return {
      input("", merges, "the cat  sat\n on <|endoftext|>the aaaaa's 12 \xe4\xb8\xad\xe6\x96\x87"),
      input("", merges, "\xff\xfe the \xc3"), input(vocabulary({"ab"}), "a b\r\n", "abab"),
      input("{\"a\": [[{}]]}", "", "")};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  std::string_view rest = fuzz::textOf(bytes, size);
  const std::string_view given = fuzz::takeUntil(rest, '\0'), merges = fuzz::takeUntil(rest, '\0');
  auto encoder = data::BytePairEncoder::open(
      fuzz::scratchFile("vocab.json", given.empty() ? fuzz::usual() : given),
      fuzz::scratchFile("merges.txt", merges));
  if (!encoder.ok()) return 0;
  std::vector<std::int32_t> whole, parts;
  encoder->encode(rest, whole);
  for (const std::int32_t id : whole)
    LOCKSTEP_CHECK(id >= 0 && id < encoder->size(), "{} of {}", id, encoder->size());
  const std::string text = encoder->decode(whole);
  if (given.empty()) LOCKSTEP_CHECK(text == rest);
  // Divided where it may be, a text has the same tokens.
  const std::size_t end = data::BytePairEncoder::safeEnd(rest);
  LOCKSTEP_CHECK(end <= rest.size());
  encoder->encode(rest.substr(0, end), parts);
  encoder->encode(rest.substr(end), parts);
  LOCKSTEP_CHECK(parts == whole);
  return 0;
}
