// What requests are told when their pictures are not encoded. Not here: when that is (vision_conductor.cpp).
#include <algorithm>

#include "protocol/vision_fault.hpp"
#include "server/process/vision_conductor.hpp"

namespace vigil::process {

using supervise::Trouble;
using turn::ErrorCode;
using turn::RequestError;

void VisionConductor::refuse(const std::string& detail) {
  const auto key = current_->key;
  const std::string& part = current_->shown.part;
  const std::string_view why = current_->refusal;
  const std::string behind = detail.empty() ? "" : " (" + detail + ")";
  RequestError error{ErrorCode::image_invalid, part + " could not be read: " + std::string(why) + behind, part, retry_soon_s};
  if (why.starts_with(protocol::vision_fault)) {  // not the picture's fault
    error = {ErrorCode::vision_unavailable, "the vision child could not encode " + part + ": " + std::string(why.substr(protocol::vision_fault.size())) + behind, "",
             retry_later_s};
  }
  end_current();
  if (key != 0) fail(key, error);
}

RequestError VisionConductor::error_for(Trouble why, const std::string& text, const std::string& part) const {
  RequestError error{ErrorCode::vision_unavailable, "", "", retry_soon_s};
  const std::string during = part.empty() ? "" : " while it encoded " + part;
  switch (why) {
    case Trouble::not_ready:
    case Trouble::start_failed:
      error.message = "the vision child " + text;
      if (why == Trouble::not_ready) error.retry_after_s = retry_later_s;
      break;
    case Trouble::silent:
    case Trouble::stalled:
    case Trouble::cancel_unanswered:
      error.message = "the vision child was silent" + during + ": " + text;
      break;
    case Trouble::crashed:
      error.message = "the vision child died" + during + ": " + text;
      break;
    case Trouble::unloaded:
      error.message = "the vision child was stopped" + during + ": " + text;
      break;
    case Trouble::shutting_down:
      error = {ErrorCode::shutting_down, text, "", retry_later_s};
      break;
    case Trouble::crash_loop:
      error.message = "the vision child failed several times in a row and is not started again before its back-off is over "
                      "(engine.backoff_first_ms, engine.backoff_max_s); last reason: " + text;
      error.retry_after_s = std::max(retry_soon_s, seconds(child_.retry_in(hands_.now())));
      break;
  }
  return error;
}

}  // namespace vigil::process
