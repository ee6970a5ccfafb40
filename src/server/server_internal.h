// server_internal.h - everything the files of this room share, grouped by the file that defines it.
//
//   client -> http.c -> routes.c -> api_fields.c / api_request.c (JSON to parameters)
//                                -> api_engine.c (parameters to what the engine is asked for)
//                                -> job.c (submit, wait, wake) <- engine thread (events)
//   job.c -> api_answer.c (what is known of the reply) -> api_reply.c (whole) or api_stream.c (SSE)
//   -> http.c -> client watch.c: one thread that sees clients hang up and keeps silent streams
//   alive
//
// Threads. MHD's I/O threads run http.c and routes.c; each request stays on one of them. The
// engine's thread runs fxi_job_on_event. The watcher's thread runs watch.c. Locks, in the order
// they are taken: server.mu, then job.mu, then those inside MHD. Neither is ever held across
// fx_submit, fx_tokenize or a system call that may block; server.mu may be held across fx_cancel,
// job.mu not.
#ifndef FXI_SERVER_INTERNAL_H
#define FXI_SERVER_INTERNAL_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "flexinfer/flexinfer.h"
#include "server/server.h"

typedef struct fxi_job fxi_job;

// ---- http_error.c: what went wrong, in OpenAI's words -----------------------------------------

typedef struct fxi_http_error {
    int status;       // HTTP; 0: no error
    const char *code; // static text, or NULL
    char param[64];   // the field at fault; "": none
    char message[FX_ERROR_TEXT_BYTES];
} fxi_http_error;

// Fills *e and returns false, so that a check can end in `return fxi_http_fail(...)`. code and
// param may be NULL.
__attribute__((format(printf, 5, 6))) bool fxi_http_fail(fxi_http_error *e, int status,
                                                         const char *code, const char *param,
                                                         const char *fmt, ...);
// The same for an error of the engine; param names the field to blame where the client is at fault.
bool fxi_http_fail_fx(fxi_http_error *e, const fx_error *err, const char *param);
// {"error":{...}}; false: no memory.
bool fxi_http_error_body(fxi_buf *b, const fxi_http_error *e);
// Seconds for Retry-After; 0: no such header.
int fxi_http_retry_after(int status);

// ---- json_out.c: JSON text, written straight into a buffer; false: no memory ------------------

// A quoted string. Bytes that are not UTF-8 become U+FFFD, so that what is written always parses.
bool fxi_json_str(fxi_buf *b, const char *s, size_t n_bytes);
bool fxi_json_cstr(fxi_buf *b, const char *s); // NULL: null

// ---- api_fields.c, api_request.c, api_messages.c, api_lists.c: the request body ----------------

typedef enum fxi_api { FXI_API_COMPLETIONS, FXI_API_CHAT } fxi_api;

typedef struct fxi_id_list {
    int32_t *id; // [n] owned; all inside the vocabulary
    size_t n;
} fxi_id_list;

typedef struct fxi_prompt { // text, or ids where text is NULL
    const char *text;       // in the JSON tree
    size_t n_bytes;
    fxi_id_list ids;
} fxi_prompt;

#define FXI_MAX_STOP 16

// A checked request. Texts point into `root` and live as long as it.
typedef struct fxi_params {
    fxi_api api;
    json_t *root;
    fxi_prompt *prompt; // [n_prompt], completions
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
    fxi_http_error unsupported; // the first known field whose effect we do not have
} fxi_params;

typedef struct fxi_limits { // what a request is checked against
    const char *model_id;
    int n_vocab;
    int max_choice; // choices of one request, computed or told
} fxi_limits;

typedef struct fxi_parse { // what a field's setter works with
    fxi_params *par;
    const fxi_limits *lim;
    fxi_http_error *err;
} fxi_parse;

// Body to *par. false: *err says why; *par is empty. fxi_params_free in either case.
bool fxi_params_parse(fxi_params *par, fxi_api api, const char *body, size_t n_bytes,
                      const fxi_limits *lim, fxi_http_error *err);
void fxi_params_free(fxi_params *par);

// A row of the table of fields: what a value must be, and what is done with it.
typedef struct fxi_field fxi_field;
struct fxi_field {
    const char *name;
    unsigned apis;  // bits 1 << fxi_api
    unsigned types; // FXI_T_*: the JSON types allowed
    double lo, hi;  // bounds: of a number, of the characters of a string, of the members of an
                    // array; lo == hi: none
    bool (*set)(fxi_parse *p, const fxi_field *f, const json_t *v);
    size_t at; // where in fxi_params, for the plain setters
};

enum {
    FXI_T_BOOL = 1,
    FXI_T_INT = 2,
    FXI_T_NUM = 4,
    FXI_T_STR = 8,
    FXI_T_ARR = 16,
    FXI_T_OBJ = 32,
    FXI_T_ABOVE = 64,     // not a type: lo itself is out of bounds
    FXI_T_REQUIRED = 128, // not a type: must be there
};

// The table, run over par->root, and the checks between fields.
bool fxi_fields_read(fxi_parse *p);
// Setters of the fields that are more than one value.
bool fxi_set_prompt(fxi_parse *p, const fxi_field *f, const json_t *v);
// api_messages.c: messages, tools, chat_template_kwargs.
bool fxi_set_messages(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_tools(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_kwargs(fxi_parse *p, const fxi_field *f, const json_t *v);
// What the engine is asked to render. Points into par.
fx_chat_request fxi_params_chat(const fxi_params *par);
// api_lists.c: stop strings, ids into the fxi_id_list at f->at, logit_bias.
bool fxi_set_stop(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_ids(fxi_parse *p, const fxi_field *f, const json_t *v);
bool fxi_set_bias(fxi_parse *p, const fxi_field *f, const json_t *v);
// A list of token ids, at least one; `want` is what the field must be, for the message.
bool fxi_read_ids(fxi_parse *p, const char *param, const char *want, const json_t *v,
                  fxi_id_list *out);
// 400 invalid_value, 400 invalid_type, 500; resp. 501 remembered until all else has been checked
// (then true: go on).
__attribute__((format(printf, 3, 4))) bool fxi_bad_value(fxi_parse *p, const char *param,
                                                         const char *fmt, ...);
bool fxi_bad_type(fxi_parse *p, const char *param, const char *want);
bool fxi_no_memory(fxi_parse *p);
bool fxi_unsupported(fxi_parse *p, const char *param);

// ---- api_engine.c: parameters to what the engine is asked for ---------------------------------

// Tokens to generate at most; -1: as many as there is room for.
int64_t fxi_params_max_tok(const fxi_params *par);
// Choices to compute of each prompt, told or not: n, best_of, or the width of the beam search.
int64_t fxi_params_n_seq(const fxi_params *par);
// Everything but the prompt and the callback; `seed` is used where the client gave none. Points
// into par.
fx_request fxi_params_request(const fxi_params *par, uint64_t seed);
// The field to name when fx_submit refuses with this status.
const char *fxi_params_blame(const fxi_params *par, fx_status st);

// ---- api_answer.c: what is known of one reply; no threads, no sockets -------------------------

typedef struct fxi_choice {
    fxi_buf text; // whole replies only
    fx_finish finish;
    const json_t *stop_reason; // the client's stop string or token id that ended it, or NULL
    int n_generated;
    bool begun; // streams: the first chunk is out
} fxi_choice;

typedef struct fxi_prompt_use {
    int n_prompt, n_cached; // tokens
    int n_discarded;        // tokens of choices that best_of did not choose
} fxi_prompt_use;

// Invariants: choice k belongs to prompt k / n_per_prompt; n_left counts choices with finish ==
// FX_FINISH_NONE; after `ended` nothing is added to `out`; err.status != 0 implies ended.
typedef struct fxi_answer {
    fxi_api api;
    char id[48];
    int64_t created;
    const char *model, *fingerprint; // the server's
    bool stream, include_usage, continuous_usage;
    int n_prompt, n_per_prompt, n_left;
    json_t *stop, *stop_token; // the client's `stop` and `stop_token_ids`, referred to; or NULL
    fxi_prompt_use *use;       // [n_prompt]
    fxi_choice *choice;        // [n_prompt * n_per_prompt]
    fxi_buf head;              // streams: the start of every chunk, up to "choices":
    fxi_buf out;               // streams: SSE text; out.p[0 .. n_sent) has been taken
    size_t n_sent, max_out_bytes;
    bool begun; // streams: something is or was in out
    bool ended;
    fxi_http_error err;
} fxi_answer;

// From par: api, counts, stream options. id, created, model and fingerprint are set by the caller
// before. false: no memory. Free with fxi_answer_free in either case.
bool fxi_answer_init(fxi_answer *a, const fxi_params *par, size_t max_out_bytes);
void fxi_answer_free(fxi_answer *a);
// One event of prompt i's request. Ignored once ended.
void fxi_answer_event(fxi_answer *a, int prompt, const fx_event *ev);
// Ends it with an error: an error event where a stream has begun, otherwise only a.err. Ignored
// once ended.
void fxi_answer_fail(fxi_answer *a, const fxi_http_error *e);
// Takes up to `max` bytes of a stream's text.
size_t fxi_answer_take(fxi_answer *a, char *dst, size_t max);
// A comment line, where nothing waits to be sent.
void fxi_answer_ping(fxi_answer *a);
fxi_prompt_use fxi_answer_prompt_use(const fxi_answer *a); // summed over prompts
int fxi_answer_generated(const fxi_answer *a); // tokens of all choices, discarded ones too

// ---- api_reply.c: whole bodies; false: no memory ----------------------------------------------

bool fxi_reply_body(fxi_buf *b, const fxi_answer *a);
bool fxi_reply_usage(fxi_buf *b, const fxi_answer *a);
// "finish_reason":..,"stop_reason":.. of a choice that has ended
bool fxi_reply_finish(fxi_buf *b, const fxi_choice *c, fx_finish f);
bool fxi_reply_prompt(fxi_buf *b, const char *text, size_t n_bytes);
bool fxi_reply_model(fxi_buf *b, const char *model_id, int64_t created, int ctx_tok);

// ---- api_stream.c: server-sent events; false: no memory ---------------------------------------

bool fxi_stream_head(fxi_answer *a);                             // fills a->head
bool fxi_stream_event(fxi_answer *a, int k, const fx_event *ev); // choice k
bool fxi_stream_end(fxi_answer *a);                              // usage, [DONE]
bool fxi_stream_error(fxi_answer *a, const fxi_http_error *e);   // error, [DONE]

// ---- job.c: one HTTP request ------------------------------------------------------------------

typedef enum fxi_phase {
    FXI_PHASE_BODY,  // the body is coming in
    FXI_PHASE_WAIT,  // submitted; suspended until there is something to send
    FXI_PHASE_REPLY, // a response is queued
} fxi_phase;

typedef struct fxi_part { // one engine request: one prompt of the job
    fxi_job *job;
    int index;
    uint64_t id;    // guarded by job.mu, with:
    bool submitted; // id is known
    bool over;      // the engine holds it no more
} fxi_part;

// Ownership: one reference is the connection's (from the first callback to the completed one), one
// is each part's that the engine holds (from before fx_submit to its last event). Whoever drops the
// last one frees the job; the engine's references may outlive connection and server, and touch
// neither by then.
struct fxi_job {
    atomic_int refs;

    fx_engine *eng; // immutable; outlives the job

    // The I/O thread's own.
    fxi_server *srv; // valid while the connection's reference is held
    const struct fxi_route *route;
    const char *path;     // the request's, during a callback of MHD
    char request_id[132]; // X-Request-Id, the client's or ours
    double started_s;
    fxi_phase phase;
    fxi_buf body;
    uint64_t n_body_bytes; // received, kept or not
    fxi_http_error early;  // found before the body was in; answered after it
    char allow[32];        // with 405: the methods there are
    const char *code;      // of the error that was sent, for the log; static text
    int status;            // sent; 0: none yet
    fxi_part *part;        // [n_part]
    int n_part;
    bool listed; // in server.jobs and watched

    // Guarded by server.mu.
    uint64_t serial;
    int fd;
    fxi_job *prev, *next;

    // Guarded by mu.
    pthread_mutex_t mu;
    struct MHD_Connection *conn; // NULL once completed
    bool suspended;
    bool gone; // the client hung up
    double last_out_s;
    fxi_answer ans;
};

fxi_job *fxi_job_new(fxi_server *srv, struct MHD_Connection *conn);
void fxi_job_unref(fxi_job *job);
// Parses the body, lists the job and submits a request per prompt. false: *err, and nothing was
// submitted. Whatever goes wrong later ends the answer with an error.
bool fxi_job_submit(fxi_job *job, fxi_api api, fxi_http_error *err);
void fxi_job_on_event(void *part, const fx_event *ev);
// Ends the job with an error from outside the engine, wakes the connection, cancels the parts.
void fxi_job_end(fxi_job *job, const fxi_http_error *e);
void fxi_job_hangup(fxi_job *job); // the client has gone
// Pings a stream that has been silent for ping_s; when to look again (INFINITY: never).
double fxi_job_ping(fxi_job *job, double now_s, double ping_s);
void fxi_random_id(char *dst, size_t cap, const char *prefix);

// ---- routes.c: what is served where -----------------------------------------------------------

typedef struct fxi_route {
    const char *method; // "GET" serves HEAD too
    const char *path;
    bool prefix; // path is the start of what it serves
    enum MHD_Result (*run)(fxi_job *job);
} fxi_route;

// The row, or NULL with *err (404; 405 and the allowed methods in *allow, or "").
const fxi_route *fxi_route_find(const char *method, const char *path, char *allow, size_t cap,
                                fxi_http_error *err);

// ---- http.c: between MHD and a job ------------------------------------------------------------

enum MHD_Result fxi_http_on_request(void *srv, struct MHD_Connection *conn, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **con_cls);
void fxi_http_on_completed(void *srv, struct MHD_Connection *conn, void **con_cls,
                           enum MHD_RequestTerminationCode why);
// Sends *body (taken over) as the whole response.
enum MHD_Result fxi_http_reply(fxi_job *job, int status, const char *type, fxi_buf *body);
enum MHD_Result fxi_http_reply_error(fxi_job *job, const fxi_http_error *e);
// Goes on with a submitted job: sends what there is, or suspends the connection until there is
// something.
enum MHD_Result fxi_http_wait(fxi_job *job);

// ---- watch.c: hang-ups and pings --------------------------------------------------------------

typedef struct fxi_watch {
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool started, stop; // stop: guarded by server.mu
} fxi_watch;

fx_status fxi_watch_start(fxi_server *srv, fx_error *err);
void fxi_watch_stop(fxi_server *srv); // joins
void fxi_watch_close(
    fxi_server *srv); // the files; when no job is listed any more. Both also after a failed start
// Lists the job and watches its socket; false: the server is closing.
bool fxi_watch_add(fxi_job *job);
void fxi_watch_remove(fxi_job *job);

// ---- server.c: life ---------------------------------------------------------------------------

struct fxi_server {
    // Immutable after start.
    fx_engine *eng;
    fxi_server_options opt; // defaults filled in; host and model_id point to the two below
    char host[64], model_id[256];
    char fingerprint[24];
    int64_t created;
    int listen_fd, port;
    fxi_limits lim;
    struct MHD_Daemon *mhd;
    fxi_watch watch;

    pthread_mutex_t mu;
    pthread_cond_t empty; // jobs has become NULL
    fxi_job *jobs;        // guarded by mu: submitted, with a connection
    uint64_t next_serial; // guarded by mu
    bool closing;         // guarded by mu

    pthread_mutex_t log_mu;
};

bool fxi_server_closing(fxi_server *srv);
void fxi_server_log(fxi_server *srv, const char *line);

#endif
