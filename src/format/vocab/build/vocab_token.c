// vocab_token.c - one token: its type, and the bytes it adds to a text.
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/build/vocab_build.h"

//
// What a token adds to a text
//

static int hex_digit(char c)
{
    static const char digits[] = "0123456789ABCDEFabcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return !at ? -1 : at - digits < 16 ? (int)(at - digits) : (int)(at - digits) - 6;
}

int fxi_piece_byte(fxi_str s)
{
    if (s.n != 6 || memcmp(s.p, "<0x", 3) || s.p[5] != '>') return -1;
    int hi = hex_digit(s.p[3]), lo = hex_digit(s.p[4]);
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

void fxi_token_decode(const fxi_vocab *v, fxi_token *t, char *dst)
{
    t->text = dst;
    if (t->type == FXI_TOKEN_CONTROL || t->type == FXI_TOKEN_UNKNOWN) return;
    if (t->type == FXI_TOKEN_BYTE) {
        *dst = (char)fxi_piece_byte((fxi_str){t->piece, t->n_piece});
        t->n_text = 1;
    } else if (v->spelling == FXI_SPELL_MARKS) {
        t->n_text = decode_marks(t->piece, t->n_piece, dst);
    } else if (v->spelling == FXI_SPELL_PLAIN || t->type == FXI_TOKEN_USER ||
               !decode_printable(t->piece, t->n_piece, dst, &t->n_text)) {
        memcpy(dst, t->piece, t->n_piece);
        t->n_text = t->n_piece;
        t->merges &= v->spelling != FXI_SPELL_PRINTABLE;
    }
}

//
// Types
//

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

fxi_token_type fxi_token_settle_type(const fxi_vocab *v, const fxi_spec_token *t)
{
    bool plain = t->type == FXI_TOKEN_NORMAL || t->type == FXI_TOKEN_UNDEFINED;
    if (plain && v->byte_fallback && fxi_piece_byte(t->piece) >= 0) return FXI_TOKEN_BYTE;
    if (t->type == FXI_TOKEN_USER && looks_control(t->piece)) return FXI_TOKEN_CONTROL;
    return plain ? FXI_TOKEN_NORMAL : (fxi_token_type)t->type;
}
