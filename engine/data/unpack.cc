#include "engine/data/unpack.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cstdint>

#include "engine/data/content.h"

namespace lockstep::data {
namespace {

constexpr int kZstdWindowLog = 27;  // the most that zstd itself accepts unasked

// Passes unpacked bytes on, up to kLargestContent of them.
class Output {
 public:
  Output(const std::string& path, const Sink& sink, Packing packing)
      : path_(path), sink_(sink), packing_(packing) {}

  const std::string& path() const { return path_; }
  Status take(std::string_view bytes) {
    size_ += bytes.size();
    if (size_ <= kLargestContent) return sink_(bytes);
    Error error = makeError(Code::kResourceExhausted, "the data file {} is too large", path_);
    error.why = packing_ == Packing::kNone
                    ? message("it holds more than {} GiB", kLargestContent >> 30)
                    : message("it unpacks to more than {} GiB", kLargestContent >> 30);
    error.next = "split it";
    return error;
  }

 private:
  const std::string& path_;
  const Sink& sink_;
  const Packing packing_;
  std::size_t size_ = 0;
};

class Plain final : public Unpacker {
 public:
  explicit Plain(Output output) : output_(output) {}
  Status add(std::string_view bytes) override { return output_.take(bytes); }
  Status end() const override { return {}; }

 private:
  Output output_;
};

class Gzip final : public Unpacker {
 public:
  Gzip(Output output, std::size_t largest) : output_(output), piece_(largest, '\0') {}
  ~Gzip() override {
    if (begun_) inflateEnd(&stream_);
  }
  Status begin() {
    begun_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
    return begun_ ? Status() : makeError(Code::kResourceExhausted, "unpacking {}", output_.path());
  }

  Status add(std::string_view packed) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    for (;;) {
      if (ended_) {
        if (stream_.avail_in == 0) return {};
        inflateReset(&stream_);
        ended_ = false;
      }
      stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
      stream_.avail_out = static_cast<uInt>(piece_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      LOCKSTEP_TRY(
          output_.take(std::string_view(piece_).substr(0, piece_.size() - stream_.avail_out)));
      ended_ = code == Z_STREAM_END;
      if (ended_) continue;
      if (code == Z_BUF_ERROR || (code == Z_OK && stream_.avail_in == 0 && stream_.avail_out != 0))
        return {};  // needs more input
      if (code != Z_OK)
        return dataLoss(output_.path(),
                        message("the gzip stream is corrupt ({})",
                                stream_.msg != nullptr ? stream_.msg : "no reason given"));
    }
  }
  Status end() const override {
    return ended_ ? Status() : dataLoss(output_.path(), "the gzip stream is truncated");
  }

 private:
  Output output_;
  std::string piece_;
  z_stream stream_{};
  bool begun_ = false;
  bool ended_ = false;  // a member has ended and no other has begun
};

class Zstd final : public Unpacker {
 public:
  Zstd(Output output, std::size_t largest) : output_(output), piece_(largest, '\0') {}
  Status begin() {
    stream_.reset(ZSTD_createDCtx());
    const bool ready = stream_ && ZSTD_isError(ZSTD_DCtx_setParameter(
                                      stream_.get(), ZSTD_d_windowLogMax, kZstdWindowLog)) == 0;
    return ready ? Status() : makeError(Code::kResourceExhausted, "unpacking {}", output_.path());
  }

  Status add(std::string_view packed) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    while (in.pos < in.size || more_) {
      ZSTD_outBuffer out{piece_.data(), piece_.size(), 0};
      const std::size_t code = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_isError(code) != 0) return failed(code);
      LOCKSTEP_TRY(output_.take(std::string_view(piece_).substr(0, out.pos)));
      ended_ = code == 0;
      more_ = !ended_ && out.pos == out.size;
    }
    return {};
  }
  Status end() const override {
    return ended_ ? Status() : dataLoss(output_.path(), "the zstd stream is truncated");
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* stream) const { ZSTD_freeDCtx(stream); }
  };
  Error failed(std::size_t code) const {
    const ZSTD_ErrorCode kind = ZSTD_getErrorCode(code);
    if (kind == ZSTD_error_memory_allocation)
      return makeError(Code::kResourceExhausted, "unpacking {}", output_.path());
    if (kind != ZSTD_error_frameParameter_windowTooLarge)
      return dataLoss(output_.path(),
                      message("the zstd stream is corrupt ({})", ZSTD_getErrorName(code)));
    Error error = makeError(Code::kResourceExhausted, "data file {}", output_.path());
    error.why = message("its zstd window is larger than {} MiB", 1 << (kZstdWindowLog - 20));
    error.next = "compress it again, with zstd --long=27 at most";
    return error;
  }

  Output output_;
  std::string piece_;
  std::unique_ptr<ZSTD_DCtx, Free> stream_;
  bool more_ = false;   // the last call filled the output
  bool ended_ = false;  // a frame has ended and no other has begun
};

template <typename T>
Result<std::unique_ptr<Unpacker>> begun(std::unique_ptr<T> unpacker) {
  LOCKSTEP_TRY(unpacker->begin());
  return std::unique_ptr<Unpacker>(std::move(unpacker));
}

}  // namespace

Packing packingOf(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return Packing::kGzip;
  if (head.size() < kPackedHead) return Packing::kNone;
  const auto at = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(head[i])}; };
  const std::uint32_t magic = at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
  // A frame, or one that is skipped, with which pzstd begins (RFC 8878).
  const bool zstd = magic == ZSTD_MAGICNUMBER || (magic & 0xfffffff0) == 0x184d2a50;
  return zstd ? Packing::kZstd : Packing::kNone;
}

Result<std::unique_ptr<Unpacker>> makeUnpacker(Packing packing, const std::string& path,
                                               const Sink& sink, std::size_t largest) {
  const Output output(path, sink, packing);
  if (packing == Packing::kGzip) return begun(std::make_unique<Gzip>(output, largest));
  if (packing == Packing::kZstd) return begun(std::make_unique<Zstd>(output, largest));
  return std::unique_ptr<Unpacker>(std::make_unique<Plain>(output));
}

}  // namespace lockstep::data
