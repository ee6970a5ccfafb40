// test_gram_mask.c - masks compared with brute force: each token of a small vocabulary, byte by
// byte, from every state that a walk of tokens reaches, and along answers of the schemas that are
// measured (bench/grammar); forced text; and walks that end in a match.
#include "json_doc.h"
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "grammar/matcher/masks.h"
#include "grammar/schema/schema.h"
#include "grammar/syntax/gram_regex.h"

enum { N_VOCAB = 700, MAX_TOKEN = 48, N_LONG = 8, MAX_PIECE = 5 };

typedef struct small_world {
    char bytes[N_VOCAB][MAX_TOKEN];
    fxi_str token[N_VOCAB];
    fxi_gram_tokens tokens;
    fxi_gram g;
    fxi_auto *a;
    fxi_gram_masks *masks;
} small_world;

// Characters of every kind that masks tell apart, and parts of characters.
// clang-format off
static const char *const pieces[] = {
    "a", "b", "1", "\"", ",", "{", "}", ":", "[", "]", " ", "\\", "q", "t", "_", "-", ".", "@", "~",
    "A", "/", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "e", "n", "\n", "\xC3", "\xA9",
    "\xE2\x82", "\x80", "\xC3\xA9\"a", "\xC3\xA9\"b",
};
// clang-format on
enum { N_PIECE = sizeof pieces / sizeof *pieces };

// As long as the tokens that are in no slice, or nearly.
static size_t spell_long_token(char *out, size_t i)
{
    const size_t n = 31 + i;
    memset(out, i & 1 ? 'a' : ' ', n);
    if (i & 2) out[n - 1] = '"';
    return n;
}

static size_t spell_token(char *out, uint64_t i)
{
    size_t n = 0;
    if (i < N_PIECE) return strlen(strcpy(out, pieces[i]));
    const uint64_t n_piece = 1 + fxi_rng_u64(7, 0, i) % MAX_PIECE;
    const uint64_t of = i % 3 ? N_PIECE : 3; // many of them words
    for (uint64_t j = 0; j < n_piece; j++) {
        const char *piece = pieces[fxi_rng_u64(7, 1 + i, j) % of];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    return n;
}

// Tokens: none, every piece, runs of pieces at random, some of them twice, and long ones.
static void make_vocab(small_world *w)
{
    for (size_t i = 1; i < N_VOCAB; i++) {
        char *out = w->bytes[i];
        const size_t n =
            i < N_VOCAB - N_LONG ? spell_token(out, i - 1) : spell_long_token(out, N_VOCAB - 1 - i);
        w->token[i] = (fxi_str){out, n};
    }
    assert_int_equal(fxi_gram_tokens_make(&w->tokens, w->token, N_VOCAB, NULL), FX_OK);
}

// The grammar is made already, with the status st.
static void start_world(small_world *w, fx_status st, uint32_t node, size_t max_mask, fx_error *err)
{
    make_vocab(w);
    if (st || fxi_gram_finish(&w->g, node, err) || fxi_auto_make(&w->g, 1 << 18, &w->a, err))
        fail_msg("%s", err->text);
    assert_int_equal(fxi_gram_masks_make(&w->tokens, w->a, max_mask, &w->masks, NULL), FX_OK);
}

static void open_world(small_world *w, const char *pattern, size_t max_mask)
{
    uint32_t node;
    fx_error err = {0};
    *w = (small_world){0};
    const fx_status st = fxi_gram_regex(&w->g, fxi_str_of(pattern), 0, FXI_SPELL_UTF8, &node, &err);
    start_world(w, st, node, max_mask, &err);
}

static void close_world(small_world *w)
{
    fxi_gram_masks_free(w->masks);
    fxi_auto_free(w->a);
    fxi_gram_free(&w->g);
    fxi_gram_tokens_free(&w->tokens);
}

static uint32_t state_after(small_world *w, uint32_t state, fxi_str s)
{
    for (size_t i = 0; i < s.n; i++)
        assert_int_equal(fxi_auto_step(w->a, state, (uint8_t)s.p[i], &state, NULL), FX_OK);
    return state;
}

static fx_status masks_of(fxi_gram_masks *m, uint32_t state, const uint64_t **mask)
{
    size_t left = FXI_MASK_NO_LIMIT;
    return fxi_gram_masks_of(m, state, &left, mask, NULL);
}

static bool has_token(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

// Compares the mask of a state; the number of tokens that it allows.
static uint32_t check_mask(small_world *w, uint32_t state, const uint64_t **mask)
{
    uint32_t n = 0;
    assert_int_equal(masks_of(w->masks, state, mask), FX_OK);
    for (uint32_t id = 0; id < N_VOCAB; id++) {
        const bool want = w->token[id].n && state_after(w, state, w->token[id]) != FXI_AUTO_DEAD;
        if (has_token(*mask, id) != want)
            fail_msg("\"%.*s\": %d", (int)w->token[id].n, w->token[id].p, want);
        n += want;
    }
    return n;
}

static uint32_t nth_allowed(const uint64_t *mask, uint32_t n)
{
    for (uint32_t id = 0; id < N_VOCAB; id++)
        if (has_token(mask, id) && n-- == 0) return id;
    fail();
    return 0;
}

// Tokens at random from what the masks allow, until the text matches and nothing may follow, or for
// 50 tokens. Every state on the way must allow a token or be final.
static bool walk_ends(small_world *w, uint64_t seed)
{
    uint32_t state = fxi_auto_start(w->a);
    for (uint64_t i = 0; i < 50; i++) {
        const uint64_t *mask;
        const uint32_t n = check_mask(w, state, &mask);
        if (!n) assert_true(fxi_auto_is_final(w->a, state));
        if (!n) return true;
        const uint32_t id = nth_allowed(mask, (uint32_t)(fxi_rng_u64(seed, 3, i) % n));
        state = state_after(w, state, w->token[id]);
    }
    return false;
}

static const char *const patterns[] = {
    "a|b|1",
    "(ab|ba){0,7}1",
    "\\{\"(a|b){1,4}\": *[1ab]{0,5}\\}",
    "\\[(\"[^\"\\\\]{0,6}\"(, \"[^\"\\\\]{0,6}\"){0,3})?\\]",
    "\xC3\xA9{2}[^a]",
    "[a-z]{0,4}1|[^\"]{3}", // slices that depend on the character, or run out
    "(\\\\[a-z]|[^\"\\\\]){0,40}\"",
    "[a-zA-Z0-9]{0,3}[\xC3\xA9\xC3\xA8]*:",
    ".*",
    "\\{\"(?:[^t\"\\\\]|t(?:[^e\"]|e(?:[^n\"]|n[^\"])))[^\"\\\\]*\":1\\}", // any name but three
    "\"(?:[^a\"][^\"]*|a(?:[^b\"][^\"]*)?)\"",
    "[a-z0-9._-]{1,40}(?:@[a-z]{1,9}|/[a-zA-Z0-9]*)", // words after marks
    "[a-z]{0,3}[-_ ][a-z]*\"",
    "(\"[^\"\\\\]{0,35}\",){0,2}\"[^\"\\\\]{30,60}\"", // counted, and beyond what a token has
    "(\"(a|b|1|,|q\"){70,90}\",){0,200}", // minima and maxima within reach and out of it
    "\"(?:[^\"\\\\]|\\\\[nq]){60,400}\"",
    "(?:[ab]?1?){55,120}\"(?:a{0,52}b{50,53}){2,}",
    "[^\xC3\xA9\"]*\"", // all characters but one beyond ASCII
    "[^\xE2\x82\xAC\"]{0,40}\"",
    "[a-z \xE0\xA0\x80-\xEF\xBF\xBF]{0,9}\"",
    "(?:[^\"]|\xC3\xA9:){0,5}\"", // one character goes two ways,
    "(?:[\xC2\x80-\xF4\x8F\xBF\xBF]:|[^\"]){0,5}\"",
    "[ !#-\\x7F]\"a|[\xC2\x80-\xF4\x8F\xBF\xBF]\"b",
    "(?:[ !#-\\x7F]a|[\xC2\x80-\xF4\x8F\xBF\xBF]){0,5}\"", // those beyond ASCII go another way
};

FX_TEST(test_masks_allow_what_the_bytes_allow)
{
    size_t n_end = 0;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        small_world w;
        open_world(&w, patterns[p], 1000);
        for (uint64_t seed = 0; seed < 20; seed++) n_end += walk_ends(&w, seed);
        close_world(&w);
    }
    assert_true(n_end >= 200); // many come to an end
}

static void open_schema(small_world *w, const fxi_json *schema)
{
    fxi_gram_json json;
    uint32_t node = 0;
    fx_error err = {0};
    *w = (small_world){0};
    fx_status st = fxi_gram_json_add(&w->g, &json, &err);
    if (!st) st = fxi_schema_add(&w->g, &json, &(fxi_schema_ask){.schema = schema}, &node, &err);
    start_world(w, st, node, 1000, &err);
}

// The grammar takes the whole answer; every few bytes its mask is compared.
static void check_answer(small_world *w, const char *name, const fxi_json *answer)
{
    char *s = json_text_of(answer);
    uint32_t state = fxi_auto_start(w->a);
    for (size_t i = 0; s[i]; i++) {
        const uint64_t *mask;
        if (i % 5 == 0) check_mask(w, state, &mask);
        state = state_after(w, state, (fxi_str){s + i, 1});
        if (state == FXI_AUTO_DEAD) fail_msg("%s: refused at byte %zu of %s", name, i, s);
    }
    assert_true(fxi_auto_is_final(w->a, state));
    free(s);
}

static void check_forms(const char *path)
{
    fxi_json_doc forms_doc = json_doc_file(path);
    const fxi_json *forms = forms_doc.root;
    if (!forms) fail_msg("%s: not JSON", path);
    for (size_t i = 0; i < fxi_json_array_size(forms); i++) {
        const fxi_json *form = fxi_json_at(forms, i), *texts = fxi_json_get(form, "texts");
        small_world w;
        open_schema(&w, fxi_json_get(form, "schema"));
        assert_true(fxi_json_array_size(texts) > 0);
        for (size_t k = 0; k < fxi_json_array_size(texts); k++)
            check_answer(&w, fxi_json_text(fxi_json_get(form, "name")), fxi_json_at(texts, k));
        close_world(&w);
    }
    fxi_json_doc_free(&forms_doc);
}

FX_TEST(test_schemas_of_every_day)
{
    check_forms(FX_SOURCE_DIR "/bench/grammar/forms.json");
    check_forms(FX_SOURCE_DIR "/bench/grammar/schemas.json");
}

FX_TEST(test_a_mask_is_computed_once_while_there_is_room)
{
    static const char text[] = "aaaa";
    for (size_t room = 2; room <= 5; room += 3) {
        small_world w;
        const uint64_t *mask;
        open_world(&w, "a{4}", room);
        for (int round = 0; round < 3; round++)
            for (size_t n = 0; n <= 4; n++)
                check_mask(&w, state_after(&w, fxi_auto_start(w.a), (fxi_str){text, n}), &mask);
        assert_int_equal(w.masks->n_made, room < 5 ? 15 : 5);
        close_world(&w);
    }
}

FX_TEST(test_forced_text_stops_where_there_is_a_choice_or_an_end)
{
    static const struct {
        const char *pattern, *before, *forced;
        size_t max;
    } row[] = {{"\\{\"ab\":(a|1)\\}", "", "{\"ab\":", 100},
               {"\\{\"ab\":(a|1)\\}", "", "{\"a", 3},
               {"\\{\"ab\":(a|1)\\}", "{\"ab\":a", "}", 100},
               {"ab?", "", "a", 100},
               {"a|b", "", "", 100},
               {"(\xC3\xA9|\xC3\xA8)a", "", "\xC3", 100}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        small_world w;
        fxi_buf out = {0};
        open_world(&w, row[i].pattern, 1);
        uint32_t at = state_after(&w, fxi_auto_start(w.a), fxi_str_of(row[i].before));
        const uint32_t want = state_after(&w, at, fxi_str_of(row[i].forced));
        assert_int_equal(fxi_auto_forced_text(w.a, &at, row[i].max, &out, NULL), FX_OK);
        assert_int_equal(out.n, strlen(row[i].forced));
        if (out.n) assert_memory_equal(out.p, row[i].forced, out.n);
        assert_int_equal(at, want);
        fxi_buf_free(&out);
        close_world(&w);
    }
}

FX_TEST(test_a_vocabulary_may_be_empty)
{
    small_world w;
    fxi_gram_masks *m;
    fxi_gram_tokens none;
    const uint64_t *mask;
    open_world(&w, "a", 1);
    assert_int_equal(fxi_gram_tokens_make(&none, NULL, 0, NULL), FX_OK);
    assert_int_equal(fxi_gram_masks_make(&none, w.a, 1, &m, NULL), FX_OK);
    assert_int_equal(masks_of(m, fxi_auto_start(w.a), &mask), FX_OK);
    assert_int_equal(mask[0], 0);
    fxi_gram_masks_free(m);
    fxi_gram_tokens_free(&none);
    close_world(&w);
}

FX_RUN(test_gram_mask)
