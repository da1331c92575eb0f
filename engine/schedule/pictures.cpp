// See pictures.hpp. Nothing is allocated after the file's own numbers before they are held against the prompt.
#include "engine/schedule/pictures.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>

namespace vigil::schedule {
namespace {

static_assert(std::endian::native == std::endian::little, "records are read as they lie in memory");

constexpr std::string_view magic = "SVE1";
constexpr int64_t header_bytes = 20, most_side = 1 << 16;

struct Record {
  int64_t rows = 0, columns = 0, lines = 0;
};

class RecordFile {
 public:
  ~RecordFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  RecordFile() = default;
  RecordFile(const RecordFile&) = delete;

  Result<void> open(const std::string& path) {
    // Not blocking: a FIFO in its place would hold the open for ever.
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd_ < 0) return Error{"the embeddings file cannot be opened: " + std::string(std::strerror(errno))};
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) return Error{"the embeddings file is no regular file"};
    left_ = info.st_size;
    return {};
  }
  int64_t left() const { return left_; }

  bool read(void* into, int64_t bytes) {
    char* to = static_cast<char*>(into);
    while (bytes > 0) {
      const ssize_t count = ::read(fd_, to, static_cast<size_t>(bytes));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      to += count;
      bytes -= count;
      left_ -= count;
    }
    return true;
  }

 private:
  int fd_ = -1;
  int64_t left_ = 0;
};

// Reads every record; `most_rows` is what the prompt can have.
Result<std::vector<Record>> read_records(const std::string& path, int64_t most_rows, int64_t width, std::vector<float>& values) {
  RecordFile file;
  if (Result<void> opened = file.open(path); !opened) return Error{opened.error()};
  std::vector<Record> records;
  values.reserve(static_cast<size_t>(std::min(file.left() / static_cast<int64_t>(sizeof(float)), most_rows * width)));
  int64_t rows = 0;
  while (file.left() > 0) {
    const auto wrong = [&](const std::string& what) { return Error{"record " + std::to_string(records.size()) + " of the embeddings file " + what}; };
    char header[header_bytes];
    if (file.left() < header_bytes || !file.read(header, header_bytes)) return wrong("ends within its header");
    if (std::string_view(header, magic.size()) != magic) return wrong("does not begin with SVE1");
    int32_t numbers[4];
    std::memcpy(numbers, header + magic.size(), sizeof numbers);
    const Record record{numbers[0], numbers[1], numbers[2]};
    if (numbers[3] != width) return wrong("has rows of " + std::to_string(numbers[3]) + " floats, the model takes " + std::to_string(width));
    if (record.rows < 1 || record.columns < 0 || record.lines < 0 || record.columns > most_side || record.lines > most_side) {
      return wrong("has " + std::to_string(record.rows) + " rows in a grid of " + std::to_string(record.columns) + " x " + std::to_string(record.lines));
    }
    if (record.rows > most_rows - rows) return wrong("has more rows than the prompt has ids for them");
    const int64_t floats = record.rows * width, bytes = floats * static_cast<int64_t>(sizeof(float));
    if (file.left() < bytes) return wrong("ends within its rows");
    const size_t before = values.size();
    values.resize(before + static_cast<size_t>(floats));
    if (!file.read(values.data() + before, bytes)) return wrong("cannot be read to its end");
    const auto bad = std::find_if(values.begin() + static_cast<std::ptrdiff_t>(before), values.end(), [](float value) { return !std::isfinite(value); });
    if (bad != values.end()) return wrong("holds a number that is not finite");
    rows += record.rows;
    records.push_back(record);
  }
  if (records.empty()) return Error{"the embeddings file holds no record"};
  return records;
}

// Where each record's rows stand: [first, end) by record; empty when `image` is not laid out like the records.
std::vector<std::pair<int64_t, int64_t>> find_places(const std::vector<TokenId>& ids, TokenId image, const std::vector<Record>& records) {
  std::vector<std::pair<int64_t, int64_t>> places;
  int64_t at = 0;
  const auto size = static_cast<int64_t>(ids.size());
  for (const Record& record : records) {
    while (at < size && ids[static_cast<size_t>(at)] != image) ++at;
    const int64_t first = at;
    for (int64_t row = 0; row < record.rows; ++row, ++at) {
      if (at >= size || ids[static_cast<size_t>(at)] != image) return {};
    }
    places.emplace_back(first, at);
  }
  for (; at < size; ++at) {
    if (ids[static_cast<size_t>(at)] == image) return {};
  }
  return places;
}

// FNV-1a by words of eight bytes, then by bytes, the upper half folded down so that every bit counts.
uint64_t hash(uint64_t state, const void* data, size_t bytes) {
  constexpr uint64_t prime = 0x100000001b3;
  const auto* byte = static_cast<const unsigned char*>(data);
  for (; bytes >= sizeof(uint64_t); byte += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, byte, sizeof word);
    state = (state ^ word) * prime;
    state ^= state >> 32;
  }
  for (; bytes > 0; ++byte, --bytes) {
    state = (state ^ *byte) * prime;
    state ^= state >> 32;
  }
  return state;
}

}  // namespace

Result<Pictures::Prompt> Pictures::read(const std::string& path, std::vector<TokenId> ids, std::optional<TokenId> image, int64_t width,
                                        const model::PictureRule& rule, std::string_view salt) {
  auto pictures = std::make_shared<Pictures>();
  pictures->width_ = width;
  pictures->see_each_other_ = rule.see_each_other;
  pictures->on_grid_ = rule.on_grid;
  const Result<std::vector<Record>> records = read_records(path, static_cast<int64_t>(ids.size()), width, pictures->values_);
  if (!records) return Error{records.error()};
  const int64_t rows = static_cast<int64_t>(pictures->values_.size()) / width;
  std::vector<std::pair<int64_t, int64_t>> places;
  if (image) {
    places = find_places(ids, *image, *records);
  } else {
    std::map<TokenId, int64_t> counts;
    for (const TokenId id : ids) ++counts[id];
    for (const auto& [id, count] : counts) {
      if (count != rows) continue;
      auto found = find_places(ids, id, *records);
      if (found.empty()) continue;
      if (!places.empty()) return Error{"GENI: more than one id of the prompt could stand for the pictures; the key image=id says which"};
      places = std::move(found);
    }
  }
  if (places.empty()) {
    return Error{"GENI: the image ids of the prompt do not stand as the " + std::to_string(records->size()) + " records of the embeddings file, " +
                 std::to_string(rows) + " rows in all, ask for"};
  }
  int64_t shift = 0, row = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    const Record& record = (*records)[i];
    if (rule.on_grid && record.columns * record.lines != record.rows) {
      return Error{"record " + std::to_string(i) + " of the embeddings file has " + std::to_string(record.rows) + " rows, its grid " + std::to_string(record.columns) +
                   " x " + std::to_string(record.lines)};
    }
    Place place{places[i].first, places[i].second, record.columns, shift, shift};
    if (rule.on_grid) place.behind += std::max(record.columns, record.lines) - record.rows;
    shift = place.behind;
    pictures->places_.push_back(place);
    uint64_t state = hash(0xcbf29ce484222325, salt.data(), salt.size());
    state = hash(state, &record, sizeof record);
    for (int64_t position = place.first; position < place.end; ++position, ++row) {
      state = hash(state, pictures->values_.data() + row * width, static_cast<size_t>(width) * sizeof(float));
      ids[static_cast<size_t>(position)] = static_cast<TokenId>(-1 - static_cast<int64_t>(state % 0x7fffffff));
    }
  }
  return Prompt{std::move(ids), std::move(pictures)};
}

const Pictures::Place* Pictures::holding(int64_t position) const {
  const auto next = std::upper_bound(places_.begin(), places_.end(), position, [](int64_t at, const Place& place) { return at < place.first; });
  return next == places_.begin() ? nullptr : &*(next - 1);
}

Pictures::Row Pictures::at(int64_t position) const {
  Row row;
  const Place* place = holding(position);
  if (place == nullptr) return row;
  if (position >= place->end) {
    row.shifts.fill(static_cast<int32_t>(place->behind));
    return row;
  }
  int64_t before = 0;  // rows of earlier pictures
  for (const Place* other = places_.data(); other != place; ++other) before += other->end - other->first;
  const int64_t index = position - place->first;
  row.embedding = values_.data() + (before + index) * width_;
  if (see_each_other_) row.ahead = static_cast<int32_t>(place->end - 1 - position);
  row.shifts.fill(static_cast<int32_t>(place->shift));
  if (!on_grid_) return row;
  // All rows of a picture stand at the time of its first one.
  const int64_t start = place->first + place->shift;
  row.shifts = {static_cast<int32_t>(start - position), static_cast<int32_t>(start + index / place->columns - position),
                static_cast<int32_t>(start + index % place->columns - position)};
  return row;
}

int64_t Pictures::whole(int64_t position, int64_t count) const {
  if (!see_each_other_) return count;
  const int64_t end = position + count;
  const Place* place = holding(end - 1);
  if (place == nullptr || end >= place->end) return count;
  return place->first > position ? place->first - position : place->end - position;
}

int64_t Pictures::longest_whole() const {
  int64_t most = 0;
  for (const Place& place : places_) most = std::max(most, place.end - place.first);
  return see_each_other_ ? most : 0;
}

}  // namespace vigil::schedule
