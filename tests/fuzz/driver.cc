// Runs a fuzz target without libFuzzer: its regression inputs, its seeds, and mutations of these
// for a limited time. Mutations are a function of --seed alone.
//   NAME_fuzz [--seed N] [--seconds S] [--executions N] [FILE…]   with files: runs these alone
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/base/log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/paths.h"

// A target may know the structure of its input: as libFuzzer calls it.
extern "C" [[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* bytes, std::size_t size,
                                                             std::size_t most, unsigned int seed);

namespace {

constexpr std::size_t kLargestAllocation = std::size_t{256} << 20;
constexpr std::size_t kLargestInput = std::size_t{1} << 16;
constexpr unsigned kHangSeconds = 10;

std::string current;  // the input under way
char crashPath[4096];

// Keeps the input, says where, and ends the process.
[[noreturn]] void defect(const char* what) {
  const int fd = open(crashPath, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool kept =
      fd >= 0 && write(fd, current.data(), current.size()) == static_cast<ssize_t>(current.size());
  char text[sizeof crashPath + 200];
  const int size = snprintf(text, sizeof text, "\nDEFECT: %s. The input of %zu bytes: %s\n", what,
                            current.size(), kept ? crashPath : "(not kept)");
  if (write(STDERR_FILENO, text, static_cast<std::size_t>(size)) < 0) _exit(98);
  _exit(99);
}

void onSignal(int number) {
  defect(number == SIGALRM   ? "it does not end within 10 s"
         : number == SIGABRT ? "it aborts"
                             : "it crashes");
}

void runOne(std::string input) {
  current = std::move(input);
  alarm(kHangSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
  alarm(0);
}

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::uint64_t seed)
      : corpus_(std::move(corpus)), random_(seed) {}

  std::string next() {
    std::string out = corpus_[below(corpus_.size())];
    const std::size_t rounds = 1 + below(4);
    for (std::size_t i = 0; i < rounds; ++i) {
      if (LLVMFuzzerCustomMutator != nullptr && below(4) != 0)
        custom(out);
      else
        change(out);
    }
    if (out.size() > kLargestInput) out.resize(kLargestInput);
    return out;
  }

 private:
  std::size_t below(std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random_() % limit);
  }
  void custom(std::string& out) {
    const std::size_t size = out.size();
    out.resize(std::max(size, kLargestInput));
    out.resize(LLVMFuzzerCustomMutator(reinterpret_cast<std::uint8_t*>(out.data()), size,
                                       out.size(), static_cast<unsigned>(random_())));
  }
  // A length field: an integer of 1, 2, 4 or 8 bytes with a value at a limit, of either byte order.
  void setNumber(std::string& out) {
    constexpr std::uint64_t kValues[] = {0,          1,          0x7f,       0xff,       0x7fff,
                                         0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff,
                                         1ull << 32, ~0ull >> 1, 1ull << 63, ~0ull,      ~0ull - 7};
    const std::size_t width = std::size_t{1} << below(4);
    if (out.size() < width) return;
    const std::uint64_t value = kValues[below(std::size(kValues))];
    const std::size_t at = below(out.size() - width + 1);
    const bool big = below(2) == 0;
    for (std::size_t i = 0; i < width; ++i)
      out[at + i] = static_cast<char>(value >> (8 * (big ? width - 1 - i : i)));
  }
  // A number of the text becomes another one.
  void setDigits(std::string& out) {
    constexpr const char* kTexts[] = {"0",    "-1",         "1e308",      "9223372036854775807",
                                      "1e-9", "4294967296", "2147483647", "-9223372036854775808",
                                      "nan",  "inf",        "0.5",        "18446744073709551615"};
    const std::size_t begin = out.find_first_of("0123456789", below(out.size()));
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(out.find_first_not_of("0123456789", begin), out.size());
    out.replace(begin, end - begin, kTexts[below(std::size(kTexts))]);
  }
  void change(std::string& out) {
    const std::size_t at = below(out.size());
    switch (below(10)) {
      case 0:
        if (!out.empty()) out[at] = static_cast<char>(out[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!out.empty()) out[at] = static_cast<char>(random_());
        break;
      case 2:
        out.resize(at);
        break;
      case 3:
        if (!out.empty()) out.erase(at, 1 + below(16));
        break;
      case 4:  // a part twice
        if (!out.empty()) out.insert(at, out.substr(at, 1 + below(32)));
        break;
      case 5: {  // a part of another input
        const std::string& other = corpus_[below(corpus_.size())];
        const std::size_t from = below(other.size());
        out.insert(at, other.substr(from, 1 + below(64)));
        break;
      }
      case 6: {  // begins as this one and ends as another
        const std::string& other = corpus_[below(corpus_.size())];
        out = out.substr(0, at) + other.substr(below(other.size()));
        break;
      }
      case 7:
        out.insert(at, 1 + below(8), static_cast<char>(random_()));
        break;
      case 8:
        setNumber(out);
        break;
      default:
        setDigits(out);
    }
  }

  const std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

std::vector<std::string> regressions(const std::string& target) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(
           lockstep::test::sourcePath("tests/fuzz/regressions/") + target, none))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> out;
  for (const auto& file : files) out.push_back(lockstep::fuzz::fileBytes(file.string()));
  return out;
}

}  // namespace

void* operator new(std::size_t size) {
  if (size > kLargestAllocation) defect("it allocates more than 256 MiB at once");
  if (void* out = malloc(size)) return out;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return size > kLargestAllocation ? nullptr : malloc(size);
}
void operator delete(void* at) noexcept { free(at); }
void operator delete(void* at, std::size_t) noexcept { free(at); }

int main(int argc, char** argv) {
  const std::string target = std::filesystem::path(argv[0]).filename().string();
  snprintf(crashPath, sizeof crashPath, "%s/%s-%d.input",
           std::filesystem::temp_directory_path().c_str(), target.c_str(), getpid());
  std::uint64_t seed = 1, executions = ~0ull;
  double seconds = 1;
  std::vector<std::string> inputs;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--seed")
      seed = strtoull(value, nullptr, 10), ++i;
    else if (word == "--executions")
      executions = strtoull(value, nullptr, 10), ++i;
    else if (word == "--seconds")
      seconds = strtod(value, nullptr), ++i;
    else
      inputs.push_back(lockstep::fuzz::fileBytes(word));
  }
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM})
    signal(number, onSignal);
  lockstep::setLogLevel(lockstep::LogLevel::kError);
  if (!inputs.empty()) {
    for (std::string& input : inputs) runOne(std::move(input));
    return 0;
  }
  std::vector<std::string> corpus = regressions(target), made = lockstep::fuzz::seeds();
  corpus.insert(corpus.end(), made.begin(), made.end());
  LOCKSTEP_CHECK(!made.empty(), "{} has no seed", target);
  for (const std::string& input : corpus) runOne(input);
  Mutator mutator(corpus, seed);
  std::uint64_t count = corpus.size();
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (; count < executions && Clock::now() < end; ++count) runOne(mutator.next());
  printf("%s: %llu inputs, no defect\n", target.c_str(), static_cast<unsigned long long>(count));
  return 0;
}
