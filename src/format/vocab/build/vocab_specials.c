// vocab_specials.c - builds the sets of tokens that are split off a text: a trie of their spellings
// for each fxi_special_set.
#include <stdlib.h>

#include "base/text/utf8.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/encode/norm/vocab_norm.h"

typedef struct set_maker {
    fxi_vocab *v;
    const fxi_vocab_spec *s;
    fx_error *err;
    fxi_norm_work work;
    fxi_trie_entry *entry; // [v->n]
    fxi_buf spelled;       // the keys of the entries, one after the other
} set_maker;

static bool in_set(fxi_special_set set, uint8_t type, bool normalized)
{
    bool control = type == FXI_TOKEN_CONTROL;
    if (!control && type != FXI_TOKEN_USER) return false;
    if (set == FXI_NORM_USER || set == FXI_NORM_CONTROL)
        return normalized && (!control || set == FXI_NORM_CONTROL);
    if (!control) return !normalized;
    return set == FXI_RAW_ANY || (set == FXI_RAW_CONTROL && !normalized);
}

// How a token is spelled in a text before the norm steps.
static fxi_str spelled_raw(const set_maker *m, int32_t id)
{
    const fxi_token *t = &m->v->token[id];
    bool marks = t->type == FXI_TOKEN_USER && m->s->user_marks;
    return marks ? (fxi_str){t->text, t->n_text} : (fxi_str){t->piece, t->n_piece};
}

// Appends the spelling that the set searches for; *n is its length.
static fx_status spell_token(set_maker *m, fxi_special_set set, int32_t id, size_t *n)
{
    fxi_str key = spelled_raw(m, id);
    if (set >= FXI_NORM_USER && m->s->norms_tokens)
        FX_TRY(
            fxi_norm_run(&m->v->norms, (fxi_norm_how){.space = true}, key, &m->work, &key, m->err));
    *n = key.n;
    if (fxi_buf_add(&m->spelled, key.p, key.n)) return FX_OK;
    return fxi_spec_fail_memory(m->s, m->err);
}

static void note_first_bytes(fxi_specials *sp, fxi_str key)
{
    unsigned first = (unsigned char)key.p[0];
    for (unsigned next = 0; next < 256; next++) {
        if (key.n > 1 && (unsigned char)key.p[1] != next) continue;
        unsigned pair = first << 8 | next;
        sp->pair[pair >> 3] |= (uint8_t)(1 << (pair & 7));
    }
}

static fx_status make_trie(set_maker *m, fxi_special_set set, size_t n)
{
    fxi_specials *sp = calloc(1, sizeof *sp);
    m->v->special[set] = sp;
    if (!sp || !fxi_trie_make(&sp->trie, m->entry, n)) return fxi_spec_fail_memory(m->s, m->err);
    for (size_t i = 0; i < n; i++)
        if (m->entry[i].key.n) note_first_bytes(sp, m->entry[i].key);
    return FX_OK;
}

static fx_status make_set(set_maker *m, fxi_special_set set)
{
    size_t n = 0, at = 0;
    fxi_buf_clear(&m->spelled);
    for (int32_t id = 0; id < m->v->n; id++) {
        const uint8_t type = m->v->token[id].type;
        if (type == FXI_TOKEN_USER && m->s->user_in_model && m->s->tok[id].normalized) continue;
        if (!in_set(set, type, m->s->tok[id].normalized)) continue;
        m->entry[n].id = id;
        FX_TRY(spell_token(m, set, id, &m->entry[n].key.n));
        const size_t key_n = m->entry[n].key.n;
        const char *key = m->spelled.p + m->spelled.n - key_n;
        if (key_n && fxi_utf8_check(key, key_n) == key_n)
            n++;
        else
            m->spelled.n -= key_n; // occurs in no text
    }
    for (size_t i = 0; i < n; at += m->entry[i++].key.n) m->entry[i].key.p = m->spelled.p + at;
    return n ? make_trie(m, set, n) : FX_OK;
}

fx_status fxi_specials_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    set_maker m = {.v = v, .s = s, .err = err};
    m.entry = malloc((size_t)v->n * sizeof *m.entry);
    fx_status st = m.entry ? FX_OK : fxi_spec_fail_memory(s, err);
    for (int set = 0; st == FX_OK && set < FXI_N_SPECIAL_SET; set++)
        st = make_set(&m, (fxi_special_set)set);
    free(m.entry);
    fxi_buf_free(&m.spelled);
    fxi_norm_work_free(&m.work);
    return st;
}

void fxi_specials_free(fxi_vocab *v)
{
    for (int set = 0; set < FXI_N_SPECIAL_SET; set++) {
        if (v->special[set]) fxi_trie_free(&v->special[set]->trie);
        free(v->special[set]);
    }
}
