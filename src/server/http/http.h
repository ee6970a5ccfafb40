// http.h - the server and its requests: what the files of this folder share.
//
//   client -> loop.c, conn.c  one connection: the head and the body as they arrive
//          -> admission.c     what a request must pass (head.h: how it is read)
//          -> routes.c        the table of paths: an answer at once, or
//             submit.c        a worker parses, renders and tokenizes, and submits to the engine
//          -> job.c           one request; the engine's thread enters here with its events
//          -> respond.c       its response, as the client's socket takes it
//          -> request_metrics.c: what is counted, traced and logged of it
//             kv_stream.c     snapshots of the memory to subscribers
//
// Threads. One I/O thread owns all connections (conn.h) and does the work of routes that costs
// nothing: it moves bytes and does nothing whose cost grows with a body. Workers do that of the
// others (submit.c), one piece of work per request. The engine's thread runs fxi_http_job_on_event.
// Whoever changes what a job has to send posts it to the loop; events of the engine are sent
// together, once its step is over.
//
// Locks, in the order in which they are taken: server.mu, publisher.mu, job.mu; those of the loop,
// the workers' queue and the log are leaves. None is ever held across fx_submit, fx_tokenize, a
// parse, a rendering or a system call that may block; server.mu may be held across fx_cancel,
// job.mu may not. What a worker makes for a job (reply, parts, answer) it makes aside and moves in
// under job.mu, unless the reply has ended meanwhile: then it drops it.
// Bytes are counted (quota.h) without a lock, under any.
#ifndef FXI_SERVER_HTTP_H
#define FXI_SERVER_HTTP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "server/endpoint/endpoint.h"
#include "server/guard/keys.h"
#include "server/guard/origin.h"
#include "server/http/conn.h"
#include "server/http/listen.h"
#include "server/metrics/metrics.h"
#include "server/reply/api_reply.h"
#include "server/request/api_request.h"
#include "server/server.h"
#include "server/spans/exporter.h"
#include "server/web/web.h"
#include "server/work/quota.h"
#include "server/work/workers.h"

#define FXI_MAX_ALIAS 16 // further names of the model

typedef struct fxi_http_job fxi_http_job;
typedef struct fxi_kv_text fxi_kv_text; // a snapshot, written once for all subscribers

// ---- subscribers of snapshots -----------------------------------------------------------------

#define FXI_MAX_SUBSCRIBER 64

typedef struct fxi_publisher {
    pthread_mutex_t mu;  // taken after server.mu, before job.mu; guards what follows
    fxi_http_job *first; // that watches
    fxi_kv_text *newest; // a reference; NULL: there is none
    bool is_stale;       // there is a newer snapshot
    bool is_busy;        // a worker makes a text, or will
    fxi_stream_counts count;
    fxi_work work; // the workers' queue's own
} fxi_publisher;

// ---- the server -------------------------------------------------------------------------------

struct fxi_server {
    // NULL while the model loads. What depends on it, model_id, fingerprint and lim, is complete
    // before it is set.
    _Atomic(fx_engine *) eng;
    atomic_bool draining; // no new work is taken
    atomic_bool asleep;   // the same, until an operator wakes it

    // Immutable after start.
    fxi_server_options opt; // defaults filled in; host and model_id point to the two below
    char host[FXI_HOST_BYTES], model_id[256];
    fx_sampling preset;    // of requests that do not say: complete once `eng` is there
    char alias_text[1024]; // the names of the next, each with its NUL
    const char *alias[FXI_MAX_ALIAS + 1]; // the last is what its makers call it
    size_t n_alias;
    char fingerprint[24];
    int64_t created;
    fxi_listener listener;
    fxi_formats formats;
    fxi_limits lim;
    fxi_origins origins;
    fxi_keyring *keys;
    fxi_metrics *metrics; // a reference
    fxi_quota *quota;     // what all requests hold
    fxi_workers *workers;
    fxi_spans *spans; // NULL: none are wanted
    fxi_publisher publisher;
    fxi_loop loop;
    fxi_work trim; // of the heap, once there have been no jobs for a while

    pthread_mutex_t mu;
    pthread_cond_t empty; // jobs has become NULL
    fxi_http_job *jobs;   // guarded by mu: those that a worker or the engine has, or that are sent
    bool closing;         // guarded by mu

    pthread_mutex_t log_mu;
};

// ---- job.c: one HTTP request ------------------------------------------------------------------

typedef struct fxi_job_part { // one engine request: one prompt of the job
    fxi_http_job *job;
    int index;
    uint64_t id;           // guarded by job.mu, with:
    bool submitted;        // id is known
    bool over;             // the engine no longer holds it
    double first_s;        // when its first token came; 0: not yet
    fxi_trace_part phases; // as of the last event; all zero: none came
    size_t n_bytes;        // charged for what the engine copied; constant once submitted
} fxi_job_part;

// Ownership: one reference is the connection's, from the end of the head to that of the response.
// One is the worker's, from before its work is posted until it has run or been dropped; the same
// for the rendering, and for the loop's list. One is held for each part that the engine holds, from
// before fx_submit to its last event. Whoever drops the last one frees the job. The worker's
// reference may outlive the connection, not the server; the engine's may outlive both, and by then
// touch neither.
struct fxi_http_job {
    atomic_int refs;

    // Immutable once the head has been read.
    fxi_server *srv;      // valid while the connection's or the worker's reference is held
    fx_engine *eng;       // NULL: the model loads; outlives the job
    fxi_metrics *metrics; // a reference, since the engine's events may outlive the server
    const struct fxi_route *route;
    const fxi_tenant *tenant; // never NULL; valid as long as the job
    char scope[80];           // of fxi_tenant_domain: parts the clients of one tenant
    uint64_t client;          // of fxi_tenant_client: its requests take turns with those of others
    char request_id[132];     // X-Request-Id, the client's or ours
    double started_s;

    // The I/O thread's own.
    fxi_conn *conn;        // NULL: its response has been sent, or its client has gone
    const char *origin;    // the Origin header, if pages of it may use the server, or NULL
    bool is_head;          // the response has no body
    bool preflight;        // a browser asks what it may send
    bool wants_page;       // a browser asks for a page
    bool at_once;          // `early` is answered without the body, and the connection closes
    fxi_trace_span *span;  // what is told of it elsewhere; NULL: nothing
    uint64_t n_body_bytes; // received, kept or not
    fxi_http_error early;  // found before the whole body arrived; answered after it
    char allow[32];        // with 405: the methods that the path allows
    const char *code;      // of the error that was sent, for the log; static text
    int status;            // sent; 0: none yet

    // The workers'.
    fxi_charge charge;     // what the request holds; any thread
    fxi_body body;         // the I/O thread's until its work is posted
    fxi_work work, render; // the queue's own: the body's work, the rendering of a large answer

    // The loop's (fxi_loop.mu): posted, and not looked at yet.
    fxi_http_job *next_ready;
    bool is_posted;

    // Guarded by server.mu.
    bool is_listed;
    fxi_http_job *prev, *next;

    bool
        watches; // it subscribes to snapshots, without requests in the engine; constant once listed
    struct {     // as a subscriber; guarded by server.publisher.mu
        fxi_http_job *prev, *next;
        uint64_t seen;     // number of the snapshot that it was sent last; 0: none
        fxi_kv_text *text; // that is being sent: a reference
    } kv;

    // Guarded by mu.
    pthread_mutex_t mu;
    char ignored[96]; // fxi_params.ignored
    fxi_reply reply;
    size_t text_bytes;  // charged for the reply's text
    fxi_buf answer;     // a whole body; the reply has ended then, or there is none
    bool rendering;     // the reply has ended, and a worker is to make its body
    size_t body_bytes;  // charged for that body
    fxi_job_part *part; // [n_part]; constant once it is set
    int n_part;
};

fxi_http_job *fxi_http_job_new(fxi_server *srv, fxi_conn *conn);
void fxi_http_job_unref(fxi_http_job *job);
// A header of the request; NULL: there is none. On the I/O thread.
static inline const char *fxi_http_job_header(const fxi_http_job *job, const char *name)
{
    return fxi_head_get(&job->conn->head, name);
}
// An event of one part (ud: its fxi_job_part). Runs on the engine's thread.
void fxi_http_job_on_event(void *ud, const fx_event *ev);
// Takes up to max bytes of a stream. job.mu is held.
size_t fxi_http_job_take(fxi_http_job *job, char *dst, size_t max);
// Has the I/O thread look at the job: it has something to send, or watches. Any thread, under any
// lock, while the job's connection or a worker has it.
void fxi_http_job_wake(fxi_http_job *job);
// Ends the job with *body as its whole answer, application/json, unless it has ended already.
// *body is taken over in either case. On a worker.
void fxi_http_job_answer(fxi_http_job *job, fxi_buf *body);
// Whether the reply has ended: a worker need not go on.
bool fxi_http_job_is_over(fxi_http_job *job);
// Ends the job with an error from outside the engine: cancels the parts, drops what waits for a
// worker, and with it the body. False: its reply had ended before.
bool fxi_http_job_end(fxi_http_job *job, const fxi_http_error *e);
bool fxi_http_job_hang_up(fxi_http_job *job); // the same because the client has gone
// Pings a stream that has nothing else to send.
void fxi_http_job_ping(fxi_http_job *job);
// If the job's work still waits for a worker, it never runs: gives the body back. pre: it is over.
void fxi_http_job_drop_work(fxi_http_job *job);

// The jobs that have been posted to a worker and are not finished. False: the server is closing.
bool fxi_jobs_add(fxi_http_job *job);
void fxi_jobs_remove(fxi_http_job *job); // if it is there
// Ends those jobs, except this one, whose reply or request has this id; returns how many.
int fxi_jobs_abort(const fxi_http_job *but, const char *id);
// Ends the streams that would go on for ever; all. server.mu is held.
void fxi_jobs_end_locked(fxi_server *srv, bool only_watching);
// Appends what the jobs are doing: members of a JSON list. False: out of memory.
bool fxi_jobs_list(fxi_server *srv, fxi_buf *b);

// ---- admission.c: what a request must pass ----------------------------------------------------

// Judges the head, which the connection has read or (err->status is not 0) refused. False:
// job->early is the answer, after the body has been dropped or (job->at_once) now.
bool fxi_admission_check(fxi_http_job *job, const fxi_http_error *err);
// Takes the next bytes of the body. False: far too many have come, and the connection closes.
bool fxi_admission_take_body(fxi_http_job *job, const char *p, size_t n);

// ---- submit.c: from the body to the engine ----------------------------------------------------

// Lists the job and posts its route's `work`. On the I/O thread.
void fxi_http_job_post(fxi_http_job *job);
// The server's limits, with the job's charge.
fxi_limits fxi_http_job_limits(fxi_http_job *job);
// Parses the body, charged, and gives it back. False: *err says why. True: fxi_params_free it.
bool fxi_http_job_parse(fxi_http_job *job, fxi_api api, fxi_params *par, fxi_http_error *err);
// Parses the body and submits one engine request per prompt. False: *err says why, and nothing was
// submitted. Later failures end the reply with an error.
bool fxi_http_job_submit(fxi_http_job *job, fxi_http_error *err);
// What is granted now, on any thread. Whether the server answers: it has a model and does not shut
// down; and takes requests for the engine: it does not sleep.
bool fxi_permit_work(fxi_server *srv, fxi_http_error *err);
bool fxi_permit_request(fxi_server *srv, fxi_http_error *err);
bool fxi_http_fail_loading(fxi_http_error *err); // false
// "PREFIX-" and 24 random hexadecimal digits.
void fxi_random_id(char *dst, size_t cap, const char *prefix);

// ---- respond.c: responses. On the I/O thread ----------------------------------------------------

// Sends an error without a job and without memory, and closes the connection. The texts must need
// no escapes in JSON.
void fxi_respond_bare(fxi_conn *c, int status, const char *code, const char *message);
// The same where there is no memory, with a job or without.
void fxi_respond_no_memory(fxi_conn *c);
// Each begins the job's response. Where memory is short, it is 503.
void fxi_respond_error(fxi_http_job *job, const fxi_http_error *e);
// A file of the web page, or 304.
void fxi_respond_file(fxi_http_job *job, const fxi_web_file *f);
// What a page of this origin may send: a request with any headers.
void fxi_respond_preflight(fxi_http_job *job);

// ---- kv_stream.c: snapshots to subscribers. On the I/O thread -----------------------------------

// The job watches from now on, until its connection calls fxi_kv_stream_leave. False: *err.
bool fxi_kv_stream_begin(fxi_http_job *job, fxi_http_error *err);
void fxi_kv_stream_leave(fxi_http_job *job);
// The newest text, if the job has not been sent it and its client has taken all before: as a
// server-sent event, which the two bytes of the end of a chunk follow, or the data of that event
// alone. It stays until the next call. False: there is none now; the job is posted when there is,
// or conn.look_s says when to ask again.
bool fxi_kv_stream_next(fxi_http_job *job, bool is_event, fxi_str *out);
// There is a new snapshot. ud: the server. On the engine's thread.
void fxi_kv_stream_on_snapshot(void *ud);

// ---- routes.c: what is served where -----------------------------------------------------------

// Who may use a route, and when.
typedef enum fxi_access {
    FXI_ACCESS_MODEL,   // with a key, if the server has keys, once the model is loaded
    FXI_ACCESS_KEY,     // with a key, if the server has keys; even while the model loads
    FXI_ACCESS_METRICS, // as MODEL, and during a shutdown; the option open_metrics: without a key
    FXI_ACCESS_PROBE,   // anyone, at any time
    FXI_ACCESS_ADMIN,   // as MODEL, with an admin's key; nobody without such a key
    FXI_ACCESS_WATCH,   // as ADMIN, if the server has keys; otherwise anyone, unless clients are
                        // isolated: then clients on this machine
    FXI_ACCESS_PAGE,    // as KEY; a browser gets a page that has no secrets without one
} fxi_access;

#define FXI_MESSAGES_PATH "/v1/messages" // what lies under it has errors in Anthropic's form

typedef struct fxi_route {
    const char *method; // "GET" serves HEAD too
    const char *path;
    bool is_prefix; // path is only the start of what it serves
    fxi_access access;
    // Runs once the request is complete. False: *err is the answer. True: the job has been
    // submitted, answered, or watches.
    bool (*work)(fxi_http_job *job, fxi_http_error *err);
    // On a worker, with the body: for whatever parses, renders or tokenizes. What costs nothing
    // runs on the I/O thread; the body is dropped.
    bool on_worker;
    bool has_body; // it reads one,
    fxi_api api;   // of this kind
    // What `work` answers with, if there is nothing else to it: one of these.
    fxi_endpoint *endpoint;
    bool (*answer)(fxi_http_job *job, fxi_buf *out, fxi_http_error *err);
    const char *type;           // of that answer; NULL: application/json
    const char *schema, *about; // as fxi_operation.answer and about
} fxi_route;

// The row, or NULL with *err (404; 405 and the allowed methods in *allow, or "").
const fxi_route *fxi_route_find(const char *method, const char *path, char *allow, size_t cap,
                                fxi_http_error *err);

// The number of the first route with its path; -1: NULL. And the paths of all, as many as fit;
// returns how many.
int fxi_route_index(const fxi_route *r);
int fxi_route_paths(const char **path, int max);

// ---- request_metrics.c: what is counted, traced and logged -------------------------------------

// An event, with job.mu held. On the engine's thread.
void fxi_account_event(fxi_job_part *part, const fx_event *ev);
// A request whose head has been read; a finished one, of the route with this number, -1: none.
void fxi_account_begin(fxi_http_job *job);
void fxi_account_end(fxi_http_job *job, int route, int status);
// Something that is not about a request; level: an fxi_level (log.h). Any thread.
void fxi_log_event(fxi_server *srv, int level, const char *event, const char *text);
// With the option log_prompts: the body of a request for a generation, or the start of it.
void fxi_log_body(fxi_http_job *job);

#endif
