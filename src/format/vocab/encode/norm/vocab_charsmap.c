// vocab_charsmap.c - SentencePiece's precompiled map from characters to characters.
//
//   bytes of the trie (32 bits) | trie: units of 32 bits | texts, each ending in a NUL
//
// The trie is a double array. A unit that a byte leads to holds the byte (low 8 bits), whether a
// key ends here (bit 8), and where its children are (bits 9 to 31, an offset xor-ed to the unit's
// own index). Child 0 of a unit where a key ends holds the value: an offset into the texts. At each
// byte of a text the longest key is taken. All integers are little endian.
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/norm/vocab_norm.h"

enum { MAX_KEY_BYTES = 256 };

typedef struct char_map {
    const char *unit; // [n_unit], unaligned
    size_t n_unit;
    fxi_str texts;
} char_map;

static uint32_t u32_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static bool open_map(fxi_str s, char_map *m)
{
    if (s.n < 4) return false;
    size_t n = u32_at(s.p);
    if (n < 4 || n % 4 || n > s.n - 4) return false;
    *m = (char_map){s.p + 4, n / 4, {s.p + 4 + n, s.n - 4 - n}};
    return true;
}

bool fxi_charsmap_check(fxi_str s)
{
    char_map m;
    return open_map(s, &m) && m.texts.n && !m.texts.p[m.texts.n - 1] &&
           fxi_utf8_check(m.texts.p, m.texts.n) == m.texts.n;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static bool is_start(const fxi_str s, size_t at)
{
    return at >= s.n || ((unsigned char)s.p[at] & 0xC0) != 0x80;
}

// The length of the longest key that s begins with, and its text; 0: none.
static size_t longest_key(const char_map *m, fxi_str s, fxi_str *text)
{
    size_t best = 0, node = offset_of(u32_at(m->unit));
    for (size_t i = 0; i < s.n && i < MAX_KEY_BYTES; i++) {
        const unsigned char byte = (unsigned char)s.p[i];
        node ^= byte;
        if (node >= m->n_unit) break;
        uint32_t unit = u32_at(m->unit + 4 * node);
        if ((unit & (1u << 31 | 0xFF)) != byte) break;
        node ^= offset_of(unit);
        if (node >= m->n_unit) break;
        if (!(unit >> 8 & 1) || !is_start(s, i + 1)) continue;
        size_t at = u32_at(m->unit + 4 * node) & ~(1u << 31);
        if (at >= m->texts.n || !is_start(m->texts, at)) continue;
        best = i + 1;
        *text = (fxi_str){m->texts.p + at, strlen(m->texts.p + at)};
    }
    return best;
}

// The length of the longest word of the trie that s begins with; 0: none.
static size_t longest_kept(const fxi_trie *kept, fxi_str s)
{
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = 0; kept->n && i < s.n; i++) {
        node = fxi_trie_step(kept, node, (uint8_t)s.p[i]);
        if (!node) break;
        if (kept->node[node].id >= 0 && is_start(s, i + 1)) best = i + 1;
    }
    return best;
}

bool fxi_charsmap_append(fxi_str s, const fxi_trie *kept, fxi_str text, fxi_buf *out)
{
    char_map m;
    if (!open_map(s, &m)) return false;
    for (size_t at = 0; at < text.n && out->n <= FXI_MAX_NORM_BYTES;) {
        const fxi_str rest = {text.p + at, text.n - at};
        fxi_str to = {rest.p, longest_kept(kept, rest)};
        size_t n = to.n;
        if (!n) {
            to.n = (size_t)fxi_utf8_len((unsigned char)*rest.p);
            n = longest_key(&m, rest, &to);
        }
        if (!fxi_buf_add(out, to.p, to.n)) return false;
        at += n ? n : to.n;
    }
    return true;
}
