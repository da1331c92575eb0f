// The lines between the daemon and an engine child as values, with encode and decode. Text only: no I/O, no clock, no threads.
// Untagged lines are what users' scripts speak; with the READY word `ids` each line of a request begins with "@<request> ".
// Every malformed line is an Error that quotes (a clipped, printable form of) the line. docs/line-protocol.md lists the grammar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::protocol {

using TokenId = int32_t;
using RequestTag = uint64_t;  // the number behind "req=" and "@"

inline constexpr size_t max_line_from_child_bytes = 64 * 1024;
inline constexpr size_t max_line_to_child_bytes = 32 * 1024 * 1024;  // a prompt of 1M tokens
inline constexpr int max_slots = 1024;
inline constexpr int max_logprobs = 20;
inline constexpr size_t max_vector_part = 9 * 1024;   // numbers: 48 KiB of base64
inline constexpr int64_t max_vector = 1 << 20;        // numbers of one embedding
inline constexpr size_t max_forced_ids = 1024;

// ---- engine to server
struct Info {                     // INFO k=v ...; any number before READY, load progress among them
  std::vector<std::pair<std::string, std::string>> values;  // percent-decoded
  std::optional<double> load() const;  // of "load=0.37": 0 to 1; nothing when absent or not a number in range
  bool operator==(const Info&) const = default;
};
struct Ready {                    // READY ctx [word...]
  int64_t context = 0;            // tokens, >= 1
  bool stop = false, ids = false, logprobs = false, gpu = false, grammar = false, embeddings = false;
  int slots = 1;                  // slots=N, 1 to max_slots; above 1 only with `ids`
  std::optional<int64_t> beat_ms; // beat=MS, 10 to 3,600,000
  std::vector<std::string> others;  // unknown words, kept in order
  bool operator==(const Ready&) const = default;
};
struct Resume {  // RESUME n
  int64_t tokens = 0;
  bool operator==(const Resume&) const = default;
};
struct PromptProgress {  // PP read total [ms [tok_s]]
  int64_t read = 0, total = 0;
  double ms = 0, tokens_per_s = 0;
  bool operator==(const PromptProgress&) const = default;
};
struct Candidate {
  TokenId id = 0;
  double logprob = 0;
  bool operator==(const Candidate&) const = default;
};
struct Token {                    // T id [lp=-0.12 [top=id:lp,id:lp]]
  TokenId id = 0;
  std::optional<double> logprob;
  std::vector<Candidate> top;
  bool operator==(const Token&) const = default;
};
struct Done {                     // DONE gen prompt prompt_ms decode_ms finish [more...]
  int64_t generated = 0, prompt = 0;
  double prompt_ms = 0, decode_ms = 0;
  std::string finish;             // stop, length or cancel; anything else is kept as it came
  std::vector<std::string> more;
  bool operator==(const Done&) const = default;
};
struct EngineError {  // ERR text
  std::string text;
  bool operator==(const EngineError&) const = default;
};
struct Fatal {  // FATAL why
  std::string why;
  bool operator==(const Fatal&) const = default;
};
struct Wait {  // SWAIT phase s
  std::string phase;
  double seconds = 0;
  bool operator==(const Wait&) const = default;
};
struct Beat {                     // BEAT step=N [active=17,18]; never tagged
  uint64_t step = 0;
  std::optional<std::vector<RequestTag>> active = {};  // the engine's own account of what it works on, at most max_slots; "active=" = nothing
  bool operator==(const Beat&) const = default;
};

struct VectorPart {               // V offset base64; answers EMB, any number of them before DONE
  int64_t offset = 0;             // in numbers, of the first one; parts come in order and leave nothing out
  std::vector<float> values;      // finite, at least one; on the line float32, little endian, at most max_vector_part of them
  bool operator==(const VectorPart&) const = default;
};

using EngineEvent = std::variant<Info, Ready, Resume, PromptProgress, Token, Done, EngineError, Fatal, Wait, Beat, VectorPart>;
struct EngineLine {
  std::optional<RequestTag> request;
  EngineEvent event;
  bool operator==(const EngineLine&) const = default;
};

// `line` without its end ("\n" or "\r\n"). Extra fields after the known ones are accepted (fields are only ever appended).
Result<EngineLine> parse_engine_line(std::string_view line);
// With the final "\n".
std::string encode(const EngineLine& line);

// ---- server to engine
struct ForceAt {                  // force_at=N:id,id,...: behind N tokens of the answer these ids come as if the model had chosen them, unless one
  int64_t tokens = 0;             // token has come before: that of force_unless, else that of grammar_after, else the last of the ids
  std::vector<TokenId> ids;       // 1 to max_forced_ids
  std::optional<TokenId> unless;  // force_unless=id
  bool operator==(const ForceAt&) const = default;
};
struct Sampling {                 // what GEN carries; absent keys take the engine's default: greedy
  std::optional<double> temperature, top_p, min_p;
  std::optional<int64_t> top_k;
  std::optional<uint64_t> seed;
  std::optional<int64_t> penalty_last_n;
  std::optional<double> penalty_repeat, penalty_freq, penalty_present;
  std::vector<std::pair<TokenId, double>> logit_bias;
  std::optional<int> logprobs;    // 0 to max_logprobs
  std::string grammar;            // grammar=: GBNF (protocol/gbnf.hpp), percent-encoded on the line, at most gbnf::max_text_bytes; empty = none
  std::optional<TokenId> grammar_after;  // the grammar begins behind this token of the answer; absent = at once; only with a grammar
  std::optional<ForceAt> force_at;
  bool operator==(const Sampling&) const = default;
};
struct Generate {                 // GEN max_new [k=v ...] id,id,...   or GENI max_new [k=v ...] embeddings-file id,id,...
  int64_t max_new = 0;
  std::optional<RequestTag> request;  // req=
  Sampling sampling;
  std::string embeddings_file;    // GENI only; percent-encoded on the line
  std::vector<std::pair<std::string, std::string>> others;  // unknown keys, kept
  std::vector<TokenId> ids;
  bool operator==(const Generate&) const = default;
};
enum class Pooling : uint8_t { mean, cls, last };  // of the hidden states of all tokens; the first one's; the last one's
struct Embed {                    // EMB [req=] pool=mean|cls|last id,id,...; an engine whose READY carries `embeddings` knows it
  std::optional<RequestTag> request;
  Pooling pool = Pooling::mean;
  std::vector<TokenId> ids;
  bool operator==(const Embed&) const = default;
};
struct Stop {  // STOP [n]
  std::optional<RequestTag> request;
  bool operator==(const Stop&) const = default;
};
struct Quit {
  bool operator==(const Quit&) const = default;
};
using EngineCommand = std::variant<Generate, Embed, Stop, Quit>;

Result<EngineCommand> parse_engine_command(std::string_view line);
std::string encode(const EngineCommand& command);

// ---- vision child
struct VisionReady {  // READY width
  int64_t width = 0;
  bool operator==(const VisionReady&) const = default;
};
struct VisionOk {  // OK n nx ny ms
  int64_t n = 0, nx = 0, ny = 0;
  double ms = 0;
  bool operator==(const VisionOk&) const = default;
};
using VisionEvent = std::variant<Info, VisionReady, VisionOk, EngineError>;
struct Encode {  // ENC image-path out-path, both percent-encoded
  std::string image_path, out_path;
  bool operator==(const Encode&) const = default;
};
using VisionCommand = std::variant<Encode, Quit>;

Result<VisionEvent> parse_vision_line(std::string_view line);
std::string encode(const VisionEvent& event);
Result<VisionCommand> parse_vision_command(std::string_view line);
std::string encode(const VisionCommand& command);

// ---- values with blanks, line breaks or '%' travel percent-encoded
std::string percent_encode(std::string_view raw);
Result<std::string> percent_decode(std::string_view encoded);
// At most `limit` bytes of `line`, control and non-ASCII bytes shown as \xNN: for error texts and logs.
std::string printable(std::string_view line, size_t limit = 120);

}  // namespace vigil::protocol
