// api_reply.h - the state of one reply, and the JSON that it becomes. No threads and no sockets:
// the caller holds the lock that guards the reply.
//
//   api_reply.c     collects events
//   api_body.c      each event of a stream as SSE text; a whole reply's body, at the end
//   api_content.c   a choice's text, taken apart into reasoning, text and calls of tools
//   tool_fit.c      what the request's tools say of a call
//   api_parts.c     what both share, and logprobs, rendered as they come
//   responses_out.c, messages_out.c   the same for the APIs that are dialects of chat
//   scores_out.c    the bodies of those that compare texts
#ifndef FXI_SERVER_API_REPLY_H
#define FXI_SERVER_API_REPLY_H

#include "base/json/json.h"
#include <stdint.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "output_parser/output_parser.h"
#include "server/http_error.h"

typedef enum fxi_api {
    FXI_API_COMPLETIONS,
    FXI_API_CHAT,
    FXI_API_EMBEDDINGS,
    FXI_API_RETAIN,    // prompts to be kept in the prefix cache
    FXI_API_RESPONSES, // OpenAI's responses
    FXI_API_MESSAGES,  // Anthropic's messages
    FXI_API_RERANK,    // documents, ordered by what they have to do with a query
    FXI_API_SCORE,     // pairs of texts
    // Without a reply of the engine:
    FXI_API_TOKENIZE,
    FXI_API_DETOKENIZE,
    FXI_API_BUDGET,
    FXI_API_ABORT,
    FXI_API_COUNT, // tokens of Anthropic's messages
    FXI_N_API
} fxi_api;

// Whether it compares texts.
static inline bool fxi_api_is_score(fxi_api api)
{
    return api == FXI_API_RERANK || api == FXI_API_SCORE;
}

// Whether it answers a conversation, in whatever words.
static inline bool fxi_api_is_chat(fxi_api api)
{
    return api == FXI_API_CHAT || api == FXI_API_RESPONSES || api == FXI_API_MESSAGES;
}

// Logprobs that are not sent yet: the members of JSON lists, separated by commas.
enum { FXI_PROBS_TOKEN, FXI_PROBS_VALUE, FXI_PROBS_TOP, FXI_PROBS_OFFSET, FXI_N_PROBS };

typedef struct
    fxi_probs { // tokens: of completions names, of chats whole objects; the others are of
    fxi_buf list[FXI_N_PROBS]; // completions only
} fxi_probs;

enum { FXI_CALL_ID_BYTES = 80 };

// A piece of a choice: reasoning, text, or a call of a tool.
typedef struct fxi_content_part {
    fxi_output_kind kind;       // TEXT, REASONING or CALL
    bool is_done;               // a call that is complete
    bool is_broken;             // a call that was none after all, or that was cut off
    fxi_buf text;               // of a call, its arguments: JSON
    fxi_buf name;               // of a call, its tool
    char id[FXI_CALL_ID_BYTES]; // of a call
} fxi_content_part;

// Calls of an answer that must be calls: its end, once one repeats an earlier one.
typedef struct fxi_call_watch {
    fxi_buf made; // the complete ones: name, a zero byte, arguments, a zero byte
    fxi_buf now;  // the one that goes on, in the same form
    fxi_buf id;   // which it has from the model
    bool held;    // it repeats one so far, and nothing of it has been emitted
    bool over;    // one was repeated
} fxi_call_watch;

typedef struct fxi_choice {
    fxi_call_watch watch;
    fxi_output_parser *answer; // parses the text; NULL: it stays as it is
    fxi_content_part *content; // [n_content] with `answer`, unless the reply is a chat's stream
    size_t n_content, cap_content;
    int n_call;      // calls that have begun; of a kept choice without those that broke
    int n_done;      // calls that are complete
    int n_reasoning; // tokens of the reasoning
    fxi_buf text;    // whole replies: the text; of embeddings, the vector's floats
    fxi_probs probs; // whole replies: all; streams: those of tokens whose text is still to come
    fxi_buf ids;     // the same for token ids, as members of a JSON list
    fx_finish finish;
    const fxi_json *stop_reason; // the client's stop string or token id that ended it, or NULL
    int n_generated;
    bool begun; // streams: the first chunk is out
} fxi_choice;

typedef struct fxi_prompt_use {
    int n_prompt, n_cached; // tokens
    int n_discarded;        // tokens of the choices that best_of dropped
    uint64_t prefill_us, decode_us;
} fxi_prompt_use;

// What a reply says of a prompt. Set before the prompt is submitted; after that only its events
// change it.
typedef struct fxi_prompt_part {
    fxi_buf echo;     // its text
    int n_char;       // of echo
    size_t *at;       // [n_tok] characters of echo before each token
    size_t n_tok;     // of `at`
    fxi_probs probs;  // with echo
    fxi_buf logprobs; // of `prompt_logprobs`: members of a JSON list
    fxi_buf ids;      // members of a JSON list
} fxi_prompt_part;

// What the client asked for.
typedef struct fxi_reply_spec {
    fxi_api api;
    bool stream, include_usage, continuous_usage, timings;
    bool echo, logprobs, prompt_logprobs;
    int n_top, n_prompt_top;              // likeliest tokens beside each
    bool return_ids;                      // token ids of prompts and choices
    bool tokens_as_ids;                   // tokens in logprobs are named by their ids
    bool show_control;                    // control tokens are part of the text
    bool base64;                          // embeddings
    int n_prompt, n_per_prompt;           // prompts; choices of each
    const fxi_json *stop, *stop_token_id; // the request's `stop` and `stop_token_ids`, or NULL
    const fxi_call_format *calls;         // calls of tools are parsed; NULL: they are text
    const fxi_reason_format *reasoning;   // the same for reasoning,
    bool drop_reasoning;                  // which is not emitted
    bool either;                          // of fxi_output_spec
    bool forced_calls;                    // a grammar makes the answer calls
    bool unmarked_calls;                  // JSON in the text that names a tool is a call
    bool one_call;                        // the first call ends an answer: the rest is dropped
    const fxi_json *tools;                // the request's, or NULL; of them are kept
    const fxi_json *only_tools;           // those that this list names; NULL: all
    bool is_pairs;                        // of scores: a prompt is a pair of texts; otherwise
    int n_query;                          // the first so many are compared with the others
    int top_n;                            // results of a rerank; 0: all
    const fxi_json *documents;            // that it repeats, or NULL
    const char *mirror;                   // members that a response repeats: JSON; NULL: none
} fxi_reply_spec;

// Invariants: choice k belongs to prompt k / n_per_prompt; n_left counts choices with finish ==
// FX_FINISH_NONE; once `ended`, nothing is added to `out`; err.status != 0 implies ended.
typedef struct fxi_reply {
    fxi_reply_spec spec; // with copies of the JSON values in it
    fxi_json_doc kept;   // which lie here
    char id[96];
    int64_t created;
    const fx_engine *eng;            // names tokens
    const char *model, *fingerprint; // the server's
    uint64_t seed;                   // of ids that calls get
    int n_left;
    size_t kept_bytes;       // memory of what events have added to prompts and choices
    fxi_prompt_use *use;     // [n_prompt]
    fxi_prompt_part *prompt; // [n_prompt]
    fxi_choice *choice;      // [n_prompt * n_per_prompt]
    size_t n_prompt_prob;    // logprobs of prompts, promised so far
    fxi_buf head;            // streams: the start of every chunk, up to "choices":[
    fxi_buf out;             // streams: SSE text; out.p[0 .. n_sent) has been taken
    size_t n_sent, max_out_bytes;
    bool begun; // streams: something is or was in out
    bool ended;
    const struct fxi_writer *writer; // of streams
    fxi_buf mirror;                  // of the spec's
    int n_event;                     // dialects: events so far
    size_t n_item;                   // dialects: parts of the choice that have begun;
    bool item_open;                  // the last of them goes on
    bool cut; // ended, and there was no memory to say why: the stream must not look complete
    fxi_http_error err;
} fxi_reply;

// Logprobs of prompts in one reply, the likeliest tokens included: each takes some 60 bytes.
#define FXI_MAX_PROMPT_PROB (256u << 10)

// ---- api_reply.c ------------------------------------------------------------------------------

// The caller has set id, created, eng, model and fingerprint. max_out_bytes: unsent text of a
// stream beyond which the reader counts as too slow. False: out of memory. Free with fxi_reply_free
// in either case.
bool fxi_reply_init(fxi_reply *r, const fxi_reply_spec *spec, size_t max_out_bytes);
void fxi_reply_free(fxi_reply *r);
// Keeps what the reply will say of a prompt, before it is submitted: its ids, and its text if the
// client sent text, otherwise NULL. False: *err says why.
bool fxi_reply_set_prompt(fxi_reply *r, int prompt, const fx_tokens *tok, const char *text,
                          size_t n_bytes, fxi_http_error *err);
// Adds an event of the engine request that computes this prompt. Ignored once ended.
void fxi_reply_event(fxi_reply *r, int prompt, const fx_event *ev);
// Whether the choice of this event needs no more tokens (fx_stop_choice).
bool fxi_reply_is_full(const fxi_reply *r, int prompt, const fx_event *ev);
// Ends the reply with an error: an error event if a stream has begun, otherwise only r->err.
// Ignored once ended.
void fxi_reply_fail(fxi_reply *r, const fxi_http_error *e);
// Takes up to `max` bytes of a stream's text; dst NULL: drops them.
size_t fxi_reply_take(fxi_reply *r, char *dst, size_t max);
// Adds a comment line to a stream that has nothing else to send.
void fxi_reply_ping(fxi_reply *r);
// Bytes of memory that a reply has from the beginning.
size_t fxi_reply_base_bytes(const fxi_reply *r);
// Bytes of memory that it keeps for a prompt.
size_t fxi_reply_prompt_bytes(const fxi_reply *r, int prompt);
// Whether there is something to send.
bool fxi_reply_has_news(const fxi_reply *r);

// ---- writers: events of a reply as server-sent events; false: out of memory --------------------

// How an API streams. Chats and completions: api_body.c.
typedef struct fxi_writer {
    const char *ping;                   // for a stream that has nothing else to send
    bool (*head)(fxi_reply *r);         // before anything else; NULL, like `end`: nothing
    bool (*begin)(fxi_reply *r, int k); // an event of choice k has come
    bool (*content)(fxi_reply *r, int k, const fxi_output_event *ev);
    // Of dialects in place of `content`: what has been emitted is kept in parts, which are items.
    // One is open at a time; `status` is that with which it ends.
    bool (*open_item)(fxi_reply *r, size_t i);
    bool (*delta)(fxi_reply *r, size_t i, const fxi_output_event *ev);
    bool (*close_item)(fxi_reply *r, size_t i, const char *status);
    bool (*finish)(fxi_reply *r, int k, fx_finish finish);
    bool (*end)(fxi_reply *r); // all choices have ended
    bool (*error)(fxi_reply *r, const fxi_http_error *e);
} fxi_writer;

extern const fxi_writer fxi_stream_writer; // api_body.c

// ---- api_body.c: whole bodies; false: out of memory ------------------------------------------

bool fxi_whole_body(fxi_buf *b, const fxi_reply *r);
// About the bytes of that body: exact to a few percent, except where much of the text is escaped.
size_t fxi_whole_bytes(const fxi_reply *r);

// ---- api_parts.c: logprobs; false: out of memory ----------------------------------------------

// Adds a token. prob NULL: it has none (the first of a prompt). at: characters of the returned text
// before it.
bool fxi_probs_add(const fxi_reply *r, fxi_probs *p, int32_t token, const fx_token_prob *prob,
                   size_t at);
// The whole value of "logprobs": first, then second; each may be NULL, both: null.
bool fxi_probs_write(fxi_buf *b, const fxi_reply *r, const fxi_probs *first,
                     const fxi_probs *second);
size_t fxi_probs_bytes(const fxi_probs *p); // of memory
void fxi_probs_clear(fxi_probs *p);
void fxi_probs_free(fxi_probs *p);
// Adds a token to a list of `prompt_logprobs`.
bool fxi_prompt_probs_add(const fxi_reply *r, fxi_buf *list, int32_t token,
                          const fx_token_prob *prob);

// ---- api_content.c: false: out of memory ------------------------------------------------------

bool fxi_content_init(fxi_reply *r, fxi_choice *c); // c->answer, if the reply wants one
// Whether a prompt's last tokens open reasoning of this format; NULL: none does. False: out of
// memory.
bool fxi_reasoning_is_open(const fx_engine *eng, const fxi_reason_format *reasoning,
                           const fx_tokens *tok, bool *is_open);
// The prompt's last tokens: they may open the reasoning of its choices.
bool fxi_content_prompt(fxi_reply *r, int prompt, const fx_tokens *tok);
// The text of an event, and its end if there is one, for choice k with an `answer`.
bool fxi_content_event(fxi_reply *r, int k, const fx_event *ev);
// Closes the item that is open, if there is one.
bool fxi_content_close(fxi_reply *r, const char *status);
// Whether choice k has all that the request wants of it: nothing more is emitted of it.
bool fxi_content_is_full(const fxi_reply *r, int k);
size_t fxi_content_bytes(const fxi_choice *c); // of memory
void fxi_content_free(fxi_choice *c);

// ---- tool_fit.c ---------------------------------------------------------------------------------

// The name of a tool, in the spelling of chats or of responses; NULL: it has none.
const char *fxi_tool_name(const fxi_json *tool);
// Whether a tool of the list has this name.
bool fxi_tools_include(const fxi_json *list, const char *name);
// Appends the tools as a list; only: those that it names, NULL: all. False: no memory.
bool fxi_tools_write(fxi_buf *b, const fxi_json *tools, const fxi_json *only);

// For fxi_output_spec; ud: the request's tools.
bool fxi_tools_has(void *ud, const char *name, size_t n);
fxi_param_kind fxi_tools_param(void *ud, const char *name, size_t n, const char *param,
                               size_t n_param);
fxi_args_fit fxi_tools_fit(void *ud, const char *name, size_t n, const char *args, size_t n_args);

// ---- api_content.c ----------------------------------------------------------------------------

// The id of the n-th call of choice k, into id[FXI_CALL_ID_BYTES]: the model's own, if it is a
// plain word.
void fxi_tools_call_id(const fxi_reply *r, int k, int n, const fxi_output_event *ev, char *id);

// ---- api_parts.c: what streams and whole bodies share; false: out of memory -------------------

typedef struct fxi_usage {  // tokens
    int n_prompt, n_cached; // summed over prompts, each counted once whatever its choices
    int n_generated;        // of all choices, discarded ones too
    int n_reasoning;        // of them
} fxi_usage;

fxi_usage fxi_usage_of(const fxi_reply *r);
bool fxi_usage_add(fxi_buf *b, const fxi_reply *r); // {"prompt_tokens":..}
// ,"timings":{..} as llama.cpp's server has it, where the request wants it.
bool fxi_timings_add(fxi_buf *b, const fxi_reply *r);
// ,"finish_reason":..,"stop_reason":.. of a choice that ended with f. Streams leave out a
// stop_reason that is null.
bool fxi_finish_add(fxi_buf *b, const fxi_reply *r, const fxi_choice *c, fx_finish f);
bool fxi_list_add_int(fxi_buf *list, int64_t v); // a member of a JSON list

// ---- responses_out.c, messages_out.c -----------------------------------------------------------

// Answers of chats in the words of other APIs: OpenAI's /v1/responses (an output of items, events
// with sequence numbers) and Anthropic's /v1/messages (content blocks). Both have one choice, whose
// parts (fxi_content_part) are the items or blocks, in order.
extern const fxi_writer fxi_responses_writer, fxi_messages_writer;

// False: out of memory.
bool fxi_responses_whole(fxi_buf *b, const fxi_reply *r);
bool fxi_messages_whole(fxi_buf *b, const fxi_reply *r);
// scores_out.c
bool fxi_rerank_whole(fxi_buf *b, const fxi_reply *r);
bool fxi_scores_whole(fxi_buf *b, const fxi_reply *r);
// The body of an error in Anthropic's form.
bool fxi_messages_error_body(fxi_buf *b, const fxi_http_error *e, const char *request_id);

#endif
