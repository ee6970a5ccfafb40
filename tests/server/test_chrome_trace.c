// test_chrome_trace.c - the flight recorder of a real engine as a Chrome trace: it parses, its
// slices nest, what begins ends, and nothing of the prompts is in it.
#include <stdlib.h>
#include <string.h>

#include <semaphore.h>

#include "flexinfer/flexinfer.h"
#include "json_doc.h"
#include "server/trace/chrome_trace.h"
#include "unit/cmocka_all.h"

#define MODEL FX_SOURCE_DIR "/models/storyteller.gguf"

static const fxi_json *events_of(const fxi_json *doc)
{
    const fxi_json *ev = fxi_json_get(doc, "traceEvents");
    assert_true(fxi_json_is_array(ev));
    return ev;
}

static const char *text_of(const fxi_json *ev, const char *key)
{
    const char *s = fxi_json_text(fxi_json_get(ev, key));
    return s ? s : "";
}

static double number_of(const fxi_json *ev, const char *key)
{
    return fxi_json_number(fxi_json_get(ev, key));
}

static fxi_json_doc parse(const fxi_buf *b)
{
    static const fxi_json_rules rules = {.unique = true};
    fxi_json_doc doc = {0};
    fx_error e;
    if (fxi_json_parse(&doc, (fxi_str){b->p, b->n}, &rules, &e)) fail_msg("%s", e.text);
    return doc;
}

// Events of this phase and name; NULL: of any name.
static int count_events(const fxi_json *events, const char *phase, const char *name)
{
    int n = 0;
    for (fxi_json_iter it = fxi_json_items(events); fxi_json_next(&it);)
        n += !strcmp(text_of(it.value, "ph"), phase) &&
             (!name || !strcmp(text_of(it.value, "name"), name));
    return n;
}

// Slices of a row follow each other; "b" and "e" of an id pair up by name, like brackets.
static void check_slices(const fxi_json *events)
{
    double end[4] = {0};
    const char *open[8];
    int depth = 0;
    for (fxi_json_iter it = fxi_json_items(events); fxi_json_next(&it);) {
        const int row = (int)number_of(it.value, "tid");
        const char *phase = text_of(it.value, "ph");
        assert_in_range(row, 1, 3);
        if (*phase == 'X') {
            assert_true(number_of(it.value, "ts") >= end[row]);
            assert_true(number_of(it.value, "dur") >= 0);
            end[row] =
                number_of(it.value, "ts") + number_of(it.value, "dur") - 1e-3; // as it is rounded
        }
        if (*phase == 'b') {
            assert_true(depth < 8);
            open[depth++] = text_of(it.value, "name");
        }
        if (*phase == 'e') {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], text_of(it.value, "name"));
        }
    }
    assert_int_equal(depth, 0);
}

// ---- made events -------------------------------------------------------------------------------

static fxi_json_doc trace_of(const fx_record *ev, size_t n, uint64_t n_lost)
{
    fxi_buf b = {0};
    assert_true(fxi_chrome_trace(&b, ev, n, n_lost));
    fxi_json_doc doc = parse(&b);
    check_slices(events_of(doc.root));
    fxi_buf_free(&b);
    return doc;
}

FX_TEST(test_no_events)
{
    fxi_json_doc doc = trace_of(NULL, 0, 0);
    assert_int_equal(fxi_json_array_size(events_of(doc.root)), 4); // names
    fxi_json_doc_free(&doc);
}

// The ring has dropped the beginnings, and the ends are still to come.
FX_TEST(test_what_is_cut_says_so)
{
    const fx_record ev[] = {
        {.kind = FX_RECORD_step_end, .at_us = 10},
        {.kind = FX_RECORD_admit, .at_us = 20, .request = 3},
        {.kind = FX_RECORD_arrive, .at_us = 20, .request = 2},
        {.kind = FX_RECORD_finish, .at_us = 25, .request = 1},
        {.kind = FX_RECORD_step_begin, .at_us = 30},
        {.kind = FX_RECORD_wait, .at_us = 40, .request = 3},
    };
    fxi_json_doc doc = trace_of(ev, sizeof ev / sizeof ev[0], 1000);
    const fxi_json *events = events_of(doc.root);
    int n_cut = 0;
    for (fxi_json_iter it = fxi_json_items(events); fxi_json_next(&it);)
        n_cut += fxi_json_is_true(fxi_json_get(fxi_json_get(it.value, "args"), "cut"));
    assert_int_equal(n_cut, 2 + 3); // steps and requests
    assert_int_equal(count_events(events, "b", "running"), 1);
    assert_int_equal(count_events(events, "b", "waiting"), 2);
    assert_int_equal(count_events(events, "b", "request"), 3);
    assert_int_equal(number_of(fxi_json_get(doc.root, "otherData"), "lost_events"), 1000);
    fxi_json_doc_free(&doc);
}

// Kinds that a later engine may know.
FX_TEST(test_unknown_kinds_are_left_out)
{
    const fx_record ev = {.kind = 255, .at_us = 1, .request = 1};
    fxi_json_doc doc = trace_of(&ev, 1, 0);
    assert_int_equal(fxi_json_array_size(events_of(doc.root)), 4);
    fxi_json_doc_free(&doc);
}

// ---- a real engine -----------------------------------------------------------------------------

static const char secret[] = "Once upon a time there was a secretive hedgehog";

static void note_event(void *ud, const fx_event *ev)
{
    if (ev->last) sem_post(ud);
}

static void run_request(fx_engine *eng, int n_choice)
{
    sem_t ended;
    fx_tokens prompt = {0};
    uint64_t id;
    sem_init(&ended, 0, 0);
    assert_int_equal(fx_tokenize(eng, secret, sizeof secret - 1, FX_TOKENIZE_PROMPT, &prompt, NULL),
                     FX_OK);
    fx_request req = fx_request_default();
    req.prompt = prompt.id;
    req.n_prompt = prompt.n;
    req.max_tok = 6;
    req.n_choice = n_choice;
    req.ignore_eos = true;
    req.tenant = "secretive-tenant";
    req.on_event = note_event;
    req.ud = &ended;
    assert_int_equal(fx_submit(eng, &req, &id, NULL), FX_OK);
    while (sem_wait(&ended) != 0) {
    }
    fx_tokens_free(&prompt);
    sem_destroy(&ended);
}

// The last event of a request comes before the state that ends it: the second one may be cut.
FX_TEST(test_an_engine_opens_in_a_viewer)
{
    fx_engine *eng;
    fxi_buf b = {0};
    const fx_options opt = {.model_path = MODEL, .n_thread = 1, .kv_memory_bytes = 16 << 20};
    assert_int_equal(fx_engine_open(&opt, &eng, NULL), FX_OK);
    run_request(eng, 3);
    run_request(eng, 1);
    assert_true(fxi_chrome_trace_of(&b, eng));
    fx_engine_close(eng);
    assert_null(strstr(b.p, "secret"));
    assert_null(strstr(b.p, "hedge"));
    fxi_json_doc doc = parse(&b);
    const fxi_json *events = events_of(doc.root);
    check_slices(events);
    assert_int_equal(count_events(events, "b", "request"), 2);
    assert_int_equal(count_events(events, "b", NULL), count_events(events, "e", NULL));
    assert_int_equal(count_events(events, "X", "match"), 2);
    assert_int_equal(count_events(events, "X", "fork"), 2);
    assert_int_equal(count_events(events, "X", "step"), 12);
    assert_true(count_events(events, "C", NULL) >= 12); // live memory grows with each step
    fxi_json_doc_free(&doc);
    fxi_buf_free(&b);
}

FX_RUN(test_chrome_trace)
