// Writes the text of a Plan. Grammar, where any white space separates:
//
//   plan NAME version 1  strategy NAME  precision NAME  mesh AXIS SIZE, … [servers N]
//   batch N [micro-batches N] [uncompressed N] [watch N] [staleness N] cuts [N …]
//   evaluate cuts [N …]
//   state N bytes { SLOT… }
//   schedule STAGE: PROGRAM MICRO-BATCH [copy N], …   one for each stage
//   program NAME { body NAME ranks RANGE, … { arena N bytes  BUFFER…  STEP…  RESULT… } … }
//   SLOT:   NAME ROLE TYPE at N [stage N] [copies N] [along AXIS] { MEMBER… }
//   MEMBER: NAME [SHAPE] from N [along AXIS dim N] …
//   BUFFER: buffer %I NAME TYPE (state|input|temp) at N
//           | buffer %I NAME TYPE view of %I at N [along AXIS by N]
//   STEP:   step I NAME PHASE [stream N] [over AXIS]: %I, … = OP(%I, …) [{KEY VALUE, …}]
//           [after [I …]] [flops X] [bytes N] [seconds X]
//   RESULT: result NAME %I
//
// Names are quoted; floats are in shortest form with a point or an exponent.
#include <cmath>
#include <iterator>
#include <map>

#include "engine/base/hash.h"
#include "engine/plan/plan.h"

namespace lockstep::plan {
namespace {

using Out = fmt::memory_buffer;

template <typename... Args>
void put(Out& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string floatText(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <typename T>
std::string listText(const std::vector<T>& values) {
  return fmt::format("[{}]", fmt::join(values, " "));
}

std::string attrText(const ir::Attr& attr) {
  if (const auto* number = std::get_if<std::int64_t>(&attr)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&attr)) return floatText(*number);
  if (const auto* string = std::get_if<std::string>(&attr)) return quoted(*string);
  return listText(std::get<std::vector<std::int64_t>>(attr));
}

std::string typeText(const ir::TensorType& type) {
  return fmt::format("{}[{}]", dtypeName(type.dtype), shapeText(type.shape));
}

std::string_view bufferKindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kState:
      return "state";
    case BufferKind::kInput:
      return "input";
    case BufferKind::kTemp:
      return "temp";
  }
  return "temp";
}

// Returns the ranks that run body `body`, "0, 3-21" or "none".
std::string ranksText(const std::vector<int>& bodyOfRank, int body) {
  std::string text;
  for (std::size_t first = 0; first < bodyOfRank.size(); ++first) {
    if (bodyOfRank[first] != body) continue;
    std::size_t last = first;
    while (last + 1 < bodyOfRank.size() && bodyOfRank[last + 1] == body) ++last;
    if (!text.empty()) text += ", ";
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return text.empty() ? "none" : text;
}

std::string buffersText(const std::vector<BufferId>& buffers) {
  std::string text;
  for (const BufferId buffer : buffers) {
    if (!text.empty()) text += ", ";
    text += fmt::format("%{}", buffer);
  }
  return text;
}

void putStep(Out& out, std::size_t index, const Step& step, bool withSeconds) {
  put(out, "    step {} {} {}", index, quoted(step.name), ir::phaseName(step.phase));
  if (step.stream != 0) put(out, " stream {}", step.stream);
  if (step.kind == StepKind::kCollective) put(out, " over {}", quoted(step.axis));
  put(out, ": {} = {}({})", buffersText(step.outputs), ir::info(step.op).name,
      buffersText(step.inputs));
  if (!step.attrs.empty()) {
    put(out, " {{");
    bool first = true;
    for (const auto& [key, value] : step.attrs) {
      put(out, "{}{} {}", first ? "" : ", ", key, attrText(value));
      first = false;
    }
    put(out, "}}");
  }
  if (!step.after.empty()) put(out, " after {}", listText(step.after));
  if (step.flops != 0) put(out, " flops {}", floatText(step.flops));
  if (step.bytes != 0) put(out, " bytes {}", step.bytes);
  if (withSeconds && step.seconds != 0) put(out, " seconds {}", floatText(step.seconds));
  put(out, "\n");
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }

// Returns the text without the numbers in names, of peers, of random numbers' keys and of places in
// the state arena.
std::string withoutNumbers(std::string_view text) {
  std::string out;
  bool inName = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view before = text.substr(0, i);
    const bool isOther =
        before.ends_with("key ") || before.ends_with("peer ") || before.ends_with(" state at ");
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) inName = !inName;
    if ((inName && isDigit(text[i])) || (isOther && (isDigit(text[i]) || text[i] == '-'))) {
      out += '#';
      while (i + 1 < text.size() && isDigit(text[i + 1])) ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

// In brief text: what a text is like that differs in numbers alone.
class Alike {
 public:
  // Returns the name of an earlier text that is alike; "": there is none.
  std::string firstLike(std::string_view text, std::string_view name) {
    const auto [known, isNew] = names_.emplace(withoutNumbers(text), name);
    return isNew ? std::string() : known->second;
  }

 private:
  std::map<std::string, std::string> names_;
};

void putBody(Out& out, const Program& program, std::size_t index, bool withSeconds) {
  const Body& body = program.bodies[index];
  put(out, "    arena {} bytes\n", body.arenaBytes);
  for (std::size_t i = 0; i < body.buffers.size(); ++i) {
    const Buffer& buffer = body.buffers[i];
    put(out, "    buffer %{} {} {} ", i, quoted(buffer.name), typeText(buffer.type));
    if (buffer.base >= 0) {
      put(out, "view of %{} at {}", buffer.base, buffer.offset);
      if (!buffer.axis.empty()) put(out, " along {} by {}", quoted(buffer.axis), buffer.stride);
      put(out, "\n");
    } else {
      put(out, "{} at {}\n", bufferKindName(buffer.kind), buffer.offset);
    }
  }
  for (std::size_t i = 0; i < body.steps.size(); ++i) putStep(out, i, body.steps[i], withSeconds);
  for (const ResultSlot& slot : body.results) {
    put(out, "    result {} %{}\n", quoted(slot.name), slot.buffer);
  }
}

void putProgram(Out& out, const Program& program, bool withSeconds, bool brief) {
  Alike alike;
  for (std::size_t i = 0; i < program.bodies.size(); ++i) {
    const std::string role = quoted(program.bodies[i].role);
    put(out, "  body {} ranks {} ", role, ranksText(program.bodyOfRank, static_cast<int>(i)));
    Out body;
    putBody(body, program, i, withSeconds);
    const std::string like = brief ? alike.firstLike({body.data(), body.size()}, role) : "";
    if (like.empty())
      put(out, "{{\n{}  }}\n", fmt::to_string(body));
    else
      put(out, "like {}\n", like);
  }
}

void putState(Out& out, const Plan& plan, bool brief) {
  Alike alike;
  put(out, "state {} bytes {{\n", plan.stateBytes);
  for (const StateSlot& slot : plan.state) {
    put(out, "  {} {} {} at {}", quoted(slot.name), stateRoleName(slot.role), typeText(slot.type),
        slot.offset);
    if (slot.stage != 0) put(out, " stage {}", slot.stage);
    if (slot.copies != 1) put(out, " copies {}", slot.copies);
    if (!slot.axis.empty()) put(out, " along {}", quoted(slot.axis));
    Out members;
    for (const StateSlot::Member& member : slot.members) {
      put(members, "    {} [{}] from {}", quoted(member.name), shapeText(member.shape),
          member.element);
      if (member.rows != 0) put(members, " rows {} {}", member.firstRow, member.rows);
      if (!member.axis.empty()) put(members, " along {} dim {}", quoted(member.axis), member.dim);
      put(members, "\n");
    }
    const std::string like = brief && members.size() > 0
                                 ? alike.firstLike({members.data(), members.size()}, slot.name)
                                 : "";
    if (like.empty())
      put(out, " {{\n{}  }}\n", fmt::to_string(members));
    else
      put(out, " like {}\n", quoted(like));
  }
  put(out, "}}\n");
}

std::string write(const Plan& plan, bool withSeconds, bool brief = false) {
  Out out;
  put(out, "plan {} version {}\n", quoted(plan.name), Plan::kVersion);
  put(out, "strategy {}\n", quoted(plan.strategy));
  put(out, "precision {}\n", quoted(plan.precision));
  put(out, "mesh");
  bool first = true;
  for (const cluster::Axis& axis : plan.mesh.axes()) {
    put(out, "{} {} {}", first ? "" : ",", quoted(axis.name), axis.size);
    first = false;
  }
  if (plan.mesh.servers() > 0) put(out, " servers {}", plan.mesh.servers());
  put(out, "\nbatch {}", plan.globalBatch);
  if (plan.microBatches != 1) put(out, " micro-batches {}", plan.microBatches);
  if (plan.uncompressedWarmupSteps != 0) put(out, " uncompressed {}", plan.uncompressedWarmupSteps);
  if (plan.watchEvery != 0) put(out, " watch {}", plan.watchEvery);
  if (plan.isAsynchronous()) put(out, " staleness {}", plan.staleness);
  put(out, " cuts {}\n", listText(plan.batchCuts));
  put(out, "evaluate cuts {}\n", listText(plan.evaluateCuts));
  putState(out, plan, brief);
  for (std::size_t stage = 0; stage < plan.schedule.size(); ++stage) {
    put(out, "schedule {}:", stage);
    bool begun = false;
    for (const ScheduleEntry& entry : plan.schedule[stage]) {
      put(out, "{} {} {}", begun ? "," : "", quoted(entry.program), entry.micro);
      if (entry.copy != 0) put(out, " copy {}", entry.copy);
      begun = true;
    }
    put(out, "\n");
  }
  for (const Program& program : plan.programs) {
    put(out, "\nprogram {} {{\n", quoted(program.name));
    putProgram(out, program, withSeconds, brief);
    put(out, "}}\n");
  }
  return fmt::to_string(out);
}

}  // namespace

std::string text(const Plan& plan) { return write(plan, true); }

std::string briefText(const Plan& plan) { return write(plan, true, true); }

std::string hash(const Plan& plan) { return sha256Hex(write(plan, false)); }

}  // namespace lockstep::plan
