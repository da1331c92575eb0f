// See constraint.hpp.
#include "server/api/constraint.hpp"

namespace vigil::api {

std::string constrained_by(const GenerationPlan& plan) {
  if (const auto* conversation = std::get_if<text::Conversation>(&plan.prompt)) {
    using Kind = text::ToolChoice::Kind;
    if (conversation->tool_choice.kind == Kind::required || conversation->tool_choice.kind == Kind::named) return "tool_choice";
  }
  return plan.shape.kind == OutputShape::Kind::free ? "" : plan.shape.field;
}

std::optional<turn::RequestError> constrain(const GenerationPlan& plan, bool /*thinking_open*/, protocol::Sampling& /*sampling*/) {
  const std::string field = constrained_by(plan);
  if (field.empty()) return std::nullopt;
  return bad_field(field, "is not supported: this server does not do structured output yet; leave it out");
}

}  // namespace vigil::api
