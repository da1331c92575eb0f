// See stop_strings.hpp.
#include "server/text/stop_strings.hpp"

#include <algorithm>
#include <utility>

namespace vigil::text {

StopStrings::StopStrings(std::vector<std::string> stops) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Stop stop{std::move(text), {}, 0};
    stop.fallback.assign(stop.text.size(), 0);
    for (size_t i = 1, border = 0; i < stop.text.size(); ++i) {
      while (border > 0 && stop.text[i] != stop.text[border]) border = stop.fallback[border - 1];
      if (stop.text[i] == stop.text[border]) ++border;
      stop.fallback[i] = border;
    }
    stops_.push_back(std::move(stop));
  }
}

StopStrings::Match StopStrings::push(std::string_view text, std::string& out) {
  if (matched_) return Match::yes;
  if (stops_.empty()) {
    out.append(text);
    return Match::no;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    size_t longest_match = 0;
    for (Stop& stop : stops_) {
      while (stop.reached > 0 && stop.text[stop.reached] != text[i]) stop.reached = stop.fallback[stop.reached - 1];
      if (stop.text[stop.reached] == text[i]) ++stop.reached;
      if (stop.reached < stop.text.size() || stop.reached <= longest_match) continue;
      longest_match = stop.reached;
      matched_text_ = stop.text;
    }
    if (longest_match == 0) continue;
    held_.append(text.substr(0, i + 1));
    out.append(held_, 0, held_.size() - longest_match);
    held_.clear();
    matched_ = true;
    return Match::yes;
  }
  size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.reached);
  held_.append(text);
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return Match::no;
}

void StopStrings::interrupt(std::string& out) {
  finish(out);
  for (Stop& stop : stops_) stop.reached = 0;
}

void StopStrings::finish(std::string& out) {
  if (!matched_) out.append(held_);
  held_.clear();
}

}  // namespace vigil::text
