// test_guided.c - answers under a grammar: every one is a text of it, whatever the sampling, the
// number of choices or beams, and the stops; it ends where the grammar does; and what a grammar
// cannot be is refused by name. That they are the same bits under every treatment: test_same_bits.c
// (ALL_RULES).
#include "json_doc.h"
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static fx_engine *eng;
static client c;

static int open_once(void **state)
{
    (void)state;
    eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2});
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    unthreaded_close(eng);
    return 0;
}

static fx_part text_part(fx_part_kind kind, const char *s)
{
    return (fx_part){.kind = kind, .text = s, .n_bytes = strlen(s)};
}

static fx_grammar *compile(fx_part root)
{
    fx_error err = {0};
    fx_grammar *g;
    if (fx_grammar_compile(eng, &root, &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
}

// A request under a grammar, whose reference goes with it.
static void prepare(fx_part root, int max_tok)
{
    static prompt p; // submitted after this returns
    p = make_prompt(3);
    client_init(&c, eng, p.tok, p.n, max_tok);
    c.req.sampling.temperature = 1;
    c.req.grammar = compile(root);
}

static const client_choice *run(void)
{
    const client_choice *answer = client_answer(&c);
    fx_grammar_release(c.req.grammar);
    return answer;
}

static bool is_one_of(const fxi_buf *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text->p && !strcmp(text->p, list[i])) return true;
    return false;
}

static const char *const colours[] = {"red", "green", "greenish", "blue: #00f", "\xC3\xA9"};
enum { N_COLOUR = 5 };

static void colour_parts(fx_part part[N_COLOUR])
{
    for (int i = 0; i < N_COLOUR; i++) part[i] = text_part(FX_PART_TEXT, colours[i]);
}

static fx_part choice_of(const fx_part part[N_COLOUR])
{
    return (fx_part){.kind = FX_PART_ALT, .part = part, .n_part = N_COLOUR};
}

// ---- answers ------------------------------------------------------------------------------------

FX_TEST(test_each_choice_is_a_text_of_the_grammar)
{
    fx_part part[N_COLOUR];
    colour_parts(part);
    prepare(choice_of(part), 50);
    c.req.n_choice = 16;
    run();
    for (int i = 0; i < 16; i++) {
        assert_true(is_one_of(&c.choice[i].text, colours, N_COLOUR));
        assert_int_equal(c.choice[i].finish, FX_FINISH_STOP);
    }
    client_free(&c);
}

FX_TEST(test_beams_are_texts_of_the_grammar)
{
    fx_part part[N_COLOUR];
    colour_parts(part);
    prepare(choice_of(part), 50);
    c.req.n_choice = c.req.beam_width = 4;
    run();
    for (int i = 0; i < 4; i++) {
        if (c.choice[i].finish == FX_FINISH_ERROR) continue; // fewer texts than beams
        assert_true(is_one_of(&c.choice[i].text, colours, N_COLOUR));
    }
    client_free(&c);
}

// Nothing may follow: no end-of-text token is drawn, and none is waited for.
FX_TEST(test_the_answer_ends_with_its_grammar)
{
    for (int ignore_eos = 0; ignore_eos < 2; ignore_eos++) {
        prepare(text_part(FX_PART_TEXT, "{\"a\": 1}"), 50);
        c.req.ignore_eos = ignore_eos;
        const client_choice *ch = run();
        assert_string_equal(ch->text.p, "{\"a\": 1}");
        assert_int_equal(ch->finish, FX_FINISH_STOP);
        assert_int_equal(ch->stop_token, -1);
        assert_int_equal(ch->stop_string, -1);
        client_free(&c);
    }
}

// Where it may end but may also go on, an end-of-text token decides; with ignore_eos none is drawn.
FX_TEST(test_the_model_may_end_where_the_grammar_may)
{
    const fx_part some = text_part(FX_PART_REGEX, "a(b|ba)*");
    for (int ignore_eos = 0; ignore_eos < 2; ignore_eos++) {
        prepare(some, 20);
        c.req.ignore_eos = ignore_eos;
        const fx_bias bias = {eng->service.end_tok[0], 100};
        c.req.sampling.bias = &bias;
        c.req.sampling.n_bias = 1;
        const client_choice *ch = run();
        assert_int_equal(ch->finish, ignore_eos ? FX_FINISH_LENGTH : FX_FINISH_STOP);
        assert_int_equal(ch->stop_token, ignore_eos ? -1 : eng->service.end_tok[0]);
        if (!ignore_eos) assert_string_equal(ch->text.p, "a");
        assert_int_equal(ch->text.p[strspn(ch->text.p, "ab")], 0);
        client_free(&c);
    }
}

// Forced text is spelled as the vocabulary spells it, and the draws' randomness has no part in it.
FX_TEST(test_forced_text_is_spelled_by_the_vocabulary)
{
    static const char text[] = "{\"name\": \"Ada\", \"colours\": [\"red\", \"green\"]}";
    fx_tokens want = {0};
    assert_int_equal(fx_tokenize(eng, text, sizeof text - 1, FX_TOKENIZE_INNER, &want, NULL),
                     FX_OK);
    assert_true(want.n >= 10);
    for (uint64_t seed = 0; seed < 5; seed++) {
        prepare(text_part(FX_PART_TEXT, text), 200);
        c.req.sampling.seed = seed;
        c.req.sampling.temperature = 2;
        const client_choice *ch = run();
        assert_string_equal(ch->text.p, text);
        assert_int_equal(ch->n_tok, want.n);
        assert_memory_equal(ch->tok, want.id, want.n * sizeof *want.id);
        client_free(&c);
    }
    fx_tokens_free(&want);
}

// The last token of a forced text is left to the model where more may follow; a rule of the request
// that may forbid a token is kept.
FX_TEST(test_forced_text_leaves_what_may_merge_and_what_is_banned)
{
    fx_tokens want = {0};
    static const char text[] = "abcabcabc";
    assert_int_equal(fx_tokenize(eng, text, sizeof text - 1, FX_TOKENIZE_INNER, &want, NULL),
                     FX_OK);
    prepare(text_part(FX_PART_REGEX, "abcabcabc[d-f]{1,3}"), 200);
    const client_choice *ch = run();
    assert_int_equal(ch->finish, FX_FINISH_STOP);
    assert_memory_equal(ch->text.p, text, sizeof text - 1);
    for (size_t i = 0; i + 1 < want.n; i++) assert_int_equal(ch->tok[i], want.id[i]);
    client_free(&c);

    prepare(text_part(FX_PART_TEXT, text), 200);
    c.req.sampling.ban = want.id;
    c.req.sampling.n_ban = want.n;
    ch = run();
    for (int i = 0; i < ch->n_tok; i++)
        for (size_t k = 0; k < want.n; k++) assert_int_not_equal(ch->tok[i], want.id[k]);
    client_free(&c);
    fx_tokens_free(&want);
}

// All that is forced is drafted, whatever that costs.
static int draft_forced(void *ud, const fxi_seq *s, int32_t *out, int most)
{
    (void)ud;
    fxi_seq own = *s; // its place moves
    return fxi_seq_forced(&own, out, most);
}

static uint64_t steps_of(fx_engine *e, client_choice *out)
{
    static const char text[] = "{\"name\": \"Ada\", \"colours\": [\"red\", \"green\", \"blue\"]}";
    fx_stats before, after;
    fx_engine *const own = eng;
    eng = e;
    fx_engine_stats(e, &before);
    prepare(text_part(FX_PART_TEXT, text), 200);
    *out = *run();
    fx_engine_stats(e, &after);
    assert_string_equal(out->text.p, text);
    eng = own;
    return after.n_step - before.n_step;
}

// With speculation, many forced tokens take one pass; they are the same tokens.
FX_TEST(test_forced_tokens_go_together)
{
    static client_choice one, many;
    fx_engine *e = unthreaded_open(MODEL, (fx_options){.n_thread = 2, .speculate = "prompt"});
    e->draft_hooks.drafter = draft_forced;
    const uint64_t n_one = steps_of(eng, &one);
    client_free(&c);
    const uint64_t n_many = steps_of(e, &many);
    assert_int_equal(one.n_tok, many.n_tok);
    assert_memory_equal(one.tok, many.tok, (size_t)one.n_tok * sizeof *one.tok);
    print_message("%d forced tokens: %d passes, %d with speculation\n", one.n_tok, (int)n_one,
                  (int)n_many);
    assert_true(2 * n_many < n_one);
    client_free(&c);
    unthreaded_close(e);
}

FX_TEST(test_json_answers_are_objects)
{
    int n_whole = 0;
    for (uint64_t seed = 0; seed < 30; seed++) {
        prepare((fx_part){.kind = FX_PART_JSON}, 120);
        c.req.sampling.seed = seed;
        const client_choice *ch = run();
        if (ch->finish == FX_FINISH_STOP) {
            fxi_json_doc v = json_doc_of(ch->text.p);
            if (!fxi_json_is_object(v.root)) fail_msg("not an object: %s", ch->text.p);
            fxi_json_doc_free(&v);
            n_whole++;
        } else {
            assert_int_equal(ch->finish, FX_FINISH_LENGTH);
        }
        client_free(&c);
    }
    assert_true(n_whole > 5);
}

FX_TEST(test_text_around_a_form)
{
    const fx_part mark = text_part(FX_PART_TEXT, "<c>");
    const fx_part call[] = {mark, text_part(FX_PART_REGEX, "[0-9]{2}"),
                            text_part(FX_PART_TEXT, "</c>")};
    const fx_part part[] = {{.kind = FX_PART_FREE, .part = &mark, .n_part = 1},
                            {.kind = FX_PART_SEQ, .part = call, .n_part = 3}};
    for (uint64_t seed = 0; seed < 20; seed++) {
        prepare((fx_part){.kind = FX_PART_SEQ, .part = part, .n_part = 2}, 60);
        c.req.sampling.seed = seed;
        const client_choice *ch = run();
        const char *at = ch->text.p ? strstr(ch->text.p, "<c>") : NULL;
        if (ch->finish == FX_FINISH_STOP) {
            assert_non_null(at);
            assert_int_equal(strlen(at), strlen("<c>12</c>"));
            assert_int_equal(strspn(at + 3, "0123456789"), 2);
        }
        client_free(&c);
    }
}

// One token of the vocabulary that adds no text.
FX_TEST(test_control_tokens_are_drawn_where_they_are_named)
{
    int32_t id = 0;
    size_t n;
    while (!fxi_vocab_control(eng->vocab, id) || fxi_vocab_ends(eng->vocab, id)) id++;
    const char *piece = fxi_vocab_piece(eng->vocab, id, &n);
    const fx_part part[] = {text_part(FX_PART_TEXT, "ab"),
                            {.kind = FX_PART_CONTROL, .text = piece, .n_bytes = n},
                            text_part(FX_PART_TEXT, "ba")};
    prepare((fx_part){.kind = FX_PART_SEQ, .part = part, .n_part = 3}, 20);
    const client_choice *ch = run();
    int n_control = 0;
    for (int i = 0; i < ch->n_tok; i++) n_control += ch->tok[i] == id;
    assert_int_equal(n_control, 1); // and not spelled by others
    assert_string_equal(ch->text.p, "abba");
    client_free(&c);
}

// ---- refusals -----------------------------------------------------------------------------------

static void expect_refused(fx_part root, const char *what)
{
    fx_grammar *g;
    fx_error err = {0};
    assert_int_equal(fx_grammar_compile(eng, &root, &g, &err), FX_EINVAL);
    assert_null(g);
    if (!strstr(err.text, what)) fail_msg("'%s' does not name '%s'", err.text, what);
}

FX_TEST(test_grammars_are_refused_by_name)
{
    const fx_part a = text_part(FX_PART_TEXT, "a"), empty = text_part(FX_PART_TEXT, "");
    fx_part deep[FX_PART_MAX_DEPTH + 1];
    for (int i = 0; i <= FX_PART_MAX_DEPTH; i++)
        deep[i] = (fx_part){.kind = FX_PART_SEQ, .part = &deep[i + 1], .n_part = 1};
    deep[FX_PART_MAX_DEPTH] = a;
    expect_refused(deep[0], "nested deeper than 32");
    expect_refused(text_part(FX_PART_REGEX, "a(?=b)"), "lookahead");
    expect_refused(text_part(FX_PART_TEXT, "a\xFF"), "not UTF-8 at byte 1");
    expect_refused(text_part(FX_PART_CONTROL, "<no such token>"), "<no such token>");
    expect_refused((fx_part){.kind = FX_PART_ALT}, "nothing to choose from");
    expect_refused((fx_part){.kind = FX_PART_REPEAT, .part = &a, .n_part = 1, .min = 2, .max = 1},
                   "2 to 1");
    expect_refused((fx_part){.kind = FX_PART_FREE, .part = &empty, .n_part = 1}, "empty");
    expect_refused((fx_part){.kind = FX_PART_STRING, .part = deep, .n_part = 17}, "more than 16");
    static const struct {
        const char *at, *schema, *why;
    } schemas[] = {
        {"/properties/b", "{\"properties\":{\"a\":{\"type\":\"string\"}}}",
         "there is no schema at \"/properties/b\""},
        {"/properties/a", "{\"properties\":{\"a\":{\"type\":\"string\"}}}", "nothing matches"},
        {"", "{\"type\":", "schema: not JSON: line 1, column 9"},
        {"", "", "schema: not JSON"},
        {"", "{\"const\":\"a\\u0000\"}", "U+0000"},
    };
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        fx_part member = text_part(FX_PART_OBJECT, schemas[i].at);
        member.schema = schemas[i].schema;
        member.schema_bytes = strlen(schemas[i].schema);
        expect_refused(member, schemas[i].why);
    }
    expect_refused((fx_part){.kind = FX_N_PART}, "not known");
}

// Who asks for the same form gets the same grammar, with all that was learnt of it, while there is
// room for it.
FX_TEST(test_grammars_that_were_asked_for_last_are_kept)
{
    char text[32];
    static const char schema[] = "{\"type\":\"integer\"}", same[] = "{\"type\":\"integer\"}";
    const fx_part one = {.kind = FX_PART_SCHEMA,
                         .schema = schema,
                         .schema_bytes = sizeof schema - 1},
                  again = {.kind = FX_PART_SCHEMA, .schema = same, .schema_bytes = sizeof same - 1};
    fx_grammar *a = compile(one), *b = compile(again),
               *plain = compile(text_part(FX_PART_TEXT, "x")),
               *regex = compile(text_part(FX_PART_REGEX, "x"));
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(plain, regex);
    fx_grammar_release(b);
    for (int i = 0; i < FXI_GRAMMARS_KEPT; i++) {
        snprintf(text, sizeof text, "text %d", i);
        fx_grammar_release(compile(text_part(FX_PART_TEXT, text)));
    }
    b = compile(again);
    assert_ptr_not_equal(a, b);
    fx_grammar_release(a);
    fx_grammar_release(b);
    fx_grammar_release(plain);
    fx_grammar_release(regex);
}

// ---- what takes long ----------------------------------------------------------------------------

// Each character may belong to any of hundreds of places of the pattern.
// No token is longer than its counts.
#define PLACES "[a-z ]{0,14}[a-y ]{0,14}[b-z ]{0,14}[a-x ]{0,14}"
static const char ambiguous[] = "(?:" PLACES PLACES PLACES "){3,14}";

static void run_ambiguous(size_t mask_spend, client_choice *out)
{
    eng->sched.mask_spend = mask_spend;
    fxi_grammars_forget(&eng->grammars);
    prepare(text_part(FX_PART_REGEX, ambiguous), 12);
    c.req.sampling.seed = 3;
    *out = *run();
    out->text = (fxi_buf){0};
    client_free(&c);
    eng->sched.mask_spend = FXI_MASK_SPEND;
}

// Whoever waits for its grammar sits out steps, others go on, and the answer is the same one.
FX_TEST(test_an_expensive_grammar_holds_up_its_own_answers_only)
{
    static client other;
    static client_choice at_once, later;
    run_ambiguous(FXI_MATCHER_NO_LIMIT, &at_once);
    fxi_grammars_forget(&eng->grammars);
    unthreaded_pause_grammars(eng, true);
    prepare(text_part(FX_PART_REGEX, ambiguous), 12);
    c.req.sampling.seed = 3;
    assert_int_equal(client_submit(&c, NULL), FX_OK);
    fx_grammar *g = c.req.grammar;
    static prompt p;
    p = make_prompt(5);
    client_init(&other, eng, p.tok, p.n, 40);
    assert_int_equal(client_submit(&other, NULL), FX_OK);
    client_run(&other);
    assert_int_equal(other.choice[0].n_tok, 40);
    assert_true(c.choice[0].n_tok < 12);
    assert_int_equal(eng->sched.n_deferred, 1);
    for (int i = 0; i < 20; i++)
        assert_true(fxi_iteration_run(eng)); // nothing is preempted, or fails
    assert_true(fxi_iteration_is_blocked(eng));
    print_message("%d tokens at once, %zu things left to the worker\n", c.choice[0].n_tok,
                  fxi_gram_matcher_read(g->matcher).n_left);
    unthreaded_pause_grammars(eng, false);
    client_run(&c);
    later = c.choice[0];
    fx_grammar_release(g);
    assert_int_equal(later.n_tok, at_once.n_tok);
    assert_memory_equal(later.tok, at_once.tok, (size_t)later.n_tok * sizeof *later.tok);
    client_free(&c);
    client_free(&other);
}

// What a grammar holds is counted; those that nobody uses go first, then nobody gets another.
FX_TEST(test_the_memory_of_grammars_is_bounded)
{
    fx_grammar *g[8];
    fx_error err;
    fx_part part = text_part(FX_PART_JSON, "");
    fxi_grammars_forget(&eng->grammars);
    for (int i = 0; fx_grammar_memory(eng) && i < 3000; i++) usleep(1000); // the worker has one
    assert_int_equal(fx_grammar_memory(eng), 0);
    unthreaded_pause_grammars(eng, true);
    fx_grammar *one = compile(part);
    const size_t n_one = fx_grammar_memory(eng);
    assert_int_equal(n_one, fxi_gram_matcher_read(one->matcher).n_bytes);
    assert_true(n_one > 10000);
    fx_set_grammar_memory(eng, 2 * n_one);
    for (int i = 0; i < 8; i++) { // kept by nobody but the engine
        char text[] = "some text 0";
        text[10] += (char)i;
        fx_grammar_release(compile(text_part(FX_PART_TEXT, text)));
    }
    assert_true(fx_grammar_memory(eng) < 4 * n_one);
    int n = 0;
    for (fx_status st = FX_OK; n < 8 && !st; n += !st) {
        char pattern[] = "[a-z]{1,9}0";
        pattern[10] += (char)n;
        part = text_part(FX_PART_REGEX, pattern);
        st = fx_grammar_compile(eng, &part, &g[n], &err);
        if (st) assert_int_equal(st, FX_EQUEUE);
    }
    assert_in_range(n, 1, 7);
    fx_grammar_release(one);
    while (n) fx_grammar_release(g[--n]);
    unthreaded_pause_grammars(eng, false);
    fx_grammar *last = compile((fx_part){.kind = FX_PART_JSON});
    assert_non_null(last);
    fx_grammar_release(last);
    fx_set_grammar_memory(eng, 128 << 20);
}

FX_TEST(test_a_grammar_belongs_to_its_engine)
{
    fx_error err = {0};
    fx_engine *other = unthreaded_open(MODEL, (fx_options){.n_thread = 1});
    prepare(text_part(FX_PART_TEXT, "a"), 5);
    c.eng = other;
    assert_int_equal(client_submit(&c, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "another engine"));
    fx_grammar_release(c.req.grammar);
    client_free(&c);
    unthreaded_close(other);
}

FX_RUN_GROUP(test_guided, open_once, close_once)
