// address.c - addresses, and the table of those that are connected.
#include "server/guard/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char v4_head[12] = {[10] = 0xff, [11] = 0xff};

static bool is_v4(const fxi_address *a)
{
    return !memcmp(a->byte, v4_head, sizeof v4_head);
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
    return is_v4(a) ? a->byte[12] == 127 : !memcmp(a->byte, one, sizeof one);
}

const char *fxi_address_text(const fxi_address *a, char text[FXI_ADDRESS_TEXT_BYTES])
{
    const bool v4 = is_v4(a);
    text[0] = 0;
    inet_ntop(v4 ? AF_INET : AF_INET6, a->byte + (v4 ? 12 : 0), text, FXI_ADDRESS_TEXT_BYTES);
    return text;
}

static fxi_visitor **visitor_bucket(fxi_crowd *c, const fxi_address *a)
{
    return &c->bucket[fxi_secret_hash(c->secret, a->byte, sizeof a->byte) % FXI_N_VISITOR_BUCKET];
}

fxi_visitor *fxi_crowd_enter(fxi_crowd *c, const fxi_address *a)
{
    fxi_visitor **at = visitor_bucket(c, a), *v = *at;
    while (v && memcmp(&v->address, a, sizeof *a) != 0) v = v->next;
    if (!v) {
        v = calloc(1, sizeof *v);
        if (!v) return NULL;
        v->address = *a;
        v->next = *at;
        *at = v;
    }
    v->n_conn++;
    return v;
}

void fxi_crowd_leave(fxi_crowd *c, fxi_visitor *v)
{
    if (--v->n_conn) return;
    fxi_visitor **at = visitor_bucket(c, &v->address);
    while (*at != v) at = &(*at)->next;
    *at = v->next;
    free(v);
}
