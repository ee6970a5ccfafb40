// api_request.h - a request's body to checked parameters, and the formats of the served model.
#ifndef FXI_SERVER_API_REQUEST_H
#define FXI_SERVER_API_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json/json.h"
#include "flexinfer/flexinfer.h"
#include "server/reply/api_reply.h" // defines: fxi_api, fxi_http_error, fxi_reply_spec
#include "server/work/quota.h"

// ---- requests -----------------------------------------------------------------------------------

// A checked request body: its fields as parameters, and what the engine and the reply take from
// them. No threads and no sockets.

typedef struct fxi_id_list {
    int32_t *id; // [n] owned; all inside the vocabulary
    size_t n;
} fxi_id_list;

// How the model writes calls of tools and reasoning.
typedef struct fxi_formats {
    const fxi_call_format *calls;       // NULL: not known
    const fxi_reason_format *reasoning; // NULL: it writes none, or it stays in the text
    bool template_reads_effort;         // so reasoning_effort is the template's matter
    int32_t mark[32];                   // [n_mark] their marks that are control tokens
    size_t n_mark;
} fxi_formats;

// The marks by which a model fills in the text between two others: control tokens.
typedef struct fxi_infill {
    const char *before, *after, *between; // what precedes prompt, suffix and answer
} fxi_infill;

typedef struct fxi_prompt { // text, or ids if text is NULL
    const char *text;       // in the JSON tree
    size_t n_bytes;
    const char *second; // of a pair of texts, like `text`; NULL: there is none
    size_t n_second_bytes;
    size_t n_first; // tokens up to it: set by fxi_params_encode
    fxi_id_list ids;
} fxi_prompt;

typedef struct fxi_form {  // what the answer must look like
    const char *field;     // that says it; NULL: none does
    fx_part_kind kind;     // FX_PART_ALT: a choice of strings
    const fxi_json *value; // of the kind: a string, an array of strings, a schema
    fxi_json_doc doc;      // of a schema that came as text; the charge holds its bytes
} fxi_form;

#define FXI_MAX_STOP          16
#define FXI_MAX_BREAKER       16
#define FXI_MAX_BREAKER_CHARS 40
#define FXI_MAX_STOP_CHARS    1024 // of one stop string: every stream's text is searched for it

// A checked request. Texts point into `root` and live as long as it does.
typedef struct fxi_params {
    fxi_api api;
    fxi_json_doc doc;         // the charge holds its bytes
    fxi_charge *charge;       // NULL: none
    size_t n_body_bytes;      // of the text that it was parsed from
    size_t list_bytes;        // of ids and biases: charged like the document
    const fxi_json *root;     // of doc
    fxi_json_doc made;        // of other APIs: messages and tools as a chat has them
    fxi_json_doc made_kwargs; // template variables with those that fields stand for
    fxi_buf mirror;           // members that the answer repeats: JSON
    fxi_buf chat[3];          // messages, tools, kwargs as JSON texts for the engine; empty: absent
    const char *model;        // the name that the client used, in fxi_limits; NULL: none
    const char *input;        // name of the field that has the prompts; NULL: there is none
    fxi_prompt *prompt;       // [n_prompt] texts and ids; of a conversation NULL and 1
    size_t n_prompt;
    const fxi_json *messages, *tools, *kwargs; // in root; NULL: absent
    const fxi_json *bad_words;                 // array of strings in root; NULL: absent
    bool hide_tools;                           // tool_choice "none"
    bool must_call;                            // "required", or a name:
    const char *only_tool;                     // NULL: any tool,
    const fxi_json *allowed_tools;             // or of these functions, in root
    bool plain_calls;                          // the model's format cannot say the calls
    bool marked_calls_only;                    // as in fxi_limits
    const char *effort;                        // reasoning_effort; NULL: none
    int thinking;         // 0: nothing was said; 1: it should; -1: it should not
    int64_t thinking_tok; // most tokens of reasoning; -1: nothing was said
    fx_thought thought;   // fxi_params_resolve; no close_tok: reasoning has no end of its own
    fx_tokens close_tok;  // its close_tok
    bool parallel_calls, include_reasoning, separate_reasoning;
    const fxi_formats *formats; // as in fxi_limits, like
    const fxi_infill *infill;
    const fxi_json *suffix; // a string in root; NULL: none
    fx_request request;     // what fields set in it: fxi_params_request adds the rest
    fxi_reply_spec reply;   // the same: fxi_params_reply
    bool add_generation_prompt, continue_final, add_special, parse_special;
    int64_t truncate;                    // 0: not at all; -1: to the context
    int64_t max_tok, max_completion_tok; // -1: absent
    int64_t n, best_of;                  // best_of -1: absent
    int64_t priority;
    const fxi_json *stream_options; // in root; NULL: absent
    bool has_seed, cache_prompt, speculate, beam, logprobs, skip_special;
    int64_t n_logprob, n_prompt_logprob; // likeliest tokens; -1: absent
    const char *stop[FXI_MAX_STOP];
    size_t n_stop;
    const char *breaker[FXI_MAX_BREAKER];
    size_t n_breaker;
    bool has_breakers; // otherwise those of fx_request_default
    fxi_id_list stop_token, allow, tokens;
    fx_bias *bias; // [n_bias], owned
    size_t n_bias;
    fx_id_run *ban; // [n_ban], owned like their ids: fxi_params_resolve
    size_t n_ban;
    fxi_form form;
    fx_grammar *grammar;    // its reference: fxi_params_resolve; NULL: any text
    const char *cache_salt; // NULL: none
    const char *request_id; // NULL: none
    int64_t keep_s;
    // Of single APIs.
    const fxi_json *first_texts, *second_texts; // that are compared: in root
    bool return_documents;
    int64_t dimensions; // 0: all
    bool normalize, token_strs;
    int64_t kv_memory_bytes;
    const char *abort_id;
    char ignored[96];           // fields that nobody here knows: their names, separated by commas
    bool refuse_excess;         // as in fxi_limits
    fxi_http_error unsupported; // the first known field whose effect is not supported
} fxi_params;

// What to charge for a text while it is rendered and normalized: times its bytes.
#define FXI_TEXT_COPIES 4

typedef struct fxi_limits { // what a request is checked against
    const char *model_id;
    const char *const *alias; // [n_alias] further names of the model
    size_t n_alias;
    int n_vocab;
    int max_choice; // choices of one request, returned or not: prompts times choices of each
    int n_embd;     // length of an embedding; 0: the model does not embed
    bool scores;    // the model scores pairs of texts
    int max_top;    // likeliest tokens that a request may ask for; 0: FX_MAX_TOP
    bool cut_first, processed_logprobs; // of fx_sampling and fx_request
    const fxi_formats *formats;         // NULL: answers are not taken apart
    const fxi_infill *infill;           // NULL: the model has no such marks
    const fx_sampling *preset;          // of requests that do not say; NULL: fx_request_default's
    bool refuse_excess;     // max_tokens beyond the context is an error; false: it is clamped
    bool marked_calls_only; // JSON without the marks of calls is text
    fxi_charge *charge; // of the request: its tree, ids and biases are charged; NULL: nothing is
} fxi_limits;

// The name as it stands in *lim; NULL: the server has no model of this name.
const char *fxi_limits_model(const fxi_limits *lim, const char *name);
// 404: fills *err and returns false.
bool fxi_limits_no_model(const fxi_limits *lim, const char *param, const char *name,
                         fxi_http_error *err);

// ---- api_request.c: from JSON -----------------------------------------------------------------

// Body to *par. False: *err says why, and *par is empty. Call fxi_params_free in either case.
bool fxi_params_parse(fxi_params *par, fxi_api api, const char *body, size_t n_bytes,
                      const fxi_limits *lim, fxi_http_error *err);
void fxi_params_free(fxi_params *par);

// ---- api_engine.c: what takes the vocabulary or the chat template -------------------------------

// Tokenizes and compiles what the fields say of the answer (bad_words, its form): on a worker.
// False: *err says why.
bool fxi_params_resolve(fxi_params *par, const fx_engine *eng, fxi_http_error *err);
// Tokens beyond which a prompt is of no use, as it cannot fit the context; 0: there is no limit.
size_t fxi_params_max_prompt(const fxi_params *par, const fx_engine *eng);
// The ids of prompt i, appended to the empty *out, which the caller frees; there is at least one,
// but for FXI_API_TOKENIZE. False: *err says why.
bool fxi_params_encode(const fxi_params *par, const fx_engine *eng, size_t i, fx_tokens *out,
                       fxi_http_error *err);

// ---- tool_grammar.c ---------------------------------------------------------------------------

// Compiles what the answer must look like to par->grammar: its form, the calls that it must have,
// those of strict tools. False: *err says why.
bool fxi_params_compile(fxi_params *par, const fx_engine *eng, fxi_http_error *err);

// ---- api_tools.c ------------------------------------------------------------------------------

// Whether there are strict tools, and the answer may call.
bool fxi_tools_are_strict(const fxi_params *par);
// Whether the answer may call it.
bool fxi_tool_is_wanted(const fxi_params *par, const fxi_json *tool);
// What takes the answer apart; NULL: it stays as it is.
const fxi_call_format *fxi_params_calls(const fxi_params *par);
const fxi_reason_format *fxi_params_reasoning(const fxi_params *par);
// Whether JSON without marks is a call: where the answer is free to be text, or calls of any tool.
bool fxi_params_unmarked(const fxi_params *par);

// ---- api_engine.c: to the engine and the reply; results point into par ------------------------

// The most tokens to generate; -1: until the context is full.
int64_t fxi_params_max_tok(const fxi_params *par);
// Choices to compute for each prompt, returned or not: n, best_of, or the width of the beam search.
int64_t fxi_params_n_seq(const fxi_params *par);
// Everything but the prompt and the callback. `seed` is used if the client gave none.
fx_request fxi_params_request(const fxi_params *par, uint64_t seed);
// The field to name when fx_submit refuses with this error.
const char *fxi_params_blame(const fxi_params *par, const fx_error *err);
fxi_reply_spec fxi_params_reply(const fxi_params *par);

// ---- api_refuse.c -----------------------------------------------------------------------------

// Whether bytes were granted: FXI_QUOTA_OK. False: *e says why not (503 overloaded, 413).
bool fxi_bytes_granted(fxi_http_error *e, fxi_quota_result taken);

// ---- api_set.c --------------------------------------------------------------------------------

// The conversation for the engine to render. Points into par.
fx_chat_request fxi_params_chat(const fxi_params *par);

// ---- the formats of the served model ------------------------------------------------------------

// How the served model writes calls of tools and reasoning, and what makes it fill in.

// Whether these are names of formats, "auto", "none" or NULL. Errors: FX_EINVAL, with the names
// that there are.
fx_status fxi_formats_check(const char *tool_parser, const char *reasoning_parser, fx_error *err);
// Both have been checked. "auto" and NULL: by the marks in the model's chat template.
void fxi_formats_choose(fxi_formats *f, const fx_engine *eng, const char *tool_parser,
                        const char *reasoning_parser);

// The marks by which the model fills in, as its vocabulary has them; NULL: none. Static.
const fxi_infill *fxi_infill_find(const fx_engine *eng);

#endif
