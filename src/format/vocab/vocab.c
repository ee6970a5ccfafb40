// vocab.c - loading a vocabulary and looking things up in it. vocab_encode.c turns text into ids.
//
// Pieces are copied into one pool. A hash table over them (open addressing, a random seed, so that
// no file can be made to collide) answers "which id is this piece"; tokens that are split off a
// text before merging stand in sorted lists beside it.
#include "format/vocab.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "format/show.h"
#include "format/vocab/vocab_impl.h"

enum { MAX_PIECE_BYTES = 65535, MAX_TOKENS = 1 << 24 };

#define KEY(name) "tokenizer.ggml." name

//
// Lists of ids
//

bool fxi_ids_add(fxi_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? 2 * ids->cap : 64;
        int32_t *p = realloc(ids->id, cap * sizeof *p);
        if (!p) return false;
        ids->id = p;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return true;
}

void fxi_ids_free(fxi_ids *ids)
{
    free(ids->id);
    *ids = (fxi_ids){0};
}

//
// The hash table
//

static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b | 1);
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t hash_piece(const fxi_vocab *v, const char *p, size_t n)
{
    uint64_t h = v->hash_seed ^ n;
    for (; n; p += 8) {
        uint64_t w = 0;
        size_t take = n < 8 ? n : 8;
        memcpy(&w, p, take);
        h = mix(h ^ w, v->hash_seed);
        n -= take;
    }
    return h;
}

// The slot that holds this piece, or the empty one where it would go.
static int32_t *find_slot(const fxi_vocab *v, const char *p, size_t n)
{
    uint64_t i = hash_piece(v, p, n) & v->slot_mask;
    for (; v->slot[i] >= 0; i = (i + 1) & v->slot_mask) {
        const fxi_token *t = &v->token[v->slot[i]];
        if (t->n_piece == n && !memcmp(t->piece, p, n)) break;
    }
    return &v->slot[i];
}

int32_t fxi_vocab_find(const fxi_vocab *v, const char *piece, size_t n_bytes)
{
    return *find_slot(v, piece, n_bytes);
}

// Of tokens with equal pieces the last one is found.
static bool build_hash(fxi_vocab *v)
{
    uint64_t n_slot = 16;
    while (n_slot < 2 * (uint64_t)v->n) n_slot *= 2;
    v->slot = malloc(n_slot * sizeof *v->slot);
    if (!v->slot) return false;
    memset(v->slot, -1, n_slot * sizeof *v->slot);
    v->slot_mask = n_slot - 1;
    if (getrandom(&v->hash_seed, sizeof v->hash_seed, GRND_NONBLOCK) < 0)
        v->hash_seed = (uintptr_t)v;
    for (int32_t id = 0; id < v->n; id++)
        *find_slot(v, v->token[id].piece, v->token[id].n_piece) = id;
    return true;
}

//
// Tokens: pieces, scores, types
//

static int hex_digit(char c)
{
    static const char digits[] = "0123456789ABCDEFabcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

// The byte that a piece of the form <0xNN> stands for, -1 for others.
static int byte_of_piece(const char *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>') return -1;
    int hi = hex_digit(p[3]), lo = hex_digit(p[4]);
    return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

static bool is_any_piece(const fxi_token *t, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fxi_str_is((fxi_str){t->piece, t->n_piece}, list[i])) return true;
    return false;
}

// Spelled like the marks of chat templates, which no text may turn into.
static bool looks_control(const fxi_token *t)
{
    static const char *const marks[] = {"<s>",    "</s>",    "<bos>",           "<eos>",
                                        "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>"};
    if (is_any_piece(t, marks, sizeof marks / sizeof *marks)) return true;
    return t->n_piece > 4 && !memcmp(t->piece, "<|", 2) &&
           !memcmp(t->piece + t->n_piece - 2, "|>", 2);
}

// Appends the piece with U+2581 as spaces; returns the bytes written.
static uint32_t decode_spaces(const char *p, size_t n, char *dst)
{
    char *at = dst;
    for (size_t i = 0; i < n;) {
        bool space =
            n - i >= FXI_SPACE_MARK_BYTES && !memcmp(p + i, FXI_SPACE_MARK, FXI_SPACE_MARK_BYTES);
        *at++ = space ? ' ' : p[i];
        i += space ? FXI_SPACE_MARK_BYTES : 1;
    }
    return (uint32_t)(at - dst);
}

// Writes what the token adds to a text at dst, at most n_piece bytes; returns how many.
static uint32_t decode_token(const fxi_token *t, char *dst)
{
    if (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_UNKNOWN) return 0;
    if (t->type != FXI_TOKEN_BYTE) return decode_spaces(t->piece, t->n_piece, dst);
    *dst = (char)byte_of_piece(t->piece, t->n_piece);
    return 1;
}

static fx_status check_tokens(const fxi_gguf *g, const fxi_gguf_kv *kv, size_t *pool_bytes,
                              fx_error *err)
{
    if (!kv->n_elem || kv->n_elem > MAX_TOKENS)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: key '" KEY("tokens") "' has %" PRIu64
                                                  " elements (1 to %d are allowed)",
                        fxi_gguf_name(g), kv->n_elem, MAX_TOKENS);
    const unsigned char *at = kv->value;
    for (uint64_t i = 0; i < kv->n_elem; i++) {
        fxi_str s = fxi_gguf_next_str(&at);
        if (s.n > MAX_PIECE_BYTES)
            return fxi_fail(err, FX_EFORMAT,
                            "%s: key '" KEY("tokens") "': token %" PRIu64 " has %zu bytes",
                            fxi_gguf_name(g), i, s.n);
        *pool_bytes += 2 * s.n; // as stored, and as decoded
    }
    return FX_OK;
}

static fx_status load_pieces(fxi_vocab *v, const fxi_gguf *g, fx_error *err)
{
    const fxi_gguf_kv *kv;
    size_t pool_bytes = 0;
    FX_TRY(fxi_gguf_array(g, KEY("tokens"), true, FXI_GGUF_STR, &kv, err));
    FX_TRY(check_tokens(g, kv, &pool_bytes, err));
    v->n = (int32_t)kv->n_elem;
    v->token = calloc(kv->n_elem, sizeof *v->token);
    v->pool = malloc(pool_bytes + 1);
    if (!v->token || !v->pool)
        return fxi_fail(err, FX_ENOMEM, "%s: no memory for the vocabulary", fxi_gguf_name(g));
    const unsigned char *at = kv->value;
    char *dst = v->pool;
    for (int32_t id = 0; id < v->n; id++) {
        fxi_str s = fxi_gguf_next_str(&at);
        memcpy(dst, s.p, s.n);
        v->token[id].piece = dst;
        v->token[id].n_piece = (uint32_t)s.n;
        dst += 2 * s.n; // load_texts fills the second half
    }
    return FX_OK;
}

static fx_status check_length(const fxi_vocab *v, const fxi_gguf *g, const fxi_gguf_kv *kv,
                              fx_error *err)
{
    if (kv->n_elem == (uint64_t)v->n) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: key '%s' has %" PRIu64 " elements for %d tokens",
                    fxi_gguf_name(g), fxi_show(kv->key.p, kv->key.n).s, kv->n_elem, (int)v->n);
}

static fx_status load_scores(fxi_vocab *v, const fxi_gguf *g, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_array(g, KEY("scores"), true, FXI_GGUF_F32, &kv, err));
    FX_TRY(check_length(v, g, kv, err));
    for (int32_t id = 0; id < v->n; id++) {
        v->token[id].score = (float)fxi_gguf_float_at(kv, (uint64_t)id);
        if (isnan(v->token[id].score))
            return fxi_fail(err, FX_EFORMAT,
                            "%s: key '" KEY("scores") "': the score of token %d is NaN",
                            fxi_gguf_name(g), (int)id);
    }
    return FX_OK;
}

// The type we go by, given the one declared.
static fxi_token_type settle_type(const fxi_token *t, fxi_token_type declared)
{
    bool plain = declared == FXI_TOKEN_NORMAL || declared == FXI_TOKEN_UNDEFINED;
    if (plain && byte_of_piece(t->piece, t->n_piece) >= 0) return FXI_TOKEN_BYTE;
    if (declared == FXI_TOKEN_USER && looks_control(t)) return FXI_TOKEN_CONTROL;
    return plain ? FXI_TOKEN_NORMAL : declared;
}

static fx_status load_types(fxi_vocab *v, const fxi_gguf *g, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(fxi_gguf_array(g, KEY("token_type"), false, FXI_GGUF_I32, &kv, err));
    if (kv) FX_TRY(check_length(v, g, kv, err));
    for (int32_t id = 0; id < v->n; id++) {
        fxi_token *t = &v->token[id];
        int64_t type = kv ? fxi_gguf_int_at(kv, (uint64_t)id) : FXI_TOKEN_NORMAL;
        if (type < 0 || type >= FXI_TOKEN_N_TYPE)
            return fxi_fail(
                err, FX_EFORMAT,
                "%s: key '" KEY("token_type") "': token %d has the unknown type %" PRId64,
                fxi_gguf_name(g), (int)id, type);
        if (type == FXI_TOKEN_BYTE && byte_of_piece(t->piece, t->n_piece) < 0)
            return fxi_fail(err, FX_EFORMAT, "%s: byte token %d is spelled '%s', not <0xNN>",
                            fxi_gguf_name(g), (int)id, fxi_show(t->piece, t->n_piece).s);
        t->type = settle_type(t, (fxi_token_type)type);
    }
    return FX_OK;
}

//
// Special ids
//

// -1 where the key is absent or holds the 2^32 - 1 that some files write for "none".
static fx_status load_id(const fxi_vocab *v, const fxi_gguf *g, const char *key, int32_t *id,
                         fx_error *err)
{
    uint32_t raw = UINT32_MAX;
    FX_TRY(fxi_gguf_u32(g, key, false, &raw, err));
    *id = -1;
    if (raw == UINT32_MAX) return FX_OK;
    if (raw >= (uint32_t)v->n)
        return fxi_fail(err, FX_EFORMAT, "%s: key '%s' is %" PRIu32 ", but there are %d tokens",
                        fxi_gguf_name(g), key, raw, (int)v->n);
    *id = (int32_t)raw;
    return FX_OK;
}

static fx_status load_special_ids(fxi_vocab *v, const fxi_gguf *g, fx_error *err)
{
    static const struct {
        const char *key;
        const char *piece; // taken where the key is absent; NULL: none is
        size_t field;      // of fxi_vocab; 0: it only ends generations
        fxi_token_type type;
        bool ends;
    } ids[] = {
        {KEY("bos_token_id"), "<s>", offsetof(fxi_vocab, bos), FXI_TOKEN_CONTROL, false},
        {KEY("eos_token_id"), "</s>", offsetof(fxi_vocab, eos), FXI_TOKEN_CONTROL, true},
        {KEY("unknown_token_id"), "<unk>", offsetof(fxi_vocab, unk), FXI_TOKEN_UNKNOWN, false},
        {KEY("eot_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
        {KEY("eom_token_id"), NULL, 0, FXI_TOKEN_CONTROL, true},
    };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        int32_t id;
        FX_TRY(load_id(v, g, ids[i].key, &id, err));
        if (id < 0 && ids[i].piece && !fxi_gguf_find(g, ids[i].key))
            id = fxi_vocab_find(v, ids[i].piece, strlen(ids[i].piece));
        if (ids[i].field) *(int32_t *)(void *)((char *)v + ids[i].field) = id;
        if (id < 0) continue;
        if (v->token[id].type != FXI_TOKEN_CONTROL) v->token[id].type = (uint8_t)ids[i].type;
        v->token[id].ends |= ids[i].ends;
    }
    return FX_OK;
}

static void mark_ends(fxi_vocab *v)
{
    static const char *const ends[] = {"<|im_end|>",    "<|eot_id|>", "<|end|>",
                                       "<|endoftext|>", "</s>",       "<end_of_turn>"};
    for (int32_t id = 0; id < v->n; id++)
        if (v->token[id].type == FXI_TOKEN_CONTROL &&
            is_any_piece(&v->token[id], ends, sizeof ends / sizeof *ends))
            v->token[id].ends = true;
}

//
// What follows from the types
//

static void load_texts(fxi_vocab *v)
{
    for (int32_t id = 0; id < v->n; id++) {
        fxi_token *t = &v->token[id];
        char *dst = v->pool + (t->piece - v->pool) + t->n_piece;
        t->text = dst;
        t->n_text = decode_token(t, dst);
    }
}

static bool crosses_into_space(const fxi_token *t)
{
    bool space_before = true;
    for (uint32_t i = 0; i + FXI_SPACE_MARK_BYTES <= t->n_piece; i++) {
        if (!memcmp(t->piece + i, FXI_SPACE_MARK, FXI_SPACE_MARK_BYTES)) {
            if (!space_before) return true;
            i += FXI_SPACE_MARK_BYTES - 1;
        } else {
            space_before = false;
        }
    }
    return false;
}

static void find_merges(fxi_vocab *v)
{
    v->cuts_at_space = true;
    for (int32_t id = 0; id < v->n; id++) {
        fxi_token *t = &v->token[id];
        t->merges = t->n_piece && (t->type == FXI_TOKEN_NORMAL || t->type == FXI_TOKEN_USER ||
                                   t->type == FXI_TOKEN_UNUSED);
        if (!t->merges) continue;
        if (t->n_piece > v->max_piece_bytes) v->max_piece_bytes = t->n_piece;
        if (crosses_into_space(t)) v->cuts_at_space = false;
    }
}

static void find_bytes(fxi_vocab *v)
{
    memset(v->byte_id, -1, sizeof v->byte_id);
    for (int32_t id = 0; id < v->n; id++)
        if (v->token[id].type == FXI_TOKEN_BYTE)
            v->byte_id[(unsigned char)v->token[id].text[0]] = id;
}

// The bytes a text spells a special token with.
static fxi_str spelled(const fxi_token *t)
{
    if (t->type == FXI_TOKEN_CONTROL) return (fxi_str){t->piece, t->n_piece};
    return (fxi_str){t->text, t->n_text};
}

static int compare_spelled(const void *a, const void *b, void *token)
{
    const fxi_token *t = token;
    return fxi_str_compare(spelled(&t[*(const int32_t *)a]), spelled(&t[*(const int32_t *)b]));
}

static bool build_specials(const fxi_vocab *v, bool with_control, fxi_specials *sp)
{
    sp->id = malloc((size_t)v->n * sizeof *sp->id);
    if (!sp->id) return false;
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_token *t = &v->token[id];
        fxi_str s = spelled(t);
        bool wanted = t->type == FXI_TOKEN_USER || (with_control && t->type == FXI_TOKEN_CONTROL);
        if (!wanted || !s.n) continue;
        sp->id[sp->n++] = id;
        sp->first[(unsigned char)s.p[0]] = true;
    }
    qsort_r(sp->id, sp->n, sizeof *sp->id, compare_spelled, v->token);
    return true;
}

//
// Loading
//

static fx_status check_kind(const fxi_gguf *g, fx_error *err)
{
    fxi_str kind;
    FX_TRY(fxi_gguf_str(g, KEY("model"), true, &kind, err));
    if (fxi_str_is(kind, "llama")) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: tokenizer kind '%s' is not read by this version",
                    fxi_gguf_name(g), fxi_show(kind.p, kind.n).s);
}

static fx_status load(fxi_vocab *v, const fxi_gguf *g, fx_error *err)
{
    FX_TRY(check_kind(g, err));
    FX_TRY(load_pieces(v, g, err));
    FX_TRY(load_scores(v, g, err));
    FX_TRY(load_types(v, g, err));
    if (!build_hash(v))
        return fxi_fail(err, FX_ENOMEM, "%s: no memory for the vocabulary", fxi_gguf_name(g));
    FX_TRY(load_special_ids(v, g, err));
    mark_ends(v);
    load_texts(v);
    find_merges(v);
    find_bytes(v);
    v->adds_bos = v->adds_space = true;
    FX_TRY(fxi_gguf_bool(g, KEY("add_bos_token"), false, &v->adds_bos, err));
    FX_TRY(fxi_gguf_bool(g, KEY("add_space_prefix"), false, &v->adds_space, err));
    if (build_specials(v, false, &v->user) && build_specials(v, true, &v->all)) return FX_OK;
    return fxi_fail(err, FX_ENOMEM, "%s: no memory for the vocabulary", fxi_gguf_name(g));
}

fx_status fxi_vocab_load(const fxi_gguf *g, fxi_vocab **out, fx_error *err)
{
    fxi_vocab *v = calloc(1, sizeof *v);
    if (!v) return fxi_fail(err, FX_ENOMEM, "%s: no memory for the vocabulary", fxi_gguf_name(g));
    fx_status st = load(v, g, err);
    if (st == FX_OK)
        *out = v;
    else
        fxi_vocab_free(v);
    return st;
}

void fxi_vocab_free(fxi_vocab *v)
{
    if (!v) return;
    free(v->token);
    free(v->pool);
    free(v->slot);
    free(v->user.id);
    free(v->all.id);
    free(v);
}

//
// Questions
//

int fxi_vocab_size(const fxi_vocab *v)
{
    return v->n;
}

int32_t fxi_vocab_bos(const fxi_vocab *v)
{
    return v->bos;
}

int32_t fxi_vocab_eos(const fxi_vocab *v)
{
    return v->eos;
}

bool fxi_vocab_adds_bos(const fxi_vocab *v)
{
    return v->adds_bos && v->bos >= 0;
}

bool fxi_vocab_adds_space(const fxi_vocab *v)
{
    return v->adds_space;
}

// A model may have more rows than the vocabulary has tokens: those add no text and end nothing.
static const fxi_token *token_at(const fxi_vocab *v, int32_t id)
{
    static const fxi_token none = {.piece = "", .text = ""};
    return id >= 0 && id < v->n ? &v->token[id] : &none;
}

bool fxi_vocab_ends(const fxi_vocab *v, int32_t id)
{
    return token_at(v, id)->ends;
}

bool fxi_vocab_control(const fxi_vocab *v, int32_t id)
{
    const uint8_t type = token_at(v, id)->type;
    return type == FXI_TOKEN_CONTROL || type == FXI_TOKEN_UNKNOWN;
}

const char *fxi_vocab_bytes(const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    *n_bytes = token_at(v, id)->n_text;
    return token_at(v, id)->text;
}

const char *fxi_vocab_piece(const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    *n_bytes = token_at(v, id)->n_piece;
    return token_at(v, id)->piece;
}
