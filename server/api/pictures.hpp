// The pictures of a request: content parts with a data URL, checked and decoded, or with an address, checked against the allow list. What a picture
// shows is the vision child's business, so nothing here looks into it. Not here: where it stands in the prompt, how it is fetched and encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "protocol/result.hpp"
#include "server/api/api.hpp"
#include "server/api/request_fields.hpp"
#include "server/turn/request.hpp"

namespace vigil::api {

inline constexpr size_t max_pictures = 256;  // of one request, all turns together

// RFC 4648, section 4, to the letter: padded, no blanks or line breaks, no bits left over. The error says what is wrong and where.
Result<std::string> decode_base64(std::string_view text);

// FNV-1a by words of eight bytes (the upper half folded down so that every bit counts), then by bytes.
uint64_t content_hash(std::string_view bytes);

turn::RequestError no_image_token(const turn::Picture& picture);  // the model's vocabulary has nothing that could stand for it

bool is_picture_type(const std::string& type);  // image_url, input_image, image

class Pictures {
 public:
  explicit Pictures(const VisionStatus& vision) : vision_(vision) {}

  // Takes the picture of a content part; `where` names it ("messages[0].content[1]"). A failure is `image_invalid` with that name and sticks
  // to `part`.
  void take(Fields& part, const std::string& where);
  std::vector<turn::Picture> release() { return std::move(found_); }

 private:
  bool may_fetch() const { return vision_.url_allow && !vision_.url_allow->empty(); }
  Result<turn::Picture> by_url(std::string_view url);
  Result<turn::Picture> by_address(std::string_view address);
  Result<std::string> decode(std::string_view url) const;

  const VisionStatus& vision_;
  std::vector<turn::Picture> found_;
  std::map<std::string, std::shared_ptr<turn::PictureAddress>> addresses_;  // by URL: the same one twice is fetched once
};

}  // namespace vigil::api
