// Event files: what TensorBoard's own writer wrote, and files that grow, end or break anywhere.
#include "agent/workload/event_files.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>
#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/base/tf_record.h"
#include "engine/base/unique_fd.h"
#include "lockstep/run/v1/tensorboard.pb.h"

using namespace lockstep;
using agent::EventFiles;
using run::v1::TensorBoardEvent;
using run::v1::TensorBoardTensor;
using run::v1::TensorBoardValue;

namespace fs = std::filesystem;

namespace {

// Written by tensorboard 2.21.0: its EventFileWriter, make_tensor_proto() and the summaries of its
// plugins.
constexpr const char* kReal =
    "SAAAAAAAAAD+kkidCbTFrdwuwtpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2"
    "ZW50X2ZpbGVfd3JpdGVyQSHRNRoAAAAAAAAAEpvYLQkAAAAAAAD4PxABKg0KCwoEbG9zcxUAAAA/GKRDPSUAAAAAAAAA"
    "6rw28wkAAAAAAAD4PxACKhgKCwoEbG9zcxUAAMB/CgkKAmxyFW8SgzpeUC1p6AAAAAAAAAD9xMK/CQAAAAAAAPg/EAMq"
    "2gEKEQoDZjMyQgoIARIAKgQAAIA+ChUKA2Y2NEIOCAISADIImpmZmZmZuT8KEAoDZjE2QgkIExIAagOA/AIKFwoDaTMy"
    "QhAIAxIAOgr5//////////8BChMKA2k2NEIMCAkSAFIGgICAgIAgChkKA29uZUISCAESCBICCAESAggBKgQAAABAChkK"
    "A3R3b0ISCAESBBICCAIiCAAAgD8AAABACg4KBG5vbmVCBggBEgISAAoTCgR0ZXh0QgsIBxIAQgV3b3JkcwoTCgdjb250"
    "ZW50QggIASIEAABgQNJ3d6piAAAAAAAAAHn9YG8JAAAAAAAA+D8QBCpVClMKAWhCPggCEggSAggCEgIIAyIwAAAAAAAA"
    "AAAAAAAAAAASQAAAAAAAABRAAAAAAAAAEkAAAAAAAAAiQAAAAAAAABRASg4KDAoKaGlzdG9ncmFtcwgJObYsAAAAAAAA"
    "APSuzEUJAAAAAAAA+D8QBSofCh0KAnYyQgoIARIAKgQAAEA/SgsKCQoHc2NhbGFyc4vVfWQeAAAAAAAAANncEjIJAAAA"
    "AAAA+D8QgICAgIAgKgwKCgoDZW5kFQAAAIAd98kM";
constexpr const char* kRealScalars =
    "loss 1 0.5, loss 2 nan, lr 2 0.0010000000474974513, f32 3 0.25, f64 3 0.1, f16 3 -1.5, "
    "i32 3 -7, i64 3 1099511627776, one 3 2, content 3 3.5, v2 5 0.75, end 1099511627776 -0";

std::string realFile() { return QByteArray::fromBase64(kReal).toStdString(); }

std::string textOf(const std::vector<run::v1::Scalar>& scalars) {
  std::string out;
  for (const auto& scalar : scalars)
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", scalar.tag(), scalar.step(),
                       scalar.value());
  return out;
}

template <typename T>
void add(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

TensorBoardValue simple(const std::string& tag, float number) {
  TensorBoardValue out;
  out.set_tag(tag);
  out.set_simple_value(number);
  return out;
}

std::string recordOf(std::int64_t step, const std::vector<TensorBoardValue>& values) {
  TensorBoardEvent event;
  event.set_step(step);
  for (const auto& value : values) event.mutable_summary()->add_value(value.SerializeAsString());
  return tfRecord(event.SerializeAsString());
}

std::string recordOf(std::int64_t step, const std::string& tag, float number) {
  return recordOf(step, {simple(tag, number)});
}

// An event with an image (Summary.Value, field 4) of so many bytes.
std::string imageOf(std::size_t size) {
  std::string value = "\x0a\x03img\x22", image(size, 'p');
  std::size_t left = size;
  for (; left >= 0x80; left >>= 7) value += static_cast<char>(left | 0x80);
  value += static_cast<char>(left);
  TensorBoardEvent event;
  event.mutable_summary()->add_value(value + image);
  event.mutable_summary()->add_value(simple("beside", 1).SerializeAsString());
  return tfRecord(event.SerializeAsString());
}

void append(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::app)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A file to come: its bytes, and where its records end, with the values in them until there.
struct Planned {
  fs::path path;
  std::string bytes;
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<std::string> scalars;  // as textOf() gives them
  std::size_t written = 0, got = 0;

  std::size_t complete() const {
    std::size_t out = 0;
    for (const auto& [end, count] : ends)
      if (end <= written) out = count;
    return out;
  }
};

Planned planned(const fs::path& path, const std::string& prefix, int number,
                std::mt19937_64& random) {
  Planned out{path, {}, {}, {}, 0, 0};
  for (std::size_t events = 1 + random() % 40; events > 0; --events) {
    const auto step = static_cast<std::int64_t>(random() % 100) - 3;
    std::vector<TensorBoardValue> values;
    for (std::size_t i = random() % 8 == 0 ? random() % 200 : random() % 4; i > 0; --i) {
      TensorBoardValue value;
      value.set_tag("text");
      if (random() % 4 == 0) value.mutable_tensor()->set_dtype(7);
      if (random() % 4 != 0) {
        value = simple(fmt::format("tag{}", number), static_cast<float>(out.scalars.size()));
        out.scalars.push_back(fmt::format("{}tag{} {} {}", prefix, number,
                                          std::max<std::int64_t>(step, 0), out.scalars.size()));
      }
      values.push_back(value);
    }
    out.bytes += recordOf(step, values);
    out.ends.emplace_back(out.bytes.size(), out.scalars.size());
  }
  return out;
}

// Checks scalars of a poll against what has been written, in the order of the files.
QString problemOf(const std::vector<run::v1::Scalar>& scalars, std::vector<Planned>& files) {
  std::size_t file = 0;
  for (const auto& scalar : scalars) {
    const std::string text = textOf({scalar});
    while (file < files.size() && (files[file].got == files[file].complete() ||
                                   files[file].scalars[files[file].got] != text))
      ++file;
    if (file == files.size()) return QString("unexpected: %1").arg(text.c_str());
    ++files[file].got;
  }
  return {};
}

}  // namespace

class EventFilesTest : public QObject {
  Q_OBJECT
 private Q_SLOTS:
  void init() {
    folder_ = std::make_unique<QTemporaryDir>();
    top_ = folder_->path().toStdString();
  }

  void aRealFileIsRead() {
    append(top_ / "events.out.tfevents.1.vm", realFile());
    EventFiles files({top_});
    QCOMPARE(textOf(files.poll()), std::string(kRealScalars));
    QVERIFY(files.poll().empty());
    QVERIFY(files.takeErrors().empty());
  }

  // Files in several folders appear and grow by random pieces while they are read.
  void nothingIsLostOrDoubled() {
    for (unsigned seed = 0; seed < 30; ++seed) {
      std::mt19937_64 random(seed);
      const fs::path top = top_ / std::to_string(seed);
      std::vector<Planned> plan;
      const char* const folders[] = {"a", "a/b", "a/b/c d", "a/é", "z"};
      for (int i = 0; i < 8; ++i) {
        const std::string folder = folders[random() % std::size(folders)];
        const std::string prefix = folder.size() == 1 ? "" : folder.substr(2) + "/";
        plan.push_back(
            planned(top / folder / fmt::format("events.tfevents.{}", i), prefix, i, random));
      }
      std::sort(plan.begin(), plan.end(), [](const Planned& a, const Planned& b) {
        return a.path.native() < b.path.native();
      });
      EventFiles files({top / "a", top / "z", top / "a/b", top / "a"}, seed % 2 == 0);
      files.poll();  // before the program
      for (int round = 0; round < 200; ++round) {
        Planned& file = plan[random() % plan.size()];
        const std::size_t size = std::min<std::size_t>(
            random() % 4 == 0 ? random() % 2000 : random() % 30, file.bytes.size() - file.written);
        append(file.path, std::string_view(file.bytes).substr(file.written, size));
        file.written += size;
        if (random() % 3 == 0) continue;
        const std::size_t most = random() % 2 == 0 ? 4096 : random() % 20;
        std::size_t there = 0;
        for (const Planned& each : plan) there += each.complete() - each.got;
        const auto scalars = files.poll(most);
        QCOMPARE(scalars.size(), std::min(most, there));
        const QString problem = problemOf(scalars, plan);
        QVERIFY2(problem.isEmpty(), qPrintable(QString("seed %1: %2").arg(seed).arg(problem)));
      }
      QVERIFY(files.takeErrors().empty());
    }
  }

  // At every byte of the file.
  void aRecordIsWaitedFor() {
    const std::string real = realFile();
    for (std::size_t cut = 0; cut <= real.size(); ++cut) {
      const fs::path folder = top_ / std::to_string(cut), path = folder / "tfevents";
      append(path, real.substr(0, cut));
      EventFiles files({folder});
      auto scalars = files.poll();
      QVERIFY(files.poll().empty());
      append(path, real.substr(cut));
      for (auto& scalar : files.poll()) scalars.push_back(std::move(scalar));
      QCOMPARE(textOf(scalars), std::string(kRealScalars));
      QVERIFY(files.takeErrors().empty());
    }
  }

  // Any wrong bit is noticed, what is before it is read, and other files go on.
  void damageEndsAFile() {
    std::string bytes;
    std::vector<std::size_t> ends;
    for (int i = 0; i < 4; ++i) {
      bytes += recordOf(i, "loss", static_cast<float>(i));
      ends.push_back(bytes.size());
    }
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 3) {
      const fs::path folder = top_ / std::to_string(bit);
      std::string wrong = bytes;
      wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
      append(folder / "a.tfevents", wrong);
      append(folder / "b.tfevents", recordOf(0, "other", 0));
      EventFiles files({folder});
      const auto whole = std::upper_bound(ends.begin(), ends.end(), bit / 8) - ends.begin();
      QCOMPARE(files.poll().size(), static_cast<std::size_t>(whole) + 1);
      const auto errors = files.takeErrors();
      QCOMPARE(errors.size(), std::size_t{1});
      QCOMPARE(errors[0].code, Code::kDataLoss);
      QVERIFY(errors[0].text().find("a.tfevents") != std::string::npos);
      append(folder / "a.tfevents", bytes);
      append(folder / "b.tfevents", recordOf(1, "other", 1));
      QCOMPARE(textOf(files.poll()), std::string("other 1 1"));
      QVERIFY(files.takeErrors().empty());
    }
  }

  void whatIsNoEventIsDamage() {
    const std::string wrong[] = {
        tfRecordHeader((64 << 20) + 1),     // too long
        tfRecordHeader(~std::uint64_t{0}),  // even longer
        tfRecord(std::string("\x2a\x7f")),  // ends within a field
        tfRecord(std::string("\x2a\x10\x0a\x0a\x0a\x03one\x15\0\0\x80\x3f\x0a\x02\x0a\x7f",
                             18)),  // a value
        std::string(12, '\0'),
    };
    for (const std::string& bytes : wrong) {
      const fs::path folder = top_ / std::to_string(&bytes - wrong);
      append(folder / "tfevents", recordOf(1, "before", 1) + bytes + recordOf(2, "after", 1));
      EventFiles files({folder});
      const bool isSecondValueWrong = &bytes == wrong + 3;  // the first one counts
      QCOMPARE(textOf(files.poll()),
               std::string(isSecondValueWrong ? "before 1 1, one 0 1" : "before 1 1"));
      QCOMPARE(files.takeErrors().size(), std::size_t{1});
    }
  }

  void aFileThatBecomesShorterEnds() {
    const fs::path path = top_ / "tfevents";
    append(path, recordOf(1, "loss", 1) + recordOf(2, "loss", 2));
    EventFiles files({top_});
    QCOMPARE(files.poll().size(), std::size_t{2});
    fs::resize_file(path, fs::file_size(path) - 1);
    QVERIFY(files.poll().empty());
    const auto errors = files.takeErrors();
    QCOMPARE(errors.size(), std::size_t{1});
    QVERIFY(errors[0].text().find("shorter") != std::string::npos);
    append(path, recordOf(3, "loss", 3));
    QVERIFY(files.poll().empty());
    QVERIFY(files.takeErrors().empty());
  }

  // Where it cannot be opened for a while, as here a socket.
  void aFileThatCannotBeOpenedIsTriedAgain() {
    const fs::path path = top_ / "tfevents", kept = top_ / "kept";
    append(path, recordOf(1, "loss", 1));
    EventFiles files({top_});
    QCOMPARE(textOf(files.poll()), std::string("loss 1 1"));
    fs::rename(path, kept);
    QVERIFY(files.poll().empty());
    QVERIFY(files.takeErrors().empty());  // it was removed
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.native().copy(address.sun_path, sizeof address.sun_path - 1);
    QCOMPARE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    for (int i = 0; i < 3; ++i) QVERIFY(files.poll().empty());
    QCOMPARE(files.takeErrors().size(), std::size_t{1});
    append(kept, recordOf(2, "loss", 2));
    fs::rename(kept, path);
    QCOMPARE(textOf(files.poll()), std::string("loss 2 2"));
  }

  void whatWasThereIsPassedOver() {
    const fs::path old = top_ / "old.tfevents", empty = top_ / "empty.tfevents";
    append(old, recordOf(1, "old", 1));
    append(empty, "");
    EventFiles files({top_}, true), all({top_});
    QVERIFY(files.poll(0).empty());
    append(old, recordOf(2, "old", 2));
    append(empty, recordOf(3, "empty", 3));
    append(top_ / "new.tfevents", recordOf(4, "new", 4));
    QCOMPARE(textOf(files.poll()), std::string("empty 3 3, new 4 4, old 2 2"));
    QCOMPARE(textOf(all.poll()), std::string("empty 3 3, new 4 4, old 1 1, old 2 2"));
  }

  void foldersAreSearched() {
    const fs::path outside = top_ / "outside";
    append(outside / "tfevents", recordOf(1, "outside", 1));
    append(top_ / "given/sub/x.tfevents.v2", recordOf(1, "below", 1));
    append(top_ / "given/sub/events", recordOf(1, "other", 1));
    append(top_ / "given/\xff/tfevents", recordOf(1, "\xfe", 1));
    fs::create_directories(top_ / "given/folder.tfevents");
    fs::create_directory_symlink(outside, top_ / "given/link");
    fs::create_directory_symlink("..", top_ / "given/sub/circle");
    fs::create_directory_symlink(top_ / "given", top_ / "alias");
    // A link to the same folder, and the folder by another path.
    EventFiles files({top_ / "alias", top_ / "given/sub/../", top_ / "given", top_ / "absent"});
    QCOMPARE(textOf(files.poll()), std::string("sub/below 1 1, ?/? 1 1"));
    append(top_ / "absent/tfevents", recordOf(1, "late", 1));
    QCOMPARE(textOf(files.poll()), std::string("late 1 1"));
    EventFiles inner({top_ / "given/sub", top_ / "given"});
    QCOMPARE(textOf(inner.poll()), std::string("below 1 1, ?/? 1 1"));
    QVERIFY(files.takeErrors().empty());
    fs::remove_all(top_ / "given");  // QTemporaryDir does not remove that name
  }

  void largeEventsArePassedOver() {
    const std::size_t sizes[] = {1, 60'000, 65'536, 70'000, 3'000'000, 40'000'000};
    for (const std::size_t size : sizes)
      append(top_ / "tfevents", imageOf(size) + recordOf(2, "loss", 2));
    EventFiles files({top_});
    QCOMPARE(files.poll().size(), 2 * std::size(sizes));
    QVERIFY(files.takeErrors().empty());
    // Records that end anywhere about the end of what is read at once.
    for (std::size_t size = 65'400; size < 65'560; ++size) {
      const fs::path folder = top_ / std::to_string(size);
      append(folder / "tfevents", imageOf(size) + recordOf(2, "loss", 2) + recordOf(3, "loss", 3));
      EventFiles some({folder});
      QCOMPARE(textOf(some.poll()), std::string("beside 0 1, loss 2 2, loss 3 3"));
      fs::remove_all(folder);
    }
  }

  void tagsHaveLimits() {
    append(top_ / "tfevents", recordOf(0, {simple("", 1), simple(std::string(1025, 'a'), 2),
                                           simple(std::string(1024, 'a'), 3), TensorBoardValue()}));
    const auto scalars = EventFiles({top_}).poll();
    QCOMPARE(scalars.size(), std::size_t{1});
    QCOMPARE(scalars[0].value(), 3.0);
  }

  // Each type in its field and as content, and tensors that are no number.
  void tensorsOfOneElementAreNumbers() {
    const auto read = [this](const TensorBoardTensor& tensor) -> std::optional<double> {
      const fs::path folder = top_ / std::to_string(++count_);
      TensorBoardValue value;
      value.set_tag("t");
      *value.mutable_tensor() = tensor;
      append(folder / "tfevents", recordOf(0, {value}));
      EventFiles files({folder});
      const auto scalars = files.poll();
      return files.takeErrors().empty() && scalars.size() == 1 ? std::optional(scalars[0].value())
                                                               : std::nullopt;
    };
    const auto content = [&](int dtype, auto number) {
      TensorBoardTensor tensor;
      tensor.set_dtype(dtype);
      add(*tensor.mutable_tensor_content(), number);
      const auto out = read(tensor);
      tensor.mutable_tensor_content()->push_back('\0');
      return read(tensor) ? std::nullopt : out;  // of another size it is no number
    };
    QCOMPARE(content(1, 0.5f), std::optional(0.5));
    QCOMPARE(content(2, 0.1), std::optional(0.1));
    QCOMPARE(content(3, std::int32_t{-5}), std::optional(-5.0));
    QCOMPARE(content(4, std::uint8_t{255}), std::optional(255.0));
    QCOMPARE(content(5, std::int16_t{-5}), std::optional(-5.0));
    QCOMPARE(content(6, std::int8_t{-5}), std::optional(-5.0));
    QCOMPARE(content(9, std::int64_t{-1} << 40), std::optional(-std::ldexp(1, 40)));
    QCOMPARE(content(17, std::uint16_t{65535}), std::optional(65535.0));
    QCOMPARE(content(22, ~std::uint32_t{0}), std::optional(std::ldexp(1, 32) - 1));
    QCOMPARE(content(23, std::uint64_t{1} << 63), std::optional(std::ldexp(1, 63)));
    QVERIFY(!content(10, true));
    QVERIFY(!content(0, 0.5f));
    TensorBoardTensor tensor;
    tensor.set_dtype(1);
    QVERIFY(!read(tensor));
    tensor.add_float_val(2);
    QCOMPARE(read(tensor), std::optional(2.0));
    tensor.mutable_tensor_shape()->add_dim()->set_size(1);
    QCOMPARE(read(tensor), std::optional(2.0));
    tensor.mutable_tensor_shape()->add_dim()->set_size(-1);
    QVERIFY(!read(tensor));
    tensor.clear_tensor_shape();
    tensor.add_float_val(3);
    QVERIFY(!read(tensor));
  }

  // All numbers of 16 bits, in one file.
  void shortFloatsAreRead() {
    for (std::uint32_t bits = 0; bits < 0x10000; bits += 64) {
      std::vector<TensorBoardValue> values;
      for (const int dtype : {19, 14})
        for (std::uint32_t i = bits; i < bits + 64; ++i) {
          TensorBoardValue& value = values.emplace_back();
          value.set_tag("t");
          value.mutable_tensor()->set_dtype(dtype);
          value.mutable_tensor()->add_half_val(static_cast<std::int32_t>(i));
        }
      append(top_ / "tfevents", recordOf(0, values));
    }
    const auto scalars = EventFiles({top_}).poll(1 << 18);
    QCOMPARE(scalars.size(), std::size_t{1 << 17});
    const auto at = [&](std::uint32_t bits, std::uint32_t type) {
      return scalars[bits / 64 * 128 + type * 64 + bits % 64].value();
    };
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto other = static_cast<double>(std::bit_cast<float>(bits << 16));
      QVERIFY(at(bits, 1) == other || (std::isnan(at(bits, 1)) && std::isnan(other)));
      if (bits < 0x7c00) QVERIFY(at(bits, 0) < at(bits + 1, 0));  // and evenly within a power of 2
      if (bits < 0x7c00 && bits % 0x400 != 0x3ff && bits % 0x400 != 0)
        QVERIFY(at(bits + 1, 0) - at(bits, 0) == at(bits, 0) - at(bits - 1, 0));
      if (bits < 0x8000) QVERIFY(std::isnan(at(bits, 0)) == (bits > 0x7c00));
      if (bits <= 0x7c00) QVERIFY(at(bits | 0x8000, 0) == -at(bits, 0));
    }
    QCOMPARE(at(0, 0), 0.0);
    QCOMPARE(at(1, 0), std::ldexp(1, -24));
    QCOMPARE(at(0x3c00, 0), 1.0);
    QCOMPARE(at(0x7bff, 0), 65504.0);
    QVERIFY(std::isinf(at(0x7c00, 0)));
  }

  void anyBytesAreAFile() {
    std::mt19937_64 random(9);
    for (int i = 0; i < 300; ++i) {
      const fs::path folder = top_ / std::to_string(i);
      std::string bytes = i % 2 == 0 ? realFile() : std::string();
      for (std::size_t size = 12 + random() % 200; size > 0; --size)
        bytes += static_cast<char>(random());
      append(folder / "tfevents", bytes);
      EventFiles files({folder});
      QCOMPARE(textOf(files.poll()), std::string(i % 2 == 0 ? kRealScalars : ""));
      QCOMPARE(files.takeErrors().size(), std::size_t{1});
    }
  }

 private:
  std::unique_ptr<QTemporaryDir> folder_;
  fs::path top_;
  int count_ = 0;
};

QTEST_GUILESS_MAIN(EventFilesTest)
#include "event_files_test.moc"
