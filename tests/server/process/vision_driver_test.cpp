// The real vision driver with real children and files: a shell script that speaks the protocol is enough, and nothing is left behind.
#include "server/process/vision_driver.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>

#include "process_support.hpp"
#include "server/process/embeddings_file.hpp"
#include "server/process/file_worker.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;
namespace fs = std::filesystem;

namespace {

struct Port final : turn::TurnPort {
  std::vector<turn::Request> starts;
  std::vector<turn::LeaseId> leases;
  void need_engine() override {}
  void start(turn::LeaseId lease, const turn::Request& request, int64_t) override {
    leases.push_back(lease);
    starts.push_back(request);
  }
  void cancel(turn::LeaseId) override {}
  void answered(turn::LeaseId) override {}
  void release(turn::LeaseId) override {}
  void pause_output(bool) override {}
};

struct Sink final : turn::ReplySink {
  explicit Sink(std::shared_ptr<std::optional<turn::Ending>> e) : ending(std::move(e)) {}
  turn::Verdict on_token(const protocol::Token&) override { return turn::Verdict::more; }
  void on_end(const turn::Ending& end) override { *ending = end; }
  std::shared_ptr<std::optional<turn::Ending>> ending;
};

struct House {
  boost::asio::io_context io;
  std::string instance = unique_marker();
  std::string log;
  Port port;
  turn::Desk desk{turn::DeskLimits{}, port};
  std::string place, folder;
  std::unique_ptr<VisionDriver> vision;
  turn::RequestKey last = 0;

  House(const Scripts& scripts, const std::string& exe, int64_t cache_bytes = 0, const std::function<void(supervise::ChildLimits&)>& change = {}) {
    place = scripts.path("place");
    fs::create_directory(place);
    auto made = PictureFolder::make(place);
    REQUIRE(made.ok());
    folder = made->path();
    supervise::ChildLimits limits;
    limits.name = "vision";
    limits.silence_key = "encode_s";
    limits.exec = limits.ready = limits.silence = std::chrono::seconds(30);
    limits.stop = std::chrono::seconds(20);
    limits.backoff_first = limits.backoff_max = std::chrono::seconds(30);
    limits.eager = false;
    if (change) change(limits);
    DriverOptions options;
    options.name = "vision";
    options.instance = instance;
    options.exe = exe;
    DriverObserver observer;
    observer.log = [this](const std::string& line) { log += line + "\n"; };
    vision = std::make_unique<VisionDriver>(io, options, VisionLimits{limits, cache_bytes, {}}, std::move(*made), observer);
    vision->attach(desk);
    desk.attach_encoder(vision.get());
    turn::EngineView view;
    view.phase = turn::EnginePhase::ready;
    view.generation = 1;
    view.context = 1000;
    view.tagged = true;
    view.slots = 100;
    desk.engine_changed(view, std::chrono::steady_clock::now());
  }
  ~House() {
    vision.reset();
    io.restart();
    io.poll();
    CHECK(run_until(io, [this] { return count_marked(instance) == 0; }));  // nobody outlives a daemon
    CHECK_FALSE(fs::exists(folder));
  }
  std::shared_ptr<std::optional<turn::Ending>> ask(const std::vector<std::string>& pictures) {
    auto ending = std::make_shared<std::optional<turn::Ending>>();
    turn::Request request;
    request.id = "r";
    request.client = "c";
    request.image_token = 9;
    for (const std::string& picture : pictures) {
      request.prompt.push_back(9);
      request.pictures.push_back({std::make_shared<const std::string>(picture), "part", 0});
    }
    last = desk.submit(std::move(request), std::make_unique<Sink>(ending), std::chrono::steady_clock::now());
    return ending;
  }
  bool until(const std::function<bool()>& reached) { return run_until(io, reached); }
  size_t processes() const { return count_marked(instance); }
  size_t files() const {
    size_t found = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++found;
    return found;
  }
  static std::string message(const std::shared_ptr<std::optional<turn::Ending>>& ending) {
    REQUIRE(std::holds_alternative<turn::Failed>((*ending)->how));
    return std::get<turn::Failed>((*ending)->how).error.message;
  }
};

// Reads ENC lines; `on_enc` has the paths in $image and $out.
std::string eyes(const std::string& on_enc) {
  return "echo READY 2\nwhile read -r word image out; do case $word in ENC) n=$((n + 1)); " + on_enc + " ;; QUIT) exit ;; esac; done";
}
// One row: two floats of 0.
const std::string encode = R"({ printf 'SVE1\1\0\0\0\1\0\0\0\1\0\0\0\2\0\0\0'; head -c 8 /dev/zero; } > $out; echo OK 1 1 1 0.5)";
const std::string one_row = encode_record({1, 1, 1, 2}, {0, 0});

}  // namespace

TEST_CASE("A shell script as vision child: pictures to embeddings, and every file goes with its request", "[vision_driver]") {
  Scripts scripts;
  const std::string seen = scripts.path("seen");
  House house(scripts, scripts.add("eyes", eyes("cat $image >> " + seen + "; " + encode)));
  house.ask({"one"});
  REQUIRE(house.until([&] { return house.port.starts.size() == 1; }));
  house.ask({"two", "three"});
  REQUIRE(house.until([&] { return house.port.starts.size() == 2; }));
  CHECK(read_whole(seen) == "onetwothree");
  CHECK(read_whole(house.port.starts[0].embeddings->path) == one_row);
  CHECK(read_whole(house.port.starts[1].embeddings->path) == one_row + one_row);
  CHECK(house.port.starts[1].embeddings->rows == std::vector<int64_t>{1, 1});
  CHECK(house.port.starts[1].prompt.size() == 2);
  CHECK(house.until([&] { return house.files() == 2; }));  // what the engine may be reading; the rest goes by a thread of its own
  for (const auto lease : house.port.leases) house.desk.on_line(lease, protocol::Done{1, 1, 1, 1, "stop", {}}, std::chrono::steady_clock::now());
  house.port.starts.clear();
  CHECK(house.until([&] { return house.files() == 0; }));
  CHECK(house.processes() == 1);
}

TEST_CASE("A picture that is kept is not encoded again, and its record is shared", "[vision_driver]") {
  Scripts scripts;
  const std::string seen = scripts.path("seen");
  House house(scripts, scripts.add("eyes", eyes("cat $image >> " + seen + "; " + encode)), 1000);
  for (size_t i = 1; i <= 3; ++i) {
    house.ask({"one"});
    REQUIRE(house.until([&] { return house.port.starts.size() == i; }));
  }
  CHECK(read_whole(seen) == "one");
  CHECK(house.files() == 1);
  CHECK(house.port.starts[0].embeddings->path == house.port.starts[2].embeddings->path);
}

TEST_CASE("A record that a dying child wrote at the last moment is removed with its tree", "[vision_driver]") {
  Scripts scripts;
  // TERM comes while it sleeps; only then does it write.
  House house(scripts, scripts.add("eyes", eyes("trap 'echo late > $out; exit' TERM; while :; do sleep 0.05; done")), 0,
              [](supervise::ChildLimits& limits) { limits.silence = milliseconds(300); });
  const auto ending = house.ask({"one"});
  REQUIRE(house.until([&] { return ending->has_value(); }));
  CHECK_THAT(House::message(ending), Contains("vision.encode_s"));
  REQUIRE(house.until([&] { return house.vision->child().state() == supervise::ChildState::failed; }));
  CHECK(house.until([&] { return house.files() == 0; }));
}

TEST_CASE("A folder that went away ends the request, not the daemon", "[vision_driver]") {
  Scripts scripts;
  House house(scripts, scripts.add("eyes", eyes(encode)));
  fs::remove_all(house.folder);
  const auto ending = house.ask({"one"});
  REQUIRE(house.until([&] { return ending->has_value(); }));
  CHECK_THAT(House::message(ending), Contains("could not be given to the vision child") && Contains("No such file or directory"));
}

TEST_CASE("A driver that goes away in the middle of everything leaves nothing", "[vision_driver]") {
  Scripts scripts;
  House house(scripts, scripts.add("eyes", eyes("setsid sleep 3600 & wait")));
  house.ask({std::string(1000000, 'x'), "two"});
  REQUIRE(house.until([&] { return house.processes() >= 2 && house.files() == 1; }));
  // The house's own end checks it.
}

TEST_CASE("Work on files comes back in order, and an end drops what has not begun", "[vision_driver]") {
  boost::asio::io_context io;
  std::vector<int> order;
  auto worker = std::make_unique<FileWorker>(io);
  for (int i = 0; i < 100; ++i) worker->run([] {}, [&order, i] { order.push_back(i); });
  REQUIRE(run_until(io, [&] { return order.size() == 100; }));
  CHECK(std::is_sorted(order.begin(), order.end()));
  auto begun = std::make_shared<std::atomic<int>>(0);
  worker->run([begun] { ++*begun; }, [&order] { order.push_back(-1); });
  for (int i = 0; i < 1000; ++i) worker->run([begun] { ++*begun; });
  worker.reset();
  const int at_end = *begun;
  io.restart();
  io.poll();
  CHECK(*begun == at_end);  // nothing runs on
  CHECK(order.size() <= 101);
}

TEST_CASE("A file of the worker's is removed by its thread when its last owner goes, however long the thread is held", "[vision_driver]") {
  Scripts scripts;
  boost::asio::io_context io;
  auto worker = std::make_unique<FileWorker>(io);
  const std::string path = scripts.add("record", "rows"), kept = scripts.add("kept", "rows");
  const auto own = worker->owner();
  auto file = own(path);
  CHECK(file->path() == path);
  std::promise<void> disk;
  bool removed = false;
  worker->run([held = disk.get_future().share()] { held.wait(); });
  auto copy = file;
  file.reset();
  copy.reset();  // this thread goes on, and touches no disk
  CHECK(fs::exists(path));
  worker->run([] {}, [&removed] { removed = true; });
  disk.set_value();
  REQUIRE(run_until(io, [&] { return removed; }));
  CHECK_FALSE(fs::exists(path));
  file = own(kept);
  worker.reset();
  file.reset();
  CHECK(fs::exists(kept));  // its folder goes with the daemon
}
