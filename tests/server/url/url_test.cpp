// URLs of pictures, the allow list and address classes (case E10): tables of what is read, and of what is refused however it is written.
#include <catch2/catch.hpp>

#include <arpa/inet.h>

#include <string>

#include "server/url/address.hpp"
#include "server/url/allow_list.hpp"
#include "server/url/url.hpp"

using namespace vigil;
using namespace vigil::url;

namespace {

bool is_public_text(const std::string& text) {
  Ipv4 four{};
  if (::inet_pton(AF_INET, text.c_str(), four.data()) == 1) return is_public(four);
  Ipv6 six{};
  REQUIRE(::inet_pton(AF_INET6, text.c_str(), six.data()) == 1);
  return is_public(six);
}

}  // namespace

TEST_CASE("A URL is taken apart", "[url]") {
  struct Row {
    const char* text;
    Url url;
  };
  const Row rows[] = {
      {"http://example.org", {Scheme::http, HostKind::name, "example.org", 80, "/", ""}},
      {"HTTPS://Example.ORG/A/b.png?x=1&y=..#part", {Scheme::https, HostKind::name, "example.org", 443, "/A/b.png", "?x=1&y=.."}},
      {"https://a-b.x_y.example:8443?q", {Scheme::https, HostKind::name, "a-b.x_y.example", 8443, "/", "?q"}},
      {"http://127.0.0.1:1/", {Scheme::http, HostKind::ipv4, "127.0.0.1", 1, "/", ""}},
      {"http://[::1]:65535/a//b", {Scheme::http, HostKind::ipv6, "::1", 65535, "/a//b", ""}},
      {"http://[2001:DB8:0:0::1]/", {Scheme::http, HostKind::ipv6, "2001:db8::1", 80, "/", ""}},
      {"http://[::ffff:127.0.0.1]/", {Scheme::http, HostKind::ipv6, "::ffff:127.0.0.1", 80, "/", ""}},
      {"http://xn--bcher-kva.example/%C3%BC.png", {Scheme::http, HostKind::name, "xn--bcher-kva.example", 80, "/%C3%BC.png", ""}},
      {"http://localhost/a.b/..c/d../...", {Scheme::http, HostKind::name, "localhost", 80, "/a.b/..c/d../...", ""}},
      {"http://h/100%25.png", {Scheme::http, HostKind::name, "h", 80, "/100%25.png", ""}},
      {"http://h#x", {Scheme::http, HostKind::name, "h", 80, "/", ""}},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto url = parse(row.text);
    REQUIRE(url.ok());
    CHECK(*url == row.url);
  }
  CHECK(parse("http://Example.org:81/x?y")->authority() == "example.org:81");
  CHECK(parse("https://example.org:443/x?y")->authority() == "example.org");
  CHECK(parse("https://[::1]:444/x?y")->origin() == "https://[::1]:444");
  CHECK(parse("http://h/x?y#z")->target() == "/x?y");
}

TEST_CASE("What two readers could read differently is refused (E10)", "[url]") {
  for (const char* text : {
           "", "http", "http:", "http:/", "http://", "http:///", "http://?", "//h/", "/a", "file:///etc/passwd", "ftp://h/", "gopher://h/", "data:x", "javascript:x",
           "http:/h/", "http:h", "hhttp://h/", " http://h/", "http://h/ ", "http://h/a b", "http://h/\t", "http://h/\n", "http://h\r\nX: y/", "http://h/\x7f", "http://h/\xc3\xa9",
           "http://b\xc3\xbc" "cher.example/", "http://u@h/", "http://u:p@h/", "http://@h/", "http://a.example@evil/", "http://a.example%40evil/", "http://h\\@evil/",
           "http://h\\evil/", "http:\\\\h/", "http://h/a\\b", "http://h/<", "http://h/{x}", "http://h/a|b", "http://h/`", "http://h/\"", "http://h/^",
           "http://h:/", "http://h:0/", "http://h:00/", "http://h:080/", "http://h:65536/", "http://h:99999999999/", "http://h:80a/", "http://h:-1/", "http://h:+80/", "http://h:80:80/",
           "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/", "http://127.1/", "http://127.0.1/", "http://0177.0.0.1/", "http://127.0.0.01/", "http://127.0.0.256/",
           "http://1.2.3.4.5/", "http://a.1/", "http://a.0x1/", "http://a.0x/", "http://127.0.0.1./", "http://h./", "http://.h/", "http://a..b/", "http://./", "http://-a/", "http://a-/",
           "http://a.-b/", "http://%6c/", "http://a%00b/", "http://a,b/", "http://a;b/", "http://a*/", "http://*.example/", "http://a!b/",
           "http://[::1/", "http://::1/", "http://[::1]x/", "http://[::1]80/", "http://[]/", "http://[127.0.0.1]/", "http://[::1%25lo]/", "http://[::1%lo]/", "http://[fe80::1%1]/",
           "http://[v1.a]/", "http://[1]/", "http://[::g]/", "http://a[::1]/",
           "http://h/.", "http://h/..", "http://h/./a", "http://h/a/../b", "http://h/a/..", "http://h/%2e%2e/b", "http://h/.%2E/b", "http://h/%2e/b", "http://h/..;x/b", "http://h/.;/b",
           "http://h/a%2fb", "http://h/a%2Fb", "http://h/a%5cb", "http://h/%252e%252e/b", "http://h/%25%32%65./b", "http://h/a%252fb", "http://h/a%255cb", "http://h/%00", "http://h/%0a",
           "http://h/%7f", "http://h/%2500", "http://h/%", "http://h/%1", "http://h/%zz", "http://h/%1g"}) {
    INFO(text);
    CHECK_FALSE(parse(text).ok());
  }
  const std::string nul("http://h/\0", 10);
  CHECK_FALSE(parse(nul).ok());
  CHECK_FALSE(parse("http://" + std::string(64, 'a') + "/").ok());
  CHECK_FALSE(parse("http://h/" + std::string(max_url_bytes, 'a')).ok());
  CHECK(parse("http://h/" + std::string(max_url_bytes - 9, 'a')).ok());
  std::string name;
  while (name.size() <= 253) name += "abcdefg.";
  CHECK_FALSE(parse("http://" + name + "x/").ok());
}

TEST_CASE("An entry allows its own scheme, host, port and what lies under its path, and nothing that only looks so (E10)", "[url]") {
  struct Row {
    const char* entry;
    const char* url;
    bool allowed;
  };
  const Row rows[] = {
      {"https://example.com", "https://example.com/any/where?x", true},
      {"https://example.com", "https://EXAMPLE.com:443/", true},
      {"https://example.com", "https://example.com.evil.org/", false},
      {"https://example.com", "https://evil-example.com/", false},
      {"https://example.com", "https://www.example.com/", false},
      {"https://example.com", "http://example.com/", false},
      {"https://example.com", "https://example.com:8443/", false},
      {"https://example.com:8443", "https://example.com/", false},
      {"https://example.com:8443/", "https://example.com:8443/a", true},
      {"https://example.com/a", "https://example.com/a", true},
      {"https://example.com/a", "https://example.com/a?x", true},
      {"https://example.com/a", "https://example.com/a/b", true},
      {"https://example.com/a", "https://example.com/ab", false},
      {"https://example.com/a", "https://example.com/A", false},
      {"https://example.com/a", "https://example.com/", false},
      {"https://example.com/a", "https://example.com/?/a", false},
      {"https://example.com/a/", "https://example.com/a", false},
      {"https://example.com/a/", "https://example.com/a/b", true},
      {"https://example.com/a/b", "https://example.com/a//b", false},
      {"http://127.0.0.1:81", "http://127.0.0.1:81/x", true},
      {"http://127.0.0.1:81", "http://[::ffff:127.0.0.1]:81/x", false},
      {"http://127.0.0.1:81", "http://localhost:81/x", false},
      {"http://localhost:81", "http://127.0.0.1:81/x", false},
      {"http://[::1]", "http://[0:0:0:0:0:0:0:1]/", true},
      {"http://[::1]", "http://[::2]/", false},
  };
  for (const Row& row : rows) {
    INFO(row.entry << " " << row.url);
    REQUIRE(parse_entry(row.entry).ok());
    REQUIRE(parse(row.url).ok());
    CHECK(AllowList({row.entry}).allows(*parse(row.url)) == row.allowed);
    CHECK(AllowList({"http://other/", row.entry, "https://other/"}).allows(*parse(row.url)) == row.allowed);
    CHECK_FALSE(AllowList().allows(*parse(row.url)));
  }
  for (const char* entry : {"", "*", "https://*", "https://*.example.com", "https://example.com/*", "https://example.com?x", "https://example.com/#", "example.com", "ftp://example.com",
                            "https://u@example.com", "https://example.com/a/../b", "http://2130706433", "https://"}) {
    INFO(entry);
    CHECK_FALSE(parse_entry(entry).ok());
  }
  CHECK(AllowList().empty());
  CHECK(AllowList({"nonsense"}).empty());
  CHECK_FALSE(AllowList({"http://a"}).has_https());
  CHECK(AllowList({"http://a", "https://a"}).has_https());
}

TEST_CASE("A redirect leads where its Location says, read as strictly", "[url]") {
  const Url base = *parse("https://example.com:8443/a/b?q");
  const std::pair<const char*, const char*> rows[] = {
      {"http://other/x", "http://other/x"},       {"HTTPS://other/x?y", "https://other/x?y"}, {"//other:81/x", "https://other:81/x"}, {"//other", "https://other/"},
      {"/x", "https://example.com:8443/x"},       {"c", "https://example.com:8443/a/c"},      {"c/d:e?f", "https://example.com:8443/a/c/d:e?f"},
      {"?r", "https://example.com:8443/a/b?r"},   {"", "https://example.com:8443/a/b?q"},     {"#f", "https://example.com:8443/a/b?q"},
      {"/x:y", "https://example.com:8443/x:y"},
  };
  for (const auto& [location, wanted] : rows) {
    INFO(location);
    const auto url = follow(base, location);
    REQUIRE(url.ok());
    CHECK(*url == *parse(wanted));
  }
  for (const char* location : {"file:///etc/passwd", "ftp://h/", "data:x", "mailto:x", "../c", "/..", "./c", "%2e%2e/c", "\\\\other", "/\\other", "//u@other/", "///x", " /x",
                               "/x y", "http:/x", "http:x", "//2130706433/"}) {
    INFO(location);
    CHECK_FALSE(follow(base, location).ok());
  }
  CHECK_FALSE(follow(base, std::string(max_url_bytes - 1, 'a')).ok());
}

TEST_CASE("Addresses of this machine, its network and of nowhere are not public, in whatever form (E10)", "[url]") {
  for (const char* address : {"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.169.254", "172.16.0.1",
                              "172.31.255.255", "192.0.0.1", "192.0.0.255", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1", "198.19.255.255", "198.51.100.7",
                              "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
                              "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1",
                              "64:ff9b:1::8.8.8.8", "64:ff9b:0:0:1::808:808", "100::1", "2001::1", "2001:0:4136:e378::1", "2001:1ff::1", "2001:db8::1", "2002:7f00:1::", "2002:a00:1::1",
                              "2002:c0a8:1::", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ffff::1"}) {
    INFO(address);
    CHECK_FALSE(is_public_text(address));
  }
  for (const char* address : {"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.255.255.255", "128.0.0.1", "169.253.1.1", "169.255.0.1", "172.15.255.255",
                              "172.32.0.1", "192.0.1.1", "192.0.3.1", "192.88.98.1", "192.167.255.255", "192.169.0.1", "198.17.255.255", "198.20.0.1", "223.255.255.255",
                              "2001:200::1", "2001:db7::1", "2001:db9::1", "2001:4860:4860::8888", "2002:808:808::1", "64:ff9b::8.8.8.8", "2606:4700::1", "3ffe::1", "3fff:1000::1", "2a00::1"}) {
    INFO(address);
    CHECK(is_public_text(address));
  }
  CHECK(is_loopback(Ipv4{127, 9, 9, 9}));
  CHECK_FALSE(is_loopback(Ipv4{128, 0, 0, 1}));
  CHECK(is_loopback(Ipv6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  CHECK_FALSE(is_loopback(Ipv6{}));
}
