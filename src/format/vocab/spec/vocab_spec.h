// vocab_spec.h - what a vocabulary is made of, whatever file it came from: readers fill a spec, the
// builder checks it, completes it and makes it a part of the vocabulary. How a text becomes ids:
//
//   split off special tokens -> take what lies between through the norm steps -> cut it into words
//   by the split steps -> take each word through the model, by kind
//
// A spec owns what it points to, in its pool (fxi_spec_str) and its arrays (fxi_vocab_spec_free).
// One thread at a time.
#ifndef FXI_FORMAT_VOCAB_SPEC_H
#define FXI_FORMAT_VOCAB_SPEC_H

#include "format/vocab.h"
#include "format/vocab/lookup/vocab_lookup.h"

// ---- kinds of models, tokens and steps ----------------------------------------------------------

typedef enum fxi_vocab_kind {
    FXI_VOCAB_SCORES, // BPE that joins the two neighbours whose joined piece has the highest
    // score, the leftmost of equals: SentencePiece; with scores of -rank, tiktoken
    FXI_VOCAB_MERGES,  // BPE by a list of pairs, the earliest in the list first
    FXI_VOCAB_UNIGRAM, // the segmentation with the highest sum of scores (Viterbi)
    FXI_VOCAB_WORDS,   // from the left, the longest piece each time (WordPiece, WordLevel); a word
                       // that pieces cannot spell to its end is unknown as a whole
    FXI_VOCAB_N_KIND
} fxi_vocab_kind;

// How a normal token's piece spells bytes of text. User-defined and control tokens are spelled
// plainly.
typedef enum fxi_spelling {
    FXI_SPELL_PLAIN,     // the bytes themselves
    FXI_SPELL_MARKS,     // U+2581 for a space
    FXI_SPELL_PRINTABLE, // GPT-2's: each byte as a printable character of U+0021 to U+0143
    FXI_SPELL_N
} fxi_spelling;

// A space in spelling MARKS: U+2581.
#define FXI_SPACE_MARK       "\xE2\x96\x81"
#define FXI_SPACE_MARK_BYTES 3

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

// The PREPEND steps are skipped when a caller asks for no space (without FXI_ENCODE_SPACE).
typedef enum fxi_norm_kind {
    FXI_NORM_NFC,
    FXI_NORM_NFD,
    FXI_NORM_NFKC,
    FXI_NORM_NFKD,
    FXI_NORM_LOWERCASE,
    FXI_NORM_STRIP_ACCENTS, // removes marks: categories Mn, Mc and Me
    FXI_NORM_STRIP_MN,      // removes marks of category Mn only (BERT)
    FXI_NORM_CLEAN,         // removes U+0000, U+FFFD and control characters; white space becomes
                            // spaces (BERT)
    FXI_NORM_PAD_HAN,       // puts a space on both sides of every CJK ideograph (BERT)
    FXI_NORM_PREPEND,       // puts `to` in front of a text that is not empty
    FXI_NORM_PREPEND_OTHER, // the same, unless the text begins with it
    FXI_NORM_PREPEND_FIRST, // the same as OTHER, but only in front of the very first stretch of
                            // text (Metaspace's scheme "first")
    FXI_NORM_REPLACE,       // the literal `from` by `to`
    FXI_NORM_REPLACE_REGEX, // matches of the pattern `from` by the literal `to`
    FXI_NORM_STRIP_LEFT,    // removes white space at the beginning
    FXI_NORM_STRIP_RIGHT,
    FXI_NORM_COLLAPSE, // a run of spaces becomes one, at the ends none (SentencePiece)
    FXI_NORM_CHARSMAP, // `from` is SentencePiece's precompiled map: a double-array trie, then texts
    FXI_NORM_N_KIND
} fxi_norm_kind;

typedef enum fxi_split_how { // what happens to a match
    FXI_SPLIT_ISOLATED,      // a word of its own
    FXI_SPLIT_REMOVED,
    FXI_SPLIT_MERGED_PREVIOUS, // joined to the word before it
    FXI_SPLIT_MERGED_NEXT,
    FXI_SPLIT_CONTIGUOUS, // adjacent matches are one word
    FXI_SPLIT_N,
    FXI_SPLIT_CHANGE = FXI_SPLIT_N // not a cut: every word is taken through a norm step
} fxi_split_how;

typedef enum fxi_join_kind { // what decoding does between tokens, besides their own text
    FXI_JOIN_NOTHING,
    FXI_JOIN_MARKS, // the space marks of the first token are dropped (Metaspace's decoder)
    FXI_JOIN_WORDS, // a space between tokens, unless the second continues a word
    FXI_JOIN_N
} fxi_join_kind;

// ---- the spec -----------------------------------------------------------------------------------

typedef struct fxi_token {
    fxi_str piece; // as stored; a lookup finds the last of several tokens with the same piece
    fxi_str text;  // as decoded; made by the builder, as are `ends` and `merges`
    double score;  // kinds SCORES and UNIGRAM; never NaN
    uint8_t type;  // fxi_token_type
    bool ends;     // ends a generation
    bool merges;   // the model may produce it: neither control, unknown nor byte token
    // For added tokens (types USER and CONTROL), as in tokenizer.json:
    bool eats_left, eats_right; // adjacent white space belongs to it (lstrip, rstrip)
    bool whole_word;            // found only where no letter, digit or '_' is adjacent
    // Looked for in the text after the norm steps that are not `late`, spelled as these steps leave
    // it; otherwise before all norm steps.
    bool normalized;
    bool in_model; // the model may produce it, too (type USER)
} fxi_token;

typedef struct fxi_spec_merge {
    int32_t left, right, to; // ids: left and right, adjacent, become `to`
} fxi_spec_merge;

typedef struct fxi_norm {
    fxi_norm_kind kind;
    fxi_str from, to;
    bool late; // from a pre-tokenizer: runs on what lies between `normalized` tokens, after these
               // were split off. Late steps come last
    fxi_regex *regex; // REPLACE_REGEX only: `from` compiled, by the builder
} fxi_norm;

// Each step cuts, or changes, every word that the steps before it made.
typedef struct fxi_split {
    fxi_str pattern; // PCRE2 with UTF and UCP; a literal is quoted by the reader
    fxi_norm change; // FXI_SPLIT_CHANGE only, which has no pattern
    fxi_split_how how;
    bool invert; // what lies between matches counts as match, and the other way round
    bool bytes;  // the pattern sees each byte as a character (no UTF): words may cut a character
    fxi_regex *regex; // the pattern compiled, by the builder
} fxi_split;

typedef struct fxi_vocab_spec {
    const char *name; // the file's name, for errors; not owned
    fxi_vocab_kind kind;
    fxi_spelling spelling;
    bool unit_bytes;    // merging starts from single bytes, otherwise from characters
    bool byte_fallback; // a character without a piece becomes byte tokens, otherwise unk
    bool fuse_unknown;  // adjacent unknown tokens become one
    bool whole_words;   // a word that is a piece is not merged (ignore_merges)
    // User-defined tokens are looked for with spaces where their piece has U+2581 (GGUF);
    // otherwise as they are spelled.
    bool user_marks;
    bool sums_float; // kind UNIGRAM: sums have single precision (SentencePiece), otherwise double
    // Kind WORDS: pieces that begin with it continue a word. p = NULL: none does (WordLevel).
    fxi_str inside;
    size_t max_word; // kind WORDS: a word of more characters is unknown; 0: no limit
    fxi_token *tok;
    size_t n_tok, cap_tok;
    fxi_spec_merge *merge; // [n_merge]; kind MERGES: in order of precedence
    size_t n_merge, cap_merge;
    fxi_norm *norm;
    size_t n_norm, cap_norm;
    fxi_split *split;
    size_t n_split, cap_split;
    int32_t bos, eos, unk;   // -1: none
    bool adds_bos, adds_eos; // around a text
    bool adds_sep;           // GGUF only: eos goes after a text whatever adds_eos says
    fxi_join_kind join;
    fxi_str join_inside;         // JOIN_WORDS: pieces that begin with it continue a word
    bool tidies;                 // JOIN_WORDS: no space before marks and contractions
    bool strips_space;           // decoding drops one space at the very beginning of a text
    fxi_ids ends;                // ids that end a generation, besides eos and known spellings
    fxi_str chat_template;       // from the file or one next to it; n = 0: none
    const char *warning;         // one line about the file; NULL: none
    struct fxi_spec_block *pool; // memory of fxi_spec_str
} fxi_vocab_spec;

// Empty, ids of -1. Never fails.
void fxi_vocab_spec_init(fxi_vocab_spec *s, const char *name);
void fxi_vocab_spec_free(fxi_vocab_spec *s);

// All of these copy strings into the spec and return false when out of memory.
bool fxi_spec_str(fxi_vocab_spec *s, const char *p, size_t n, fxi_str *out);
bool fxi_spec_add_token(fxi_vocab_spec *s, fxi_token t); // its id is n_tok before the call
bool fxi_spec_add_merge(fxi_vocab_spec *s, fxi_spec_merge m);
bool fxi_spec_add_norm(fxi_vocab_spec *s, fxi_norm n);
bool fxi_spec_add_split(fxi_vocab_spec *s, fxi_split p);

// Sets the warning: "NAME: ...". Of several, the first stays. False: out of memory.
__attribute__((format(printf, 2, 3))) bool fxi_spec_warn(fxi_vocab_spec *s, const char *fmt, ...);

// The id of the token with this piece (the last of several), -1: none. A linear search.
int32_t fxi_spec_find(const fxi_vocab_spec *s, fxi_str piece);

// An index over the pieces; the spec must outlive it. Of equal pieces it finds a normal token
// before a user-defined or control token. False: out of memory.
bool fxi_spec_index(const fxi_vocab_spec *s, fxi_index *x);

fxi_str fxi_spec_piece(const void *spec, int32_t id); // as an index asks for its keys

// What BERT's normalizer does to a text.
typedef struct fxi_bert {
    bool cleans, pads_han, strips, lowers;
} fxi_bert;

// Its norm steps, and its pre-tokenizer (white space is dropped, marks are words).
// False: out of memory.
bool fxi_spec_add_bert_norms(fxi_vocab_spec *s, fxi_bert how);
bool fxi_spec_add_bert_splits(fxi_vocab_spec *s);

// Adds the norm and split steps of a pre-tokenizer known by name ("gpt-2", "llama-bpe", "qwen2",
// ..). Errors: FX_EFORMAT (unknown name), FX_ENOMEM.
fx_status fxi_spec_add_pre(fxi_vocab_spec *s, fxi_str name, fx_error *err);

#endif
