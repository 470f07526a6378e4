// TensorBoard's event files: an input is a file, and the data of a record whose checksums are
// right. What is read depends neither on the pieces in which a file arrives nor on the limit of a
// poll.
#include "agent/workload/event_files.h"

#include <filesystem>
#include <fstream>

#include "engine/base/tf_record.h"
#include "engine/base/utf8.h"
#include "lockstep/run/v1/tensorboard.pb.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

std::string eventOf(std::int64_t step, int values) {
  run::v1::TensorBoardEvent event;
  event.set_step(step);
  for (int i = 0; i < values; ++i) {
    run::v1::TensorBoardValue value;
    value.set_tag("loss");
    value.set_simple_value(0.5f);
    if (i % 3 == 1) {
      value.mutable_tensor()->set_dtype(1);
      value.mutable_tensor()->add_float_val(0.5f);
      value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
    } else if (i % 3 == 2) {
      value.mutable_tensor()->set_dtype(19);
      value.mutable_tensor()->set_tensor_content(std::string("\0\x3c", 2));
    }
    event.mutable_summary()->add_value(value.SerializeAsString());
  }
  return event.SerializeAsString();
}

std::string textOf(const std::vector<run::v1::Scalar>& scalars) {
  std::string out;
  for (const auto& scalar : scalars) {
    LOCKSTEP_CHECK(scalar.step() >= 0 && firstNotUtf8(scalar.tag()) == std::string::npos);
    out += scalar.SerializeAsString();
  }
  return out;
}

// Reads the file as it is, and once more while it grows, at most `most` scalars at a time.
void read(const std::string& folder, std::string_view bytes, std::size_t most) {
  const std::string path = folder + "/tfevents";
  const auto write = [&](std::string_view some) {
    std::ofstream(path, std::ios::binary | std::ios::app)
        .write(some.data(), static_cast<std::streamsize>(some.size()));
  };
  std::filesystem::remove(path);
  write(bytes);
  agent::EventFiles whole({folder});
  const std::string expected = textOf(whole.poll(~std::size_t{0}));
  LOCKSTEP_CHECK(whole.poll().empty());
  const std::size_t errors = whole.takeErrors().size();
  LOCKSTEP_CHECK(errors <= 1);

  std::filesystem::remove(path);
  agent::EventFiles growing({folder});
  std::string got;
  const auto readAll = [&] {
    for (;;) {
      const auto scalars = growing.poll(most);
      if (scalars.empty()) return;
      LOCKSTEP_CHECK(scalars.size() <= most);
      got += textOf(scalars);
    }
  };
  for (const std::string_view half :
       {bytes.substr(0, bytes.size() / 2), bytes.substr(bytes.size() / 2)}) {
    write(half);
    readAll();
  }
  LOCKSTEP_CHECK(growing.takeErrors().size() == errors);
  LOCKSTEP_CHECK(got == expected);
}

}  // namespace

std::vector<std::string> seeds() {
  return {tfRecord(eventOf(1, 1)) + tfRecord(eventOf(2, 5)), eventOf(3, 4), tfRecord(""), ""};
}

}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lockstep;
  const std::string folder = fuzz::scratchFolder() + "/events";
  std::filesystem::create_directories(folder);
  const std::string_view text = fuzz::textOf(bytes, size);
  fuzz::read(folder, text, 1000);
  fuzz::read(folder, tfRecord(fuzz::eventOf(0, 2)) + tfRecord(text), 3 + size / 16);
  return 0;
}
