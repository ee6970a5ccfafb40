// test_trace.c - traces of both formats, and one line for everything that is wrong with one.
#include "unit/cmocka_all.h"

#include "lab/trace.h"

#include <string.h>

static fx_status read_text(const char *text, fxi_trace *t, fx_error *err)
{
    return fxi_trace_read(text, strlen(text), "t", t, err);
}

static void must_read(const char *text, fxi_trace *t)
{
    fx_error err = {0};
    if (read_text(text, t, &err) != FX_OK) fail_msg("%s", err.text);
}

FX_TEST(test_csv)
{
    fxi_trace t;
    must_read("prompt_tokens,who,output_tokens\r\n10,x,4\r\n\r\n20,\"y z\",0", &t);
    assert_int_equal(t.n_row, 2);
    assert_false(t.has_arrivals);
    assert_int_equal(t.row[0].n_prompt, 10);
    assert_int_equal(t.row[0].n_output, 4);
    assert_int_equal(t.row[1].n_prompt, 20);
    assert_int_equal(t.row[1].n_output, 0);
    fxi_trace_free(&t);
}

FX_TEST(test_hash_ids)
{
    fxi_trace t;
    must_read(
        "arrival_ms,prompt_tokens,output_tokens,hash_ids\n5.5,1024,1,7 8\n0,513,1, 7  9 \n0,3,1,\n",
        &t);
    assert_true(t.has_arrivals);
    assert_int_equal(t.n_row, 3);
    assert_int_equal(t.row[2].n_prompt, 1024); // by arrival
    assert_true(t.row[2].arrival_ms == 5.5);
    assert_int_equal(t.row[2].n_hash, 2);
    assert_int_equal(t.hash[t.row[2].hash + 1], 8);
    const fxi_trace_row *other = t.row[0].n_prompt == 513 ? &t.row[0] : &t.row[1];
    assert_int_equal(other->n_hash, 2);
    assert_int_equal(t.hash[other->hash], 7);
    assert_int_equal(t.hash[other->hash + 1], 9);
    fxi_trace_free(&t);
}

FX_TEST(test_json_lines)
{
    fxi_trace t;
    must_read(
        "{\"timestamp\": 3, \"input_length\": 600, \"output_length\": 2, \"hash_ids\": [1, 2]}\n"
        "{\"output_length\": 5, \"input_length\": 1, \"timestamp\": 9, \"more\": {}}\n",
        &t);
    assert_int_equal(t.n_row, 2);
    assert_int_equal(t.row[0].n_prompt, 600);
    assert_int_equal(t.hash[1], 2);
    assert_int_equal(t.row[1].n_hash, 0);
    assert_int_equal(t.row[1].n_output, 5);
    fxi_trace_free(&t);
}

FX_TEST(test_what_is_wrong)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "t: no requests"},
        {"prompt_tokens,output_tokens\n", "t: no requests"},
        {"prompt_tokens\n5\n", "t:2: no output_tokens"},
        {"output_tokens\n5\n", "t:2: no prompt_tokens"},
        {"prompt_tokens,output_tokens\n0,1\n",
         "t:2: prompt: 0 is not a number of tokens from 1 to 16777216"},
        {"prompt_tokens,output_tokens\n1.5,1\n",
         "t:2: prompt: 1.5 is not a number of tokens from 1 to 16777216"},
        {"prompt_tokens,output_tokens\n1,99999999\n",
         "t:2: output: 1e+08 is not a number of tokens from 0 to 16777216"},
        {"prompt_tokens,output_tokens\n1,x\n", "t:2: a number is expected"},
        {"prompt_tokens,output_tokens\n1,2x\n", "t:2: '2x' is not a number"},
        {"prompt_tokens,output_tokens\n1,2,3\n", "t:2: more than 2 fields"},
        {"prompt_tokens,prompt_tokens\n1,2\n", "t:1: a column comes twice"},
        {"arrival_ms,prompt_tokens,output_tokens\n1e16,1,2\n",
         "t:2: arrival: 1e+16 is not a time in ms"},
        {"prompt_tokens,output_tokens,hash_ids\n600,1,4\n",
         "t:2: 1 hash ids for 600 prompt tokens, expected 2"},
        {"prompt_tokens,output_tokens,hash_ids\n6,1,99999999999999999999\n",
         "t:2: a hash id is not a number below 2^64"},
        {"{\"input_length\": 1}\n", "t:1: no output_tokens"},
        {"{\"input_length\": true, \"output_length\": 1}\n", "t:1: input_length is not a number"},
        {"{\"input_length\": 1, \"output_length\": 1, \"hash_ids\": 1}\n",
         "t:1: hash_ids is not an array"},
        {"{\"input_length\": 1, \"output_length\": 1}\n{\"input_length\": 1, \"output_length\": 1, "
         "\"timestamp\": 1}",
         "t:2: an arrival, unlike the rows before"},
        {"{\"input_length\": 1, \"output_length\": 1}\n[1]\n", "t:2: not a JSON object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fxi_trace t;
        fx_error err = {0};
        assert_int_equal(read_text(cases[i].text, &t, &err), FX_EFORMAT);
        assert_string_equal(err.text, cases[i].want);
        fxi_trace_free(&t);
    }
}

FX_TEST(test_no_file)
{
    fxi_trace t;
    fx_error err = {0};
    assert_int_equal(fxi_trace_open("/no/such/trace", &t, &err), FX_EIO);
    assert_non_null(strstr(err.text, "/no/such/trace"));
    fxi_trace_free(&t);
}

FX_RUN(test_trace)
