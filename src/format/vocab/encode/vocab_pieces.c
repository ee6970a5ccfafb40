// vocab_pieces.c - a word from the left, the longest piece each time: WordPiece, and WordLevel, in
// which no piece continues a word. A word that pieces cannot spell to its end is the unknown token.
#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"

// The length of the longest piece of the trie that s begins with, and its id; 0: none.
static size_t longest_piece(const fxi_trie *trie, const char *s, size_t n, int32_t *id)
{
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = 0; trie->n && i < n; i++) {
        node = fxi_trie_step(trie, node, (uint8_t)s[i]);
        if (!node) break;
        if (trie->node[node].id < 0) continue;
        best = i + 1;
        *id = trie->node[node].id;
    }
    return best;
}

static bool is_too_long(const fxi_vocab *v, const char *p, size_t n)
{
    size_t n_char = 0;
    if (!v->max_word || n <= v->max_word) return false;
    for (size_t i = 0; i < n; i++) n_char += ((unsigned char)p[i] & 0xC0) != 0x80;
    return n_char > v->max_word;
}

fx_status fxi_pieces_word(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    const size_t n_before = j->out->n;
    size_t at = 0, end = is_too_long(v, p, n) ? 0 : n;
    while (at < end) {
        int32_t id;
        const size_t len = longest_piece(at ? &v->inside : &v->words, p + at, n - at, &id);
        if (!len) break;
        FX_TRY(fxi_encode_put(j, id));
        at += len;
    }
    if (at == n) return FX_OK;
    j->out->n = n_before;
    return fxi_encode_put_unknown(j, p, n);
}
