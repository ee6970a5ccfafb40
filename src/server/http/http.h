// http.h - connections: what the files of this shelf share, in the order of their calls.
//
//   client -> conn.c (its place and deadlines: peers.h)
//          -> http.c -> doors.c -> framing.c, routes.c, permits.c
//                    -> job_work.c   (to a worker: parse, render, tokenize, submit)
//                    -> http_send.c  (send, or suspend the connection until it can; the engine's
//                       thread sends what its steps bring)
//                    -> kv_stream.c (snapshots of the memory to subscribers)
//             watch.c: one thread that sees clients hang up, keeps silent streams alive and closes
//                      connections that are late
//             job.c:   one request; the engine's thread enters here with its events
//
// Threads. MHD's I/O threads run http.c, http_send.c and the `run` of routes; each request stays on
// one of them. They move bytes and do nothing whose cost grows with a body. Worker threads run
// job_submit.c and the `work` of routes, one piece of work per request, while its connection is
// suspended. The engine's thread runs fxi_http_job_on_event, the watcher's thread runs watch.c.
//
// Locks, in the order in which they are taken: server.mu, then job.mu, then those inside MHD; the
// locks of the workers' queue, of the wake-ups and of the table of connections are leaves. None is
// ever held across fx_submit, fx_tokenize, a parse, a rendering or a system call that may block;
// server.mu may be held across fx_cancel, job.mu may not. What a worker makes for a job (reply,
// parts, answer) it makes aside and moves in under job.mu, unless the reply has ended meanwhile:
// then it drops it.
// Bytes are counted (ledger.h) without a lock, under any.
#ifndef FXI_SERVER_HTTP_H
#define FXI_SERVER_HTTP_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "server/endpoint/endpoint.h"
#include "server/guard/key_ring.h"
#include "server/guard/origin.h"
#include "server/guard/peers.h"
#include "server/guard/tenant.h"
#include "server/http/kv_stream.h"
#include "server/metrics/metrics.h"
#include "server/reply/api_reply.h"
#include "server/request/api_request.h"
#include "server/server.h"
#include "server/spans/exporter.h"
#include "server/web/web.h"
#include "server/work/body.h"
#include "server/work/wakes.h"
#include "server/work/workers.h"

#define FXI_MAX_ALIAS 16 // further names of the model

typedef struct fxi_http_job fxi_http_job;

// ---- the server -------------------------------------------------------------------------------

typedef struct fxi_watch {
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool started, stop; // stop: guarded by server.mu
} fxi_watch;

struct fxi_server {
    // NULL while the model loads. What depends on it, model_id, fingerprint and lim, is complete
    // before it is set.
    _Atomic(fx_engine *) eng;
    atomic_bool draining; // no new work is taken
    atomic_bool asleep;   // the same, until an operator wakes it

    // Immutable after start.
    fxi_server_options opt; // defaults filled in; host and model_id point to the two below
    char host[64], model_id[256];
    char alias_text[1024]; // the names of the next, each with its NUL
    const char *alias[FXI_MAX_ALIAS];
    size_t n_alias;
    char fingerprint[24];
    int64_t created;
    int listen_fd, port;
    fxi_formats formats;
    fxi_limits lim;
    fxi_origins origins;
    fxi_keyring *keys;
    struct MHD_Daemon *mhd;
    fxi_peers peers;
    fxi_metrics *metrics;           // a reference
    struct MHD_Response *no_memory; // made at start: what is sent where an answer cannot be made
    fxi_publisher publisher;
    fxi_watch watch;
    fxi_ledger *ledger; // what all requests hold
    fxi_workers *workers;
    fxi_spans *spans; // NULL: none are wanted

    pthread_mutex_t mu;
    pthread_cond_t empty; // jobs has become NULL
    fxi_http_job *jobs;   // guarded by mu: submitted, with a connection
    uint64_t next_serial; // guarded by mu
    bool closing;         // guarded by mu

    pthread_mutex_t log_mu;

    fxi_wakes wakes; // jobs with something to send, in the order of their events
};

// ---- job.c: one HTTP request ------------------------------------------------------------------

typedef enum fxi_phase {
    FXI_PHASE_BODY,  // the body is arriving
    FXI_PHASE_WAIT,  // handed to a worker; suspended until there is something to send
    FXI_PHASE_REPLY, // a response is queued
} fxi_phase;

typedef struct fxi_job_part { // one engine request: one prompt of the job
    fxi_http_job *job;
    int index;
    uint64_t id;    // guarded by job.mu, with:
    bool submitted; // id is known
    bool over;      // the engine no longer holds it
    double first_s; // when its first token came; 0: not yet
    // As of the last event, which came at seen_us (fxi_now_ns); 0: none did.
    uint64_t queued_us, prefill_us, decode_us, seen_us;
    size_t n_bytes; // billed for what the engine copied; constant once submitted
} fxi_job_part;

// Ownership: one reference is the connection's, from the first callback to the completed one. One
// is the worker's, from before its work is posted until it has run or been dropped; the same for
// the rendering, and for the list of those to be woken. One is held for each part that the engine
// holds, from before fx_submit to its last event. Whoever drops the last one frees the job. The
// worker's reference may outlive the connection, not the server; the engine's may outlive both, and
// by then touch neither.
struct fxi_http_job {
    atomic_int refs;

    fx_engine *eng; // immutable once the head has been read; outlives the job
    // A reference, since the engine's events may outlive the server. Immutable.
    fxi_metrics *metrics;
    fxi_bill bill; // what the request holds; any thread
    // Immutable once the head has been read, and never NULL; valid as long as the job.
    const fxi_tenant *tenant;
    char scope[80];  // of fxi_tenant_domain: parts the clients of one tenant
    uint64_t client; // of fxi_tenant_client: its requests take turns with those of others

    // The I/O thread's own.
    fxi_server *srv; // valid while the connection's or the worker's reference is held
    const struct fxi_route *route;
    fxi_peer *peer;       // its connection; valid as long as that
    const char *path;     // the request's, during a callback of MHD
    const char *origin;   // the Origin header, if pages of it may use the server, or NULL
    bool chunks;          // a body of unknown length is sent in chunks
    bool preflight;       // a browser asks what it may send
    bool wants_page;      // a browser asks for a page
    bool at_once;         // `early` is answered without reading the body, and the connection closes
    char request_id[132]; // X-Request-Id, the client's or ours
    double started_s;
    fxi_trace_span *span; // what is told of it elsewhere; NULL: nothing
    fxi_phase phase;
    fxi_body body;         // the worker's, once its work is posted
    uint64_t n_body_bytes; // received, kept or not
    fxi_http_error early;  // found before the whole body arrived; answered after it
    char allow[32];        // with 405: the methods that the path allows
    const char *code;      // of the error that was sent, for the log; static text
    int status;            // sent; 0: none yet
    bool listed;           // in server.jobs and watched

    // The workers' queue's own: the body's work, and the rendering of a large answer.
    fxi_work work, render;

    int fd; // the connection's; set before the job is listed. Sent to only while it is suspended

    // Guarded by server.mu.
    uint64_t serial;
    double window_s;     // watch.c: a reader is measured from here on; 0: not yet
    uint64_t window_ack; // bytes that it had acknowledged by then
    fxi_http_job *prev, *next;

    fxi_wake wake; // guarded by server.wakes

    fxi_subscriber subscriber; // of snapshots; server.publisher.mu guards it

    // Guarded by mu.
    pthread_mutex_t mu;
    struct MHD_Connection *conn; // NULL once completed
    // Of streams without requests in the engine; see fxi_http_job_watch.
    double (*look)(fxi_http_job *job, double now_s);
    void (*leave)(fxi_http_job *job);
    bool suspended;
    // A chunk that http_send.c has begun to send past MHD: its text, and what has been sent of it
    // with its head and its end; 0: none. Until it is whole, MHD must send nothing.
    size_t chunk_bytes, chunk_sent;
    bool broken;      // it will never be whole: the connection closes
    bool gone;        // the client hung up
    char ignored[96]; // fxi_params.ignored
    double last_out_s;
    fxi_reply reply;
    size_t text_bytes;  // billed for the reply's text
    double unread_s;    // since when there has been something to send all the time; 0: there is not
    uint64_t n_out;     // bytes that MHD has taken
    fxi_buf answer;     // a whole body in place of the reply's; the reply has ended then
    bool rendering;     // the reply has ended, and a worker is to make its body
    size_t body_bytes;  // billed for that body
    fxi_job_part *part; // [n_part]; constant once it is set
    int n_part;
};

fxi_http_job *fxi_http_job_new(fxi_server *srv, struct MHD_Connection *conn);
void fxi_http_job_unref(fxi_http_job *job);
// An event of one part (ud: its fxi_job_part). Runs on the engine's thread.
void fxi_http_job_on_event(void *ud, const fx_event *ev);
// Lets MHD look at a suspended connection again. job.mu is held.
void fxi_http_job_resume(fxi_http_job *job);
// Takes up to max bytes of a stream; dst NULL: drops them. job.mu is held.
size_t fxi_http_job_take(fxi_http_job *job, char *dst, size_t max);
// Ends the job with *body as its whole answer, application/json, unless it has ended already.
// *body is taken over in either case. On a worker.
void fxi_http_job_answer(fxi_http_job *job, fxi_buf *body);
// The job has no requests in the engine: it is a stream, or waits for fxi_http_job_answer. From now
// on the watcher calls `look`,
// which returns when it is to be called next (INFINITY: when somebody wakes the watcher), and the
// I/O thread `leave`, once, when the connection has completed. False: it has; neither is called.
bool fxi_http_job_watch(fxi_http_job *job, bool is_stream,
                        double (*look)(fxi_http_job *job, double now_s),
                        void (*leave)(fxi_http_job *job));
// Adds text to such a stream, which fxi_http_send_added sends. ok false: there was no memory for
// it, and the stream ends. False: it has ended.
bool fxi_http_job_add(fxi_http_job *job, bool ok, const fxi_buf *text);
// Bytes that the socket holds and the client's machine has not acknowledged.
uint64_t fxi_http_job_queued_bytes(const fxi_http_job *job);
// Whether such a stream's reader has taken everything: what lies in the socket has not been taken.
bool fxi_http_job_waits(fxi_http_job *job);
// Calls `look`. Returns when to look again; INFINITY: never.
double fxi_http_job_look(fxi_http_job *job, double now_s);
// The connection has completed: calls `leave`.
void fxi_http_job_complete(fxi_http_job *job);
// Ends the streams that would go on for ever. server.mu is held.
void fxi_http_end_watching_locked(fxi_server *srv);
// If the job's work still waits for a worker, it never runs: gives the body back. pre: it is over.
void fxi_http_job_drop_work(fxi_http_job *job);
// Whether the reply has ended: a worker need not go on.
bool fxi_http_job_is_over(fxi_http_job *job);
// Ends the job with an error from outside the engine: wakes the connection, cancels the parts,
// drops what waits for a worker, and with it the body.
void fxi_http_job_end(fxi_http_job *job, const fxi_http_error *e);
void fxi_http_job_hangup(fxi_http_job *job); // the client has gone
// If a chunk is open, it stays so: the connection closes. pre: the reply has ended.
void fxi_http_job_cut(fxi_http_job *job);
// Pings a stream that has been silent for ping_s. Returns when to look again; INFINITY: never.
double fxi_http_job_ping(fxi_http_job *job, double now_s, double ping_s);
// MHD has taken n bytes of the answer, and so sent those before; 0: it has sent all that there is.
// job.mu is held.
void fxi_http_job_sent(fxi_http_job *job, size_t n);
// Since when there has been something to read all the time, and how many bytes MHD has taken so
// far; 0: there is nothing to read.
double fxi_http_job_unread(fxi_http_job *job, uint64_t *n_out);

// ---- conn.c: connections -----------------------------------------------------------------------

// The connection's place in the table; NULL: there was no memory for one.
fxi_peer *fxi_peer_of(struct MHD_Connection *conn);
// Moves it on; wakes the watcher if its deadline is the next one. False: it has been cut.
bool fxi_peer_move(fxi_server *srv, fxi_peer *p, fxi_peer_phase phase);

// Callbacks of MHD (ud: the server). A connection comes or goes; *context is its fxi_peer.
void fxi_conn_notify(void *ud, struct MHD_Connection *conn, void **context,
                     enum MHD_ConnectionNotificationCode code);
// The request line has been read; headers follow. Returns the request's first context, NULL.
void *fxi_conn_take_target(void *ud, const char *target, struct MHD_Connection *conn);

// ---- framing.c, doors.c: what a request must pass before its body is read ---------------------

// False: *err says why the request's end, and so the next one's beginning, is in doubt.
bool fxi_framing_check(const fxi_http_job *job, const char *method, const char *version,
                       fxi_http_error *err);
// Finds the route and the tenant. False: job->early is the answer.
bool fxi_doors_pass(fxi_http_job *job, const char *method, const char *url, const char *version);

// ---- permits.c: what is granted now. Any thread -------------------------------------------------

// Whether the server answers: it has a model and does not shut down; and takes requests for the
// engine: it does not sleep.
bool fxi_permit_work(fxi_server *srv, fxi_http_error *err);
bool fxi_permit_request(fxi_server *srv, fxi_http_error *err);
bool fxi_http_fail_loading(fxi_http_error *err); // false
// Whether the tenant's requests may have the priority and the keep_priority of this one.
bool fxi_permit_priority(const fxi_http_job *job, const fx_request *req, fxi_http_error *err);

// ---- watch.c: hang-ups, pings and deadlines ----------------------------------------------------

fx_status fxi_watch_start(fxi_server *srv, fx_error *err);
// The two halves of the end, both allowed after a failed start: joins the thread; closes the files,
// once no job is listed any more.
void fxi_watch_stop(fxi_server *srv);
void fxi_watch_close(fxi_server *srv);
// Lists the job and watches its socket. False: the server is closing.
bool fxi_watch_add(fxi_http_job *job);
void fxi_watch_remove(fxi_http_job *job);
// Ends the listed jobs, except this one, whose reply or request has this id; returns how many.
int fxi_watch_abort(const fxi_http_job *but, const char *id);
// Appends what the listed jobs are doing: members of a JSON list. False: out of memory.
bool fxi_watch_list(fxi_server *srv, fxi_buf *b);
void fxi_watch_wake(fxi_server *srv); // something is due earlier: a ping, a deadline

// ---- job_work.c: from the I/O thread to a worker ----------------------------------------------

// Lists the job, posts its route's `work` and suspends the connection until there is an answer.
enum MHD_Result fxi_http_job_post(fxi_http_job *job);

// ---- job_submit.c: from the body to the engine; on a worker -----------------------------------

// The server's limits, with the job's bill.
fxi_limits fxi_http_job_limits(fxi_http_job *job);
// Parses the body, billed, and gives it back. False: *err says why. True: fxi_params_free it.
bool fxi_http_job_parse(fxi_http_job *job, fxi_api api, fxi_params *par, fxi_http_error *err);
// Parses the body and submits one engine request per prompt. False: *err says why, and nothing was
// submitted. Later failures end the reply with an error.
bool fxi_http_job_submit(fxi_http_job *job, fxi_api api, fxi_http_error *err);
// "PREFIX-" and 24 random hexadecimal digits.
void fxi_random_id(char *dst, size_t cap, const char *prefix);

// ---- http_send.c: responses -------------------------------------------------------------------

// Makes srv->no_memory. False: out of memory.
bool fxi_http_make_no_memory(fxi_server *srv);
// Sends it on a connection: 503, without allocating.
enum MHD_Result fxi_http_send_no_memory(fxi_server *srv, struct MHD_Connection *conn);
// Sends a file of the web page, or 304. Where memory is short, these send 503.
enum MHD_Result fxi_http_send_file(fxi_http_job *job, const fxi_web_file *f);
// Sends *body (taken over) with 200, if it could be made.
enum MHD_Result fxi_http_send_made(fxi_http_job *job, bool made, const char *type, fxi_buf *body);
enum MHD_Result fxi_http_send_error(fxi_http_job *job, const fxi_http_error *e);
// Sends what a page of this origin may send: a request with any headers.
enum MHD_Result fxi_http_send_preflight(fxi_http_job *job);
// Sends what a submitted job has to say, or suspends the connection until there is something.
enum MHD_Result fxi_http_send_reply(fxi_http_job *job);
// Sends what fxi_http_job_add has added, as much as the socket takes, or leaves it to MHD. Returns
// whether MHD's thread has it to do.
bool fxi_http_send_added(fxi_http_job *job);
// Let jobs send that have something to send, as wakes.h says: after each step, on the engine's
// thread, which leaves it to the sender if there is one (ud: the server); on the sender; those that
// are late, on the watcher's; all.
void fxi_http_wake_after_step(void *ud);
void fxi_http_send_listed(void *ud);
void fxi_http_wake_late(fxi_server *srv, double now_s);
void fxi_http_wake_all(fxi_server *srv);

// ---- routes.c: what is served where -----------------------------------------------------------

// Who may use a route, and when.
typedef enum fxi_access {
    FXI_ACCESS_MODEL,   // with a key, if the server has keys, once the model is loaded
    FXI_ACCESS_KEY,     // with a key, if the server has keys; even while the model loads
    FXI_ACCESS_METRICS, // as MODEL, and during a shutdown; the option open_metrics: without a key
    FXI_ACCESS_PROBE,   // anyone, at any time
    FXI_ACCESS_ADMIN,   // as MODEL, with an admin's key; nobody without such a key
    FXI_ACCESS_WATCH, // as ADMIN, if the server has keys; otherwise anyone, unless clients are kept
                      // apart: then who is on this machine
    FXI_ACCESS_PAGE,  // as KEY; a browser gets a page that has no secrets without one
} fxi_access;

#define FXI_MESSAGES_PATH "/v1/messages" // what lies under it has errors in Anthropic's form

typedef struct fxi_route {
    const char *method; // "GET" serves HEAD too
    const char *path;
    bool prefix; // path is only the start of what it serves
    // On the I/O thread: for answers that cost nothing. NULL: `work`.
    enum MHD_Result (*run)(fxi_http_job *job);
    fxi_access access;
    // On a worker, once the whole body has arrived: for whatever parses, renders or tokenizes.
    // False: *err is the answer. True: fxi_http_job_submit or fxi_http_job_answer has been called.
    bool (*work)(fxi_http_job *job, fxi_http_error *err);
    fxi_endpoint endpoint; // what `run` or `work` answers with, if there is nothing else to it
} fxi_route;

// The row, or NULL with *err (404; 405 and the allowed methods in *allow, or "").
const fxi_route *fxi_route_find(const char *method, const char *path, char *allow, size_t cap,
                                fxi_http_error *err);

// The number of the first route with its path; -1: NULL. And the paths of all, as many as fit;
// returns how many.
int fxi_route_index(const fxi_route *r);
int fxi_route_paths(const char **path, int max);

// ---- accounts.c: what is counted and traced; metrics_page.c: where it is shown -----------------

// An event, with job.mu held. On the engine's thread.
void fxi_account_event(fxi_job_part *part, const fx_event *ev);
// A request whose head has been read; a finished one, of the route with this number, -1: none.
void fxi_account_begin(fxi_http_job *job);
void fxi_account_request(fxi_http_job *job, int route, int status);
enum MHD_Result fxi_serve_metrics(fxi_http_job *job);

// ---- access_log.c -----------------------------------------------------------------------------

// Writes a finished request's line to the server's log.
void fxi_log_job(fxi_http_job *job, int status);
// Something that happened beside the requests; level: an fxi_level (log.h). Any thread.
void fxi_log_event(fxi_server *srv, int level, const char *event, const char *text);
// With the option log_prompts: the body of a request for a generation, or the start of it.
void fxi_log_body(fxi_http_job *job, const char *body, size_t n_bytes);

// ---- http.c: the callbacks of MHD -------------------------------------------------------------

enum MHD_Result fxi_http_on_request(void *srv, struct MHD_Connection *conn, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **con_cls);
void fxi_http_on_completed(void *srv, struct MHD_Connection *conn, void **con_cls,
                           enum MHD_RequestTerminationCode why);

#endif
