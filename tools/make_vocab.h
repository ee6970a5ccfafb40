// make_vocab.h - makes a plausible vocabulary of any size, for models with random weights.
#ifndef FX_TOOLS_MAKE_VOCAB_H
#define FX_TOOLS_MAKE_VOCAB_H

#include "format/gguf.h"

enum {
    MADE_UNK,
    MADE_BOS,
    MADE_EOS,
    MADE_FIRST_BYTE,
    MADE_MIN_TOKENS = 384, // room for special tokens, bytes and all printable ASCII characters
    MADE_MAX_TOKENS = 1 << 20,
};

typedef struct made_vocab {
    size_t n;
    fxi_str *piece; // [n]
    float *score;   // [n]
    int32_t *type;  // [n], GGUF's numbers
    char *pool;     // the pieces' bytes
} made_vocab;

// Pre: MADE_MIN_TOKENS <= n <= MADE_MAX_TOKENS. The same n gives the same vocabulary. False: out of
// memory.
bool made_vocab_create(size_t n, made_vocab *out);
void made_vocab_free(made_vocab *v);

#endif
