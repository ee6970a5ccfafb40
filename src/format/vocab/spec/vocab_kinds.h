// vocab_kinds.h - the kinds of models, tokens and steps: the terms that readers, builder and
// encoder share.
#ifndef FXI_FORMAT_VOCAB_KINDS_H
#define FXI_FORMAT_VOCAB_KINDS_H

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

#endif
