// places.c - addresses of clients, and the list of places.
#include "server/guard/places.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- addresses ----------------------------------------------------------------------------------

static const unsigned char v4_head[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const fxi_address *a)
{
    return !memcmp(a->byte, v4_head, sizeof v4_head);
}

// Within 0000::/8, which no client has.
static const unsigned char user_head[12] = {[1] = 'u', [2] = 's', [3] = 'e', [4] = 'r'};

static bool is_user(const fxi_address *a)
{
    return !memcmp(a->byte, user_head, sizeof user_head);
}

fxi_address fxi_address_of_user(uint32_t uid)
{
    fxi_address a;
    memcpy(a.byte, user_head, sizeof user_head);
    memcpy(a.byte + sizeof user_head, &uid, sizeof uid);
    return a;
}

fxi_address fxi_address_of(const struct sockaddr *sa)
{
    fxi_address a = {{0}};
    if (sa->sa_family == AF_INET) {
        memcpy(a.byte, v4_head, sizeof v4_head);
        memcpy(a.byte + 12, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        memcpy(a.byte, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
        if (!is_v4(&a) && !fxi_address_is_loopback(&a)) memset(a.byte + 8, 0, 8);
    }
    return a;
}

bool fxi_address_is_loopback(const fxi_address *a)
{
    static const unsigned char one[16] = {[15] = 1};
    if (is_user(a)) return true;
    return is_v4(a) ? a->byte[12] == 127 : !memcmp(a->byte, one, sizeof one);
}

const char *fxi_address_text(const fxi_address *a, char text[FXI_ADDRESS_TEXT_BYTES])
{
    const bool v4 = is_v4(a);
    uint32_t uid;
    text[0] = 0;
    if (is_user(a)) {
        memcpy(&uid, a->byte + sizeof user_head, sizeof uid);
        snprintf(text, FXI_ADDRESS_TEXT_BYTES, "uid:%u", (unsigned)uid);
        return text;
    }
    inet_ntop(v4 ? AF_INET : AF_INET6, a->byte + (v4 ? 12 : 0), text, FXI_ADDRESS_TEXT_BYTES);
    return text;
}

static fxi_address_entry **address_bucket(fxi_address_table *t, const fxi_address *a)
{
    return &t->bucket[fxi_secret_hash(t->secret, a->byte, sizeof a->byte) % FXI_N_ADDRESS_BUCKET];
}

// Counts one more connection of this address.
static fxi_address_entry *enter_address(fxi_address_table *t, const fxi_address *a)
{
    fxi_address_entry **bucket = address_bucket(t, a), *e = *bucket;
    while (e && memcmp(&e->address, a, sizeof *a) != 0) e = e->next;
    if (!e && (e = calloc(1, sizeof *e))) {
        e->address = *a;
        e->next = *bucket;
        *bucket = e;
    }
    if (!e) e = &t->other;
    e->n_conn++;
    return e;
}

// ---- places -------------------------------------------------------------------------------------
//
// A list of places. Looking for a victim goes over all of it, but only once all places are taken.
// So does looking for what is due, but only once the earliest deadline that was ever set has
// passed: most deadlines are replaced by later ones long before.

#define MAX_REFUSED 32 // connections that wait to be told that there is no place
#define ARRIVAL_S   1  // an address's newcomers have this long before others of it replace them

// How readily a place makes room: the higher, the sooner; 0: never.
static int readiness_of(const fxi_place *p)
{
    static const int of_phase[FXI_N_PHASE] = {
        [FXI_PHASE_FRESH] = 2, [FXI_PHASE_HEAD] = 2, [FXI_PHASE_BODY] = 1, [FXI_PHASE_IDLE] = 3};
    return p->refused ? 0 : of_phase[p->phase];
}

// Whether a makes room before b: the readier, then one of the address with more connections, then
// the one that has been in its phase for longer.
static bool goes_before(const fxi_place *a, const fxi_place *b)
{
    if (!b || readiness_of(a) != readiness_of(b)) return !b || readiness_of(a) > readiness_of(b);
    if (a->from->n_conn != b->from->n_conn) return a->from->n_conn > b->from->n_conn;
    return a->since_s < b->since_s;
}

// Makes one place free for `comer`: of this address or (NULL) of any. False: there is none.
static bool make_place_for(fxi_places *ps, const fxi_place *comer, const fxi_address_entry *of,
                           double now_s)
{
    fxi_place *victim = NULL;
    for (fxi_place *p = ps->first; p; p = p->next) {
        if (p == comer || !readiness_of(p) || (of && p->from != of)) continue;
        if (of && p->phase != FXI_PHASE_IDLE && p->since_s + ARRIVAL_S > now_s) continue;
        if (goes_before(p, victim)) victim = p;
    }
    if (victim) ps->give_up(victim);
    return victim != NULL;
}

static int count_held(const fxi_places *ps, const fxi_address_entry *of)
{
    int n = 0;
    for (const fxi_place *p = ps->first; p; p = p->next)
        n += p->phase != FXI_PHASE_LINGER && p->phase != FXI_PHASE_CLOSED && !p->refused &&
             (!of || p->from == of);
    return n;
}

bool fxi_places_enter(fxi_places *ps, fxi_place *p, const fxi_address *a, double now_s)
{
    const int most = ps->max_per_address;
    *p = (fxi_place){.serial = ++ps->next_serial, .address = *a, .next = ps->first};
    fxi_address_entry *from = p->from = enter_address(&ps->addresses, a);
    if (p->next) p->next->prev = p;
    ps->first = p;
    ps->n_place++;
    fxi_places_move(ps, p, FXI_PHASE_FRESH, now_s);
    const bool is_limited = most && from->n_conn > most &&
                            (!ps->spare_loopback || !fxi_address_is_loopback(&from->address));
    int refused = 0;
    if (is_limited && count_held(ps, from) > most && !make_place_for(ps, p, from, now_s))
        refused = 429;
    else if (ps->n_place > ps->max_conn && count_held(ps, NULL) > ps->max_conn &&
             !make_place_for(ps, p, NULL, now_s))
        refused = 503;
    p->refused = refused;
    ps->n_refused += refused != 0;
    if (ps->n_refused <= MAX_REFUSED) return true;
    fxi_places_leave(ps, p);
    return false;
}

void fxi_places_leave(fxi_places *ps, fxi_place *p)
{
    if (p->next) p->next->prev = p->prev;
    *(p->prev ? &p->prev->next : &ps->first) = p->next;
    ps->n_place--;
    ps->n_refused -= p->refused != 0;
    fxi_address_entry *e = p->from; // it is freed with its last connection
    if (--e->n_conn || e == &ps->addresses.other) return;
    fxi_address_entry **at = address_bucket(&ps->addresses, &e->address);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    free(e);
}

void fxi_places_set_due(fxi_places *ps, fxi_place *p, double due_s)
{
    p->due_s = due_s;
    ps->next_due_s = fmin(ps->next_due_s, due_s);
}

void fxi_places_move(fxi_places *ps, fxi_place *p, fxi_phase phase, double now_s)
{
    const double limit_s = ps->deadline_s[phase];
    const bool keeps = p->phase == FXI_PHASE_FRESH && phase == FXI_PHASE_HEAD;
    if (!keeps) fxi_places_set_due(ps, p, limit_s > 0 ? now_s + limit_s : INFINITY);
    p->phase = phase;
    p->since_s = now_s;
}

double fxi_places_expire(fxi_places *ps, double now_s)
{
    if (now_s < ps->next_due_s) return ps->next_due_s;
    ps->next_due_s = INFINITY;
    for (fxi_place *p = ps->first, *next; p; p = next) {
        next = p->next;
        if (p->due_s <= now_s) ps->on_due(p, now_s);
        ps->next_due_s = fmin(ps->next_due_s, p->due_s);
    }
    return ps->next_due_s;
}
