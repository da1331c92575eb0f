// The vision child driven through pipes with real lines, in this process. Every read has a hard limit; nothing sleeps.
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "picture_support.hpp"
#include "protocol/lines.hpp"
#include "tools/random_projector.hpp"
#include "vision/serve.hpp"

using namespace vigil;
using namespace vigil::vision;
namespace fs = std::filesystem;

namespace {

constexpr int limit_ms = 60'000;  // only a fault reaches it

class Child {
 public:
  explicit Child(const Options& options) : options_(options) {
    REQUIRE(::pipe2(in_, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out_, O_CLOEXEC) == 0);
    thread_ = std::thread([this] { status_ = serve(options_, in_[0], out_[1]); });
  }
  ~Child() {
    hang_up();
    thread_.join();
    for (const int fd : {in_[0], out_[0], out_[1]}) ::close(fd);
  }
  Child(const Child&) = delete;
  void send(const std::string& text) { REQUIRE(::write(in_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size())); }
  std::string line() {
    for (;;) {
      if (const size_t end = pending_.find('\n'); end != std::string::npos) {
        std::string one = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return one;
      }
      pollfd ready{out_[0], POLLIN, 0};
      if (::poll(&ready, 1, limit_ms) <= 0) return "";
      char buffer[4096];
      const ssize_t count = ::read(out_[0], buffer, sizeof buffer);
      if (count <= 0) return "";
      pending_.append(buffer, static_cast<size_t>(count));
    }
  }
  void hang_up() {
    if (in_[1] >= 0) ::close(in_[1]);
    in_[1] = -1;
  }
  int finish() {
    thread_.join();
    thread_ = std::thread([] {});
    return status_;
  }

 private:
  Options options_;
  int in_[2], out_[2];
  std::string pending_;
  std::thread thread_;
  int status_ = -1;
};

struct Folder {
  Folder() {
    static int counter = 0;
    path = fs::temp_directory_path() / ("vigil eyes " + std::to_string(::getpid()) + "%" + std::to_string(counter++));
    fs::create_directories(path);
    gguf::Writer out;
    REQUIRE(tools::add_random_projector({}, out));
    REQUIRE(out.write((path / "projector.gguf").string()));
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Options options() const {
    Options options;
    options.projector = (path / "projector.gguf").string();
    options.threads = 2;
    return options;
  }
  std::string put(const std::string& name, const test::Bytes& bytes) const {
    std::ofstream(path / name, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return (path / name).string();
  }
  std::string order(const std::string& image, const std::string& out) const {
    return protocol::encode(protocol::VisionCommand(protocol::Encode{(path / image).string(), (path / out).string()}));
  }
  fs::path path;
};

test::Bytes picture() {
  return test::png(20, 12, [](int64_t x, int64_t y) { return test::Pixel{static_cast<uint8_t>(12 * x), static_cast<uint8_t>(20 * y), 40, 255}; });
}

bool starts(const std::string& text, const std::string& with) { return text.compare(0, with.size(), with) == 0; }
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("A child tells itself and READY, encodes, and ends at QUIT") {
  const Folder folder;
  folder.put("a cat%.png", picture());
  Child child(folder.options());
  CHECK(starts(child.line(), "INFO vision=" VIGIL_VERSION " projector=gemma3 threads=2"));
  CHECK(child.line() == "READY 32");
  child.send(folder.order("a cat%.png", "out 1"));
  CHECK(starts(child.line(), "OK 4 2 2 "));
  std::ifstream file(folder.path / "out 1", std::ios::binary);
  const std::string record{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(record.size() == 20 + 4 * 32 * sizeof(float));
  CHECK(record.substr(0, 4) == "SVE1");
  int32_t numbers[4];
  std::memcpy(numbers, record.data() + 4, sizeof numbers);
  CHECK(std::vector<int32_t>(numbers, numbers + 4) == std::vector<int32_t>{4, 2, 2, 32});
  CHECK((fs::status(folder.path / "out 1").permissions() & fs::perms::all) == (fs::perms::owner_read | fs::perms::owner_write));
  child.send(folder.order("a cat%.png", "out 2"));  // the same picture, the same bytes
  CHECK(starts(child.line(), "OK 4 2 2 "));
  std::ifstream again(folder.path / "out 2", std::ios::binary);
  CHECK(std::string{std::istreambuf_iterator<char>(again), {}} == record);
  child.send("QUIT\n");
  CHECK(child.finish() == 0);
}

TEST_CASE("The end of input ends it, also in the middle of a line") {
  const Folder folder;
  Child child(folder.options());
  child.line();
  CHECK(child.line() == "READY 32");
  child.send("ENC half");
  child.hang_up();
  CHECK(child.finish() == 0);
}

TEST_CASE("What cannot be encoded is an ERR, and the next picture is answered") {
  const Folder folder;
  folder.put("good", picture());
  folder.put("text", {'h', 'i'});
  folder.put("taken", {});
  fs::create_directory(folder.path / "folder");
  REQUIRE(::mkfifo((folder.path / "pipe").c_str(), 0600) == 0);
  fs::create_symlink(folder.path / "good", folder.path / "link");
  Options options = folder.options();
  options.image_bytes = 2000;
  options.decode.pixels = 1000;
  folder.put("large", test::Bytes(2001, 0));
  folder.put("many", test::png(40, 26, [](int64_t, int64_t) { return test::Pixel{}; }));
  Child child(options);
  child.line();
  child.line();
  const std::pair<std::string, std::string> wrong[] = {{folder.order("nowhere", "o"), "No such file"}, {folder.order("text", "o"), "no picture that is known"},
                                                       {folder.order("folder", "o"), "no regular file"}, {folder.order("pipe", "o"), "no regular file"},
                                                       {folder.order("link", "o"), "cannot be opened"}, {folder.order("large", "o"), "limit of 2000 (--image-bytes)"},
                                                       {folder.order("many", "o"), "40 x 26 pixels large, over the limit of 1000"},
                                                       {folder.order("good", "taken"), "File exists"}, {folder.order("good", "nowhere/o"), "No such file"},
                                                       {"ENC one\n", ""}, {"ENC %zz x\n", ""}, {"NONSENSE\n", ""}, {std::string("ENC\0 a b\n", 9), ""}};
  for (const auto& [order, words] : wrong) {
    child.send(order);
    const std::string line = child.line();
    CAPTURE(order, line);
    CHECK(starts(line, "ERR "));
    CHECK(has(line, words));
    CHECK_FALSE(has(line, folder.path.string()));  // clients read it
    // What the picture is not to blame for says so.
    const bool blames = order == folder.order("text", "o") || order == folder.order("large", "o") || order == folder.order("many", "o");
    CHECK(starts(line, "ERR unavailable: ") != blames);
    CHECK_FALSE(fs::exists(folder.path / "o"));
    CHECK(fs::file_size(folder.path / "taken") == 0);
  }
  child.send(folder.order("good", "o"));
  CHECK(starts(child.line(), "OK 4 2 2 "));
}

TEST_CASE("A projector that cannot be loaded is an ERR and exit status 1") {
  const Folder folder;
  Options options = folder.options();
  options.projector = (folder.path / "none.gguf").string();
  {
    Child child(options);
    CHECK(has(child.line(), "none.gguf"));
    CHECK(child.finish() == 1);
  }
  options.projector = folder.put("broken.gguf", {'G', 'G', 'U', 'F', 3, 0, 0, 0});
  Child child(options);
  const std::string line = child.line();
  CHECK(starts(line, "ERR "));
  CHECK(has(line, "broken.gguf"));
  CHECK(child.finish() == 1);
}

TEST_CASE("Flags are checked and named") {
  const auto error = [](std::vector<std::string_view> arguments) {
    const auto options = parse_options(arguments);
    return options ? std::string() : options.error();
  };
  CHECK(has(error({}), "--mmproj FILE.gguf is needed"));
  CHECK(error({"--mmproj", "p", "--model", "m", "--threads=3", "--image-pixels", "9", "--image-bytes", "8", "--image-tokens", "7", "--class-token", "first"}).empty());
  CHECK(has(error({"--mmproj", "p", "--image-pixels", "0"}), "--image-pixels '0'"));
  CHECK(has(error({"--mmproj", "p", "--class-token", "middle"}), "--class-token"));
  CHECK(has(error({"--mmproj", "p", "--frames", "2"}), "'--frames'"));
  CHECK(has(error({"--mmproj"}), "needs a value"));
}
