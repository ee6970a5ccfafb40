// small_spec.h - vocabularies for tests, from a spec made piece by piece.
#ifndef TESTS_SMALL_SPEC_H
#define TESTS_SMALL_SPEC_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/vocab/build/vocab_build.h"

#define SP "\xE2\x96\x81" // the space mark

static inline void must_be(bool ok)
{
    if (!ok) abort(); // out of memory, or a test's spec is broken
}

static inline fxi_str str_of(const char *text)
{
    return (fxi_str){text, strlen(text)};
}

static inline fxi_vocab_spec spec_of(fxi_vocab_kind kind)
{
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = kind;
    return s;
}

static inline int32_t add_piece(fxi_vocab_spec *s, const char *piece, double score, int type)
{
    fxi_token t = {.piece = str_of(piece), .score = score, .type = (uint8_t)type};
    must_be(fxi_spec_add_token(s, t));
    return (int32_t)s->n_tok - 1;
}

static inline int32_t find_in_spec(const fxi_vocab_spec *s, const char *piece)
{
    for (size_t i = s->n_tok; i-- > 0;)
        if (fxi_str_is(s->tok[i].piece, piece)) return (int32_t)i;
    abort();
}

// The merge of two pieces, and the piece they make, if it is new.
static inline void add_pair_of(fxi_vocab_spec *s, const char *left, const char *right)
{
    char both[64];
    int32_t to = -1;
    snprintf(both, sizeof both, "%s%s", left, right);
    for (size_t i = 0; i < s->n_tok; i++)
        if (fxi_str_is(s->tok[i].piece, both)) to = (int32_t)i;
    if (to < 0) to = add_piece(s, both, 0, FXI_TOKEN_NORMAL);
    must_be(
        fxi_spec_add_merge(s, (fxi_spec_merge){find_in_spec(s, left), find_in_spec(s, right), to}));
}

static inline void add_norm_of(fxi_vocab_spec *s, fxi_norm_kind kind, const char *from,
                               const char *to)
{
    must_be(fxi_spec_add_norm(s, (fxi_norm){.kind = kind, .from = str_of(from), .to = str_of(to)}));
}

static inline void add_split_of(fxi_vocab_spec *s, const char *pattern, fxi_split_how how,
                                bool invert)
{
    must_be(fxi_spec_add_split(
        s, (fxi_split){.pattern = str_of(pattern), .how = how, .invert = invert}));
}

static inline void add_byte_tokens(fxi_vocab_spec *s)
{
    char piece[8];
    s->byte_fallback = true;
    for (unsigned i = 0; i < 256; i++) {
        snprintf(piece, sizeof piece, "<0x%02X>", i & 255);
        add_piece(s, piece, 0, FXI_TOKEN_BYTE);
    }
}

// GPT-2's characters for all bytes: token i is byte i.
static inline void add_printable_bytes(fxi_vocab_spec *s)
{
    unsigned next = 0x100;
    s->spelling = FXI_SPELL_PRINTABLE;
    s->unit_bytes = true;
    for (unsigned i = 0; i < 256; i++) {
        bool itself = (i >= 0x21 && i <= 0x7E) || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        unsigned c = itself ? i : next++;
        char piece[] = {(char)(c < 0x80 ? c : 0xC0 | c >> 6),
                        (char)(c < 0x80 ? 0 : 0x80 | (c & 63)), 0};
        add_piece(s, piece, 0, FXI_TOKEN_NORMAL);
    }
}

static inline fxi_vocab *build_spec(fxi_vocab_spec *s)
{
    fxi_vocab *v = NULL;
    fx_error err;
    if (fxi_vocab_build(s, &v, &err) != FX_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return v;
}

#endif
