// http.c - the callbacks of libmicrohttpd. It calls fxi_http_on_request for one request several
// times, always on the same thread: with the head, with each piece of the body, at its end, and
// again whenever a suspended connection has been resumed; then it calls fxi_http_on_completed once,
// however the request ended.
//
// An error found in the head is answered only after the body has been read and dropped: a client
// that still writes may never see an answer that comes with a reset. A client that waits for "100
// Continue", or announces far more than the limit, gets its answer at once.
#include "server/http/http.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_HEADER_BYTES (16u << 10)
#define MAX_DROPPED      4 // times max_body_bytes

// ---- the head ---------------------------------------------------------------------------------

static const char *header_of(const fxi_http_job *job, const char *name)
{
    return MHD_lookup_connection_value(job->conn, MHD_HEADER_KIND, name);
}

// The client's own id if it is one word of printable ASCII, else a new one.
static void take_request_id(fxi_http_job *job)
{
    const char *id = header_of(job, "X-Request-Id");
    size_t n = id ? strlen(id) : 0;
    bool good = n && n < sizeof job->request_id;
    for (size_t i = 0; good && i < n; i++) good = id[i] > ' ' && id[i] <= '~';
    if (good)
        memcpy(job->request_id, id, n + 1);
    else
        fxi_random_id(job->request_id, sizeof job->request_id, "req");
}

static bool check_header_bytes(fxi_http_job *job)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(job->conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!info || info->header_size <= MAX_HEADER_BYTES) return true;
    job->at_once = true; // nobody has checked its framing: what follows cannot be trusted
    return fxi_http_fail(&job->early, 431, NULL, NULL, "the headers are longer than %u bytes",
                         MAX_HEADER_BYTES);
}

// Bodies of the types that a page may send anywhere without being asked about (text/plain, forms,
// none) are not accepted, JSON or not.
static bool check_content_type(fxi_http_job *job)
{
    static const char json[] = "application/json";
    const size_t n = sizeof json - 1;
    const char *type = header_of(job, "Content-Type"), *coding = header_of(job, "Content-Encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        return fxi_http_fail(&job->early, 415, NULL, NULL, "compressed bodies are not accepted");
    if (type && !strncasecmp(type, json, n) && (!type[n] || strchr("; \t", type[n]))) return true;
    return fxi_http_fail(&job->early, 415, NULL, NULL,
                         "the body must be JSON, with the header Content-Type: application/json");
}

static bool has_body(const fxi_http_job *job)
{
    const char *length = header_of(job, "Content-Length");
    return header_of(job, "Transfer-Encoding") || (length && strspn(length, "0") != strlen(length));
}

static bool refuse_large_body(fxi_http_job *job)
{
    return fxi_http_fail(&job->early, 413, NULL, NULL, "the body is larger than %zu bytes",
                         job->srv->opt.max_body_bytes);
}

// The announced length of the body; 0 if there is none (a chunked body is counted as it arrives).
static uint64_t announced_bytes(const fxi_http_job *job)
{
    const char *length = header_of(job, "Content-Length");
    return length ? strtoumax(length, NULL, 10) : 0;
}

static bool refuse_bytes(fxi_http_job *job, fxi_body_status st)
{
    static const fxi_take why[] = {
        [FXI_BODY_FULL] = FXI_TAKE_FULL, [FXI_BODY_NEVER] = FXI_TAKE_NEVER};
    if (st == FXI_BODY_OK) return true;
    fxi_body_free(&job->body, &job->bill);
    if (st == FXI_BODY_NO_MEMORY) return fxi_http_fail_memory(&job->early);
    return fxi_bytes_granted(&job->early, why[st]);
}

// Where no work reads it, a body is counted and dropped: it is nobody's memory.
static bool keeps_body(const fxi_http_job *job)
{
    return job->route && job->route->work;
}

static bool check_head(fxi_http_job *job, const char *method, const char *url, const char *version)
{
    if (!check_header_bytes(job) || !fxi_doors_pass(job, method, url, version)) return false;
    if (!strcmp(method, "POST") && has_body(job) && !check_content_type(job)) return false;
    uint64_t n_bytes = announced_bytes(job);
    if (n_bytes > job->srv->opt.max_body_bytes) return refuse_large_body(job);
    if (!keeps_body(job)) return true;
    return refuse_bytes(job, fxi_body_reserve(&job->body, &job->bill, n_bytes));
}

static bool must_answer_now(const fxi_http_job *job)
{
    return job->at_once || header_of(job, "Expect") ||
           announced_bytes(job) / MAX_DROPPED > job->srv->opt.max_body_bytes;
}

static enum MHD_Result begin_job(fxi_server *srv, struct MHD_Connection *conn, const char *method,
                                 const char *url, const char *version, void **con_cls)
{
    fxi_peer *peer = fxi_peer_of(conn);
    if (peer && !fxi_peer_move(srv, peer, FXI_PEER_BODY)) return MHD_NO;
    fxi_http_job *job = peer ? fxi_http_job_new(srv, conn) : NULL;
    if (!job) return fxi_http_send_no_memory(srv, conn);
    *con_cls = job;
    job->peer = peer;
    job->chunks = !strcmp(version, "HTTP/1.1");
    take_request_id(job);
    const bool is_good = check_head(job, method, url, version);
    fxi_account_begin(job);
    if (is_good || !must_answer_now(job)) return MHD_YES;
    return fxi_http_send_error(job, &job->early);
}

// ---- the body ---------------------------------------------------------------------------------

static enum MHD_Result take_body(fxi_http_job *job, const char *data, size_t n)
{
    size_t max = job->srv->opt.max_body_bytes;
    job->n_body_bytes += n;
    if (job->n_body_bytes / MAX_DROPPED > max) return MHD_NO;
    if (!job->early.status && job->n_body_bytes > max) refuse_large_body(job);
    if (!job->early.status && keeps_body(job))
        refuse_bytes(job, fxi_body_add(&job->body, &job->bill, data, n));
    if (job->early.status) fxi_body_free(&job->body, &job->bill);
    return MHD_YES;
}

enum MHD_Result fxi_http_on_request(void *ud, struct MHD_Connection *conn, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **con_cls)
{
    fxi_http_job *job = *con_cls;
    if (!job) return begin_job(ud, conn, method, url, version, con_cls);
    if (*n_data) {
        size_t n = *n_data;
        *n_data = 0;
        return take_body(job, data, n);
    }
    if (job->phase == FXI_PHASE_WAIT) return fxi_http_send_reply(job);
    if (!fxi_peer_move(job->srv, job->peer, FXI_PEER_BUSY)) return MHD_NO;
    if (job->early.status) return fxi_http_send_error(job, &job->early);
    if (job->preflight) return fxi_http_send_preflight(job);
    job->path = url;
    return job->route->run ? job->route->run(job) : fxi_http_job_post(job);
}

// ---- the end ----------------------------------------------------------------------------------

// The status with which MHD itself refused what came, or 0.
static int refused_by_mhd(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn, MHD_CONNECTION_INFO_HTTP_STATUS);
    return info ? (int)info->http_status : 0;
}

// Of a request that got no answer of ours.
static int unanswered_status(const fxi_http_job *job, struct MHD_Connection *conn,
                             enum MHD_RequestTerminationCode why)
{
    const int cut = fxi_peers_cut_status(&job->srv->peers, job->peer);
    const int refused = cut ? cut : refused_by_mhd(conn);
    if (refused) return refused;
    if (why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED) return 408;
    return why == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN ? 503 : 499;
}

static int logged_status(const fxi_http_job *job, struct MHD_Connection *conn,
                         enum MHD_RequestTerminationCode why)
{
    const bool whole =
        why == MHD_REQUEST_TERMINATED_COMPLETED_OK || why == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN;
    if (job->gone) return 499;
    if (!job->status) return unanswered_status(job, conn, why);
    return whole ? job->status : 499;
}

void fxi_http_on_completed(void *ud, struct MHD_Connection *conn, void **con_cls,
                           enum MHD_RequestTerminationCode why)
{
    fxi_http_job *job = *con_cls;
    fxi_http_error gone;
    fxi_peer *peer = fxi_peer_of(conn);
    if (peer) fxi_peer_move(ud, peer, FXI_PEER_IDLE);
    if (!job) return;
    *con_cls = NULL;
    fxi_watch_remove(job);
    fxi_http_fail(&gone, 499, NULL, NULL, "the client has gone");
    fxi_http_job_end(job, &gone);
    fxi_http_job_complete(job);
    const int status = logged_status(job, conn, why);
    fxi_account_request(job, fxi_route_index(job->route), status);
    fxi_log_job(job, status);
    fxi_http_job_unref(job);
}
