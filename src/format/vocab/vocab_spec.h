// vocab_spec.h - what a vocabulary is made from, whatever file it came from.
//
// A reader (vocab_gguf.c, vocab_hf.c, vocab_sentencepiece.c, vocab_ranks.c) fills a spec;
// vocab_build.c makes an immutable fxi_vocab of it. How a text becomes ids:
//
//   special tokens split off -> what lies between, through the norm steps -> cut by the split
//   steps -> each word through the model, by kind
//
// A spec owns what it points to, in its pool (fxi_spec_str) and its arrays (fxi_vocab_spec_free).
#ifndef FXI_FORMAT_VOCAB_SPEC_H
#define FXI_FORMAT_VOCAB_SPEC_H

#include "base/buf.h"
#include "format/vocab.h"

typedef enum fxi_vocab_kind {
    FXI_VOCAB_SCORES,  // neighbours whose joined piece has the highest score are joined first, the
                       // leftmost of equals: SentencePiece BPE; with scores of -rank, tiktoken
    FXI_VOCAB_MERGES,  // pairs of a list are joined, those that stand first in it first
    FXI_VOCAB_UNIGRAM, // the cutting with the highest sum of scores (Viterbi)
    FXI_VOCAB_N_KIND
} fxi_vocab_kind;

// How a normal token's piece spells bytes of text. User-defined and control tokens are spelled
// plainly.
typedef enum fxi_spelling {
    FXI_SPELL_PLAIN,     // the bytes themselves
    FXI_SPELL_MARKS,     // U+2581 for a space
    FXI_SPELL_PRINTABLE, // GPT-2's: each byte by a printable character of U+0021 to U+0143
    FXI_SPELL_N
} fxi_spelling;

typedef enum fxi_token_type { // GGUF's numbers
    FXI_TOKEN_UNDEFINED,
    FXI_TOKEN_NORMAL,
    FXI_TOKEN_UNKNOWN,
    FXI_TOKEN_CONTROL,
    FXI_TOKEN_USER,
    FXI_TOKEN_UNUSED,
    FXI_TOKEN_BYTE,
    FXI_TOKEN_N_TYPE
} fxi_token_type;

typedef struct fxi_spec_token {
    fxi_str piece; // as stored; of several tokens with the same piece, the last is found
    double score;  // of kinds SCORES and UNIGRAM; never NaN
    uint8_t type;  // fxi_token_type
    // Of added tokens (types USER and CONTROL), as tokenizer.json has them:
    bool eats_left, eats_right; // white space beside it belongs to it (lstrip, rstrip)
    bool whole_word;            // found only where no letter, digit or '_' stands beside it
    // Looked for in the text after the norm steps that are not `late` (and as these steps make its
    // own spelling, where norms_tokens is set); otherwise before all of them.
    bool normalized;
} fxi_spec_token;

typedef struct fxi_spec_merge {
    int32_t left, right, to; // ids: left and right side by side become `to`
} fxi_spec_merge;

// PREPEND and its kin are left out where a caller asks for no space (without FXI_ENCODE_SPACE).
typedef enum fxi_norm_kind {
    FXI_NORM_NFC,
    FXI_NORM_NFD,
    FXI_NORM_NFKC,
    FXI_NORM_NFKD,
    FXI_NORM_LOWERCASE,
    FXI_NORM_STRIP_ACCENTS, // marks of category Mn go
    FXI_NORM_PREPEND,       // `to` in front of a text that is not empty
    FXI_NORM_PREPEND_OTHER, // `to` in front of a text that is not empty nor begins with it
    FXI_NORM_PREPEND_FIRST, // the same, of the text with the whole's beginning alone (Metaspace's
                            // scheme "first")
    FXI_NORM_REPLACE,       // the literal `from` by `to`
    FXI_NORM_REPLACE_REGEX, // what matches the pattern `from` by the literal `to`
    FXI_NORM_STRIP_LEFT,    // white space at the beginning goes
    FXI_NORM_STRIP_RIGHT,
    FXI_NORM_COLLAPSE, // runs of spaces become one, those at the ends none (SentencePiece)
    FXI_NORM_CHARSMAP, // `from` is SentencePiece's precompiled map: a double-array trie, then texts
    FXI_NORM_N_KIND
} fxi_norm_kind;

typedef struct fxi_norm {
    fxi_norm_kind kind;
    fxi_str from, to;
    bool late; // a pre-tokenizer's: done to what lies between `normalized` tokens, after these were
               // split off; late steps stand last
} fxi_norm;

typedef enum fxi_split_how { // what becomes of a match
    FXI_SPLIT_ISOLATED,      // a word of its own
    FXI_SPLIT_REMOVED,
    FXI_SPLIT_MERGED_PREVIOUS, // joined to the word before it
    FXI_SPLIT_MERGED_NEXT,
    FXI_SPLIT_CONTIGUOUS, // matches side by side are one word
    FXI_SPLIT_N
} fxi_split_how;

// Each step cuts every word that the steps before it made.
typedef struct fxi_split {
    fxi_str pattern; // PCRE2 with UTF and UCP; a literal is quoted by the reader
    fxi_split_how how;
    bool invert; // what lies between matches counts as match, and the other way round
    bool bytes;  // the pattern sees each byte as a character (no UTF): words may cut a character
} fxi_split;

typedef struct fxi_vocab_spec {
    const char *name; // of the file, for errors; not owned
    fxi_vocab_kind kind;
    fxi_spelling spelling;
    bool unit_bytes;    // merging begins with single bytes, otherwise with characters
    bool byte_fallback; // a character without a piece becomes byte tokens, otherwise unk
    bool fuse_unknown;  // unknown tokens side by side become one
    bool whole_words;   // a word that is a piece is not merged (ignore_merges)
    // User-defined tokens are looked for with spaces where their piece has U+2581 (GGUF,
    // SentencePiece); otherwise as they are spelled.
    bool user_marks;
    // Kind UNIGRAM: user-defined tokens are pieces of the model whose score makes them win
    // (SentencePiece); otherwise they are split off.
    bool user_in_model;
    bool sums_float; // kind UNIGRAM: sums have single precision (SentencePiece), otherwise double
    fxi_spec_token *tok;
    size_t n_tok, cap_tok;
    fxi_spec_merge *merge; // [n_merge]; kind MERGES: the earlier, the sooner
    size_t n_merge, cap_merge;
    fxi_norm *norm;
    size_t n_norm, cap_norm;
    bool norms_tokens; // tokens marked `normalized` are looked for as the steps that are not late
                       // make their spelling (tokenizer.json); otherwise as stored (SentencePiece)
    fxi_split *split;
    size_t n_split, cap_split;
    int32_t bos, eos, unk;       // -1: none
    bool adds_bos, adds_eos;     // around a text
    bool strips_space;           // decoding drops one space at the very beginning of a text
    bool strips_spaces;          // with it: one of each token until there is text (SentencePiece)
    fxi_ids ends;                // ids that end a generation, beside eos and what is spelled so
    fxi_str chat_template;       // that the file, or one beside it, has; n = 0: none
    struct fxi_spec_block *pool; // of fxi_spec_str
} fxi_vocab_spec;

// Empty, ids of -1. Never fails.
void fxi_vocab_spec_init(fxi_vocab_spec *s, const char *name);
void fxi_vocab_spec_free(fxi_vocab_spec *s);

// All of these: false when memory is short. Strings are copied into the spec.
bool fxi_spec_str(fxi_vocab_spec *s, const char *p, size_t n, fxi_str *out);
bool fxi_spec_add_token(fxi_vocab_spec *s, fxi_spec_token t); // its id is n_tok before
bool fxi_spec_add_merge(fxi_vocab_spec *s, fxi_spec_merge m);
bool fxi_spec_add_norm(fxi_vocab_spec *s, fxi_norm n);
bool fxi_spec_add_split(fxi_vocab_spec *s, fxi_split p);

// The token with this piece (of several the last), -1: none. Looks at all of them.
int32_t fxi_spec_find(const fxi_vocab_spec *s, fxi_str piece);

// The split steps and the rest that belong to a pre-tokenizer's name ("gpt-2", "llama-bpe",
// "qwen2", ..) are added. Errors: FX_EFORMAT (no such name), FX_ENOMEM.
fx_status fxi_spec_add_pre(fxi_vocab_spec *s, fxi_str name, fx_error *err);

// A vocabulary of the spec, which may be freed afterwards.
// Errors: FX_EFORMAT (ids out of range, a pattern that PCRE2 refuses, no tokens), FX_ENOMEM. What a
// text holds that no token can spell is an error of encoding it.
fx_status fxi_vocab_build(const fxi_vocab_spec *s, fxi_vocab **out, fx_error *err);

// The readers. What they read may be closed afterwards. Errors: FX_EFORMAT (what and where),
// FX_ENOMEM.
fx_status fxi_vocab_read_gguf(const fxi_gguf *g, fxi_vocab_spec *s, fx_error *err);
fx_status fxi_vocab_read_hf(const char *json, size_t n, fxi_vocab_spec *s, fx_error *err);
fx_status fxi_vocab_read_sentencepiece(const void *p, size_t n, fxi_vocab_spec *s, fx_error *err);
// `pre` names the pre-tokenizer, which no rank file says; its special tokens follow the ranks.
fx_status fxi_vocab_read_ranks(const char *text, size_t n, const char *pre, fxi_vocab_spec *s,
                               fx_error *err);

// encoder.json and vocab.bpe; `pre` as for rank files.
fx_status fxi_vocab_read_pair(fxi_str vocab, fxi_str merges, const char *pre, fxi_vocab_spec *s,
                              fx_error *err);
// tokenizer_config.json, which stands beside a tokenizer.json: after it, what begins and ends a
// text, and the chat template.
fx_status fxi_vocab_read_config(const char *json, size_t n, fxi_vocab_spec *s, fx_error *err);

#endif
