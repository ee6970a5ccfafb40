// vocab_sentencepiece.c - reads tokenizer.model: the ModelProto message that SentencePiece's
// trainer writes.
//
//   1 pieces: 1 text, 2 score, 3 type           2 trainer_spec: what kind of model it is
//   3 normalizer_spec: changes to a text        5 denormalizer_spec: changes to decoded text
//
// SentencePiece normalizes the whole text and then looks for user-defined symbols in it, never for
// control symbols. In its unigram models a user-defined symbol is a piece like others, with a score
// that makes it win.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "format/show.h"
#include "format/vocab/read/protobuf.h"
#include "format/vocab/read/vocab_read.h"

enum { MAX_PIECES = 1 << 24 };

typedef enum sp_model_type { UNIGRAM = 1, BPE = 2 } sp_model_type;

typedef struct sp_reader {
    fxi_vocab_spec *s;
    fx_error *err;
    // trainer_spec
    uint64_t model;
    int64_t unk, bos, eos;
    uint64_t byte_fallback, space_suffix;
    // normalizer_spec
    fxi_str charsmap, denormalizer;
    uint64_t dummy_prefix, collapse, escape;
} sp_reader;

static fx_status wrong_type(const sp_reader *r, const char *message, uint32_t number)
{
    return fxi_fail(r->err, FX_EFORMAT, "%s: field %" PRIu32 " of %s has the wrong wire type",
                    r->s->name, number, message);
}

static fx_status check_end(const sp_reader *r, const fxi_pb *pb, const char *message)
{
    if (!pb->bad) return FX_OK;
    return fxi_fail(r->err, FX_EFORMAT, "%s: %s, byte %zu: %s", r->s->name, message, pb->at,
                    pb->bad);
}

//
// Messages with fields of numbers and bytes
//

typedef struct sp_field {
    uint32_t number;
    fxi_pb_wire wire;
    void *to; // uint64_t or int64_t of a VARINT, fxi_str of BYTES
} sp_field;

static fx_status take_field(const sp_reader *r, const char *message, const fxi_pb_field *f,
                            const sp_field *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].number != f->number) continue;
        if (list[i].wire != f->wire) return wrong_type(r, message, f->number);
        if (f->wire == FXI_PB_BYTES)
            *(fxi_str *)list[i].to = f->bytes;
        else
            *(uint64_t *)list[i].to = f->value;
    }
    return FX_OK;
}

static fx_status read_fields(const sp_reader *r, const char *message, fxi_str bytes,
                             const sp_field *list, size_t n)
{
    fxi_pb pb = fxi_pb_of(bytes.p, bytes.n);
    fxi_pb_field f;
    while (fxi_pb_next(&pb, &f)) FX_TRY(take_field(r, message, &f, list, n));
    return check_end(r, &pb, message);
}

static fx_status read_trainer(sp_reader *r, fxi_str bytes)
{
    const sp_field fields[] = {
        {3, FXI_PB_VARINT, &r->model},          {24, FXI_PB_VARINT, &r->space_suffix},
        {35, FXI_PB_VARINT, &r->byte_fallback}, {40, FXI_PB_VARINT, &r->unk},
        {41, FXI_PB_VARINT, &r->bos},           {42, FXI_PB_VARINT, &r->eos},
    };
    return read_fields(r, "trainer_spec", bytes, fields, sizeof fields / sizeof *fields);
}

static fx_status read_normalizer(sp_reader *r, fxi_str bytes)
{
    const sp_field fields[] = {
        {2, FXI_PB_BYTES, &r->charsmap},
        {3, FXI_PB_VARINT, &r->dummy_prefix},
        {4, FXI_PB_VARINT, &r->collapse},
        {5, FXI_PB_VARINT, &r->escape},
    };
    return read_fields(r, "normalizer_spec", bytes, fields, sizeof fields / sizeof *fields);
}

static fx_status read_denormalizer(sp_reader *r, fxi_str bytes)
{
    const sp_field fields[] = {{2, FXI_PB_BYTES, &r->denormalizer}};
    return read_fields(r, "denormalizer_spec", bytes, fields, 1);
}

//
// Pieces
//

// The numbers of SentencePiece's types are those of GGUF.
static fx_status check_piece(const sp_reader *r, fxi_str piece, float score, uint64_t type)
{
    const size_t id = r->s->n_tok;
    if (id == MAX_PIECES)
        return fxi_fail(r->err, FX_EFORMAT, "%s: more than %d pieces", r->s->name, MAX_PIECES);
    if (!piece.n) return fxi_fail(r->err, FX_EFORMAT, "%s: piece %zu is empty", r->s->name, id);
    if (type < FXI_TOKEN_NORMAL || type >= FXI_TOKEN_N_TYPE)
        return fxi_fail(r->err, FX_EFORMAT, "%s: piece %zu ('%s') has the unknown type %" PRIu64,
                        r->s->name, id, fxi_show_text(piece.p, piece.n).s, type);
    if (!isfinite(score))
        return fxi_fail(r->err, FX_EFORMAT, "%s: piece %zu ('%s') has the score %f", r->s->name, id,
                        fxi_show_text(piece.p, piece.n).s, (double)score);
    return FX_OK;
}

static fx_status read_piece(sp_reader *r, fxi_str bytes)
{
    fxi_str piece = {NULL, 0};
    uint64_t type = FXI_TOKEN_NORMAL;
    uint32_t score_bits = 0;
    float score;
    fxi_pb pb = fxi_pb_of(bytes.p, bytes.n);
    fxi_pb_field f;
    while (fxi_pb_next(&pb, &f)) {
        static const fxi_pb_wire wires[] = {FXI_PB_BYTES, FXI_PB_I32, FXI_PB_VARINT};
        if (f.number > 3) continue;
        if (f.wire != wires[f.number - 1]) return wrong_type(r, "a piece", f.number);
        if (f.number == 1) piece = f.bytes;
        if (f.number == 2) score_bits = (uint32_t)f.value;
        if (f.number == 3) type = f.value;
    }
    FX_TRY(check_end(r, &pb, "a piece"));
    memcpy(&score, &score_bits, sizeof score);
    FX_TRY(check_piece(r, piece, score, type));
    const fxi_spec_token t = {piece, score, (uint8_t)type, .normalized = true};
    return fxi_spec_add_token(r->s, t) ? FX_OK : fxi_spec_fail_memory(r->s, r->err);
}

static fx_status read_message(sp_reader *r, fxi_str bytes)
{
    static const struct {
        uint32_t number;
        fx_status (*read)(sp_reader *r, fxi_str bytes);
    } parts[] = {{1, read_piece}, {2, read_trainer}, {3, read_normalizer}, {5, read_denormalizer}};
    fxi_pb pb = fxi_pb_of(bytes.p, bytes.n);
    fxi_pb_field f;
    while (fxi_pb_next(&pb, &f))
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (parts[i].number != f.number) continue;
            if (f.wire != FXI_PB_BYTES) return wrong_type(r, "the model", f.number);
            FX_TRY(parts[i].read(r, f.bytes));
        }
    return check_end(r, &pb, "the model");
}

//
// What the messages imply
//

static fx_status check_model_kind(const sp_reader *r)
{
    static const char *const names[] = {[3] = "word", [4] = "char"};
    const char *name = r->model < sizeof names / sizeof *names ? names[r->model] : "unknown";
    if (!r->s->n_tok)
        return fxi_fail(r->err, FX_EFORMAT, "%s: no pieces: not a SentencePiece model", r->s->name);
    if (r->model != UNIGRAM && r->model != BPE)
        return fxi_fail(r->err, FX_EFORMAT,
                        "%s: trainer_spec.model_type %" PRIu64
                        " (%s) is not supported, only unigram and bpe",
                        r->s->name, r->model, name ? name : "unknown");
    if (r->space_suffix)
        return fxi_fail(r->err, FX_EFORMAT,
                        "%s: trainer_spec.treat_whitespace_as_suffix is not supported", r->s->name);
    if (!r->escape)
        return fxi_fail(r->err, FX_EFORMAT,
                        "%s: normalizer_spec.escape_whitespaces false is not supported",
                        r->s->name);
    if (r->denormalizer.n)
        return fxi_fail(r->err, FX_EFORMAT, "%s: a denormalizer_spec is not supported", r->s->name);
    return FX_OK;
}

static fx_status check_special_id(const sp_reader *r, const char *name, int64_t id, int32_t *out)
{
    if (id >= (int64_t)r->s->n_tok)
        return fxi_fail(r->err, FX_EFORMAT,
                        "%s: trainer_spec.%s is %" PRId64 ", but there are %zu pieces", r->s->name,
                        name, id, r->s->n_tok);
    *out = id < 0 ? -1 : (int32_t)id;
    return FX_OK;
}

// The one piece of type UNKNOWN, whatever trainer_spec says.
static fx_status find_unknown(const sp_reader *r)
{
    r->s->unk = -1;
    for (size_t i = 0; i < r->s->n_tok; i++) {
        if (r->s->tok[i].type != FXI_TOKEN_UNKNOWN) continue;
        if (r->s->unk >= 0)
            return fxi_fail(r->err, FX_EFORMAT, "%s: pieces %d and %zu are both of type UNKNOWN",
                            r->s->name, (int)r->s->unk, i);
        r->s->unk = (int32_t)i;
    }
    if (r->s->unk < 0)
        return fxi_fail(r->err, FX_EFORMAT, "%s: no piece is of type UNKNOWN", r->s->name);
    return FX_OK;
}

// An id of trainer_spec is valid if the piece is a control symbol, as in SentencePiece.
static int32_t control_or_none(const sp_reader *r, int32_t id)
{
    return id >= 0 && r->s->tok[id].type == FXI_TOKEN_CONTROL ? id : -1;
}

static fx_status settle_ids(const sp_reader *r)
{
    FX_TRY(find_unknown(r));
    FX_TRY(check_special_id(r, "bos_id", r->bos, &r->s->bos));
    FX_TRY(check_special_id(r, "eos_id", r->eos, &r->s->eos));
    r->s->bos = control_or_none(r, r->s->bos);
    r->s->eos = control_or_none(r, r->s->eos);
    r->s->adds_bos = r->s->bos >= 0;
    return FX_OK;
}

static fx_status add_norm_steps(const sp_reader *r)
{
    const fxi_str space = {" ", 1}, mark = {FXI_SPACE_MARK, FXI_SPACE_MARK_BYTES};
    const struct {
        bool wanted;
        fxi_norm norm;
    } steps[] = {
        {r->charsmap.n, {.kind = FXI_NORM_CHARSMAP, .from = r->charsmap}},
        {r->collapse, {.kind = FXI_NORM_COLLAPSE}},
        {r->dummy_prefix, {.kind = FXI_NORM_PREPEND, .to = space}},
        {true, {.kind = FXI_NORM_REPLACE, .from = space, .to = mark}},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted && !fxi_spec_add_norm(r->s, steps[i].norm))
            return fxi_spec_fail_memory(r->s, r->err);
    return FX_OK;
}

fx_status fxi_vocab_read_sentencepiece(const void *p, size_t n, fxi_vocab_spec *s, fx_error *err)
{
    sp_reader r = {.s = s,
                   .err = err,
                   .model = UNIGRAM,
                   .bos = 1,
                   .eos = 2,
                   .dummy_prefix = 1,
                   .collapse = 1,
                   .escape = 1};
    FX_TRY(read_message(&r, (fxi_str){p, n}));
    FX_TRY(check_model_kind(&r));
    FX_TRY(settle_ids(&r));
    s->kind = r.model == BPE ? FXI_VOCAB_SCORES : FXI_VOCAB_UNIGRAM;
    s->spelling = FXI_SPELL_MARKS;
    s->byte_fallback = r.byte_fallback;
    s->fuse_unknown = !r.byte_fallback;
    s->sums_float = true;
    s->strips_space = r.dummy_prefix || r.collapse;
    s->strips_spaces = r.collapse;
    s->user_in_model = s->kind == FXI_VOCAB_UNIGRAM;
    return add_norm_steps(&r);
}
