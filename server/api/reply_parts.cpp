// See reply_parts.hpp.
#include "server/api/reply_parts.hpp"

#include <algorithm>

namespace vigil::api {

void Piece::add(PartKind kind, std::string_view added, size_t call) {
  const bool joins = kind != PartKind::call_begin && kind != PartKind::call_end && !parts.empty() && parts.back().kind == kind && parts.back().call == call;
  text.append(added);
  if (joins) {
    parts.back().end = text.size();
  } else {
    parts.push_back({kind, call, text.size() - added.size(), text.size()});
  }
}

void Piece::clear() {
  text.clear();
  parts.clear();
  ids.clear();
  logprobs.clear();
}

ReplyItem& ItemCollector::open_item(ReplyItem::Kind kind) {
  if (items_.empty() || items_.back().kind != kind) items_.push_back({kind, {}});
  return items_.back();
}

void ItemCollector::add(const Piece& piece) {
  for (const Part& part : piece.parts) {
    const std::string_view text = piece.text_of(part);
    switch (part.kind) {
      case PartKind::content: open_item(ReplyItem::Kind::content).text += text; break;
      case PartKind::reasoning: open_item(ReplyItem::Kind::reasoning).text += text; break;
      case PartKind::call_begin: items_.push_back({ReplyItem::Kind::call, {}, std::string(text), part.call_id, false}); break;
      case PartKind::call_arguments: items_.back().text += text; break;
      case PartKind::call_end: items_.back().complete = true; break;
    }
  }
}

std::vector<ReplyItem> ItemCollector::complete_items() const {
  std::vector<ReplyItem> out;
  for (const ReplyItem& item : items_) {
    if (!item.complete) continue;
    out.push_back(item);
    if (item.kind == ReplyItem::Kind::call && item.text.empty()) out.back().text = "{}";
  }
  return out;
}

std::string joined(const std::vector<ReplyItem>& items, ReplyItem::Kind kind) {
  std::string out;
  for (const ReplyItem& item : items)
    if (item.kind == kind) out += item.text;
  return out;
}

}  // namespace vigil::api
