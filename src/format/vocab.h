// vocab.h - text to token ids and back. Immutable after load: any thread may use it.
//
// A vocabulary is a model's own tokenizer: SentencePiece's BPE and unigram models, byte-level BPE
// with the pre-tokenizers of published models, WordPiece, rank files. vocab/spec/vocab_spec.h
// describes what it is made of.
//
// Text that is spelled like a control token stays text unless the caller says otherwise
// (FXI_ENCODE_CONTROL). Some files declare chat marks such as "<|im_end|>" or "</s>" as
// user-defined tokens; they are control tokens here, so that no message can spell them.
#ifndef FXI_FORMAT_VOCAB_H
#define FXI_FORMAT_VOCAB_H

#include "base/text/buf.h"
#include "format/gguf.h"

typedef struct fxi_vocab fxi_vocab;

typedef struct fxi_ids { // all zero: empty
    int32_t *id;
    size_t n, cap;
    size_t max; // encoding fails with FX_ECONTEXT where n would be more; 0: no limit
} fxi_ids;

bool fxi_ids_add(fxi_ids *ids, int32_t id); // false: out of memory, *ids is as before
void fxi_ids_free(fxi_ids *ids);            // empty again

// ---- loading ------------------------------------------------------------------------------------

// Reads tokenizer.ggml.* and copies what it keeps: the file may be closed. The caller frees *out.
// Errors: FX_EFORMAT (missing or broken keys, an unknown kind of tokenizer), FX_ENOMEM.
fx_status fxi_vocab_load(const fxi_gguf *g, fxi_vocab **out, fx_error *err);

// `path`: a GGUF file, a tokenizer.json, a folder with one, or a rank file. `pre`: for rank files
// the pre-tokenizer's name ("llama-bpe", "qwen2", ..), otherwise NULL.
// Appends the chat template of the files to *chat_template, if that is not NULL. The caller frees
// *out. Errors: FX_EIO, FX_EFORMAT (what and where), FX_EINVAL (`pre` for a file that names its
// own), FX_ENOMEM; *out is NULL then.
fx_status fxi_vocab_open(const char *path, const char *pre, fxi_buf *chat_template, fxi_vocab **out,
                         fx_error *err);

// Writes the vocabulary of a folder's tokenizer.json, and its chat template, as tokenizer.* keys of
// a GGUF file. The embedding has n_row rows; `ends` are ids that end a generation besides EOS.
// Errors: as fxi_vocab_open.
typedef struct fxi_gguf_writer fxi_gguf_writer;
fx_status fxi_vocab_describe(const char *folder, size_t n_row, const fxi_ids *ends,
                             fxi_gguf_writer *w, fx_error *err);

void fxi_vocab_free(fxi_vocab *v); // NULL is allowed

// One line about the file that its user should see, NULL: none. Lives as long as the vocabulary.
const char *fxi_vocab_warning(const fxi_vocab *v);

// ---- what the file declares ---------------------------------------------------------------------

int fxi_vocab_size(const fxi_vocab *v);       // tokens; ids are 0 .. size - 1
int32_t fxi_vocab_bos(const fxi_vocab *v);    // -1: none
int32_t fxi_vocab_eos(const fxi_vocab *v);    // -1: none
bool fxi_vocab_adds_bos(const fxi_vocab *v);  // BOS goes in front of a text
bool fxi_vocab_adds_eos(const fxi_vocab *v);  // EOS goes after a text
bool fxi_vocab_has_words(const fxi_vocab *v); // it splits words, as BERT's WordPiece does
// The id of exactly this piece (as stored, e.g. "<|im_end|>"), -1: none.
int32_t fxi_vocab_find(const fxi_vocab *v, const char *piece, size_t n_bytes);

// ---- tokens -------------------------------------------------------------------------------------
//
// An id outside the vocabulary is allowed: it adds no text, does not end a generation and is not a
// control token. Strings live as long as the vocabulary and are not NUL-terminated.

// An end-of-generation token: EOS, end of turn, and the like.
bool fxi_vocab_ends(const fxi_vocab *v, int32_t id);
// A control or unknown token: it adds no text.
bool fxi_vocab_control(const fxi_vocab *v, int32_t id);
// The bytes that a token adds to a text, if it is not the first: U+2581 is a space, a byte token is
// its byte, a control token is "".
const char *fxi_vocab_bytes(const fxi_vocab *v, int32_t id, size_t *n_bytes);
// The piece as stored ("▁the", "<0x0A>", "</s>").
const char *fxi_vocab_piece(const fxi_vocab *v, int32_t id, size_t *n_bytes);

// ---- encoding -----------------------------------------------------------------------------------

enum {
    // The text is a beginning, not a continuation: it gets the space in front that the vocabulary
    // requires, and so does text after special tokens, in vocabularies that put one there.
    FXI_ENCODE_SPACE = 1,
    // Text that is spelled like a control token becomes its id. User-defined tokens are split off
    // without the flag, too.
    FXI_ENCODE_CONTROL = 2,
};

// Appends the ids of text[0..n_bytes), without BOS and EOS, in O(n log n) time. Errors: FX_EINVAL
// ("bad UTF-8 at byte N"; a text over 256 MiB; a pattern of the vocabulary that takes too many
// steps), FX_ECONTEXT (more than out->max ids, found before a word is encoded wherever its length
// tells), FX_ENOMEM; *out is as before then. A character that no token spells becomes byte tokens
// or the unknown token, or is dropped where the vocabulary has neither.
fx_status fxi_vocab_encode(const fxi_vocab *v, const char *text, size_t n_bytes, unsigned flags,
                           fxi_ids *out, fx_error *err);

// The same for text with an owner per byte: own[i] nonzero if byte i may be part of a control
// token. Control tokens are found where all their bytes are own, and only there, as they are
// spelled and before any norm step; all other text is tokenized as one, regardless of its owner.
// FXI_ENCODE_CONTROL has no effect, unless own is NULL.
fx_status fxi_vocab_encode_marked(const fxi_vocab *v, const char *text, const char *own,
                                  size_t n_bytes, unsigned flags, fxi_ids *out, fx_error *err);

// ---- decoding -----------------------------------------------------------------------------------

// Appends the text of the ids: complete characters only, invalid UTF-8 as U+FFFD. Control and
// unknown tokens add nothing or, with the flag, their piece. False: out of memory, *out is as
// before.
enum { FXI_DECODE_CONTROL = 1 };
bool fxi_vocab_decode(const fxi_vocab *v, const int32_t *id, size_t n, unsigned flags,
                      fxi_buf *out);

// The same token by token. One owner; copy it with fxi_decoder_copy only.
typedef struct fxi_decoder {
    fxi_buf raw;      // bytes of an incomplete character
    bool first;       // no token yet: the next one may add other bytes than fxi_vocab_bytes says
    bool strip_space; // drop the next byte if it is the space that was put in front of the text
    bool each_byte;   // every invalid byte becomes a U+FFFD, otherwise every run of them
} fxi_decoder;

fxi_decoder fxi_decoder_begin(const fxi_vocab *v, bool at_start); // at_start: a text begins here
// The bytes that this token adds as the next one, for fxi_decoder_add.
const char *fxi_decoder_bytes(fxi_decoder *d, const fxi_vocab *v, int32_t id, size_t *n_bytes);
// Appends the characters that are complete now. False: out of memory.
bool fxi_decoder_add(fxi_decoder *d, const char *bytes, size_t n, fxi_buf *out);
bool fxi_decoder_end(fxi_decoder *d, fxi_buf *out); // an incomplete character becomes U+FFFD
bool fxi_decoder_copy(fxi_decoder *to, const fxi_decoder *from); // pre: *to holds nothing
void fxi_decoder_free(fxi_decoder *d);

#endif
