// vocab_special.c - the tokens that are split off a text before the model sees it.
//
// They are looked for from left to right, the longest at each place first; where one is found, the
// search goes on behind it. There are five sets of them: user-defined tokens alone or control
// tokens too, those that are looked for in the text as given or as the norm steps leave it.
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "format/vocab/vocab_impl.h"

//
// Making the sets
//

typedef struct maker {
    fxi_vocab *v;
    const fxi_vocab_spec *s;
    fx_error *err;
    fxi_norm_work work;
    fxi_entry *entry; // [v->n]
    fxi_buf spelled;  // the keys of the entries, one behind the other
} maker;

static bool in_set(fxi_special_set set, uint8_t type, bool normalized)
{
    bool control = type == FXI_TOKEN_CONTROL;
    if (!control && type != FXI_TOKEN_USER) return false;
    if (set == FXI_NORM_USER || set == FXI_NORM_CONTROL)
        return normalized && (!control || set == FXI_NORM_CONTROL);
    if (!control) return !normalized;
    return set == FXI_RAW_ANY || (set == FXI_RAW_CONTROL && !normalized);
}

// What a token is looked for by before the norm steps.
static fxi_str spelled_raw(const maker *m, int32_t id)
{
    const fxi_token *t = &m->v->token[id];
    bool marks = t->type == FXI_TOKEN_USER && m->s->user_marks;
    return marks ? (fxi_str){t->text, t->n_text} : (fxi_str){t->piece, t->n_piece};
}

// Appends what a token is looked for by; *n is its length.
static fx_status spell(maker *m, fxi_special_set set, int32_t id, size_t *n)
{
    fxi_str key = spelled_raw(m, id);
    if (set >= FXI_NORM_USER && m->s->norms_tokens)
        FX_TRY(fxi_norm_run(m->v, (fxi_norm_how){.space = true}, key, &m->work, &key, m->err));
    *n = key.n;
    if (fxi_buf_add(&m->spelled, key.p, key.n)) return FX_OK;
    return fxi_fail(m->err, FX_ENOMEM, "%s: no memory for the vocabulary", m->s->name);
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

static fx_status make_trie(maker *m, fxi_special_set set, size_t n)
{
    fxi_specials *sp = calloc(1, sizeof *sp);
    m->v->special[set] = sp;
    if (!sp || !fxi_trie_make(&sp->trie, m->entry, n))
        return fxi_fail(m->err, FX_ENOMEM, "%s: no memory for the vocabulary", m->s->name);
    for (size_t i = 0; i < n; i++)
        if (m->entry[i].key.n) note_first_bytes(sp, m->entry[i].key);
    return FX_OK;
}

static fx_status make_set(maker *m, fxi_special_set set)
{
    size_t n = 0, at = 0;
    fxi_buf_clear(&m->spelled);
    for (int32_t id = 0; id < m->v->n; id++) {
        const uint8_t type = m->v->token[id].type;
        if (type == FXI_TOKEN_USER && m->s->user_in_model) continue;
        if (!in_set(set, type, m->s->tok[id].normalized)) continue;
        m->entry[n].id = id;
        FX_TRY(spell(m, set, id, &m->entry[n].key.n));
        const size_t key_n = m->entry[n].key.n;
        const char *key = m->spelled.p + m->spelled.n - key_n;
        if (key_n && fxi_utf8_check(key, key_n) == key_n)
            n++;
        else
            m->spelled.n -= key_n; // stands in no text
    }
    for (size_t i = 0; i < n; at += m->entry[i++].key.n) m->entry[i].key.p = m->spelled.p + at;
    return n ? make_trie(m, set, n) : FX_OK;
}

fx_status fxi_specials_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    maker m = {.v = v, .s = s, .err = err};
    m.entry = malloc((size_t)v->n * sizeof *m.entry);
    fx_status st =
        m.entry ? FX_OK : fxi_fail(err, FX_ENOMEM, "%s: no memory for the vocabulary", s->name);
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

//
// Finding them
//

typedef struct found {
    int32_t id; // -1: none
    size_t n;   // bytes
} found;

// Whether a token may stand for n bytes of text; own: NULL, or which of them may be part of
// control tokens.
static bool may_stand(const fxi_token *t, const char *own, size_t n)
{
    return t->type != FXI_TOKEN_CONTROL || !own || !memchr(own, 0, n);
}

// The longest token of the set that s begins with.
static found match(const fxi_vocab *v, const fxi_specials *sp, fxi_str s, const char *own)
{
    found best = {-1, 0};
    unsigned pair = (unsigned)(unsigned char)s.p[0] << 8 | (s.n > 1 ? (unsigned char)s.p[1] : 0);
    if (!(sp->pair[pair >> 3] >> (pair & 7) & 1)) return best;
    uint32_t node = 0;
    for (size_t i = 0; i < s.n; i++) {
        node = fxi_trie_step(&sp->trie, node, (uint8_t)s.p[i]);
        if (!node) break;
        int32_t id = sp->trie.node[node].id;
        if (id >= 0 && may_stand(&v->token[id], own, i + 1)) best = (found){id, i + 1};
    }
    return best;
}

static bool stands_alone(fxi_str text, size_t at, size_t n)
{
    size_t len;
    if (at && fxi_cp_is_word(fxi_cp_before(text.p, at, &len))) return false;
    if (at + n == text.n) return true;
    return !fxi_cp_is_word(fxi_utf8_at(text.p + at + n, text.n - at - n, &len));
}

static size_t spaces_before(fxi_str text, size_t at, size_t from)
{
    size_t len;
    while (at > from && fxi_cp_is_space(fxi_cp_before(text.p, at, &len))) at -= len;
    return at;
}

static size_t spaces_behind(fxi_str text, size_t at)
{
    size_t len;
    while (at < text.n && fxi_cp_is_space(fxi_utf8_at(text.p + at, text.n - at, &len))) at += len;
    return at;
}

typedef struct walk {
    fxi_job *j;
    fxi_str text;
    size_t from; // what is before was put
    fx_status (*gap)(fxi_job *j, fxi_str text);
} walk;

static fx_status put_gap(walk *w, size_t end)
{
    if (end <= w->from) return FX_OK;
    return w->gap(w->j, (fxi_str){w->text.p + w->from, end - w->from});
}

static fx_status put_found(walk *w, size_t at, found f)
{
    const fxi_token *t = &w->j->v->token[f.id];
    size_t end = at + f.n;
    if (t->eats_left) at = at > w->from ? spaces_before(w->text, at, w->from) : w->from;
    if (t->eats_right) end = spaces_behind(w->text, end > w->from ? end : w->from);
    if (at >= end) return FX_OK; // white space itself, which the token before it ate
    FX_TRY(put_gap(w, at));
    FX_TRY(fxi_put(w->j, f.id));
    w->j->at_start = false;
    w->from = end;
    return FX_OK;
}

fx_status fxi_special_walk(fxi_job *j, fxi_special_set set, fxi_str text, const char *own,
                           fx_status (*gap)(fxi_job *j, fxi_str text))
{
    const fxi_specials *sp = j->v->special[set];
    walk w = {.j = j, .text = text, .gap = gap};
    for (size_t at = 0; sp && at < text.n;) {
        fxi_str rest = {text.p + at, text.n - at};
        found f = match(j->v, sp, rest, own ? own + at : NULL);
        bool alone = f.id >= 0 && (!j->v->token[f.id].whole_word || stands_alone(text, at, f.n));
        if (alone) FX_TRY(put_found(&w, at, f));
        at += f.id >= 0 ? f.n : 1;
    }
    return put_gap(&w, text.n);
}
