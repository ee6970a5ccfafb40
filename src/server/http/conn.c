// conn.c - one connection: the steps of its phases (conn.h), one after the other as far as what has
// arrived allows, then what the loop must wait for.
//
// An error found in a head is answered only after the body has been read and dropped: a client that
// still writes may never see an answer that comes with a reset. A client that waits for "100
// Continue", announces far more than the limit, or sends what cannot be framed, is answered at
// once; the connection then lingers, dropping what arrives, until the client closes it.
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "server/http/http.h"

#define FILLS_AT_ONCE     16       // of `out`, before others have their turn
#define LINGER_S          2        // for a client to close
#define MAX_LINGER        48       // connections at a time
#define MAX_LINGER_BYTES  8u << 20 // of one
#define LEAST_BYTES_PER_S 1024     // that a client must read

static fxi_loop *loop_of(const fxi_conn *c)
{
    return &c->srv->loop;
}

static void move_to(fxi_conn *c, fxi_phase phase)
{
    fxi_places_move(&loop_of(c)->places, &c->place, phase, fxi_now_s());
}

// ---- the end ----------------------------------------------------------------------------------

static void complete_request(fxi_conn *c, fxi_outcome outcome)
{
    fxi_http_job *job = c->job;
    if (!job) return;
    int status = outcome == FXI_CLIENT_GONE ? 499 : job->status; // for the log
    if (!status && outcome == FXI_SHUT_DOWN) status = 503;
    c->job = NULL;
    fxi_jobs_remove(job);
    (void)fxi_http_job_hang_up(job);
    if (job->watches) fxi_kv_stream_leave(job);
    fxi_account_end(job, fxi_route_index(job->route), status);
    job->conn = NULL;
    fxi_http_job_unref(job);
}

void fxi_conn_close(fxi_conn *c, fxi_outcome outcome)
{
    fxi_loop *l = loop_of(c);
    if (c->place.phase == FXI_PHASE_CLOSED) return;
    complete_request(c, outcome);
    l->n_linger -= c->place.phase == FXI_PHASE_LINGER;
    fxi_transport_close(&c->io);
    move_to(c, FXI_PHASE_CLOSED);
    fxi_places_leave(&l->places, &c->place);
    c->next_dead = l->dead;
    l->dead = c;
}

static bool drop_input(fxi_conn *c)
{
    c->n_dropped += c->n_in;
    c->at = c->n_in = 0;
    if (c->n_dropped > MAX_LINGER_BYTES) fxi_conn_close(c, FXI_ANSWERED);
    return false;
}

// Ends the request. What came after it begins the next one. False: the connection ends, too. To
// close a socket with unread input would reset the connection, and the client might lose the
// answer: so the output ends first, and the rest goes once the client has closed its side.
static bool finish_response(fxi_conn *c)
{
    fxi_loop *l = loop_of(c);
    complete_request(c, FXI_ANSWERED);
    if (!c->must_close) {
        memmove(c->in, c->in + c->at, c->n_in - c->at);
        c->n_in -= c->at;
        c->n_head = c->at = c->n_seen = 0;
        c->is_answered = false;
        move_to(c, FXI_PHASE_IDLE);
    } else if (l->n_linger == MAX_LINGER) {
        fxi_conn_close(c, FXI_ANSWERED);
    } else {
        l->n_linger++;
        fxi_transport_finish(&c->io);
        move_to(c, FXI_PHASE_LINGER);
        fxi_places_set_due(&l->places, &c->place, fxi_now_s() + LINGER_S);
        c->n_head = c->at = c->n_in = 0;
    }
    return !c->must_close;
}

// ---- the response -----------------------------------------------------------------------------

static bool has_output(const fxi_conn *c)
{
    return c->out_from < c->out_to || c->n_rest;
}

// Bytes of those sent that the client's machine has acknowledged.
static uint64_t acked_bytes(const fxi_conn *c)
{
    const uint64_t n_queued = fxi_transport_queued_bytes(c->io.fd);
    return c->n_out > n_queued ? c->n_out - n_queued : 0;
}

// False: the socket takes no more at the moment, or the connection is closed.
static bool flush_conn(fxi_conn *c)
{
    while (has_output(c)) {
        const size_t n_out = c->out_to - c->out_from;
        const ssize_t n =
            fxi_transport_send(&c->io, c->out + c->out_from, n_out, c->rest, c->n_rest);
        if (n == FXI_TRANSPORT_ERROR) fxi_conn_close(c, FXI_CLIENT_GONE);
        if (n == FXI_TRANSPORT_AGAIN && !c->window_s) {
            c->window_s = fxi_now_s();
            c->window_ack = acked_bytes(c);
        }
        if (n < 0) return false;
        const size_t n_first = (size_t)n < n_out ? (size_t)n : n_out;
        c->out_from += n_first;
        c->rest += (size_t)n - n_first;
        c->n_rest -= (size_t)n - n_first;
        c->n_out += (size_t)n;
        c->last_out_s = fxi_now_s();
    }
    c->out_from = c->out_to = 0;
    c->window_s = 0;
    return true;
}

static bool continue_response(fxi_conn *c)
{
    for (int i = 0; c->is_answered && i < FILLS_AT_ONCE; i++) {
        if (!flush_conn(c)) return false;
        if (!c->is_stream) return finish_response(c);
        const fxi_fill fill = fxi_respond_fill(c);
        if (fill == FXI_FILL_CUT) fxi_conn_close(c, FXI_CLIENT_GONE);
        if (fill != FXI_FILLED) return false;
    }
    return false;
}

// ---- the body ---------------------------------------------------------------------------------

// The whole request is here, or enough of it to refuse it.
static void answer_request(fxi_conn *c)
{
    fxi_http_job *job = c->job;
    fxi_http_error err;
    move_to(c, FXI_PHASE_BUSY);
    c->last_out_s = fxi_now_s();
    c->look_s = INFINITY;
    if (job->early.status)
        fxi_respond_error(job, &job->early);
    else if (job->preflight)
        fxi_respond_preflight(job);
    else if (job->route->on_worker)
        fxi_http_job_post(job);
    else if (!job->route->work(job, &err))
        fxi_respond_error(job, &err);
    else if (!c->is_answered)
        fxi_respond_reply(c);
}

// True: the body is complete, or has been refused.
static bool take_chunks(fxi_conn *c)
{
    fxi_http_job *job = c->job;
    while (c->at < c->n_in) {
        size_t n_used, n_data;
        const char *p = c->in + c->at;
        const fxi_chunk_result res =
            fxi_chunks_read(&c->chunks, p, c->n_in - c->at, &n_used, &n_data);
        c->at += n_used;
        if (res == FXI_CHUNK_DATA && !fxi_admission_take_body(job, p, n_data)) {
            fxi_conn_close(c, FXI_CLIENT_GONE);
            return false;
        }
        if (res == FXI_CHUNK_END) return true;
        if (res == FXI_CHUNK_DATA || res == FXI_CHUNK_MORE) continue;
        const bool is_huge = res == FXI_CHUNK_HUGE;
        fxi_http_fail(&job->early, is_huge ? 413 : 400, "invalid_request", NULL, "%s",
                      is_huge ? "the chunk is too large" : "invalid chunk in the body");
        job->at_once = true;
        return true;
    }
    return false;
}

static bool take_body(fxi_conn *c)
{
    bool is_whole;
    if (c->head.is_chunked) {
        is_whole = take_chunks(c);
    } else {
        const size_t n_here = c->n_in - c->at, n = c->n_left < n_here ? (size_t)c->n_left : n_here;
        if (n) (void)fxi_admission_take_body(c->job, c->in + c->at, n); // announced: not too large
        c->at += n;
        c->n_left -= n;
        is_whole = !c->n_left;
    }
    if (is_whole) answer_request(c);
    return is_whole;
}

// ---- the head ---------------------------------------------------------------------------------

// Reads the head; length as of fxi_head_find_end. False: *err says why it is refused.
static bool read_whole_head(fxi_conn *c, ptrdiff_t length, fxi_http_error *err)
{
    c->head = (fxi_head){.method = NULL};
    c->n_head = length > 0 ? (size_t)length : c->n_in;
    c->at = c->n_head;
    if (length < 0)
        return fxi_http_fail(err, 400, "invalid_request", NULL, "header lines must end with CR LF");
    if (!length || length > FXI_MAX_HEAD_BYTES)
        return fxi_http_fail(err, 431, NULL, NULL, "the headers are longer than %u bytes",
                             (unsigned)FXI_MAX_HEAD_BYTES);
    if (!fxi_head_parse(&c->head, c->in, c->n_head, err)) return false;
    c->n_left = c->head.n_bytes;
    c->chunks = (fxi_chunks){.at = 0};
    return true;
}

static void begin_request(fxi_conn *c, ptrdiff_t length)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    fxi_http_error err = {.status = 0};
    move_to(c, FXI_PHASE_BODY);
    (void)read_whole_head(c, length, &err);
    c->job = fxi_http_job_new(c->srv, c);
    if (!c->job) {
        move_to(c, FXI_PHASE_BUSY);
        fxi_respond_no_memory(c);
    } else if (!fxi_admission_check(c->job, &err)) {
        if (c->job->at_once) answer_request(c);
    } else if (c->head.has_body && c->at == c->n_in && !c->head.is_1_0) {
        const char *expect = fxi_head_get(&c->head, "Expect");
        if (!expect || strcasecmp(expect, "100-continue") != 0) return;
        memcpy(c->out, go_on, sizeof go_on - 1);
        c->out_to = sizeof go_on - 1;
        (void)flush_conn(c);
    }
}

static bool take_head(fxi_conn *c)
{
    size_t n_empty = 0; // lines before the request
    while (c->n_in - n_empty >= 2 && !memcmp(c->in + n_empty, "\r\n", 2)) n_empty += 2;
    c->n_in -= n_empty;
    memmove(c->in, c->in + n_empty, c->n_in);
    if (n_empty) c->n_seen = 0;
    if (!c->n_in) return false;
    if (c->place.phase != FXI_PHASE_HEAD) move_to(c, FXI_PHASE_HEAD);
    const ptrdiff_t length = fxi_head_find_end(c->in, c->n_in, &c->n_seen);
    if (!length && c->n_in <= FXI_MAX_HEAD_BYTES) return false;
    begin_request(c, length);
    return true;
}

// ---- steps ------------------------------------------------------------------------------------

// A connection that is BUSY is due for a comment line on a silent stream, the next look at how fast
// the client reads, or what the job wants.
static void run_steps(fxi_conn *c)
{
    static bool (*const steps[FXI_N_PHASE])(fxi_conn *) = {
        [FXI_PHASE_FRESH] = take_head, [FXI_PHASE_HEAD] = take_head,
        [FXI_PHASE_BODY] = take_body,  [FXI_PHASE_BUSY] = continue_response,
        [FXI_PHASE_IDLE] = take_head,  [FXI_PHASE_LINGER] = drop_input,
    };
    const fxi_server_options *o = &c->srv->opt;
    fxi_loop *l = loop_of(c);
    bool goes_on = true;
    while (goes_on && c->place.phase != FXI_PHASE_CLOSED) goes_on = steps[c->place.phase](c);
    if (c->place.phase == FXI_PHASE_CLOSED) return;
    uint32_t wanted = EPOLLIN;
    if (c->place.phase == FXI_PHASE_BUSY) {
        fxi_places_set_due(&l->places, &c->place,
                           c->window_s ? c->window_s + o->read_timeout_s
                                       : fmin(c->last_out_s + o->ping_s, c->look_s));
        wanted = c->half_closed ? 0 : EPOLLRDHUP;
    }
    if (has_output(c) || c->io.wants_to_write) wanted |= EPOLLOUT;
    struct epoll_event ev = {.events = wanted, .data.ptr = c};
    if (wanted == c->interest) return;
    c->interest = wanted;
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, c->io.fd, &ev)) fxi_conn_close(c, FXI_CLIENT_GONE);
}

void fxi_conn_begin(fxi_conn *c)
{
    const int one = 1;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    setsockopt(c->io.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->interest = EPOLLIN;
    if (epoll_ctl(loop_of(c)->epoll_fd, EPOLL_CTL_ADD, c->io.fd, &ev))
        fxi_conn_close(c, FXI_CLIENT_GONE);
}

// ---- events -----------------------------------------------------------------------------------

static bool does_receive(const fxi_conn *c)
{
    return c->place.phase != FXI_PHASE_BUSY && c->place.phase != FXI_PHASE_CLOSED;
}

static void receive_input(fxi_conn *c)
{
    ssize_t n;
    do {
        if (c->at == c->n_in) c->at = c->n_in = c->n_head;
        n = fxi_transport_receive(&c->io, c->in + c->n_in, FXI_CONN_IN_BYTES - c->n_in);
        if (n == 0 || n == FXI_TRANSPORT_ERROR) {
            fxi_conn_close(c, FXI_CLIENT_GONE);
            return;
        }
        if (n > 0) c->n_in += (size_t)n;
        run_steps(c);
    } while (n > 0 && does_receive(c) && fxi_transport_has_more(&c->io));
}

void fxi_conn_on_events(fxi_conn *c, uint32_t events)
{
    if (c->place.phase == FXI_PHASE_CLOSED) return;
    if (events & (EPOLLHUP | EPOLLERR)) {
        fxi_conn_close(c, FXI_CLIENT_GONE);
        return;
    }
    // The client sends no more. While its request waits or is computed, it has gone.
    if ((events & EPOLLRDHUP) && c->place.phase == FXI_PHASE_BUSY) {
        if (c->job && fxi_http_job_hang_up(c->job))
            fxi_conn_close(c, FXI_CLIENT_GONE);
        else
            c->half_closed = true;
    }
    if (((events & EPOLLIN) || c->io.wants_to_write) && does_receive(c))
        receive_input(c);
    else
        run_steps(c);
    if (does_receive(c) && fxi_transport_has_more(&c->io)) receive_input(c);
}

void fxi_conn_look(fxi_conn *c)
{
    if (c->place.phase != FXI_PHASE_BUSY || !c->job) return;
    if (!c->is_answered) fxi_respond_reply(c);
    run_steps(c);
    if (does_receive(c) && fxi_transport_has_more(&c->io)) receive_input(c);
}

// ---- deadlines --------------------------------------------------------------------------------

// Tells a client whose request is not complete that it is late, and ends the connection.
void fxi_conn_give_up(fxi_place *p)
{
    fxi_conn *c = (fxi_conn *)p;
    if (p->phase == FXI_PHASE_IDLE || p->refused || c->io.shakes_hands || has_output(c)) {
        fxi_conn_close(c, FXI_CLIENT_GONE);
        return;
    }
    if (c->job) {
        c->job->at_once = true;
        fxi_http_fail(&c->job->early, 408, "request_timeout", NULL,
                      "the request did not arrive in time");
        answer_request(c);
    } else {
        move_to(c, FXI_PHASE_BUSY);
        fxi_respond_bare(c, 408, "request_timeout", "the request did not arrive in time");
    }
    run_steps(c);
    if (p->phase == FXI_PHASE_BUSY) fxi_conn_close(c, FXI_CLIENT_GONE);
}

// A client that always has something to read must take 1 KiB per second of it, measured over
// read_timeout_s. What lies in the socket's buffer has not been taken.
void fxi_conn_on_due(fxi_place *p, double now_s)
{
    fxi_conn *c = (fxi_conn *)p;
    const fxi_server_options *o = &c->srv->opt;
    if (p->phase == FXI_PHASE_LINGER) {
        fxi_conn_close(c, FXI_ANSWERED);
    } else if (p->phase != FXI_PHASE_BUSY) {
        fxi_conn_give_up(p);
    } else if (c->window_s) {
        const uint64_t ack = acked_bytes(c), n_taken = ack - c->window_ack;
        if ((double)n_taken < o->read_timeout_s * LEAST_BYTES_PER_S)
            fxi_conn_close(c, FXI_CLIENT_GONE);
        c->window_s = now_s;
        c->window_ack = ack;
        run_steps(c);
    } else if (!c->job) {
        fxi_conn_close(c, FXI_CLIENT_GONE);
    } else {
        if (c->last_out_s + o->ping_s <= now_s) {
            c->last_out_s = now_s;
            fxi_http_job_ping(c->job);
        }
        fxi_conn_look(c);
    }
}
