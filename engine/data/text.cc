// Plain text as tokens, one per byte.
#include <algorithm>

#include "engine/data/content.h"
#include "engine/data/dataset.h"
#include "engine/data/range.h"

namespace lockstep::data {
namespace {

// Consecutive samples of `tokens` bytes each; labels are the following bytes.
class Text final : public Dataset {
 public:
  Text(std::string bytes, std::int64_t tokens)
      : bytes_(std::move(bytes)),
        tokens_(tokens),
        fields_{{"x", DType::kI32, {tokens}}, {"label", DType::kI32, {tokens}}} {}
  std::int64_t size() const override { return (std::ssize(bytes_) - 1) / tokens_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, std::size_t field, std::byte* out) const override {
    const auto first = static_cast<std::size_t>(index * tokens_) + field;
    auto* ids = reinterpret_cast<std::int32_t*>(out);
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens_); ++t)
      ids[t] = static_cast<unsigned char>(bytes_[first + t]);
  }

 private:
  std::string bytes_;
  std::int64_t tokens_;
  std::vector<Field> fields_;
};

}  // namespace

Result<FileFacts> inspectText(const std::string& path, const Progress& progress) {
  FileFacts facts;
  std::int64_t size = 0;
  const auto count = [&](std::string_view piece) -> Status {
    size += std::ssize(piece);
    return {};
  };
  LOCKSTEP_ASSIGN(facts.sha256, readContent(path, true, count, progress));
  facts.dimensions = {size};
  return facts;
}

Status checkText(const TextFile& file, const FileFacts& facts) {
  const std::int64_t bytes = facts.dimensions.empty() ? 0 : facts.dimensions[0];
  const std::int64_t part = placeOf(file.to, bytes) - placeOf(file.from, bytes);
  if (part > file.tokens) return {};
  Error error = invalidArgument("the text {} is too short", file.path);
  error.why = message("from {} to {} of it are {} bytes; a sample takes {}", file.from, file.to,
                      std::max<std::int64_t>(part, 0), file.tokens + 1);
  error.next = "give a longer text, more of it, or fewer tokens in model.input.shape";
  return error;
}

Result<std::unique_ptr<Dataset>> openText(const TextFile& file) {
  LOCKSTEP_ASSIGN(Content content, readWholeContent(file.path, false));
  std::string& bytes = content.bytes;
  FileFacts facts;
  facts.dimensions = {std::ssize(bytes)};
  LOCKSTEP_TRY(checkText(file, facts));
  const std::int64_t first = placeOf(file.from, std::ssize(bytes));
  const std::int64_t last = placeOf(file.to, std::ssize(bytes));
  // Truncates in place: memory may not hold the text twice.
  bytes.erase(static_cast<std::size_t>(last));
  bytes.erase(0, static_cast<std::size_t>(first));
  return std::unique_ptr<Dataset>(std::make_unique<Text>(std::move(bytes), file.tokens));
}

}  // namespace lockstep::data
