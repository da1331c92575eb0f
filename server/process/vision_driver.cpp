// See vision_driver.hpp. Here: the files of the jobs, <job>.picture for the child to read, <job>.sve for it to write, <job>.record once checked,
// <request>.embeddings for several pictures.
#include "server/process/vision_driver.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "server/process/file_worker.hpp"

namespace vigil::process {
namespace {

Result<void> write_file(const std::string& path, const std::string& bytes) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto failed = [&] { return Error{"its file cannot be written: " + std::string(std::strerror(errno))}; };  // clients read it: no path
  if (!file) return failed();
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t n = ::write(file.get(), bytes.data() + written, bytes.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed();
    written += static_cast<size_t>(n);
  }
  return {};
}

// The last owner of either is often the loop, which no disk may hold: the files are the worker's to remove.
using File = std::shared_ptr<const FileWorker::OwnedFile>;
using Owner = std::function<File(std::string path)>;
struct RecordFile final : EncodedPicture {
  File file;
};
// One picture's embeddings are its record, which others may use too; several are a file of their own.
struct EmbeddingsFile final : turn::Embeddings {
  File file;
};

const File& file_of(const std::shared_ptr<const EncodedPicture>& picture) { return static_cast<const RecordFile&>(*picture).file; }

using Picture = Result<std::shared_ptr<const EncodedPicture>>;
using Embeddings = Result<std::shared_ptr<const turn::Embeddings>>;

Picture keep_record(const std::string& out, const std::string& kept, const RecordShape& promised, const Owner& own) {
  const auto bytes = check_record(out, promised);
  if (!bytes) return Error{bytes.error()};
  if (::rename(out.c_str(), kept.c_str()) != 0) return Error{"it cannot be kept: " + std::string(std::strerror(errno))};
  auto record = std::make_shared<RecordFile>();
  record->file = own(kept);
  record->rows = promised.rows;
  record->bytes = *bytes;
  return std::shared_ptr<const EncodedPicture>(std::move(record));
}

Embeddings join(const std::vector<std::shared_ptr<const EncodedPicture>>& pictures, const std::string& path, const Owner& own) {
  auto made = std::make_shared<EmbeddingsFile>();
  std::vector<std::string> records;
  for (const auto& picture : pictures) {
    made->rows.push_back(picture->rows);
    records.push_back(file_of(picture)->path());
  }
  if (pictures.size() == 1) {
    made->file = file_of(pictures.front());
  } else {
    if (auto done = join_records(records, path); !done) return Error{done.error()};
    made->file = own(path);
  }
  made->path = made->file->path();
  return std::shared_ptr<const turn::Embeddings>(std::move(made));
}

}  // namespace

struct VisionDriver::Impl final : PictureFiles {
  Impl(boost::asio::io_context& io, DriverOptions settings, VisionLimits limits, PictureFolder private_folder, DriverObserver observer)
      : options(std::move(settings)), folder(std::move(private_folder)), worker(io), host(io, options, std::move(observer), conductor),
        conductor(std::move(limits), host, *this) {}

  DriverOptions options;  // the last ones given
  PictureFolder folder;
  FileWorker worker;
  ChildHost host;
  VisionConductor conductor;
  std::shared_ptr<bool> token = std::make_shared<bool>(true);  // results that may outlive us look here

  std::string path(uint64_t number, const char* ending) const { return folder.path() + "/" + std::to_string(number) + ending; }

  // `work` on the thread, then `report` with what it gave, unless we are gone by then.
  template <typename Outcome, typename Work, typename Report>
  void on_files(Work work, Report report) {
    auto outcome = std::make_shared<std::optional<Outcome>>();
    worker.run(
        [outcome, work = std::move(work)] {
          try {
            outcome->emplace(work());
          } catch (const std::exception& failure) {
            outcome->emplace(Error{failure.what()});
          }
        },
               [this, outcome, report = std::move(report), alive = std::weak_ptr<bool>(token)] {
                 if (!alive.expired()) host.order([&] { report(**outcome); });
               });
  }

  // ---- PictureFiles
  void store(JobId job, std::shared_ptr<const std::string> bytes) override {
    using Paths = Result<protocol::Encode>;
    on_files<Paths>(
        [image = path(job, ".picture"), out = path(job, ".sve"), bytes = std::move(bytes)]() -> Paths {
          if (auto done = write_file(image, *bytes); !done) return Error{done.error()};
          return protocol::Encode{image, out};
        },
        [this, job](const Paths& paths) { conductor.stored(job, paths); });
  }
  void read(JobId job, const RecordShape& promised) override {
    on_files<Picture>([out = path(job, ".sve"), kept = path(job, ".record"), promised, own = worker.owner()] { return keep_record(out, kept, promised, own); },
                      [this, job](const Picture& picture) { conductor.was_read(job, picture); });
  }
  void discard(JobId job) override {
    worker.run([image = path(job, ".picture"), out = path(job, ".sve")] {
      ::unlink(image.c_str());
      ::unlink(out.c_str());
    });
  }
  void join(turn::RequestKey key, std::vector<std::shared_ptr<const EncodedPicture>> pictures) override {
    on_files<Embeddings>([file = path(key, ".embeddings"), pictures = std::move(pictures), own = worker.owner()] { return process::join(pictures, file, own); },
                         [this, key](const Embeddings& embeddings) { conductor.joined(key, embeddings); });
  }
};

VisionDriver::VisionDriver(boost::asio::io_context& io, DriverOptions options, VisionLimits limits, PictureFolder folder, DriverObserver observer)
    : impl_(std::make_unique<Impl>(io, std::move(options), std::move(limits), std::move(folder), std::move(observer))) {}

VisionDriver::~VisionDriver() = default;

void VisionDriver::attach(turn::Desk& desk) { impl_->conductor.attach(desk); }

void VisionDriver::load() {
  impl_->host.order([this] { impl_->conductor.load(); });
}

void VisionDriver::stop(supervise::Trouble why, bool at_once, std::function<void()> done) {
  impl_->host.order([&] { impl_->conductor.unload(why, at_once); });
  impl_->host.when_gone(std::move(done));
}

void VisionDriver::switch_off() {
  impl_->host.order([this] { impl_->conductor.switch_off(); });
}
void VisionDriver::switch_on() { impl_->conductor.switch_on(); }

void VisionDriver::set_limits(const VisionLimits& limits) {
  impl_->host.order([&] { impl_->conductor.set_limits(limits); });
}

void VisionDriver::set_options(DriverOptions options) {
  if (options.exe == impl_->options.exe && options.args == impl_->options.args && options.env == impl_->options.env) return;
  impl_->options = options;
  impl_->host.set_options(std::move(options));
  impl_->host.order([this] { impl_->conductor.settings_changed(); });
}

void VisionDriver::encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) { impl_->conductor.encode(key, pictures); }
void VisionDriver::abandon(turn::RequestKey key) { impl_->conductor.abandon(key); }

const supervise::Child& VisionDriver::child() const { return impl_->conductor.child(); }

}  // namespace vigil::process
