// vocab.h - text to token ids and back. Immutable after load: any thread may use it.
//
// A vocabulary is what a model's own tokenizer is: SentencePiece's BPE and unigram models,
// byte-level BPE with the pre-tokenizers of published models, rank files. What it is made of:
// vocab/spec/vocab_spec.h.
//
// Text that a vocabulary's control tokens are spelled like stays text unless the caller says
// otherwise (FXI_ENCODE_CONTROL). Some files declare chat marks such as "<|im_end|>" or "</s>" as
// user-defined tokens; those are taken for control tokens here, so that no message can spell them.
#ifndef FXI_FORMAT_VOCAB_H
#define FXI_FORMAT_VOCAB_H

#include "base/buf.h"
#include "format/gguf.h"

typedef struct fxi_vocab fxi_vocab;

typedef struct fxi_ids {
    int32_t *id;
    size_t n, cap;
} fxi_ids;

bool fxi_ids_add(fxi_ids *ids, int32_t id); // false when memory is short
void fxi_ids_free(fxi_ids *ids);

// Reads tokenizer.ggml.*; copies what it keeps, so that the file may be closed.
// Errors: FX_EFORMAT (missing or broken keys, a tokenizer kind we do not read), FX_ENOMEM.
fx_status fxi_vocab_load(const fxi_gguf *g, fxi_vocab **out, fx_error *err);

// `path`: a GGUF file, a tokenizer.json, a SentencePiece model, a rank file, an encoder.json with
// its vocab.bpe beside it, or a folder with a tokenizer.json or tokenizer.model. `pre`: for rank
// files and pairs the pre-tokenizer's name ("llama-bpe", "qwen2", ..), otherwise NULL. Appends the
// chat template that the files hold to *chat_template, if that is not NULL. The caller frees *out.
// Errors: FX_EIO, FX_EFORMAT (what and where), FX_EINVAL (`pre` for a file that names its own),
// FX_ENOMEM; *out is NULL then.
fx_status fxi_vocab_open(const char *path, const char *pre, fxi_buf *chat_template, fxi_vocab **out,
                         fx_error *err);

void fxi_vocab_free(fxi_vocab *v); // NULL is allowed

int fxi_vocab_size(const fxi_vocab *v);
int32_t fxi_vocab_bos(const fxi_vocab *v); // -1 if there is none
int32_t fxi_vocab_eos(const fxi_vocab *v);
// What the file says of texts: a token in front and behind, a space in front (in the pieces' own
// way), a space at the beginning of what is decoded that is no part of the text.
bool fxi_vocab_adds_bos(const fxi_vocab *v);
bool fxi_vocab_adds_eos(const fxi_vocab *v);
bool fxi_vocab_adds_space(const fxi_vocab *v);
bool fxi_vocab_strips_space(const fxi_vocab *v);
bool fxi_vocab_ends(const fxi_vocab *v,
                    int32_t id); // an end-of-generation token: eos, eot, and kin
bool fxi_vocab_control(const fxi_vocab *v, int32_t id); // control or unknown token: adds no text
// The id of exactly this piece (as stored, e.g. "<|im_end|>"), -1 if absent.
int32_t fxi_vocab_find(const fxi_vocab *v, const char *piece, size_t n_bytes);

enum {
    // The text begins a text: it gets the space in front that the vocabulary asks for, and so does
    // what stands behind special tokens, where the vocabulary has it so.
    FXI_ENCODE_SPACE = 1,
    // What is spelled like a control token becomes its id. User-defined tokens are split off
    // anyway.
    FXI_ENCODE_CONTROL = 2,
};

// Appends the ids of text[0..n_bytes), no BOS and no EOS. Linear-logarithmic in n_bytes.
// Errors: FX_EINVAL ("bad UTF-8 at byte N"; a text of more than 256 MiB; a character that no token
// spells; a pattern of the vocabulary that gives up on it), FX_ENOMEM; then *out is as before.
fx_status fxi_vocab_encode(const fxi_vocab *v, const char *text, size_t n_bytes, unsigned flags,
                           fxi_ids *out, fx_error *err);

// The same of a text that is partly someone else's: own[i] nonzero says that byte i may be part of
// a control token. Control tokens are found where all their bytes are own, and nowhere else; all
// other text is tokenized as one, whoever wrote it. They are looked for as they are spelled,
// whatever norm steps there are. own NULL: as FXI_ENCODE_CONTROL says, which is without effect
// otherwise.
fx_status fxi_vocab_encode_marked(const fxi_vocab *v, const char *text, const char *own,
                                  size_t n_bytes, unsigned flags, fxi_ids *out, fx_error *err);

// The bytes a token adds to a text: U+2581 is a space again, byte tokens are their byte, control
// tokens are "". An id outside the vocabulary is allowed here, in `piece`, `ends` and `control`: it
// is no text, no end and no control token.
const char *fxi_vocab_bytes(const fxi_vocab *v, int32_t id, size_t *n_bytes);
// The ids as text, appended: whole characters alone, what is no UTF-8 as U+FFFD. Control and
// unknown tokens add nothing, unless the flag says that they are spelled as stored. False, with
// *out as before, when memory is short.
enum { FXI_DECODE_CONTROL = 1 };
bool fxi_vocab_decode(const fxi_vocab *v, const int32_t *id, size_t n, unsigned flags,
                      fxi_buf *out);

// The same token by token. One owner; copied by fxi_decoder_copy alone.
typedef struct fxi_decoder {
    fxi_buf raw;      // bytes that do not end a character yet
    bool strip_space; // the next byte is the space that the vocabulary put in front of a text
    bool strip_again; // so is the next token's, where a token was nothing else
    bool each_byte;   // every byte that is no UTF-8 becomes a U+FFFD; otherwise runs of them do
} fxi_decoder;

fxi_decoder fxi_decoder_begin(const fxi_vocab *v, bool at_start); // at_start: of a text
// Appends what is decided to *out. False when memory is short.
bool fxi_decoder_add(fxi_decoder *d, const char *bytes, size_t n, fxi_buf *out);
bool fxi_decoder_end(fxi_decoder *d, fxi_buf *out); // a cut-off character becomes U+FFFD
bool fxi_decoder_copy(fxi_decoder *to, const fxi_decoder *from); // to is empty
void fxi_decoder_free(fxi_decoder *d);

// The piece as stored ("▁the", "<0x0A>", "</s>").
const char *fxi_vocab_piece(const fxi_vocab *v, int32_t id, size_t *n_bytes);

#endif
