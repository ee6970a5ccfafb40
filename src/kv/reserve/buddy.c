// buddy.c - see buddy.h.
#include "kv/reserve/buddy.h"

#include <stdlib.h>
#include <string.h>

static uint32_t block_size(int order)
{
    return (uint32_t)1 << order;
}

static void add_free(fxi_buddy *b, uint32_t at, int order)
{
    const uint32_t head = b->head[order];
    b->next[at] = head;
    b->prev[at] = FXI_BUDDY_NONE;
    if (head != FXI_BUDDY_NONE) b->prev[head] = at;
    b->head[order] = at;
    b->order[at] = (int8_t)order;
}

static void remove_free(fxi_buddy *b, uint32_t at)
{
    const uint32_t next = b->next[at], prev = b->prev[at];
    if (next != FXI_BUDDY_NONE) b->prev[next] = prev;
    if (prev != FXI_BUDDY_NONE)
        b->next[prev] = next;
    else
        b->head[b->order[at]] = next;
    b->order[at] = -1;
}

static void fill_free_lists(fxi_buddy *b)
{
    uint32_t at = 0;
    for (int order = FXI_BUDDY_N_ORDER - 1; order >= 0; order--) {
        b->head[order] = FXI_BUDDY_NONE;
        if (!(b->n_unit & block_size(order))) continue;
        add_free(b, at, order);
        at += block_size(order);
    }
    b->n_free = b->n_unit;
}

bool fxi_buddy_open(fxi_buddy *b, uint32_t n_unit)
{
    *b = (fxi_buddy){.n_unit = n_unit,
                     .next = malloc(n_unit * sizeof *b->next),
                     .prev = malloc(n_unit * sizeof *b->prev),
                     .order = malloc(n_unit)};
    if (!b->next || !b->prev || !b->order) {
        fxi_buddy_close(b);
        return false;
    }
    memset(b->order, -1, n_unit);
    fill_free_lists(b);
    return true;
}

void fxi_buddy_close(fxi_buddy *b)
{
    free(b->next);
    free(b->prev);
    free(b->order);
}

int fxi_buddy_order_of(uint64_t n_unit)
{
    int order = 0;
    while (((uint64_t)1 << order) < n_unit) order++;
    return order;
}

uint32_t fxi_buddy_take(fxi_buddy *b, int order)
{
    int has = order;
    while (has < FXI_BUDDY_N_ORDER && b->head[has] == FXI_BUDDY_NONE) has++;
    if (has >= FXI_BUDDY_N_ORDER) return FXI_BUDDY_NONE;
    const uint32_t at = b->head[has];
    remove_free(b, at);
    while (has-- > order) add_free(b, at + block_size(has), has);
    b->n_free -= block_size(order);
    return at;
}

static bool buddy_is_free(const fxi_buddy *b, uint32_t at, int order)
{
    const uint32_t other = at ^ block_size(order);
    return other < b->n_unit && b->order[other] == order;
}

void fxi_buddy_give(fxi_buddy *b, uint32_t at, int order)
{
    b->n_free += block_size(order);
    while (order < FXI_BUDDY_N_ORDER - 1 && buddy_is_free(b, at, order)) {
        remove_free(b, at ^ block_size(order));
        at &= ~block_size(order);
        order++;
    }
    add_free(b, at, order);
}

static const char *check_free_list(const fxi_buddy *b, int order, uint64_t *n_free)
{
    uint32_t prev = FXI_BUDDY_NONE;
    for (uint32_t at = b->head[order]; at != FXI_BUDDY_NONE; at = b->next[at]) {
        if (b->order[at] != order || b->prev[at] != prev) return "a list of free blocks is broken";
        if (at % block_size(order) || at + (uint64_t)block_size(order) > b->n_unit)
            return "a free block lies where none may";
        if (order < FXI_BUDDY_N_ORDER - 1 && buddy_is_free(b, at, order))
            return "two free buddies are not merged";
        *n_free += block_size(order);
        if (*n_free > b->n_unit) return "free blocks overlap";
        prev = at;
    }
    return NULL;
}

const char *fxi_buddy_check(const fxi_buddy *b)
{
    uint64_t n_free = 0;
    for (int order = 0; order < FXI_BUDDY_N_ORDER; order++) {
        const char *what = check_free_list(b, order, &n_free);
        if (what) return what;
    }
    return n_free == b->n_free ? NULL : "the number of free units is wrong";
}
