// test_api_quotes.c - what an error quotes of a long text in a request ends with a character,
// wherever its characters begin.
#include <stdio.h>
#include <string.h>

#include "base/text/utf8.h"
#include "server/request/api_request.h"
#include "unit/cmocka_all.h"

static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};

// A request around a text that is refused.
typedef struct refused_text {
    const char *front, *back;
} refused_text;

static const refused_text refused[] = {
    {"{\"messages\":[{\"role\":\"", "\",\"content\":\"a\"}]}"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"", "\"}]}]}"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"type\":\"", "\"}]}"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"model\":\"", "\"}"},
};

static void expect_whole(const refused_text *r, const char *before, const char *character)
{
    char body[1024];
    int n = snprintf(body, sizeof body, "%s%s", r->front, before);
    for (int i = 0; i < 200; i++) n += snprintf(body + n, sizeof body - (size_t)n, "%s", character);
    snprintf(body + n, sizeof body - (size_t)n, "%s", r->back);
    fxi_params par;
    fxi_http_error e = {0};
    assert_false(fxi_params_parse(&par, FXI_API_CHAT, body, strlen(body), &limits, &e));
    assert_non_null(strstr(e.message, character));
    assert_int_equal(fxi_utf8_check(e.message, strlen(e.message)), strlen(e.message));
}

FX_TEST(test_quotes_end_with_a_character)
{
    static const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    static const char *const before[] = {"", "a", "ab", "abc"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        for (int k = 0; k < 12; k++) expect_whole(&refused[i], before[k % 4], characters[k / 4]);
}

FX_RUN(test_api_quotes)
