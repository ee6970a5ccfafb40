// vocab_special.c - finds the tokens that are split off a text before the model sees it: from left
// to right, the longest at each place; after a match the search continues past it.
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"
#include "format/vocab/lookup/vocab_chars.h"

typedef struct special_match {
    int32_t id; // -1: none
    size_t n;   // bytes
} special_match;

// Whether a token may be taken for n bytes of text; own: NULL, or which of them may be part of
// control tokens.
static bool may_take(const fxi_token *t, const char *own, size_t n)
{
    return t->type != FXI_TOKEN_CONTROL || !own || !memchr(own, 0, n);
}

// The longest token of the set that s begins with.
static special_match longest_match(const fxi_vocab *v, const fxi_specials *sp, fxi_str s,
                                   const char *own)
{
    special_match best = {-1, 0};
    unsigned pair = (unsigned)(unsigned char)s.p[0] << 8 | (s.n > 1 ? (unsigned char)s.p[1] : 0);
    if (!(sp->pair[pair >> 3] >> (pair & 7) & 1)) return best;
    uint32_t node = 0;
    for (size_t i = 0; i < s.n; i++) {
        node = fxi_trie_step(&sp->trie, node, (uint8_t)s.p[i]);
        if (!node) break;
        int32_t id = sp->trie.node[node].id;
        if (id >= 0 && may_take(&v->token[id], own, i + 1)) best = (special_match){id, i + 1};
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

static size_t spaces_from(fxi_str text, size_t at)
{
    size_t len;
    while (at < text.n && fxi_cp_is_space(fxi_utf8_at(text.p + at, text.n - at, &len))) at += len;
    return at;
}

typedef struct special_walk {
    fxi_encode_job *j;
    fxi_str text;
    size_t from; // everything before it has been encoded
    fx_status (*gap)(fxi_encode_job *j, fxi_str text);
} special_walk;

static fx_status put_gap(special_walk *w, size_t end)
{
    if (end <= w->from) return FX_OK;
    return w->gap(w->j, (fxi_str){w->text.p + w->from, end - w->from});
}

static fx_status put_found(special_walk *w, size_t at, special_match f)
{
    const fxi_token *t = &w->j->v->token[f.id];
    size_t end = at + f.n;
    if (t->eats_left) at = at > w->from ? spaces_before(w->text, at, w->from) : w->from;
    if (t->eats_right) end = spaces_from(w->text, end > w->from ? end : w->from);
    if (at >= end) return FX_OK; // white space that the token before it swallowed
    FX_TRY(put_gap(w, at));
    FX_TRY(fxi_encode_put(w->j, f.id));
    FX_TRY(fxi_encode_check_max(w->j, 0));
    w->j->front = 0;
    w->from = end;
    return FX_OK;
}

fx_status fxi_special_walk(fxi_encode_job *j, fxi_special_set set, fxi_str text, const char *own,
                           fx_status (*gap)(fxi_encode_job *j, fxi_str text))
{
    const fxi_specials *sp = j->v->special[set];
    special_walk w = {.j = j, .text = text, .gap = gap};
    for (size_t at = 0; sp && at < text.n;) {
        fxi_str rest = {text.p + at, text.n - at};
        special_match f = longest_match(j->v, sp, rest, own ? own + at : NULL);
        bool alone = f.id >= 0 && (!j->v->token[f.id].whole_word || stands_alone(text, at, f.n));
        if (alone) FX_TRY(put_found(&w, at, f));
        at += f.id >= 0 ? f.n : 1;
    }
    return put_gap(&w, text.n);
}
