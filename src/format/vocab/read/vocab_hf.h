// vocab_hf.h - what the readers of tokenizer.json and tokenizer_config.json share: vocab_hf.c (the
// files and the model), vocab_hf_steps.c, vocab_hf_regex.c (patterns).
#ifndef FXI_FORMAT_VOCAB_HF_H
#define FXI_FORMAT_VOCAB_HF_H

#include "format/members.h"
#include "format/vocab/read/vocab_read.h"

typedef struct fxi_hf {
    fxi_vocab_spec *s;
    fx_error *err;
    fxi_index pieces; // kind BPE only; the file's reader frees it
    fxi_members at;   // the step that is read
    int how;          // what its row of the table says
    bool byte_level;  // a ByteLevel pre-tokenizer was met
    bool cuts;        // a split step was met: a step that changes the text cannot follow
    // What the decoder does: turns pieces into text, joins byte tokens, makes one string of them.
    bool decodes, joins_bytes, fuses;
} fxi_hf;

// ---- vocab_hf_regex.c: patterns -----------------------------------------------------------------

// What \w means inside a class: as in Oniguruma, where PCRE2 differs.
#define FXI_HF_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

// The step's "pattern", {"String": ..} or {"Regex": ..}, as PCRE2 needs it; *literal: it is the
// former, not quoted. The text lives as long as the spec and the file. Errors: FX_EFORMAT (what the
// two libraries read differently), FX_ENOMEM.
fx_status fxi_hf_read_pattern(fxi_hf *h, bool *literal, fxi_str *out);
// A text as a pattern that matches nothing else. Errors: FX_ENOMEM.
fx_status fxi_hf_quote(fxi_hf *h, fxi_str text, fxi_str *out);

// ---- vocab_hf_steps.c: steps --------------------------------------------------------------------

// Reads the file's normalizer, pre_tokenizer, decoder and post_processor. Pre: the spec has all
// tokens. Errors: FX_EFORMAT (a step that is not supported, or does not fit the others), FX_ENOMEM.
fx_status fxi_hf_read_steps(fxi_hf *h, const fxi_members *file);
// A number that may be a token's id, at `key`. Errors: FX_EFORMAT.
fx_status fxi_hf_need_id(const fxi_members *m, const char *key, const fxi_json *value,
                         int32_t *out);

#endif
