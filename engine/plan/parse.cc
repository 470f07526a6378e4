// Parses the text of a Plan; text.cc has the grammar. Lists grow with what is read, so memory is
// proportional to the text.
#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/plan/plan.h"

namespace lockstep::plan {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 20;
constexpr std::size_t kMaxName = 4096;
constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;
constexpr std::size_t kMaxRank = 8;  // dimensions of a tensor

struct Token {
  enum class Kind : std::uint8_t { kEnd, kWord, kString, kPunctuation };
  Kind kind = Kind::kEnd;
  std::string_view text;  // as written, a string with its quotes
  std::size_t at = 0;
};

bool isWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '+';
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<Plan> parse() {
    if (text_.size() > kMaxText) {
      return invalidArgument("{}: a plan of {} bytes; at most {} are read", file_, text_.size(),
                             kMaxText);
    }
    advance();
    Plan plan;
    LOCKSTEP_TRY(header(plan));
    LOCKSTEP_TRY(state(plan));
    while (isWord("schedule")) LOCKSTEP_TRY(schedule(plan));
    if (std::ssize(plan.schedule) != plan.mesh.stages()) {
      return error(fmt::format("{} schedules, expected one for each of {} stages",
                               plan.schedule.size(), plan.mesh.stages()));
    }
    while (isWord("program")) {
      Program program;
      LOCKSTEP_TRY(parseProgram(program, plan.mesh.size()));
      plan.programs.push_back(std::move(program));
    }
    if (token_.kind != Token::Kind::kEnd) return unexpected("\"program\" or the end");
    return plan;
  }

 private:
  void advance() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    token_.at = at_;
    if (at_ >= text_.size()) {
      token_ = {Token::Kind::kEnd, {}, at_};
      return;
    }
    std::size_t end = at_ + 1;
    if (text_[at_] == '"') {
      while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
        end += text_[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, text_.size());
      token_.kind = Token::Kind::kString;
    } else if (isWordChar(text_[at_])) {
      while (end < text_.size() && isWordChar(text_[end])) ++end;
      token_.kind = Token::Kind::kWord;
    } else {
      token_.kind = Token::Kind::kPunctuation;
    }
    token_.text = text_.substr(at_, end - at_);
    at_ = end;
  }

  Error errorAt(std::size_t at, std::string_view what) const {
    std::size_t line = 1, column = 1;
    for (std::size_t i = 0; i < at && i < text_.size(); ++i) {
      column = text_[i] == '\n' ? 1 : column + 1;
      line += text_[i] == '\n' ? 1 : 0;
    }
    return invalidArgument("{}:{}:{}: {}", file_, line, column, what);
  }
  Error error(std::string_view what) const { return errorAt(token_.at, what); }
  Error unexpected(std::string_view expected) const {
    if (token_.kind == Token::Kind::kEnd) {
      return error(fmt::format("the text ends here, expected {}", expected));
    }
    std::string shown;
    for (const char c : token_.text.substr(0, 40)) shown += c >= 0x20 && c < 0x7f ? c : '?';
    return error(fmt::format("found {}, expected {}", shown, expected));
  }

  bool isWord(std::string_view word) const {
    return token_.kind == Token::Kind::kWord && token_.text == word;
  }
  bool isPunctuation(char c) const {
    return token_.kind == Token::Kind::kPunctuation && token_.text[0] == c;
  }
  bool accept(char c) {
    if (!isPunctuation(c)) return false;
    advance();
    return true;
  }
  bool acceptWord(std::string_view word) {
    if (!isWord(word)) return false;
    advance();
    return true;
  }
  Status expect(char c) {
    if (!accept(c)) return unexpected(fmt::format("'{}'", c));
    return {};
  }
  Status expectWord(std::string_view word) {
    if (!acceptWord(word)) return unexpected(fmt::format("\"{}\"", word));
    return {};
  }

  Result<std::int64_t> integer(std::int64_t low, std::int64_t high, std::string_view what) {
    std::int64_t value = 0;
    if (token_.kind != Token::Kind::kWord || !readInteger(token_.text, value)) {
      return unexpected(what);
    }
    if (value < low || value > high) {
      return error(
          fmt::format("{} is out of range, expected {} from {} to {}", value, what, low, high));
    }
    advance();
    return value;
  }
  static bool readInteger(std::string_view word, std::int64_t& value) {
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
    return failed == std::errc() && end == word.data() + word.size();
  }
  static bool readFloat(std::string_view word, double& value) {
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), value);
    return failed == std::errc() && end == word.data() + word.size();
  }
  Result<double> real(std::string_view what) {
    double value = 0;
    if (token_.kind != Token::Kind::kWord || !readFloat(token_.text, value)) {
      return unexpected(what);
    }
    advance();
    return value;
  }

  Result<std::string> name(std::string_view what) {
    if (token_.kind != Token::Kind::kString) return unexpected(fmt::format("{} in quotes", what));
    const std::string_view raw = token_.text;
    if (raw.size() < 2 || raw.back() != '"') return error("this quote is never closed");
    std::string value;
    for (std::size_t i = 1; i + 1 < raw.size(); ++i) {
      if (raw[i] != '\\') {
        value += raw[i];
        continue;
      }
      ++i;
      if (i + 1 >= raw.size()) return error("this quote is never closed");
      if (raw[i] == '"' || raw[i] == '\\') {
        value += raw[i];
      } else if (raw[i] == 'x' && i + 3 < raw.size()) {
        int byte = 0;
        const char* digits = raw.data() + i + 1;
        const auto [end, failed] = std::from_chars(digits, digits + 2, byte, 16);
        if (failed != std::errc() || end != digits + 2) {
          return errorAt(token_.at + i, "expected two hexadecimal digits after \\x");
        }
        value += static_cast<char>(byte);
        i += 2;
      } else {
        return errorAt(token_.at + i, "unknown escape, expected \\\", \\\\ or \\xNN");
      }
    }
    if (value.size() > kMaxName) {
      return error(fmt::format("a name of {} bytes, expected at most {}", value.size(), kMaxName));
    }
    advance();
    return value;
  }

  template <typename T>
  Result<std::vector<T>> list(T low, T high, std::string_view what) {
    LOCKSTEP_TRY(expect('['));
    std::vector<T> values;
    while (!accept(']')) {
      LOCKSTEP_ASSIGN(const std::int64_t value, integer(low, high, what));
      values.push_back(static_cast<T>(value));
    }
    return values;
  }

  // [64x784], [] for a scalar
  Result<Shape> shape() {
    LOCKSTEP_TRY(expect('['));
    Shape shape;
    if (accept(']')) return shape;
    if (token_.kind != Token::Kind::kWord) return unexpected("a shape such as 64x784");
    std::string_view rest = token_.text;
    std::int64_t count = 1;
    while (true) {
      const std::size_t cross = rest.find('x');
      std::int64_t extent = 0;
      if (!readInteger(rest.substr(0, cross), extent) || extent < 1 || shape.size() == kMaxRank) {
        return unexpected("a shape such as 64x784, of at most 8 positive dimensions");
      }
      if (extent > kMaxBytes / count) return error("a shape of too many elements");
      count *= extent;
      shape.push_back(extent);
      if (cross == std::string_view::npos) break;
      rest.remove_prefix(cross + 1);
    }
    advance();
    LOCKSTEP_TRY(expect(']'));
    return shape;
  }
  Result<ir::TensorType> type() {
    ir::TensorType type;
    const std::optional<DType> dtype =
        token_.kind == Token::Kind::kWord ? dtypeFromName(token_.text) : std::nullopt;
    if (!dtype) return unexpected("a type such as f32[64x784]");
    advance();
    type.dtype = *dtype;
    LOCKSTEP_ASSIGN(type.shape, shape());
    return type;
  }

  Status header(Plan& plan) {
    LOCKSTEP_TRY(expectWord("plan"));
    LOCKSTEP_ASSIGN(plan.name, name("the plan's name"));
    LOCKSTEP_TRY(expectWord("version"));
    LOCKSTEP_TRY(integer(Plan::kVersion, Plan::kVersion, "version").status());
    LOCKSTEP_TRY(expectWord("strategy"));
    LOCKSTEP_ASSIGN(plan.strategy, name("a strategy"));
    LOCKSTEP_TRY(expectWord("precision"));
    LOCKSTEP_ASSIGN(plan.precision, name("a precision"));
    LOCKSTEP_TRY(expectWord("mesh"));
    std::vector<cluster::Axis> axes;
    std::int64_t ranks = 1;
    while (token_.kind == Token::Kind::kString) {
      cluster::Axis axis;
      LOCKSTEP_ASSIGN(axis.name, name("an axis"));
      LOCKSTEP_ASSIGN(const std::int64_t size, integer(1, kMaxRanks / ranks, "the axis' size"));
      axis.size = static_cast<int>(size);
      ranks *= size;
      const bool known = std::any_of(axes.begin(), axes.end(),
                                     [&](const cluster::Axis& a) { return a.name == axis.name; });
      if (known || axis.name == cluster::kServerAxis) {
        return error(fmt::format("axis {} is given twice, or is that of the servers", axis.name));
      }
      axes.push_back(std::move(axis));
      if (!accept(',')) break;
    }
    std::int64_t servers = 0;
    if (acceptWord("servers")) {
      LOCKSTEP_ASSIGN(servers, integer(1, kMaxRanks, "a number of servers"));
    }
    plan.mesh = cluster::Mesh(std::move(axes), static_cast<int>(servers));
    LOCKSTEP_TRY(expectWord("batch"));
    LOCKSTEP_ASSIGN(plan.globalBatch, integer(0, kMaxBytes, "the global batch"));
    if (acceptWord("micro-batches")) {
      LOCKSTEP_ASSIGN(const std::int64_t count, integer(1, 1 << 20, "a number of micro-batches"));
      plan.microBatches = static_cast<int>(count);
    }
    if (acceptWord("uncompressed")) {
      LOCKSTEP_ASSIGN(plan.uncompressedWarmupSteps, integer(1, kMaxBytes, "a number of steps"));
    }
    if (acceptWord("watch")) {
      LOCKSTEP_ASSIGN(plan.watchEvery, integer(1, kMaxBytes, "a number of steps"));
    }
    if (acceptWord("staleness")) {
      LOCKSTEP_ASSIGN(const std::int64_t staleness,
                      integer(Plan::kAnyStaleness, 1 << 20, "a number of steps"));
      plan.staleness = static_cast<int>(staleness);
    }
    LOCKSTEP_TRY(expectWord("cuts"));
    LOCKSTEP_ASSIGN(plan.batchCuts, list<std::int64_t>(0, kMaxBytes, "a cut-point"));
    LOCKSTEP_TRY(expectWord("evaluate"));
    LOCKSTEP_TRY(expectWord("cuts"));
    LOCKSTEP_ASSIGN(plan.evaluateCuts, list<std::int64_t>(0, kMaxBytes, "a cut-point"));
    return {};
  }

  Result<StateRole> stateRole() {
    for (std::size_t i = 0; i < kStateRoleNames.size(); ++i)
      if (acceptWord(kStateRoleNames[i])) return static_cast<StateRole>(i);
    return unexpected(fmt::format("a role of state: {}", fmt::join(kStateRoleNames, ", ")));
  }

  Status state(Plan& plan) {
    LOCKSTEP_TRY(expectWord("state"));
    LOCKSTEP_ASSIGN(plan.stateBytes, integer(0, kMaxBytes, "a number of bytes"));
    LOCKSTEP_TRY(expectWord("bytes"));
    LOCKSTEP_TRY(expect('{'));
    while (!accept('}')) {
      StateSlot slot;
      LOCKSTEP_ASSIGN(slot.name, name("a state's name"));
      LOCKSTEP_ASSIGN(slot.role, stateRole());
      LOCKSTEP_ASSIGN(slot.type, type());
      LOCKSTEP_TRY(expectWord("at"));
      LOCKSTEP_ASSIGN(slot.offset, integer(0, kMaxBytes, "an offset in bytes"));
      if (acceptWord("stage")) {
        LOCKSTEP_ASSIGN(const std::int64_t stage, integer(1, kMaxRanks, "a stage"));
        slot.stage = static_cast<int>(stage);
      }
      if (acceptWord("copies")) {
        LOCKSTEP_ASSIGN(const std::int64_t copies, integer(2, kMaxRanks, "a number of copies"));
        slot.copies = static_cast<int>(copies);
      }
      if (acceptWord("along")) {
        LOCKSTEP_ASSIGN(slot.axis, name("a mesh axis"));
      }
      LOCKSTEP_TRY(expect('{'));
      while (!accept('}')) {
        StateSlot::Member member;
        LOCKSTEP_ASSIGN(member.name, name("a member's name"));
        LOCKSTEP_ASSIGN(member.shape, shape());
        LOCKSTEP_TRY(expectWord("from"));
        LOCKSTEP_ASSIGN(member.element, integer(0, kMaxBytes, "an element"));
        if (acceptWord("rows")) {
          const std::int64_t all = member.shape.empty() ? 0 : member.shape[0];
          LOCKSTEP_ASSIGN(member.firstRow, integer(0, all - 1, "a row of the member"));
          LOCKSTEP_ASSIGN(member.rows, integer(1, all - member.firstRow, "a number of rows"));
        }
        if (acceptWord("along")) {
          LOCKSTEP_ASSIGN(member.axis, name("a mesh axis"));
          LOCKSTEP_TRY(expectWord("dim"));
          LOCKSTEP_ASSIGN(const std::int64_t dim,
                          integer(0, std::ssize(member.shape) - 1, "a dimension of the member"));
          member.dim = static_cast<int>(dim);
        }
        slot.members.push_back(std::move(member));
      }
      plan.state.push_back(std::move(slot));
    }
    return {};
  }

  Status schedule(Plan& plan) {
    LOCKSTEP_TRY(expectWord("schedule"));
    const auto next = static_cast<std::int64_t>(plan.schedule.size());
    LOCKSTEP_TRY(integer(next, next, "the next stage").status());
    LOCKSTEP_TRY(expect(':'));
    std::vector<ScheduleEntry> entries;
    while (token_.kind == Token::Kind::kString) {
      ScheduleEntry entry;
      LOCKSTEP_ASSIGN(entry.program, name("a program"));
      LOCKSTEP_ASSIGN(const std::int64_t micro, integer(0, kMaxRanks, "a micro-batch"));
      entry.micro = static_cast<int>(micro);
      if (acceptWord("copy")) {
        LOCKSTEP_ASSIGN(const std::int64_t copy, integer(1, kMaxRanks, "the number of a copy"));
        entry.copy = static_cast<int>(copy);
      }
      entries.push_back(std::move(entry));
      if (!accept(',')) break;
    }
    plan.schedule.push_back(std::move(entries));
    return {};
  }

  Status parseProgram(Program& program, int world) {
    LOCKSTEP_TRY(expectWord("program"));
    LOCKSTEP_ASSIGN(program.name, name("a program's name"));
    LOCKSTEP_TRY(expect('{'));
    const Token start = token_;
    program.bodyOfRank.assign(static_cast<std::size_t>(world), -1);
    while (!accept('}')) {
      Body body;
      LOCKSTEP_TRY(parseBody(program, body));
      program.bodies.push_back(std::move(body));
    }
    for (std::size_t rank = 0; rank < program.bodyOfRank.size(); ++rank) {
      if (program.bodyOfRank[rank] < 0) {
        return errorAt(start.at, fmt::format("rank {} has no body in program {}, expected one for "
                                             "each of the mesh's {} ranks",
                                             rank, program.name, world));
      }
    }
    return {};
  }

  Status ranks(Program& program) {
    LOCKSTEP_TRY(expectWord("ranks"));
    if (acceptWord("none")) return {};
    const auto world = static_cast<std::int64_t>(program.bodyOfRank.size());
    do {
      if (token_.kind != Token::Kind::kWord) return unexpected("ranks such as 0-3");
      const std::size_t dash = token_.text.find('-');
      std::int64_t first = 0, last = 0;
      if (!readInteger(token_.text.substr(0, dash), first)) return unexpected("ranks such as 0-3");
      last = first;
      if (dash != std::string_view::npos && !readInteger(token_.text.substr(dash + 1), last)) {
        return unexpected("ranks such as 0-3");
      }
      if (first < 0 || last < first || last >= world) {
        return unexpected(fmt::format("ascending ranks below the mesh's size {}", world));
      }
      for (std::int64_t rank = first; rank <= last; ++rank) {
        int& body = program.bodyOfRank[static_cast<std::size_t>(rank)];
        if (body >= 0) return error(fmt::format("rank {} has a body already", rank));
        body = static_cast<int>(program.bodies.size());
      }
      advance();
    } while (accept(','));
    return {};
  }

  Status parseBody(Program& program, Body& body) {
    LOCKSTEP_TRY(expectWord("body"));
    LOCKSTEP_ASSIGN(body.role, name("a role"));
    LOCKSTEP_TRY(ranks(program));
    LOCKSTEP_TRY(expect('{'));
    const Token start = token_;
    LOCKSTEP_TRY(expectWord("arena"));
    LOCKSTEP_ASSIGN(body.arenaBytes, integer(0, kMaxBytes, "a number of bytes"));
    LOCKSTEP_TRY(expectWord("bytes"));
    while (isWord("buffer")) LOCKSTEP_TRY(buffer(body));
    const auto count = static_cast<BufferId>(body.buffers.size());
    for (Buffer& view : body.buffers) {
      if (view.base < 0) continue;
      if (view.base >= count) {
        return errorAt(start.at, fmt::format("buffer {} is a view of %{}, expected one of {} "
                                             "buffers",
                                             view.name, view.base, count));
      }
      view.kind = body.buffers[static_cast<std::size_t>(view.base)].kind;
    }
    while (isWord("step")) LOCKSTEP_TRY(step(body));
    while (acceptWord("result")) {
      ResultSlot slot;
      LOCKSTEP_ASSIGN(slot.name, name("a result's name"));
      LOCKSTEP_ASSIGN(slot.buffer, bufferId(count));
      body.results.push_back(std::move(slot));
    }
    if (!accept('}')) return unexpected("\"buffer\", \"step\", \"result\" or '}'");
    return {};
  }

  Result<BufferId> bufferId(BufferId count) {
    LOCKSTEP_TRY(expect('%'));
    LOCKSTEP_ASSIGN(const std::int64_t id,
                    integer(0, count - 1, "the number of one of the body's buffers"));
    return static_cast<BufferId>(id);
  }

  Status buffer(Body& body) {
    LOCKSTEP_TRY(expectWord("buffer"));
    LOCKSTEP_TRY(expect('%'));
    const auto next = static_cast<std::int64_t>(body.buffers.size());
    LOCKSTEP_TRY(integer(next, next, "the next buffer's number").status());
    Buffer buffer;
    LOCKSTEP_ASSIGN(buffer.name, name("a buffer's name"));
    LOCKSTEP_ASSIGN(buffer.type, type());
    if (acceptWord("view")) {
      LOCKSTEP_TRY(expectWord("of"));
      LOCKSTEP_ASSIGN(buffer.base, bufferId(std::numeric_limits<BufferId>::max()));
    } else if (acceptWord("state")) {
      buffer.kind = BufferKind::kState;
    } else if (acceptWord("input")) {
      buffer.kind = BufferKind::kInput;
    } else if (acceptWord("temp")) {
      buffer.kind = BufferKind::kTemp;
    } else {
      return unexpected("\"state\", \"input\", \"temp\" or \"view of\"");
    }
    LOCKSTEP_TRY(expectWord("at"));
    LOCKSTEP_ASSIGN(buffer.offset, integer(0, kMaxBytes, "an offset in bytes"));
    if (buffer.base >= 0 && acceptWord("along")) {
      LOCKSTEP_ASSIGN(buffer.axis, name("a mesh axis"));
      LOCKSTEP_TRY(expectWord("by"));
      LOCKSTEP_ASSIGN(buffer.stride, integer(0, kMaxBytes, "a stride in bytes"));
    }
    body.buffers.push_back(std::move(buffer));
    return {};
  }

  Result<std::vector<BufferId>> bufferList(BufferId count) {
    std::vector<BufferId> buffers;
    if (!isPunctuation('%')) return buffers;
    do {
      LOCKSTEP_ASSIGN(const BufferId buffer, bufferId(count));
      buffers.push_back(buffer);
    } while (accept(','));
    return buffers;
  }

  Status step(Body& body) {
    const auto count = static_cast<BufferId>(body.buffers.size());
    const auto next = static_cast<std::int64_t>(body.steps.size());
    LOCKSTEP_TRY(expectWord("step"));
    LOCKSTEP_TRY(integer(next, next, "the next step's number").status());
    Step step;
    LOCKSTEP_ASSIGN(step.name, name("a step's name"));
    const auto phase =
        token_.kind == Token::Kind::kWord ? ir::phaseFromName(token_.text) : std::nullopt;
    if (!phase) return unexpected("a phase such as forward");
    step.phase = *phase;
    advance();
    if (acceptWord("stream")) {
      LOCKSTEP_ASSIGN(const std::int64_t stream, integer(1, kStreams - 1, "a stream"));
      step.stream = static_cast<int>(stream);
    }
    if (acceptWord("over")) {
      step.kind = StepKind::kCollective;
      LOCKSTEP_ASSIGN(step.axis, name("an axis"));
    }
    LOCKSTEP_TRY(expect(':'));
    LOCKSTEP_ASSIGN(step.outputs, bufferList(count));
    LOCKSTEP_TRY(expect('='));
    const auto op = token_.kind == Token::Kind::kWord ? ir::opFromName(token_.text) : std::nullopt;
    if (!op) return unexpected("an operation");
    step.op = *op;
    advance();
    LOCKSTEP_TRY(expect('('));
    LOCKSTEP_ASSIGN(step.inputs, bufferList(count));
    LOCKSTEP_TRY(expect(')'));
    if (accept('{')) {
      do {
        LOCKSTEP_TRY(attribute(step.attrs));
      } while (accept(','));
      LOCKSTEP_TRY(expect('}'));
    }
    if (acceptWord("after")) {
      LOCKSTEP_ASSIGN(step.after, list<StepId>(0, static_cast<StepId>(next - 1),
                                               "the number of an earlier step"));
    }
    if (acceptWord("flops")) {
      LOCKSTEP_ASSIGN(step.flops, real("a number of operations"));
    }
    if (acceptWord("bytes")) {
      LOCKSTEP_ASSIGN(step.bytes, integer(0, kMaxBytes, "a number of bytes"));
    }
    if (acceptWord("seconds")) {
      LOCKSTEP_ASSIGN(step.seconds, real("a number of seconds"));
    }
    body.steps.push_back(std::move(step));
    return {};
  }

  Status attribute(ir::Attrs& attrs) {
    if (token_.kind != Token::Kind::kWord) return unexpected("an attribute's name");
    std::string key(token_.text);
    if (attrs.contains(key)) return error(fmt::format("attribute {} is given twice", key));
    advance();
    ir::Attr value;
    if (token_.kind == Token::Kind::kString) {
      LOCKSTEP_ASSIGN(value, name("a text"));
    } else if (isPunctuation('[')) {
      LOCKSTEP_ASSIGN(value,
                      list<std::int64_t>(std::numeric_limits<std::int64_t>::min(),
                                         std::numeric_limits<std::int64_t>::max(), "a number"));
    } else {
      std::int64_t whole = 0;
      double number = 0;
      if (token_.kind != Token::Kind::kWord) return unexpected("a number, a text or a list");
      if (readInteger(token_.text, whole)) {
        value = whole;
      } else if (readFloat(token_.text, number)) {
        value = number;
      } else {
        return unexpected("a number, a text or a list");
      }
      advance();
    }
    attrs.emplace(std::move(key), std::move(value));
    return {};
  }

  std::string_view text_, file_;
  std::size_t at_ = 0;
  Token token_;
};

}  // namespace

Result<Plan> parse(std::string_view text, std::string_view file) {
  return Parser(text, file).parse();
}

}  // namespace lockstep::plan
