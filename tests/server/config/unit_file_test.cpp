// The systemd unit: the keys that the daemon's promises rest on, and that its stop limit fits the configuration's defaults.
#include <catch2/catch.hpp>

#include <fstream>
#include <map>
#include <string>

#include "server/config/config.hpp"

namespace {

// "Section.Key" -> value; every key once.
std::map<std::string, std::string> unit(const std::string& name) {
  std::ifstream in(std::string(VIGIL_SOURCE_DIR) + "/tools/systemd/" + name);
  REQUIRE(in.good());
  std::map<std::string, std::string> keys;
  std::string section;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section = line.substr(1, line.find(']') - 1);
      continue;
    }
    const size_t equals = line.find('=');
    INFO(line);
    REQUIRE(equals != std::string::npos);
    CHECK(keys.emplace(section + "." + line.substr(0, equals), line.substr(equals + 1)).second);
  }
  return keys;
}

}  // namespace

TEST_CASE("vigil.service has the contract's keys") {
  auto keys = unit("vigil.service");
  CHECK(keys["Service.Type"] == "notify");
  CHECK(keys["Service.NotifyAccess"] == "main");
  CHECK(keys["Service.KillMode"] == "mixed");
  CHECK(keys["Service.OOMPolicy"] == "continue");
  CHECK(keys["Service.Restart"] == "always");
  CHECK(keys["Service.WatchdogSec"] == "30");
  CHECK(keys["Service.LimitNOFILE"] == "65536");
  CHECK(keys["Service.ExecReload"] == "/bin/kill -HUP $MAINPID");
  CHECK(keys["Service.ExecStart"].find("/vigil serve") != std::string::npos);
  CHECK(keys["Install.WantedBy"] == "multi-user.target");
}

TEST_CASE("under vigil.service a GPU's device file is made and its compiler has a place") {
  auto keys = unit("vigil.service");
  REQUIRE(keys["Service.NoNewPrivileges"] == "yes");  // or the engine could have it made
  CHECK(keys["Service.ExecStartPre"] == "+-/usr/bin/nvidia-modprobe -c0 -u");
  CHECK(keys["Service.Environment"] == "CUDA_CACHE_PATH=" + keys["Service.WorkingDirectory"] + "/cuda");
  CHECK(keys["Service.WorkingDirectory"] == "/var/lib/" + keys["Service.StateDirectory"]);
}

TEST_CASE("systemd waits longer than the daemon may take to stop") {
  auto keys = unit("vigil.service");
  const vigil::config::Config config;
  CHECK(std::stod(keys["Service.TimeoutStopSec"]) > config.drain_s + config.engine.stop_s + 5);
  // It notices a stuck daemon by the watchdog, not by an engine that takes its time.
  CHECK(keys.count("Service.RuntimeMaxSec") == 0);
}

TEST_CASE("vigil.socket listens where the configuration would") {
  auto keys = unit("vigil.socket");
  const vigil::config::Config config;
  CHECK(keys["Socket.ListenStream"] == config.host + ":" + std::to_string(config.port));
  CHECK(keys.count("Socket.Accept") == 0);
}
