// Pictures in chat requests: data URLs to bytes, addresses that may be fetched, refusals that name the part and why (cases E7, E10), and what the desk is given.
#include <catch2/catch.hpp>

#include "server/api/pictures.hpp"
#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

namespace {

constexpr gguf::TokenId image = hi + 1;

struct Encoder final : turn::EncoderPort {
  std::vector<std::pair<turn::RequestKey, std::vector<turn::Picture>>> orders;
  void encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) override { orders.emplace_back(key, pictures); }
  void abandon(turn::RequestKey) override {}
};

// With a vision child, whose answers the test gives.
struct Gallery : World {
  Encoder encoder;
  VisionStatus vision{"ready", 1, 42, "", 1000};
  explicit Gallery(std::optional<text::ImageMarkers> markers = text::ImageMarkers{image, {}, {}})
      : World({{"<image>", 0, gguf::TokenKind::control}}) {
    model->image = markers;
    desk.attach_encoder(&encoder);
    Surroundings around = api->surroundings();
    around.vision = [this] { return vision; };
    api = std::make_unique<Api>(std::move(around));
    engine_ready();
  }
  Call ask(const std::string& parts, const std::string& before = "") {
    return call(&Api::chat_completions, R"({"messages":[)" + before + R"({"role":"user","content":[)" + parts + "]}]}");
  }
  void encoded(std::vector<int64_t> rows) {
    auto embeddings = std::make_shared<turn::Embeddings>();
    embeddings->path = "/e";
    embeddings->rows = std::move(rows);
    desk.encoded(encoder.orders.back().first, std::move(embeddings), now);
  }
};

std::string picture(const std::string& url) { return R"({"type":"image_url","image_url":{"url":")" + url + R"("}})"; }

// Status, code and param of a refusal; its message must hold `words`.
void refused(const World::Call& call, const std::string& words, const std::string& part = "messages[0].content[0]") {
  INFO(words);
  REQUIRE(call->response.has_value());
  CHECK(call->response->status == 400);
  const json error = call->error();
  CHECK(error.at("code") == "image_invalid");
  CHECK(error.at("param") == part);
  const std::string message = error.at("message");
  CHECK(message.starts_with(part));
  CHECK_THAT(message, Catch::Matchers::Contains(words));
}

}  // namespace

TEST_CASE("base64 to the letter (RFC 4648)", "[pictures]") {
  const std::pair<const char*, const char*> vectors[] = {{"", ""}, {"Zg==", "f"}, {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"Zm9vYg==", "foob"}, {"Zm9vYmE=", "fooba"}};
  for (const auto& [text, bytes] : vectors) CHECK(*decode_base64(text) == bytes);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  CHECK(*decode_base64("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiY2RlZmdoaWpr"
                       "bG1ub3BxcnN0dXZ3eHl6e3x9fn+AgYKDhIWGh4iJiouMjY6PkJGSk5SVlpeYmZqbnJ2en6ChoqOkpaanqKmqq6ytrq+wsbKztLW2t7i5uru8vb6/wMHCw8TFxsfIycrLzM3Oz9DR0tPU1dbX"
                       "2Nna29zd3t/g4eLj5OXm5+jp6uvs7e7v8PHy8/T19vf4+fr7/P3+/w==") == all);
  for (const char* wrong : {"Zg", "Zg=", "Z===", "====", "=", "Zm9v\n", "Zm 9", "Zm-_", "Zm9vYg=a", "Zh==", "Zm9=", "Zg==Zg==", "Z\xC3\xA9=="}) {
    INFO(wrong);
    CHECK_FALSE(decode_base64(wrong).ok());
  }
  CHECK_THAT(decode_base64("Zm9v*m9v").error(), Catch::Matchers::Contains("place 5"));
}

TEST_CASE("Pictures go to the encoder in order, from every turn, and their token stands in the prompt once each", "[pictures]") {
  Gallery world;
  const auto call = world.ask(R"({"type":"text","text":"hi"},)" + picture("data:image/png;base64,Zm9v") + "," + R"({"type":"input_image","image_url":"data:;base64,YmFy"})",
                              R"({"role":"user","content":[)" + picture("DATA:image/jpeg;x=y;BASE64,Zg==") + R"(]},{"role":"assistant","content":"hi"},)");
  REQUIRE(world.encoder.orders.size() == 1);
  const auto& pictures = world.encoder.orders[0].second;
  REQUIRE(pictures.size() == 3);
  CHECK(*pictures[0].bytes == "f");
  CHECK(*pictures[1].bytes == "foo");
  CHECK(*pictures[2].bytes == "bar");
  CHECK(pictures[0].part == "messages[0].content[0]");
  CHECK(pictures[2].part == "messages[2].content[2]");
  CHECK(world.port.starts.empty());
  world.encoded({1, 3, 2});
  REQUIRE(world.port.starts.size() == 1);
  const auto& prompt = world.sent().request.prompt;
  CHECK(std::count(prompt.begin(), prompt.end(), image) == 6);
  world.token(hi);
  world.done();
  CHECK(call->response->status == 200);
}

TEST_CASE("A picture that is none is refused, and the error names the part and why", "[pictures]") {
  Gallery world;
  refused(world.ask(picture("https://example.org/cat.png")), "by address");
  for (const char* address : {"http://127.0.0.1/", "file:///etc/passwd", "ftp://x", "//x", "/etc/passwd", ""}) refused(world.ask(picture(address)), "by address");
  refused(world.ask(picture("data:image/png;base64,")), "without a byte");
  refused(world.ask(picture("data:image/png,Zm9v")), "data:image/png;base64");
  refused(world.ask(picture("data:")), "data:image/png;base64");
  refused(world.ask(picture("data:image/png;base64,Zm9")), "no multiple of 4");
  refused(world.ask(picture("data:image/png;base64,Zm9?")), "place 4");
  refused(world.ask(R"({"type":"image_url"})"), "needs image_url");
  refused(world.ask(R"({"type":"image_url","image_url":{"url":5}})"), "needs image_url");
  refused(world.ask(R"({"type":"image_url","image_url":[]})"), "needs image_url");
  refused(world.ask(R"({"type":"image","source":{"type":"url","url":"https://x/"}})"), "base64");
  const auto call = world.ask(R"({"type":"text","text":"a"},)" + picture("data:,x"));
  refused(call, "data:image/png;base64", "messages[0].content[1]");
  CHECK(call->error().at("message").get<std::string>().find("example.org") == std::string::npos);
  CHECK(world.encoder.orders.empty());
}

TEST_CASE("A picture by an address that is allowed waits for its bytes, each address once; any other is refused before anything is asked (E10)", "[pictures]") {
  Gallery world;
  world.vision.url_allow = std::make_shared<url::AllowList>(std::vector<std::string>{"https://example.org/cats", "http://127.0.0.1:81"});
  const std::string cat = picture("HTTPS://Example.org/cats/1.png?x#y");
  world.ask(cat + "," + picture("data:;base64,Zg==") + R"(,{"type":"input_image","image_url":"http://127.0.0.1:81/"},)" +
            R"({"type":"image","source":{"type":"url","url":"https://example.org/cats/1.png?x"}})");
  REQUIRE(world.encoder.orders.size() == 1);
  const auto& pictures = world.encoder.orders[0].second;
  REQUIRE(pictures.size() == 4);
  REQUIRE(pictures[0].address);
  CHECK(pictures[0].address->url == "https://example.org/cats/1.png?x");
  CHECK(pictures[0].address == pictures[3].address);
  CHECK_FALSE(pictures[0].bytes);
  CHECK(pictures[0].part == "messages[0].content[0]");
  CHECK(*pictures[1].bytes == "f");
  CHECK_FALSE(pictures[1].address);
  CHECK(pictures[2].address->url == "http://127.0.0.1:81/");
  CHECK(pictures[2].hash != pictures[0].hash);
  for (const char* address : {"https://example.org/dogs", "http://example.org/cats", "https://example.org.evil/cats", "http://localhost:81/", "http://127.0.0.1/", "http://[::ffff:127.0.0.1]:81/",
                              "http://169.254.169.254/"}) {
    INFO(address);
    refused(world.ask(picture(address)), "vision.url_allow");
  }
  for (const char* address : {"https://example.org@evil/cats", "https://example.org/cats/../x", "file:///etc/passwd", "ftp://x", "//example.org/cats", "/etc/passwd", "", "http://2130706433:81/"}) {
    INFO(address);
    refused(world.ask(picture(address)), "whose address");
  }
  refused(world.ask(R"({"type":"image","source":{"type":"file","file_id":"x"}})"), "nor a url");
  CHECK(world.encoder.orders.size() == 1);
}

TEST_CASE("The size of a picture and their number are bounded", "[pictures]") {
  Gallery world;
  world.vision.image_bytes = 3;
  world.ask(picture("data:;base64,Zm9v"));
  CHECK(world.encoder.orders.size() == 1);
  refused(world.ask(picture("data:;base64,Zm9vYg==")), "vision.image_bytes");
  refused(world.ask(picture("data:;base64," + std::string(4000, 'A'))), "3000 bytes, over the limit of 3 (vision.image_bytes)");
  std::string many = picture("data:;base64,Zg==");
  for (size_t i = 1; i <= max_pictures; ++i) many += "," + picture("data:;base64,Zg==");
  refused(world.ask(many), "max_pictures", "messages[0].content[256]");
}

TEST_CASE("The source of another dialect is understood", "[pictures]") {
  Gallery world;
  world.ask(R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"Zm9v"}})");
  REQUIRE(world.encoder.orders.size() == 1);
  CHECK(*world.encoder.orders[0].second[0].bytes == "foo");
}

TEST_CASE("Without a vision child, or without an image token, a picture is a 400 that says so", "[pictures]") {
  Gallery absent;
  absent.vision = {};
  refused(absent.ask(picture("data:;base64,Zg==")), "takes no images");
  Gallery blind(std::nullopt);
  refused(blind.ask(picture("data:;base64,Zg==")), "vision.image_token");
  CHECK(blind.encoder.orders.empty());
}

TEST_CASE("Requests that differ in a picture alone are different requests", "[pictures]") {
  const auto print = [](const std::string& url) {
    Gallery world;
    world.ask(picture(url));
    world.encoded({1});
    return world.sent().request.fingerprint;
  };
  CHECK(print("data:;base64,Zm9v") == print("data:;base64,Zm9v"));
  CHECK(print("data:;base64,Zm9v") != print("data:;base64,Zm9w"));
  CHECK(print("data:;base64," + std::string(400, 'A')) != print("data:;base64,B" + std::string(399, 'A')));
}

TEST_CASE("/status shows the vision child", "[pictures]") {
  Gallery world;
  world.vision.reason = "was silent";
  const json status = world.call(&Api::status, "")->answer();
  CHECK(status.at("vision") == json({{"state", "ready"}, {"generation", 1}, {"pid", 42}, {"reason", "was silent"}}));
}
