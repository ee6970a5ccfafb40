// peers.c - the table of open connections. It knows sockets and times, not HTTP libraries.
#include "server/guard/peers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/system/clock.h" // defines: fxi_now_s

#define MAX_REFUSED 32 // connections that wait to be told that there is no place; more are closed
#define ARRIVAL_S   1  // an address's newcomers have this long before others of it crowd them out

// ---- cutting ----------------------------------------------------------------------------------

// Tells a client whose request MHD does not know yet, or not to its end, why it is closed. Beside
// MHD only plain text can be written, and only while MHD writes nothing.
static void tell_status(const fxi_peer *p, int status)
{
    static const char late[] =
        "{\"error\":{\"message\":\"the request did not arrive in time\",\"type\":"
        "\"invalid_request_error\",\"param\":null,\"code\":\"request_timeout\"}}";
    char text[512];
    const bool begun = p->phase == FXI_PEER_HEAD || p->phase == FXI_PEER_BODY ||
                       (p->phase == FXI_PEER_FRESH && !p->refused);
    if (!begun || status != 408) return;
    const int n = snprintf(text, sizeof text,
                           "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                           sizeof late - 1, late);
    const ssize_t sent = send(p->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; // a courtesy
}

static void cut_locked(fxi_peers *ps, fxi_peer *p, int status)
{
    if (!ps->tls) tell_status(p, status);
    ps->n_cut++;
    ps->n_refused -= p->refused != 0;
    p->phase = FXI_PEER_CUT;
    p->cut_status = status;
    p->due_s = INFINITY;
    shutdown(p->fd, SHUT_RDWR);
}

// How readily a connection makes room: the higher, the sooner; 0: never.
static int peer_readiness(const fxi_peer *p)
{
    static const int of_phase[FXI_N_PEER_PHASE] = {
        [FXI_PEER_FRESH] = 2, [FXI_PEER_HEAD] = 2, [FXI_PEER_BODY] = 1, [FXI_PEER_IDLE] = 3};
    return of_phase[p->phase];
}

// Whether a makes room before b: the readier, then one of the address with more connections, then
// the one that has been so for longer.
static bool is_cut_before(const fxi_peer *a, const fxi_peer *b)
{
    if (!b || peer_readiness(a) != peer_readiness(b))
        return !b || peer_readiness(a) > peer_readiness(b);
    if (a->visitor->n_conn != b->visitor->n_conn) return a->visitor->n_conn > b->visitor->n_conn;
    return a->since_s < b->since_s;
}

// Cuts one connection that does no work, to make room for `comer`: of the address or (NULL) of any.
// False: there is none.
static bool make_room_locked(fxi_peers *ps, const fxi_peer *comer, const fxi_visitor *of,
                             double now_s)
{
    fxi_peer *victim = NULL;
    for (fxi_peer *p = ps->head; p; p = p->next) {
        if (p == comer || p->refused || !peer_readiness(p)) continue;
        if (of && p->visitor != of) continue;
        if (of && p->phase != FXI_PEER_IDLE && p->since_s + ARRIVAL_S > now_s) continue;
        if (is_cut_before(p, victim)) victim = p;
    }
    if (!victim) return false;
    ps->counts.n_crowded_out++;
    cut_locked(ps, victim, victim->phase == FXI_PEER_IDLE ? 0 : 408);
    return true;
}

// ---- places -----------------------------------------------------------------------------------

static int live_locked(const fxi_peers *ps)
{
    return ps->n_peer - ps->n_cut - ps->n_refused;
}

static int live_of_locked(const fxi_peers *ps, const fxi_visitor *v)
{
    int n = 0;
    for (const fxi_peer *p = ps->head; p; p = p->next)
        n += p->visitor == v && p->phase != FXI_PEER_CUT && !p->refused;
    return n;
}

static bool is_limited(const fxi_peers *ps, const fxi_visitor *v)
{
    if (!ps->max_per_address || v->n_conn <= ps->max_per_address) return false;
    return !ps->spare_loopback || !fxi_address_is_loopback(&v->address);
}

// 0, or the status with which the new connection is refused.
static int find_place_locked(fxi_peers *ps, const fxi_peer *p, double now_s)
{
    if (is_limited(ps, p->visitor) && live_of_locked(ps, p->visitor) > ps->max_per_address &&
        !make_room_locked(ps, p, p->visitor, now_s))
        return 429;
    if (live_locked(ps) > ps->max_conn && !make_room_locked(ps, p, NULL, now_s)) return 503;
    return 0;
}

static bool set_phase_locked(fxi_peers *ps, fxi_peer *p, fxi_peer_phase phase, double now_s)
{
    const double limit_s = ps->deadline_s[phase];
    const bool keeps = p->phase == FXI_PEER_FRESH && phase == FXI_PEER_HEAD;
    if (!keeps) p->due_s = limit_s > 0 ? now_s + limit_s : INFINITY;
    p->phase = phase;
    p->since_s = now_s;
    const bool wake = p->due_s < ps->wake_s;
    if (wake) ps->wake_s = p->due_s;
    return wake;
}

static void list_peer_locked(fxi_peers *ps, fxi_peer *p)
{
    p->serial = ++ps->next_serial;
    p->next = ps->head;
    if (p->next) p->next->prev = p;
    ps->head = p;
    ps->n_peer++;
}

static bool admit_locked(fxi_peers *ps, fxi_peer *p)
{
    const double now_s = fxi_now_s();
    list_peer_locked(ps, p);
    const bool wake = set_phase_locked(ps, p, FXI_PEER_FRESH, now_s);
    p->refused = find_place_locked(ps, p, now_s);
    if (!p->refused) return wake;
    ps->n_refused++;
    ps->counts.n_refused++;
    if (ps->n_refused > MAX_REFUSED) cut_locked(ps, p, p->refused);
    return wake;
}

fxi_peer *fxi_peers_enter(fxi_peers *ps, int fd, const fxi_address *a, bool *wake)
{
    fxi_peer *p = calloc(1, sizeof *p);
    *wake = false;
    if (!p) return NULL;
    p->fd = fd;
    pthread_mutex_lock(&ps->mu);
    p->visitor = fxi_crowd_enter(&ps->crowd, a);
    if (p->visitor) *wake = admit_locked(ps, p);
    pthread_mutex_unlock(&ps->mu);
    if (p->visitor) return p;
    free(p);
    return NULL;
}

void fxi_peers_leave(fxi_peers *ps, fxi_peer *p)
{
    pthread_mutex_lock(&ps->mu);
    if (p->next) p->next->prev = p->prev;
    if (p->prev)
        p->prev->next = p->next;
    else
        ps->head = p->next;
    ps->n_peer--;
    ps->n_cut -= p->phase == FXI_PEER_CUT;
    ps->n_refused -= p->refused && p->phase != FXI_PEER_CUT;
    fxi_crowd_leave(&ps->crowd, p->visitor);
    pthread_mutex_unlock(&ps->mu);
    free(p);
}

// ---- phases -----------------------------------------------------------------------------------

bool fxi_peers_move(fxi_peers *ps, fxi_peer *p, fxi_peer_phase phase, bool *wake)
{
    pthread_mutex_lock(&ps->mu);
    const bool alive = p->phase != FXI_PEER_CUT;
    *wake = alive && set_phase_locked(ps, p, phase, fxi_now_s());
    pthread_mutex_unlock(&ps->mu);
    return alive;
}

void fxi_peers_cut(fxi_peers *ps, fxi_peer *p)
{
    pthread_mutex_lock(&ps->mu);
    if (p->phase != FXI_PEER_CUT) {
        ps->counts.n_late++;
        cut_locked(ps, p, 0);
    }
    pthread_mutex_unlock(&ps->mu);
}

int fxi_peers_refusal(fxi_peers *ps, const fxi_peer *p)
{
    pthread_mutex_lock(&ps->mu);
    const int status = p->refused;
    pthread_mutex_unlock(&ps->mu);
    return status;
}

int fxi_peers_cut_status(fxi_peers *ps, const fxi_peer *p)
{
    pthread_mutex_lock(&ps->mu);
    const int status = p->cut_status;
    pthread_mutex_unlock(&ps->mu);
    return status;
}

void fxi_peer_take_target(fxi_peer *p, const char *target)
{
    p->target = target;
    p->n_target = target ? strlen(target) : 0;
    p->target_is_bad = !p->n_target;
    for (size_t i = 0; i < p->n_target; i++) {
        const unsigned char c = (unsigned char)target[i];
        if (c <= ' ' || c == 0x7f || !strncasecmp(target + i, "%00", 3)) p->target_is_bad = true;
    }
}

// ---- deadlines --------------------------------------------------------------------------------

double fxi_peers_expire(fxi_peers *ps, double now_s)
{
    pthread_mutex_lock(&ps->mu);
    double next_s = INFINITY;
    for (fxi_peer *p = ps->head; p; p = p->next) {
        if (p->due_s <= now_s) {
            ps->counts.n_late += p->phase != FXI_PEER_IDLE;
            cut_locked(ps, p, p->phase == FXI_PEER_IDLE ? 0 : 408);
        }
        if (p->phase != FXI_PEER_CUT)
            next_s = fmin(next_s, fmin(p->due_s, now_s + FXI_PEERS_LOOK_S));
    }
    ps->wake_s = next_s;
    pthread_mutex_unlock(&ps->mu);
    return next_s;
}

fxi_peers_now fxi_peers_look(fxi_peers *ps)
{
    pthread_mutex_lock(&ps->mu);
    fxi_peers_now now = {
        .n_conn = ps->n_peer - ps->n_cut, .n_refused = ps->n_refused, .counts = ps->counts};
    for (const fxi_peer *p = ps->head; p; p = p->next) now.n_idle += p->phase == FXI_PEER_IDLE;
    pthread_mutex_unlock(&ps->mu);
    return now;
}
