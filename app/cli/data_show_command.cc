// The command data show: samples of the data that a spec names.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/cli/commands.h"
#include "app/cli/json_line.h"
#include "app/cli/terminal.h"
#include "app/runs/data_preview.h"
#include "app/runs/example_data.h"
#include "app/specs/data_spec.h"
#include "engine/base/dtype.h"
#include "lockstep/spec/v1/spec.pb.h"

namespace lockstep::app::cli {
namespace {

constexpr std::string_view kFormats[] = {"idx", "table", "text", "tokens"};  // by DataKind

bool isText(DataKind kind) { return kind == DataKind::kText || kind == DataKind::kTokens; }

// "[1,2]" of "1 2".
std::string tokensOf(const DataSample& sample) {
  std::string out = sample.text;
  std::ranges::replace(out, ' ', ',');
  return fmt::format("[{}]", out);
}

struct Asked {
  bool evaluate = false, random = false, check = false, make = false, json = false;
  std::int64_t first = 0, count = 8, seed = 1;
};

Result<Asked> askedOf(const Arguments& arguments) {
  Asked out;
  const std::string split = arguments.text("split", "train");
  if (split != "train" && split != "evaluate")
    return invalidArgument("--split {}: train or evaluate was expected", split);
  out.evaluate = split == "evaluate";
  out.random = arguments.has("random");
  out.check = arguments.has("check");
  out.make = arguments.has("make");
  out.json = arguments.has("json");
  if (out.random && arguments.has("from"))
    return invalidArgument("--from and --random exclude each other");
  LOCKSTEP_ASSIGN(out.first, arguments.integer("from", 0, 0, std::int64_t{1} << 60));
  LOCKSTEP_ASSIGN(out.count, arguments.integer("count", 8, 0, 1000));
  LOCKSTEP_ASSIGN(out.seed, arguments.integer("seed", 1, 0, std::int64_t{1} << 62));
  return out;
}

// Until Ctrl-C; shown where there is much to read.
Progress shownIn(ProgressLine& line) {
  return [&line, last = std::int64_t{-1}](std::int64_t done, std::int64_t total) mutable {
    const std::int64_t percent = total > 0 ? 100 * done / total : 0;
    if (percent != last && percent > 0 && total > (std::int64_t{1} << 26))
      line.show(fmt::format("reading: {} %", percent));
    last = percent;
    return !isInterrupted();
  };
}

// Its brightness, of 255: red, green and blue by ITU-R BT.601, else the first channel.
int greyOf(const DataSample& sample, std::size_t pixel, std::size_t channels) {
  const auto at = [&](std::size_t channel) {
    return static_cast<int>(static_cast<unsigned char>(sample.pixels[pixel * channels + channel]));
  };
  return channels < 3 ? at(0) : (299 * at(0) + 587 * at(1) + 114 * at(2)) / 1000;
}

std::string imageText(const DataSample& sample, const std::vector<std::int64_t>& shape) {
  constexpr std::string_view kInk[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  constexpr int kLevels = std::size(kInk);
  const std::int64_t height = shape[0], width = shape[1];
  const auto channels = static_cast<std::size_t>(shape.size() > 2 ? shape[2] : 1);
  // Two columns a pixel; a picture too wide is shown with every n-th pixel.
  const std::int64_t room = std::max<std::int64_t>(1, terminalSize(1).columns / 2);
  const std::int64_t stride = (width + room - 1) / room;
  std::string out;
  for (std::int64_t y = 0; y < height; y += stride) {
    for (std::int64_t x = 0; x < width; x += stride)
      out +=
          kInk[greyOf(sample, static_cast<std::size_t>(y * width + x), channels) * kLevels / 256];
    while (out.ends_with(' ')) out.pop_back();
    out += '\n';
  }
  return out;
}

void printSamples(const DataPreview& data, const std::vector<DataSample>& samples) {
  const auto shape = data.shape();
  for (const DataSample& sample : samples) {
    std::string line = fmt::format("#{}", sample.index);
    if (!isText(data.kind())) line += fmt::format("  label {}", printable(sample.label));
    if (isText(data.kind())) line += "  " + oneLine(sample.text);
    if (data.kind() == DataKind::kRows) {
      line += " ";
      for (const std::string& cell : sample.cells)
        line += " " + (cell.empty() ? std::string("–") : printable(cell));
    }
    put(stdout, isTerminal(1) && data.kind() == DataKind::kRows
                    ? fit(line, static_cast<std::size_t>(terminalSize(1).columns)) + "\n"
                    : line + "\n");
    if (sample.problem) put(stdout, fmt::format("  {}\n", sample.problem->why.text()));
    if (data.kind() == DataKind::kImages) put(stdout, imageText(sample, shape));
  }
}

void printFacts(const DataPreview& data, const Asked& asked) {
  const std::string samples =
      data.size() < 0 ? "samples"
                      : fmt::format("{} sample{}", data.size(), data.size() == 1 ? "" : "s");
  put(stdout,
      fmt::format("{} data: {}, {}: {}\n", asked.evaluate ? "evaluation" : "training",
                  kFormats[static_cast<int>(data.kind())], samples,
                  data.kind() == DataKind::kRows ? fmt::format("rows (numbers: {}, categories: {})",
                                                               data.shape()[0], data.shape()[1])
                                                 : shapeText(data.shape())));
  if (!data.columns().empty())
    put(stdout, printable(fmt::format("columns: {}", fmt::join(data.columns(), ", "))) + "\n");
  for (const DataPreview::File& file : data.files())
    put(stdout, fmt::format("  {} ({})\n", printable(file.path),
                            bytesText(static_cast<double>(file.bytes))));
  if (data.labels().empty()) return;
  std::string line = "labels:";
  for (const auto& [label, count] : data.labels()) line += fmt::format(" {}×{}", label, count);
  put(stdout, line + "\n");
}

void printJson(const DataPreview& data, const std::vector<DataSample>& samples,
               const Asked& asked) {
  nlohmann::json files = nlohmann::json::array(), labels = nlohmann::json::object();
  const nlohmann::json columns = data.columns();
  const auto textOf = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  for (const auto& file : data.files())
    files.push_back({{"path", file.path}, {"bytes", file.bytes}});
  for (const auto& [label, count] : data.labels()) labels[std::to_string(label)] = count;
  JsonLine("data")
      .add("split", asked.evaluate ? "evaluate" : "train")
      .add("format", kFormats[static_cast<int>(data.kind())])
      .add("samples", data.size())
      .addRaw("shape", textOf(data.shape()))
      .addRaw("files", textOf(files))
      .addRaw("labels", textOf(labels))
      .addRaw("columns", textOf(columns))
      .print();
  for (const DataSample& sample : samples) {
    JsonLine line("sample");
    line.add("index", sample.index);
    if (!isText(data.kind())) line.add("label", sample.label);
    if (data.kind() == DataKind::kText) line.add("text", sample.text);
    if (data.kind() == DataKind::kTokens) line.addRaw("tokens", tokensOf(sample));
    if (data.kind() == DataKind::kRows) line.addRaw("cells", textOf(sample.cells));
    if (data.kind() == DataKind::kImages) {
      std::vector<int> pixels;
      for (const char c : sample.pixels) pixels.push_back(static_cast<unsigned char>(c));
      line.addRaw("pixels", textOf(pixels));
    }
    if (sample.problem) line.add("problem", sample.problem->why);
    line.print();
  }
}

Status show(const Globals& globals, const std::string& file, const Asked& asked) {
  LOCKSTEP_ASSIGN(const RunSpecFile spec, loadDataSpec(file));
  LOCKSTEP_TRY(mustHaveModel(spec));
  const std::string folder = globals.home.root + "/data";
  ExampleData example = findExampleData(*spec.spec, folder);
  if (asked.make) {
    const auto onMaking = [](const std::string& path) {
      put(stderr, fmt::format("making {}\n", printable(path)));
    };
    LOCKSTEP_ASSIGN(example.spec, provideExampleData(spec.spec, folder, onMaking, {}));
    example.missing = false;
  }
  auto opened = DataPreview::open(*example.spec, asked.evaluate);
  if (!opened.ok() && example.missing && opened.error().code == Code::kNotFound)
    opened.error().next = "add --make, or launch the run: it is an example's and made on first use";
  LOCKSTEP_ASSIGN(const auto data, std::move(opened));
  ProgressLine line;
  const Progress progress = shownIn(line);
  LOCKSTEP_TRY(data->count(progress));
  if (asked.check) LOCKSTEP_TRY(data->check(progress));
  if (asked.first > 0 && asked.first >= data->size()) {
    Error error = invalidArgument("--from {}: there is no such sample", asked.first);
    error.why = message("there are {} samples, numbered from 0", data->size());
    return error;
  }
  LOCKSTEP_ASSIGN(
      const auto samples,
      asked.random ? data->readRandom(asked.count, static_cast<std::uint64_t>(asked.seed), progress)
                   : data->read(asked.first, asked.count, progress));
  line.clear();
  if (asked.json) {
    printJson(*data, samples, asked);
    return {};
  }
  printFacts(*data, asked);
  printSamples(*data, samples);
  if (asked.check) put(stdout, "the files are whole\n");
  return {};
}

}  // namespace

int dataShowCommand(const Globals& globals, const Arguments& arguments) {
  watchInterrupts();
  const Status status = [&]() -> Status {
    LOCKSTEP_ASSIGN(const Asked asked, askedOf(arguments));
    return show(globals, modelFile(arguments.words()[0]), asked);
  }();
  if (status.ok()) return kSucceeded;
  report(status.error(), arguments.has("json"));
  return exitCodeOf(status.error());
}

}  // namespace lockstep::app::cli
