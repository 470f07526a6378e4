// Puts a machine to the test with what lies beside this program in a bundle that tests/gpu/run
// made, and writes what came of it: report.json, one object, and summary.md. Both are written anew
// after each part, so that what ends this program takes no more than one part along.
//
// gpu_report [--device cuda|cpu] [--only PART]… [--limit SECONDS] [--full] [--peers] [--python
// PROGRAM] [--seconds S]
//            [--out DIR]
//   parts       selftest, conformance, kernels, matrix, steps, training; with --peers those and
//   peers, losses
//   --device    cpu: the same on the processor, to try this program where no GPU is
//   --limit     of a part, 1200 if left out; --seconds: of a measurement, 5
//   --full      all rows of the matrix
//   --peers     beside the PyTorch of --python, python3 if left out
//   --out       report beside this program, if left out
// Exit: 0 every part is well and every claim that could be measured holds; 1 something is not; 2
// bad arguments; 3 no GPU to be used here, which is said.
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "tests/gpu/child.h"

namespace lockstep::gpu {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr std::string_view kParts[] = {"selftest", "conformance", "kernels", "matrix",
                                       "steps",    "training",    "peers",   "losses"};
bool isPart(std::string_view name) {
  return std::find(std::begin(kParts), std::end(kParts), name) != std::end(kParts);
}

struct Options {
  std::string device = "cuda", python = "python3", out;
  std::vector<std::string> only;
  double limit = 1200, seconds = 5;
  bool full = false, peers = false;
};

// A model that is measured, and what of it is claimed beside PyTorch.
struct Training {
  const char* name;
  const char* spec;   // below the bundle
  int batch, tokens;  // of a sample
  const char* precision;
  double overEager, overCompiled;
  // of a training step: 6 a parameter of products and token, 12·blocks·channels·tokens of attention
  double flopsPerSample;
};
constexpr double kGpt2Flops =
    1024.0 * (6.0 * (12 * 12 * 768.0 * 768.0 + 768.0 * 50304) + 12.0 * 12 * 768 * 1024);
constexpr Training kTrainings[] = {
    {"fashion-mlp", "resources/examples/fashion-mlp.yaml", 64, 0, "fp32", 5, 1.5, 0},
    {"fashion-cnn", "resources/examples/fashion-cnn.yaml", 64, 0, "fp32", 5, 1.5, 0},
    {"gpt2-124m", "tests/gpu/gpt2-124m.yaml", 32, 1024, "bf16", 1.3, 1.0, kGpt2Flops},
};
constexpr double kUtilisation = 0.55;  // claimed of gpt2-124m, of the product's measured rate
constexpr double kMemory = 0.8;        // claimed of its memory, of PyTorch's peak
constexpr double kPrediction = 0.1;    // claimed of a step's predicted time

std::string home() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&seconds));
  return text;
}

std::vector<Json> objects(const std::string& output) {
  std::vector<Json> out;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (Json one = Json::parse(line, nullptr, false); one.is_object())
      out.push_back(std::move(one));
  return out;
}

std::string lastOf(const std::string& text, std::size_t most = 600) {
  return text.size() > most ? text.substr(text.size() - most) : text;
}

class Report {
 public:
  explicit Report(const Options& options) : options_(options), home_(home()) {
    all_["report"] = 1;
    all_["made"] = now();
    all_["device"] = options.device;
    all_["ran_on_a_gpu"] = false;
    all_["host"] = {{"processor", processor()}, {"cores", std::thread::hardware_concurrency()}};
    const auto manifest = readFile(home_ + "/manifest");
    const auto of = readFile(home_ + "/made");
    all_["bundle"] = {{"sha256", manifest.ok() ? sha256Hex(*manifest) : ""},
                      {"made", of.ok() ? of->substr(0, of->find('\n')) : ""}};
    all_["parts"] = Json::object();
    all_["claims"] = Json::array();
    scratch_ = (fs::temp_directory_path() / "lockstep-gpu-XXXXXX").string();
    if (mkdtemp(scratch_.data()) == nullptr) scratch_ = "/tmp";
  }
  ~Report() {
    leave();
    std::error_code ignored;
    if (scratch_ != "/tmp") fs::remove_all(scratch_, ignored);
  }

  int run() {
    const int unusable = selftest();
    write();
    if (unusable != 0) return unusable;
    for (const char* part : {"conformance", "kernels"})
      if (wanted(part)) backendsTest(part);
    if (wanted("matrix")) matrix();
    if (wanted("steps")) steps();
    if (wanted("training")) training();
    if (options_.peers && wanted("peers")) peers();
    if (options_.peers && wanted("losses")) losses();
    write();
    bool well = true;
    for (const auto& [name, part] : all_["parts"].items()) well = well && part.value("ok", false);
    for (const Json& claim : all_["claims"]) well = well && claim["holds"] != false;
    return well ? 0 : 1;
  }

 private:
  bool onCuda() const { return options_.device == "cuda"; }
  std::string backend() const { return onCuda() ? "cuda" : "onednn"; }
  bool wanted(const std::string& part) const {
    return options_.only.empty() ||
           std::find(options_.only.begin(), options_.only.end(), part) != options_.only.end();
  }
  std::string at(const std::string& path) const { return home_ + "/" + path; }
  static std::string processor() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
    return "";
  }

  Child launch(const Words& words, double limit = 0) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    std::fprintf(stderr, "%s\n", text.c_str());
    return runChild(words, limit > 0 ? limit : options_.limit);
  }
  Words lockstep(Words words) const {
    words.insert(words.begin(), {at("lockstep"), "--home", scratch_ + "/h"});
    return words;
  }
  // A run goes on when its client has been ended.
  void kill(const std::string& run) {
    if (!run.empty()) launch(lockstep({"kill", run, "--json"}), 60);
  }
  // Agents that this program's runs have started leave.
  void leave() {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(scratch_ + "/h/local", ignored))
      runChild({at("lockstep-agent"), "leave", "--workdir", entry.path()}, 30);
  }

  // What every part says of the program that it was.
  Json partOf(const Child& child, bool ok) {
    Json part{{"ok", ok && !child.overtime}, {"seconds", child.seconds}, {"exit", child.code}};
    if (child.overtime)
      part["why"] = fmt::format("it was ended after {:.0f} s", child.seconds);
    else if (!ok)
      part["why"] = lastOf(child.errors.empty() ? child.output : child.errors);
    return part;
  }
  Json& keep(const std::string& name, Json part) {
    Json& kept = all_["parts"][name] = std::move(part);
    std::printf(
        "%s: %s\n", name.c_str(),
        kept.value("ok", false) ? "ok" : ("NOT OK: " + kept.value("why", std::string())).c_str());
    std::fflush(stdout);
    write();
    return kept;
  }
  void claim(const std::string& what, double measured, const std::string& text, bool holds) {
    all_["claims"].push_back(
        {{"what", what}, {"measured", measured}, {"claimed", text}, {"holds", holds}});
  }
  void unmeasured(const std::string& what, const std::string& text, const std::string& why) {
    all_["claims"].push_back({{"what", what},
                              {"measured", nullptr},
                              {"claimed", text},
                              {"holds", nullptr},
                              {"why", why}});
  }

  // Where not 0, there is no device for the rest, and that is the exit.
  int selftest() {
    const Child child =
        launch({at("lockstep-agent"), "selftest", "--device", options_.device, "--json"});
    Json part = partOf(child, child.code == 0);
    part["kernels"] = part["speeds"] = part["steps"] = all_["gpus"] = all_["libraries"] =
        Json::array();
    std::string problem;
    for (Json& one : objects(child.output)) {
      const std::string event = one["event"];
      one.erase("event");
      if (event == "kernel") part["kernels"].push_back(one);
      if (event == "kernels") part["absent"] = one["absent"];
      if (event == "speed") part["speeds"].push_back(one);
      if (event == "step") part["steps"].push_back(one);
      if (event == "gpu") all_["gpus"].push_back(one);
      if (event == "library") all_["libraries"].push_back(one);
      if (event == "nvml") all_["nvml"] = one;
      if (event == "selftest" && one.contains("why")) part["why"] = one["why"];
      if (event == "device" && !one.value("usable", false)) {
        const Json& error = one["error"];
        problem = error.value("what", "");
        if (const std::string why = error.value("why", ""); !why.empty()) problem += ": " + why;
        if (const std::string next = error.value("next", ""); !next.empty())
          problem += " (" + next + ")";
      }
    }
    if (onCuda() && child.code == 3) {
      all_["nothing_ran"] = problem;
      std::printf("Nothing was run: no GPU can be used here. %s\n", problem.c_str());
      return 3;
    }
    const auto ran = [](const Json& kernel) { return kernel.value("ok", false); };
    if (onCuda() && std::none_of(part["kernels"].begin(), part["kernels"].end(), ran)) {
      all_["nothing_ran"] =
          "the self-test came to no kernel: " + part.value("why", std::string("it said nothing"));
      keep("selftest", std::move(part));
      return 1;
    }
    for (const Json& speed : part["speeds"])
      if (speed["name"].get<std::string>().ends_with(" in bf16"))
        product_ = speed.value("per_second", 0.0);
    all_["ran_on_a_gpu"] = onCuda();
    keep("selftest", std::move(part));
    return 0;
  }

  void backendsTest(const std::string& name) {
    const Child child = launch({at("backends_" + name + "_test")});
    Json part = partOf(child, child.code == 0);
    part["failures"] = Json::array();
    std::istringstream lines(child.output);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("Totals: ")) part["totals"] = line.substr(8);
      if (line.starts_with("FAIL!")) part["failures"].push_back(line);
      if (line.starts_with("SKIP") && line.find("hasAGpu") != std::string::npos && onCuda()) {
        part["ok"] = false;
        part["why"] = line;
      }
    }
    keep(name, std::move(part));
  }

  void matrix() {
    for (const char* precision : {"fp32", "bf16"}) {
      Words words{at("matrix"), "--json",     "--backend",
                  backend(),    "--examples", at("resources/examples")};
      if (precision == std::string("bf16")) words.insert(words.end(), {"--precision", precision});
      if (!options_.full) words.push_back("--small");
      const Child child = launch(words);
      Json part = partOf(child, child.code == 0);
      int held = 0, refused = 0, failed = 0;
      Json refusals = Json::array(), failures = Json::array();
      for (const Json& row : objects(child.output)) {
        if (row["event"] != "row") continue;
        const std::string came = row["verdict"];
        (came == "holds" ? held : came == "refused" ? refused : failed) += 1;
        const Json named{
            {"row", fmt::format("{}, {} ranks, {}", row["example"].get<std::string>(),
                                row["ranks"].get<int>(), row["strategy"].get<std::string>())},
            {"text", row["text"]}};
        if (came == "refused") refusals.push_back(named);
        if (came == "FAILS") failures.push_back(named);
      }
      part["held"] = held;
      part["refused"] = refused;
      part["failed"] = failed;
      part["failures"] = failures;
      part["refusals"] = refusals;
      keep(fmt::format("matrix {}", precision), std::move(part));
    }
  }

  // A run, of which the step's time is predicted, and what memory its rank has.
  void steps() {
    for (const Training& one : kTrainings) {
      if (!onCuda() && one.tokens > 0) continue;  // a processor takes minutes for a step
      const Child child = launch(lockstep(
          {"run", at(one.spec), "--local", "1", "--json", "--set", "training.epochs=100", "--set",
           fmt::format("training.max_steps={}", one.tokens > 0 ? 40 : 1000), "--set",
           "training.backend=" + backend(), "--set", fmt::format("training.batch={}", one.batch),
           "--set", "training.checkpoint.disabled=true"}));
      Json part = partOf(child, child.code == 0);
      std::string run;
      for (const Json& line : objects(child.output))
        run = line.value("event", "") == "started" ? line.value("run", "") : run;
      if (child.overtime) kill(run);
      if (child.code == 0 && !run.empty()) {
        const std::vector<Json> rows =
            objects(launch(lockstep({"history", "show", run, "--json"}), 60).output);
        const double predicted = rows.empty() ? 0 : rows[0].value("predicted_step_seconds", 0.0);
        const double measured = rows.empty() ? 0 : rows[0].value("measured_step_seconds", 0.0);
        part["predicted_step_seconds"] = predicted;
        part["measured_step_seconds"] = measured;
        const std::string text = fmt::format("within {:.0f} %", 100 * kPrediction);
        if (measured > 0 && predicted > 0)
          claim(fmt::format("predicted step of {}", one.name), predicted / measured - 1, text,
                std::abs(predicted / measured - 1) <= kPrediction);
        const std::string logs = launch(lockstep({"logs", run}), 60).output;
        if (const auto bound = logs.find("is bound to the plan: "); bound != std::string::npos) {
          const double bytes =
              1024 * std::atof(logs.c_str() + bound + std::string("is bound to the plan: ").size());
          part["bound_bytes"] = bytes;
          bound_[one.name] = bytes;
        }
      }
      keep(fmt::format("steps {}", one.name), std::move(part));
    }
    leave();
  }

  void training() {
    for (const Training& one : kTrainings) {
      if (!onCuda() && one.tokens > 0) continue;
      const Child child = launch(
          lockstep({"bench", "train", "--model", at(one.spec), "--batch", std::to_string(one.batch),
                    "--ranks", "1", "--seconds", fmt::format("{}", options_.seconds), "--json",
                    "--set", "training.backend=" + backend()}));
      Json part = partOf(child, child.code == 0);
      for (const Json& line : objects(child.output)) {
        if (!line.contains("samples_per_second")) continue;
        const double rate = line["samples_per_second"];
        part["samples_per_second"] = rate_[one.name] = rate;
        part["batch"] = one.batch;
        part["precision"] = one.precision;
        if (one.tokens > 0) part["tokens_per_second"] = rate * one.tokens;
        part["windows"] = line["windows"];
        if (one.flopsPerSample > 0 && product_ > 0) {
          const double share = rate * one.flopsPerSample / product_;
          part["utilisation"] = share;
          claim(fmt::format("{}: model FLOP/s of the product's in bf16", one.name), share,
                fmt::format(">= {:.0f} %", 100 * kUtilisation), share >= kUtilisation);
        }
      }
      keep(fmt::format("training {}", one.name), std::move(part));
    }
    leave();
  }

  // Beside PyTorch, which says a line for each variant of each model.
  void peers() {
    Words words{options_.python, at("tests/gpu/peers.py"),           "--device", options_.device,
                "--seconds",     fmt::format("{}", options_.seconds)};
    for (const Training& one : kTrainings)
      if (onCuda() || one.tokens == 0)
        words.insert(words.end(), {"--model", fmt::format("{}:{}", one.name, one.batch)});
    const Child child = launch(words);
    Json part = partOf(child, child.code == 0);
    part["variants"] = Json::array();
    std::map<std::string, std::map<std::string, Json>> found;
    for (const Json& line : objects(child.output)) {
      const std::string event = line.value("event", "");
      if (event == "versions") part["versions"] = line;
      if (event != "peer") continue;
      part["variants"].push_back(line);
      found[line["model"]][line["variant"]] = line;
    }
    for (const Training& one : kTrainings) {
      for (const auto& [variant, least] :
           {std::pair{"eager", one.overEager}, {"compiled", one.overCompiled}}) {
        const std::string what = fmt::format("{} over PyTorch, {}", one.name, variant),
                          text = fmt::format(">= {}x", least);
        const Json& peer = found[one.name][variant];
        const double theirs = peer.is_object() ? peer.value("samples_per_second", 0.0) : 0;
        if (theirs > 0 && rate_[one.name] > 0)
          claim(what, rate_[one.name] / theirs, text, rate_[one.name] / theirs >= least);
        else
          unmeasured(
              what, text,
              peer.is_object() ? peer.value("why", "no rate of ours") : "it was not measured");
      }
      if (one.tokens == 0) continue;
      const Json& peer = found[one.name]["compiled"];
      const double theirs = peer.is_object() ? peer.value("peak_bytes", 0.0) : 0;
      const std::string what = fmt::format("memory of {} of PyTorch's peak", one.name),
                        text = fmt::format("<= {:.0f} %", 100 * kMemory);
      if (theirs > 0 && bound_[one.name] > 0)
        claim(what, bound_[one.name] / theirs, text, bound_[one.name] / theirs <= kMemory);
      else
        unmeasured(what, text, "part steps or PyTorch has none");
    }
    keep("peers", std::move(part));
  }

  // 100 steps from the same weights, batch by batch, in fp32.
  void losses() {
    const Child child =
        launch({options_.python, at("tests/oracle/torch_losses"), "fashion-mlp", "fashion-cnn",
                "gpt-tiny", "gpt-small", "--device", options_.device, "--fashion",
                at("resources/fashion"), "--text", at("resources/examples/kjv.txt"), "--lockstep",
                at("lockstep"), "--set", "training.backend=" + backend()});
    Json part = partOf(child, child.code == 0);
    part["said"] = Json::array();
    std::istringstream lines(child.output);
    for (std::string line; std::getline(lines, line);) part["said"].push_back(line);
    keep("losses", std::move(part));
  }

  std::string summary() const {
    std::string out =
        fmt::format("# Lockstep on {}\n\n", onCuda() ? "a GPU" : "a processor, to try the runner");
    out += fmt::format("{}, {}; bundle {}, {}\n\n", all_["made"].get<std::string>(),
                       all_["host"]["processor"].get<std::string>(),
                       all_["bundle"]["sha256"].get<std::string>().substr(0, 12),
                       all_["bundle"]["made"].get<std::string>());
    if (all_.contains("nothing_ran"))
      return out + fmt::format("**Nothing ran on a GPU.** Why: {}\n",
                               all_["nothing_ran"].get<std::string>());
    if (!onCuda()) out += "**Nothing ran on a GPU**: what follows is of the processor.\n\n";
    for (const Json& gpu : all_["gpus"])
      out += fmt::format("- {}, compute capability {}, {} MiB\n", gpu["name"].get<std::string>(),
                         gpu["compute_capability"].get<std::string>(),
                         gpu["memory_bytes"].get<std::int64_t>() >> 20);
    for (const Json& library : all_["libraries"])
      out += fmt::format("- {}: {}\n", library["name"].get<std::string>(),
                         library["found"] != "" ? library["found"].get<std::string>()
                                                : library["problem"].get<std::string>());
    out += "\n| part | | seconds |\n|---|---|---|\n";
    for (const auto& [name, part] : all_["parts"].items()) {
      std::string text = part.value("ok", false) ? "ok" : "NOT OK";
      if (part.contains("held"))
        text += fmt::format(": {} rows hold, {} fail, {} refused", part["held"].get<int>(),
                            part["failed"].get<int>(), part["refused"].get<int>());
      if (part.contains("totals")) text += ": " + part["totals"].get<std::string>();
      if (part.contains("samples_per_second"))
        text += fmt::format(": {:.1f} samples/s", part["samples_per_second"].get<double>());
      if (part.contains("tokens_per_second"))
        text += fmt::format(", {:.0f} tokens/s", part["tokens_per_second"].get<double>());
      if (part.contains("measured_step_seconds"))
        text += fmt::format(": a step {:.3f} ms, predicted {:.3f}",
                            1e3 * part["measured_step_seconds"].get<double>(),
                            1e3 * part["predicted_step_seconds"].get<double>());
      std::string why = part.value("ok", false) ? "" : part.value("why", std::string());
      std::replace(why.begin(), why.end(), '\n', ' ');
      out += fmt::format("| {} | {}{}{} | {:.1f} |\n", name, text, why.empty() ? "" : ". ", why,
                         part["seconds"].get<double>());
    }
    const Json parts = all_["parts"];
    if (parts.contains("selftest")) {
      double worst = 0;
      for (const Json& kernel : parts["selftest"]["kernels"])
        worst =
            std::max(worst, kernel["error"].is_number() ? kernel["error"].get<double>() : INFINITY);
      out += fmt::format(
          "\n{} ops against the reference, largest error {:.1e}.\n\n| | | of its peak "
          "|\n|---|---|---|\n",
          parts["selftest"]["kernels"].size(), worst);
      for (const Json& speed : parts["selftest"]["speeds"])
        out += fmt::format("| {} | {:.3g} {} | {} |\n", speed["name"].get<std::string>(),
                           speed["per_second"].get<double>(), speed["unit"].get<std::string>(),
                           speed.contains("share")
                               ? fmt::format("{:.0f} %", 100 * speed["share"].get<double>())
                               : "peak not known");
    }
    if (!all_["claims"].empty()) out += "\n| claim | measured | claimed | |\n|---|---|---|---|\n";
    for (const Json& one : all_["claims"])
      out += fmt::format("| {} | {} | {} | {} |\n", one["what"].get<std::string>(),
                         one["measured"].is_null()
                             ? one.value("why", std::string())
                             : fmt::format("{:.3f}", one["measured"].get<double>()),
                         one["claimed"].get<std::string>(),
                         one["holds"].is_null()     ? "not measured"
                         : one["holds"].get<bool>() ? "ok"
                                                    : "MISSED");
    if (parts.contains("losses")) {
      out += "\n";
      for (const Json& line : parts["losses"]["said"])
        out += fmt::format("- {}\n", line.get<std::string>());
    }
    return out;
  }
  void write() {
    const std::string folder = options_.out.empty() ? at("report") : options_.out;
    std::error_code fault;
    fs::create_directories(folder, fault);
    const std::string json = all_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (!writeFileAtomically(folder + "/report.json", json).ok() ||
        !writeFileAtomically(folder + "/summary.md", summary()).ok())
      std::fprintf(stderr, "gpu_report: %s cannot be written\n", folder.c_str());
  }

  const Options& options_;
  std::string home_, scratch_;
  Json all_;
  double product_ = 0;                   // FLOP/s of the measured one in bf16
  std::map<std::string, double> rate_;   // samples/s, by model
  std::map<std::string, double> bound_;  // bytes
};

int main(const Words& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool more = i + 1 < words.size();
    if (words[i] == "--version") return 0;
    if (words[i] == "--full")
      options.full = true;
    else if (words[i] == "--peers")
      options.peers = true;
    else if (words[i] == "--device" && more && (words[i + 1] == "cuda" || words[i + 1] == "cpu"))
      options.device = words[++i];
    else if (words[i] == "--only" && more && isPart(words[i + 1]))
      options.only.push_back(words[++i]);
    else if (words[i] == "--python" && more)
      options.python = words[++i];
    else if (words[i] == "--out" && more)
      options.out = words[++i];
    else if (words[i] == "--limit" && more)
      options.limit = std::max(1.0, std::atof(words[++i].c_str()));
    else if (words[i] == "--seconds" && more)
      options.seconds = std::max(0.1, std::atof(words[++i].c_str()));
    else {
      std::fprintf(stderr, "gpu_report: %s%s%s is not understood\n", words[i].c_str(),
                   more ? " " : "", more ? words[i + 1].c_str() : "");
      return 2;
    }
  }
  return Report(options).run();
}

}  // namespace
}  // namespace lockstep::gpu

int main(int argc, char** argv) {
  return lockstep::gpu::main(std::vector<std::string>(argv + 1, argv + argc));
}
