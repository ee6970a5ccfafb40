// vocab_hf.h - what the readers of tokenizer.json share: vocab_hf.c (the file, its tokens),
// vocab_hf_model.c (the model), vocab_hf_steps.c and vocab_hf_after.c (the steps before and behind
// it), vocab_hf_regex.c (patterns); and those of other JSON files around a vocabulary.
//
// An error names the file and the place in it: "tokenizer.json: model.merges[7]: ...". A place is a
// path, cut if it is very long.
#ifndef FXI_FORMAT_VOCAB_HF_H
#define FXI_FORMAT_VOCAB_HF_H

#include <jansson.h>

#include "base/base64.h"
#include "base/error.h"
#include "format/vocab/vocab_impl.h"

// What \w stands for inside of a class: Oniguruma's, where PCRE2's is another.
#define FXI_HF_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

typedef struct fxi_hf {
    fxi_vocab_spec *s;
    fx_error *err;
    fxi_index pieces; // of kind BPE; the file's reader frees it
    bool byte_level;  // a ByteLevel pre-tokenizer was met
    bool cuts;        // a split step was met: what changes a text cannot follow any more
    // Of the decoder: it makes pieces text, joins byte tokens, makes one string of all.
    bool decodes, joins_bytes, fuses;
} fxi_hf;

typedef struct fxi_hf_path {
    char s[96];
} fxi_hf_path;

// "base.key" ("key" where base is ""), "base[i]"; by value, to stand among arguments.
fxi_hf_path fxi_hf_key(const char *base, const char *key);
fxi_hf_path fxi_hf_at(const char *base, size_t i);

// FX_EFORMAT: "FILE: PATH: ...".
__attribute__((format(printf, 3, 4))) fx_status fxi_hf_bad(const fxi_hf *h, const char *path,
                                                           const char *fmt, ...);
fx_status fxi_hf_no_memory(const fxi_hf *h);

// Members of an object. Absent and null are the default (of `str`: NULL); another type is an error.
fx_status fxi_hf_bool(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                      bool fallback, bool *out);
fx_status fxi_hf_str(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                     fxi_str *out);
fx_status fxi_hf_need_str(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                          fxi_str *out);
fx_status fxi_hf_need_array(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                            const json_t **out);
fx_status fxi_hf_need_object(const fxi_hf *h, const json_t *of, const char *path, const char *key,
                             const json_t **out);

// An id that a token may have, from 0 on.
fx_status fxi_hf_id(const fxi_hf *h, const json_t *value, const char *path, int32_t *out);

// model: fills tokens, merges, kind.
fx_status fxi_hf_model(fxi_hf *h, const json_t *root);

// Of {piece: id} the tokens, and h->pieces.
fx_status fxi_hf_pieces(fxi_hf *h, json_t *vocab);
// Of "a b" a merge; *room is to work in.
fx_status fxi_hf_merge_line(const fxi_hf *h, fxi_str line, fxi_buf *room, const char *path);

// normalizer, pre_tokenizer, decoder, post_processor: fill norms, splits, spelling, bos and eos.
fx_status fxi_hf_steps(fxi_hf *h, const json_t *root);

typedef struct fxi_hf_step {
    const char *type;
    fx_status (*read)(fxi_hf *h, const json_t *step, const char *path);
} fxi_hf_step;

typedef struct fxi_hf_steps_known {
    const char *key, *members; // of the file's object; of a Sequence's list
    const fxi_hf_step *step;
    size_t n;
} fxi_hf_steps_known;

// In vocab_hf_after.c: decoder and post_processor.
extern const fxi_hf_steps_known fxi_hf_decoders, fxi_hf_processors;
// After them: whether the decoder makes of the pieces what they mean.
fx_status fxi_hf_check_decoder(const fxi_hf *h);

// What Metaspace has, as pre-tokenizer and as decoder: how it puts a mark in front.
fx_status fxi_hf_metaspace(const fxi_hf *h, const json_t *step, const char *path, fxi_str *scheme);

// A pattern object, {"String": ..} or {"Regex": ..}, as PCRE2 wants it; *literal: it is the former,
// unquoted. The text lives as long as the spec and the object. Errors: FX_EFORMAT (what the two
// libraries read differently).
fx_status fxi_hf_pattern(fxi_hf *h, const json_t *pattern, const char *path, bool *literal,
                         fxi_str *out);
// The same, a literal quoted.
fx_status fxi_hf_quoted_pattern(fxi_hf *h, const json_t *pattern, const char *path, fxi_str *out);

// Limits of depth and size are jansson's, and so are the flags; *root is the caller's to free.
fx_status fxi_hf_parse(const char *json, size_t n, const char *name, size_t flags, json_t **root,
                       fx_error *err);

#endif
