// See serve.hpp.
#include "vision/serve.hpp"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "protocol/line_splitter.hpp"
#include "protocol/lines.hpp"
#include "vision/fault.hpp"
#include "vision/picture_encoder.hpp"
#include "vision/picture_file.hpp"

namespace vigil::vision {
namespace {

int usable_cores() {
  cpu_set_t cores;
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 0) return CPU_COUNT(&cores);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

class Server {
 public:
  Server(const Options& options, int input_fd, int output_fd) : options_(options), input_fd_(input_fd), output_fd_(output_fd) {}

  int run() {
    if (!load()) return 1;
    protocol::LineSplitter splitter(protocol::max_line_to_child_bytes);
    std::vector<char> buffer(64 * 1024);
    while (!ending_) {
      const ssize_t count = ::read(input_fd_, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) {
        pollfd ready{input_fd_, POLLIN, 0};
        ::poll(&ready, 1, -1);
        continue;
      }
      if (count <= 0) return 0;  // the daemon has gone
      splitter.feed({buffer.data(), static_cast<size_t>(count)}, [this](const protocol::LineSplitter::Line& line) { handle(line); });
    }
    return 0;
  }

 private:
  bool load() {
    const int threads = options_.threads > 0 ? options_.threads : usable_cores();
    Result<std::unique_ptr<PictureEncoder>> encoder = Error{""};
    try {
      encoder = PictureEncoder::load(options_.projector, options_.model, threads, options_.encoder);
    } catch (const std::exception& failure) {  // out of memory, mostly
      encoder = Error{options_.projector + ": " + failure.what()};
    }
    if (!encoder) {
      std::fprintf(stderr, "vigil-vision: %s\n", encoder.error().c_str());
      refuse(encoder.error());
      return false;
    }
    encoder_ = std::move(*encoder);
    const EncoderConfig& config = encoder_->encoder().config();
    say(protocol::Info{{{"vision", VIGIL_VERSION},
                        {"projector", config.projector_name},
                        {"threads", std::to_string(threads)},
                        {"weights_mib", std::to_string((encoder_->encoder().weight_bytes() + (1u << 20) - 1) >> 20)}}});
    say(protocol::VisionReady{config.out_width});
    return true;
  }

  void handle(const protocol::LineSplitter::Line& line) {
    if (ending_) return;
    if (line.overlong) return refuse(fault("the command is longer than " + std::to_string(protocol::max_line_to_child_bytes) + " bytes").message);
    if (line.text.empty()) return;
    const Result<protocol::VisionCommand> command = protocol::parse_vision_command(line.text);
    if (!command) return refuse(fault(command.error()).message);
    if (const auto* encode = std::get_if<protocol::Encode>(&*command)) return run(*encode);
    ending_ = true;  // QUIT
  }

  void run(const protocol::Encode& command) {
    const auto start = std::chrono::steady_clock::now();
    Result<RecordShape> shape = Error{""};
    try {
      shape = encode(command);
    } catch (const std::exception& failure) {
      shape = fault(std::string("the picture cannot be encoded: ") + failure.what());
    }
    if (!shape) {
      if (is_fault(shape.error())) std::fprintf(stderr, "vigil-vision: %s: %s\n", command.out_path.c_str(), shape.error().c_str());
      return refuse(shape.error());
    }
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    say(protocol::VisionOk{shape->rows, shape->columns_of_grid, shape->rows_of_grid, ms});
  }

  Result<RecordShape> encode(const protocol::Encode& command) {
    const auto bytes = read_picture_file(command.image_path, options_.image_bytes);
    if (!bytes) return Error{bytes.error()};
    const Result<EncodedPicture> picture = encoder_->encode(*bytes, options_.decode);
    if (!picture) return Error{picture.error()};
    if (const Result<void> written = write_record(command.out_path, picture->shape, picture->values); !written) return Error{written.error()};
    return picture->shape;
  }

  void refuse(std::string why) { say(protocol::EngineError{std::move(why)}); }

  void say(const protocol::VisionEvent& event) {
    const std::string text = protocol::encode(event);
    std::string_view left = text;
    while (!ending_ && !left.empty()) {
      const ssize_t count = ::write(output_fd_, left.data(), left.size());
      if (count >= 0) {
        left.remove_prefix(static_cast<size_t>(count));
      } else if (errno == EAGAIN) {  // the other end may have made the pipe non-blocking
        pollfd ready{output_fd_, POLLOUT, 0};
        ::poll(&ready, 1, -1);
      } else if (errno != EINTR) {
        ending_ = true;  // nobody reads any more
      }
    }
  }

  const Options& options_;
  const int input_fd_, output_fd_;
  std::unique_ptr<PictureEncoder> encoder_;
  bool ending_ = false;
};

}  // namespace

int serve(const Options& options, int input_fd, int output_fd) { return Server(options, input_fd, output_fd).run(); }

}  // namespace vigil::vision
