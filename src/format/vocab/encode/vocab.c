// vocab.c - queries: a vocabulary and its tokens.
#include "format/vocab/encode/vocab_tables.h"

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

bool fxi_vocab_adds_eos(const fxi_vocab *v)
{
    return v->adds_eos && v->eos >= 0;
}

bool fxi_vocab_adds_space(const fxi_vocab *v)
{
    return v->adds_space;
}

const char *fxi_vocab_warning(const fxi_vocab *v)
{
    return v->warning.n ? v->warning.p : NULL;
}

int32_t fxi_vocab_find(const fxi_vocab *v, const char *piece, size_t n_bytes)
{
    return fxi_index_find(&v->by_piece, piece, n_bytes);
}

// A model may have more rows than the vocabulary has tokens; the extra ids add no text.
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
