// The output parser's outside. See output_parser.hpp; the work is in output_state.hpp.
#include "server/text/output_parser.hpp"

#include "server/text/output_state.hpp"

namespace vigil::text {

OutputParser::OutputParser(std::shared_ptr<const OutputFormat> format, Options options, OutputSink& sink)
    : state_(std::make_unique<State>(std::move(format), std::move(options), sink)) {}
OutputParser::~OutputParser() = default;

void OutputParser::push(std::string_view text, Source source) { state_->push(text, source); }
void OutputParser::finish(End end) { state_->finish(end); }
bool OutputParser::inside_thinking() const { return state_->inside_thinking(); }
size_t OutputParser::calls() const { return state_->calls(); }
const std::string& OutputParser::cut_call() const { return state_->cut_call(); }

}  // namespace vigil::text
