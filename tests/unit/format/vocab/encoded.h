// encoded.h - what a text becomes by a vocabulary, as tests compare it.
#ifndef TESTS_ENCODED_H
#define TESTS_ENCODED_H

#include <string.h>

#include "format/vocab.h"
#include "unit/cmocka_all.h"

// own: NULL, or an 'x' for every byte that may be part of a control token.
static inline fxi_ids ids_of(const fxi_vocab *v, const char *text, size_t n, const char *own,
                             unsigned flags)
{
    char mine[64];
    fxi_ids ids = {0};
    fx_error err;
    assert_true(!own || (strlen(own) == n && n <= sizeof mine));
    for (size_t i = 0; own && i < n; i++) mine[i] = own[i] == 'x';
    if (fxi_vocab_encode_marked(v, text, own ? mine : NULL, n, flags, &ids, &err) != FX_OK)
        fail_msg("'%s': %s", text, err.text);
    return ids;
}

// The pieces of a text, each as the printf format spells its length and bytes ("%.*s|"); `special`:
// the format of ids from 256 on, NULL: the same.
static inline fxi_buf pieces_of(const fxi_vocab *v, fxi_ids ids, const char *format,
                                const char *special)
{
    fxi_buf out = {0};
    for (size_t i = 0; i < ids.n; i++) {
        size_t n;
        const char *p = fxi_vocab_piece(v, ids.id[i], &n);
        assert_true(fxi_buf_fmt(&out, special && ids.id[i] >= 256 ? special : format, (int)n, p));
    }
    assert_true(fxi_buf_str(&out, ""));
    fxi_ids_free(&ids);
    return out;
}

// "7 8 9"
static inline fxi_buf numbers_of(fxi_ids ids)
{
    fxi_buf out = {0};
    for (size_t i = 0; i < ids.n; i++)
        assert_true(fxi_buf_fmt(&out, i ? " %d" : "%d", (int)ids.id[i]));
    assert_true(fxi_buf_str(&out, ""));
    fxi_ids_free(&ids);
    return out;
}

static inline void expect_numbers(const fxi_vocab *v, const char *text, unsigned flags,
                                  const char *want)
{
    fxi_buf got = numbers_of(ids_of(v, text, strlen(text), NULL, flags));
    if (strcmp(got.p, want)) fail_msg("'%s' became %s, not %s", text, got.p, want);
    fxi_buf_free(&got);
}

#endif
