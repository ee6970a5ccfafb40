// api_request.h - a checked request body: its fields as parameters, and what the engine and the
// reply take from them. No threads and no sockets.
#ifndef FXI_SERVER_API_REQUEST_H
#define FXI_SERVER_API_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/json/json_doc.h"
#include "flexinfer/flexinfer.h"
#include "server/reply/api_reply.h" // defines: fxi_api, fxi_http_error, fxi_reply_spec
#include "server/work/ledger.h"

typedef struct fxi_id_list {
    int32_t *id; // [n] owned; all inside the vocabulary
    size_t n;
} fxi_id_list;

typedef struct fxi_prompt { // text, or ids if text is NULL
    const char *text;       // in the JSON tree
    size_t n_bytes;
    fxi_id_list ids;
} fxi_prompt;

#define FXI_MAX_STOP 16

// A checked request. Texts point into `root` and live as long as it does.
typedef struct fxi_params {
    fxi_api api;
    fxi_json_doc doc;    // the bill holds its bytes
    fxi_bill *bill;      // NULL: none
    size_t n_body_bytes; // of the text that it was parsed from
    size_t list_bytes;   // of ids and biases: billed like the document
    json_t *root;        // of doc
    fxi_prompt *prompt;  // [n_prompt], completions
    size_t n_prompt;
    const json_t *messages, *tools, *kwargs; // chat: in root; NULL: absent
    bool hide_tools;                         // tool_choice "none"
    bool add_generation_prompt;
    int64_t max_tok, max_completion_tok; // -1: absent
    int64_t n, best_of;                  // best_of -1: absent
    int64_t top_k, min_tok, priority;
    double temperature, top_p, min_p, typical_p;
    double repetition_penalty, presence_penalty, frequency_penalty, length_penalty;
    int64_t seed;
    bool has_seed, stream, has_stream_options, include_usage, continuous_usage;
    bool ignore_eos, include_stop, cache_prompt, beam;
    bool logprobs, prompt_logprobs; // read for the checks between fields only
    int64_t top_logprobs;
    fx_early_stop early_stop;
    const char *stop[FXI_MAX_STOP];
    size_t n_stop;
    fxi_id_list stop_token, allow;
    fx_bias *bias; // [n_bias], owned
    size_t n_bias;
    const char *cache_salt;     // NULL: none
    fxi_http_error unsupported; // the first known field whose effect is not supported
} fxi_params;

typedef struct fxi_limits { // what a request is checked against
    const char *model_id;
    int n_vocab;
    int max_choice; // choices of one request, returned or not: prompts times choices of each
    fxi_bill *bill; // of the request: its tree, ids and biases are billed; NULL: nothing is
} fxi_limits;

// ---- api_request.c: from JSON -----------------------------------------------------------------

// Body to *par. False: *err says why, and *par is empty. Call fxi_params_free in either case.
bool fxi_params_parse(fxi_params *par, fxi_api api, const char *body, size_t n_bytes,
                      const fxi_limits *lim, fxi_http_error *err);
void fxi_params_free(fxi_params *par);

// ---- api_engine.c: to the engine and the reply; results point into par ------------------------

// The most tokens to generate; -1: until the context is full.
int64_t fxi_params_max_tok(const fxi_params *par);
// Choices to compute for each prompt, returned or not: n, best_of, or the width of the beam search.
int64_t fxi_params_n_seq(const fxi_params *par);
// Everything but the prompt and the callback. `seed` is used if the client gave none.
fx_request fxi_params_request(const fxi_params *par, uint64_t seed);
// The field to name when fx_submit refuses with this status.
const char *fxi_params_blame(const fxi_params *par, fx_status st);
fxi_reply_spec fxi_params_reply(const fxi_params *par);

// ---- api_refuse.c -----------------------------------------------------------------------------

// Fills *e when bytes were not granted (503 overloaded, 413), and returns false. FXI_TAKE_OK: true.
bool fxi_bytes_granted(fxi_http_error *e, fxi_take taken);

// ---- api_messages.c ---------------------------------------------------------------------------

// The conversation for the engine to render. Points into par.
fx_chat_request fxi_params_chat(const fxi_params *par);

#endif
