// vocab_word.c - a word to ids, by the model or from memory.
//
// Words recur, so a call remembers where in its own output the ids of short ones are. A word's ids
// depend on nothing but the word, so this saves time and changes nothing else.
#include <stdlib.h>
#include <string.h>

#include "format/vocab/encode/vocab_encode.h"

enum {
    KNOWN_BYTES = 24, // of a word that is remembered
    MIN_KNOWN = 64,
    MAX_KNOWN = 8192
};

struct fxi_known_word {
    uint64_t w[KNOWN_BYTES / 8]; // its bytes, see word_key()
    uint32_t at;                 // of its ids in the output, from j->n_before on
    uint8_t n_ids, n;            // n = 0: an empty slot
};

// If memory is short, no words are remembered.
void fxi_word_remember(fxi_encode_job *j, size_t n_bytes)
{
    size_t n = MIN_KNOWN;
    if (n_bytes < MIN_KNOWN) return;
    while (n < MAX_KNOWN && n < n_bytes / 8) n *= 2;
    j->known = calloc(n, sizeof *j->known);
    j->known_mask = n - 1;
}

static fx_status encode_by_model(fxi_encode_job *j, const char *p, size_t n)
{
    if (j->v->whole_words) {
        int32_t id = fxi_index_find(&j->v->by_word, p, n);
        if (id >= 0 && id < j->v->n) return fxi_encode_put(j, id);
    }
    // Direct calls: most words of most vocabularies are merged.
    if (j->v->kind == FXI_VOCAB_UNIGRAM) return fxi_unigram_word(j, p, n);
    if (j->v->kind == FXI_VOCAB_WORDS) return fxi_pieces_word(j, p, n);
    return fxi_merge_word(j, p, n);
}

// One to eight bytes as a number, unique among those of the same n.
static uint64_t pack_bytes(const char *p, size_t n)
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
    for (size_t i = 0; i < n; i += 8) key.w[i / 8] = pack_bytes(p + i, n - i < 8 ? n - i : 8);
    return key;
}

static fxi_known_word *known_slot(const fxi_encode_job *j, const fxi_known_word *key)
{
    uint64_t h = fxi_hash_mix(key->w[0] ^ key->n, key->w[1] + 0x9E3779B97F4A7C15u);
    h ^= fxi_hash_mix(key->w[2], 0x8EBC6AF09C88C6E3u);
    return &j->known[h & j->known_mask];
}

static bool is_known(const fxi_known_word *k, const fxi_known_word *key)
{
    return k->n == key->n && k->w[0] == key->w[0] && k->w[1] == key->w[1] && k->w[2] == key->w[2];
}

static fx_status put_known(fxi_encode_job *j, const fxi_known_word *k)
{
    for (size_t i = 0; i < k->n_ids; i++)
        FX_TRY(fxi_encode_put(j, j->out->id[j->n_before + k->at + i]));
    return FX_OK;
}

static bool has_unknown(const fxi_encode_job *j, size_t from)
{
    for (size_t i = from; i < j->out->n; i++)
        if (j->out->id[i] == j->v->unk) return true;
    return false;
}

static fx_status encode_stretch(fxi_encode_job *j, const char *p, size_t n)
{
    if (!j->known || n > KNOWN_BYTES) return encode_by_model(j, p, n);
    fxi_known_word key = word_key(p, n), *k = known_slot(j, &key);
    if (is_known(k, &key)) return put_known(j, k);
    const size_t at = j->out->n - j->n_before;
    const bool after_unknown = j->after_unknown;
    FX_TRY(encode_by_model(j, p, n));
    const size_t n_ids = j->out->n - j->n_before - at;
    if (after_unknown || has_unknown(j, j->out->n - n_ids))
        return FX_OK; // its ids depend on the neighbours: adjacent unknown tokens may fuse
    if (n_ids > UINT8_MAX || at > UINT32_MAX) return FX_OK;
    key.at = (uint32_t)at;
    key.n_ids = (uint8_t)n_ids;
    *k = key;
    return FX_OK;
}

fx_status fxi_encode_check_max(const fxi_encode_job *j, size_t n_bytes)
{
    const fxi_ids *out = j->out;
    size_t least = j->v->longest ? n_bytes / j->v->longest : 0;
    if (!out->max || (out->n <= out->max && least <= out->max - out->n)) return FX_OK;
    return fxi_fail(j->err, FX_ECONTEXT, "the text has more than %zu tokens", out->max);
}

fx_status fxi_word_encode(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    j->after_unknown = false;
    FX_TRY(fxi_encode_check_max(j, n));
    if (v->unit_bytes || v->whole_words || v->drops_unknown || v->kind == FXI_VOCAB_UNIGRAM ||
        v->kind == FXI_VOCAB_WORDS)
        return encode_stretch(j, p, n);
    for (size_t at = 0, len; at < n; at += len) {
        len = fxi_merge_cut(v, p + at, n - at);
        FX_TRY(fxi_encode_check_max(j, len));
        FX_TRY(encode_stretch(j, p + at, len));
    }
    return FX_OK;
}
