// The engine child driven through pipes with real lines, in this process. Every read has a hard limit; nothing sleeps.
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/serve.hpp"
#include "model_support.hpp"
#include "protocol/lines.hpp"
#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

constexpr int limit_ms = 60'000;  // only a fault reaches it

struct ModelFile {
  explicit ModelFile(const std::vector<std::byte>& bytes) {
    static int counter = 0;
    path = (std::filesystem::temp_directory_path() / ("vigil_serve_" + std::to_string(::getpid()) + "_" + std::to_string(counter++))).string();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~ModelFile() { std::filesystem::remove(path); }
  ModelFile(const ModelFile&) = delete;
  std::string path;
};

class Child {
 public:
  explicit Child(const std::string& model, engine::Options options = {}) : options_(std::move(options)) {
    options_.model = model;
    REQUIRE(::pipe2(in_, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out_, O_CLOEXEC) == 0);
    thread_ = std::thread([this] { status_ = engine::serve(options_, in_[0], out_[1], engine::AtEnd::return_to_caller); });
  }
  ~Child() {
    hang_up();
    thread_.join();
    for (const int fd : {in_[0], out_[0], out_[1]}) ::close(fd);
  }
  Child(const Child&) = delete;

  void send(const std::string& text) { REQUIRE(::write(in_[1], text.data(), text.size()) == static_cast<ssize_t>(text.size())); }
  // The next line but for INFO, PP and BEAT; "" past the limit.
  std::string next() {
    for (;;) {
      const std::string line = any();
      if (line.find("INFO ") == std::string::npos && line.find("PP ") == std::string::npos && line.find("BEAT ") == std::string::npos) return line;
    }
  }
  std::string any() {
    for (;;) {
      const size_t end = pending_.find('\n');
      if (end != std::string::npos) {
        const std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      pollfd ready{out_[0], POLLIN, 0};
      if (::poll(&ready, 1, limit_ms) <= 0) return "";
      char buffer[4096];
      const ssize_t count = ::read(out_[0], buffer, sizeof buffer);
      if (count <= 0) return "";
      pending_.append(buffer, static_cast<size_t>(count));
    }
  }
  std::string until(const std::string& start) {
    std::string line = any();
    while (!line.empty() && line.compare(0, start.size(), start) != 0) line = any();
    return line;
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
  engine::Options options_;
  int in_[2], out_[2];
  std::string pending_;
  std::thread thread_;
  int status_ = -1;
};

bool starts_with(const std::string& text, const std::string& start) { return text.compare(0, start.size(), start) == 0; }
bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A model whose answers go on for long: no end token and a large context.
TinyLlama endless() {
  TinyLlama tiny;
  tiny.layers = 1;
  tiny.context = 200'000;
  return tiny;
}

}  // namespace

TEST_CASE("a child tells its load, itself and READY, then answers") {
  TinyLlama tiny;
  const ModelFile file(tiny.bytes());
  Child child(file.path);
  CHECK(child.any() == "INFO load=0.000");
  CHECK(child.any() == "INFO load=1.000");
  const std::string info = child.any();
  CHECK(contains(info, " context=512"));
  CHECK(contains(info, " kv=f16"));
  CHECK(contains(info, " engine=" VIGIL_VERSION));
  CHECK(child.any() == "READY 512 stop ids beat=1000 logprobs embeddings");
  child.send("GEN 2 1,2,3\n");
  CHECK(starts_with(child.any(), "PP 3 3 "));
  CHECK(starts_with(child.any(), "T "));
  CHECK(starts_with(child.any(), "T "));
  CHECK(starts_with(child.any(), "DONE 2 3 "));
  child.send("GEN 1 req=17 logprobs=2 1,2,3\n");
  CHECK(child.any() == "@17 RESUME 2");
  CHECK(starts_with(child.any(), "@17 PP 3 3 "));
  const std::string token = child.any();
  CHECK(starts_with(token, "@17 T "));
  CHECK(contains(token, " lp=-"));
  CHECK(contains(token, " top="));
  const std::string done = child.any();
  CHECK(starts_with(done, "@17 DONE 1 3 "));
  CHECK(ends_with(done, " length"));
  child.send("QUIT\n");
  CHECK(child.finish() == 0);
}

TEST_CASE("a child tells the memory of layers with a window") {
  tools::RandomModel model;
  model.architecture = "gpt-oss";
  model.context = 65536;
  const ModelFile file(random_file(model));
  engine::Options options;
  options.runtime.cache_mib = -1;
  options.runtime.slots = 1;
  Child child(file.path, options);
  std::string info = child.any();
  while (contains(info, "load=")) info = child.any();
  CHECK(contains(info, " kv_mib=9 "));  // 8 MiB of the layer that sees everything, and a little
  CHECK(contains(info, " window=16 window_kv_mib=1"));
}

TEST_CASE("a child with a draft model tells both, and how its guesses fared") {
  TinyLlama tiny, small;
  small.layers = 1;
  const ModelFile file(tiny.bytes()), draft(small.bytes());
  std::string plain;
  for (const bool drafts : {false, true}) {
    engine::Options options;
    if (drafts) options.runtime.draft_model = draft.path, options.runtime.speculate = 4, options.runtime.draft_sureness = 0;
    Child child(file.path, options);
    CHECK(child.any() == "INFO load=0.000");
    CHECK(child.any() == "INFO load=1.000");  // of both
    const std::string info = child.any();
    for (const char* word : {" draft_architecture=llama", " draft_context=512", " draft_weights_mib=1", " draft_kv_mib=1", " draft_scratch_mib="}) {
      CHECK(contains(info, word) == drafts);
    }
    child.until("READY");
    child.send("GEN 30 req=1 1,2,3\n");
    std::string said;
    for (std::string line = child.next(); starts_with(line, "@1 T "); line = child.next()) said += line;
    if (drafts) CHECK(said == plain);
    plain = said;
    if (!drafts) continue;
    const std::string fared = child.any();
    CHECK(starts_with(fared, "INFO steps="));
    CHECK(contains(fared, " tokens=30 looked_up="));
    CHECK(contains(fared, " drafted="));
    CHECK_FALSE(contains(fared, " drafted=0 "));
    CHECK(contains(fared, " drafted_right="));
  }
}

TEST_CASE("STOP ends what runs and what waits, and is silent otherwise") {
  const ModelFile file(endless().bytes());
  Child child(file.path);
  child.until("READY");
  child.send("STOP\nSTOP 4\n");  // idle
  child.send("GEN 150000 req=1 1,2\nGEN 5 req=2 3\nGEN 1 req=3 4\n");
  for (int i = 0; i < 3; ++i) CHECK(starts_with(child.next(), "@1 T "));
  child.send("STOP 2\nSTOP 99\nSTOP 1\n");
  std::string line = child.next();
  std::vector<std::string> endings;
  while (endings.size() < 2 && !line.empty()) {
    if (contains(line, "DONE")) endings.push_back(line);
    else CHECK(starts_with(line, "@1 T "));
    if (endings.size() < 2) line = child.next();
  }
  REQUIRE(endings.size() == 2);
  CHECK(endings[0] == "@2 DONE 0 0 0 0 cancel");
  CHECK(starts_with(endings[1], "@1 DONE "));
  CHECK(ends_with(endings[1], " cancel"));
  CHECK(starts_with(child.next(), "@3 T "));  // first in, first out
  CHECK(starts_with(child.next(), "@3 DONE 1 1 "));
  child.send("STOP 3\nSTOP\nGEN 1 5\n");
  CHECK(starts_with(child.next(), "T "));
  CHECK(starts_with(child.next(), "DONE 1 1 "));
}

TEST_CASE("an untagged STOP ends an untagged answer") {
  const ModelFile file(endless().bytes());
  Child child(file.path);
  child.until("READY");
  child.send("GEN 150000 1,2\n");
  CHECK(starts_with(child.next(), "T "));
  child.send("STOP\n");
  CHECK(ends_with(child.until("DONE "), " cancel"));
}

TEST_CASE("a bad request gets its ERR and the next one its answer") {
  TinyLlama tiny;
  const ModelFile file(tiny.bytes());
  Child child(file.path);
  child.until("READY");
  const auto answer = [&](const std::string& line) {
    child.send(line + "\n");
    return child.next();
  };
  CHECK(starts_with(answer("GEN 5 req=1 97"), "@1 ERR prompt id 97 at place 0 is not between 0 and 96"));
  CHECK(starts_with(answer("GEN 5 req=2 -1"), "@2 ERR "));
  CHECK(starts_with(answer("GEN 5 req=3 temperature=hot 1"), "@3 ERR "));
  CHECK(starts_with(answer("GEN 5 req=4 penalty_repeat=0 1"), "@4 ERR penalty_repeat"));
  CHECK(starts_with(answer("GEN 5 req=5 logit_bias=99999:1 1"), "@5 ERR logit_bias names token 99999"));
  CHECK(starts_with(answer("GEN five req=6 1"), "@6 ERR "));
  CHECK(starts_with(answer("GENI 5 req=7 /tmp/no-such-embeddings 1"), "@7 ERR the embeddings file cannot be opened: "));
  CHECK(starts_with(answer("GEN 5 req=8"), "@8 ERR "));
  CHECK(starts_with(answer("NONSENSE"), "ERR "));
  CHECK(starts_with(answer("GEN 5 99"), "ERR prompt id 99"));
  std::string longest = "1";
  for (int i = 0; i < 511; ++i) longest += ",1";
  CHECK(starts_with(answer("GEN 5 req=9 " + longest), "@9 ERR the prompt of 512 tokens leaves no room in the context of 512"));
  CHECK(starts_with(answer(std::string("GEN 5 req=10 1,\0002", 18)), "@10 ERR "));
  CHECK(starts_with(answer("GEN 1 req=11 1"), "@11 T "));
  CHECK(starts_with(child.next(), "@11 DONE 1 1 "));
}

TEST_CASE("a second request with the number of a running one is refused untagged") {
  const ModelFile file(endless().bytes());
  Child child(file.path);
  child.until("READY");
  child.send("GEN 150000 req=1 1\nGEN 3 req=1 2\n");
  CHECK(starts_with(child.until("ERR"), "ERR req=1 is in use"));
  child.send("STOP 1\n");
  CHECK(ends_with(child.until("@1 DONE"), " cancel"));
}

TEST_CASE("slots run at once, each with its own lines, and beats name them all") {
  engine::Options options;
  options.runtime.slots = 2;
  options.beat_ms = 10;
  const ModelFile file(endless().bytes());
  Child child(file.path, options);
  CHECK(contains(child.until("READY"), " slots=2 "));
  child.send("GEN 150000 req=1 1,2\nGEN 150000 req=2 3\nGEN 4 req=3 5\n");
  CHECK(contains(child.until("BEAT"), " active=1,2,3"));
  int first = 0, second = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string line = child.next();
    first += starts_with(line, "@1 T ");
    second += starts_with(line, "@2 T ");
  }
  CHECK(first >= 15);
  CHECK(second >= 15);
  child.send("STOP 1\n");
  CHECK(ends_with(child.until("@1 DONE"), " cancel"));
  CHECK(starts_with(child.until("@3 T"), "@3 T "));  // it has the place now
  CHECK(starts_with(child.until("@3 DONE"), "@3 DONE 4 1 "));
  CHECK(starts_with(child.until("@2 T"), "@2 T "));
  CHECK(contains(child.until("BEAT"), " active=2"));
  child.send("STOP 2\n");
  CHECK(ends_with(child.until("@2 DONE"), " cancel"));
}

TEST_CASE("EMB is answered with V lines and DONE, and refused with a reason") {
  TinyLlama tiny;
  const ModelFile file(tiny.bytes());
  Child child(file.path);
  child.until("READY");
  child.send("EMB req=4 pool=mean 1,2,3\n");
  const auto line = protocol::parse_engine_line(child.next());
  REQUIRE(line);
  CHECK(line->request == 4);
  const auto& part = std::get<protocol::VectorPart>(line->event);
  CHECK(part.offset == 0);
  CHECK(part.values.size() == 64);
  CHECK(starts_with(child.next(), "@4 DONE 0 3 "));
  child.send("EMB pool=last 97\n");
  CHECK(starts_with(child.next(), "ERR prompt id 97 at place 0"));
  std::string ids = "1";
  for (int i = 0; i < 511; ++i) ids += ",1";
  child.send("EMB req=5 pool=cls " + ids + "\n");  // a vector needs no room behind it
  CHECK(starts_with(child.next(), "@5 V 0 "));
  CHECK(starts_with(child.next(), "@5 DONE 0 512 "));
  child.send("EMB req=6 pool=cls " + ids + ",1\n");
  CHECK(starts_with(child.next(), "@6 ERR the text of 513 tokens is longer than the context of 512"));
}

TEST_CASE("beats come while a request is active and count what was computed") {
  engine::Options options;
  options.beat_ms = 10;
  const ModelFile file(endless().bytes());
  Child child(file.path, options);
  CHECK(contains(child.until("READY"), "beat=10"));
  child.send("GEN 150000 req=1 1,2\n");
  const auto step = [&] { return std::stoull(child.until("BEAT step=").substr(10)); };
  const uint64_t first = step();
  uint64_t later = step();
  for (int i = 0; i < 50 && later == first; ++i) later = step();
  CHECK(later > first);
  child.send("STOP 1\n");
  child.until("@1 DONE");
  child.send("GEN 1 req=2 999\n");
  CHECK(starts_with(child.any(), "@2 ERR"));  // nothing between
}

TEST_CASE("end of input and QUIT end the child, whatever runs") {
  const ModelFile file(endless().bytes());
  {
    Child child(file.path);
    child.until("READY");
    child.send("GEN 150000 req=1 1\n");
    CHECK(starts_with(child.next(), "@1 T "));
    child.send("QUIT\n");
    CHECK(child.finish() == 0);
  }
  {
    Child child(file.path);
    child.until("READY");
    child.send("GEN 150000 req=1 1\nGEN 5 req=2 1\n");
    child.hang_up();
    CHECK(child.finish() == 0);
  }
  Child child(file.path);
  child.hang_up();  // before or during the load
  CHECK(child.finish() == 0);
}

TEST_CASE("a model that cannot be served is FATAL, in one line") {
  const auto fatal = [](const std::string& path, engine::Options options = {}) {
    Child child(path, options);
    const std::string line = child.next();
    CHECK(child.finish() == 1);
    return line;
  };
  CHECK(contains(fatal("/nonexistent/model.gguf"), "FATAL"));
  CHECK(contains(fatal("/nonexistent/model.gguf"), "/nonexistent/model.gguf"));
  TinyLlama tiny;
  tiny.leave_out = "blk.1.ffn_up.weight";
  const ModelFile missing(tiny.bytes());
  CHECK(contains(fatal(missing.path), "blk.1.ffn_up.weight"));
  const ModelFile good(TinyLlama().bytes());
  engine::Options huge;
  huge.runtime.context = 1 << 30;
  huge.runtime.kv_type = compute::KvType::f32;
  CHECK(contains(fatal(good.path, huge), "does not fit into memory"));
  engine::Options drafting;
  drafting.runtime.speculate = 4;
  drafting.runtime.draft_model = "/nonexistent/draft.gguf";
  CHECK(contains(fatal(good.path, drafting), "FATAL draft model: cannot open '/nonexistent/draft.gguf'"));
  drafting.runtime.draft_model = missing.path;
  CHECK(contains(fatal(good.path, drafting), good.path + ": draft model " + missing.path + ": tensor 'blk.1.ffn_up.weight' is missing"));
  engine::Options cuda;
  cuda.runtime.backend.backend = "cuda";
  CHECK(contains(fatal(good.path, cuda), "--backend cuda"));
}

TEST_CASE("command line flags are checked by name") {
  const auto refusal = [](std::vector<std::string_view> arguments) {
    const auto options = engine::parse_options(arguments);
    return options ? std::string() : options.error();
  };
  CHECK(contains(refusal({}), "--model"));
  CHECK(contains(refusal({"--model"}), "'--model' needs a value"));
  CHECK(contains(refusal({"--model", "m", "--context", "-5"}), "--context '-5'"));
  CHECK(contains(refusal({"--model", "m", "--context", "12k"}), "--context '12k'"));
  CHECK(contains(refusal({"--model", "m", "--slots", "1025"}), "--slots '1025'"));
  CHECK(contains(refusal({"--model", "m", "--speculate", "65"}), "--speculate '65'"));
  CHECK(contains(refusal({"--model", "m", "--draft-model", "d", "--speculate", "0"}), "--draft-model needs a --speculate above 0"));
  CHECK(contains(refusal({"--model", "m", "--cache-mib", "-2"}), "--cache-mib '-2'"));
  CHECK(contains(refusal({"--model", "m", "--kv-type", "q8"}), "--kv-type 'q8'"));
  CHECK(contains(refusal({"--model", "m", "--step-ms", "0"}), "--step-ms '0'"));
  CHECK(contains(refusal({"--model", "m", "--gpu-layers", "-2"}), "--gpu-layers '-2'"));
  CHECK(contains(refusal({"--model", "m", "--gpu-reserve-mib", "-2"}), "--gpu-reserve-mib '-2'"));
  CHECK(contains(refusal({"--model", "m", "--layer-split", "3;1"}), "--layer-split '3;1'"));
  CHECK(contains(refusal({"--model", "m", "--gpu-experts", "-2"}), "--gpu-experts '-2'"));
  CHECK(contains(refusal({"--model", "m", "--expert-swap-mib", "-1"}), "--expert-swap-mib '-1'"));
  CHECK(contains(refusal({"--model", "m", "--cuda-graphs", "yes"}), "--cuda-graphs 'yes'"));
  CHECK(contains(refusal({"--model", "m", "--nosuch", "0"}), "'--nosuch'"));
  const std::vector<std::string_view> good{"--model=m.gguf", "--context", "4096", "--threads", "3", "--kv-type", "f32", "--slots", "3",
                                           "--step-ms", "200", "--backend", "cpu", "--cache-mib=-1", "--speculate", "5",
                                           "--gpu-layers", "12", "--layer-split", "3,1", "--gpu-reserve-mib", "700", "--cuda-graphs", "off",
                                           "--gpu-experts", "24", "--expert-swap-mib", "0"};
  const auto options = engine::parse_options(good);
  REQUIRE(options);
  CHECK(options->model == "m.gguf");
  CHECK(options->runtime.context == 4096);
  CHECK(options->runtime.backend.threads == 3);
  CHECK(options->runtime.kv_type == compute::KvType::f32);
  CHECK(options->step_ms == 200);
  CHECK(options->runtime.slots == 3);
  CHECK(options->runtime.cache_mib == -1);
  CHECK(options->runtime.speculate == 5);
  CHECK(options->runtime.draft_model == "");
  CHECK(options->runtime.gpu_layers == 12);
  CHECK(options->runtime.layer_split == std::vector<double>{3, 1});
  CHECK(options->runtime.gpu_reserve_mib == 700);
  CHECK(options->runtime.gpu_experts == 24);
  CHECK(options->runtime.expert_swap_mib == 0);
  CHECK_FALSE(options->runtime.backend.gpu.graphs);
  const auto drafting = engine::parse_options(std::vector<std::string_view>{"--model", "m", "--draft-model", "d.gguf"});
  REQUIRE(drafting);
  CHECK(drafting->runtime.draft_model == "d.gguf");
  CHECK(drafting->runtime.speculate == engine::default_draft_guesses);
  CHECK(engine::parse_options(std::vector<std::string_view>{"--speculate=3", "--draft-model=d", "--model=m"})->runtime.speculate == 3);
  CHECK(engine::parse_options(std::vector<std::string_view>{"--model", "m", "--slots", "0"})->runtime.slots == engine::default_slots);
}
