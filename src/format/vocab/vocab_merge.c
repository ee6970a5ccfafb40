// vocab_merge.c - a word's symbols, joined pair by pair until none is left that merges.
//
// Always the pair of lowest rank, the leftmost of equals. Short words are searched for it again and
// again. For long ones, pairs wait in a heap as (rank, place of the left symbol); an entry is good
// if the symbol there still has a pair of that rank with its right neighbour. A word of n symbols
// makes at most n - 1 merges, each of which takes one entry out and puts two in, so that the heap
// never holds more than 3n.
//
// A text that no split step cuts is one word. It is cut here between characters that no merge ever
// brings together (fxi_merges.meets), which changes nothing but the time and memory it takes.
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "format/vocab/vocab_impl.h"

#define NONE UINT32_MAX
#define DEAD (-2)

enum { SHORT = 32 }; // symbols

static int32_t symbol_at(const fxi_vocab *v, const char *p, size_t n)
{
    return n == 1 ? v->unit[(unsigned char)*p] : fxi_index_find(&v->by_word, p, n);
}

static size_t unit_bytes(const fxi_vocab *v, const char *p)
{
    return v->unit_bytes ? 1 : (size_t)fxi_utf8_len((unsigned char)*p);
}

static void set_pair(const fxi_vocab *v, fxi_symbol *left, int32_t right)
{
    const fxi_pair *pair =
        left->id < 0 || right < 0 ? NULL : fxi_pair_find(&v->merges, left->id, right);
    left->rank = pair ? pair->rank : NONE;
    left->to = pair ? pair->to : -1;
}

static fx_status put_symbol(fxi_job *j, const fxi_symbol *s, const char *p, uint32_t end)
{
    if (s->id >= 0 && s->id < j->v->n) return fxi_put(j, s->id);
    return fxi_put_unknown(j, p + s->at, end - s->at);
}

//
// Short words
//

// Symbols of a word without more than SHORT of them; otherwise returns SHORT + 1.
static uint32_t cut_short(const fxi_vocab *v, const char *p, size_t n, fxi_symbol *sym)
{
    uint32_t n_sym = 0;
    for (size_t at = 0; at < n; n_sym++) {
        if (n_sym == SHORT) return SHORT + 1;
        size_t len = unit_bytes(v, p + at);
        sym[n_sym].id = symbol_at(v, p + at, len);
        sym[n_sym].at = (uint32_t)at;
        at += len;
    }
    for (uint32_t i = 0; i + 1 < n_sym; i++) set_pair(v, &sym[i], sym[i + 1].id);
    sym[n_sym - 1].rank = NONE;
    return n_sym;
}

static fx_status merge_short(fxi_job *j, const char *p, size_t n, fxi_symbol *sym, uint32_t n_sym)
{
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < n_sym; i++)
            if (sym[i].rank < sym[best].rank) best = i;
        if (sym[best].rank == NONE) break;
        sym[best].id = sym[best].to;
        n_sym--;
        sym[best].rank = NONE;
        memmove(&sym[best + 1], &sym[best + 2], (n_sym - best - 1) * sizeof *sym);
        if (best + 1 < n_sym) set_pair(j->v, &sym[best], sym[best + 1].id);
        if (best) set_pair(j->v, &sym[best - 1], sym[best].id);
    }
    for (uint32_t i = 0; i < n_sym; i++)
        FX_TRY(put_symbol(j, &sym[i], p, i + 1 < n_sym ? sym[i + 1].at : (uint32_t)n));
    return FX_OK;
}

//
// Long words
//

static uint64_t entry_of(const fxi_job *j, uint32_t i)
{
    return (uint64_t)j->sym[i].rank << 32 | i;
}

static void sift_up(fxi_job *j, size_t i, uint64_t entry)
{
    for (size_t up; i && entry < j->heap[up = (i - 1) / 4]; i = up) j->heap[i] = j->heap[up];
    j->heap[i] = entry;
}

static void push(fxi_job *j, uint32_t i)
{
    if (j->sym[i].rank != NONE) sift_up(j, j->n_heap++, entry_of(j, i));
}

static void sift_down(fxi_job *j, size_t i, uint64_t entry)
{
    for (size_t down; (down = 4 * i + 1) < j->n_heap; i = down) {
        size_t end = down + 4 < j->n_heap ? down + 4 : j->n_heap;
        for (size_t k = down + 1; k < end; k++)
            if (j->heap[k] < j->heap[down]) down = k;
        if (j->heap[down] >= entry) break;
        j->heap[i] = j->heap[down];
    }
    j->heap[i] = entry;
}

static uint64_t pop(fxi_job *j)
{
    uint64_t top = j->heap[0];
    if (--j->n_heap) sift_down(j, 0, j->heap[j->n_heap]);
    return top;
}

static bool reserve(fxi_job *j, size_t n)
{
    if (n <= j->cap_sym) return true;
    fxi_symbol *sym = realloc(j->sym, n * sizeof *sym);
    if (sym) j->sym = sym;
    uint64_t *heap = realloc(j->heap, 3 * n * sizeof *heap);
    if (heap) j->heap = heap;
    if (!sym || !heap) return false;
    j->cap_sym = n;
    return true;
}

static size_t count_units(const fxi_vocab *v, const char *p, size_t n)
{
    size_t n_unit = 0;
    for (size_t i = 0; i < n; i++) n_unit += ((unsigned char)p[i] & 0xC0) != 0x80;
    return v->unit_bytes ? n : n_unit;
}

static void cut_long(fxi_job *j, const char *p, size_t n)
{
    j->n_sym = 0;
    for (size_t at = 0, len; at < n; at += len, j->n_sym++) {
        len = unit_bytes(j->v, p + at);
        j->sym[j->n_sym] = (fxi_symbol){.id = symbol_at(j->v, p + at, len),
                                        .prev = j->n_sym - 1,
                                        .next = j->n_sym + 1,
                                        .at = (uint32_t)at};
    }
    j->sym[0].prev = NONE;
    j->sym[j->n_sym - 1].next = NONE;
    j->sym[j->n_sym - 1].rank = NONE;
    j->n_heap = 0;
    for (uint32_t i = 0; i + 1 < j->n_sym; i++) {
        set_pair(j->v, &j->sym[i], j->sym[i + 1].id);
        push(j, i);
    }
}

static void set_and_push(fxi_job *j, uint32_t i)
{
    uint32_t next = j->sym[i].next;
    j->sym[i].rank = NONE;
    if (next != NONE) set_pair(j->v, &j->sym[i], j->sym[next].id);
    push(j, i);
}

// The symbol's right neighbour joins it.
static void join(fxi_job *j, uint32_t i)
{
    fxi_symbol *left = &j->sym[i], *right = &j->sym[left->next];
    left->id = left->to;
    left->next = right->next;
    right->id = DEAD;
    right->rank = NONE;
    if (left->next != NONE) j->sym[left->next].prev = i;
    set_and_push(j, i);
    if (left->prev != NONE) set_and_push(j, left->prev);
}

static fx_status merge_long(fxi_job *j, const char *p, size_t n)
{
    if (!reserve(j, count_units(j->v, p, n)))
        return fxi_fail(j->err, FX_ENOMEM, "no memory to tokenize the text");
    cut_long(j, p, n);
    while (j->n_heap) {
        uint64_t entry = pop(j);
        uint32_t i = (uint32_t)entry;
        if (entry == entry_of(j, i)) join(j, i);
    }
    for (uint32_t i = 0; i != NONE; i = j->sym[i].next) {
        uint32_t next = j->sym[i].next;
        FX_TRY(put_symbol(j, &j->sym[i], p, next == NONE ? (uint32_t)n : j->sym[next].at));
    }
    return FX_OK;
}

static bool may_meet(const fxi_merges *m, uint32_t a, uint32_t b)
{
    uint64_t bit = fxi_meets_bit(m, a, b);
    return m->meets[bit >> 6] >> (bit & 63) & 1;
}

size_t fxi_merge_cut(const fxi_vocab *v, const char *p, size_t n)
{
    size_t len, at;
    uint32_t a = (uint32_t)fxi_cp_at(p, n, &at);
    for (; at < n; at += len) {
        uint32_t b = (uint32_t)fxi_cp_at(p + at, n - at, &len);
        if (!may_meet(&v->merges, a, b)) break;
        a = b;
    }
    return at;
}

fx_status fxi_merge_word(fxi_job *j, const char *p, size_t n)
{
    fxi_symbol sym[SHORT];
    uint32_t n_sym = cut_short(j->v, p, n, sym);
    return n_sym <= SHORT ? merge_short(j, p, n, sym, n_sym) : merge_long(j, p, n);
}
