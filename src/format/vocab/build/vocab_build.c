// vocab_build.c - builds an immutable vocabulary from a spec, which it checks and completes: tokens
// and their indexes, special tokens, the model, and the steps before it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/show.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/encode/vocab_norm.h"

// ---- special tokens: a trie of their spellings for each fxi_special_set -------------------------

typedef struct set_maker {
    fxi_vocab *v;
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

// Appends the spelling that the set searches for; *n is its length.
static fx_status spell_token(set_maker *m, fxi_special_set set, const fxi_token *t, size_t *n)
{
    const fxi_vocab_spec *s = &m->v->spec;
    fxi_str key = t->type == FXI_TOKEN_USER && s->user_marks ? t->text : t->piece;
    const fxi_norm_how how = {.space = true};
    if (set >= FXI_NORM_USER)
        FX_TRY(fxi_norm_run(s->norm, s->n_norm, how, key, &m->work, &key, m->err));
    *n = key.n;
    return fxi_buf_add(&m->spelled, key.p, key.n) ? FX_OK : fxi_fail_memory(m->err);
}

static fx_status make_trie(set_maker *m, fxi_special_set set, size_t n)
{
    fxi_specials *sp = calloc(1, sizeof *sp);
    m->v->special[set] = sp;
    if (!sp || !fxi_trie_make(&sp->trie, m->entry, n)) return fxi_fail_memory(m->err);
    for (size_t i = 0; i < n; i++)
        if (m->entry[i].key.n) {
            unsigned first = (unsigned char)m->entry[i].key.p[0];
            for (unsigned next = 0; next < 256; next++) {
                if (m->entry[i].key.n > 1 && (unsigned char)m->entry[i].key.p[1] != next) continue;
                unsigned pair = first << 8 | next;
                sp->pair[pair >> 3] |= (uint8_t)(1 << (pair & 7));
            }
        }
    return FX_OK;
}

static fx_status make_set(set_maker *m, fxi_special_set set)
{
    size_t n = 0, at = 0;
    fxi_buf_clear(&m->spelled);
    for (int32_t id = 0; id < m->v->n; id++) {
        const fxi_token *t = &m->v->spec.tok[id];
        if (!in_set(set, t->type, t->normalized)) continue;
        m->entry[n].id = id;
        FX_TRY(spell_token(m, set, t, &m->entry[n].key.n));
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

// v->special. Pre: tokens and norm steps are made. Errors: FX_EINVAL (a norm step fails on a
// token's spelling), FX_ENOMEM.
static fx_status make_specials(fxi_vocab *v, fx_error *err)
{
    set_maker m = {.v = v, .err = err};
    m.entry = malloc((size_t)v->n * sizeof *m.entry);
    fx_status st = m.entry ? FX_OK : fxi_fail_memory(err);
    for (int set = 0; st == FX_OK && set < FXI_N_SPECIAL_SET; set++)
        st = make_set(&m, (fxi_special_set)set);
    free(m.entry);
    fxi_buf_free(&m.spelled);
    fxi_norm_work_free(&m.work);
    return st;
}

// ---- tries of models that look pieces up --------------------------------------------------------

enum { UNKNOWN_PENALTY = 10 };

// v->words and the score of an unknown character.
static fx_status make_unigram(fxi_vocab *v, fx_error *err)
{
    const fxi_vocab_spec *s = &v->spec;
    size_t n = 0;
    double min = INFINITY;
    fxi_trie_entry *e = malloc((size_t)v->n * sizeof *e);
    if (!e) return fxi_fail_memory(err);
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_token *t = &s->tok[id];
        if (t->merges && t->type != FXI_TOKEN_UNUSED)
            e[n++] = (fxi_trie_entry){fxi_token_word(v, id), id};
        if (t->type != FXI_TOKEN_NORMAL && s->sums_float) continue; // `tokenizers` counts all
        min = fmin(min, t->score);
    }
    bool ok = fxi_trie_make(&v->words, e, n);
    free(e);
    v->unknown_score = min - UNKNOWN_PENALTY;
    if (s->sums_float) v->unknown_score = (double)(float)v->unknown_score;
    return ok ? FX_OK : fxi_fail_memory(err);
}

// Pieces that begin with the prefix may continue a word; like all others they may begin one, too.
static fx_status make_pieces(fxi_vocab *v, fx_error *err)
{
    const fxi_vocab_spec *s = &v->spec;
    size_t n = 0, n_inside = 0;
    fxi_trie_entry *e = malloc(2 * (size_t)v->n * sizeof *e), *inside = e ? e + v->n : NULL;
    if (!e) return fxi_fail_memory(err);
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_str w = fxi_token_word(v, id);
        if (!s->tok[id].merges) continue;
        e[n++] = (fxi_trie_entry){w, id};
        if (!s->inside.p || w.n < s->inside.n) continue;
        if (s->inside.n && memcmp(w.p, s->inside.p, s->inside.n)) continue;
        inside[n_inside++] = (fxi_trie_entry){{w.p + s->inside.n, w.n - s->inside.n}, id};
    }
    bool ok = fxi_trie_make(&v->words, e, n) && fxi_trie_make(&v->inside, inside, n_inside);
    free(e);
    return ok ? FX_OK : fxi_fail_memory(err);
}

// Special tokens are searched for at every byte of a text, so their length costs time.
enum { MAX_SPECIAL_BYTES = 512, MAX_TOKENS = 1 << 24, MAX_TEXT_BYTES = 1 << 28, MAX_STEPS = 64 };

// ---- tokens -------------------------------------------------------------------------------------

static fx_status check_token(const fxi_vocab_spec *s, size_t id, fx_error *err)
{
    const fxi_token *t = &s->tok[id];
    const bool special = t->type == FXI_TOKEN_USER || t->type == FXI_TOKEN_CONTROL;
    const int most = special ? MAX_SPECIAL_BYTES : FXI_MAX_PIECE_BYTES;
    if (t->piece.n > (size_t)most)
        return fxi_fail(err, FX_EFORMAT, "%s: token %zu has %zu bytes (at most %d)", s->name, id,
                        t->piece.n, most);
    if (t->type >= FXI_TOKEN_N_TYPE)
        return fxi_fail(err, FX_EFORMAT, "%s: token %zu has the unknown type %d", s->name, id,
                        (int)t->type);
    if (isnan(t->score))
        return fxi_fail(err, FX_EFORMAT, "%s: the score of token %zu is NaN", s->name, id);
    if (t->type == FXI_TOKEN_BYTE && fxi_piece_byte(t->piece) < 0)
        return fxi_fail(err, FX_EFORMAT, "%s: byte token %zu is spelled '%s', not <0xNN>", s->name,
                        id, fxi_show_text(t->piece).s);
    return FX_OK;
}

static fx_status check_tokens(const fxi_vocab_spec *s, fx_error *err)
{
    size_t text_bytes = 0;
    if (!s->n_tok || s->n_tok > MAX_TOKENS)
        return fxi_fail(err, FX_EFORMAT, "%s: there are %zu tokens (1 to %d allowed)", s->name,
                        s->n_tok, MAX_TOKENS);
    for (size_t i = 0; i < s->n_tok; i++) {
        FX_TRY(check_token(s, i, err));
        text_bytes += s->tok[i].piece.n;
    }
    if (text_bytes <= MAX_TEXT_BYTES) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the tokens have more than %d MiB of text", s->name,
                    MAX_TEXT_BYTES >> 20);
}

static bool make_indexes(fxi_vocab *v)
{
    bool ok = true;
    v->by_piece = fxi_index_make(fxi_spec_piece, &v->spec);
    v->by_word = fxi_index_make(fxi_token_word, v);
    for (int32_t id = 0; ok && id < v->n; id++) {
        fxi_token *t = &v->spec.tok[id];
        t->merges &= fxi_token_word(v, id).n > 0;
        ok = fxi_index_put(&v->by_piece, id) && (!t->merges || fxi_index_put(&v->by_word, id));
    }
    return ok;
}

static fx_status make_tokens(fxi_vocab *v, fx_error *err)
{
    fxi_vocab_spec *s = &v->spec;
    FX_TRY(check_tokens(s, err));
    v->n = v->n_sym = (int32_t)s->n_tok;
    memset(v->byte_id, -1, sizeof v->byte_id);
    for (int32_t id = 0; id < v->n; id++) {
        fxi_token *t = &s->tok[id];
        t->type = (uint8_t)fxi_token_settle_type(s, t);
        t->merges = t->type == FXI_TOKEN_NORMAL || t->type == FXI_TOKEN_UNUSED ||
                    (t->type == FXI_TOKEN_USER && (s->user_marks || t->in_model));
        if (!fxi_token_decode(s, t)) return fxi_fail_memory(err);
        if (t->type == FXI_TOKEN_BYTE) v->byte_id[(unsigned char)t->text.p[0]] = id;
    }
    return make_indexes(v) && fxi_join_make(v) ? FX_OK : fxi_fail_memory(err);
}

// ---- special ids --------------------------------------------------------------------------------

static fx_status check_id(const fxi_vocab_spec *s, const char *what, int32_t id, fx_error *err)
{
    if (id >= -1 && id < (int64_t)s->n_tok) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the id of %s is %d, but there are %zu tokens", s->name,
                    what, (int)id, s->n_tok);
}

static fx_status mark_ends(fxi_vocab_spec *s, fx_error *err)
{
    static const char *const ends[] = {"<|im_end|>",    "<|eot_id|>", "<|end|>",
                                       "<|endoftext|>", "</s>",       "<end_of_turn>"};
    FX_TRY(check_id(s, "BOS", s->bos, err));
    FX_TRY(check_id(s, "EOS", s->eos, err));
    FX_TRY(check_id(s, "the unknown token", s->unk, err));
    if (s->eos >= 0) s->tok[s->eos].ends = true;
    for (size_t i = 0; i < s->ends.n; i++) {
        FX_TRY(check_id(s, "an end", s->ends.id[i], err));
        if (s->ends.id[i] >= 0) s->tok[s->ends.id[i]].ends = true;
    }
    for (size_t id = 0; id < s->n_tok; id++)
        s->tok[id].ends |= s->tok[id].type == FXI_TOKEN_CONTROL &&
                           fxi_str_is_any(s->tok[id].piece, ends, sizeof ends / sizeof *ends);
    return FX_OK;
}

// ---- steps --------------------------------------------------------------------------------------

static fx_status check_norm(const fxi_vocab_spec *s, const fxi_norm *n, fx_error *err)
{
    if (n->kind < 0 || n->kind >= FXI_NORM_N_KIND)
        return fxi_fail(err, FX_EFORMAT, "%s: unknown normalization step %d", s->name,
                        (int)n->kind);
    if (n->kind == FXI_NORM_CHARSMAP && !fxi_charsmap_check(n->from))
        return fxi_fail(err, FX_EFORMAT, "%s: the precompiled character map is broken", s->name);
    bool text = n->kind != FXI_NORM_CHARSMAP;
    if ((text && fxi_utf8_check(n->from.p, n->from.n) < n->from.n) ||
        fxi_utf8_check(n->to.p, n->to.n) < n->to.n)
        return fxi_fail(err, FX_EFORMAT, "%s: a normalization step has bad UTF-8", s->name);
    if (n->to.n > FXI_MAX_PIECE_BYTES)
        return fxi_fail(err, FX_EFORMAT, "%s: a normalization step inserts %zu bytes (at most %d)",
                        s->name, n->to.n, FXI_MAX_PIECE_BYTES);
    if (n->kind == FXI_NORM_REPLACE && !n->from.n)
        return fxi_fail(err, FX_EFORMAT, "%s: a normalization step replaces an empty text",
                        s->name);
    return FX_OK;
}

static fx_status compile_step(const fxi_vocab_spec *s, fxi_str pattern, bool bytes, fxi_regex **out,
                              fx_error *err)
{
    fx_error why;
    fx_status st = fxi_regex_compile(pattern, bytes, out, &why);
    return st == FX_OK ? st : fxi_fail(err, st, "%s: %s", s->name, why.text);
}

static fx_status make_norm(fxi_vocab *v, fxi_norm *n, fx_error *err)
{
    FX_TRY(check_norm(&v->spec, n, err));
    v->looks_front |= n->kind == FXI_NORM_PREPEND_FIRST;
    if (n->kind != FXI_NORM_REPLACE_REGEX) return FX_OK;
    return compile_step(&v->spec, n->from, false, &n->regex, err);
}

static fx_status make_split(fxi_vocab *v, size_t i, fx_error *err)
{
    const fxi_vocab_spec *s = &v->spec;
    fxi_split *p = &s->split[i];
    if (p->how < 0 || p->how > FXI_SPLIT_CHANGE)
        return fxi_fail(err, FX_EFORMAT, "%s: unknown split step %d", s->name, (int)p->how);
    if (p->bytes && !s->unit_bytes)
        return fxi_fail(
            err, FX_EFORMAT,
            "%s: a pre-tokenizer step splits characters, but the model takes whole ones", s->name);
    // After a step that looks at bytes, words may begin and end inside a character.
    p->bytes |= i && p[-1].bytes;
    if (p->how != FXI_SPLIT_CHANGE) return compile_step(s, p->pattern, p->bytes, &p->regex, err);
    if (p->bytes)
        return fxi_fail(err, FX_EFORMAT, "%s: a pre-tokenizer step changes parts of characters",
                        s->name);
    p->change.late = true;
    return make_norm(v, &p->change, err);
}

static fx_status make_steps(fxi_vocab *v, fx_error *err)
{
    const fxi_vocab_spec *s = &v->spec;
    if (s->n_norm > MAX_STEPS || s->n_split > MAX_STEPS)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: more than %d steps of normalization or pre-tokenization", s->name,
                        MAX_STEPS);
    for (size_t i = 0; i < s->n_norm; i++) FX_TRY(make_norm(v, &s->norm[i], err));
    for (size_t i = 0; i < s->n_split; i++) FX_TRY(make_split(v, i, err));
    return FX_OK;
}

// ---- the model ----------------------------------------------------------------------------------

static fx_status make_model(fxi_vocab *v, fx_error *err)
{
    static fx_status (*const models[FXI_VOCAB_N_KIND])(fxi_vocab *, fx_error *) = {
        [FXI_VOCAB_SCORES] = fxi_merges_make,
        [FXI_VOCAB_MERGES] = fxi_merges_make,
        [FXI_VOCAB_UNIGRAM] = make_unigram,
        [FXI_VOCAB_WORDS] = make_pieces,
    };
    FX_TRY(models[v->spec.kind](v, err));
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;
        v->unit[i] = fxi_index_find(&v->by_word, &byte, 1);
    }
    return FX_OK;
}

static void measure_tokens(fxi_vocab *v)
{
    const fxi_vocab_spec *s = &v->spec;
    v->loses_text = s->n_norm > 0;
    for (size_t i = 0; i < s->n_split; i++)
        v->loses_text |=
            s->split[i].how == FXI_SPLIT_REMOVED || s->split[i].how == FXI_SPLIT_CHANGE;
    for (size_t i = 0; i < s->n_tok; i++) {
        const fxi_token *t = &s->tok[i];
        const size_t n = t->piece.n > t->text.n ? t->piece.n : t->text.n;
        if (n > v->longest) v->longest = n;
        v->loses_text |= t->eats_left || t->eats_right;
    }
    if (v->longest < 4) v->longest = 4; // an unknown character is one token, too
    // Every character becomes a token of its own at least, if none vanishes, none fuses with the
    // next, and no word becomes the unknown token as a whole.
    bool units = s->unit_bytes, bytes = s->byte_fallback;
    for (int i = 0; i < 256; i++) {
        units &= v->unit[i] >= 0 && v->unit[i] < v->n;
        bytes &= v->byte_id[i] >= 0;
    }
    const bool counts = units || bytes || (s->unk >= 0 && !s->fuse_unknown);
    if (s->kind == FXI_VOCAB_WORDS || !counts) v->longest = 0;
}

static fx_status build_parts(fxi_vocab *v, fx_error *err)
{
    fxi_vocab_spec *s = &v->spec;
    if (s->kind >= FXI_VOCAB_N_KIND || s->spelling >= FXI_SPELL_N || s->join >= FXI_JOIN_N)
        return fxi_fail(err, FX_EFORMAT, "%s: unknown kind of vocabulary", s->name);
    v->drops_unknown = s->kind == FXI_VOCAB_MERGES && s->unk < 0;
    FX_TRY(make_tokens(v, err));
    FX_TRY(mark_ends(s, err));
    FX_TRY(make_model(v, err));
    FX_TRY(make_steps(v, err));
    measure_tokens(v);
    FX_TRY(make_specials(v, err));
    free(s->merge); // v->merges has them
    s->merge = NULL;
    s->n_merge = s->cap_merge = 0;
    s->name = NULL; // the caller's
    return FX_OK;
}

fx_status fxi_vocab_build(fxi_vocab_spec *s, fxi_vocab **out, fx_error *err)
{
    fxi_vocab *v = calloc(1, sizeof *v);
    if (!v) {
        const fx_status st = fxi_fail_memory(err);
        fxi_vocab_spec_free(s);
        return st;
    }
    v->spec = *s;
    fxi_vocab_spec_init(s, s->name);
    const fx_status st = build_parts(v, err);
    if (st == FX_OK)
        *out = v;
    else
        fxi_vocab_free(v);
    return st;
}

void fxi_vocab_free(fxi_vocab *v)
{
    if (!v) return;
    fxi_vocab_spec_free(&v->spec);
    for (int set = 0; set < FXI_N_SPECIAL_SET; set++) {
        if (v->special[set]) fxi_trie_free(&v->special[set]->trie);
        free(v->special[set]);
    }
    fxi_index_free(&v->by_piece);
    fxi_index_free(&v->by_word);
    fxi_trie_free(&v->words);
    fxi_trie_free(&v->inside);
    free(v->start_text);
    free(v->merges.slot);
    free(v->merges.sieve);
    free(v->merges.meets);
    free(v);
}
