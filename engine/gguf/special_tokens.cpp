// Reads the ids and flags of tokenizer.ggml.*, and finds by their names the tokens that files forget to name: what ends a generation, what
// stands for a picture, what completes in the middle. Not here: the lists of pieces and merges (vocabulary.cpp).
#include <algorithm>
#include <cctype>
#include <span>

#include "engine/gguf/pre_tokenizer.hpp"
#include "engine/gguf/printable.hpp"
#include "engine/gguf/vocabulary.hpp"

namespace vigil::gguf {

namespace {

// Full-width bars and U+2581, as DeepSeek writes its markers.
#define VIGIL_BAR "\xEF\xBD\x9C"
#define VIGIL_LOW "\xE2\x96\x81"

// Pieces that end a turn or a text in the chat formats in use, whatever the file's own ids say: files often name only one of several.
constexpr std::string_view end_pieces[] = {
    "</s>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>", "<end_of_utterance>", "<|END_OF_TURN_TOKEN|>", "<" VIGIL_BAR "end" VIGIL_LOW "of" VIGIL_LOW "sentence" VIGIL_BAR ">",
    "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<eos>", "<turn|>", "<|tool_response>", "[e~[",
};

// The end of a turn, in the order of preference, where no key names it.
constexpr std::string_view turn_pieces[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]",
    "<" VIGIL_BAR "end" VIGIL_LOW "of" VIGIL_LOW "sentence" VIGIL_BAR ">", "<end_of_utterance>",
};

// Pieces that stand for a picture or around it. Files sometimes call them user-defined, and then typed text would become them.
constexpr std::string_view picture_pieces[] = {
    "<image_soft_token>", "<start_of_image>", "<end_of_image>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>", "<|media_pad|>", "<|media_end|>",
    "<IMG_CONTEXT>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<|image|>", "<|image>", "<image|>", "<image>", "<fake_token_around_image>",
    "<|patch|>", "<|image_start|>", "<|image_end|>",
};

constexpr std::string_view infill_prefix_pieces[] = {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<" VIGIL_BAR "fim" VIGIL_LOW "begin" VIGIL_BAR ">",
                                                     "<PRE>", VIGIL_LOW "<PRE>", "<|code_prefix|>", "<|prefix|>"};
constexpr std::string_view infill_suffix_pieces[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<" VIGIL_BAR "fim" VIGIL_LOW "hole" VIGIL_BAR ">",
                                                     "<SUF>", VIGIL_LOW "<SUF>", "<|code_suffix|>", "<|suffix|>"};
constexpr std::string_view infill_middle_pieces[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<" VIGIL_BAR "fim" VIGIL_LOW "end" VIGIL_BAR ">",
                                                     "<MID>", VIGIL_LOW "<MID>", "<|code_middle|>", "<|middle|>"};
constexpr std::string_view infill_pad_pieces[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"};
constexpr std::string_view infill_repository_pieces[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view infill_file_pieces[] = {"<|file_sep|>"};

#undef VIGIL_BAR
#undef VIGIL_LOW

std::optional<TokenId> first_of(const Vocabulary& vocabulary, std::span<const std::string_view> pieces) {
  for (const std::string_view piece : pieces) {
    if (const auto id = vocabulary.find(piece)) return id;
  }
  return std::nullopt;
}

// An id key: absent is fine, outside the vocabulary is not.
Result<std::optional<TokenId>> read_id(const File& file, const char* key, size_t count) {
  if (!file.find(key)) return std::optional<TokenId>();
  auto id = file.integer(key);
  if (!id) return Error{id.error()};
  if (*id < 0 || static_cast<uint64_t>(*id) >= count) {
    return Error{std::string("key '") + key + "': id " + std::to_string(*id) + " is outside the vocabulary of " +
                 std::to_string(count) + " tokens"};
  }
  return std::optional<TokenId>(static_cast<TokenId>(*id));
}

}  // namespace

Result<void> Vocabulary::read_special(const File& file) {
  if (auto step = read_ids(file); !step) return step;
  if (auto step = mark_ends(); !step) return step;
  for (const std::string_view text : picture_pieces) {
    const auto id = find(text);
    if (id && kind(*id) == TokenKind::user_defined) make_control(*id);
  }
  if (auto step = read_flags(file); !step) return step;
  mark_space_takers(file);
  if (model_ == TokenizerModel::wordpiece && !unknown_) {
    return Error{"key 'tokenizer.ggml.unknown_token_id' is missing: without an unknown token, some text has no ids"};
  }
  const bool all_bytes = std::none_of(byte_ids_.begin(), byte_ids_.end(), [](TokenId id) { return id < 0; });
  if (model_ == TokenizerModel::spm && !all_bytes && !unknown_) {
    return Error{"key 'tokenizer.ggml.tokens': the vocabulary has neither all 256 byte tokens nor an unknown token, so some text has no ids"};
  }
  return {};
}

Result<void> Vocabulary::read_ids(const File& file) {
  // What stands at these places when no key says so: SentencePiece's order, and BERT's.
  const auto usual = [&](TokenizerModel model, TokenId id, TokenKind wanted) {
    return model_ == model && id < size() && kind(id) == wanted ? std::optional(id) : std::nullopt;
  };
  constexpr auto spm = TokenizerModel::spm, wordpiece = TokenizerModel::wordpiece;
  const auto first_bos = spm == model_ ? usual(spm, 1, TokenKind::control) : usual(wordpiece, 101, TokenKind::control);
  const auto first_unknown = spm == model_ ? usual(spm, 0, TokenKind::unknown) : usual(wordpiece, 100, TokenKind::control);
  const struct {
    const char* key;
    std::optional<TokenId>* place;
    std::optional<TokenId> fallback = std::nullopt;
  } ids[] = {{"tokenizer.ggml.bos_token_id", &bos_, first_bos},
             {"tokenizer.ggml.cls_token_id", &bos_},
             {"tokenizer.ggml.eos_token_id", &eos_, usual(spm, 2, TokenKind::control)},
             {"tokenizer.ggml.eot_token_id", &eot_},
             {"tokenizer.ggml.eom_token_id", &eom_},
             {"tokenizer.ggml.unknown_token_id", &unknown_, first_unknown},
             {"tokenizer.ggml.seperator_token_id", &separator_, usual(wordpiece, 102, TokenKind::control)},  // so in the format
             {"tokenizer.ggml.padding_token_id", &padding_},
             {"tokenizer.ggml.mask_token_id", &mask_},
             {"tokenizer.ggml.fim_pre_token_id", &infill_.prefix, first_of(*this, infill_prefix_pieces)},
             {"tokenizer.ggml.prefix_token_id", &infill_.prefix},
             {"tokenizer.ggml.fim_suf_token_id", &infill_.suffix, first_of(*this, infill_suffix_pieces)},
             {"tokenizer.ggml.suffix_token_id", &infill_.suffix},
             {"tokenizer.ggml.fim_mid_token_id", &infill_.middle, first_of(*this, infill_middle_pieces)},
             {"tokenizer.ggml.middle_token_id", &infill_.middle},
             {"tokenizer.ggml.fim_pad_token_id", &infill_.pad, first_of(*this, infill_pad_pieces)},
             {"tokenizer.ggml.fim_rep_token_id", &infill_.repository, first_of(*this, infill_repository_pieces)},
             {"tokenizer.ggml.fim_sep_token_id", &infill_.file_separator, first_of(*this, infill_file_pieces)}};
  for (const auto& entry : ids) {
    auto id = read_id(file, entry.key, pieces_.size());
    if (!id) return Error{id.error()};
    if (*id) {
      *entry.place = *id;
    } else if (!*entry.place) {
      *entry.place = entry.fallback;
    }
  }
  if (!eot_) eot_ = first_of(*this, turn_pieces);
  return {};
}

Result<void> Vocabulary::mark_ends() {
  // Two formats close a thought or a message with a piece that elsewhere ends the turn; what ends their turn is another.
  const auto has = [&](std::string_view text) { return find(text).has_value(); };
  const bool end_is_inner = (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && (has("<|call|>") || has("<|calls|>")));
  const bool s_is_text = has("<|tool_response>");
  const auto add_end = [&](std::optional<TokenId> id) {
    if (id && std::find(end_ids_.begin(), end_ids_.end(), *id) == end_ids_.end()) end_ids_.push_back(*id);
  };
  add_end(eos_);
  if (!(end_is_inner && eot_ && piece(*eot_) == "<|end|>")) add_end(eot_);
  add_end(eom_);
  for (const std::string_view text : end_pieces) {
    if ((text == "<|end|>" && end_is_inner) || (text == "</s>" && s_is_text)) continue;
    add_end(find(text));
  }
  for (const auto& id : {infill_.pad, infill_.repository, infill_.file_separator}) add_end(id);

  std::vector<TokenId> controls = end_ids_;
  for (const auto& id : {infill_.prefix, infill_.suffix, infill_.middle, end_is_inner ? find("<|end|>") : std::nullopt}) {
    if (id) controls.push_back(*id);
  }
  for (const TokenId id : controls) {
    const bool is_byte = kind(id) == TokenKind::byte || std::find(byte_ids_.begin(), byte_ids_.end(), id) != byte_ids_.end();
    if (is_byte) return Error{"token " + std::to_string(id) + " ends a generation or marks a place, but is the byte token " + printable(piece(id))};
    make_control(id);
  }
  ends_.assign(pieces_.size(), 0);
  for (const TokenId id : end_ids_) ends_[static_cast<size_t>(id)] = 1;
  return {};
}

Result<void> Vocabulary::read_flags(const File& file) {
  const struct {
    const char* key;
    bool* place;
  } flags[] = {{"tokenizer.ggml.add_bos_token", &add_bos_},
               {"tokenizer.ggml.add_eos_token", &add_eos_},
               {"tokenizer.ggml.add_sep_token", &add_separator_},
               {"tokenizer.ggml.add_space_prefix", &add_space_prefix_},
               {"tokenizer.ggml.normalizer.lowercase", &lower_case_},
               {"tokenizer.ggml.normalizer.strip_accents", &strip_accents_}};
  for (const auto& entry : flags) {
    if (entry.place == &strip_accents_) strip_accents_ = lower_case_;
    auto flag = file.boolean_or(entry.key, *entry.place);
    if (!flag) return Error{flag.error()};
    *entry.place = *flag;
  }
  if (model_ != TokenizerModel::spm) add_space_prefix_ = false;
  // Files of Gemma 4 say false, and the model babbles without.
  if (pre_tokenizer_ && pre_tokenizer_->name == "gemma4") add_bos_ = true;
  return {};
}

// Phi-3's markers take the white space behind them along, except three; the format has no key for that.
void Vocabulary::mark_space_takers(const File& file) {
  if (model_ != TokenizerModel::spm) return;
  std::string name = file.string_or("general.name", "").ok() ? *file.string_or("general.name", "") : "";
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto architecture = file.string_or("general.architecture", "");
  const bool phi3 = name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos || (architecture && *architecture == "phi3");
  if (!phi3) return;
  takes_space_.assign(pieces_.size(), 0);
  for (TokenId id = 0; id < size(); ++id) {
    const bool marker = kind(id) == TokenKind::control || kind(id) == TokenKind::user_defined || kind(id) == TokenKind::unknown;
    const bool keeps = piece(id) == "<unk>" || piece(id) == "<s>" || piece(id) == "<|endoftext|>";
    takes_space_[static_cast<size_t>(id)] = marker && !keeps ? 1 : 0;
  }
}

}  // namespace vigil::gguf
