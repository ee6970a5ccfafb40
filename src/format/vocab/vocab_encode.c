// vocab_encode.c - text to ids.
//
//   text -> special tokens split off (leftmost, then longest) -> what lies between, cut into words
//        -> a word's characters as a linked list of symbols -> merges -> one id per symbol left, or
//        bytes
//
// Merging: every pair of neighbours that is a piece waits in a heap, highest score first, the
// leftmost of equals. The best is taken; if both sides are still what they were when it was put
// there, the right one joins the left one and the two new pairs are put into the heap. A word of n
// characters makes at most n - 1 merges, each of which takes one pair out and puts two in: the heap
// never holds more than 2n.
//
// Words: where no piece of the vocabulary reaches from a character into a space behind it, nothing
// can ever merge across such a place, and the text is cut there. It is the same result in less
// memory.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "format/show.h"
#include "format/vocab/vocab_impl.h"

#define NONE UINT32_MAX

enum {
    MAX_TEXT_BYTES = 1 << 30
}; // a space becomes three bytes, and positions in a word have 32 bits

typedef struct symbol {
    uint32_t at, n;      // bytes in the word; n = 0: joined to a symbol on its left
    uint32_t prev, next; // NONE at the ends
    int32_t id;          // -1: no piece is spelled so
} symbol;

typedef struct pair {
    float score;
    uint32_t left, right; // symbols
    uint32_t n;           // bytes of both
    int32_t id;           // of the piece they make
} pair;

typedef struct job {
    const fxi_vocab *v;
    fxi_buf word; // with U+2581 for spaces
    symbol *sym;
    uint32_t n_sym, cap_sym;
    pair *heap; // [2 * cap_sym]
    uint32_t n_heap;
    fxi_ids *out;
    fx_error *err;
} job;

//
// The heap
//

static bool before(const pair *a, const pair *b)
{
    return a->score != b->score ? a->score > b->score : a->left < b->left;
}

static void heap_push(job *j, pair p)
{
    uint32_t i = j->n_heap++;
    for (uint32_t up; i && before(&p, &j->heap[up = (i - 1) / 2]); i = up) j->heap[i] = j->heap[up];
    j->heap[i] = p;
}

static pair heap_pop(job *j)
{
    pair top = j->heap[0], last = j->heap[--j->n_heap];
    uint32_t i = 0;
    for (;;) {
        uint32_t down = 2 * i + 1;
        if (down >= j->n_heap) break;
        if (down + 1 < j->n_heap && before(&j->heap[down + 1], &j->heap[down])) down++;
        if (!before(&j->heap[down], &last)) break;
        j->heap[i] = j->heap[down];
        i = down;
    }
    j->heap[i] = last;
    return top;
}

//
// One word
//

// The piece that merging may make of these bytes, -1 if there is none.
static int32_t find_merge(const job *j, uint32_t at, uint32_t n)
{
    if (n > j->v->max_piece_bytes) return -1;
    int32_t id = fxi_vocab_find(j->v, j->word.p + at, n);
    return id >= 0 && j->v->token[id].merges ? id : -1;
}

static void offer_pair(job *j, uint32_t left, uint32_t right)
{
    if (left == NONE || right == NONE) return;
    uint32_t n = j->sym[left].n + j->sym[right].n;
    int32_t id = find_merge(j, j->sym[left].at, n);
    if (id < 0) return;
    heap_push(j, (pair){j->v->token[id].score, left, right, n, id});
}

static size_t count_characters(const fxi_buf *word)
{
    size_t n = 0;
    for (size_t i = 0; i < word->n; i++) n += ((unsigned char)word->p[i] & 0xC0) != 0x80;
    return n;
}

static bool reserve_symbols(job *j, size_t n)
{
    if (n <= j->cap_sym) return true;
    symbol *sym = realloc(j->sym, n * sizeof *sym);
    if (sym) j->sym = sym;
    pair *heap = realloc(j->heap, 2 * n * sizeof *heap);
    if (heap) j->heap = heap;
    if (!sym || !heap) return false;
    j->cap_sym = (uint32_t)n;
    return true;
}

static void split_characters(job *j)
{
    uint32_t n_bytes = (uint32_t)j->word.n;
    j->n_sym = 0;
    for (uint32_t at = 0; at < n_bytes; j->n_sym++) {
        uint32_t n = (uint32_t)fxi_utf8_len((unsigned char)j->word.p[at]);
        j->sym[j->n_sym] = (symbol){at, n, j->n_sym - 1, j->n_sym + 1, find_merge(j, at, n)};
        at += n;
    }
    j->sym[0].prev = NONE;
    j->sym[j->n_sym - 1].next = NONE;
}

static void join(job *j, const pair *p)
{
    symbol *left = &j->sym[p->left], *right = &j->sym[p->right];
    left->n = p->n;
    left->id = p->id;
    left->next = right->next;
    right->n = 0;
    if (left->next != NONE) j->sym[left->next].prev = p->left;
    offer_pair(j, left->prev, p->left);
    offer_pair(j, p->left, left->next);
}

static void merge(job *j)
{
    for (uint32_t i = 1; i < j->n_sym; i++) offer_pair(j, i - 1, i);
    while (j->n_heap) {
        pair p = heap_pop(j);
        const symbol *left = &j->sym[p.left], *right = &j->sym[p.right];
        if (left->n && right->n && left->n + right->n == p.n) join(j, &p);
    }
}

static fx_status add(job *j, int32_t id)
{
    return fxi_ids_add(j->out, id) ? FX_OK
                                   : fxi_fail(j->err, FX_ENOMEM, "no memory for the text's tokens");
}

// A character that is no piece: its bytes, or the unknown token if the vocabulary lacks one of
// them.
static fx_status add_bytes(job *j, const symbol *s)
{
    const unsigned char *p = (const unsigned char *)j->word.p + s->at;
    bool all = true;
    for (uint32_t i = 0; i < s->n; i++) all &= j->v->byte_id[p[i]] >= 0;
    if (!all && j->v->unk >= 0) return add(j, j->v->unk);
    if (!all)
        return fxi_fail(j->err, FX_EINVAL, "the vocabulary has no token for the character '%s'",
                        fxi_show((const char *)p, s->n).s);
    for (uint32_t i = 0; i < s->n; i++) FX_TRY(add(j, j->v->byte_id[p[i]]));
    return FX_OK;
}

static fx_status encode_word(job *j)
{
    if (!j->word.n) return FX_OK;
    if (!reserve_symbols(j, count_characters(&j->word)))
        return fxi_fail(j->err, FX_ENOMEM, "no memory to tokenize the text");
    split_characters(j);
    merge(j);
    for (uint32_t i = 0; i != NONE; i = j->sym[i].next) {
        if (j->sym[i].id >= 0)
            FX_TRY(add(j, j->sym[i].id));
        else
            FX_TRY(add_bytes(j, &j->sym[i]));
    }
    return FX_OK;
}

//
// Text between special tokens
//

// Bytes of the space at s: ' ' or the U+2581 that stands for it in pieces; 0 if it is none.
static size_t space_bytes(const char *s, size_t n)
{
    if (n && *s == ' ') return 1;
    return n >= FXI_SPACE_MARK_BYTES && !memcmp(s, FXI_SPACE_MARK, FXI_SPACE_MARK_BYTES)
               ? FXI_SPACE_MARK_BYTES
               : 0;
}

// Spaces and what follows them up to the next space. Pre: n > 0.
static size_t word_bytes(const char *s, size_t n)
{
    size_t i = 0, space;
    while ((space = space_bytes(s + i, n - i))) i += space;
    while (i < n && !space_bytes(s + i, n - i)) i += (size_t)fxi_utf8_len((unsigned char)s[i]);
    return i;
}

// Appends s to the word, spaces as U+2581.
static bool escape(fxi_buf *word, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t run = 0;
        while (i + run < n && s[i + run] != ' ') run++;
        if (!fxi_buf_add(word, s + i, run)) return false;
        i += run;
        if (i < n && !fxi_buf_add(word, FXI_SPACE_MARK, FXI_SPACE_MARK_BYTES)) return false;
        i += i < n;
    }
    return true;
}

static fx_status encode_plain(job *j, const char *s, size_t n, bool space_in_front)
{
    while (n) {
        size_t take = j->v->cuts_at_space ? word_bytes(s, n) : n;
        fxi_buf_clear(&j->word);
        if (!escape(&j->word, " ", space_in_front) || !escape(&j->word, s, take))
            return fxi_fail(j->err, FX_ENOMEM, "no memory to tokenize the text");
        FX_TRY(encode_word(j));
        space_in_front = false;
        s += take;
        n -= take;
    }
    return FX_OK;
}

//
// Special tokens
//

static int byte_at(const fxi_token *t, size_t depth)
{
    bool control = t->type == FXI_TOKEN_CONTROL; // spelled as stored; others as decoded
    if (depth >= (control ? t->n_piece : t->n_text)) return -1;
    return (unsigned char)(control ? t->piece : t->text)[depth];
}

// The first of sp->id[lo..hi) whose byte at `depth` is at least `byte`. Pre: they are equal before
// `depth`.
static size_t first_from(const fxi_vocab *v, const fxi_specials *sp, size_t lo, size_t hi,
                         size_t depth, int byte)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (byte_at(&v->token[sp->id[mid]], depth) < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

// Whether a token may stand for n_bytes of text; own: NULL, or which of them may be part of control
// tokens.
static bool may_stand(const fxi_token *t, const char *own, size_t n_bytes)
{
    return t->type != FXI_TOKEN_CONTROL || !own || !memchr(own, 0, n_bytes);
}

// The longest special token at s; *n_bytes is its length. -1 if there is none. Pre: n > 0.
static int32_t match_special(const fxi_vocab *v, const fxi_specials *sp, const char *s,
                             const char *own, size_t n, size_t *n_bytes)
{
    int32_t best = -1;
    if (!sp->first[(unsigned char)*s]) return best;
    size_t lo = 0, hi = sp->n;
    for (size_t depth = 0; depth < n; depth++) {
        int byte = (unsigned char)s[depth];
        lo = first_from(v, sp, lo, hi, depth, byte);
        hi = first_from(v, sp, lo, hi, depth, byte + 1);
        if (lo == hi) break;
        if (byte_at(&v->token[sp->id[lo]], depth + 1) >= 0) continue;
        if (!may_stand(&v->token[sp->id[lo]], own, depth + 1)) continue;
        best = sp->id[lo];
        *n_bytes = depth + 1;
    }
    return best;
}

static fx_status encode(job *j, const fxi_specials *sp, const char *text, const char *own,
                        size_t n_bytes, bool space_in_front)
{
    size_t from = 0, at = 0, n_special = 0;
    while (at < n_bytes) {
        int32_t id =
            match_special(j->v, sp, text + at, own ? own + at : NULL, n_bytes - at, &n_special);
        if (id < 0) {
            at++;
            continue;
        }
        FX_TRY(encode_plain(j, text + from, at - from, space_in_front && !from));
        FX_TRY(add(j, id));
        from = at += n_special;
    }
    return encode_plain(j, text + from, n_bytes - from, space_in_front && !from);
}

fx_status fxi_vocab_encode(const fxi_vocab *v, const char *text, size_t n_bytes, unsigned flags,
                           fxi_ids *out, fx_error *err)
{
    return fxi_vocab_encode_marked(v, text, NULL, n_bytes, flags, out, err);
}

fx_status fxi_vocab_encode_marked(const fxi_vocab *v, const char *text, const char *own,
                                  size_t n_bytes, unsigned flags, fxi_ids *out, fx_error *err)
{
    if (n_bytes > MAX_TEXT_BYTES)
        return fxi_fail(err, FX_EINVAL, "a text of %zu bytes is too long", n_bytes);
    size_t bad = fxi_utf8_check(text, n_bytes);
    if (bad < n_bytes) return fxi_fail(err, FX_EINVAL, "bad UTF-8 at byte %zu", bad);
    job j = {.v = v, .out = out, .err = err};
    const size_t n_before = out->n;
    const fxi_specials *sp = own || flags & FXI_ENCODE_CONTROL ? &v->all : &v->user;
    fx_status st = encode(&j, sp, text, own, n_bytes, v->adds_space && (flags & FXI_ENCODE_SPACE));
    if (st != FX_OK) out->n = n_before;
    fxi_buf_free(&j.word);
    free(j.sym);
    free(j.heap);
    return st;
}
