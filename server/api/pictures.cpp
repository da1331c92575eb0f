// See pictures.hpp.
#include "server/api/pictures.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "server/json/json.hpp"
#include "server/url/url.hpp"


namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

constexpr uint8_t no_digit = 0xFF;

constexpr std::array<uint8_t, 256> make_digits() {
  std::array<uint8_t, 256> digits{};
  digits.fill(no_digit);
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < alphabet.size(); ++i) digits[static_cast<uint8_t>(alphabet[i])] = static_cast<uint8_t>(i);
  return digits;
}
constexpr std::array<uint8_t, 256> digits = make_digits();

Error wrong_byte(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && digits[static_cast<uint8_t>(text[at])] != no_digit) ++at;
  return Error{"its base64 has a character that does not belong there at place " + std::to_string(at + 1)};
}

bool has_prefix(std::string_view text, std::string_view lower_case) {
  if (text.size() < lower_case.size()) return false;
  return std::equal(lower_case.begin(), lower_case.end(), text.begin(),
                    [](char wanted, char c) { return wanted == (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c); });
}

bool has_suffix(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() && has_prefix(text.substr(text.size() - lower_case.size()), lower_case);
}

// The data or URL of a part, wherever its dialect puts it. Null when there is none.
const std::string* text_at(const json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_string() ? &found->get_ref<const std::string&>() : nullptr;
}
const json* object_at(Fields& part, const char* name) {
  const json* value = part.find(name);
  return value && value->is_object() ? value : nullptr;
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return Error{"its base64 has " + std::to_string(text.size()) + " characters, which is no multiple of 4; it may be cut, or not padded"};
  }
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  const std::string_view body = text.substr(0, text.size() - padding);
  std::string out(body.size() * 3 / 4, '\0');
  size_t to = 0, from = 0;
  for (; from + 4 <= body.size(); from += 4) {
    std::array<uint8_t, 4> four{};
    for (size_t i = 0; i < 4; ++i) four[i] = digits[static_cast<uint8_t>(body[from + i])];
    if ((four[0] | four[1] | four[2] | four[3]) & 0xC0) return wrong_byte(body);
    const uint32_t bits = uint32_t{four[0]} << 18 | uint32_t{four[1]} << 12 | uint32_t{four[2]} << 6 | uint32_t{four[3]};
    out[to++] = static_cast<char>(bits >> 16);
    out[to++] = static_cast<char>(bits >> 8);
    out[to++] = static_cast<char>(bits);
  }
  uint32_t bits = 0;
  const size_t left = body.size() - from;  // 0, 2 or 3: the padding makes up for the rest
  for (size_t i = 0; i < left; ++i) {
    const uint8_t digit = digits[static_cast<uint8_t>(body[from + i])];
    if (digit == no_digit) return wrong_byte(body);
    bits = bits << 6 | digit;
  }
  const uint32_t unused = left == 2 ? bits & 0xF : left == 3 ? bits & 0x3 : 0;
  if (unused != 0) return Error{"its base64 ends with bits that belong to no byte; it may be cut"};
  if (left == 2) out[to++] = static_cast<char>(bits >> 4);
  if (left == 3) {
    out[to++] = static_cast<char>(bits >> 10);
    out[to++] = static_cast<char>(bits >> 2);
  }
  return out;
}

uint64_t content_hash(std::string_view bytes) {
  constexpr uint64_t prime = 0x100000001b3;
  uint64_t state = 0xcbf29ce484222325 ^ bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    state = (state ^ word) * prime;
    state ^= state >> 32;
  }
  for (const char c : bytes) state = (state ^ static_cast<uint8_t>(c)) * prime;
  return state;
}

turn::RequestError no_image_token(const turn::Picture& picture) {
  return {turn::ErrorCode::image_invalid,
          picture.part + " is a picture, and this model takes no images: its vocabulary has no image token (vision.image_token).", picture.part, 1};
}

bool is_picture_type(const std::string& type) { return type == "image_url" || type == "input_image" || type == "image"; }

void Pictures::take(Fields& part, const std::string& where) {
  const auto refuse = [&](const std::string& why) {
    part.fail(turn::RequestError{turn::ErrorCode::image_invalid, where + " " + why + ".", where, 1});
  };
  if (vision_.state == "absent") return refuse("is a picture, and this model takes no images: no vision child is configured (vision.mmproj, vision.exe)");
  if (found_.size() == max_pictures) return refuse("is one picture too many: a request may have " + std::to_string(max_pictures) + " (max_pictures)");
  const json* field = part.find("image_url");
  const json* source = object_at(part, "source");
  Result<turn::Picture> picture = Error{"is a picture without data: it needs image_url with a data: URL in base64"};
  if (field && field->is_string()) {
    picture = by_url(field->get_ref<const std::string&>());
  } else if (const std::string* url = field && field->is_object() ? text_at(*field, "url") : nullptr) {
    picture = by_url(*url);
  } else if (const std::string* data = source ? text_at(*source, "data") : nullptr) {
    picture = by_url("data:;base64," + *data);
  } else if (const std::string* address = source && may_fetch() ? text_at(*source, "url") : nullptr) {
    picture = by_url(*address);
  } else if (source) {
    picture = may_fetch() ? Error{"is a picture whose source has neither data (type base64) nor a url (type url)"}
                          : Error{"is a picture whose source is not of the kind base64, and pictures are not fetched (vision.url_allow)"};
  }
  if (part.failed()) return;
  if (!picture) return refuse(picture.error());
  picture->part = where;
  found_.push_back(std::move(*picture));
}

Result<turn::Picture> Pictures::by_url(std::string_view url) {
  if (!has_prefix(url, "data:")) return by_address(url);
  auto bytes = decode(url);
  if (!bytes) return Error{bytes.error()};
  const uint64_t hash = content_hash(*bytes);
  return turn::Picture{std::make_shared<const std::string>(std::move(*bytes)), {}, hash};
}

// Whatever is refused here is refused without a look-up or a connection.
Result<turn::Picture> Pictures::by_address(std::string_view address) {
  if (!may_fetch()) return Error{"is a picture by address, and pictures are not fetched; send it as a data: URL in base64"};
  const auto url = url::parse(address);
  if (!url) return Error{"is a picture whose address " + url.error()};
  if (!vision_.url_allow->allows(*url)) {
    return Error{"is a picture by address, and from there none are fetched (vision.url_allow); send it as a data: URL in base64"};
  }
  const std::string text = url->origin() + url->target();
  auto& shared = addresses_[text];
  if (!shared) shared = std::make_shared<turn::PictureAddress>(turn::PictureAddress{text});
  return turn::Picture{nullptr, {}, content_hash(text), shared};
}

Result<std::string> Pictures::decode(std::string_view url) const {
  const size_t comma = url.find(',');
  if (comma == std::string_view::npos || !has_suffix(url.substr(0, comma), ";base64")) {
    return Error{"is a picture whose data: URL is not of the form data:image/png;base64,..."};
  }
  const std::string_view data = url.substr(comma + 1);
  if (data.empty()) return Error{"is a picture without a byte"};
  const auto size = static_cast<int64_t>(data.size() / 4 * 3);
  if (size - 2 > vision_.image_bytes) {
    return Error{"is a picture of " + std::to_string(size) + " bytes, over the limit of " + std::to_string(vision_.image_bytes) +
                 " (vision.image_bytes)"};
  }
  auto bytes = decode_base64(data);
  if (!bytes) return Error{"is a picture that cannot be decoded: " + bytes.error()};
  if (static_cast<int64_t>(bytes->size()) > vision_.image_bytes) {
    return Error{"is a picture of " + std::to_string(bytes->size()) + " bytes, over the limit of " + std::to_string(vision_.image_bytes) +
                 " (vision.image_bytes)"};
  }
  return bytes;
}

}  // namespace vigil::api
