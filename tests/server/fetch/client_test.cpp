// The fetching client against scripted servers on loopback (case E10): what is asked, which answers are taken, that every hop and every address is
// checked before anything is dialled, and that whatever a server or a resolver does, a fetch ends and gives back what it held.
#include <catch2/catch.hpp>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "server/fetch/client.hpp"

using namespace vigil;
using namespace vigil::fetch;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// Answers its connections one after another with the scripts, in order; without one it stays silent. Counts who came.
class Server {
 public:
  explicit Server(asio::io_context& io) : acceptor_(io, {asio::ip::make_address("127.0.0.1"), 0}) { accept(); }
  std::string url(const std::string& path = "/cat.png", const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(port()) + path;
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void answer(std::string bytes, bool then_close = true) { scripts_.push_back({std::move(bytes), then_close}); }

  int connections = 0, left = 0;
  std::vector<std::string> requests;

 private:
  struct Script {
    std::string bytes;
    bool then_close;
  };
  struct Connection {
    tcp::socket socket;
    std::string in;
    std::optional<Script> script;
  };
  void accept() {
    acceptor_.async_accept([this](boost::system::error_code error, tcp::socket socket) {
      if (error) return;
      ++connections;
      auto connection = std::make_shared<Connection>(Connection{std::move(socket), {}, {}});
      open_.push_back(connection);
      asio::async_read_until(connection->socket, asio::dynamic_buffer(connection->in), "\r\n\r\n",
                             [this, connection](boost::system::error_code failed, size_t) { asked(connection, failed); });
      accept();
    });
  }
  void asked(const std::shared_ptr<Connection>& connection, boost::system::error_code failed) {
    if (failed) return void(++left);
    requests.push_back(connection->in);
    if (!scripts_.empty()) {
      connection->script = std::move(scripts_.front());
      scripts_.pop_front();
      asio::async_write(connection->socket, asio::buffer(connection->script->bytes), [connection](boost::system::error_code, size_t) {
        boost::system::error_code ignored;
        if (connection->script->then_close) connection->socket.shutdown(tcp::socket::shutdown_send, ignored);
      });
    }
    connection->in.clear();
    asio::async_read(connection->socket, asio::dynamic_buffer(connection->in), [this, connection](boost::system::error_code, size_t) { ++left; });
  }

  tcp::acceptor acceptor_;
  std::deque<Script> scripts_;
  std::vector<std::shared_ptr<Connection>> open_;
};

// What every name gives, and who asked; shared with threads that may outlive a test.
struct Names {
  std::mutex mutex;
  std::vector<std::string> asked;
  Addresses addresses;
};

struct World {
  asio::io_context io;
  std::shared_ptr<Names> names = std::make_shared<Names>();
  ClientOptions options;
  Server server{io};
  std::optional<Client> client{std::in_place, io, [names = names](const std::string& host) {
                                 const std::lock_guard lock(names->mutex);
                                 names->asked.push_back(host);
                                 return names->addresses;
                               }};
  std::vector<std::optional<Outcome>> outcomes;

  World() { options.body_bytes = 1000; }
  void resolve_to(const Addresses& addresses) {
    const std::lock_guard lock(names->mutex);
    names->addresses = addresses;
  }
  std::vector<std::string> looked_up() const {
    const std::lock_guard lock(names->mutex);
    return names->asked;
  }
  void allow(const std::vector<std::string>& entries) {
    options.allow = std::make_shared<url::AllowList>(entries);
    client->set_options(options);
  }
  bool until(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds() && std::chrono::steady_clock::now() < end) {
      io.run_for(std::chrono::milliseconds(5));
      io.restart();
    }
    return holds();
  }
  FetchId fetch(const std::string& url, std::chrono::milliseconds limit = std::chrono::minutes(10)) {
    const size_t index = outcomes.size();
    outcomes.emplace_back();
    return client->fetch(*url::parse(url), client->now() + limit, [this, index](Outcome outcome) {
      CHECK_FALSE(outcomes[index].has_value());
      outcomes[index] = std::move(outcome);
    });
  }
  bool ended(size_t index) {
    return until([&] { return outcomes[index].has_value(); });
  }
  // The bytes that come, or why none do.
  std::string get(const std::string& url) {
    fetch(url);
    const size_t index = outcomes.size() - 1;
    REQUIRE(ended(index));
    CHECK(client->open() == 0);
    const Outcome outcome = std::move(*outcomes[index]);
    outcomes[index] = Outcome(Failure{});
    if (const auto* bytes = std::get_if<Bytes>(&outcome)) return **bytes;
    return "FAILED " + std::get<Failure>(outcome).reason;
  }
};

std::string ok(const std::string& body, const std::string& headers = "") {
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}
std::string to(const std::string& location, int status = 302) { return "HTTP/1.1 " + std::to_string(status) + " x\r\nLocation: " + location + "\r\nContent-Length: 5\r\n\r\nmoved"; }

// Of a fetch that failed; no body of these tests holds such words.
auto says(const std::string& words) { return Catch::Matchers::Contains(words); }

asio::ip::address ip(const char* text) { return asio::ip::make_address(text); }

}  // namespace

TEST_CASE("A picture is asked for plainly, and its bytes come back", "[fetch]") {
  World world;
  world.options.user_agent = "vigil/1.2.3";
  world.allow({world.server.url("/a")});
  world.server.answer(ok("cat", "Set-Cookie: a=b\r\n"), false);
  CHECK(world.get(world.server.url("/a/b%20c.png?x=1#y")) == "cat");
  CHECK(world.server.requests.at(0) == "GET /a/b%20c.png?x=1 HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(world.server.port()) +
                                           "\r\nUser-Agent: vigil/1.2.3\r\nAccept: image/*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n");
  for (const std::string& answer : {std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nca\r\n1\r\nt\r\n0\r\nX: y\r\n\r\n"),
                                    std::string("HTTP/1.1 200 OK\r\n\r\ncat"), std::string("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\ncat"),
                                    ok("cat", "Content-Encoding: identity\r\n"), std::string("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n") + ok("cat"),
                                    ok("cat") + "and more"}) {
    INFO(answer);
    world.server.answer(answer);
    CHECK(world.get(world.server.url("/a")) == "cat");
  }
  CHECK(world.server.requests.back().find("Cookie") == std::string::npos);
  CHECK(world.looked_up().empty());
}

TEST_CASE("What the list does not allow is neither looked up nor dialled, also behind a redirect (E10)", "[fetch]") {
  World world;
  Server inner(world.io);
  world.resolve_to({ip("127.0.0.1")});
  world.allow({world.server.url("/a")});
  CHECK_THAT(world.get(world.server.url("/b")), says("does not allow"));
  CHECK_THAT(world.get(world.server.url("/a", "localhost")), says("does not allow"));
  CHECK(world.server.connections == 0);
  for (const std::string& location : {inner.url("/a"), inner.url("/a", "localhost"), world.server.url("/ab"), std::string("/b"), std::string("//localhost/a"),
                                      world.server.url("/a", "localhost"), std::string("https://127.0.0.1:1/a")}) {
    INFO(location);
    world.server.answer(to(location));
    CHECK_THAT(world.get(world.server.url("/a")), says("does not allow"));
  }
  for (const char* location : {"file:///etc/passwd", "gopher://127.0.0.1/", "http://2130706433/", "../a", "/a/%2e%2e/b", "http://u@127.0.0.1/"}) {
    INFO(location);
    world.server.answer(to(location));
    CHECK_THAT(world.get(world.server.url("/a")), says("redirect leads to an address that"));
  }
  world.server.answer("HTTP/1.1 302 x\r\n\r\n");
  CHECK_THAT(world.get(world.server.url("/a")), says("not where to"));
  CHECK(inner.connections == 0);
  CHECK(world.looked_up().empty());
}

TEST_CASE("Redirects within the list are followed, so many and no more (E10)", "[fetch]") {
  World world;
  Server other(world.io);
  world.allow({world.server.url("/"), other.url("/b")});
  int index = 0;
  for (const int status : {301, 302, 303, 307, 308}) {
    INFO(status);
    world.server.answer(to("c?d", status));
    world.server.answer(to(other.url("/b/x"), status));
    other.answer(ok("cat" + std::to_string(++index)));
    CHECK(world.get(world.server.url("/a/b")) == "cat" + std::to_string(index));
    CHECK(world.server.requests.back().starts_with("GET /a/c?d HTTP/1.1\r\n"));
    CHECK(other.requests.back().starts_with("GET /b/x HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(other.port())));
  }
  const int before = world.server.connections;
  for (int i = 0; i < 10; ++i) world.server.answer(to("/"));
  CHECK_THAT(world.get(world.server.url("/")), says("vision.url_redirects"));
  CHECK(world.server.connections - before == 4);
  world.options.redirects = 0;
  world.allow({world.server.url("/")});
  CHECK_THAT(world.get(world.server.url("/")), says("vision.url_redirects"));
  world.server.answer("HTTP/1.1 304 x\r\nLocation: /\r\n\r\n");
}

TEST_CASE("Answers that are no picture's are refused, whatever their length says (E10)", "[fetch]") {
  const std::string big(1001, 'x'), just(1000, 'y');
  const std::pair<std::string, const char*> rows[] = {
      {"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\ncat", "status 404"},
      {"HTTP/1.1 206 Partial\r\nContent-Length: 3\r\n\r\ncat", "status 206"},
      {"HTTP/1.1 204 None\r\n\r\n", "status 204"},
      {"HTTP/1.1 304 Same\r\nLocation: /\r\n\r\n", "status 304"},
      {"HTTP/1.1 101 Switching\r\n\r\n", "status 101"},
      {ok(""), "empty"},
      {"HTTP/1.1 200 OK\r\n\r\n", "empty"},
      {ok(big), "more bytes than vision.image_bytes"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", "more bytes than vision.image_bytes"},
      {"HTTP/1.1 200 OK\r\n\r\n" + big, "more bytes than vision.image_bytes"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + big + "\r\n0\r\n\r\n", "more bytes than vision.image_bytes"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n" + std::string(70000, 'z'), "more bytes than vision.image_bytes"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\ncat", "broke off"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncat\r\n", "broke off"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\ncat\r\n", "broke off"},
      {ok("cat", "Content-Encoding: gzip\r\n"), "compressed"},
      {ok("cat", "Content-Encoding: br, identity\r\n"), "compressed"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\ncat\r\n0\r\n\r\n", "transfer coding"},
      {"SSH-2.0-OpenSSH\r\n", "no good answer"},
      {"", "no good answer"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\ncat", "no good answer"},
      {"HTTP/1.1 200 OK\r\nX: " + std::string(20000, 'x') + "\r\n\r\n", "no good answer"},
  };
  World world;
  world.allow({world.server.url("/")});
  for (const auto& [answer, words] : rows) {
    INFO(answer.substr(0, 200));
    world.server.answer(answer);
    CHECK_THAT(world.get(world.server.url("/")), says(words));
    CHECK(world.client->held_bytes() == 0);
  }
  std::string hints;
  for (int i = 0; i < 20; ++i) hints += "HTTP/1.1 103 Hints\r\n\r\n";
  world.server.answer(hints + ok("cat"));
  CHECK_THAT(world.get(world.server.url("/")), says("informational"));
  world.server.answer(ok(just));
  CHECK(world.get(world.server.url("/")) == just);
}

TEST_CASE("A name leads out or nowhere: one address that may not be dialled spoils it (E10)", "[fetch]") {
  World world;
  world.allow({world.server.url("/", "pictures.example"), world.server.url("/", "localhost")});
  const std::vector<Addresses> wrong = {{ip("127.0.0.1")}, {ip("::1")}, {ip("10.0.0.1")}, {ip("169.254.169.254")}, {ip("8.8.8.8"), ip("127.0.0.1")},
                                        {ip("2606:4700::1"), ip("fe80::1")}, {ip("::ffff:127.0.0.1")}, {ip("64:ff9b::7f00:1")}};
  for (const auto& addresses : wrong) {
    world.resolve_to(addresses);
    CHECK_THAT(world.get(world.server.url("/", "pictures.example")), says("not public"));
  }
  world.resolve_to({});
  CHECK_THAT(world.get(world.server.url("/", "pictures.example")), says("no address"));
  for (const auto& addresses : {Addresses{ip("10.0.0.1")}, Addresses{ip("127.0.0.1"), ip("8.8.8.8")}}) {
    world.resolve_to(addresses);
    CHECK_THAT(world.get(world.server.url("/", "localhost")), says("not public"));
  }
  CHECK(world.server.connections == 0);
}

TEST_CASE("The address that was checked is dialled, without another look-up; one that does not answer gives way to the next", "[fetch]") {
  World world;
  world.allow({world.server.url("/", "localhost")});
  world.resolve_to({ip("127.0.0.2"), ip("127.0.0.1")});  // nobody listens on the first
  world.server.answer(ok("cat"));
  CHECK(world.get(world.server.url("/", "localhost")) == "cat");
  CHECK(world.looked_up() == std::vector<std::string>{"localhost"});
  CHECK(world.server.requests[0].find("Host: localhost:") != std::string::npos);
  world.resolve_to({ip("127.0.0.2"), ip("127.0.0.3")});
  CHECK_THAT(world.get(world.server.url("/", "localhost")), says("no connection"));
}

TEST_CASE("A silent server, and one that stops in the middle, end with the deadline, and nothing stays held (E10)", "[fetch]") {
  World world;
  world.allow({world.server.url("/")});
  world.fetch(world.server.url("/"), std::chrono::milliseconds(50));
  REQUIRE(world.ended(0));
  CHECK_THAT(std::get<Failure>(*world.outcomes[0]).reason, Catch::Matchers::Contains("vision.url_s"));
  world.server.answer("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\ncat", false);
  world.fetch(world.server.url("/"), std::chrono::milliseconds(50));
  REQUIRE(world.ended(1));
  CHECK_THAT(std::get<Failure>(*world.outcomes[1]).reason, Catch::Matchers::Contains("vision.url_s"));
  CHECK(world.until([&] { return world.server.left == 2; }));
  CHECK(world.client->open() == 0);
  CHECK(world.client->held_bytes() == 0);
}

TEST_CASE("A resolver that hangs holds nobody beyond the deadline, and no more threads than the limit (E10)", "[fetch]") {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
    int entered = 0;
  };
  const auto gate = std::make_shared<Gate>();
  World world;
  world.client.emplace(world.io, [gate](const std::string&) {
    std::unique_lock lock(gate->mutex);
    ++gate->entered;
    gate->opened.wait(lock, [&] { return gate->open; });
    return Addresses{ip("127.0.0.1")};
  });
  world.options.at_once = 2;
  world.allow({world.server.url("/", "localhost")});
  for (int i = 0; i < 5; ++i) world.fetch(world.server.url("/", "localhost"), std::chrono::milliseconds(50));
  for (size_t i = 0; i < 5; ++i) CHECK(world.ended(i));
  CHECK(world.client->open() == 0);
  CHECK(world.client->resolving() == 2);
  const FetchId waits = world.fetch(world.server.url("/", "localhost"));  // both threads are stuck
  for (int i = 0; i < 10; ++i) {
    world.io.poll();
    world.io.restart();
  }
  CHECK(world.client->open() == 1);
  CHECK(world.client->resolving() == 2);
  {
    const std::lock_guard lock(gate->mutex);
    CHECK(gate->entered <= 2);
    gate->open = true;
  }
  gate->opened.notify_all();
  world.server.answer(ok("cat"));
  CHECK(world.ended(5));
  CHECK(std::holds_alternative<Bytes>(*world.outcomes[5]));
  CHECK(world.until([&] { return world.client->resolving() == 0; }));
  world.client->cancel(waits);
  CHECK(world.server.connections == 1);
}

TEST_CASE("So many fetches run at once; the others wait, within their time", "[fetch]") {
  World world;
  world.options.at_once = 1;
  world.allow({world.server.url("/")});
  const FetchId first = world.fetch(world.server.url("/1"));
  CHECK(world.until([&] { return world.server.requests.size() == 1; }));
  world.fetch(world.server.url("/2"));
  world.fetch(world.server.url("/3"), std::chrono::milliseconds(20));
  REQUIRE(world.ended(2));
  CHECK_THAT(std::get<Failure>(*world.outcomes[2]).reason, Catch::Matchers::Contains("vision.url_fetches"));
  CHECK(world.server.connections == 1);
  world.server.answer(ok("cat"));
  world.client->cancel(first);
  REQUIRE(world.ended(1));
  CHECK(**std::get_if<Bytes>(&*world.outcomes[1]) == "cat");
  CHECK(world.server.requests.back().starts_with("GET /2 "));
  CHECK_FALSE(world.outcomes[0].has_value());
  CHECK(world.server.connections == 2);
}

TEST_CASE("Fetched bytes count for as long as somebody holds them", "[fetch]") {
  World world;
  world.options.total_bytes = 5;
  world.allow({world.server.url("/")});
  for (int i = 0; i < 3; ++i) world.server.answer(ok("cat"));
  world.fetch(world.server.url("/"));
  REQUIRE(world.ended(0));
  CHECK(world.client->held_bytes() == 3);
  world.fetch(world.server.url("/"));
  REQUIRE(world.ended(1));
  CHECK(std::get<Failure>(*world.outcomes[1]).kind == Failure::Kind::no_room);
  CHECK(world.client->held_bytes() == 3);
  world.outcomes[0].reset();
  CHECK(world.client->held_bytes() == 0);
  CHECK(world.get(world.server.url("/")) == "cat");
}

TEST_CASE("A fetch that is cancelled is over at once, and a client that goes takes all along", "[fetch]") {
  World world;
  world.resolve_to({ip("127.0.0.1")});
  world.allow({world.server.url("/"), world.server.url("/", "localhost")});
  world.server.answer("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\ncat", false);
  const FetchId id = world.fetch(world.server.url("/"));
  CHECK(world.until([&] { return world.client->held_bytes() == 3 || world.server.requests.size() == 1; }));
  world.client->cancel(id);
  world.client->cancel(id);
  CHECK(world.client->open() == 0);
  CHECK(world.until([&] { return world.server.left == 1; }));
  CHECK(world.client->held_bytes() == 0);
  world.client->cancel(world.fetch(world.server.url("/")));             // before it has begun
  world.client->cancel(world.fetch(world.server.url("/", "localhost")));
  world.fetch(world.server.url("/"));
  CHECK(world.until([&] { return world.server.requests.size() == 2; }));
  world.fetch(world.server.url("/", "localhost"));
  world.fetch(world.server.url("/"));
  world.client.reset();
  CHECK(world.until([&] { return world.server.left == world.server.connections; }));
  for (const auto& outcome : world.outcomes) CHECK_FALSE(outcome.has_value());
}
