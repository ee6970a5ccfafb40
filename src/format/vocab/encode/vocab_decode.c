// vocab_decode.c - queries about a vocabulary and its tokens, and ids to valid UTF-8.
//
// A token may hold only a part of a character. Bytes wait until their character is complete; bytes
// that can never become one are replaced by U+FFFD: one per longest prefix of a character, as in
// most programs, or one per byte, as in SentencePiece.
#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_tables.h"

// ---- queries ------------------------------------------------------------------------------------

int fxi_vocab_size(const fxi_vocab *v)
{
    return v->n;
}

int32_t fxi_vocab_bos(const fxi_vocab *v)
{
    return v->spec.bos;
}

int32_t fxi_vocab_eos(const fxi_vocab *v)
{
    return v->spec.eos;
}

bool fxi_vocab_adds_bos(const fxi_vocab *v)
{
    return v->spec.adds_bos && v->spec.bos >= 0;
}

bool fxi_vocab_adds_eos(const fxi_vocab *v)
{
    return v->spec.adds_eos && v->spec.eos >= 0;
}

bool fxi_vocab_has_words(const fxi_vocab *v)
{
    return v->spec.kind == FXI_VOCAB_WORDS;
}

const char *fxi_vocab_warning(const fxi_vocab *v)
{
    return v->spec.warning;
}

int32_t fxi_vocab_find(const fxi_vocab *v, const char *piece, size_t n_bytes)
{
    return fxi_index_find(&v->by_piece, piece, n_bytes);
}

// A model may have more rows than the vocabulary has tokens; the extra ids add no text.
static const fxi_token *token_at(const fxi_vocab *v, int32_t id)
{
    static const fxi_token none = {.piece = {"", 0}, .text = {"", 0}};
    return id >= 0 && id < v->n ? &v->spec.tok[id] : &none;
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
    *n_bytes = token_at(v, id)->text.n;
    return token_at(v, id)->text.p;
}

const char *fxi_vocab_piece(const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    *n_bytes = token_at(v, id)->piece.n;
    return token_at(v, id)->piece.p;
}

// ---- decoding -----------------------------------------------------------------------------------

static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

fxi_decoder fxi_decoder_begin(const fxi_vocab *v, bool at_start)
{
    return (fxi_decoder){.first = at_start,
                         .strip_space = at_start && v->spec.strips_space,
                         .each_byte = v->spec.spelling == FXI_SPELL_MARKS};
}

const char *fxi_decoder_bytes(fxi_decoder *d, const fxi_vocab *v, int32_t id, size_t *n_bytes)
{
    const bool first = d->first;
    if (fxi_vocab_control(v, id)) return fxi_vocab_bytes(v, id, n_bytes);
    d->first = false;
    if (!first || !v->start_text || id < 0 || id >= v->n) return fxi_vocab_bytes(v, id, n_bytes);
    *n_bytes = v->start_text[id].n;
    return v->start_text[id].p;
}

static bool add_replacement(const fxi_decoder *d, size_t n, fxi_buf *out)
{
    bool ok = fxi_buf_str(out, replacement);
    for (size_t i = 1; ok && d->each_byte && i < n; i++) ok = fxi_buf_str(out, replacement);
    return ok;
}

// Appends what is decided to *out; *n_done is the number of bytes it took.
static bool decode_bytes(const fxi_decoder *d, const char *p, size_t n, fxi_buf *out,
                         size_t *n_done)
{
    size_t at = 0;
    while (at < n) {
        size_t good = fxi_utf8_check(p + at, n - at);
        if (!fxi_buf_add(out, p + at, good)) return false;
        at += good;
        if (at == n || fxi_utf8_complete(p + at, n - at) == 0) break; // incomplete: it waits
        size_t bad = fxi_utf8_broken(p + at, n - at);
        if (!add_replacement(d, bad, out)) return false;
        at += bad;
    }
    *n_done = at;
    return true;
}

bool fxi_decoder_add(fxi_decoder *d, const char *bytes, size_t n, fxi_buf *out)
{
    size_t n_done = 0;
    if (d->strip_space && n) {
        if (*bytes == ' ') bytes++, n--;
        d->strip_space = false;
    }
    if (!d->raw.n) {
        if (!decode_bytes(d, bytes, n, out, &n_done)) return false;
        return fxi_buf_add(&d->raw, bytes + n_done, n - n_done);
    }
    if (!fxi_buf_add(&d->raw, bytes, n) || !decode_bytes(d, d->raw.p, d->raw.n, out, &n_done))
        return false;
    fxi_buf_drop_front(&d->raw, n_done);
    return true;
}

bool fxi_decoder_end(fxi_decoder *d, fxi_buf *out)
{
    bool ok = !d->raw.n || add_replacement(d, d->raw.n, out);
    fxi_buf_clear(&d->raw);
    return ok;
}

bool fxi_decoder_copy(fxi_decoder *to, const fxi_decoder *from)
{
    *to = *from;
    to->raw = (fxi_buf){0};
    return fxi_buf_add(&to->raw, from->raw.p, from->raw.n);
}

void fxi_decoder_free(fxi_decoder *d)
{
    fxi_buf_free(&d->raw);
}

// A control token as it is spelled; between words it stands like one.
static bool show_control(fxi_decoder *d, const fxi_vocab *v, int32_t id, fxi_buf *out)
{
    const bool space = v->spec.join == FXI_JOIN_WORDS && !d->first;
    size_t n;
    const char *p = fxi_vocab_piece(v, id, &n);
    d->first = false;
    return (!space || fxi_decoder_add(d, " ", 1, out)) && fxi_decoder_add(d, p, n, out);
}

bool fxi_vocab_decode(const fxi_vocab *v, const int32_t *id, size_t n_id, unsigned flags,
                      fxi_buf *out)
{
    const size_t n_before = out->n;
    fxi_decoder d = fxi_decoder_begin(v, true);
    bool ok = true;
    for (size_t i = 0; ok && i < n_id; i++) {
        size_t n;
        if (fxi_vocab_control(v, id[i])) {
            ok = !(flags & FXI_DECODE_CONTROL) || show_control(&d, v, id[i], out);
            continue;
        }
        const char *p = fxi_decoder_bytes(&d, v, id[i], &n);
        ok = fxi_decoder_add(&d, p, n, out);
    }
    ok = ok && fxi_decoder_end(&d, out);
    fxi_decoder_free(&d);
    if (!ok) out->n = n_before;
    return ok;
}
