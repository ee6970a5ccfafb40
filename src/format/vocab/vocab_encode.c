// vocab_encode.c - text to ids: special tokens split off, norm steps, split steps, the model.
//
// Words come again and again, so a call remembers what short ones became: where in its own output
// their ids stand. A word's ids depend on nothing but the word, so this changes nothing but time.
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "format/show.h"
#include "format/vocab/vocab_impl.h"

enum {
    MAX_TEXT_BYTES = 1 << 28, // norm steps make it longer, and places in it have 32 bits
    KNOWN_BYTES = 24,         // of a word that is remembered
    MIN_KNOWN = 64,
    MAX_KNOWN = 8192
};

struct fxi_known_word {
    uint64_t w[KNOWN_BYTES / 8]; // its bytes, see word_key()
    uint32_t at;                 // of its ids in the output, from j->n_before on
    uint8_t n_ids, n;            // n = 0: nothing is remembered here
};

//
// Ids out
//

fx_status fxi_put(fxi_job *j, int32_t id)
{
    j->after_unknown = false;
    return fxi_ids_add(j->out, id) ? FX_OK
                                   : fxi_fail(j->err, FX_ENOMEM, "no memory for the text's tokens");
}

static bool has_bytes(const fxi_vocab *v, const char *p, size_t n)
{
    bool all = v->byte_fallback;
    for (size_t i = 0; i < n && all; i++) all = v->byte_id[(unsigned char)p[i]] >= 0;
    return all;
}

fx_status fxi_put_unknown(fxi_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    if (has_bytes(v, p, n)) {
        for (size_t i = 0; i < n; i++) FX_TRY(fxi_put(j, v->byte_id[(unsigned char)p[i]]));
        return FX_OK;
    }
    if (v->unk < 0)
        return fxi_fail(j->err, FX_EINVAL, "the vocabulary has no token for the character '%s'",
                        fxi_show(p, n).s);
    if (v->fuse_unknown && j->after_unknown) return FX_OK;
    FX_TRY(fxi_put(j, v->unk));
    j->after_unknown = true;
    return FX_OK;
}

//
// Words
//

static fx_status run_model(fxi_job *j, const char *p, size_t n)
{
    if (j->v->whole_words) {
        int32_t id = fxi_index_find(&j->v->by_word, p, n);
        if (id >= 0 && id < j->v->n) return fxi_put(j, id);
    }
    return j->v->kind == FXI_VOCAB_UNIGRAM ? fxi_unigram_word(j, p, n) : fxi_merge_word(j, p, n);
}

// One to eight bytes as a number: others with the same n have another.
static uint64_t few_bytes(const char *p, size_t n)
{
    uint32_t first, last;
    uint64_t all;
    if (n == 8) {
        memcpy(&all, p, 8);
        return all;
    }
    if (n < 4)
        return (uint64_t)(uint8_t)p[0] | (uint64_t)(uint8_t)p[n / 2] << 8 |
               (uint64_t)(uint8_t)p[n - 1] << 16;
    memcpy(&first, p, 4);
    memcpy(&last, p + n - 4, 4);
    return first | (uint64_t)last << 32;
}

static fxi_known_word word_key(const char *p, size_t n)
{
    fxi_known_word key = {.n = (uint8_t)n};
    for (size_t i = 0; i < n; i += 8) key.w[i / 8] = few_bytes(p + i, n - i < 8 ? n - i : 8);
    return key;
}

static fxi_known_word *known_slot(const fxi_job *j, const fxi_known_word *key)
{
    uint64_t h = fxi_mix(key->w[0] ^ key->n, key->w[1] + 0x9E3779B97F4A7C15u);
    h ^= fxi_mix(key->w[2], 0x8EBC6AF09C88C6E3u);
    return &j->known[h & j->known_mask];
}

static bool is_known(const fxi_known_word *k, const fxi_known_word *key)
{
    return k->n == key->n && k->w[0] == key->w[0] && k->w[1] == key->w[1] && k->w[2] == key->w[2];
}

static fx_status put_known(fxi_job *j, const fxi_known_word *k)
{
    for (size_t i = 0; i < k->n_ids; i++) FX_TRY(fxi_put(j, j->out->id[j->n_before + k->at + i]));
    return FX_OK;
}

static bool has_unknown(const fxi_job *j, size_t from)
{
    for (size_t i = from; i < j->out->n; i++)
        if (j->out->id[i] == j->v->unk) return true;
    return false;
}

static fx_status encode_part(fxi_job *j, const char *p, size_t n)
{
    if (!j->known || n > KNOWN_BYTES) return run_model(j, p, n);
    fxi_known_word key = word_key(p, n), *k = known_slot(j, &key);
    if (is_known(k, &key)) return put_known(j, k);
    const size_t at = j->out->n - j->n_before;
    const bool after_unknown = j->after_unknown;
    FX_TRY(run_model(j, p, n));
    const size_t n_ids = j->out->n - j->n_before - at;
    if (after_unknown || has_unknown(j, j->out->n - n_ids))
        return FX_OK; // side by side, one is put
    if (n_ids > UINT8_MAX || at > UINT32_MAX) return FX_OK;
    key.at = (uint32_t)at;
    key.n_ids = (uint8_t)n_ids;
    *k = key;
    return FX_OK;
}

fx_status fxi_encode_word(fxi_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    j->after_unknown = false;
    if (v->unit_bytes || v->whole_words || v->kind == FXI_VOCAB_UNIGRAM)
        return encode_part(j, p, n);
    for (size_t at = 0, len; at < n; at += len) {
        len = fxi_merge_cut(v, p + at, n - at);
        FX_TRY(encode_part(j, p + at, len));
    }
    return FX_OK;
}

//
// The text between special tokens
//

static fx_status encode_late(fxi_job *j, fxi_str text)
{
    fxi_norm_how how = {.late = true, .space = j->space, .first = j->at_start};
    FX_TRY(fxi_norm_run(j->v, how, text, &j->late, &text, j->err));
    j->at_start = false;
    return fxi_split_encode(j, text.p, text.n);
}

static fx_status encode_gap(fxi_job *j, fxi_str text)
{
    fxi_norm_how how = {.space = j->space, .first = j->at_start};
    FX_TRY(fxi_norm_run(j->v, how, text, &j->early, &text, j->err));
    return fxi_special_walk(j, j->normalized, text, NULL, encode_late);
}

// Where only some bytes may be part of control tokens, these are looked for in the text as given:
// norm steps do not say which bytes came from where.
static fx_status encode(fxi_job *j, fxi_str text, const char *own, bool control)
{
    const fxi_special_set raw = own ? FXI_RAW_ANY : control ? FXI_RAW_CONTROL : FXI_RAW_USER;
    j->normalized = control && !own ? FXI_NORM_CONTROL : FXI_NORM_USER;
    return fxi_special_walk(j, raw, text, own, encode_gap);
}

//
// Calls
//

// Without memory for them, no words are remembered.
static void make_known(fxi_job *j, size_t n_bytes)
{
    size_t n = MIN_KNOWN;
    if (n_bytes < MIN_KNOWN) return;
    while (n < MAX_KNOWN && n < n_bytes / 8) n *= 2;
    j->known = calloc(n, sizeof *j->known);
    j->known_mask = n - 1;
}

static void free_job(fxi_job *j)
{
    fxi_norm_work_free(&j->early);
    fxi_norm_work_free(&j->late);
    fxi_matcher_free(j->matcher);
    free(j->sym);
    free(j->heap);
    free(j->best);
    free(j->known);
}

fx_status fxi_vocab_encode_marked(const fxi_vocab *v, const char *text, const char *own,
                                  size_t n_bytes, unsigned flags, fxi_ids *out, fx_error *err)
{
    if (n_bytes > MAX_TEXT_BYTES)
        return fxi_fail(err, FX_EINVAL, "a text of %zu bytes is too long", n_bytes);
    size_t bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes) return fxi_fail(err, FX_EINVAL, "bad UTF-8 at byte %zu", bad);
    if (!n_bytes) return FX_OK;
    fxi_job j = {.v = v, .out = out, .err = err, .at_start = true};
    j.n_before = out->n;
    j.space = flags & FXI_ENCODE_SPACE;
    make_known(&j, n_bytes);
    fx_status st = encode(&j, (fxi_str){text, n_bytes}, own, flags & FXI_ENCODE_CONTROL);
    if (st != FX_OK) out->n = j.n_before;
    free_job(&j);
    return st;
}

fx_status fxi_vocab_encode(const fxi_vocab *v, const char *text, size_t n_bytes, unsigned flags,
                           fxi_ids *out, fx_error *err)
{
    return fxi_vocab_encode_marked(v, text, NULL, n_bytes, flags, out, err);
}
