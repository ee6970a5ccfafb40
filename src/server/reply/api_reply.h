// api_reply.h - the state of one reply, and the JSON that it becomes. No threads and no sockets:
// the caller holds the lock that guards the reply.
//
//   api_reply.c   collects events       -> api_stream.c  a stream: each event becomes SSE text
//                                       -> api_whole.c   a whole reply: the body, at the end
//   api_parts.c   what both share: token counts, how a choice ended
#ifndef FXI_SERVER_API_REPLY_H
#define FXI_SERVER_API_REPLY_H

#include <jansson.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "server/reply/http_error.h"

typedef enum fxi_api { FXI_API_COMPLETIONS, FXI_API_CHAT } fxi_api;

typedef struct fxi_choice {
    fxi_buf text; // whole replies only
    fx_finish finish;
    const json_t *stop_reason; // the client's stop string or token id that ended it, or NULL
    int n_generated;
    bool begun; // streams: the first chunk is out
} fxi_choice;

typedef struct fxi_prompt_use {
    int n_prompt, n_cached; // tokens
    int n_discarded;        // tokens of the choices that best_of dropped
} fxi_prompt_use;

// What the client asked for.
typedef struct fxi_reply_spec {
    fxi_api api;
    bool stream, include_usage, continuous_usage;
    int n_prompt, n_per_prompt;   // prompts; choices of each
    json_t *stop, *stop_token_id; // the request's `stop` and `stop_token_ids`, or NULL
} fxi_reply_spec;

// Invariants: choice k belongs to prompt k / n_per_prompt; n_left counts choices with finish ==
// FX_FINISH_NONE; once `ended`, nothing is added to `out`; err.status != 0 implies ended.
typedef struct fxi_reply {
    fxi_reply_spec spec; // with copies of the JSON values in it
    char id[48];
    int64_t created;
    const char *model, *fingerprint; // the server's
    int n_left;
    size_t kept_bytes;   // memory of the choices' texts
    fxi_prompt_use *use; // [n_prompt]
    fxi_choice *choice;  // [n_prompt * n_per_prompt]
    fxi_buf head;        // streams: the start of every chunk, up to "choices":[
    fxi_buf out;         // streams: SSE text; out.p[0 .. n_sent) has been taken
    size_t n_sent, max_out_bytes;
    bool begun; // streams: something is or was in out
    bool ended;
    fxi_http_error err;
} fxi_reply;

// ---- api_reply.c ------------------------------------------------------------------------------

// The caller has set id, created, model and fingerprint. max_out_bytes: unsent text of a stream
// beyond which the reader counts as too slow. False: out of memory. Free with fxi_reply_free in
// either case.
bool fxi_reply_init(fxi_reply *r, const fxi_reply_spec *spec, size_t max_out_bytes);
void fxi_reply_free(fxi_reply *r);
// Adds an event of the engine request that computes this prompt. Ignored once ended.
void fxi_reply_event(fxi_reply *r, int prompt, const fx_event *ev);
// Ends the reply with an error: an error event if a stream has begun, otherwise only r->err.
// Ignored once ended.
void fxi_reply_fail(fxi_reply *r, const fxi_http_error *e);
// Takes up to `max` bytes of a stream's text.
size_t fxi_reply_take(fxi_reply *r, char *dst, size_t max);
// Adds a comment line to a stream that has nothing else to send.
void fxi_reply_ping(fxi_reply *r);
// Bytes of memory that a reply has from the beginning.
size_t fxi_reply_base_bytes(const fxi_reply *r);
// Whether there is something to send.
bool fxi_reply_has_news(const fxi_reply *r);

// ---- api_stream.c: server-sent events; false: out of memory -----------------------------------

bool fxi_stream_head(fxi_reply *r);                             // fills r->head
bool fxi_stream_event(fxi_reply *r, int k, const fx_event *ev); // choice k
bool fxi_stream_end(fxi_reply *r);                              // usage, [DONE]
bool fxi_stream_error(fxi_reply *r, const fxi_http_error *e);   // error, [DONE]

// ---- api_whole.c: whole bodies; false: out of memory ------------------------------------------

bool fxi_whole_body(fxi_buf *b, const fxi_reply *r);
bool fxi_whole_prompt(fxi_buf *b, const char *text, size_t n_bytes);
bool fxi_whole_model(fxi_buf *b, const char *model_id, int64_t created, int ctx_tok);

// ---- api_parts.c: what streams and whole bodies share; false: out of memory --------------------

typedef struct fxi_usage {  // tokens
    int n_prompt, n_cached; // summed over prompts, each counted once whatever its choices
    int n_generated;        // of all choices, discarded ones too
} fxi_usage;

fxi_usage fxi_usage_of(const fxi_reply *r);
bool fxi_usage_add(fxi_buf *b, const fxi_reply *r); // {"prompt_tokens":..}
// "finish_reason":..,"stop_reason":.. of a choice that ended with f
bool fxi_finish_add(fxi_buf *b, const fxi_choice *c, fx_finish f);

#endif
