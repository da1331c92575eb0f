// Precedence, types and ranges, and that every mistake is reported with its source and key.
#include <catch2/catch.hpp>

#include "tests/server/config/config_support.hpp"

using namespace vigil::config;

TEST_CASE("flag over environment over file over default") {
  const Folder folder;
  const std::string file = folder.write("vigil.json", R"({"engine": {"ready_s": 1, "stall_s": 1, "step_s": 1}, // a remark
    "port": 1})");
  Sources sources{file, {{"VIGIL_ENGINE_READY_S", "2"}, {"VIGIL_ENGINE_STALL_S", "2"}, {"HOME", "/home/someone"}}, {"engine.ready_s=3", "port=4", "port=5"}, "/"};
  const Loaded loaded = load(sources);
  INFO(joined(loaded.mistakes));
  REQUIRE(loaded.ok());
  CHECK(loaded.config.engine.ready_s == 3);
  CHECK(loaded.config.engine.stall_s == 2);
  CHECK(loaded.config.engine.step_s == 1);
  CHECK(loaded.config.engine.silence_s == 300);
  CHECK(loaded.config.port == 5);
}

TEST_CASE("a value of every type, from text") {
  const Loaded loaded = from_environment({{"VIGIL_ENGINE_READY_S", "0.25"},
                                          {"VIGIL_PORT", "0"},
                                          {"VIGIL_ENGINE_GPU_LAYERS", "-1"},
                                          {"VIGIL_MODEL_NAME", "a name = with signs"},
                                          {"VIGIL_ALIASES", R"(["a", "b c"])"},
                                          {"VIGIL_ENGINE_ENV", R"({"A": "1", "B": ""})"},
                                          {"VIGIL_ENGINE_OWN", "true"},
                                          {"VIGIL_ALLOW_REMOTE_WITHOUT_KEY", "0"}});
  INFO(joined(loaded.mistakes));
  REQUIRE(loaded.ok());
  CHECK(loaded.config.engine.ready_s == 0.25);
  CHECK(loaded.config.port == 0);
  CHECK(loaded.config.model_name == "a name = with signs");
  CHECK((loaded.config.aliases == std::vector<std::string>{"a", "b c"}));
  CHECK((loaded.config.engine.env == std::map<std::string, std::string>{{"A", "1"}, {"B", ""}}));
  CHECK(loaded.config.engine.own);
  CHECK_FALSE(loaded.config.allow_remote_without_key);
}

TEST_CASE("whole numbers may be written as floats, seconds as integers") {
  const Loaded loaded = from_text(R"({"port": 80.0, "http": {"body_bytes": 1e6}, "drain_s": 5})");
  INFO(joined(loaded.mistakes));
  REQUIRE(loaded.ok());
  CHECK(loaded.config.port == 80);
  CHECK(loaded.config.http.body_bytes == 1000000);
  CHECK(loaded.config.drain_s == 5);
}

TEST_CASE("every mistake is reported, not only the first") {
  const Folder folder;
  const std::string file = folder.write("bad.json", R"({"prot": 1, "port": "8080", "engine": {"redy_s": 1, "stall_s": -1}, "queue": 5, "vision": {"image_bytes": 0}})");
  const Loaded loaded = load(Sources{file, {{"VIGIL_ENGINE_STOP_S", "soon"}, {"VIGIL_ENGIN_STOP_S", "1"}}, {"engine.exec_s=0", "nonsense", "no.such=1"}, "/"});
  const std::string all = joined(loaded.mistakes);
  INFO(all);
  CHECK(loaded.mistakes.size() == 11);
  for (const char* part : {"unknown key 'prot'; the nearest known key is 'port'", "port: \"8080\" is not a whole number from 0 to 65535",
                           "unknown key 'engine.redy_s'; the nearest known key is 'engine.ready_s'", "engine.stall_s: -1 is not a number from 0.001",
                           "queue: is not an object", "vision.image_bytes: 0 is not a whole number from 1", "VIGIL_ENGINE_STOP_S (engine.stop_s): 'soon' is not a number",
                           "unknown variable VIGIL_ENGIN_STOP_S; the nearest known one is VIGIL_ENGINE_STOP_S", "--set engine.exec_s: '0' is not a number",
                           "--set nonsense: is not path.to.key=value", "--set: unknown key 'no.such'"}) {
    INFO(part);
    CHECK(all.find(part) != std::string::npos);
  }
  CHECK(all.find(file + ": ") != std::string::npos);
}

TEST_CASE("single mistakes name key, value and what is wanted") {
  struct Row {
    const char* text;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {"[]", {"is not a JSON object"}},
      {"{", {"line 1, column 2"}},
      {"{\"port\": 1,\n \"port\": 2}", {"'port' stands twice"}},
      {R"({"engine": {"env": {"A": "1", "A": "2"}}})", {"'A' stands twice"}},
      {R"({"port": 65536})", {"port: 65536", "0 to 65535"}},
      {R"({"port": 1.5})", {"port: 1.5"}},
      {R"({"port": null})", {"port: null"}},
      {R"({"port": true})", {"port: true"}},
      {R"({"port": 18446744073709551615})", {"port"}},
      {R"({"host": 5})", {"host: 5 is not a text"}},
      {R"({"host": ""})", {"host: is empty"}},
      {R"({"host": "a b"})", {"host"}},
      {R"({"host": "a\nb"})", {"host: holds a control byte"}},
      {R"({"allow_remote_without_key": "yes"})", {"is not true or false"}},
      {R"({"aliases": "a"})", {"aliases", "list"}},
      {R"({"aliases": ["a", 5]})", {"aliases", "element 2"}},
      {R"({"aliases": [""]})", {"aliases"}},
      {R"({"engine": []})", {"engine: is not an object"}},
      {R"({"engine": {"env": ["A=1"]}})", {"engine.env", "object"}},
      {R"({"engine": {"env": {"A": 1}}})", {"engine.env", "'A'"}},
      {R"({"engine": {"env": {"A=B": "1"}}})", {"engine.env", "'A=B'"}},
      {R"({"engine": {"env": {"A": "x\u0000y"}}})", {"engine.env", "NUL"}},
      {R"({"engine": {"env": {"VIGIL_CHILD": "1"}}})", {"VIGIL_CHILD"}},
      {R"({"engine": {"exe": ""}})", {"engine.exe: is empty"}},
      {R"({"engine": {"start": "now"}})", {"engine.start: 'now'", "eager|lazy"}},
      {R"({"engine": {"start": "eager|lazy"}})", {"engine.start"}},
      {R"({"engine": {"ready_s": "8"}})", {"engine.ready_s: \"8\" is not a number"}},
      {R"({"engine": {"ready_s": 1e999}})", {"number"}},
      {R"({"engine": {"ready_s": -0.5}})", {"engine.ready_s: -0.5", "or 0 (off)"}},
      {R"({"engine": {"ready_s": 1e9}})", {"engine.ready_s", "100000000"}},
      {R"({"engine": {"context": -1}})", {"engine.context: -1", "tokens"}},
      {R"({"engine.ready_s": 8})", {"engine.ready_s", "nested object"}},
      {R"({"http": {"write_buffer_bytes": 65535}})", {"http.write_buffer_bytes", "65536"}},
      {R"({"http": {"body_bytes": 2000, "body_total_bytes": 1000}})", {"http.body_total_bytes", "http.body_bytes"}},
      {R"({"http": {"keepalive_s": 0.01}})", {"http.keepalive_s"}},
      {R"({"cors_origins": ["app.example"]})", {"cors_origins", "app.example"}},
      {R"({"cors_origins": ["https://app.example/x"]})", {"cors_origins"}},
      {R"({"allowed_hosts": ["http://a"]})", {"allowed_hosts"}},
      {R"({"vision": {"url_allow": ["ftp://x"]}})", {"vision.url_allow: 'ftp://x' does not begin with http:// or https://"}},
      {R"({"vision": {"url_allow": ["https://a", "https://*.b"]}})", {"vision.url_allow: 'https://*.b' has a *"}},
      {R"({"vision": {"url_allow": ["https://u@a/"]}})", {"vision.url_allow", "user name"}},
      {R"({"vision": {"url_allow": ["http://0x7f.1/"]}})", {"vision.url_allow", "host"}},
      {R"({"chat_template_file": "/nonexistent/t.jinja"})", {"chat_template_file: /nonexistent/t.jinja"}},
  };
  for (const Row& row : rows) {
    const Loaded loaded = from_text(row.text);
    INFO(row.text << " -> " << joined(loaded.mistakes));
    CHECK(one_mistake(loaded, row.parts));
  }
}

TEST_CASE("0 switches a limit off where that makes sense, and only there") {
  for (const char* text : {R"({"engine": {"ready_s": 0}})", R"({"engine": {"stall_s": 0}})", R"({"queue": {"limit": 0, "wait_s": 0}})",
                           R"({"http": {"keepalive_s": 0, "idle_s": 0, "commit_s": 0}})", R"({"engine": {"stop_s": 0}})", R"({"drain_s": 0})"}) {
    INFO(text);
    CHECK(from_text(text).ok());
  }
  for (const char* text : {R"({"engine": {"exec_s": 0}})", R"({"engine": {"step_ms": 0}})", R"({"http": {"header_bytes": 0}})",
                           R"({"http": {"body_bytes": 0}})", R"({"vision": {"image_bytes": 0}})"}) {
    INFO(text);
    CHECK(from_text(text).mistakes.size() == 1);
  }
}

TEST_CASE("texts of numbers from the environment are strict") {
  for (const char* text : {"", " 8", "8 ", "8s", "+8", "nan", "inf", "0x8", "1,5", "--8"}) {
    INFO(text);
    CHECK(one_mistake(from_environment({{"VIGIL_ENGINE_READY_S", text}}), {"VIGIL_ENGINE_READY_S", "engine.ready_s"}));
    CHECK(one_mistake(from_environment({{"VIGIL_PORT", text}}), {"VIGIL_PORT"}));
  }
  CHECK(from_environment({{"VIGIL_ENGINE_READY_S", "8"}}).config.engine.ready_s == 8);
  CHECK(one_mistake(from_environment({{"VIGIL_ALIASES", "a,b"}}), {"VIGIL_ALIASES", "JSON list"}));
  CHECK(one_mistake(from_environment({{"VIGIL_ENGINE_ENV", "A=1"}}), {"VIGIL_ENGINE_ENV", "JSON object"}));
}

TEST_CASE("variables of others are left alone") {
  CHECK(from_environment({{"VIGIL_API_KEY", "x"}, {"VIGIL_CHILD", "a.engine.1"}, {"VIGIL_SHARED", "/s"}, {"VIGILANT", "1"}, {"PATH", "/bin"}}).ok());
  CHECK(one_mistake(from_environment({{"VIGIL_APIKEYS", "[]"}}), {"VIGIL_APIKEYS", "VIGIL_API_KEYS"}));
  CHECK(one_mistake(from_environment({{"VIGIL_", ""}}), {"unknown variable VIGIL_"}));
  CHECK(one_mistake(from_environment({{"VIGIL_engine_ready_s", "1"}}), {"unknown variable"}));
}

TEST_CASE("the flag --set reaches single entries of a map, and keeps signs of equality in the value") {
  const Loaded loaded = from_sets({"engine.env.HF_HOME=/a=b", "engine.env.EMPTY=", "engine.args=[\"--x=1\"]"});
  INFO(joined(loaded.mistakes));
  REQUIRE(loaded.ok());
  CHECK(loaded.config.engine.env.at("HF_HOME") == "/a=b");
  CHECK(loaded.config.engine.env.at("EMPTY").empty());
  CHECK(loaded.config.engine.args.at(0) == "--x=1");
  CHECK(one_mistake(from_sets({"=5"}), {"--set =5"}));
  CHECK(one_mistake(from_sets({"engine=5"}), {"unknown key 'engine'"}));
}

TEST_CASE("relative paths begin at the file, or at the working directory for environment and flags") {
  const Folder folder;
  const std::string file = folder.write("conf/vigil.json", R"({"model": "m.gguf", "engine": {"exe": "./engine.sh", "log": "../engine.log", "cwd": "/abs"}})");
  const Loaded loaded = load(Sources{file, {{"VIGIL_VISION_EXE", "bin/eyes"}}, {}, "/start here"});
  INFO(joined(loaded.mistakes));
  REQUIRE(loaded.ok());
  CHECK(loaded.config.model == folder.path() + "/conf/m.gguf");
  CHECK(loaded.config.engine.exe == folder.path() + "/conf/engine.sh");
  CHECK(loaded.config.engine.log == folder.path() + "/engine.log");
  CHECK(loaded.config.engine.cwd == "/abs");
  CHECK(loaded.config.vision.exe == "/start here/bin/eyes");
  CHECK(load(Sources{file, {}, {"engine.exe=./e", "model=x.gguf"}, "/w"}).config.engine.exe == "/w/e");
  CHECK(load(Sources{file, {}, {"engine.exe=./e", "model=x.gguf"}, "/w"}).config.model == "/w/x.gguf");
  CHECK(load(Sources{file, {}, {"engine.exe=bare", "model="}, "/w"}).config.engine.exe == "bare");
  CHECK(load(Sources{file, {}, {"engine.exe=bare", "model="}, "/w"}).config.model.empty());
  CHECK(load(Sources{"vigil.json", {}, {}, folder.path() + "/conf"}).config.model == folder.path() + "/conf/m.gguf");
}

TEST_CASE("a file that cannot be read is one mistake that names it") {
  const Folder folder;
  CHECK(one_mistake(load(Sources{folder.path() + "/none.json", {}, {}, "/"}), {folder.path() + "/none.json", "cannot be read", "No such file"}));
  CHECK(one_mistake(load(Sources{folder.path(), {}, {}, "/"}), {"is a directory"}));
  // One that an editor has emptied and not written yet: it may not stand for "everything is the default".
  CHECK(one_mistake(load(Sources{folder.write("empty.json", ""), {}, {}, "/"}), {"empty.json", "is empty"}));
  CHECK(one_mistake(load(Sources{folder.write("blank.json", " \n"), {}, {}, "/"}), {"is empty"}));
  CHECK(load(Sources{folder.write("nothing.json", "{}"), {}, {}, "/"}).ok());
  CHECK(one_mistake(load(Sources{folder.write("big.json", std::string(max_file_bytes + 1, ' ')), {}, {}, "/"}), {"larger than 1048576"}));
  CHECK(one_mistake(load(Sources{folder.write("remark.json", "// only\n"), {}, {}, "/"}), {"line"}));
}

TEST_CASE("deep nesting and another program's file end in bounded output") {
  CHECK_FALSE(from_text(std::string(1000000, '[')).ok());
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"k" + std::to_string(i) + "\": 1,";
  many += "\"last\": 1}";
  CHECK(from_text(many).mistakes.size() == 100);
}
