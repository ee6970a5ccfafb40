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

static fxi_address_entry **address_bucket(fxi_address_table *t, const fxi_address *a)
{
    return &t->bucket[fxi_secret_hash(t->secret, a->byte, sizeof a->byte) % FXI_N_ADDRESS_BUCKET];
}

fxi_address_entry *fxi_address_table_enter(fxi_address_table *t, const fxi_address *a)
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

void fxi_address_table_leave(fxi_address_table *t, fxi_address_entry *e)
{
    if (--e->n_conn || e == &t->other) return;
    fxi_address_entry **at = address_bucket(t, &e->address);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    free(e);
}
