// test_text.c - text is shown as early as is safe, and never wrongly, however its bytes are split
// into tokens.
#include "unit/cmocka_all.h"

#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#include <string.h>

// Adds `bytes` in pieces of at most `piece` bytes; returns the text shown, and whether a stop
// string ended it.
static bool run(const char *bytes, size_t piece, const char *const *stop, size_t n_stop,
                char *shown)
{
    fxi_text t = {0};
    size_t n = strlen(bytes), at = 0, show;
    *shown = 0;
    for (; at < n && !t.stopped; at += piece) {
        size_t len = n - at < piece ? n - at : piece;
        assert_true(fxi_text_add(&t, bytes + at, len, stop, n_stop, &show));
        strncat(shown, t.clean.p ? t.clean.p : "", show);
        fxi_buf_drop_front(&t.clean, show);
    }
    assert_true(fxi_text_end(&t, &show));
    strncat(shown, t.clean.p ? t.clean.p : "", show);
    bool stopped = t.stopped;
    fxi_text_free(&t);
    return stopped;
}

typedef struct sample {
    const char *bytes, *stop[2], *shown;
    bool stopped;
} sample;

static const sample samples[] = {
    {"plain text", {NULL}, "plain text", false},
    {"caf\xC3\xA9 \xF0\x9F\x98\x80!", {NULL}, "caf\xC3\xA9 \xF0\x9F\x98\x80!", false},
    {"cut \xF0\x9F\x98", {NULL}, "cut \xEF\xBF\xBD", false},
    {"bad \xFF byte", {NULL}, "bad \xEF\xBF\xBD byte", false},
    {"one END two", {"END"}, "one ", true},
    {"one EN two E", {"END"}, "one EN two E", false},
    {"aaab", {"aab"}, "a", true},
    {"first\n\nsecond", {"\n\n"}, "first", true},
    {"x later y", {"later", "x l"}, "", true},
    {"caf\xC3\xA9s", {"\xC3\xA9"}, "caf", true},
};

static void test_any_cut_shows_the_same(void **state)
{
    (void)state;
    char shown[64];
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const sample *s = &samples[i];
        size_t n_stop = (s->stop[0] != NULL) + (s->stop[1] != NULL);
        for (size_t piece = 1; piece <= strlen(s->bytes); piece++) {
            assert_int_equal(run(s->bytes, piece, s->stop, n_stop, shown), s->stopped);
            assert_string_equal(shown, s->shown);
        }
    }
}

static void test_nothing_unsafe_is_shown_early(void **state)
{
    (void)state;
    fxi_text t = {0};
    const char *const stop[] = {"stop"};
    size_t show;
    assert_true(fxi_text_add(&t, "go st", 5, stop, 1, &show));
    assert_int_equal(show, 3); // "st" may become "stop"
    fxi_buf_drop_front(&t.clean, show);
    assert_true(fxi_text_add(&t, "ay\xE2\x82", 4, stop, 1, &show));
    assert_int_equal(show, 4); // "stay"; the incomplete character waits
    fxi_text_free(&t);
}

static void test_first_space_is_dropped(void **state)
{
    (void)state;
    fxi_text t = {.bytes.strip_space = true};
    size_t show;
    assert_true(fxi_text_add(&t, "", 0, NULL, 0, &show)); // a control token does not count
    assert_true(fxi_text_add(&t, " Once", 5, NULL, 0, &show));
    assert_int_equal(show, 4);
    assert_true(fxi_text_add(&t, " upon", 5, NULL, 0, &show));
    assert_string_equal(t.clean.p, "Once upon");
    fxi_text_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut_shows_the_same),
        cmocka_unit_test(test_nothing_unsafe_is_shown_early),
        cmocka_unit_test(test_first_space_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
