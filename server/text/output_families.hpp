// The families' forms, each as a function that makes it. Not here: which one a model has (output_format.cpp).
#pragma once

#include "server/text/output_format.hpp"

namespace vigil::text::families {

using Form = OutputFormat (*)();

// Calls as JSON objects, or as a name and a JSON object.
OutputFormat hermes();
OutputFormat minimax_m1();
OutputFormat llama();
OutputFormat functionary_tags();
OutputFormat functionary_lines();
OutputFormat functools();
OutputFormat mistral_list();
OutputFormat mistral_arguments();
OutputFormat harmony();
OutputFormat deepseek_fenced();
OutputFormat deepseek();
OutputFormat kimi_k2();
OutputFormat granite_list();
OutputFormat cohere_action();
OutputFormat cohere_plain();
OutputFormat toolcall_list();
OutputFormat apertus();
OutputFormat apriel();
OutputFormat gigachat();
OutputFormat solar();
// Calls as tags, or in a notation of their own.
OutputFormat qwen_xml();
OutputFormat seed();
OutputFormat dsml();
OutputFormat glm();
OutputFormat hunyuan();
OutputFormat kimi_k3();
OutputFormat minimax_m2();
OutputFormat minimax_m3();
OutputFormat muse();
OutputFormat minicpm();
OutputFormat gemma();
OutputFormat lfm();

Thinking plain_thinking();  // <think>…</think>

}  // namespace vigil::text::families
