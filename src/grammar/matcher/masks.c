// masks.c - which tokens may come next: masks are computed by a walk over the tokens and kept by
// state.
#include "grammar/matcher/masks.h"
#include "base/keyed/hash.h"
#include "base/system/grow.h"

#include <stdlib.h>
#include <string.h>

// ---- the walk -----------------------------------------------------------------------------------

// Where any characters of a slice may follow, its tokens are known; elsewhere the tries of tails
// or of all tokens are walked; a state that resembles another is compared with it.

enum {
    NODES_PER_STEP = 12, // of a closure
    NODES_PER_CHARGE = 256,
    COST_OF_ROOT = 10,
    WORDS_PER_NODE = 8,
};

// Charges n nodes, and the moves that were computed since the last call. FX_ENOSPACE: the work is
// ended.
static fx_status charge_budget(fxi_mask_budget *b, size_t n, fx_error *err)
{
    const size_t work = fxi_auto_n_work(b->a), cost = n + NODES_PER_STEP * (work - b->seen);
    b->seen = work;
    if (b->left == FXI_MASK_NO_LIMIT) return FX_OK;
    if (cost < b->left) {
        b->left -= cost;
        return FX_OK;
    }
    b->left = 0;
    if (!b->pause || !b->pause(b->ud, &b->left))
        return fxi_fail(err, FX_ENOSPACE, "the work on a mask was ended");
    b->seen = fxi_auto_n_work(b->a);
    return FX_OK;
}

// ---- slices -------------------------------------------------------------------------------------
//
// All characters of a slice lead to one state, to none, or it depends. One byte of each class
// stands for the others. Characters beyond ASCII are all sequences of UTF-8.

#define NOT_KNOWN UINT32_MAX       // yet
#define DEPENDS   (UINT32_MAX - 1) // on the character

static void note_state(uint32_t *common, uint32_t state)
{
    if (*common == NOT_KNOWN)
        *common = state;
    else if (*common != state)
        *common = DEPENDS;
}

static fx_status step_ascii(fxi_auto *a, size_t slice, uint32_t state, uint32_t *common,
                            fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(a);
    fxi_byte_set seen = {{0}};
    for (int b = 0; b < 0x80 && *common != DEPENDS; b++) {
        uint32_t next;
        if (!fxi_slice_has(slice, (uint8_t)b) || fxi_byte_in(&seen, class_of[b])) continue;
        fxi_byte_put(&seen, class_of[b]);
        FX_TRY(fxi_auto_step(a, state, (uint8_t)b, &next, err));
        note_state(common, next);
    }
    return FX_OK;
}

// Sequences of n_more bytes after one of first_lo..first_hi.
static fx_status step_bytes(fxi_auto *a, uint32_t state, fxi_utf8_row r, uint32_t *common,
                            fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(a);
    fxi_byte_set seen = {{0}};
    for (int b = r.first_lo; b <= r.first_hi && *common != DEPENDS; b++) {
        uint32_t next;
        if (fxi_byte_in(&seen, class_of[b])) continue;
        fxi_byte_put(&seen, class_of[b]);
        FX_TRY(fxi_auto_step(a, state, (uint8_t)b, &next, err));
        const fxi_utf8_row rest = {r.second_lo, r.second_hi, 0x80, 0xBF, (uint8_t)(r.n_more - 1)};
        if (next == FXI_AUTO_DEAD || !r.n_more)
            note_state(common, next);
        else
            FX_TRY(step_bytes(a, next, rest, common, err));
    }
    return FX_OK;
}

// Any character that may stand in a string as it is. If those of ASCII lead to one state, the
// grammar alone mostly shows that the others do, too.
static fx_status step_any_char(fxi_auto *a, uint32_t state, uint32_t *common, fx_error *err)
{
    FX_TRY(step_ascii(a, FXI_SLICE_CHARS_ALL, state, common, err));
    if (*common != DEPENDS && *common != FXI_AUTO_DEAD && fxi_auto_wide_like_ascii(a, state, 'a'))
        return FX_OK;
    for (size_t i = 0; i < FXI_N_UTF8_ROW; i++) {
        fxi_utf8_row r = fxi_utf8_rows[i];
        r.n_more++; // the second byte is one, too
        FX_TRY(step_bytes(a, state, r, common, err));
    }
    return FX_OK;
}

// FXI_SLICE_CHARS_ALL has the characters of all others: what they have in common holds for each.
static fx_status find_slice_move(fxi_slice_moves *m, size_t slice, uint32_t state, fx_error *err)
{
    uint32_t *move = &m->move[state * FXI_SLICE_REST], common = NOT_KNOWN;
    uint32_t *any = &move[FXI_SLICE_CHARS_ALL];
    if (*any == NOT_KNOWN) {
        FX_TRY(step_any_char(m->a, state, &common, err));
        *any = common;
    }
    if (slice == FXI_SLICE_CHARS_ALL) return FX_OK;
    common = *any;
    if (common == DEPENDS) {
        common = NOT_KNOWN;
        FX_TRY(step_ascii(m->a, slice, state, &common, err));
    }
    move[slice] = common;
    return FX_OK;
}

void fxi_slice_moves_free(fxi_slice_moves *m)
{
    free(m->move);
    *m = (fxi_slice_moves){0};
}

typedef struct slice_run {
    int n; // how many characters may follow, whichever they are, at most FXI_SLICE_CHARS; none may
           // follow those. -1: it depends on the characters
    bool loops;                          // they lead back to the state where they began
    uint32_t state[FXI_SLICE_CHARS + 1]; // [n + 1] after 0, 1, .. of them
} slice_run;

static fx_status find_run(fxi_mask_walk *w, size_t slice, uint32_t state, slice_run *out,
                          fx_error *err)
{
    fxi_slice_moves *m = w->moves;
    *out = (slice_run){.state = {state}};
    while (out->n < FXI_SLICE_CHARS) {
        FX_TRY(charge_budget(&w->budget, 2, err));
        if (!fxi_grow_to(&m->move, FXI_SLICE_REST * sizeof *m->move, state, 0xff, &m->n_state,
                         &m->cap)) // NOT_KNOWN
            return fxi_fail_memory(err);
        const uint32_t *next = &m->move[state * FXI_SLICE_REST + slice];
        if (*next == NOT_KNOWN) FX_TRY(find_slice_move(m, slice, state, err));
        if (*next == FXI_AUTO_DEAD) return FX_OK;
        if (*next == DEPENDS) {
            out->n = -1;
            return FX_OK;
        }
        out->loops = out->loops || (!out->n && *next == state);
        state = out->state[++out->n] = *next;
    }
    return FX_OK;
}

// ---- tries --------------------------------------------------------------------------------------

static void allow_ids(uint64_t *mask, const uint32_t *id, size_t n)
{
    for (const uint32_t *end = id + n; id < end; id++) mask[*id / 64] |= (uint64_t)1 << (*id % 64);
}

// The table of moves is reallocated when moves are computed, here or during a pause.
static void look_up_rows(fxi_mask_walk *w, uint16_t depth)
{
    for (uint16_t d = 0; d < depth; d++) w->row[d] = fxi_auto_moves(w->budget.a, w->path[d]);
}

// The nodes from i to end, of which the first is a root.
static fx_status walk_nodes(fxi_mask_walk *w, const fxi_token_trie *t, size_t i, size_t end,
                            fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(w->budget.a);
    look_up_rows(w, 1);
    size_t n = 0;
    while (i < end) {
        const fxi_token_node *x = &t->node[i];
        const uint32_t *row = w->row[x->depth - 1];
        uint32_t next = row ? row[class_of[x->byte]] : FXI_AUTO_UNKNOWN;
        if (next == FXI_AUTO_UNKNOWN || ++n == NODES_PER_CHARGE) {
            FX_TRY(charge_budget(&w->budget, n, err));
            n = 0;
            FX_TRY(fxi_auto_step(w->budget.a, w->path[x->depth - 1], x->byte, &next, err));
            look_up_rows(w, x->depth);
        }
        if (next == FXI_AUTO_DEAD) {
            i = x->end;
            continue;
        }
        w->path[x->depth] = next;
        w->row[x->depth] = fxi_auto_moves(w->budget.a, next);
        allow_ids(w->mask, t->id + x->id, x->n_id);
        i++;
    }
    return charge_budget(&w->budget, n + COST_OF_ROOT, err);
}

static fx_status walk_trie(fxi_mask_walk *w, const fxi_token_trie *t, uint32_t state, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(w->budget.a, state);
    w->path[0] = state;
    for (int i = 0; i < 4; i++)
        for (uint64_t bits = may.word[i]; bits; bits &= bits - 1) {
            const uint32_t root = t->root[64 * i + __builtin_ctzll(bits)];
            if (root != FXI_TRIE_NONE) FX_TRY(walk_nodes(w, t, root, t->node[root].end, err));
        }
    return FX_OK;
}

static fx_status walk_tails(fxi_mask_walk *w, const fxi_token_tails *t, const slice_run *run,
                            fx_error *err)
{
    if (run->loops) return walk_trie(w, &t->any, run->state[0], err);
    for (int i = 0; i <= run->n; i++) FX_TRY(walk_trie(w, &t->after[i], run->state[i], err));
    return FX_OK;
}

// known: the tokens of up to 1, 2, .. characters.
static fx_status allow_known(fxi_mask_walk *w, const uint64_t *known, int n_char, fx_error *err)
{
    if (n_char <= 0) return FX_OK;
    known += (size_t)(n_char - 1) * w->tokens->n_word;
    for (size_t i = 0; i < w->tokens->n_word; i++) w->mask[i] |= known[i];
    return charge_budget(&w->budget, w->tokens->n_word / WORDS_PER_NODE, err);
}

// Where words may follow a mark, its tokens are known by their length.
static fx_status walk_mark(fxi_mask_walk *w, uint32_t root, uint32_t state, fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    const fxi_token_trie *x = &t->slice[FXI_SLICE_MARKED].trie;
    const fxi_token_node *first = &x->node[root];
    uint32_t next;
    slice_run words;
    FX_TRY(fxi_auto_step(w->budget.a, state, first->byte, &next, err));
    if (!next) return FX_OK;
    FX_TRY(find_run(w, FXI_SLICE_WORDS, next, &words, err));
    w->path[0] = state;
    if (words.n < 0) return walk_nodes(w, x, root, first->end, err);
    const uint32_t *upto = t->marks.upto[first->byte];
    const int n = words.n + 1 < FXI_SLICE_CHARS ? words.n + 1 : FXI_SLICE_CHARS;
    FX_TRY(charge_budget(&w->budget, (upto[n] - upto[0]) / 4, err));
    allow_ids(w->mask, t->marks.id + upto[0], upto[n] - upto[0]);
    return FX_OK;
}

// Tokens of ASCII characters that are not words.
static fx_status walk_printed(fxi_mask_walk *w, uint32_t state, const slice_run *words,
                              fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    slice_run run;
    FX_TRY(find_run(w, FXI_SLICE_PRINTED, state, &run, err));
    FX_TRY(allow_known(w, t->slice[FXI_SLICE_MARKED].mask, run.n, err));
    FX_TRY(allow_known(w, t->slice[FXI_SLICE_PRINTED].mask, run.n, err));
    if (run.n >= 0) return FX_OK;
    const fxi_byte_set may = fxi_auto_bytes(w->budget.a, state);
    const uint32_t *root = t->slice[FXI_SLICE_MARKED].trie.root;
    for (int b = 0; b < 0x80; b++)
        if (root[b] != FXI_TRIE_NONE && fxi_byte_in(&may, (uint8_t)b))
            FX_TRY(walk_mark(w, root[b], state, err));
    if (words->n >= 0) return walk_tails(w, &t->word_tails, words, err);
    return walk_trie(w, &t->slice[FXI_SLICE_PRINTED].trie, state, err);
}

// Where some characters may follow, but not all.
static fx_status walk_slices(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    slice_run words = {.n = -1};
    for (size_t k = 0; k <= FXI_SLICE_WORDS; k++) { // the last run is that of words
        FX_TRY(find_run(w, k, state, &words, err));
        if (words.n < 0)
            FX_TRY(walk_trie(w, &t->slice[k].trie, state, err));
        else
            FX_TRY(allow_known(w, t->slice[k].mask, words.n, err));
    }
    FX_TRY(walk_printed(w, state, &words, err));
    FX_TRY(walk_trie(w, &t->slice[FXI_SLICE_CHARS_ALL].trie, state, err));
    return walk_trie(w, &t->slice[FXI_SLICE_REST].trie, state, err);
}

static fx_status walk_tokens(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    slice_run run;
    FX_TRY(find_run(w, FXI_SLICE_CHARS_ALL, state, &run, err));
    if (run.n < 0) return walk_slices(w, state, err);
    FX_TRY(allow_known(w, t->chars_mask, run.n, err));
    return walk_tails(w, &t->char_tails, &run, err);
}

// ---- comparing two states -----------------------------------------------------------------------
//
// Where a name may begin that is any but those of a few members, most tokens lead where they lead
// from the state within a name that is none of them. The mask of that state is known without a
// walk. Then only the bytes after which the two states differ are walked.

static fx_status step_pair(fxi_mask_walk *w, uint16_t depth, uint8_t byte, uint32_t *next,
                           uint32_t *like, fx_error *err)
{
    FX_TRY(charge_budget(&w->budget, 2, err));
    *next = *like = FXI_AUTO_DEAD;
    if (w->path[depth - 1]) FX_TRY(fxi_auto_step(w->budget.a, w->path[depth - 1], byte, next, err));
    if (w->like[depth - 1]) FX_TRY(fxi_auto_step(w->budget.a, w->like[depth - 1], byte, like, err));
    w->path[depth] = *next;
    w->like[depth] = *like;
    return FX_OK;
}

static fx_status walk_differing(fxi_mask_walk *w, const fxi_token_trie *t, size_t i, size_t end,
                                fx_error *err)
{
    while (i < end) {
        const fxi_token_node *x = &t->node[i];
        uint32_t next, like;
        FX_TRY(step_pair(w, x->depth, x->byte, &next, &like, err));
        if (next != like && next) {
            allow_ids(w->mask, t->id + x->id, x->n_id);
            i++;
            continue;
        }
        for (uint32_t k = x->id; next != like && k < fxi_trie_ids_end(t, x); k++)
            w->mask[t->id[k] / 64] &= ~((uint64_t)1 << (t->id[k] % 64));
        i = x->end;
    }
    return FX_OK;
}

// w->mask is that of `like`.
static fx_status walk_difference(fxi_mask_walk *w, uint32_t state, uint32_t like, fx_error *err)
{
    w->path[0] = state;
    w->like[0] = like;
    for (int b = 0; b < 256; b++) {
        uint32_t x, y;
        FX_TRY(step_pair(w, 1, (uint8_t)b, &x, &y, err));
        for (size_t k = 0; x != y && k < FXI_N_SLICE; k++) {
            const fxi_token_trie *t = &w->tokens->slice[k].trie;
            const uint32_t root = t->root[b];
            if (root != FXI_TRIE_NONE) FX_TRY(walk_differing(w, t, root, t->node[root].end, err));
        }
    }
    return FX_OK;
}

// *like: a state to compare with, from which any characters lead back to it; FXI_AUTO_DEAD: none.
static fx_status find_like(fxi_mask_walk *w, uint32_t state, uint32_t *like, fx_error *err)
{
    slice_run run;
    *like = FXI_AUTO_DEAD;
    FX_TRY(find_run(w, FXI_SLICE_CHARS_ALL, state, &run, err));
    for (const char *probe = "~q"; run.n < 0 && *probe && !*like; probe++) {
        uint32_t next;
        FX_TRY(fxi_auto_step(w->budget.a, state, (uint8_t)*probe, &next, err));
        if (!next) continue;
        FX_TRY(find_run(w, FXI_SLICE_CHARS_ALL, next, &run, err));
        if (run.loops) *like = next;
        run.n = -1;
    }
    return FX_OK;
}

fx_status fxi_mask_walk_run(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    uint32_t like;
    memset(w->mask, 0, w->tokens->n_word * sizeof *w->mask);
    FX_TRY(charge_budget(&w->budget, w->tokens->n_word / WORDS_PER_NODE, err));
    FX_TRY(find_like(w, state, &like, err));
    if (!like) return walk_tokens(w, state, err);
    FX_TRY(walk_tokens(w, like, err));
    return walk_difference(w, state, like, err);
}

bool fxi_mask_walk_make(fxi_mask_walk *w, const fxi_gram_tokens *tokens)
{
    const size_t n = tokens->max_depth + 1;
    *w = (fxi_mask_walk){.tokens = tokens,
                         .path = calloc(n, sizeof *w->path),
                         .like = calloc(n, sizeof *w->like),
                         .row = calloc(n, sizeof *w->row),
                         .mask = calloc(tokens->n_word, sizeof *w->mask)};
    return w->path && w->like && w->row && w->mask;
}

void fxi_mask_walk_free(fxi_mask_walk *w)
{
    free(w->path);
    free(w->like);
    free(w->row);
    free(w->mask);
    *w = (fxi_mask_walk){0};
}

size_t fxi_mask_walk_n_bytes(const fxi_gram_tokens *tokens)
{
    const fxi_mask_walk *w = NULL;
    return (tokens->max_depth + 1) * (sizeof *w->path + sizeof *w->like + sizeof *w->row) +
           tokens->n_word * sizeof *w->mask;
}

// ---- the kept masks -----------------------------------------------------------------------------

fx_status fxi_gram_masks_make(const fxi_gram_tokens *tokens, fxi_auto *a, size_t max_mask,
                              fxi_gram_masks **out, fx_error *err)
{
    fxi_gram_masks *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m && fxi_mask_walk_make(&m->walk, tokens)) {
        m->moves.a = m->walk.budget.a = a;
        m->walk.moves = &m->moves;
        m->normals.reach = (uint32_t)tokens->max_depth;
        m->max_mask = max_mask;
        m->n_word = tokens->n_word;
        m->secret = fxi_secret_make();
        *out = m;
        return FX_OK;
    }
    fxi_gram_masks_free(m);
    return fxi_fail_memory(err);
}

void fxi_gram_masks_free(fxi_gram_masks *m)
{
    if (!m) return;
    fxi_slice_moves_free(&m->moves);
    fxi_mask_walk_free(&m->walk);
    fxi_auto_normals_free(&m->normals);
    free(m->of);
    for (size_t i = 0; i < m->n_kept; i++) free(m->kept[i].mask);
    free(m->kept);
    fxi_hash_index_free(&m->index);
    free(m);
}

size_t fxi_gram_masks_n_bytes(const fxi_gram_masks *m)
{
    return sizeof *m + fxi_mask_walk_n_bytes(m->walk.tokens) +
           m->moves.cap * FXI_SLICE_REST * sizeof *m->moves.move +
           m->normals.cap * sizeof *m->normals.of + m->cap_of * sizeof *m->of +
           m->cap_kept * sizeof *m->kept + fxi_hash_index_n_bytes(&m->index) +
           m->n_kept * m->n_word * sizeof *m->kept->mask;
}

// ---- keeping ------------------------------------------------------------------------------------

static uint32_t hash_mask(const fxi_gram_masks *m, const uint64_t *mask)
{
    uint64_t h[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < m->n_word; i++) h[i % 4] = fxi_secret_mix(m->secret, h[i % 4], mask[i]);
    return (uint32_t)(fxi_secret_mix(m->secret, h[0] + h[1], h[2] - h[3]) >> 32);
}

// NULL: this mask is not kept.
static fxi_kept_mask *find_equal(const fxi_gram_masks *m, const uint64_t *mask, uint32_t hash)
{
    size_t probe = 0;
    uint32_t id;
    while ((id = fxi_hash_index_next(&m->index, hash, &probe)))
        if (!memcmp(m->kept[id - 1].mask, mask, m->n_word * sizeof *mask)) return &m->kept[id - 1];
    return NULL;
}

// Replaces the next mask that was not used since the hand last came by.
static fxi_kept_mask *replace_mask(fxi_gram_masks *m, const uint64_t *mask, uint32_t hash)
{
    for (; m->kept[m->hand].is_wanted; m->hand = (m->hand + 1) % m->max_mask)
        m->kept[m->hand].is_wanted = false;
    fxi_kept_mask *k = &m->kept[m->hand];
    m->hand = (m->hand + 1) % m->max_mask;
    memcpy(k->mask, mask, m->n_word * sizeof *mask);
    k->hash = hash;
    k->turn++;
    fxi_hash_index_clear(&m->index); // it cannot remove; it has room for all
    for (size_t i = 0; i < m->n_kept; i++)
        (void)fxi_hash_index_add(&m->index, (uint32_t)i + 1, m->kept[i].hash);
    return k;
}

// The kept copy of this mask; NULL: out of memory.
static fxi_kept_mask *keep_mask(fxi_gram_masks *m, const uint64_t *mask)
{
    const uint32_t hash = hash_mask(m, mask);
    fxi_kept_mask *known = find_equal(m, mask, hash);
    if (known) return known;
    if (m->n_kept == m->max_mask) return replace_mask(m, mask, hash);
    if (!fxi_grow(&m->kept, sizeof *m->kept, m->n_kept, &m->cap_kept)) return NULL;
    fxi_kept_mask *k = &m->kept[m->n_kept];
    *k = (fxi_kept_mask){.mask = malloc(m->n_word * sizeof *mask), .hash = hash};
    if (!k->mask || !fxi_hash_index_add(&m->index, (uint32_t)m->n_kept + 1, hash)) {
        free(k->mask);
        return NULL;
    }
    memcpy(k->mask, mask, m->n_word * sizeof *mask);
    m->n_kept++;
    return k;
}

fx_status fxi_gram_masks_normalize(fxi_gram_masks *m, uint32_t state, uint32_t *out, fx_error *err)
{
    return fxi_auto_normalize(m->moves.a, &m->normals, state, out, err);
}

const uint64_t *fxi_gram_masks_find(fxi_gram_masks *m, uint32_t state)
{
    state = fxi_auto_normal_known(&m->normals, state);
    if (state >= m->n_of || !m->of[state].is_set) return NULL;
    fxi_kept_mask *k = &m->kept[m->of[state].at];
    if (k->turn != m->of[state].turn) return NULL;
    k->is_wanted = true;
    return k->mask;
}

fx_status fxi_gram_masks_keep(fxi_gram_masks *m, uint32_t state, const uint64_t *mask,
                              fx_error *err)
{
    if (fxi_gram_masks_find(m, state)) return FX_OK;
    if (!fxi_grow_to(&m->of, sizeof *m->of, state, 0, &m->n_of, &m->cap_of))
        return fxi_fail_memory(err);
    const fxi_kept_mask *k = keep_mask(m, mask);
    if (!k) return fxi_fail_memory(err);
    m->of[state] = (fxi_state_mask){(uint32_t)(k - m->kept), k->turn, true};
    m->n_made++;
    return FX_OK;
}

fx_status fxi_gram_masks_of(fxi_gram_masks *m, uint32_t state, size_t *left, const uint64_t **mask,
                            fx_error *err)
{
    fxi_mask_walk *w = &m->walk;
    *mask = fxi_gram_masks_find(m, state);
    if (*mask) return FX_OK;
    FX_TRY(fxi_gram_masks_normalize(m, state, &state, err));
    *mask = fxi_gram_masks_find(m, state);
    if (*mask) return FX_OK;
    fxi_mask_budget_open(&w->budget, w->budget.a, *left);
    const fx_status st = fxi_mask_walk_run(w, state, err);
    *left = w->budget.left;
    if (st) return st;
    FX_TRY(fxi_gram_masks_keep(m, state, w->mask, err));
    *mask = fxi_gram_masks_find(m, state);
    return FX_OK;
}
