// vocab_encode.c - text to ids. Special tokens are split off; the text between them goes through
// the norm steps and is cut into words by the split steps; each word goes through the model.
//
// A split step sees its text as a sequence of parts that match its pattern and parts that do not.
// `how` says which part joins the one before it; a part waits until the next one is known. A step
// that changes its word instead of cutting it passes on the changed one.
//
// Words recur, so a call remembers where in its own output the ids of short ones are. A word's ids
// depend on nothing but the word, so this saves time and changes nothing else.
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"
#include "format/vocab/lookup/vocab_lookup.h"

// ---- words, by the model or from memory ---------------------------------------------------------

enum {
    KNOWN_BYTES = 24, // the longest word that is remembered
    MIN_KNOWN = 64,
    MAX_KNOWN = 8192
};

struct fxi_known_word {
    uint64_t w[KNOWN_BYTES / 8]; // its bytes, then zeros
    uint32_t at;                 // where its ids are in the output, from j->n_before on
    uint8_t n_ids, n;            // n = 0: an empty slot
};

// If memory is short, no words are remembered.
static void remember_words(fxi_encode_job *j, size_t n_bytes)
{
    size_t n = MIN_KNOWN;
    if (n_bytes < MIN_KNOWN) return;
    while (n < MAX_KNOWN && n < n_bytes / 8) n *= 2;
    j->known = calloc(n, sizeof *j->known);
    j->known_mask = n - 1;
}

static fx_status encode_by_model(fxi_encode_job *j, const char *p, size_t n)
{
    if (j->v->spec.whole_words) {
        int32_t id = fxi_index_find(&j->v->by_word, p, n);
        if (id >= 0 && id < j->v->n) return fxi_encode_put(j, id);
    }
    // Direct calls: most words of most vocabularies are merged.
    if (j->v->spec.kind == FXI_VOCAB_UNIGRAM) return fxi_unigram_word(j, p, n);
    if (j->v->spec.kind == FXI_VOCAB_WORDS) return fxi_pieces_word(j, p, n);
    return fxi_merge_word(j, p, n);
}

static fx_status encode_stretch(fxi_encode_job *j, const char *p, size_t n)
{
    if (!j->known || n > KNOWN_BYTES) return encode_by_model(j, p, n);
    fxi_known_word key = {.n = (uint8_t)n};
    memcpy(key.w, p, n);
    static const fxi_secret fixed = {{0x9E3779B97F4A7C15u, 0x8EBC6AF09C88C6E3u}};
    uint64_t h = fxi_secret_mix(fixed, key.w[0] ^ key.n, 0);
    h = fxi_secret_mix(fixed, fxi_secret_mix(fixed, h, key.w[1]), key.w[2]);
    fxi_known_word *k = &j->known[h & j->known_mask];
    if (k->n == key.n && !memcmp(k->w, key.w, sizeof key.w)) {
        for (size_t i = 0; i < k->n_ids; i++)
            FX_TRY(fxi_encode_put(j, j->out->id[j->n_before + k->at + i]));
        return FX_OK;
    }
    const size_t at = j->out->n - j->n_before;
    const bool after_unknown = j->after_unknown;
    FX_TRY(encode_by_model(j, p, n));
    const size_t n_ids = j->out->n - j->n_before - at;
    // Adjacent unknown tokens may fuse: then its ids depend on the neighbours.
    bool alone = !after_unknown;
    for (size_t i = j->out->n - n_ids; alone && i < j->out->n; i++)
        alone = j->out->id[i] != j->v->spec.unk;
    if (!alone || n_ids > UINT8_MAX || at > UINT32_MAX) return FX_OK;
    key.at = (uint32_t)at;
    key.n_ids = (uint8_t)n_ids;
    *k = key;
    return FX_OK;
}

// Whether n_bytes more, of a word or of a text that nothing shortens, may still fit out->max ids.
// Errors: FX_ECONTEXT.
static fx_status check_max_ids(const fxi_encode_job *j, size_t n_bytes)
{
    const fxi_ids *out = j->out;
    size_t least = j->v->longest ? n_bytes / j->v->longest : 0;
    if (!out->max || (out->n <= out->max && least <= out->max - out->n)) return FX_OK;
    return fxi_fail(j->err, FX_ECONTEXT, "the text has more than %zu tokens", out->max);
}

static fx_status encode_word(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    j->after_unknown = false;
    FX_TRY(check_max_ids(j, n));
    if (v->spec.unit_bytes || v->spec.whole_words || v->drops_unknown ||
        v->spec.kind == FXI_VOCAB_UNIGRAM || v->spec.kind == FXI_VOCAB_WORDS)
        return encode_stretch(j, p, n);
    for (size_t at = 0, len; at < n; at += len) {
        len = fxi_merge_cut(v, p + at, n - at);
        FX_TRY(check_max_ids(j, len));
        FX_TRY(encode_stretch(j, p + at, len));
    }
    return FX_OK;
}

// ---- split steps --------------------------------------------------------------------------------

typedef struct split_cutter {
    fxi_encode_job *j;
    size_t step;
    const char *s;
    size_t front;          // as in fxi_norm_how, for s
    fxi_regex_match waits; // from = SIZE_MAX: none
    bool was_match;        // the part before
} split_cutter;

static fx_status cut_words(fxi_encode_job *j, size_t step, fxi_str text, size_t front);

static fx_status flush_part(split_cutter *c)
{
    fxi_regex_match w = c->waits;
    c->waits.from = SIZE_MAX;
    if (w.from == SIZE_MAX || w.from == w.to) return FX_OK;
    const fxi_str word = {c->s + w.from, w.to - w.from};
    return cut_words(c->j, c->step + 1, word, c->front > w.from ? c->front - w.from : 0);
}

static fx_status add_part(split_cutter *c, size_t from, size_t to, bool is_match)
{
    static const bool joins[FXI_SPLIT_N][2][2] = {
        // the part before: [how][was_match][is_match]
        [FXI_SPLIT_MERGED_PREVIOUS] = {{false, true}, {false, false}},
        [FXI_SPLIT_MERGED_NEXT] = {{false, false}, {true, false}},
        [FXI_SPLIT_CONTIGUOUS] = {{true, false}, {false, true}},
    };
    const fxi_split_how how = c->j->v->spec.split[c->step].how;
    is_match ^= c->j->v->spec.split[c->step].invert;
    if (c->waits.from != SIZE_MAX && joins[how][c->was_match][is_match]) {
        c->waits.to = to;
    } else {
        FX_TRY(flush_part(c));
        if (how != FXI_SPLIT_REMOVED || !is_match) c->waits = (fxi_regex_match){from, to};
    }
    c->was_match = is_match;
    return FX_OK;
}

static fx_status cut_by_step(split_cutter *c, size_t n)
{
    fxi_regex_walk walk = {
        .re = c->j->v->spec.split[c->step].regex, .m = c->j->matcher, .s = c->s, .n = n};
    size_t done = 0;
    for (fxi_regex_match m;; done = m.to) {
        FX_TRY(fxi_regex_next(&walk, &m, c->j->err));
        if (m.from == SIZE_MAX) break;
        if (done < m.from) FX_TRY(add_part(c, done, m.from, false));
        FX_TRY(add_part(c, m.from, m.to, true));
    }
    if (done < n) FX_TRY(add_part(c, done, n, false));
    return flush_part(c);
}

// Each step has buffers of its own: a word lies in those of the step that changed it last.
static fx_status change_word(fxi_encode_job *j, size_t step, fxi_str word, size_t front)
{
    const fxi_norm *change = &j->v->spec.split[step].change;
    if (!j->change && !(j->change = calloc(j->v->spec.n_split, sizeof *j->change)))
        return fxi_fail_memory(j->err);
    const fxi_norm_how how = {.late = true, .space = j->space, .front = front};
    fxi_norm_work *work = &j->change[step];
    FX_TRY(fxi_norm_run(change, 1, how, word, work, &word, j->err));
    return word.n ? cut_words(j, step + 1, word, work->front) : FX_OK;
}

static fx_status cut_words(fxi_encode_job *j, size_t step, fxi_str text, size_t front)
{
    if (step == j->v->spec.n_split) return encode_word(j, text.p, text.n);
    if (j->v->spec.split[step].how == FXI_SPLIT_CHANGE) return change_word(j, step, text, front);
    split_cutter c = {
        .j = j, .step = step, .s = text.p, .front = front, .waits = {SIZE_MAX, SIZE_MAX}};
    return cut_by_step(&c, text.n);
}

// ---- special tokens: from left to right, the longest at each place ------------------------------

typedef struct special_match {
    int32_t id; // -1: none
    size_t n;   // bytes
} special_match;

// The longest token of the set that s begins with; own: NULL, or which bytes may be part of control
// tokens.
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
        if (id < 0) continue;
        if (v->spec.tok[id].type != FXI_TOKEN_CONTROL || !own || !memchr(own, 0, i + 1))
            best = (special_match){id, i + 1};
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
    const fxi_token *t = &w->j->v->spec.tok[f.id];
    const fxi_str s = w->text;
    size_t end = at + f.n, len;
    if (t->eats_left && at < w->from) at = w->from;
    while (t->eats_left && at > w->from && fxi_cp_is_space(fxi_cp_before(s.p, at, &len))) at -= len;
    if (t->eats_right && end < w->from) end = w->from;
    while (t->eats_right && end < s.n && fxi_cp_is_space(fxi_utf8_at(s.p + end, s.n - end, &len)))
        end += len;
    if (at >= end) return FX_OK; // white space that the token before it swallowed
    FX_TRY(put_gap(w, at));
    FX_TRY(fxi_encode_put(w->j, f.id));
    FX_TRY(check_max_ids(w->j, 0));
    w->j->front = 0;
    w->from = end;
    return FX_OK;
}

// Finds the tokens of a set in a text, appends their ids, and passes the text between them to
// `gap`. own: NULL, or own[i] nonzero: byte i may be part of a control token.
static fx_status walk_specials(fxi_encode_job *j, fxi_special_set set, fxi_str text,
                               const char *own, fx_status (*gap)(fxi_encode_job *j, fxi_str text))
{
    const fxi_specials *sp = j->v->special[set];
    special_walk w = {.j = j, .text = text, .gap = gap};
    for (size_t at = 0; sp && at < text.n;) {
        fxi_str rest = {text.p + at, text.n - at};
        special_match f = longest_match(j->v, sp, rest, own ? own + at : NULL);
        bool alone = f.id >= 0 && (!j->v->spec.tok[f.id].whole_word || stands_alone(text, at, f.n));
        if (alone) FX_TRY(put_found(&w, at, f));
        at += f.id >= 0 ? f.n : 1;
    }
    return put_gap(&w, text.n);
}

// ---- a text -------------------------------------------------------------------------------------

enum { MAX_TEXT_BYTES = 1 << 28 }; // norm steps make it longer, and positions in it have 32 bits

static fx_status encode_late(fxi_encode_job *j, fxi_str text)
{
    fxi_norm_how how = {.late = true, .space = j->space, .front = j->front};
    FX_TRY(fxi_norm_run(j->v->spec.norm, j->v->spec.n_norm, how, text, &j->late, &text, j->err));
    j->front = 0;
    if (!text.n) return FX_OK;
    if (j->v->spec.n_split && !j->matcher && !(j->matcher = fxi_matcher_new()))
        return fxi_fail_memory(j->err);
    return cut_words(j, 0, (fxi_str){text.p, text.n}, j->late.front);
}

static fx_status encode_gap(fxi_encode_job *j, fxi_str text)
{
    fxi_norm_how how = {.space = j->space, .front = j->front};
    FX_TRY(fxi_norm_run(j->v->spec.norm, j->v->spec.n_norm, how, text, &j->early, &text, j->err));
    j->front = j->early.front;
    return walk_specials(j, j->normalized, text, NULL, encode_late);
}

fx_status fxi_vocab_encode_marked(const fxi_vocab *v, const char *text, const char *own,
                                  size_t n_bytes, unsigned flags, fxi_ids *out, fx_error *err)
{
    if (n_bytes > MAX_TEXT_BYTES)
        return fxi_fail(err, FX_EINVAL, "a text of %zu bytes is too long", n_bytes);
    size_t bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes) return fxi_fail(err, FX_EINVAL, "bad UTF-8 at byte %zu", bad);
    if (!n_bytes) return FX_OK;
    fxi_encode_job j = {.v = v, .out = out, .err = err};
    j.n_before = out->n;
    if (v->looks_front) fxi_utf8_at(text, n_bytes, &j.front);
    j.space = flags & FXI_ENCODE_SPACE;
    if (!v->loses_text) FX_TRY(check_max_ids(&j, n_bytes));
    remember_words(&j, n_bytes);
    // If only some bytes may be part of control tokens, the tokens are searched for in the text as
    // given: norm steps do not track where bytes came from.
    const bool control = flags & FXI_ENCODE_CONTROL;
    const fxi_special_set raw = own ? FXI_RAW_ANY : control ? FXI_RAW_CONTROL : FXI_RAW_USER;
    j.normalized = control && !own ? FXI_NORM_CONTROL : FXI_NORM_USER;
    fx_status st = walk_specials(&j, raw, (fxi_str){text, n_bytes}, own, encode_gap);
    if (st == FX_OK) st = check_max_ids(&j, 0);
    if (st != FX_OK) out->n = j.n_before;
    fxi_norm_work_free(&j.early);
    fxi_norm_work_free(&j.late);
    fxi_matcher_free(j.matcher);
    for (size_t i = 0; j.change && i < v->spec.n_split; i++) fxi_norm_work_free(&j.change[i]);
    free(j.change);
    free(j.sym);
    free(j.heap);
    free(j.best);
    free(j.known);
    return st;
}

fx_status fxi_vocab_encode(const fxi_vocab *v, const char *text, size_t n_bytes, unsigned flags,
                           fxi_ids *out, fx_error *err)
{
    return fxi_vocab_encode_marked(v, text, NULL, n_bytes, flags, out, err);
}
