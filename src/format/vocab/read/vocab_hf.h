// vocab_hf.h - what the readers of tokenizer.json and tokenizer_config.json share: vocab_hf.c (the
// files and the model), vocab_hf_steps.c, vocab_hf_regex.c (patterns), vocab_hf_json.c.
//
// An error names the file and the place in it: "tokenizer.json: model.merges[7]: ...". A place is a
// path, cut if it is very long.
#ifndef FXI_FORMAT_VOCAB_HF_H
#define FXI_FORMAT_VOCAB_HF_H

#include "base/json/json.h"

#include "base/fail.h"
#include "format/vocab/read/vocab_read.h"

typedef struct fxi_hf {
    fxi_vocab_spec *s;
    fx_error *err;
    fxi_index pieces; // kind BPE only; the file's reader frees it
    bool byte_level;  // a ByteLevel pre-tokenizer was met
    bool cuts;        // a split step was met: a step that changes the text cannot follow
    // What the decoder does: turns pieces into text, joins byte tokens, makes one string of them.
    bool decodes, joins_bytes, fuses;
    bool has_decoder;
} fxi_hf;

// ---- vocab_hf_json.c: paths, errors, members ----------------------------------------------------

typedef struct fxi_hf_path {
    char s[96];
} fxi_hf_path;

// "base.key" ("key" where base is ""), "base[i]"; by value, to be used as arguments.
fxi_hf_path fxi_hf_path_key(const char *base, const char *key);
fxi_hf_path fxi_hf_path_at(const char *base, size_t i);

// FX_EFORMAT: "FILE: PATH: ...".
__attribute__((format(printf, 3, 4))) fx_status fxi_hf_fail(const fxi_hf *h, const char *path,
                                                            const char *fmt, ...);
fx_status fxi_hf_fail_memory(const fxi_hf *h); // FX_ENOMEM

// Parses an object; `reals` as in fxi_json_rules. The caller frees *doc, on errors too. Errors:
// FX_EFORMAT (line and cause, not an object), FX_ENOMEM.
fx_status fxi_hf_parse(const fxi_hf *h, fxi_str json, bool reals, fxi_json_doc *doc);

bool fxi_hf_is_absent(const fxi_json *value); // or null

// Members of an object, at `path`. An absent or null one is the fallback (of `str`: NULL); a wrong
// type is FX_EFORMAT. The `need` forms fail if it is absent.
fx_status fxi_hf_get_bool(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                          bool fallback, bool *out);
fx_status fxi_hf_get_str(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                         fxi_str *out);
fx_status fxi_hf_need_str(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                          fxi_str *out);
fx_status fxi_hf_need_array(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                            const fxi_json **out);
fx_status fxi_hf_need_object(const fxi_hf *h, const fxi_json *of, const char *path, const char *key,
                             const fxi_json **out);
// A number that may be a token's id.
fx_status fxi_hf_need_id(const fxi_hf *h, const fxi_json *value, const char *path, int32_t *out);

// ---- vocab_hf_regex.c: patterns -----------------------------------------------------------------

// What \w means inside a class: as in Oniguruma, where PCRE2 differs.
#define FXI_HF_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

// A pattern object, {"String": ..} or {"Regex": ..}, as PCRE2 needs it; *literal: it is the former,
// not quoted. The text lives as long as the spec and the object. Errors: FX_EFORMAT (what the two
// libraries read differently), FX_ENOMEM.
fx_status fxi_hf_read_pattern(fxi_hf *h, const fxi_json *pattern, const char *path, bool *literal,
                              fxi_str *out);
// A text as a pattern that matches nothing else. Errors: FX_ENOMEM.
fx_status fxi_hf_quote(fxi_hf *h, const char *path, fxi_str text, fxi_str *out);
// fxi_hf_read_pattern, a literal quoted.
fx_status fxi_hf_read_quoted_pattern(fxi_hf *h, const fxi_json *pattern, const char *path,
                                     fxi_str *out);

// ---- vocab_hf_steps.c: steps --------------------------------------------------------------------

typedef struct fxi_hf_step {
    const char *type;
    fx_status (*read)(fxi_hf *h, const fxi_json *step, const char *path);
} fxi_hf_step;

typedef struct fxi_hf_step_table {
    const char *key, *members; // in the file's object; the list in a Sequence
    const fxi_hf_step *step;
    size_t n;
} fxi_hf_step_table;

// The steps under known->key of the file's object, in order.
fx_status fxi_hf_read_steps(fxi_hf *h, const fxi_json *root, const fxi_hf_step_table *known);

// The supported steps. They fill norms, splits, spelling, bos and eos.
extern const fxi_hf_step_table fxi_hf_normalizers, fxi_hf_pre_tokenizers, fxi_hf_decoders,
    fxi_hf_processors;
// After all steps: whether the decoder turns the pieces into what they mean.
fx_status fxi_hf_check_decoder(const fxi_hf *h);

#endif
