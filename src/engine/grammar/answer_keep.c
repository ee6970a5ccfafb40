// answer_keep.c - references to grammars, and those that were asked for last, by what they were
// compiled from: whoever asks for one again finds what requests have learnt of it.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "engine/grammar/answer_grammar.h"

enum { MAX_KEY_BYTES = 256 << 10 };

// ---- keys ---------------------------------------------------------------------------------------

// Parts are told apart by their kind, their numbers and their texts with their lengths. False: out
// of memory, or a key that is too long.
static bool add_part_key(fxi_buf *key, const fx_part *p, int depth)
{
    char *schema = p->schema ? json_dumps(p->schema, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    const size_t n_schema = schema ? strlen(schema) : 0;
    bool ok = depth <= FX_PART_MAX_DEPTH && (!p->schema || schema) &&
              key->n + p->n_bytes + n_schema < MAX_KEY_BYTES &&
              fxi_buf_fmt(key, "%d %u %u %zu %zu %zu ", (int)p->kind, p->min, p->max, p->n_bytes,
                          n_schema, p->n_part) &&
              fxi_buf_add(key, p->n_bytes ? p->text : "", p->n_bytes) &&
              fxi_buf_add(key, schema ? schema : "", n_schema);
    for (size_t i = 0; ok && i < p->n_part; i++) ok = add_part_key(key, &p->part[i], depth + 1);
    free(schema);
    return ok;
}

bool fxi_answer_key(const fx_part *root, fxi_buf *key)
{
    return add_part_key(key, root, 0);
}

// ---- references ---------------------------------------------------------------------------------

void fx_grammar_retain(fx_grammar *g)
{
    atomic_fetch_add(&g->n_ref, 1);
}

void fx_grammar_release(fx_grammar *g)
{
    if (!g || atomic_fetch_sub(&g->n_ref, 1) > 1) return;
    fxi_gram_matcher_free(g->guide);
    fxi_buf_free(&g->key);
    free(g);
}

// ---- grammars -----------------------------------------------------------------------------------

static bool equals_key(const fx_grammar *g, const fxi_buf *key)
{
    return g->key.n == key->n && !memcmp(g->key.p, key->p, key->n);
}

// Moves the i-th to the front.
static void touch_kept(fxi_answer_vocab *v, size_t i)
{
    fx_grammar *g = v->kept[i];
    memmove(v->kept + 1, v->kept, i * sizeof *v->kept);
    v->kept[0] = g;
}

fx_grammar *fxi_answer_find(fxi_answer_vocab *v, const fxi_buf *key)
{
    fx_grammar *found = NULL;
    pthread_mutex_lock(&v->mu);
    for (size_t i = 0; !found && i < v->n_kept; i++) {
        if (!equals_key(v->kept[i], key)) continue;
        touch_kept(v, i);
        found = v->kept[0];
        fx_grammar_retain(found);
    }
    pthread_mutex_unlock(&v->mu);
    return found;
}

void fxi_answer_keep(fxi_answer_vocab *v, fx_grammar *g)
{
    fx_grammar *last = NULL;
    fx_grammar_retain(g);
    pthread_mutex_lock(&v->mu);
    if (v->n_kept == FXI_ANSWER_KEPT) last = v->kept[--v->n_kept];
    v->kept[v->n_kept] = g;
    touch_kept(v, v->n_kept++);
    pthread_mutex_unlock(&v->mu);
    fx_grammar_release(last);
}

fx_grammar *fxi_answer_take_oldest(fxi_answer_vocab *v)
{
    pthread_mutex_lock(&v->mu);
    fx_grammar *g = v->n_kept ? v->kept[--v->n_kept] : NULL;
    pthread_mutex_unlock(&v->mu);
    return g;
}

void fxi_answer_forget(fxi_answer_vocab *v)
{
    while (v->n_kept) fx_grammar_release(v->kept[--v->n_kept]);
}
