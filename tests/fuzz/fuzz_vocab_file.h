// fuzz_vocab_file.h - what the fuzz targets of vocabulary files share: a spec is built, and the
// vocabulary encodes and decodes a text.
#ifndef TESTS_FUZZ_VOCAB_FILE_H
#define TESTS_FUZZ_VOCAB_FILE_H

#include <string.h>

#include "base/fail.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/read/vocab_read.h"
#include "fuzz.h"

// For any file: ids are in range, and an error is one line.
static inline void fuzz_try_vocab(const fxi_vocab *v)
{
    static const char text[] =
        " Hello  w\xC3\xB6rld 123\n<s>a</s> \xE2\x96\x81\xF0\x9F\x98\x80 don't";
    for (unsigned flags = 0; flags < 4; flags++) {
        fxi_ids ids = {0};
        fx_error err = {.text = ""};
        fx_status st = fxi_vocab_encode(v, text, sizeof text - 1, flags, &ids, &err);
        FUZZ_CHECK(st == FX_OK || (err.text[0] && !ids.n && !strchr(err.text, '\n')));
        for (size_t i = 0; i < ids.n; i++)
            FUZZ_CHECK(ids.id[i] >= 0 && ids.id[i] < fxi_vocab_size(v));
        fxi_buf out = {0};
        FUZZ_CHECK(fxi_vocab_decode(v, ids.id, ids.n, 0, &out));
        fxi_buf_free(&out);
        fxi_ids_free(&ids);
    }
}

// After a reader has filled *s with the status st.
static inline void fuzz_try_spec(fxi_vocab_spec *s, fx_status st, fx_error *err)
{
    fxi_vocab *v = NULL;
    if (st == FX_OK) st = fxi_vocab_build(s, &v, err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EFORMAT && err->text[0] && !strchr(err->text, '\n')));
    if (st == FX_OK) fuzz_try_vocab(v);
    fxi_vocab_free(v);
    fxi_vocab_spec_free(s);
}

// A file of tests/vectors/tokenizers as a seed.
static inline bool fuzz_seed_file(const char *name, fxi_buf *out)
{
    char path[512];
    snprintf(path, sizeof path, FX_SOURCE_DIR "/tests/vectors/tokenizers/%s", name);
    FILE *f = fopen(path, "rb");
    FUZZ_CHECK(f && fxi_buf_reserve(out, 1 << 16));
    out->n = fread(out->p, 1, 1 << 16, f);
    out->p[out->n] = 0;
    fclose(f);
    return true;
}

#endif
