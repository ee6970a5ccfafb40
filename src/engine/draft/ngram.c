// ngram.c - see ngram.h: chains of equal hashes, as compressors of text have them.
#include "engine/draft/ngram.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BIT = 8, MOST_BIT = 24, MOST_LOOK = 48 };

void fxi_ngram_free(fxi_ngram *x)
{
    free(x->head);
    free(x->before);
    *x = (fxi_ngram){0};
}

static uint32_t hash_run(const fxi_ngram *x, const int32_t *tok, int end)
{
    uint64_t h = 0;
    for (int i = end - FXI_NGRAM; i < end; i++)
        h = (h ^ (uint32_t)tok[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> (64 - x->n_bit));
}

static void insert_run(fxi_ngram *x, const int32_t *tok, int end)
{
    int32_t *head = &x->head[hash_run(x, tok, end)];
    x->before[end] = *head;
    *head = end;
}

// ---- growing -----------------------------------------------------------------------------------

static bool reserve_chains(fxi_ngram *x, int n_tok)
{
    int cap = x->cap_tok ? x->cap_tok : 1 << FIRST_BIT;
    while (cap < n_tok) cap *= 2;
    if (cap == x->cap_tok) return true;
    int32_t *before = realloc(x->before, (size_t)cap * sizeof *before);
    if (!before) return false;
    x->before = before;
    x->cap_tok = cap;
    return true;
}

// As many hashes as tokens; what is in the tables is inserted again, which happens each time that
// the text has doubled. Without memory for more, chains become longer.
static bool reserve_hashes(fxi_ngram *x, const int32_t *tok, int n_tok)
{
    int n_bit = x->n_bit ? x->n_bit : FIRST_BIT;
    while (n_bit < MOST_BIT && 1 << n_bit < n_tok) n_bit++;
    if (n_bit == x->n_bit) return true;
    int32_t *head = calloc((size_t)1 << n_bit, sizeof *head);
    if (!head) return x->head != NULL;
    free(x->head);
    x->head = head;
    x->n_bit = n_bit;
    for (int end = FXI_NGRAM; end < x->n_tok; end++) insert_run(x, tok, end);
    return true;
}

bool fxi_ngram_grow(fxi_ngram *x, const int32_t *tok, int n_tok)
{
    if (!reserve_chains(x, n_tok) || !reserve_hashes(x, tok, n_tok)) return false;
    for (int end = x->n_tok > FXI_NGRAM ? x->n_tok : FXI_NGRAM; end < n_tok; end++)
        insert_run(x, tok, end);
    if (n_tok > x->n_tok) x->n_tok = n_tok;
    return true;
}

// ---- searching ---------------------------------------------------------------------------------

int fxi_ngram_find(const fxi_ngram *x, const int32_t *tok, int n_tok, int *n_same)
{
    int best = 0;
    *n_same = FXI_NGRAM - 1;
    if (n_tok <= FXI_NGRAM || !x->head) return 0;
    int32_t at = x->head[hash_run(x, tok, n_tok)];
    for (int i = 0; at && i < MOST_LOOK && *n_same < FXI_NGRAM_LONGEST; i++, at = x->before[at]) {
        int n = 0;
        while (n < FXI_NGRAM_LONGEST && n < at && tok[at - 1 - n] == tok[n_tok - 1 - n]) n++;
        if (n <= *n_same) continue;
        *n_same = n;
        best = at;
    }
    return best;
}

int fxi_ngram_read(const int32_t *tok, int n_tok, int from, int32_t *out, int most)
{
    for (int i = 0; i < most; i++)
        out[i] = from + i < n_tok ? tok[from + i] : out[from + i - n_tok];
    return most;
}
