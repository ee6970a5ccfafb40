// vocab_hf.c - tokenizer.json, as the library `tokenizers` writes it.
//
//   {"truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
//    "decoder", "model"}
//
// A step that is not supported is an error that names it; none is skipped. "truncation" and
// "padding" say how the file's last user made batches, and are left to ours.
// tokenizer_config.json next to it names BOS, EOS and the chat template.
//
// The models:
//
//   BPE        {"vocab": {piece: id}, "merges": ["a b"] or [["a", "b"]], unk_token, fuse_unk,
//               byte_fallback, ignore_merges}
//   Unigram    {"vocab": [[piece, score]], unk_id, byte_fallback}
//   WordPiece  {"vocab": {piece: id}, unk_token, continuing_subword_prefix,
//               max_input_chars_per_word}
//   WordLevel  {"vocab": {piece: id}, unk_token}
//
// Files older than the key "type" are recognized by their other keys, as in the library.
#include <float.h>
#include <math.h>
#include <string.h>

#include "format/show.h"
#include "format/vocab/read/vocab_hf.h"

// ---- pieces of BPE: an object with ids in any order ---------------------------------------------

static fx_status largest_id(const fxi_members *model, const fxi_json *vocab, size_t *n)
{
    *n = 0;
    for (fxi_json_iter it = fxi_json_members(vocab); fxi_json_next(&it);) {
        int32_t id;
        FX_TRY(fxi_hf_need_id(model, "vocab", it.value, &id));
        if ((size_t)id >= *n) *n = (size_t)id + 1;
    }
    const size_t n_piece = fxi_json_object_size(vocab);
    if (!n_piece) return fxi_members_fail(model, "vocab", "empty");
    if (*n > n_piece + (1 << 16))
        return fxi_members_fail(model, "vocab", "%zu pieces with ids up to %zu", n_piece, *n - 1);
    return FX_OK;
}

static fx_status put_piece(const fxi_hf *h, const fxi_members *model, fxi_str piece, size_t id)
{
    fxi_token *t = &h->s->tok[id];
    if (!piece.n) return FX_OK; // no text has it
    if (t->piece.n)
        return fxi_members_fail(model, "vocab", "'%s' and '%s' both have id %zu",
                                fxi_show_text(t->piece).s, fxi_show_text(piece).s, id);
    t->type = FXI_TOKEN_NORMAL;
    return fxi_spec_str(h->s, piece.p, piece.n, &t->piece) ? FX_OK : fxi_fail_memory(h->err);
}

static fx_status add_pieces(fxi_hf *h, const fxi_members *model)
{
    const fxi_json *vocab = fxi_members_part(model, "vocab").root;
    size_t n;
    if (!vocab) return fxi_members_fail(model, "vocab", "not an object");
    FX_TRY(largest_id(model, vocab, &n));
    for (size_t i = 0; i < n; i++)
        if (!fxi_spec_add_token(h->s, (fxi_token){.type = FXI_TOKEN_UNUSED}))
            return fxi_fail_memory(h->err);
    for (fxi_json_iter it = fxi_json_members(vocab); fxi_json_next(&it);) {
        const fxi_str piece = {it.key, it.key_bytes};
        FX_TRY(put_piece(h, model, piece, (size_t)fxi_json_int(it.value)));
    }
    return fxi_spec_index(h->s, &h->pieces) ? FX_OK : fxi_fail_memory(h->err);
}

// ---- merges of BPE ------------------------------------------------------------------------------

static fx_status find_piece(const fxi_hf *h, fxi_str piece, const fxi_members *at, const char *key,
                            int32_t *id)
{
    *id = piece.n ? fxi_index_find(&h->pieces, piece.p, piece.n) : -1;
    if (*id >= 0) return FX_OK;
    return fxi_members_fail(at, key, "'%s' is not in the vocabulary", fxi_show_text(piece).s);
}

// Both parts joined, in *room; NULL: out of memory.
static fxi_str join_parts(fxi_buf *room, const fxi_str part[2])
{
    fxi_buf_clear(room);
    const bool good =
        fxi_buf_add(room, part[0].p, part[0].n) && fxi_buf_add(room, part[1].p, part[1].n);
    return good ? (fxi_str){room->p, room->n} : (fxi_str){NULL, 0};
}

static fx_status add_merge(const fxi_hf *h, const fxi_str part[2], fxi_buf *room,
                           const fxi_members *at)
{
    fxi_spec_merge m;
    const fxi_str both = join_parts(room, part);
    if (!both.p) return fxi_fail_memory(h->err);
    FX_TRY(find_piece(h, part[0], at, NULL, &m.left));
    FX_TRY(find_piece(h, part[1], at, NULL, &m.right));
    FX_TRY(find_piece(h, both, at, NULL, &m.to));
    return fxi_spec_add_merge(h->s, m) ? FX_OK : fxi_fail_memory(h->err);
}

static bool is_piece(const fxi_hf *h, fxi_str piece)
{
    return piece.n && fxi_index_find(&h->pieces, piece.p, piece.n) >= 0;
}

// Cuts a line at its one space. Pieces may contain spaces: in a line with several, the cut is where
// both sides and the whole are pieces. False: there is no such place or more than one.
static bool cut_merge_line(const fxi_hf *h, fxi_str line, fxi_str part[2], fxi_buf *room)
{
    size_t n_space = 0, n_good = 0;
    for (size_t i = 0; i < line.n; i++) n_space += line.p[i] == ' ';
    for (size_t i = 0; i < line.n; i++) {
        const fxi_str cut[2] = {{line.p, i}, {line.p + i + 1, line.n - i - 1}};
        if (line.p[i] != ' ') continue;
        if (n_space > 1 &&
            !(is_piece(h, cut[0]) && is_piece(h, cut[1]) && is_piece(h, join_parts(room, cut))))
            continue;
        memcpy(part, cut, sizeof cut);
        n_good++;
    }
    return n_good == 1 && part[0].n && part[1].n;
}

static fx_status read_merge(const fxi_hf *h, fxi_buf *room, const fxi_members *at)
{
    enum { MAX_LINE_BYTES = 1 << 16 }; // every space in a line is tried
    const fxi_json *merge = at->root;
    const fxi_str line = fxi_json_string(merge);
    fxi_str part[2] = {fxi_json_string(fxi_json_at(merge, 0)),
                       fxi_json_string(fxi_json_at(merge, 1))};
    const bool is_pair = fxi_json_is_array(merge)
                             ? fxi_json_array_size(merge) == 2 && part[0].n && part[1].n
                             : line.n <= MAX_LINE_BYTES && cut_merge_line(h, line, part, room);
    return is_pair ? add_merge(h, part, room, at) : fxi_members_fail(at, NULL, "not two pieces");
}

static fx_status read_merges(const fxi_hf *h, const fxi_members *model, const fxi_json *list)
{
    fxi_buf both = {0};
    fx_status st = FX_OK;
    for (fxi_json_iter it = fxi_json_items(list); st == FX_OK && fxi_json_next(&it);) {
        // A file's first line may have become a merge: "#version: 0.2".
        const char *text = fxi_json_text(it.value);
        if (text && !strncmp(text, "#version", 8)) continue;
        const fxi_members at = fxi_members_item(model, "merges", it.i, it.value);
        st = read_merge(h, &both, &at);
    }
    fxi_buf_free(&both);
    return st;
}

// ---- the model ----------------------------------------------------------------------------------

static fx_status check_affix(const fxi_members *model, const char *key)
{
    fxi_str affix = {0};
    FX_TRY(fxi_members_str(model, key, false, &affix));
    return affix.n ? fxi_members_fail(model, key, "not supported, must be null or \"\"") : FX_OK;
}

static fx_status read_bpe(fxi_hf *h, const fxi_members *model)
{
    fxi_vocab_spec *s = h->s;
    const fxi_json *merges;
    fxi_str unk = {0};
    s->kind = FXI_VOCAB_MERGES;
    const fxi_json *dropout = fxi_members_get(model, "dropout");
    if (dropout && fxi_json_number(dropout) != 0)
        return fxi_members_fail(model, "dropout", "not supported, must be null");
    FX_TRY(check_affix(model, "continuing_subword_prefix"));
    FX_TRY(check_affix(model, "end_of_word_suffix"));
    FX_TRY(fxi_members_bool(model, "byte_fallback", &s->byte_fallback));
    FX_TRY(fxi_members_bool(model, "fuse_unk", &s->fuse_unknown));
    FX_TRY(fxi_members_bool(model, "ignore_merges", &s->whole_words));
    FX_TRY(fxi_members_str(model, "unk_token", false, &unk));
    FX_TRY(add_pieces(h, model));
    FX_TRY(fxi_members_array(model, "merges", &merges));
    if (unk.p) FX_TRY(find_piece(h, unk, model, "unk_token", &s->unk));
    return read_merges(h, model, merges);
}

static fx_status read_scored_piece(const fxi_hf *h, const fxi_members *at)
{
    const fxi_str piece = fxi_json_string(fxi_json_at(at->root, 0));
    const fxi_json *score = fxi_json_at(at->root, 1);
    if (!piece.p || !fxi_json_is_number(score) || fxi_json_array_size(at->root) != 2)
        return fxi_members_fail(at, NULL, "expected a piece and its score");
    const fxi_token t = {
        .piece = piece,
        .score = fxi_json_number(score),
        .type = piece.n ? FXI_TOKEN_NORMAL : FXI_TOKEN_UNUSED,
    };
    if (!(fabs(t.score) <= (double)FLT_MAX))
        return fxi_members_fail(at, NULL, "score out of range");
    return fxi_spec_add_token(h->s, t) ? FX_OK : fxi_fail_memory(h->err);
}

static fx_status read_unigram(fxi_hf *h, const fxi_members *model)
{
    fxi_vocab_spec *s = h->s;
    const fxi_json *vocab, *unk = fxi_members_get(model, "unk_id");
    s->kind = FXI_VOCAB_UNIGRAM;
    s->fuse_unknown = true;
    FX_TRY(fxi_members_bool(model, "byte_fallback", &s->byte_fallback));
    FX_TRY(fxi_members_array(model, "vocab", &vocab));
    for (fxi_json_iter it = fxi_json_items(vocab); fxi_json_next(&it);) {
        const fxi_members at = fxi_members_item(model, "vocab", it.i, it.value);
        FX_TRY(read_scored_piece(h, &at));
    }
    if (unk) FX_TRY(fxi_hf_need_id(model, "unk_id", unk, &s->unk));
    if (s->unk < (int64_t)s->n_tok) return FX_OK;
    return fxi_members_fail(model, "unk_id", "%d, but there are %zu pieces", (int)s->unk, s->n_tok);
}

// The unknown token may be missing: such words are dropped then.
static fx_status read_words(fxi_hf *h, const fxi_members *model)
{
    fxi_vocab_spec *s = h->s;
    fxi_str unk = {0};
    s->kind = FXI_VOCAB_WORDS;
    FX_TRY(fxi_members_str(model, "unk_token", false, &unk));
    FX_TRY(add_pieces(h, model));
    if (unk.n) s->unk = fxi_index_find(&h->pieces, unk.p, unk.n);
    return FX_OK;
}

static fx_status read_wordpiece(fxi_hf *h, const fxi_members *model)
{
    enum { USUAL_CHARS = 100, MOST_CHARS = 1 << 20 };
    fxi_vocab_spec *s = h->s;
    const fxi_json *most = fxi_members_get(model, "max_input_chars_per_word");
    s->inside = fxi_str_of("##");
    FX_TRY(fxi_members_str(model, "continuing_subword_prefix", false, &s->inside));
    if (!fxi_spec_str(s, s->inside.p, s->inside.n, &s->inside)) return fxi_fail_memory(h->err);
    const int64_t n = most ? fxi_json_int(most) : USUAL_CHARS;
    if (n < 1 || n > MOST_CHARS)
        return fxi_members_fail(model, "max_input_chars_per_word", "not a number from 1 to %d",
                                MOST_CHARS);
    s->max_word = (size_t)n;
    return read_words(h, model);
}

// The kind of a file without one, by its other keys.
static const char *guess_model(const fxi_json *model)
{
    if (fxi_json_get(model, "merges")) return "BPE";
    if (fxi_json_get(model, "unk_id")) return "Unigram";
    return fxi_json_get(model, "max_input_chars_per_word") ? "WordPiece" : NULL;
}

static fx_status read_hf_model(fxi_hf *h, const fxi_members *file)
{
    static const struct {
        const char *type;
        fx_status (*read)(fxi_hf *h, const fxi_members *model);
    } models[] = {
        {"BPE", read_bpe},
        {"Unigram", read_unigram},
        {"WordPiece", read_wordpiece},
        {"WordLevel", read_words},
    };
    const fxi_members model = fxi_members_part(file, "model");
    if (!model.root) return fxi_members_fail(file, "model", "not an object");
    const char *guess = guess_model(model.root);
    fxi_str type = guess ? fxi_str_of(guess) : (fxi_str){0};
    FX_TRY(fxi_members_str(&model, "type", !guess, &type));
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (fxi_str_is(type, models[i].type)) return models[i].read(h, &model);
    return fxi_members_fail(&model, "type",
                            "'%s' is not supported, only BPE, Unigram, WordPiece and WordLevel",
                            fxi_show_text(type).s);
}

// ---- added tokens -------------------------------------------------------------------------------

static fx_status put_added_token(const fxi_hf *h, const fxi_members *at, fxi_token t, size_t id)
{
    enum { MAX_GAP = 1 << 16 };
    fxi_vocab_spec *s = h->s;
    if (id > s->n_tok + MAX_GAP)
        return fxi_members_fail(at, NULL, "id %zu leaves a gap of more than %d ids", id, MAX_GAP);
    while (s->n_tok < id)
        if (!fxi_spec_add_token(s, (fxi_token){.type = FXI_TOKEN_UNUSED}))
            return fxi_fail_memory(h->err);
    if (id == s->n_tok) return fxi_spec_add_token(s, t) ? FX_OK : fxi_fail_memory(h->err);
    fxi_token *old = &s->tok[id];
    if (old->piece.n && fxi_str_compare(old->piece, t.piece))
        return fxi_members_fail(at, NULL, "id %zu is '%s' already", id,
                                fxi_show_text(old->piece).s);
    if (!old->piece.n && !fxi_spec_str(s, t.piece.p, t.piece.n, &t.piece))
        return fxi_fail_memory(h->err);
    if (old->piece.n) t.piece = old->piece;
    t.score = old->score;
    t.in_model = old->type == FXI_TOKEN_NORMAL;
    *old = t;
    return FX_OK;
}

// Empty tokens are skipped, as in the library.
static fx_status read_added_token(const fxi_hf *h, const fxi_members *at)
{
    fxi_token t = {.score = 0};
    bool special = false;
    int32_t id;
    FX_TRY(fxi_hf_need_id(at, "id", fxi_json_get(at->root, "id"), &id));
    FX_TRY(fxi_members_str(at, "content", true, &t.piece));
    FX_TRY(fxi_members_bool(at, "special", &special));
    FX_TRY(fxi_members_bool(at, "single_word", &t.whole_word));
    FX_TRY(fxi_members_bool(at, "lstrip", &t.eats_left));
    FX_TRY(fxi_members_bool(at, "rstrip", &t.eats_right));
    t.normalized = !special;
    FX_TRY(fxi_members_bool(at, "normalized", &t.normalized));
    t.type = special ? FXI_TOKEN_CONTROL : FXI_TOKEN_USER;
    return t.piece.n ? put_added_token(h, at, t, (size_t)id) : FX_OK;
}

static fx_status read_added_tokens(const fxi_hf *h, const fxi_members *file)
{
    const fxi_json *list;
    if (!fxi_members_get(file, "added_tokens")) return FX_OK;
    FX_TRY(fxi_members_array(file, "added_tokens", &list));
    for (fxi_json_iter it = fxi_json_items(list); fxi_json_next(&it);) {
        const fxi_members at = fxi_members_item(file, "added_tokens", it.i, it.value);
        FX_TRY(read_added_token(h, &at));
    }
    return FX_OK;
}

// ---- the file -----------------------------------------------------------------------------------

fx_status fxi_vocab_read_hf(fxi_str json, fxi_vocab_spec *s, fx_error *err)
{
    static const fxi_json_rules rules = {.nul_texts = true, .nul_keys = true};
    fxi_json_doc doc = {0};
    fxi_members file;
    fxi_hf h = {.s = s, .err = err};
    fx_status st = fxi_members_parse(json, &rules, false, s->name, &doc, &file, err);
    if (st == FX_OK) st = read_hf_model(&h, &file);
    if (st == FX_OK) st = read_added_tokens(&h, &file);
    if (st == FX_OK) st = fxi_hf_read_steps(&h, &file);
    fxi_index_free(&h.pieces);
    fxi_json_doc_free(&doc);
    return st;
}

// ---- tokenizer_config.json ----------------------------------------------------------------------

// A token, as a string or an object with its content: what stands for it is no text of a message.
// *id is unchanged if there is none.
static fx_status read_config_token(fxi_vocab_spec *s, const fxi_members *file, const char *key,
                                   int32_t *id)
{
    const fxi_json *token = fxi_members_get(file, key);
    if (fxi_json_is_object(token)) token = fxi_json_get(token, "content");
    if (token && !fxi_json_is_null(token)) {
        const fxi_str piece = fxi_json_string(token);
        if (!piece.n) return fxi_members_fail(file, key, "not a token");
        *id = fxi_spec_find(s, piece);
        if (*id < 0)
            return fxi_members_fail(file, key, "'%s' is not in the vocabulary",
                                    fxi_show_text(piece).s);
    }
    if (*id >= 0 && s->tok[*id].type == FXI_TOKEN_NORMAL) s->tok[*id].type = FXI_TOKEN_CONTROL;
    return FX_OK;
}

static fx_status read_config_root(fxi_vocab_spec *s, const fxi_members *file)
{
    FX_TRY(read_config_token(s, file, "bos_token", &s->bos));
    FX_TRY(read_config_token(s, file, "eos_token", &s->eos));
    FX_TRY(fxi_members_bool(file, "add_bos_token", &s->adds_bos));
    FX_TRY(fxi_members_bool(file, "add_eos_token", &s->adds_eos));
    if (s->adds_bos && s->bos < 0)
        return fxi_members_fail(file, "add_bos_token", "true, but there is none");
    if (s->adds_eos && s->eos < 0)
        return fxi_members_fail(file, "add_eos_token", "true, but there is none");
    // A string, or a list of {"name", "template"}, of which "default" is taken.
    const fxi_json *t = fxi_json_get(file->root, "chat_template");
    for (size_t i = 0; i < fxi_json_array_size(t); i++) {
        const fxi_json *entry = fxi_json_at(t, i);
        const char *name = fxi_json_text(fxi_json_get(entry, "name"));
        if (!name || strcmp(name, "default")) continue;
        t = fxi_json_get(entry, "template");
        break;
    }
    if (!fxi_json_is_string(t)) return FX_OK;
    return fxi_spec_str(s, fxi_json_text(t), fxi_json_string(t).n, &s->chat_template)
               ? FX_OK
               : fxi_fail_memory(file->err);
}

fx_status fxi_vocab_read_config(fxi_str json, fxi_vocab_spec *s, fx_error *err)
{
    // Integers as real numbers: model_max_length is 10^30 by default.
    static const fxi_json_rules rules = {.reals = true, .nul_texts = true, .nul_keys = true};
    fxi_json_doc doc = {0};
    fxi_members file;
    fx_status st = fxi_members_parse(json, &rules, false, s->name, &doc, &file, err);
    if (st == FX_OK) st = read_config_root(s, &file);
    fxi_json_doc_free(&doc);
    return st;
}
