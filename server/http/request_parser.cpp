// The request parser over Beast's grammar, with caps of our own. The only file that sees Beast.
#include "server/http/request_parser.hpp"

#include <algorithm>
#include <cctype>
#include <functional>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

namespace vigil::http {
namespace {

namespace beast = boost::beast;

// What a chunk's size line with its extensions, or the trailer, may hold before it counts as an attack.
constexpr size_t kChunkLineBytes = 16 * 1024;

// Beast's string_body reserves what Content-Length claims; this one grows with what arrives.
struct ArrivingBody {
  struct value_type {
    std::string bytes;
    size_t limit = 0;  // 0 = none
  };
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, beast::error_code& ec) { ec = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, beast::error_code& ec) {
      ec = {};
      size_t taken = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers); ++it) {
        const boost::asio::const_buffer part(*it);
        if (body_.limit != 0 && part.size() > body_.limit - body_.bytes.size()) {
          ec = beast::http::error::body_limit;
          return taken;
        }
        body_.bytes.append(static_cast<const char*>(part.data()), part.size());
        taken += part.size();
      }
      return taken;
    }
    void finish(beast::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

turn::RequestError bad_request(std::string message) {
  return {turn::ErrorCode::invalid_request, std::move(message), "", 1};
}

bool has_bare_line_feed(std::string_view text) {
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    if (at == 0 || text[at - 1] != '\r') return true;
  return false;
}

std::string explain(const beast::error_code& ec) {
  using beast::http::error;
  if (ec == error::bad_content_length) return "Content-Length is not one number, or stands beside Transfer-Encoding";
  if (ec == error::multiple_content_length) return "two Content-Length values that differ";
  if (ec == error::bad_transfer_encoding) return "Transfer-Encoding stands twice or beside Content-Length";
  if (ec == error::bad_chunk || ec == error::bad_chunk_extension) return "the chunked body is malformed";
  if (ec == error::bad_version) return "the HTTP version is not 1.0 or 1.1";
  return "this is not a valid HTTP/1.1 request (" + ec.message() + ")";
}

}  // namespace

std::string_view RequestHead::field(std::string_view lower_case_name) const {
  for (const auto& [name, value] : fields)
    if (name == lower_case_name) return value;
  return {};
}

size_t RequestHead::count(std::string_view lower_case_name) const {
  return static_cast<size_t>(
      std::count_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == lower_case_name; }));
}

bool RequestHead::expects_continue() const {
  return version == Version::http_1_1 && lower(field("expect")) == "100-continue";
}

struct RequestParser::State {
  explicit State(size_t header_limit) : header_bytes(header_limit) {
    parser.eager(false);  // the head alone first: errors are answered before any body is read
    parser.header_limit(static_cast<std::uint32_t>(std::min<size_t>(header_limit, UINT32_MAX)));
    parser.body_limit(boost::none);  // ours: a claim is judged by the gate, arrival by ArrivingBody
    parser.on_chunk_header(check_extension);
  }

  void fail(turn::RequestError error) {
    progress = Progress::failed;
    failure = std::move(error);
  }
  void fail_header_size() {
    fail({turn::ErrorCode::headers_too_large,
          "the request's header is larger than " + std::to_string(header_bytes) + " bytes (http.header_bytes)", "", 1});
  }
  void fail_body_size() {
    fail({turn::ErrorCode::request_too_large,
          "the request's body is larger than " + std::to_string(parser.get().body().limit) + " bytes (http.body_bytes)", "", 1});
  }
  void take_head();

  // Beast lets a quoted extension hold anything, line feeds too: what a piece of it looks like would depend on where the pieces were cut.
  std::function<void(std::uint64_t, std::string_view, beast::error_code&)> check_extension = [](std::uint64_t, std::string_view extension,
                                                                                               beast::error_code& ec) {
    if (extension.find_first_of("\r\n") != std::string_view::npos) ec = beast::http::error::bad_chunk_extension;
  };
  beast::http::parser<true, ArrivingBody> parser;
  size_t header_bytes;
  size_t header_seen = 0;
  bool head_taken = false;
  Progress progress = Progress::need_more;
  RequestHead head;
  turn::RequestError failure;
};

void RequestParser::State::take_head() {
  head_taken = true;
  const auto& message = parser.get();
  head.method = std::string(message.method_string());
  head.target = std::string(message.target());
  head.version = message.version() == 10 ? Version::http_1_0 : Version::http_1_1;
  for (const auto& field : message) head.fields.emplace_back(lower(std::string(field.name_string())), std::string(field.value()));
  head.chunked = parser.chunked();
  if (const auto length = parser.content_length(); length && !head.chunked) head.content_length = *length;
  head.keep_alive = parser.keep_alive();
  if (message.version() != 10 && message.version() != 11) return fail(bad_request("the HTTP version is not 1.0 or 1.1"));
  // Anything but a lone "chunked" leaves the body's end unknown: the next request would be read out of this body.
  if (head.count("transfer-encoding") > 0) {
    if (head.version == Version::http_1_0) return fail(bad_request("Transfer-Encoding in an HTTP/1.0 request"));
    if (head.count("transfer-encoding") > 1 || lower(head.field("transfer-encoding")) != "chunked")
      return fail(bad_request("Transfer-Encoding other than chunked is not supported"));
  }
  progress = parser.is_done() ? Progress::complete : Progress::head_complete;
}

RequestParser::RequestParser(size_t header_bytes) : state_(std::make_unique<State>(header_bytes)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

size_t RequestParser::feed(std::string_view bytes) {
  State& s = *state_;
  size_t used = 0;
  while (s.progress == Progress::need_more && used < bytes.size()) {
    beast::error_code ec;
    const size_t n = s.parser.put(boost::asio::const_buffer(bytes.data() + used, bytes.size() - used), ec);
    used += n;
    if (!s.head_taken) s.header_seen += n;
    if (ec == beast::http::error::need_more) {
      const size_t waiting = bytes.size() - used;
      // Everywhere but inside a body, which is never left waiting, a line ends with CR LF. Beast would wait for one until the time is up.
      if (has_bare_line_feed(bytes.substr(used))) s.fail(bad_request("a line ends without a carriage return"));
      else if (!s.head_taken && s.header_seen + waiting > s.header_bytes) s.fail_header_size();
      else if (s.head_taken && waiting > kChunkLineBytes) s.fail(bad_request("a chunk's header or the trailer is too long"));
      return used;
    }
    if (ec == beast::http::error::header_limit) s.fail_header_size();
    else if (ec == beast::http::error::body_limit) s.fail_body_size();
    else if (ec) s.fail(bad_request(explain(ec)));
    else if (!s.head_taken && s.parser.is_header_done()) {
      if (s.header_seen > s.header_bytes) s.fail_header_size();
      else s.take_head();
    } else if (s.head_taken && s.parser.is_done()) s.progress = Progress::complete;
    else if (n == 0) return used;
  }
  return used;
}

void RequestParser::read_body(size_t body_bytes) {
  State& s = *state_;
  if (s.progress != Progress::head_complete) return;
  s.parser.get().body().limit = body_bytes;
  s.parser.eager(true);
  s.progress = Progress::need_more;
}

RequestParser::Progress RequestParser::progress() const { return state_->progress; }
const RequestHead& RequestParser::head() const { return state_->head; }
size_t RequestParser::body_size() const { return state_->parser.get().body().bytes.size(); }
std::string RequestParser::take_body() { return std::move(state_->parser.get().body().bytes); }
const turn::RequestError& RequestParser::failure() const { return state_->failure; }

}  // namespace vigil::http
