// vocab_tokens.c - builds the parts of a vocabulary that each token decides: its type, what it adds
// to a text (also as the first token, and after another one), and the table of pairs that merge.
//
// MERGES lists the pairs. SCORES lets any two symbols merge whose joined text is a piece, the
// highest score first: so every piece is cut at each of its characters, and where both sides are
// symbols, they are a pair, ranked by the piece's score. Equal scores have equal ranks; then
// the leftmost pair of a text merges first. A character that occurs in pieces but is not a piece
// becomes a symbol without a token.
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/lookup/vocab_lookup.h"

// ---- what a token adds to a text ----------------------------------------------------------------

int fxi_piece_byte(fxi_str s)
{
    if (s.n != 6 || memcmp(s.p, "<0x", 3) || s.p[5] != '>') return -1;
    int hi = fxi_hex_digit(s.p[3]), lo = fxi_hex_digit(s.p[4]);
    return hi < 0 || lo < 0 ? -1 : hi << 4 | lo;
}

// Appends the piece with U+2581 as spaces; returns the bytes written.
static uint32_t decode_marks(const char *p, size_t n, char *dst)
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

// The byte that a character of GPT-2's alphabet spells, -1 for other characters: bytes that are
// printable in Latin-1 spell themselves, the others, in order, are U+0100 and up.
static int printable_byte(int32_t cp)
{
    static const struct {
        int first, last;
    } others[] = {{0x00, 0x20}, {0x7F, 0xA0}, {0xAD, 0xAD}};
    if (cp < 0x100) {
        for (size_t i = 0; i < 3; i++)
            if (cp >= others[i].first && cp <= others[i].last) return -1;
        return cp;
    }
    cp -= 0x100;
    for (size_t i = 0; i < 3; i++) {
        int n = others[i].last - others[i].first + 1;
        if (cp < n) return others[i].first + cp;
        cp -= n;
    }
    return -1;
}

// False: the piece has characters outside that alphabet.
static bool decode_printable(const char *p, size_t n, char *dst, uint32_t *n_dst)
{
    *n_dst = 0;
    for (size_t i = 0, len; i < n; i += len) {
        int byte = printable_byte(fxi_utf8_at(p + i, n - i, &len));
        if (byte < 0) return false;
        dst[(*n_dst)++] = (char)byte;
    }
    return true;
}

bool fxi_token_decode(fxi_vocab_spec *s, fxi_token *t)
{
    char text[FXI_MAX_PIECE_BYTES];
    uint32_t n = 0;
    t->text = t->piece;
    if (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_UNKNOWN) {
        t->text = (fxi_str){"", 0};
        return true;
    }
    if (t->type == FXI_TOKEN_BYTE) {
        text[n++] = (char)fxi_piece_byte(t->piece);
    } else if (s->spelling == FXI_SPELL_MARKS) {
        n = decode_marks(t->piece.p, t->piece.n, text);
    } else if (s->spelling == FXI_SPELL_PLAIN || t->type == FXI_TOKEN_USER ||
               !decode_printable(t->piece.p, t->piece.n, text, &n)) {
        t->merges &= s->spelling != FXI_SPELL_PRINTABLE;
        return true;
    }
    return fxi_spec_str(s, text, n, &t->text);
}

// ---- types of tokens ----------------------------------------------------------------------------

static bool is_between(fxi_str s, const char *left, const char *right)
{
    const size_t n_left = strlen(left), n_right = strlen(right);
    return s.n > n_left + n_right && !memcmp(s.p, left, n_left) &&
           !memcmp(s.p + s.n - n_right, right, n_right);
}

// Whether it is spelled like the marks of chat templates, which no text may become.
static bool looks_control(fxi_str s)
{
    static const char *const marks[] = {"<s>",    "</s>",    "<bos>",           "<eos>",
                                        "[INST]", "[/INST]", "<start_of_turn>", "<end_of_turn>"};
    if (fxi_str_is_any(s, marks, sizeof marks / sizeof *marks)) return true;
    return is_between(s, "<|", "|>") || is_between(s, "<\uFF5C", "\uFF5C>"); // DeepSeek's bars
}

fxi_token_type fxi_token_settle_type(const fxi_vocab_spec *s, const fxi_token *t)
{
    bool plain = t->type == FXI_TOKEN_NORMAL || t->type == FXI_TOKEN_UNDEFINED;
    if (plain && s->byte_fallback && fxi_piece_byte(t->piece) >= 0) return FXI_TOKEN_BYTE;
    if (t->type == FXI_TOKEN_USER && looks_control(t->piece)) return FXI_TOKEN_CONTROL;
    return plain ? FXI_TOKEN_NORMAL : (fxi_token_type)t->type;
}

// ---- what depends on a token's place in a text --------------------------------------------------

// Replaces a text by a shorter one, in place; returns the length left.
static size_t replace_shorter(char *p, size_t n, const char *from, const char *to)
{
    const size_t n_from = strlen(from), n_to = strlen(to);
    char *read = p, *write = p, *end = p + n;
    for (char *at; (at = memmem(read, (size_t)(end - read), from, n_from)); read = at + n_from) {
        memmove(write, read, (size_t)(at - read));
        write += at - read;
        memcpy(write, to, n_to);
        write += n_to;
    }
    memmove(write, read, (size_t)(end - read));
    return (size_t)(write - p) + (size_t)(end - read);
}

// As `tokenizers` and `transformers` tidy up a decoded text, token by token.
static size_t tidy_text(char *p, size_t n)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        n = replace_shorter(p, n, rules[i][0], rules[i][1]);
    return n;
}

// Sets *out to `head` and `rest` in one. False: out of memory.
static bool keep_text(fxi_vocab_spec *s, const char *head, fxi_str rest, fxi_str *out)
{
    char text[1 + FXI_MAX_PIECE_BYTES];
    const size_t n_head = strlen(head);
    memcpy(text, head, n_head);
    if (rest.n) memcpy(text + n_head, rest.p, rest.n);
    const size_t n = n_head + rest.n;
    return fxi_spec_str(s, text, s->tidies ? tidy_text(text, n) : n, out);
}

static bool join_words(fxi_vocab_spec *s, fxi_token *t, fxi_str *start)
{
    const fxi_str piece = t->text, head = s->join_inside;
    const bool inside = head.n && piece.n >= head.n && !memcmp(piece.p, head.p, head.n);
    const fxi_str rest = {piece.p + head.n, piece.n - head.n};
    return keep_text(s, "", piece, start) &&
           (inside ? keep_text(s, "", rest, &t->text) : keep_text(s, " ", piece, &t->text));
}

static bool join_marks(fxi_vocab_spec *s, const fxi_token *t, fxi_str *start)
{
    char text[FXI_MAX_PIECE_BYTES];
    if (t->type == FXI_TOKEN_BYTE) return true;
    if (t->piece.n) memcpy(text, t->piece.p, t->piece.n);
    return fxi_spec_str(s, text, replace_shorter(text, t->piece.n, FXI_SPACE_MARK, ""), start);
}

bool fxi_join_make(fxi_vocab *v)
{
    fxi_vocab_spec *s = &v->spec;
    bool ok = true;
    if (s->join == FXI_JOIN_NOTHING) return true;
    v->start_text = malloc(s->n_tok * sizeof *v->start_text);
    if (!v->start_text) return false;
    for (size_t id = 0; ok && id < s->n_tok; id++) {
        fxi_token *t = &s->tok[id];
        fxi_str *start = &v->start_text[id];
        *start = t->text;
        if (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_UNKNOWN) continue;
        ok = s->join == FXI_JOIN_MARKS ? join_marks(s, t, start) : join_words(s, t, start);
    }
    return ok;
}

enum {
    MIN_MEETS_BITS = 10,
    MAX_MEETS_BITS = 20,
    SIEVE_BITS = 2 // the sieve has four bits for each slot of the table
};

static const uint64_t MAX_CUTTING_BYTES = (uint64_t)1 << 33; // a few seconds

typedef struct pair_list {
    fxi_merge_pair *pair;
    size_t n, cap;
} pair_list;

static bool add_pair(pair_list *l, fxi_merge_pair p)
{
    if (!fxi_grow(&l->pair, sizeof *l->pair, l->n, &l->cap)) return false;
    l->pair[l->n++] = p;
    return true;
}

// ---- merges from scores -------------------------------------------------------------------------

static size_t unit_bytes(const fxi_vocab *v, const char *p, size_t n)
{
    size_t len = v->spec.unit_bytes ? 1 : (size_t)fxi_utf8_len((unsigned char)*p);
    return len && len <= n ? len : 1;
}

// The symbol with this text; a single unit without one becomes a symbol. *id is -1 for longer text
// without one. False: out of memory.
static bool find_or_add_symbol(fxi_vocab *v, const char *p, size_t n, int32_t *id)
{
    *id = fxi_index_find(&v->by_word, p, n);
    if (*id >= 0 || unit_bytes(v, p, n) < n) return true;
    if (!fxi_grow(&v->spec.tok, sizeof *v->spec.tok, (size_t)v->n_sym, &v->spec.cap_tok))
        return false;
    *id = v->n_sym++;
    v->spec.tok[*id] = (fxi_token){.piece = {p, n}, .text = {p, n}};
    return fxi_index_put(&v->by_word, *id);
}

// Adds the pairs that make a piece. False: out of memory.
static bool cut_piece(fxi_vocab *v, int32_t id, uint32_t rank, pair_list *l)
{
    const fxi_str w = fxi_token_word(v, id);
    for (size_t at = unit_bytes(v, w.p, w.n); at < w.n; at += unit_bytes(v, w.p + at, w.n - at)) {
        int32_t left, right;
        if (!find_or_add_symbol(v, w.p, at, &left)) return false;
        if (left < 0) continue;
        if (!find_or_add_symbol(v, w.p + at, w.n - at, &right)) return false;
        if (right >= 0 && !add_pair(l, (fxi_merge_pair){fxi_merge_key(left, right), rank, id}))
            return false;
    }
    return true;
}

static int compare_scores(const void *a, const void *b, void *vocab)
{
    const fxi_vocab *v = vocab;
    double x = v->spec.tok[*(const int32_t *)a].score, y = v->spec.tok[*(const int32_t *)b].score;
    return (x < y) - (x > y);
}

// The work of cutting all pieces: the sum of their lengths squared.
static uint64_t cutting_bytes(const fxi_vocab *v)
{
    uint64_t sum = 0;
    for (int32_t id = 0; id < v->n; id++) {
        uint64_t n = v->spec.tok[id].merges ? fxi_token_word(v, id).n : 0;
        sum += n * n;
    }
    return sum;
}

static bool pairs_of_scores(fxi_vocab *v, pair_list *l)
{
    size_t n = 0;
    int32_t *id = malloc(((size_t)v->n + 1) * sizeof *id);
    if (!id) return false;
    for (int32_t i = 0; i < v->n; i++) {
        fxi_str w = fxi_token_word(v, i);
        if (v->spec.tok[i].merges && fxi_index_find(&v->by_word, w.p, w.n) == i) id[n++] = i;
    }
    qsort_r(id, n, sizeof *id, compare_scores, v);
    bool ok = true;
    uint32_t rank = 0;
    for (size_t i = 0; ok && i < n; i++) {
        rank += i && v->spec.tok[id[i]].score != v->spec.tok[id[i - 1]].score;
        ok = cut_piece(v, id[i], rank, l);
    }
    free(id);
    return ok;
}

// ---- merges from a list -------------------------------------------------------------------------

static fx_status pairs_of_list(const fxi_vocab *v, pair_list *l, fx_error *err)
{
    const fxi_vocab_spec *s = &v->spec;
    if (s->n_merge >= UINT32_MAX) return fxi_fail(err, FX_EFORMAT, "%s: too many merges", s->name);
    for (size_t i = 0; i < s->n_merge; i++) {
        const fxi_spec_merge *m = &s->merge[i];
        const int32_t id[] = {m->left, m->right, m->to};
        for (size_t k = 0; k < 3; k++)
            if (id[k] < 0 || id[k] >= v->n)
                return fxi_fail(err, FX_EFORMAT, "%s: merge %zu has id %d, but there are %d tokens",
                                s->name, i, (int)id[k], (int)v->n);
        if (v->spec.tok[m->to].type == FXI_TOKEN_CONTROL) continue; // no text may become one
        if (!add_pair(l, (fxi_merge_pair){fxi_merge_key(m->left, m->right), (uint32_t)i, m->to}))
            return fxi_fail_memory(err);
    }
    return FX_OK;
}

// ---- the table of merges ------------------------------------------------------------------------

static bool make_table(fxi_merges *m, const pair_list *l)
{
    unsigned bits = 4;
    while ((uint64_t)1 << bits < 2 * (uint64_t)l->n) bits++;
    m->slot = malloc(sizeof *m->slot << bits);
    m->sieve = calloc((size_t)1 << (bits + SIEVE_BITS - 6), sizeof *m->sieve);
    if (!m->slot || !m->sieve) return false;
    memset(m->slot, -1, sizeof *m->slot << bits);
    m->mask = ((uint64_t)1 << bits) - 1;
    m->shift = 64 - bits;
    m->sieve_shift = m->shift - SIEVE_BITS;
    m->factor = fxi_secret_make().key[0] | 1;
    for (size_t i = 0; i < l->n; i++) {
        fxi_merge_pair *slot = fxi_merge_slot(m, l->pair[i].key);
        if (slot->to < 0) *slot = l->pair[i]; // the first of equal pairs stays
        const uint64_t bit = fxi_merge_sieve_bit(m, l->pair[i].key);
        m->sieve[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    return true;
}

// Which characters may merge: the last of a left side with the first of a right side.
static bool make_meets(fxi_vocab *v, const pair_list *l)
{
    fxi_merges *m = &v->merges;
    unsigned bits = MIN_MEETS_BITS;
    while (bits < MAX_MEETS_BITS && (size_t)1 << bits < 16 * l->n) bits++;
    m->meets_shift = 64 - bits;
    m->meets = calloc((size_t)1 << (bits - 6), sizeof *m->meets);
    if (!m->meets) return false;
    for (size_t i = 0; i < l->n; i++) {
        const uint64_t key = l->pair[i].key;
        fxi_str left = fxi_token_word(v, (int32_t)(key >> 32));
        fxi_str right = fxi_token_word(v, (int32_t)(uint32_t)key);
        if (!left.n || !right.n) continue;
        size_t n;
        uint32_t a = (uint32_t)fxi_cp_before(left.p, left.n, &n);
        uint32_t b = (uint32_t)fxi_utf8_at(right.p, right.n, &n);
        uint64_t bit = fxi_merge_meets_bit(m, a, b);
        m->meets[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    return true;
}

fx_status fxi_merges_make(fxi_vocab *v, fx_error *err)
{
    const fxi_vocab_spec *s = &v->spec;
    pair_list l = {0};
    fx_status st = FX_OK;
    if (v->spec.kind == FXI_VOCAB_MERGES)
        st = pairs_of_list(v, &l, err);
    else if (cutting_bytes(v) > MAX_CUTTING_BYTES)
        st = fxi_fail(err, FX_EFORMAT, "%s: too many long tokens", s->name);
    else if (!pairs_of_scores(v, &l))
        st = fxi_fail_memory(err);
    if (st == FX_OK && (!make_table(&v->merges, &l) || !make_meets(v, &l)))
        st = fxi_fail_memory(err);
    free(l.pair);
    return st;
}
