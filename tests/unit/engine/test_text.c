// test_text.c - text is shown as early as is safe, and never wrongly, however its bytes are split
// into tokens.
#include "unit/cmocka_all.h"

#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"

#include "base/number/rng.h"

#include <string.h>

// Adds `bytes` in pieces of at most `piece` bytes; returns the text shown, and whether a stop
// string ended it.
static bool run(const char *bytes, size_t piece, const char *const *stop, size_t n_stop,
                char *shown)
{
    fxi_text t = {0};
    fxi_stops stops;
    size_t n = strlen(bytes), at = 0, show;
    assert_true(fxi_stops_make(&stops, stop, n_stop));
    *shown = 0;
    for (; at < n && !t.stopped; at += piece) {
        size_t len = n - at < piece ? n - at : piece;
        assert_true(fxi_text_add(&t, bytes + at, len, &stops, &show));
        strncat(shown, t.clean.p ? t.clean.p : "", show);
        fxi_buf_drop_front(&t.clean, show);
    }
    assert_true(fxi_text_end(&t, &show));
    strncat(shown, t.clean.p ? t.clean.p : "", show);
    bool stopped = t.stopped;
    fxi_text_free(&t);
    fxi_stops_free(&stops);
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

FX_TEST(test_any_cut_shows_the_same)
{
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

// ---- against the definition --------------------------------------------------------------------

// How many bytes of `text`, which has no stop string, no longer text can make part of one.
static size_t safe_bytes(const char *text, const char *const *stop, size_t n_stop)
{
    const size_t n = strlen(text);
    for (size_t at = 0; at < n; at++)
        for (size_t i = 0; i < n_stop; i++)
            if (!strncmp(text + at, stop[i], n - at)) return at;
    return n;
}

static void fill_ab(char *text, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) text[i] = fxi_rng_u64(seed, 0, i) % 2 ? 'b' : 'a';
    text[n] = 0;
}

// A text of two letters, token by token, with three stop strings of 3 to 10 of them.
static bool check_random_text(uint64_t seed)
{
    char text[65], s[3][11], said[65] = "";
    const char *const stop[] = {s[0], s[1], s[2]};
    size_t n_shown = 0, show = 0, cut = SIZE_MAX;
    fxi_text t = {0};
    fxi_stops stops;
    fill_ab(text, 64, seed * 4);
    for (uint64_t i = 0; i < 3; i++)
        fill_ab(s[i], 3 + fxi_rng_u64(seed, 1, i) % 8, seed * 4 + 1 + i);
    assert_true(fxi_stops_make(&stops, stop, 3));
    for (size_t n = 0; n < 64 && cut == SIZE_MAX;) {
        size_t len = 1 + fxi_rng_u64(seed, 2, n) % 3;
        if (len > 64 - n) len = 64 - n;
        assert_true(fxi_text_add(&t, text + n, len, &stops, &show));
        strncat(said, text + n, len);
        n += len;
        // Where the first stop string begins in `text`, or SIZE_MAX.
        size_t first = SIZE_MAX;
        for (size_t i = 0; i < 3; i++) {
            const char *at = strstr(said, stop[i]);
            if (at && (size_t)(at - said) < first) first = (size_t)(at - said);
        }
        cut = first;
        n_shown += show;
        assert_int_equal(n_shown, cut != SIZE_MAX ? cut : safe_bytes(said, stop, 3));
        assert_int_equal(t.stopped, cut != SIZE_MAX);
        fxi_buf_drop_front(&t.clean, show);
    }
    fxi_text_free(&t);
    fxi_stops_free(&stops);
    return cut != SIZE_MAX;
}

FX_TEST(test_stops_are_found_as_by_definition)
{
    int n_stopped = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) n_stopped += check_random_text(seed);
    assert_in_range(n_stopped, 200, 1999);
}

// A beam that forks a text in the middle of a stop string finds it in both.
FX_TEST(test_copies_go_on_in_a_stop_string)
{
    const char *const stop[] = {"abcd"};
    fxi_text t = {0}, copy;
    fxi_stops stops;
    size_t show;
    assert_true(fxi_stops_make(&stops, stop, 1));
    assert_true(fxi_text_add(&t, "xab", 3, &stops, &show));
    fxi_buf_drop_front(&t.clean, show);
    assert_true(fxi_text_copy(&copy, &t));
    assert_true(fxi_text_add(&t, "cx", 2, &stops, &show) && !t.stopped);
    assert_true(fxi_text_add(&copy, "cd", 2, &stops, &show) && copy.stopped);
    assert_int_equal(show, 0);
    fxi_text_restart(&copy);
    assert_true(fxi_text_add(&copy, "cd", 2, &stops, &show) && !copy.stopped);
    fxi_text_free(&t);
    fxi_text_free(&copy);
    fxi_stops_free(&stops);
}

FX_TEST(test_nothing_unsafe_is_shown_early)
{
    fxi_text t = {0};
    const char *const stop[] = {"stop"};
    fxi_stops stops;
    size_t show;
    assert_true(fxi_stops_make(&stops, stop, 1));
    assert_true(fxi_text_add(&t, "go st", 5, &stops, &show));
    assert_int_equal(show, 3); // "st" may become "stop"
    fxi_buf_drop_front(&t.clean, show);
    assert_true(fxi_text_add(&t, "ay\xE2\x82", 4, &stops, &show));
    assert_int_equal(show, 4); // "stay"; the incomplete character waits
    fxi_text_free(&t);
    fxi_stops_free(&stops);
}

FX_TEST(test_first_space_is_dropped)
{
    fxi_text t = {.bytes.strip_space = true};
    size_t show;
    assert_true(fxi_text_add(&t, "", 0, NULL, &show)); // a control token does not count
    assert_true(fxi_text_add(&t, " Once", 5, NULL, &show));
    assert_int_equal(show, 4);
    assert_true(fxi_text_add(&t, " upon", 5, NULL, &show));
    assert_string_equal(t.clean.p, "Once upon");
    fxi_text_free(&t);
}

FX_RUN(test_text)
