// Keys, hosts, secrets in output, and whose program an exe is.
#include <catch2/catch.hpp>

#include <sys/stat.h>

#include "server/config/checks.hpp"
#include "server/config/program.hpp"
#include "server/json/json.hpp"
#include "tests/server/config/config_support.hpp"

using namespace vigil::config;

TEST_CASE("an empty API key is refused: it would let everybody in") {
  CHECK(one_mistake(from_text(R"({"api_keys": [""]})"), {"api_keys: element 1 is empty"}));
  CHECK(one_mistake(from_text(R"({"api_keys": ["good", ""]})"), {"element 2"}));
  CHECK(one_mistake(from_text(R"({"api_keys": ["two words"]})"), {"element 1", "blank"}));
  CHECK(one_mistake(from_text(R"({"api_keys": "s3cret-value"})"), {"api_keys: the value is not a list"}));
  CHECK(one_mistake(from_environment({{"VIGIL_API_KEYS", "s3cret-value"}}), {"VIGIL_API_KEYS", "JSON list"}));
}

TEST_CASE("no mistake repeats a secret") {
  for (const char* text : {R"({"api_keys": "s3cret-value"})", R"({"api_keys": {"s3cret-value": 1}})", R"({"api_keys": ["s3cret value"]})",
                           R"({"api_keys": ["s3cret-value})", R"({"api_keys": [s3cret-value"]})"}) {
    const Loaded loaded = from_text(text);
    INFO(joined(loaded.mistakes));
    REQUIRE_FALSE(loaded.ok());
    CHECK(joined(loaded.mistakes).find("s3cret") == std::string::npos);
  }
  for (const char* text : {"s3cret-value", "[\"s3cret-value", "[s3cret-value]"}) {
    const Loaded loaded = from_environment({{"VIGIL_API_KEYS", text}});
    INFO(joined(loaded.mistakes));
    REQUIRE_FALSE(loaded.ok());
    CHECK(joined(loaded.mistakes).find("s3cret") == std::string::npos);
  }
}

TEST_CASE("the key file: one key a line, remarks and blank lines passed over") {
  const Folder folder;
  const auto with = [&](const std::string& text) {
    return load(Sources{"", {}, {"api_keys=[\"first\"]", "api_key_file=" + folder.write("keys", text)}, folder.path()});
  };
  const Loaded loaded = with("# mine\n\n  second  \r\nthird#not-a-remark\n\t\nfourth");
  INFO(joined(loaded.mistakes));
  REQUIRE(loaded.ok());
  CHECK((loaded.api_keys == std::vector<std::string>{"first", "second", "third#not-a-remark", "fourth"}));
  CHECK((loaded.config.api_keys == std::vector<std::string>{"first"}));

  CHECK(one_mistake(with(""), {"api_key_file", "holds no key"}));
  CHECK(one_mistake(with("# nothing\n\n"), {"holds no key"}));
  CHECK(with("two words\n").mistakes.at(0).find("line 1") != std::string::npos);
  CHECK(one_mistake(load(Sources{"", {}, {"api_key_file=/nonexistent/keys"}, "/"}), {"api_key_file: /nonexistent/keys", "cannot be read"}));

  const std::string file = folder.write("keys", "k\n");
  ::chmod(file.c_str(), 0644);
  CHECK(joined(load(Sources{"", {}, {"api_key_file=" + file}, "/"}).notes).find("chmod 600") != std::string::npos);
  ::chmod(file.c_str(), 0600);
  CHECK(load(Sources{"", {}, {"api_key_file=" + file}, "/"}).notes.empty());
}

TEST_CASE("a host that others can reach needs a key, or a word for it") {
  for (const char* host : {"0.0.0.0", "::", "192.168.1.5", "example.org", "1270.0.0.1", "127.0.0.1.example.org", "localhost.example.org", "[::]"}) {
    INFO(host);
    CHECK_FALSE(is_loopback_host(host));
    CHECK(one_mistake(from_sets({std::string("host=") + host}), {"host", "api_key"}));
    CHECK(from_sets({std::string("host=") + host, "api_keys=[\"k\"]"}).ok());
    CHECK(from_sets({std::string("host=") + host, "allow_remote_without_key=true"}).ok());
  }
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"}) {
    INFO(host);
    CHECK(from_sets({std::string("host=") + host}).ok());
  }
  const Folder folder;
  CHECK(load(Sources{"", {}, {"host=0.0.0.0", "api_key_file=" + folder.write("keys", "k\n")}, "/"}).ok());
}

TEST_CASE("the effective configuration hides secrets, and shown it loads as the same again") {
  Config config;
  config.api_keys = {"s3cret", "other"};
  config.engine.env = {{"HF_TOKEN", "s3cret"}, {"OMP_NUM_THREADS", "2"}};
  config.model = "/m \"x\".gguf";
  config.engine.stall_s = 0.5;
  config.engine.exe = "/bin/engine";
  const auto hidden = nlohmann::json::parse(to_json(config));
  CHECK(to_json(config).find("s3cret") == std::string::npos);
  CHECK(hidden["api_keys"] == nlohmann::json::array({"***", "***"}));
  CHECK(hidden["engine"]["env"]["HF_TOKEN"] == "***");
  CHECK(hidden["engine"]["env"]["OMP_NUM_THREADS"] == "2");
  CHECK(hidden["engine"]["stall_s"] == 0.5);
  const std::string shown = to_json(config, Secrets::shown);
  const Loaded again = from_text(shown);
  INFO(joined(again.mistakes));
  REQUIRE(again.ok());
  CHECK(to_json(again.config, Secrets::shown) == shown);
  config.model = "\xff";
  CHECK_NOTHROW(to_json(config));
}

TEST_CASE("notes warn of limits that leave a wait unbounded") {
  CHECK(from_text("{}").notes.empty());
  CHECK(joined(from_text(R"({"engine": {"ready_s": 0, "load_max_s": 0}})").notes).find("never reports READY") != std::string::npos);
  CHECK(joined(from_text(R"({"engine": {"stall_s": 0, "silence_s": 0}})").notes).find("went silent") != std::string::npos);
  CHECK(joined(from_text(R"({"vision": {"url_allow": ["https://a"], "url_total_bytes": 1000}})").notes).find("vision.url_total_bytes (1000)") != std::string::npos);
  CHECK(joined(from_text(R"({"engine": {"ready_s": 7200}})").notes).find("engine.load_max_s") != std::string::npos);
}

TEST_CASE("layers on GPUs and their shares must be numbers, and agree with the backend") {
  CHECK(from_sets({"engine.gpu_layers=-1", "engine.layer_split="}).ok());
  CHECK(from_sets({"engine.gpu_layers=0"}).ok());
  CHECK(from_sets({"engine.gpu_layers=60", "engine.layer_split=3,1"}).ok());
  CHECK(one_mistake(from_sets({"engine.gpu_layers=60", "engine.backend=cpu"}), {"engine.gpu_layers: 60", "engine.backend"}));
  CHECK(one_mistake(from_sets({"engine.gpu_layers=0", "engine.backend=cuda"}), {"engine.gpu_layers: 0", "engine.backend"}));
  CHECK(one_mistake(from_sets({"engine.layer_split=3,one"}), {"engine.layer_split", "no number"}));
  CHECK(one_mistake(from_sets({"engine.layer_split=0,0"}), {"engine.layer_split", "gives no GPU a part"}));
}

TEST_CASE("a reload says what changes and when it holds") {
  Config before;
  Config after;
  after.http.write_s = 5;
  after.port = 1;
  after.model = "/x.gguf";
  after.api_keys = {"s3cret"};
  const std::string text = joined(describe_changes(before, after));
  INFO(text);
  CHECK(text.find("http.write_s: 30.0 -> 5.0, for new requests") != std::string::npos);
  CHECK(text.find("port: 8080 -> 1, after a restart") != std::string::npos);
  CHECK(text.find("model: \"\" -> \"/x.gguf\", at the next start") != std::string::npos);
  CHECK(text.find("api_keys: changed, for new requests") != std::string::npos);
  CHECK(text.find("s3cret") == std::string::npos);
  CHECK(describe_changes(before, before).empty());
}

TEST_CASE("a program is looked up beside the daemon, then in PATH; the one beside the daemon is our own") {
  const Folder folder;
  const auto script = [&](const std::string& name, mode_t mode) {
    const std::string file = folder.write(name, "#!/bin/sh\n");
    ::chmod(file.c_str(), mode);
    return file;
  };
  const std::string ours = script("daemon/vigil-engine", 0755);
  const std::string other = script("path/other", 0755);
  script("path/vigil-engine", 0755);
  const std::string plain = script("path/plain", 0644);
  ProgramQuery query{"engine.exe", "vigil-engine", false, "vigil-engine", folder.path() + "/daemon", "relative::" + folder.path() + "/path"};
  auto found = resolve_program(query);
  REQUIRE(found.ok());
  CHECK(found->path == ours);
  CHECK(found->own);

  query.exe = "other";
  found = resolve_program(query);
  REQUIRE(found.ok());
  CHECK(found->path == other);
  CHECK_FALSE(found->own);
  query.told_own = true;
  CHECK(resolve_program(query)->own);
  query.told_own = false;

  query.exe = folder.path() + "/path/vigil-engine";  // the same name elsewhere is a foreign engine
  CHECK_FALSE(resolve_program(query)->own);
  std::filesystem::create_symlink(ours, folder.path() + "/path/link");
  query.exe = folder.path() + "/path/link";  // a link to ours is ours
  CHECK(resolve_program(query)->own);

  for (const auto& [exe, says] : std::vector<std::pair<std::string, std::string>>{
           {plain, "is not executable"}, {folder.path() + "/path", "is not a file"}, {"/nonexistent/engine", "does not exist"}, {"nosuch", "nor in PATH"}, {"plain", "nor in PATH"}}) {
    query.exe = exe;
    const auto missing = resolve_program(query);
    REQUIRE_FALSE(missing.ok());
    INFO(missing.error());
    CHECK(missing.error().find(says) != std::string::npos);
    CHECK(missing.error().find("engine.exe") != std::string::npos);
  }
}
