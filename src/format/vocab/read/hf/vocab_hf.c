// vocab_hf.c - tokenizer.json, as the library `tokenizers` writes it.
//
//   {"truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
//    "decoder", "model"}
//
// A step that is not supported is an error that names it; none is skipped. "truncation" and
// "padding" say how the file's last user made batches, and are left to ours.
#include <string.h>

#include "format/show.h"
#include "format/vocab/read/hf/vocab_hf.h"

//
// Added tokens
//

static fx_status read_added_token(const fxi_hf *h, const json_t *of, const char *path,
                                  fxi_spec_token *t)
{
    bool special;
    FX_TRY(fxi_hf_need_str(h, of, path, "content", &t->piece));
    FX_TRY(fxi_hf_get_bool(h, of, path, "special", false, &special));
    FX_TRY(fxi_hf_get_bool(h, of, path, "single_word", false, &t->whole_word));
    FX_TRY(fxi_hf_get_bool(h, of, path, "lstrip", false, &t->eats_left));
    FX_TRY(fxi_hf_get_bool(h, of, path, "rstrip", false, &t->eats_right));
    FX_TRY(fxi_hf_get_bool(h, of, path, "normalized", !special, &t->normalized));
    t->type = special ? FXI_TOKEN_CONTROL : FXI_TOKEN_USER;
    return FX_OK;
}

// Fills the ids up to n with unused tokens.
static fx_status fill_ids_up_to(const fxi_hf *h, size_t n, const char *path)
{
    enum { MAX_GAP = 1 << 16 };
    if (n > h->s->n_tok + MAX_GAP)
        return fxi_hf_fail(h, path, "id %zu leaves more than %d ids before it unused", n, MAX_GAP);
    while (h->s->n_tok < n)
        if (!fxi_spec_add_token(h->s, (fxi_spec_token){.type = FXI_TOKEN_UNUSED}))
            return fxi_hf_fail_memory(h);
    return FX_OK;
}

static fx_status put_added_token(const fxi_hf *h, fxi_spec_token t, int32_t id, const char *path)
{
    fxi_vocab_spec *s = h->s;
    FX_TRY(fill_ids_up_to(h, (size_t)id, path));
    if ((size_t)id == s->n_tok) return fxi_spec_add_token(s, t) ? FX_OK : fxi_hf_fail_memory(h);
    fxi_spec_token *old = &s->tok[id];
    if (old->piece.n && fxi_str_compare(old->piece, t.piece))
        return fxi_hf_fail(h, path, "id %d is '%s' already", (int)id,
                           fxi_show_text(old->piece.p, old->piece.n).s);
    if (!old->piece.n && !fxi_spec_str(s, t.piece.p, t.piece.n, &t.piece))
        return fxi_hf_fail_memory(h);
    if (old->piece.n) t.piece = old->piece;
    t.score = old->score;
    t.in_model = old->type == FXI_TOKEN_NORMAL;
    *old = t;
    return FX_OK;
}

// Empty tokens are skipped, as in the library.
fx_status fxi_hf_add_token(const fxi_hf *h, const json_t *of, const char *path, int32_t id)
{
    fxi_spec_token t = {.score = 0};
    FX_TRY(read_added_token(h, of, path, &t));
    return t.piece.n ? put_added_token(h, t, id, path) : FX_OK;
}

static fx_status read_added_tokens(const fxi_hf *h, const json_t *root)
{
    const json_t *list = json_object_get(root, "added_tokens");
    if (fxi_hf_is_absent(list)) return FX_OK;
    if (!json_is_array(list)) return fxi_hf_fail(h, "added_tokens", "not an array");
    for (size_t i = 0; i < json_array_size(list); i++) {
        int32_t id = -1;
        const json_t *token = json_array_get(list, i);
        const fxi_hf_path path = fxi_hf_path_at("added_tokens", i);
        FX_TRY(
            fxi_hf_need_id(h, json_object_get(token, "id"), fxi_hf_path_key(path.s, "id").s, &id));
        FX_TRY(fxi_hf_add_token(h, token, path.s, id));
    }
    return FX_OK;
}

//
// Steps
//

static bool is_byte_piece(fxi_str piece)
{
    static const char digits[] = "0123456789ABCDEF";
    return piece.n == 6 && !memcmp(piece.p, "<0x", 3) && piece.p[5] == '>' &&
           memchr(digits, piece.p[3], 16) && memchr(digits, piece.p[4], 16);
}

static void mark_byte_tokens(fxi_vocab_spec *s)
{
    for (size_t i = 0; i < s->n_tok; i++)
        if (s->tok[i].type == FXI_TOKEN_NORMAL && is_byte_piece(s->tok[i].piece))
            s->tok[i].type = FXI_TOKEN_BYTE;
}

static fx_status read_all_steps(fxi_hf *h, const json_t *root)
{
    static const fxi_hf_step_table *const parts[] = {&fxi_hf_normalizers, &fxi_hf_pre_tokenizers,
                                                     &fxi_hf_decoders, &fxi_hf_processors};
    fxi_vocab_spec *s = h->s;
    s->norms_tokens = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        FX_TRY(fxi_hf_read_steps(h, root, parts[i]));
        if (h->byte_level) s->spelling = FXI_SPELL_PRINTABLE;
    }
    s->unit_bytes = h->byte_level;
    if (h->joins_bytes) mark_byte_tokens(s);
    return fxi_hf_check_decoder(h);
}

//
// The file
//

static fx_status read_root(fxi_hf *h, const json_t *root)
{
    h->has_decoder = !fxi_hf_is_absent(json_object_get(root, "decoder"));
    FX_TRY(fxi_hf_read_model(h, root));
    FX_TRY(read_added_tokens(h, root));
    return read_all_steps(h, root);
}

fx_status fxi_vocab_read_hf(const char *json, size_t n, fxi_vocab_spec *s, fx_error *err)
{
    json_t *root;
    fxi_hf h = {.s = s, .err = err};
    FX_TRY(fxi_hf_parse(&h, json, n, 0, &root));
    fx_status st = read_root(&h, root);
    fxi_index_free(&h.pieces);
    json_decref(root);
    return st;
}
