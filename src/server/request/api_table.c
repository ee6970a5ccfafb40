// api_table.c - the fields of all requests as one table: name, APIs that have it, JSON types,
// bounds, effect, meaning.
//
// null equals absent. A field that is not in the table is ignored: clients send many. A field that
// would change the answer, but is not supported, has a row with an only_* setter: its neutral
// values are accepted, any other is refused. A wrong type or value outranks that.
#include <stddef.h>

#include "server/request/api_fields.h"

#define TEXT   (1u << FXI_API_COMPLETIONS)
#define CHAT   (1u << FXI_API_CHAT)
#define EMBED  (1u << FXI_API_EMBEDDINGS)
#define TOK    (1u << FXI_API_TOKENIZE)
#define DETOK  (1u << FXI_API_DETOKENIZE)
#define RETAIN (1u << FXI_API_RETAIN)
#define BUDGET (1u << FXI_API_BUDGET)
#define ABORT  (1u << FXI_API_ABORT)
#define RESP   (1u << FXI_API_RESPONSES)
#define MSG    (1u << FXI_API_MESSAGES)
#define COUNT  (1u << FXI_API_COUNT)
#define RERANK (1u << FXI_API_RERANK)
#define SCORE  (1u << FXI_API_SCORE)
#define BOTH   (TEXT | CHAT)
#define GEN    (BOTH | RESP | MSG)
#define CHATS  (CHAT | TOK | RETAIN) // those that may hold a conversation
#define SCORES (RERANK | SCORE)
#define RUNS   (GEN | EMBED | RETAIN | SCORES)

#define AT(member) offsetof(fxi_params, member)
#define B          FXI_T_BOOL
#define I          FXI_T_INT
#define N          FXI_T_NUM
#define S          FXI_T_STR
#define A          FXI_T_ARR
#define O          FXI_T_OBJ
#define R          FXI_T_REQUIRED
#define MAX        FXI_NO_MAX

#define ID      "{'type':'integer','minimum':0}"
#define IDS     "{'type':'array','items':" ID "}"
#define STRINGS "{'type':'array','items':{'type':'string'}}"
#define SCHEMA  "{'type':['object','boolean']}"
#define CHOICES "{'type':'array','maxItems':10000,'items':{'type':'string'}}"
#define FORMAT                                                                                   \
    "{'type':'object','required':['type'],'anyOf':[{'properties':{'type':{'enum':['text',"       \
    "'json_object']}}},{'required':['json_schema'],'properties':{'type':{"                       \
    "'const':'json_schema'},'json_schema':{'type':'object','required':['schema'],'properties':{" \
    "'schema':" SCHEMA "}}}}]}"
#define OUTPUTS                                                                            \
    "{'type':'object','properties':{'json':{'type':['object','boolean','string','null']}," \
    "'regex':{'type':['string','null']},'choice':{'type':['array','null']},'grammar':{"    \
    "'type':['string','null']},'json_object':{'type':['boolean','null']}}}"
#define INPUTS "{'anyOf':[{'type':'string'}," STRINGS "," IDS ",{'type':'array','items':" IDS "}]}"
#define TEXTS                                                                                      \
    "{'anyOf':[{'type':'string'},{'type':'array','minItems':1,'items':{'anyOf':[{'type':'string'}" \
    ",{'type':'object','required':['text'],'properties':{'text':{'type':'string'}}}]}}]}"
#define TEXT_PART                                                                                \
    "{'type':'object','required':['type','text'],'properties':{'type':{'const':'text'},'text':{" \
    "'type':'string'}}}"
#define CONTENT "{'anyOf':[{'type':'string'},{'type':'array','minItems':1,'items':" TEXT_PART "}]}"
#define CALL                                                                                     \
    "{'type':'object','required':['function'],'properties':{'id':{'type':['string','null']},"    \
    "'type':{'const':'function'},'function':{'type':'object','required':['name'],'properties':{" \
    "'name':{'type':'string'},'arguments':{'type':['string','object','null']}}}}}"
#define MESSAGES                                                                                   \
    "{'type':'array','minItems':1,'items':{'type':'object','required':['role'],'properties':{"     \
    "'role':{'enum':['system','developer','user','assistant','tool','function']},'name':{"         \
    "'type':['string','null']},'tool_call_id':{'type':['string','null']},'reasoning_content':{"    \
    "'type':['string','null']}},'anyOf':[{'required':['content'],'properties':{'content':" CONTENT \
    ",'tool_calls':{'anyOf':[{'type':'null'},{'type':'array','items':" CALL                        \
    "}]}}},{'required':['tool_calls'],'properties':{'content':{'anyOf':[{'type':'null'}," CONTENT  \
    "]},'tool_calls':{'type':'array','minItems':1,'items':" CALL "}}}]}}"
#define TOOLS                                                                                    \
    "{'type':'array','items':{'type':'object','required':['type','function'],'properties':{"     \
    "'type':{'const':'function'},'function':{'type':'object','required':['name'],'properties':{" \
    "'name':{'type':'string'},'parameters':{'type':['object','null']}}}}}}"
#define SYSTEM_TEXT "{'anyOf':[{'type':'string'},{'type':'array','items':" TEXT_PART "}]}"
#define RESPONSE_INPUT \
    "{'anyOf':[{'type':'string'},{'type':'array','minItems':1,'items':{'type':'object'}}]}"
#define RESPONSE_TOOLS                                                                           \
    "{'type':'array','items':{'type':'object','required':['type','name'],'properties':{'type':{" \
    "'const':'function'},'name':{'type':'string'}}}}"
#define TURNS                                                                                  \
    "{'type':'array','minItems':1,'items':{'type':'object','required':['role','content'],"     \
    "'properties':{'role':{'enum':['user','assistant','system']},'content':{'type':['string'," \
    "'array']}}}}"
#define MESSAGE_TOOLS                                                                            \
    "{'type':'array','items':{'type':'object','required':['name','input_schema'],'properties':{" \
    "'name':{'type':'string'},'input_schema':{'type':'object'}}}}"

// clang-format off
static const fxi_field rows[] = {
    {"model", RUNS | TOK | DETOK | COUNT, S, 0, 0, fxi_set_model, 0, "the served model, by any of its names", NULL, NULL, NULL},
    {"request_id", RUNS, S, 1, 64, fxi_set_text, AT(request_id), "becomes part of the answer's id: letters, digits and _.-", NULL, NULL, "{'type':'string','pattern':'^[A-Za-z0-9_.-]{1,64}$'}"},
    {"user", RUNS, S, 0, 0, NULL, 0, "ignored", NULL, NULL, NULL},

    // What the model reads.
    {"prompt", TEXT, S | A | R, 0, 0, fxi_set_prompt, 0, "a text, a list of token ids, or several of either; choice k of prompt i has index i * n + k", NULL, NULL, INPUTS},
    {"input", EMBED, S | A | R, 0, 0, fxi_set_prompt, 0, "a text, a list of token ids, or several of either", NULL, NULL, INPUTS},
    {"query", RERANK, S | R, 0, 0, fxi_set_json, AT(first_texts), "the text that documents are compared with", NULL, NULL, NULL},
    {"documents", RERANK, A | R, 0, 0, fxi_set_json, AT(second_texts), "texts, or objects with a member text", NULL, NULL, TEXTS},
    {"text_1", SCORE, S | A | R, 0, 0, fxi_set_json, AT(first_texts), "a text, or as many as text_2 has", NULL, NULL, TEXTS},
    {"text_2", SCORE, S | A | R, 0, 0, fxi_set_json, AT(second_texts), "a text, or several: each has a score", NULL, NULL, TEXTS},
    {"prompt", TOK, S, 0, 0, fxi_set_prompt, 0, "the text", NULL, NULL, NULL},
    {"content", TOK, S, 0, 0, fxi_set_prompt, 0, "another name of prompt", NULL, NULL, NULL},
    {"prompt", RETAIN, S | A, 0, 0, fxi_set_prompt, 0, "a text, a list of token ids, or several of either", NULL, NULL, INPUTS},
    {"tokens", DETOK, A | R, 0, 0, fxi_set_ids, AT(tokens), "token ids", NULL, NULL, IDS},
    {"messages", CHAT, A | R, 0, 0, fxi_set_messages, 0, "the conversation", NULL, NULL, MESSAGES},
    {"messages", TOK | RETAIN, A, 0, 0, fxi_set_messages, 0, "a conversation in place of a prompt", NULL, NULL, MESSAGES},
    {"tools", CHATS, A, 0, 0, fxi_set_tools, 0, "functions that the chat template may describe to the model", NULL, NULL, TOOLS},
    {"tool_choice", CHAT | RESP, S | O, 0, 0, fxi_set_tool_choice, 0, "none hides the tools from the template; required, or a function's name: the answer is calls, whose arguments follow their schemas; allowed_tools with a mode (auto, required) and tools: of the functions these alone may be called", "\"auto\"", " none auto required ", NULL},
    {"parallel_tool_calls", CHAT | RESP, B, 0, 0, fxi_set_bool, AT(parallel_calls), "false: an answer ends with its first call", "true", NULL, NULL},
    {"reasoning_effort", CHAT, S, 0, 0, fxi_set_text, AT(effort), "for templates that read it; for others a budget of thinking tokens: minimal 256, low 1024, medium 8192, high and xhigh none; none: the model should not reason", NULL, " none minimal low medium high xhigh ", NULL},
    {"thinking_budget", CHAT | RESP | MSG, I, 0, INT32_MAX, fxi_set_integer, AT(thinking_tok), "most tokens of reasoning: then it is closed, and the answer goes on", NULL, NULL, NULL},
    {"thinking_token_budget", CHAT | RESP | MSG, I, 0, INT32_MAX, fxi_set_integer, AT(thinking_tok), "another name of thinking_budget", NULL, NULL, NULL},
    {"include_reasoning", CHAT | RESP | MSG, B, 0, 0, fxi_set_bool, AT(include_reasoning), "false: reasoning is dropped", "true", NULL, NULL},
    {"separate_reasoning", CHAT | RESP | MSG, B, 0, 0, fxi_set_bool, AT(separate_reasoning), "false: reasoning stays in the text, with its marks", "true", NULL, NULL},
    {"chat_template_kwargs", CHATS | RESP | MSG | COUNT, O, 0, 0, fxi_set_kwargs, 0, "variables for the chat template", NULL, NULL, NULL},
    {"add_generation_prompt", CHATS, B, 0, 0, fxi_set_bool, AT(add_generation_prompt), "the text ends with the header of the assistant's answer", "true", NULL, NULL},
    {"add_special_tokens", TEXT | EMBED | TOK | RETAIN, B, 0, 0, fxi_set_bool, AT(add_special), "a text gets the tokens that the vocabulary puts around it (BOS)", "true", NULL, NULL},
    {"parse_special", TEXT | TOK | RETAIN, B, 0, 0, fxi_set_bool, AT(parse_special), "control tokens spelled out in a raw prompt become those tokens; never in messages", "true", NULL, NULL},
    {"truncate_prompt_tokens", SCORES, I, -1, INT32_MAX, fxi_set_integer, AT(truncate), "keep only this many tokens, the first, of a text or pair; -1: as many as the model reads; 0: all", NULL, NULL, NULL},
    {"truncate_prompt_tokens", BOTH, I, -1, INT32_MAX, fxi_set_integer, AT(truncate), "keep only this many tokens, the last, of a prompt; -1: as many as the context holds; 0: all", NULL, NULL, NULL},

    // When an answer ends.
    {"max_tokens", TEXT, I, 0, MAX, fxi_set_integer, AT(max_tok), "most tokens to generate, clamped to the context; 0 only to score a prompt", "16", NULL, NULL},
    {"max_tokens", CHAT, I, 0, MAX, fxi_set_integer, AT(max_tok), "most tokens to generate, clamped to the context", NULL, NULL, NULL},
    {"max_completion_tokens", CHAT, I, 0, MAX, fxi_set_integer, AT(max_completion_tok), "the same; it overrides max_tokens", NULL, NULL, NULL},
    {"min_tokens", GEN, I, 0, INT32_MAX, fxi_set_int, AT(request.sampling.min_tok), "the answer does not end before it has this many", "0", NULL, NULL},
    {"stop", BOTH, S | A, 0, 0, fxi_set_stop, 0, "strings that end the answer", NULL, NULL, "{'anyOf':[{'type':'string','minLength':1},{'type':'array','maxItems':16,'items':{'type':'string','minLength':1}}]}"},
    {"stop_token_ids", GEN, A, 0, 1024, fxi_set_ids, AT(stop_token), "tokens that end the answer", NULL, NULL, IDS},
    {"include_stop_str_in_output", BOTH, B, 0, 0, fxi_set_bool, AT(request.include_stop), "the answer includes the stop string, or the text of the stop token", "false", NULL, NULL},
    {"ignore_eos", GEN, B, 0, 0, fxi_set_bool, AT(request.ignore_eos), "continue after the model's end-of-text token", "false", NULL, NULL},

    // How a token is chosen.
    {"allowed_token_ids", GEN, A, 1, MAX, fxi_set_ids, AT(allow), "only these tokens are drawn", NULL, NULL, IDS},
    {"bad_words", GEN, A, 0, 256, fxi_set_bad_words, 0, "the tokens of these words, with or without a space in front, are never drawn in a row", NULL, NULL, "{'type':'array','maxItems':256,'items':{'type':'string','minLength':1}}"},
    {"logit_bias", GEN, O, 0, 0, fxi_set_bias, 0, "added to the logit of a token", NULL, NULL, "{'type':'object','additionalProperties':{'type':'number','minimum':-100,'maximum':100}}"},
    {"repetition_penalty", GEN, N | FXI_T_ABOVE, 0, 1e30, fxi_set_float, AT(request.sampling.repetition_penalty), "over prompt and answer; like temperature, min_p, top_k and top_p by default as the operator or the model's makers say: GET /props", NULL, NULL, NULL},
    {"presence_penalty", GEN, N, -2, 2, fxi_set_float, AT(request.sampling.presence_penalty), "over the answer", "0", NULL, NULL},
    {"frequency_penalty", GEN, N, -2, 2, fxi_set_float, AT(request.sampling.frequency_penalty), "over the answer", "0", NULL, NULL},
    {"dry_multiplier", GEN, N, 0, 1e30, fxi_set_float, AT(request.sampling.dry_multiplier), "a token that would go on with a repetition of n tokens loses this times dry_base^(n - dry_allowed_length); 0: off", "0", NULL, NULL},
    {"dry_base", GEN, N, 0, 1e30, fxi_set_float, AT(request.sampling.dry_base), "below 1: off", "1.75", NULL, NULL},
    {"dry_allowed_length", GEN, I, 0, INT32_MAX, fxi_set_int, AT(request.sampling.dry_allowed_length), "the shortest repetition that counts", "2", NULL, NULL},
    {"dry_penalty_last_n", GEN, I, -1, INT32_MAX, fxi_set_int, AT(request.sampling.dry_last_tok), "only so many tokens, the last, of prompt and answer are looked at; -1: all; 0: off", "-1", NULL, NULL},
    {"dry_sequence_breakers", GEN, A, 0, 16, fxi_set_breakers, 0, "texts that no repetition reaches over", "[\"\\n\",\":\",\"\\\"\",\"*\"]", NULL, "{'type':'array','maxItems':16,'items':{'type':'string','minLength':1,'maxLength':40}}"},
    {"temperature", GEN, N, 0, 2, fxi_set_float, AT(request.sampling.temperature), "0: greedy, ties to the lowest id", NULL, NULL, NULL},
    {"min_p", GEN, N, 0, 1, fxi_set_float, AT(request.sampling.min_p), "drop tokens less likely than this times the likeliest", NULL, NULL, NULL},
    {"top_k", GEN, I, -1, INT32_MAX, fxi_set_int, AT(request.sampling.top_k), "this many of the likeliest; -1 or 0: all", NULL, NULL, NULL},
    {"top_p", GEN, N | FXI_T_ABOVE, 0, 1, fxi_set_float, AT(request.sampling.top_p), "the likeliest that make up this probability", NULL, NULL, NULL},
    {"typical_p", GEN, N | FXI_T_ABOVE, 0, 1, fxi_set_float, AT(request.sampling.typical_p), "locally typical sampling", "1", NULL, NULL},
    {"xtc_probability", GEN, N, 0, 1, fxi_set_float, AT(request.sampling.xtc_probability), "how often, of the tokens of at least xtc_threshold, all but the least likely one are dropped", "0", NULL, NULL},
    {"xtc_threshold", GEN, N, 0, 1, fxi_set_float, AT(request.sampling.xtc_threshold), "above 0.5: off", "0.1", NULL, NULL},
    {"seed", GEN, I, 0, 0, fxi_set_seed, AT(request.sampling.seed), "a draw depends on seed, choice and position alone; random by default", NULL, NULL, NULL},

    // What the answer looks like.
    {"response_format", BOTH, O, 0, 0, fxi_set_response_format, 0, "json_object: the answer is a JSON object; json_schema: a JSON value that the schema validates", "{\"type\":\"text\"}", NULL, FORMAT},
    {"structured_outputs", BOTH, O, 0, 0, fxi_set_structured_outputs, 0, "the same as the guided_* fields, one of them", NULL, NULL, OUTPUTS},
    {"guided_json", BOTH, S | O | B, 0, 0, fxi_set_guided, FX_PART_SCHEMA, "the answer is a JSON value that this schema, or its text, validates", NULL, NULL, NULL},
    {"guided_regex", BOTH, S, 0, 0, fxi_set_guided, FX_PART_REGEX, "the answer is a text that this regular expression matches as a whole", NULL, NULL, NULL},
    {"guided_choice", BOTH, A, 0, 0, fxi_set_guided, FX_PART_ALT, "the answer is one of these texts", NULL, NULL, CHOICES},
    {"guided_grammar", BOTH, S, 0, 0, fxi_set_guided, FX_PART_RULES, "the answer is a text of this grammar, in GBNF or Lark's notation", NULL, NULL, NULL},
    {"json_schema", BOTH, O | B, 0, 0, fxi_set_guided, FX_PART_SCHEMA, "another name of guided_json", NULL, NULL, NULL},
    {"grammar", BOTH, S, 0, 0, fxi_set_guided, FX_PART_RULES, "another name of guided_grammar", NULL, NULL, NULL},

    // Several answers.
    {"n", BOTH, I, 1, FX_MAX_CHOICE, fxi_set_integer, AT(n), "choices for each prompt, which is computed once", "1", NULL, NULL},
    {"best_of", TEXT, I, 1, FX_MAX_CHOICE, fxi_set_integer, AT(best_of), "computes this many choices and returns the n with the best mean logprob; not with stream", NULL, NULL, NULL},
    {"use_beam_search", BOTH, B, 0, 0, fxi_set_bool, AT(beam), "n or best_of beams, at most 32; not with stream", "false", NULL, NULL},
    {"length_penalty", BOTH, N, -100, 100, fxi_set_float, AT(request.length_penalty), "of beams: score = sum of logprobs / tokens^length_penalty", "1", NULL, NULL},
    {"early_stopping", BOTH, B | S, 0, 0, fxi_set_early_stop, 0, "when a beam search ends once it has enough answers", "false", " never ", NULL},

    // What an answer says.
    {"stream", GEN, B, 0, 0, fxi_set_bool, AT(reply.stream), "server-sent events", "false", NULL, NULL},
    {"stream_options", BOTH, O, 0, 0, fxi_set_json, AT(stream_options), "with stream only", NULL, NULL, "{'type':'object','properties':{'include_usage':{'type':'boolean'},'continuous_usage_stats':{'type':'boolean'}}}"},
    {"echo", TEXT, B, 0, 0, fxi_set_bool, AT(reply.echo), "the text begins with the prompt, logprobs with those of the prompt", "false", NULL, NULL},
    {"logprobs", TEXT, I, 0, FX_MAX_TOP, fxi_set_integer, AT(n_logprob), "logprobs of the tokens, and this many of the likeliest", NULL, NULL, NULL},
    {"logprobs", CHAT, B, 0, 0, fxi_set_bool, AT(logprobs), "logprobs of the tokens", "false", NULL, NULL},
    {"top_logprobs", CHAT, I, 0, FX_MAX_TOP, fxi_set_integer, AT(n_logprob), "this many of the likeliest tokens; with logprobs only", "0", NULL, NULL},
    {"prompt_logprobs", BOTH, I, 0, FX_MAX_TOP, fxi_set_integer, AT(n_prompt_logprob), "logprobs of the prompt's tokens, and this many of the likeliest; not with stream", NULL, NULL, NULL},
    {"timings_per_token", BOTH, B, 0, 0, fxi_set_bool, AT(reply.timings), "adds timings: tokens and milliseconds of prompt and answer, to each chunk of a stream", "false", NULL, NULL},
    {"return_token_ids", BOTH, B, 0, 0, fxi_set_bool, AT(reply.return_ids), "adds token_ids and prompt_token_ids", "false", NULL, NULL},
    {"return_tokens_as_token_ids", BOTH, B, 0, 0, fxi_set_bool, AT(reply.tokens_as_ids), "tokens in logprobs are written token_id:N", "false", NULL, NULL},
    {"skip_special_tokens", BOTH, B, 0, 0, fxi_set_bool, AT(skip_special), "control tokens add no text; false: they are spelled out", "true", NULL, NULL},
    {"skip_special_tokens", DETOK, B, 0, 0, fxi_set_bool, AT(skip_special), "control tokens add no text", "false", NULL, NULL},
    {"spaces_between_special_tokens", BOTH, B, 0, 0, NULL, 0, "ignored: none are put there", NULL, NULL, NULL},
    {"encoding_format", EMBED, S, 0, 0, fxi_set_encoding, 0, "base64: little-endian 32-bit floats", "\"float\"", " float base64 ", NULL},
    {"dimensions", EMBED, I, 1, 1 << 20, fxi_set_integer, AT(dimensions), "cut the vector to this many numbers", NULL, NULL, NULL},
    {"normalize", EMBED, B, 0, 0, fxi_set_bool, AT(normalize), "the vector has length 1; false: it is as the model made it", NULL, NULL, NULL},
    {"top_n", RERANK, I, 0, INT32_MAX, fxi_set_int, AT(reply.top_n), "this many results, the best; 0: all", "0", NULL, NULL},
    {"return_documents", RERANK, B, 0, 0, fxi_set_bool, AT(return_documents), "results have their documents", "true", NULL, NULL},
    {"return_token_strs", TOK, B, 0, 0, fxi_set_bool, AT(token_strs), "adds token_strs, the text of each token", "false", NULL, NULL},
    {"with_pieces", TOK, B, 0, 0, fxi_set_bool, AT(token_strs), "another name of return_token_strs", "false", NULL, NULL},

    // OpenAI's responses; what differs from a chat.
    {"input", RESP, S | A | R, 0, 0, NULL, 0, "a text, or a conversation as items: messages, function calls and their outputs, reasoning", NULL, NULL, RESPONSE_INPUT},
    {"instructions", RESP, S, 0, 0, NULL, 0, "a system message in front", NULL, NULL, NULL},
    {"max_output_tokens", RESP, I, 1, MAX, fxi_set_integer, AT(max_completion_tok), "most tokens to generate, clamped to the context", NULL, NULL, NULL},
    {"tools", RESP, A, 0, 0, NULL, 0, "functions that the model may call", NULL, NULL, RESPONSE_TOOLS},
    {"text", RESP, O, 0, 0, fxi_set_text_format, 0, "what the answer must look like: format", NULL, NULL, NULL},
    {"reasoning", CHAT | RESP, O, 0, 0, fxi_set_reasoning, 0, "effort: as reasoning_effort; max_tokens: as thinking_budget", NULL, NULL, NULL},
    {"metadata", RESP, O, 0, 0, NULL, 0, "comes back in the answer", NULL, NULL, NULL},
    {"truncation", RESP, S, 0, 0, NULL, 0, "what does not fit the context is refused", "\"disabled\"", " disabled ", NULL},
    {"include", RESP, A, 0, 0, NULL, 0, "ignored: reasoning is included, nothing else is there", NULL, NULL, NULL},
    {"store", RESP, B, 0, 0, fxi_only_neutral, 0, "not supported: only false, nothing is stored", "false", NULL, NULL},
    {"previous_response_id", RESP, S, 0, 0, fxi_only_absent, 0, "not supported: nothing is stored, so 'input' holds the whole conversation", NULL, NULL, NULL},
    {"conversation", RESP, S | O, 0, 0, fxi_only_absent, 0, "not supported: nothing is stored, so 'input' holds the whole conversation", NULL, NULL, NULL},
    {"background", RESP, B, 0, 0, fxi_only_neutral, 0, "not supported: only false", NULL, NULL, NULL},
    {"prompt", RESP, O, 0, 0, fxi_only_absent, 0, "not supported: nothing is stored", NULL, NULL, NULL},
    {"max_tool_calls", RESP, I, 0, 0, fxi_only_absent, 0, "not supported: there are no tools of the server", NULL, NULL, NULL},
    {"top_logprobs", RESP, I, 0, 0, fxi_only_neutral, 0, "not supported: only 0", NULL, NULL, NULL},

    // Anthropic's messages; what differs from a chat.
    {"messages", MSG | COUNT, A | R, 0, 0, NULL, 0, "the conversation: text, tool_use and tool_result, thinking", NULL, NULL, TURNS},
    {"system", MSG | COUNT, S | A, 0, 0, NULL, 0, "a text, or blocks of text", NULL, NULL, SYSTEM_TEXT},
    {"max_tokens", MSG, I | R, 1, MAX, fxi_set_integer, AT(max_tok), "most tokens to generate, clamped to the context", NULL, NULL, NULL},
    {"stop_sequences", MSG, A, 0, 0, fxi_set_stop, 0, "strings that end the answer", NULL, NULL, "{'type':'array','maxItems':16,'items':{'type':'string','minLength':1}}"},
    {"tools", MSG | COUNT, A, 0, 0, NULL, 0, "functions that the model may call", NULL, NULL, MESSAGE_TOOLS},
    {"tool_choice", MSG | COUNT, O, 0, 0, fxi_set_messages_choice, 0, "auto, any, tool with a name, none; disable_parallel_tool_use", NULL, NULL, "{'type':'object','required':['type'],'properties':{'type':{'enum':['auto','any','tool','none']}}}"},
    {"thinking", CHAT | MSG | COUNT, O, 0, 0, fxi_set_thinking, 0, "enabled, adaptive or disabled: for templates that read enable_thinking or thinking; budget_tokens: as thinking_budget", NULL, NULL, "{'type':'object','required':['type'],'properties':{'type':{'enum':['enabled','adaptive','disabled']},'budget_tokens':{'type':['integer','null'],'minimum':0}}}"},
    {"metadata", MSG, O, 0, 0, NULL, 0, "ignored", NULL, NULL, NULL},
    {"mcp_servers", MSG, A, 0, 0, fxi_only_neutral, 0, "not supported: only empty", NULL, NULL, NULL},
    {"container", MSG, S | O, 0, 0, fxi_only_absent, 0, "not supported", NULL, NULL, NULL},

    // What requests share.
    {"priority", RUNS, I, -FX_MAX_PRIORITY, FX_MAX_PRIORITY, fxi_set_integer, AT(priority), "lower values go first; one unit is worth 10 seconds of waiting", "0", NULL, NULL},
    {"cache_salt", RUNS, S, 1, 1024, fxi_set_text, AT(cache_salt), "prefixes are shared only among requests with the same salt", NULL, NULL, NULL},
    {"cache_prompt", GEN, B, 0, 0, fxi_set_bool, AT(cache_prompt), "false: shares no prefix and leaves none in the cache", "true", NULL, NULL},
    {"speculate", GEN, B, 0, 0, fxi_set_bool, AT(speculate), "false: nothing is drafted for it; answers do not depend on that", "true", NULL, NULL},
    {"keep_priority", GEN, I, 0, 7, fxi_set_int, AT(request.keep_priority), "how firmly the prompt stays in the prefix cache: higher stays longer", "0", NULL, NULL},
    {"keep_priority", RETAIN, I, 1, 7, fxi_set_int, AT(request.keep_priority), "how firmly the prompt stays in the prefix cache: higher stays longer", "7", NULL, NULL},
    {"keep_seconds", GEN | RETAIN, I, 0, UINT32_MAX, fxi_set_integer, AT(keep_s), "for how long after its end that holds; 0: no limit", "0", NULL, NULL},

    // For operators.
    {"kv_memory_bytes", BUDGET, I | R, 1, 0x1p60, fxi_set_integer, AT(kv_memory_bytes), "new budget of the KV cache", NULL, NULL, NULL},
    {"id", ABORT, S | R, 1, 131, fxi_set_text, AT(abort_id), "id of an answer, or X-Request-Id of its request", NULL, NULL, NULL},

    // Not supported.
    {"echo", CHAT, B, 0, 0, fxi_only_neutral, 0, "not supported in chats: only false", NULL, NULL, NULL},
    {"suffix", TEXT, S, 0, 0, fxi_set_suffix, 0, "the text that follows the answer, where the model has tokens for it; empty: none", NULL, NULL, NULL},
    {"add_special_tokens", CHAT, B, 0, 0, fxi_only_neutral, 0, "not supported in chats: only false", NULL, NULL, NULL},
    {"mirostat", BOTH, I, 0, 2, fxi_only_neutral, 0, "not supported: only 0", NULL, NULL, NULL},
    {"functions", CHAT, A, 0, 0, fxi_only_neutral, 0, "not supported: only empty", NULL, NULL, NULL},
    {"function_call", CHAT, S | O, 0, 0, fxi_only_free_choice, 0, "not supported: only none and auto", NULL, " none auto required ", NULL},
    {"audio", CHAT, O, 0, 0, fxi_only_absent, 0, "not supported", NULL, NULL, NULL},
    {"web_search_options", CHAT, O, 0, 0, fxi_only_absent, 0, "not supported", NULL, NULL, NULL},
    {"continue_final_message", CHATS, B, 0, 0, fxi_set_bool, AT(continue_final), "the text ends where the last message's does, and the answer continues it", "false", NULL, NULL},
    {"chat_template", CHATS, S, 0, 0, fxi_only_absent, 0, "not supported: the server has the template", NULL, NULL, NULL},
    {"truncate_prompt_tokens", EMBED, I, 0, 0, fxi_only_absent, 0, "not supported", NULL, NULL, NULL},
};

static const fxi_field stream_rows[] = {
    {"include_usage", BOTH, B, 0, 0, fxi_set_bool, AT(reply.include_usage), "a last chunk has the usage", "false", NULL, NULL},
    {"continuous_usage_stats", BOTH, B, 0, 0, fxi_set_bool, AT(reply.continuous_usage), "every chunk has the usage so far", "false", NULL, NULL},
};
// clang-format on

const fxi_field *fxi_field_rows(size_t *n)
{
    *n = sizeof rows / sizeof rows[0];
    return rows;
}

const fxi_field *fxi_stream_field_rows(size_t *n)
{
    *n = sizeof stream_rows / sizeof stream_rows[0];
    return stream_rows;
}
