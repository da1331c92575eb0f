// Three threads: this one computes, one reads commands, one prints beats. They meet in the request queue and at the output.
#include "engine/serve.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <thread>

#include "engine/output.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/request_queue.hpp"
#include "engine/schedule/scheduler.hpp"
#include "protocol/line_splitter.hpp"

namespace vigil::engine {
namespace {

constexpr size_t waiting_requests = 64;  // the daemon queues; more than this is a mistake of the other side
constexpr Duration load_line_period = std::chrono::milliseconds(300);

TimePoint now() { return std::chrono::steady_clock::now(); }

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20); }

// The request that a command which could not be parsed was about, so that its error reaches that request.
std::optional<protocol::RequestTag> tag_in(std::string_view line) {
  const size_t at = line.find(" req=");
  if (at == std::string_view::npos) return std::nullopt;
  const char* first = line.data() + at + 5;
  protocol::RequestTag tag = 0;
  const auto [end, error] = std::from_chars(first, line.data() + line.size(), tag);
  if (error != std::errc{} || (end != line.data() + line.size() && *end != ' ')) return std::nullopt;
  return tag;
}

class Server {
 public:
  Server(const Options& options, int input_fd, int output_fd, AtEnd at_end)
      : options_(options), input_fd_(input_fd), at_end_(at_end), wake_fd_(::eventfd(0, EFD_CLOEXEC)), output_(output_fd, [this] { end(); }),
        queue_(waiting_requests) {}
  ~Server() { ::close(wake_fd_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int run() {
    std::thread reader([this] { read_commands(); });
    const int status = load_and_serve();
    if (at_end_ == AtEnd::exit_process) ::_exit(status);  // the reader may be blocked for ever
    const uint64_t one = 1;
    if (::write(wake_fd_, &one, sizeof one) < 0) std::perror("vigil-engine: eventfd");
    reader.join();
    return status;
  }

 private:
  int load_and_serve() {
    Result<std::unique_ptr<schedule::Runtime>> runtime = load();
    if (!runtime) {
      if (ending_.load()) return 0;
      std::fprintf(stderr, "vigil-engine: %s\n", runtime.error().c_str());
      say(protocol::Fatal{runtime.error()});
      return 1;
    }
    runtime_ = std::move(*runtime);
    queue_.abort_by(runtime_->backend().control().abort);
    grammars_.emplace([this] { return runtime_->token_trie(); }, runtime_->model().vocabulary());
    vocabulary_.store(runtime_->model().vocabulary());
    context_.store(runtime_->context());
    introduce(*runtime_);
    std::thread beats([&] { beat(runtime_->backend().control().steps); });
    const int status = compute_until_end();
    beats.join();
    return status;
  }

  // A device that fails, or memory that runs out, ends the process: whoever started it starts another.
  int compute_until_end() {
    try {
      compute(*runtime_);
      return 0;
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "vigil-engine: %s\n", failure.what());
      say(protocol::Fatal{failure.what()});
      queue_.close();
      return 1;
    }
  }

  Result<std::unique_ptr<schedule::Runtime>> load() {
    schedule::RuntimeOptions runtime_options = options_.runtime;
    runtime_options.available_bytes = schedule::available_memory();
    TimePoint last{};
    const auto progress = [&](double share) {
      if (ending_.load()) return false;
      if (share < 1 && now() - last < load_line_period) return true;
      last = now();
      char text[16];
      std::snprintf(text, sizeof text, "%.3f", share);
      say(protocol::Info{{{"load", text}}});
      return true;
    };
    try {
      return schedule::Runtime::load(options_.model, runtime_options, progress);
    } catch (const std::exception& failure) {  // out of memory
      return Error{options_.model + ": " + failure.what()};
    }
  }

  void introduce(schedule::Runtime& runtime) {
    const model::Model& model = runtime.model();
    if (runtime.context() > model.config().trained_context) {
      std::fprintf(stderr, "vigil-engine: a context of %lld is above the %lld that the model was trained with\n",
                   static_cast<long long>(runtime.context()), static_cast<long long>(model.config().trained_context));
    }
    const compute::KvShape &kv = runtime.kv().shape, &window_kv = runtime.window_kv().shape;
    const bool keeps = runtime.plan().parked_blocks > 0;
    protocol::Info info{{{"context", std::to_string(runtime.context())},
                        {"kv", std::string(compute::name_of(options_.runtime.kv_type))},
                        {"slots", std::to_string(runtime.slots())},
                        {"speculate", std::to_string(runtime.speculate())},
                        {"engine", VIGIL_VERSION},
                        {"backend", std::string(runtime.backend().name())},
                        {"architecture", model.config().architecture},
                        {"vocabulary", std::to_string(model.vocabulary())},
                        {"weights_mib", mib(model.weight_bytes())},
                        {"kv_mib", mib(kv.bytes() + window_kv.bytes())},
                        {"states_mib", mib(model.state_shape().slot_bytes() * static_cast<uint64_t>(runtime.plan().states))},
                        {"parked_mib", mib(static_cast<uint64_t>(runtime.plan().parked_blocks) * kv.block_bytes() + (keeps ? window_kv.bytes() : 0))},
                        {"scratch_mib", mib(model.scratch_bytes())}}};
    if (window_kv.layers > 0) info.values.insert(info.values.end(), {{"window", std::to_string(model.config().window)}, {"window_kv_mib", mib(window_kv.bytes())}});
    if (schedule::Runtime* draft = runtime.draft()) {
      info.values.insert(info.values.end(), {{"draft_architecture", draft->model().config().architecture},
                                           {"draft_context", std::to_string(draft->context())},
                                           {"draft_weights_mib", mib(draft->model().weight_bytes())},
                                           {"draft_kv_mib", mib(draft->kv().shape.bytes() + draft->window_kv().shape.bytes())},
                                           {"draft_scratch_mib", mib(draft->model().scratch_bytes())}});
    }
    say(std::move(info));
    tell_notes(runtime.backend());
    protocol::Ready ready;
    ready.context = runtime.context();
    ready.stop = ready.ids = ready.logprobs = ready.embeddings = true;
    ready.slots = static_cast<int>(runtime.slots());
    ready.grammar = runtime.knows_tokens();
    ready.gpu = runtime.backend().on_gpu();
    ready.beat_ms = options_.beat_ms;
    say(std::move(ready));
  }

  void compute(schedule::Runtime& runtime) {
    schedule::Scheduler scheduler(runtime, queue_, options_.step_ms, now, [this](std::optional<protocol::RequestTag> tag, protocol::EngineEvent event) {
      output_.line({tag, std::move(event)});
    });
    while (queue_.wait()) {
      do {
        scheduler.step();
        tell_notes(runtime.backend());
      } while (!scheduler.idle() && !queue_.closed());
      if (runtime.speculate() > 0) tell(scheduler.tally());
      if (auto figures = runtime.backend().figures(); !figures.empty()) say(protocol::Info{std::move(figures)});
    }
  }

  void tell_notes(const compute::Backend& backend) {
    for (; notes_told_ < backend.notes().size(); ++notes_told_) say(protocol::Info{{{"note", backend.notes()[notes_told_]}}});
  }

  // How guessing has fared since the start: whoever chose the flags wants to know.
  void tell(const schedule::GuessTally& tally) {
    say(protocol::Info{{{"steps", std::to_string(tally.steps)},
                        {"tokens", std::to_string(tally.tokens)},
                        {"looked_up", std::to_string(tally.looked_up)},
                        {"looked_up_right", std::to_string(tally.looked_up_right)},
                        {"drafted", std::to_string(tally.drafted)},
                        {"drafted_right", std::to_string(tally.drafted_right)}}});
  }

  void beat(const std::atomic<uint64_t>& steps) {
    const Duration period = std::chrono::milliseconds(options_.beat_ms);
    while (queue_.wait_active()) {
      while (queue_.still_active_after(period)) say(protocol::Beat{steps.load(std::memory_order_relaxed), queue_.tags()});
    }
  }

  void read_commands() {
    protocol::LineSplitter splitter(protocol::max_line_to_child_bytes);
    std::vector<char> buffer(64 * 1024);
    while (!ending_.load()) {
      pollfd waits[2] = {{input_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) break;
      if (waits[1].revents != 0) return;
      if (waits[0].revents == 0) continue;
      const ssize_t count = ::read(input_fd_, buffer.data(), buffer.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) break;  // the daemon has gone
      try {
        splitter.feed({buffer.data(), static_cast<size_t>(count)}, [this](const protocol::LineSplitter::Line& line) { handle(line); });
      } catch (const std::exception& failure) {  // out of memory for one command
        refuse(std::nullopt, std::string("the command could not be taken: ") + failure.what());
      }
    }
    end();
  }

  void handle(const protocol::LineSplitter::Line& line) {
    if (ending_.load()) return;
    if (line.overlong) {
      return refuse(tag_in(line.text), "the command is longer than " + std::to_string(protocol::max_line_to_child_bytes) + " bytes");
    }
    if (line.text.empty()) return;
    Result<protocol::EngineCommand> command = protocol::parse_engine_command(line.text);
    if (!command) return refuse(tag_in(line.text), command.error());
    if (auto* generate = std::get_if<protocol::Generate>(&*command)) return start(std::move(*generate));
    if (auto* embed = std::get_if<protocol::Embed>(&*command)) {
      schedule::Request request{embed->request, 0, std::move(embed->ids)};
      request.embed = embed->pool;
      return enqueue(std::move(request));
    }
    if (const auto* stop = std::get_if<protocol::Stop>(&*command)) return cancel(*stop);
    end();  // QUIT
  }

  void start(protocol::Generate generate) {
    const std::optional<protocol::RequestTag> tag = generate.request;
    if (generate.max_new < 0) return refuse(tag, "max_new is " + std::to_string(generate.max_new) + "; it must be 0 or more");
    schedule::Request request{tag, generate.max_new, std::move(generate.ids)};
    const int64_t vocabulary = vocabulary_.load();
    if (vocabulary == 0) return enqueue(std::move(request));  // refused there
    if (!generate.embeddings_file.empty()) {
      if (Result<void> added = add_pictures(generate, request); !added) return refuse(tag, added.error());
    }
    Result<sample::Settings> settings = sample::check_settings(generate.sampling, vocabulary);
    if (!settings) return refuse(tag, settings.error());
    // Compiled here, on the reader's thread: a large grammar holds up nobody's tokens.
    Result<sample::ConstraintPlan> constraint = grammars_->plan(generate.sampling);
    if (!constraint) return refuse(tag, constraint.error());
    request.settings = std::move(*settings);
    request.constraint = std::move(*constraint);
    enqueue(std::move(request));
  }

  // Read here, on the reader's thread: the file may go as soon as the request has ended, and a slow disk holds up nobody's tokens.
  Result<void> add_pictures(const protocol::Generate& generate, schedule::Request& request) const {
    std::optional<protocol::TokenId> image;
    std::string contents;
    for (const auto& [key, value] : generate.others) {
      if (key == "img") contents = value;
      if (key != "image") continue;
      protocol::TokenId id = -1;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), id);
      if (error != std::errc{} || end != value.data() + value.size() || id < 0) return Error{"GENI: image=" + value + " is no id"};
      image = id;
    }
    const model::Model& model = runtime_->model();
    Result<schedule::Pictures::Prompt> prompt =
        schedule::Pictures::read(generate.embeddings_file, std::move(request.ids), image, model.config().width, model.picture_rule(), contents);
    if (!prompt) return Error{prompt.error()};
    if (const int64_t rows = prompt->pictures->longest_whole(); rows > runtime_->step_rows()) {
      return Error{"a picture of " + std::to_string(rows) + " rows, which must be read in one step, is over the " + std::to_string(runtime_->step_rows()) +
                   " prompt tokens of a step"};
    }
    request.ids = std::move(prompt->ids);
    request.pictures = std::move(prompt->pictures);
    return {};
  }

  void enqueue(schedule::Request request) {
    const std::optional<protocol::RequestTag> tag = request.tag;
    const int64_t vocabulary = vocabulary_.load();
    if (vocabulary == 0) return refuse(tag, "the model is still loading: wait for READY");
    if (Result<void> usable = schedule::check_ids(request, vocabulary, context_.load()); !usable) return refuse(tag, usable.error());
    switch (queue_.push(std::move(request))) {
      case schedule::RequestQueue::Added::queued: return;
      // Untagged on purpose: under its tag the line would end the request that has it rightly.
      case schedule::RequestQueue::Added::duplicate: return refuse(std::nullopt, "req=" + std::to_string(*tag) + " is in use");
      case schedule::RequestQueue::Added::full: return refuse(tag, "more than " + std::to_string(waiting_requests) + " requests wait");
    }
  }

  void cancel(const protocol::Stop& stop) {
    const schedule::RequestQueue::StopResult result = queue_.stop(stop.request);
    if (result.stopped != schedule::RequestQueue::Stopped::waiting) return;
    protocol::Done done;
    done.finish = "cancel";
    output_.line({result.tag, std::move(done)});
  }

  // Idempotent, from any thread.
  void end() {
    if (at_end_ == AtEnd::exit_process) ::_exit(0);
    ending_.store(true);
    queue_.close();
  }

  void refuse(std::optional<protocol::RequestTag> tag, std::string why) { output_.line({tag, protocol::EngineError{std::move(why)}}); }
  void say(protocol::EngineEvent event) { output_.line({std::nullopt, std::move(event)}); }

  const Options& options_;
  const int input_fd_;
  const AtEnd at_end_;
  const int wake_fd_;
  Output output_;
  schedule::RequestQueue queue_;
  std::atomic<bool> ending_{false};
  size_t notes_told_ = 0;
  std::unique_ptr<schedule::Runtime> runtime_;       // lives until the reader has ended: it asks for the tokens' texts
  std::optional<sample::GrammarCompiler> grammars_;  // made before vocabulary_ says so, then the reader's
  std::atomic<int64_t> vocabulary_{0}, context_{0};  // 0 until loaded
};

}  // namespace

int serve(const Options& options, int input_fd, int output_fd, AtEnd at_end) {
  Server server(options, input_fd, output_fd, at_end);
  return server.run();
}

}  // namespace vigil::engine
