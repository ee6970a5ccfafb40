// vocab_build.c - builds an immutable vocabulary from a spec: tokens and their indexes, special
// tokens, the model, and the steps before it.
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

// Appends the spelling that the set searches for; *n is its length.
static fx_status spell_token(set_maker *m, fxi_special_set set, int32_t id, size_t *n)
{
    const fxi_token *t = &m->v->token[id];
    fxi_str key = {t->piece, t->n_piece};
    if (t->type == FXI_TOKEN_USER && m->s->user_marks) key = (fxi_str){t->text, t->n_text};
    if (set >= FXI_NORM_USER)
        FX_TRY(
            fxi_norm_run(&m->v->norms, (fxi_norm_how){.space = true}, key, &m->work, &key, m->err));
    *n = key.n;
    if (fxi_buf_add(&m->spelled, key.p, key.n)) return FX_OK;
    return fxi_spec_fail_memory(m->s, m->err);
}

static fx_status make_trie(set_maker *m, fxi_special_set set, size_t n)
{
    fxi_specials *sp = calloc(1, sizeof *sp);
    m->v->special[set] = sp;
    if (!sp || !fxi_trie_make(&sp->trie, m->entry, n)) return fxi_spec_fail_memory(m->s, m->err);
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
        const uint8_t type = m->v->token[id].type;
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

// v->special. Pre: tokens and norm steps are made. Errors: FX_EINVAL (a norm step fails on a
// token's spelling), FX_ENOMEM.
static fx_status make_specials(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
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

// ---- tries of models that look pieces up --------------------------------------------------------

enum { UNKNOWN_PENALTY = 10 };

// v->words and the score of an unknown character.
static fx_status make_unigram(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    size_t n = 0;
    double min = INFINITY;
    fxi_trie_entry *e = malloc((size_t)v->n * sizeof *e);
    if (!e) return fxi_spec_fail_memory(s, err);
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_token *t = &v->token[id];
        if (t->merges && t->type != FXI_TOKEN_UNUSED)
            e[n++] = (fxi_trie_entry){fxi_token_word(v, id), id};
        if (t->type != FXI_TOKEN_NORMAL && v->sums_float) continue; // `tokenizers` counts all
        min = fmin(min, t->score);
    }
    bool ok = fxi_trie_make(&v->words, e, n);
    free(e);
    v->unknown_score = min - UNKNOWN_PENALTY;
    if (v->sums_float) v->unknown_score = (double)(float)v->unknown_score;
    return ok ? FX_OK : fxi_spec_fail_memory(s, err);
}

// Pieces that begin with the prefix may continue a word; like all others they may begin one, too.
static fx_status make_pieces(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    size_t n = 0, n_inside = 0;
    fxi_trie_entry *e = malloc(2 * (size_t)v->n * sizeof *e), *inside = e ? e + v->n : NULL;
    if (!e) return fxi_spec_fail_memory(s, err);
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_str w = fxi_token_word(v, id);
        if (!v->token[id].merges) continue;
        e[n++] = (fxi_trie_entry){w, id};
        if (!s->inside.p || w.n < s->inside.n) continue;
        if (s->inside.n && memcmp(w.p, s->inside.p, s->inside.n)) continue;
        inside[n_inside++] = (fxi_trie_entry){{w.p + s->inside.n, w.n - s->inside.n}, id};
    }
    bool ok = fxi_trie_make(&v->words, e, n) && fxi_trie_make(&v->inside, inside, n_inside);
    free(e);
    v->max_word = s->max_word;
    return ok ? FX_OK : fxi_spec_fail_memory(s, err);
}

// Published vocabularies have pieces of at most a few hundred bytes, a few megabytes in all.
// Special tokens are searched for at every byte of a text, so their length costs time.
enum {
    MAX_PIECE_BYTES = 4096,
    MAX_SPECIAL_BYTES = 512,
    MAX_TOKENS = 1 << 24,
    MAX_POOL_BYTES = 1 << 29,
    MAX_STEPS = 64
};

// ---- tokens -------------------------------------------------------------------------------------

static fx_status check_token(const fxi_vocab_spec *s, size_t id, fx_error *err)
{
    const fxi_spec_token *t = &s->tok[id];
    const bool special = t->type == FXI_TOKEN_USER || t->type == FXI_TOKEN_CONTROL;
    const int most = special ? MAX_SPECIAL_BYTES : MAX_PIECE_BYTES;
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
                        id, fxi_show_text(t->piece.p, t->piece.n).s);
    return FX_OK;
}

static fx_status check_spec_tokens(const fxi_vocab_spec *s, size_t *pool_bytes, fx_error *err)
{
    if (!s->n_tok || s->n_tok > MAX_TOKENS)
        return fxi_fail(err, FX_EFORMAT, "%s: there are %zu tokens (1 to %d allowed)", s->name,
                        s->n_tok, MAX_TOKENS);
    for (size_t i = 0; i < s->n_tok; i++) {
        FX_TRY(check_token(s, i, err));
        *pool_bytes += 2 * s->tok[i].piece.n; // as stored, and as decoded
        if (s->join != FXI_JOIN_NOTHING) *pool_bytes += 2 * s->tok[i].piece.n + 1;
    }
    for (size_t i = 0; i < s->n_norm; i++) *pool_bytes += s->norm[i].from.n + s->norm[i].to.n;
    for (size_t i = 0; i < s->n_split; i++)
        *pool_bytes += s->split[i].change.from.n + s->split[i].change.to.n;
    *pool_bytes += s->warning.n + 1;
    if (*pool_bytes <= MAX_POOL_BYTES) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the tokens have more than %d MiB of text", s->name,
                    MAX_POOL_BYTES >> 21);
}

// Copies a string to *at in the pool and moves *at past it.
static fxi_str keep_string(char **at, fxi_str s)
{
    fxi_str kept = {*at, s.n};
    if (s.n) memcpy(*at, s.p, s.n);
    *at += s.n;
    return kept;
}

static void make_token(fxi_vocab *v, const fxi_vocab_spec *s, int32_t id, char **pool)
{
    const fxi_spec_token *from = &s->tok[id];
    fxi_token *t = &v->token[id];
    *t = (fxi_token){.piece = keep_string(pool, from->piece).p,
                     .n_piece = (uint32_t)from->piece.n,
                     .score = from->score,
                     .type = (uint8_t)fxi_token_settle_type(v, from),
                     .eats_left = from->eats_left,
                     .eats_right = from->eats_right,
                     .whole_word = from->whole_word};
    t->merges = t->type == FXI_TOKEN_NORMAL || t->type == FXI_TOKEN_UNUSED ||
                (t->type == FXI_TOKEN_USER && (s->user_marks || from->in_model));
    fxi_token_decode(v, t, *pool);
    *pool += t->n_text;
}

static fxi_str token_piece(const void *of, int32_t id)
{
    const fxi_token *t = &((const fxi_vocab *)of)->token[id];
    return (fxi_str){t->piece, t->n_piece};
}

static fxi_str token_word(const void *of, int32_t id)
{
    return fxi_token_word(of, id);
}

static bool make_indexes(fxi_vocab *v)
{
    bool ok = fxi_index_make(&v->by_piece, (size_t)v->n, token_piece, v) &&
              fxi_index_make(&v->by_word, (size_t)v->n, token_word, v);
    for (int32_t id = 0; ok && id < v->n; id++) {
        v->token[id].merges &= fxi_token_word(v, id).n > 0;
        ok = fxi_index_put(&v->by_piece, id) &&
             (!v->token[id].merges || fxi_index_put(&v->by_word, id));
    }
    return ok;
}

static fx_status make_tokens(fxi_vocab *v, const fxi_vocab_spec *s, char **pool, fx_error *err)
{
    size_t pool_bytes = 0;
    FX_TRY(check_spec_tokens(s, &pool_bytes, err));
    v->n = v->n_sym = (int32_t)s->n_tok;
    v->token = malloc(s->n_tok * sizeof *v->token);
    *pool = v->pool = malloc(pool_bytes + 1);
    if (!v->token || !v->pool) return fxi_spec_fail_memory(s, err);
    for (int32_t id = 0; id < v->n; id++) make_token(v, s, id, pool);
    if (!make_indexes(v) || !fxi_join_make(v, s, pool)) return fxi_spec_fail_memory(s, err);
    memset(v->byte_id, -1, sizeof v->byte_id);
    for (int32_t id = 0; id < v->n; id++)
        if (v->token[id].type == FXI_TOKEN_BYTE)
            v->byte_id[(unsigned char)v->token[id].text[0]] = id;
    v->warning = keep_string(pool, s->warning);
    *(*pool)++ = 0; // it is a C string
    return FX_OK;
}

// ---- special ids --------------------------------------------------------------------------------

static fx_status check_id(const fxi_vocab_spec *s, const char *what, int32_t id, fx_error *err)
{
    if (id >= -1 && id < (int64_t)s->n_tok) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the id of %s is %d, but there are %zu tokens", s->name,
                    what, (int)id, s->n_tok);
}

static fx_status mark_ends(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    static const char *const ends[] = {"<|im_end|>",    "<|eot_id|>", "<|end|>",
                                       "<|endoftext|>", "</s>",       "<end_of_turn>"};
    FX_TRY(check_id(s, "BOS", v->bos, err));
    FX_TRY(check_id(s, "EOS", v->eos, err));
    FX_TRY(check_id(s, "the unknown token", v->unk, err));
    if (v->eos >= 0) v->token[v->eos].ends = true;
    for (size_t i = 0; i < s->ends.n; i++) {
        FX_TRY(check_id(s, "an end", s->ends.id[i], err));
        if (s->ends.id[i] >= 0) v->token[s->ends.id[i]].ends = true;
    }
    for (int32_t id = 0; id < v->n; id++)
        if (v->token[id].type == FXI_TOKEN_CONTROL &&
            fxi_str_is_any(token_piece(v, id), ends, sizeof ends / sizeof *ends))
            v->token[id].ends = true;
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
    if (n->to.n > MAX_PIECE_BYTES)
        return fxi_fail(err, FX_EFORMAT, "%s: a normalization step inserts %zu bytes (at most %d)",
                        s->name, n->to.n, MAX_PIECE_BYTES);
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

static fx_status make_norm(fxi_vocab *v, const fxi_vocab_spec *s, const fxi_norm *from,
                           fxi_norm_step *step, char **pool, fx_error *err)
{
    FX_TRY(check_norm(s, from, err));
    *step = (fxi_norm_step){.kind = from->kind,
                            .from = keep_string(pool, from->from),
                            .to = keep_string(pool, from->to),
                            .late = from->late};
    v->norms.looks_front |= step->kind == FXI_NORM_PREPEND_FIRST;
    if (step->kind != FXI_NORM_REPLACE_REGEX) return FX_OK;
    return compile_step(s, step->from, false, &step->regex, err);
}

static fx_status make_change(fxi_vocab *v, const fxi_vocab_spec *s, const fxi_split *from,
                             fxi_split_step *p, char **pool, fx_error *err)
{
    p->change.step = calloc(1, sizeof *p->change.step);
    if (!p->change.step) return fxi_spec_fail_memory(s, err);
    fxi_norm norm = from->change;
    norm.late = true;
    fx_status st = make_norm(v, s, &norm, p->change.step, pool, err);
    p->change.n = st == FX_OK;
    p->change.looks_front = true;
    if (st != FX_OK) free(p->change.step);
    return st;
}

static fx_status make_split(fxi_vocab *v, const fxi_vocab_spec *s, size_t i, char **pool,
                            fx_error *err)
{
    const fxi_split *from = &s->split[i];
    fxi_split_step *p = &v->split[i];
    if (from->how < 0 || from->how > FXI_SPLIT_CHANGE)
        return fxi_fail(err, FX_EFORMAT, "%s: unknown split step %d", s->name, (int)from->how);
    p->how = from->how;
    p->invert = from->invert;
    // After a step that looks at bytes, words may begin and end inside a character.
    p->bytes = from->bytes || (i && p[-1].bytes);
    if (p->how != FXI_SPLIT_CHANGE) return compile_step(s, from->pattern, p->bytes, &p->regex, err);
    if (p->bytes)
        return fxi_fail(err, FX_EFORMAT, "%s: a pre-tokenizer step changes parts of characters",
                        s->name);
    return make_change(v, s, from, p, pool, err);
}

static fx_status make_steps(fxi_vocab *v, const fxi_vocab_spec *s, char **pool, fx_error *err)
{
    fxi_norms *norms = &v->norms;
    norms->step = calloc(s->n_norm + 1, sizeof *norms->step);
    v->split = calloc(s->n_split + 1, sizeof *v->split);
    if (!norms->step || !v->split) return fxi_spec_fail_memory(s, err);
    for (; norms->n < s->n_norm; norms->n++)
        FX_TRY(make_norm(v, s, &s->norm[norms->n], &norms->step[norms->n], pool, err));
    for (; v->n_split < s->n_split; v->n_split++) FX_TRY(make_split(v, s, v->n_split, pool, err));
    return FX_OK;
}

static fx_status check_steps(const fxi_vocab_spec *s, fx_error *err)
{
    for (size_t i = 0; i < s->n_split; i++)
        if (s->split[i].bytes && !s->unit_bytes)
            return fxi_fail(
                err, FX_EFORMAT,
                "%s: a pre-tokenizer step splits characters, but the model takes whole ones",
                s->name);
    if (s->n_norm <= MAX_STEPS && s->n_split <= MAX_STEPS) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: more than %d steps of normalization or pre-tokenization",
                    s->name, MAX_STEPS);
}

// ---- the model ----------------------------------------------------------------------------------

static fx_status make_model(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    static fx_status (*const models[FXI_VOCAB_N_KIND])(fxi_vocab *, const fxi_vocab_spec *,
                                                       fx_error *) = {
        [FXI_VOCAB_SCORES] = fxi_merges_make,
        [FXI_VOCAB_MERGES] = fxi_merges_make,
        [FXI_VOCAB_UNIGRAM] = make_unigram,
        [FXI_VOCAB_WORDS] = make_pieces,
    };
    FX_TRY(models[v->kind](v, s, err));
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;
        v->unit[i] = fxi_index_find(&v->by_word, &byte, 1);
    }
    return FX_OK;
}

static void measure_tokens(fxi_vocab *v)
{
    v->loses_text = v->norms.n > 0;
    for (size_t i = 0; i < v->n_split; i++)
        v->loses_text |=
            v->split[i].how == FXI_SPLIT_REMOVED || v->split[i].how == FXI_SPLIT_CHANGE;
    for (int32_t i = 0; i < v->n; i++) {
        const fxi_token *t = &v->token[i];
        const size_t n = t->n_piece > t->n_text ? t->n_piece : t->n_text;
        if (n > v->longest) v->longest = n;
        v->loses_text |= t->eats_left || t->eats_right;
    }
    if (v->longest < 4) v->longest = 4; // an unknown character is one token, too
    // Every character becomes a token of its own at least, if none vanishes, none fuses with the
    // next, and no word becomes the unknown token as a whole.
    bool units = v->unit_bytes, bytes = v->byte_fallback;
    for (int i = 0; i < 256; i++) {
        units &= v->unit[i] >= 0 && v->unit[i] < v->n;
        bytes &= v->byte_id[i] >= 0;
    }
    const bool counts = units || bytes || (v->unk >= 0 && !v->fuse_unknown);
    if (v->kind == FXI_VOCAB_WORDS || !counts) v->longest = 0;
}

static fx_status build_parts(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    char *pool;
    if (s->kind >= FXI_VOCAB_N_KIND || s->spelling >= FXI_SPELL_N || s->join >= FXI_JOIN_N)
        return fxi_fail(err, FX_EFORMAT, "%s: unknown kind of vocabulary", s->name);
    FX_TRY(check_steps(s, err));
    v->kind = s->kind;
    v->spelling = s->spelling;
    v->unit_bytes = s->unit_bytes;
    v->byte_fallback = s->byte_fallback;
    v->fuse_unknown = s->fuse_unknown;
    v->whole_words = s->whole_words;
    v->sums_float = s->sums_float;
    v->adds_bos = s->adds_bos;
    v->adds_eos = s->adds_eos;
    v->strips_space = s->strips_space;
    v->join = s->join;
    v->drops_unknown = s->kind == FXI_VOCAB_MERGES && s->unk < 0;
    v->bos = s->bos;
    v->eos = s->eos;
    v->unk = s->unk;
    FX_TRY(make_tokens(v, s, &pool, err));
    FX_TRY(mark_ends(v, s, err));
    FX_TRY(make_model(v, s, err));
    FX_TRY(make_steps(v, s, &pool, err));
    measure_tokens(v);
    return make_specials(v, s, err);
}

fx_status fxi_vocab_build(const fxi_vocab_spec *s, fxi_vocab **out, fx_error *err)
{
    fxi_vocab *v = calloc(1, sizeof *v);
    if (!v) return fxi_spec_fail_memory(s, err);
    fx_status st = build_parts(v, s, err);
    if (st == FX_OK)
        *out = v;
    else
        fxi_vocab_free(v);
    return st;
}

static void free_norms(fxi_norms *norms)
{
    for (size_t i = 0; i < norms->n; i++) fxi_regex_free(norms->step[i].regex);
    free(norms->step);
}

void fxi_vocab_free(fxi_vocab *v)
{
    if (!v) return;
    // Numbers of steps count finished steps; a failed one holds nothing.
    free_norms(&v->norms);
    for (size_t i = 0; i < v->n_split; i++) {
        fxi_regex_free(v->split[i].regex);
        free_norms(&v->split[i].change);
    }
    free(v->split);
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
    free(v->token);
    free(v->pool);
    free(v);
}
