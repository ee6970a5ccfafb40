// small_vocab.h - vocabularies for tests as GGUF bytes: the special tokens and all byte tokens,
// then the test's own.
#ifndef TESTS_SMALL_VOCAB_H
#define TESTS_SMALL_VOCAB_H

#include <stdio.h>

#include "format/vocab.h"
#include "unit/format/gguf_bytes.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
enum { ID_UNK, ID_BOS, ID_EOS, ID_BYTES, ID_OWN = ID_BYTES + 256 };

#define SP "\xE2\x96\x81" // the space mark

typedef struct small_token {
    const char *piece;
    float score;
    int32_t type;
} small_token;

typedef struct vocab_parts {
    const char *model; // "llama" if NULL
    const small_token *own;
    size_t n_own;
    bool no_bytes;   // without the byte tokens: own tokens begin at ID_BYTES
    int more_scores; // elements beyond the number of tokens
    int more_types;
    uint32_t bos;         // the key is absent if 0
    const char *template; // chat template, NULL: none
} vocab_parts;

static inline void put_special_pieces(fxi_buf *b, bool no_bytes)
{
    char piece[8];
    put_text(b, "<unk>");
    put_text(b, "<s>");
    put_text(b, "</s>");
    for (unsigned i = 0; i < 256 && !no_bytes; i++) {
        snprintf(piece, sizeof piece, "<0x%02X>", i & 255);
        put_text(b, piece);
    }
}

static inline fxi_buf vocab_file(const vocab_parts *p)
{
    fxi_buf b = {0};
    const uint32_t n_special = p->no_bytes ? ID_BYTES : ID_OWN;
    const uint64_t n = n_special + p->n_own;
    put_header(&b, 3, 0, 4 + (p->bos != 0) + (p->template != NULL));
    put_kv(&b, "tokenizer.ggml.model", FXI_GGUF_STR, "", 0);
    put_text(&b, p->model ? p->model : "llama");
    put_array(&b, "tokenizer.ggml.tokens", FXI_GGUF_STR, n);
    put_special_pieces(&b, p->no_bytes);
    for (size_t i = 0; i < p->n_own; i++) put_text(&b, p->own[i].piece);
    put_array(&b, "tokenizer.ggml.scores", FXI_GGUF_F32, n + (uint64_t)(int64_t)p->more_scores);
    put_zeros(&b, 4 * n_special);
    for (size_t i = 0; i < p->n_own; i++) put_bytes(&b, &p->own[i].score, 4);
    if (p->more_scores > 0) put_zeros(&b, 4 * (size_t)p->more_scores);
    if (p->more_scores < 0) b.n -= 4 * (size_t)-p->more_scores;
    put_array(&b, "tokenizer.ggml.token_type", FXI_GGUF_I32, n + (uint64_t)(int64_t)p->more_types);
    for (uint32_t i = 0; i < n_special; i++)
        put_u32(&b, i == ID_UNK ? UNKNOWN : i < ID_BYTES ? CONTROL : BYTE);
    for (size_t i = 0; i < p->n_own; i++) put_bytes(&b, &p->own[i].type, 4);
    if (p->more_types > 0) put_zeros(&b, 4 * (size_t)p->more_types);
    if (p->more_types < 0) b.n -= 4 * (size_t)-p->more_types;
    if (p->bos) put_kv(&b, "tokenizer.ggml.bos_token_id", FXI_GGUF_U32, &p->bos, 4);
    if (p->template) put_kv(&b, "tokenizer.chat_template", FXI_GGUF_STR, "", 0);
    if (p->template) put_text(&b, p->template);
    return b;
}

static inline fx_status load_parts(const vocab_parts *p, fxi_vocab **v, fx_error *err)
{
    fxi_buf b = vocab_file(p);
    fxi_gguf *g;
    fx_status st = fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, err);
    if (st == FX_OK) {
        st = fxi_vocab_load(g, v, err);
        fxi_gguf_close(g);
    }
    fxi_buf_free(&b);
    return st;
}

#endif
