// See fetching_encoder.hpp.
#include "server/fetch/fetching_encoder.hpp"

#include <algorithm>
#include <utility>

namespace vigil::fetch {

namespace {

std::string in_seconds(Duration duration) {
  std::string text = std::to_string(seconds(duration));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

FetchingEncoder::~FetchingEncoder() {
  for (const auto& [address, job] : jobs_) fetching_.cancel(job.fetch);
}

void FetchingEncoder::end_all(const turn::RequestError& error) {
  for (const auto& [address, job] : std::exchange(jobs_, {})) fetching_.cancel(job.fetch);
  for (const auto& [key, waiting] : std::exchange(open_, {})) failed_(key, error);
}

void FetchingEncoder::encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) {
  if (std::none_of(pictures.begin(), pictures.end(), [](const turn::Picture& picture) { return picture.address != nullptr; })) {
    return encoder_.encode(key, pictures);
  }
  open_[key] = {pictures, fetching_.now() + options_.limit};
  go_on(key);
}

void FetchingEncoder::abandon(turn::RequestKey key) {
  const auto found = open_.find(key);
  if (found == open_.end()) return encoder_.abandon(key);
  const auto job = jobs_.find(found->second.awaited);
  open_.erase(found);
  if (job == jobs_.end()) return;
  std::erase(job->second.waiting, key);
  if (!job->second.waiting.empty()) return;
  fetching_.cancel(job->second.fetch);
  jobs_.erase(job);
}

void FetchingEncoder::go_on(turn::RequestKey key) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;  // left meanwhile
  Waiting& waiting = found->second;
  waiting.awaited = nullptr;
  for (turn::Picture& picture : waiting.pictures) {
    if (!picture.address) continue;
    if (!picture.address->bytes) return await(key, waiting, picture);
    picture.bytes = picture.address->bytes;
    picture.hash = picture.address->hash;
  }
  const auto pictures = std::move(waiting.pictures);
  open_.erase(found);
  encoder_.encode(key, pictures);
}

void FetchingEncoder::await(turn::RequestKey key, Waiting& waiting, const turn::Picture& picture) {
  waiting.awaited = picture.address.get();
  Job& job = jobs_[waiting.awaited];
  job.waiting.push_back(key);
  if (job.address) return;
  job.address = picture.address;
  const auto parsed = url::parse(job.address->url);  // as the api has, which refused what is no URL
  const url::Url url = parsed ? *parsed : url::Url{};
  job.fetch = fetching_.fetch(url, waiting.deadline, [this, address = waiting.awaited](Outcome outcome) { came(address, std::move(outcome)); });
}

void FetchingEncoder::came(const turn::PictureAddress* address, Outcome outcome) {
  const auto found = jobs_.find(address);
  if (found == jobs_.end()) return;
  const Job job = std::move(found->second);
  jobs_.erase(found);
  if (auto* bytes = std::get_if<Bytes>(&outcome)) {
    job.address->hash = hash_(**bytes);
    job.address->bytes = std::move(*bytes);
    for (const turn::RequestKey key : job.waiting) go_on(key);
    return;
  }
  for (const turn::RequestKey key : job.waiting) refuse(key, *job.address, std::get<Failure>(outcome));
}

// What the client is told is the same whatever happened, so that nobody can find out what listens where.
void FetchingEncoder::refuse(turn::RequestKey key, const turn::PictureAddress& address, const Failure& failure) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  const auto picture = std::find_if(found->second.pictures.begin(), found->second.pictures.end(),
                                    [&](const turn::Picture& one) { return one.address.get() == &address; });
  const std::string part = picture->part;
  open_.erase(found);
  if (const auto url = url::parse(address.url); url && log_) log_(part + " could not be fetched from " + url->origin() + ": " + failure.reason);
  turn::RequestError error;
  if (failure.kind == Failure::Kind::no_room) {
    error = {turn::ErrorCode::queue_full,
             part + " is a picture by address, and as many bytes of such pictures are held as may be at once (vision.url_total_bytes); try again later, or send it "
                    "as a data: URL in base64.",
             part, 1};
  } else {
    error = {turn::ErrorCode::image_invalid,
             part + " is a picture that could not be fetched; its address must give a picture of at most " + std::to_string(options_.image_bytes) +
                 " bytes (vision.image_bytes) within " + in_seconds(options_.limit) + " s (vision.url_s). It can be sent as a data: URL in base64.",
             part, 1};
  }
  failed_(key, error);
}

}  // namespace vigil::fetch
