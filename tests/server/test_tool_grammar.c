// test_tool_grammar.c - calls that must be made: the grammars that they compile to, which requests
// for them are refused, and that what such a grammar lets through is parsed as calls.
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "server/fake_engine.h"
#include "server/request/api_request.h"

#define F \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}"
#define G "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"
#define STRICT \
    "{\"type\":\"function\",\"function\":{\"name\":\"s\",\"strict\":true,\"parameters\":{}}}"
#define ALLOWED(mode, tools) \
    "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"" mode "\",\"tools\":[" tools "]}}"
#define NAMED(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"

typedef struct tool_case {
    const char *calls, *reasoning; // NULL: the format is not known
    const char *tools, *members;
    const char *form;
} tool_case;

#define CALL_F                                                                    \
    "seq(text <tool_call>\n{\"name\": \",text f,text \", \"arguments\": ,object " \
    "{\"type\":\"object\"},text }\n</tool_call>)"
#define CALL_G                                                                          \
    "seq(text <tool_call>\n{\"name\": \",text g,text \", \"arguments\": ,text {},text " \
    "}\n</tool_call>)"
#define CALL_G_ANY                                                                   \
    "seq(text <tool_call>\n{\"name\": \",text g,text \", \"arguments\": ,json,text " \
    "}\n</tool_call>)"
#define PLAIN_G                                                                            \
    "seq(text [,alt(seq(text {\"name\": \",text g,text \", \"parameters\": ,text {},text " \
    "})),text ])"
#define REASONS "repeat(seq(text <think>,free(text </think>),text </think>,regex [ \\n]{0,4}))"
#define ONE     ",\"parallel_tool_calls\":false"
#define JSON    "\"response_format\":{\"type\":\"json_object\"}"
// Parameters of which one must be given.
#define PARTS(strict)                                                        \
    "{\"type\":\"function\",\"function\":{\"name\":\"p\",\"strict\":" strict \
    ",\"parameters\":" SCHEMA "}}"
#define SCHEMA                                                                            \
    "{\"type\":\"object\",\"properties\":{\"a/b\":{\"type\":\"string\"},\"n\":{\"type\":" \
    "\"integer\"}},\"required\":[\"n\"]}"
#define WORDS                                                                           \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"},\"n\":{\"type\":" \
    "\"integer\"}},\"required\":[\"n\"]}"

static const tool_case tool_cases[] = {
    {"hermes", NULL, F, "\"tool_choice\":\"auto\"", ""},
    {"hermes", NULL, F "," G, "\"tool_choice\":" NAMED("g") ONE, "seq(alt(" CALL_G "))"},
    {"hermes", NULL, F "," G, "\"tool_choice\":" ALLOWED("required", NAMED("g")) ONE,
     "seq(alt(" CALL_G "))"},
    {"hermes", NULL, F "," G,
     "\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":["
     "{\"type\":\"function\",\"name\":\"g\"}]}" ONE,
     "seq(alt(" CALL_G "))"},
    {"hermes", NULL, F "," G, "\"tool_choice\":" ALLOWED("auto", NAMED("g")) ONE,
     "seq(free(text <tool_call>),repeat(seq(seq(alt(" CALL_G_ANY ")))))"},
    {NULL, NULL, F "," G, "\"tool_choice\":" ALLOWED("auto", NAMED("g")), ""},
    {"hermes", NULL, F, "\"tool_choice\":\"required\"",
     "seq(alt(" CALL_F "),repeat(seq(text \n,alt(" CALL_F "))),repeat(text \n))"},
    {"hermes", NULL, F "," G, "\"tool_choice\":" NAMED("g"), "seq(alt(" CALL_G "))"},
    {"hermes", "think", G, "\"tool_choice\":\"required\"" ONE,
     "seq(" REASONS ",seq(alt(" CALL_G ")))"},
    {NULL, NULL, G, "\"tool_choice\":\"required\"" ONE, PLAIN_G},
    {"mistral_v11", NULL, G, "\"tool_choice\":\"required\"" ONE,
     "seq(alt(seq(text [TOOL_CALLS],text g,text [ARGS],text {})))"},
    {"kimi_k2", NULL, G, "\"tool_choice\":\"required\"" ONE,
     "seq(text <|tool_calls_section_begin|>,alt(seq(text <|tool_call_begin|>functions.,text g,"
     "regex :(?:0|[1-9][0-9]{0,3}),text <|tool_call_argument_begin|>,text {},"
     "text <|tool_call_end|>)),text <|tool_calls_section_end|>)"},
    {"nemotron", NULL, STRICT "," F, "\"tool_choice\":\"auto\"" ONE,
     "seq(free(text <TOOLCALL>),repeat(seq(seq(text <TOOLCALL>[,alt(seq(text {\"name\": \",text s,"
     "text \", \"arguments\": ,object {},text }),seq(text {\"name\": \",text f,text \", "
     "\"arguments\": ,json,text })),text ]</TOOLCALL>))))"},
    // Both marks that open calls are kept out of text, and nothing follows a section that another
    // call could go on with.
    {"phi4_mini", NULL, STRICT, "\"tool_choice\":\"auto\"",
     "seq(free(text functools,text <|tool_call|>),repeat(seq(seq(text functools[,alt(seq(text "
     "{\"name\": \",text s,text \", \"arguments\": ,object {},text })),repeat(seq(text , ,alt(seq("
     "text {\"name\": \",text s,text \", \"arguments\": ,object {},text })))),text ]))))"},
    // Arguments as tags: text as it is, other values as JSON.
    {"qwen3_coder", NULL, PARTS("true"), "\"tool_choice\":\"auto\"" ONE,
     "seq(free(text <tool_call>),repeat(seq(seq(alt(seq(text <tool_call>\n<function=,text p,text "
     ">\n,repeat(seq(text <parameter=,text a/b,text >\n,string /properties/a~1b " SCHEMA
     "(text </parameter>),text \n</parameter>\n)),seq(text <parameter=,text n,text >\n,schema "
     "/properties/n " SCHEMA ",text \n</parameter>\n),text </function>\n</tool_call>))))))"},
    {"seed_oss", NULL, PARTS("false"), "\"tool_choice\":" NAMED("p") ONE,
     "seq(alt(seq(text <seed:tool_call>\n<function=,text p,text >\n,repeat(seq(text "
     "<parameter=,text a/b,text >,string /properties/a~1b " SCHEMA "(text </parameter>,regex "
     "^\\n|\\n$),text </parameter>\n)),seq(text <parameter=,text n,text >,schema "
     "/properties/n " SCHEMA ",text </parameter>\n),text </function>\n</seed:tool_call>)))"},
    // As keywords: what Python cannot name is said in a plain list.
    {"pythonic", NULL, G, "\"tool_choice\":\"required\"" ONE,
     "seq(text [,alt(seq(text g,text (,text ))),text ])"},
    {"pythonic", NULL,
     "{\"type\":\"function\",\"function\":{\"name\":\"p\",\"parameters\":" WORDS "}}",
     "\"tool_choice\":\"required\"" ONE,
     "seq(text [,alt(seq(text p,text (,repeat(seq(text a,text =,schema /properties/a " WORDS
     ",text , )),seq(text n,text =,schema /properties/n " WORDS "),text ))),text ])"},
    {"pythonic", NULL, PARTS("true") ",{\"type\":\"function\",\"function\":{\"name\":\"g\"}}",
     "\"tool_choice\":" NAMED("p") ONE,
     "seq(text [,alt(seq(text {\"name\": \",text p,text \", \"parameters\": ,object " SCHEMA
     ",text })),text ])"},
    // Bare calls: no other text begins like them.
    {"llama3_json", NULL, STRICT, "\"tool_choice\":\"auto\"" ONE,
     "alt(seq(string(text <|python_tag|>,regex ^\\s*\\{),repeat(seq(text "
     "<|python_tag|>,alt(seq(text "
     "{\"name\": \",text s,text \", \"parameters\": ,object {},text }))))),seq(alt(seq(text "
     "{\"name\": \",text s,text \", \"parameters\": ,object {},text }))))"},
    {"hermes", NULL, STRICT, "\"tool_choice\":\"none\"", ""},
    // A form, or calls.
    {"hermes", "think", G, JSON ONE, "seq(" REASONS ",alt(seq(json),seq(alt(" CALL_G_ANY "))))"},
    {"llama3_json", NULL, G, JSON ONE,
     "alt(seq(json),seq(text <|python_tag|>,alt(seq(text {\"name\": \",text g,text "
     "\", \"parameters\": ,json,text }))))"},
    {"hermes", NULL, G, JSON ",\"tool_choice\":\"none\"", "json"},
    {"hermes", NULL, "", JSON, "json"},
    {NULL, "think", G, JSON, "seq(" REASONS ",json)"},
    {"harmony", "harmony", "", JSON,
     "seq(repeat(seq(text <|channel|>analysis<|message|>,free(text <|start|>,text <|channel|>,text "
     "<|message|>,text <|end|>,text <|call|>,text <|return|>),text <|end|><|start|>assistant)),"
     "text <|channel|>final<|message|>,json)"},
};

static fxi_limits limits_of(const tool_case *c, fxi_formats *f)
{
    *f = (fxi_formats){0};
    if (c->calls) f->calls = fxi_call_format_named(c->calls);
    if (c->reasoning) f->reasoning = fxi_reason_format_named(c->reasoning);
    return (fxi_limits){.model_id = "m", .n_vocab = 100, .max_choice = 64, .formats = f};
}

static bool parse_case(const tool_case *c, fxi_formats *f, fxi_params *par, fxi_http_error *e)
{
    char body[2048];
    const fxi_limits lim = limits_of(c, f);
    snprintf(body, sizeof body,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[%s],%s}", c->tools,
             c->members);
    return fxi_params_parse(par, FXI_API_CHAT, body, strlen(body), &lim, e);
}

FX_TEST(test_calls_become_grammars)
{
    fx_engine *eng = fake_engine_new();
    for (size_t i = 0; i < sizeof tool_cases / sizeof *tool_cases; i++) {
        fxi_params par;
        fxi_formats f;
        fxi_http_error e = {0};
        if (!parse_case(&tool_cases[i], &f, &par, &e)) fail_msg("%zu: %s", i, e.message);
        if (!fxi_params_resolve(&par, eng, &e)) fail_msg("%zu: %s", i, e.message);
        assert_string_equal(fake_engine_form(par.grammar), tool_cases[i].form);
        fxi_params_free(&par);
    }
    fx_engine_close(eng);
}

// A mark that is a control token is one in the grammar, too; the fake engine has "<eot>".
FX_TEST(test_marks_may_be_control_tokens)
{
    static const fxi_call_format format = {
        .name = "x", .open = {"<eot>"}, .spelling = {"<eot>[", "<<eot>", "=", ";", ",", "]<eot>"}};
    fx_engine *eng = fake_engine_new();
    fxi_formats f = {.calls = &format, .mark = {263}, .n_mark = 1};
    const fxi_limits lim = {.model_id = "m", .n_vocab = 300, .max_choice = 64, .formats = &f};
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[" G
                               "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false}";
    fxi_params par;
    fxi_http_error e = {0};
    assert_true(fxi_params_parse(&par, FXI_API_CHAT, body, strlen(body), &lim, &e));
    assert_true(fxi_params_resolve(&par, eng, &e));
    assert_string_equal(fake_engine_form(par.grammar),
                        "seq(control <eot>,text [,alt(seq(text <,control <eot>,text g,text =,"
                        "text {},text ;)),text ],control <eot>)");
    const fx_request req = fxi_params_request(&par, 0);
    assert_int_equal(req.n_show_token, 1);
    assert_int_equal(req.show_token[0], 263);
    fxi_params_free(&par);
    fx_engine_close(eng);
}

FX_TEST(test_the_prompt_may_have_opened_the_reasoning)
{
    fx_engine *eng = fake_engine_new();
    const tool_case c = {"hermes", "think", NULL, NULL, NULL};
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a<think>\\n\"}],\"tools\":[" G
        "],\"tool_choice\":\"required\",\"parallel_tool_calls\":false}";
    fxi_formats f;
    const fxi_limits lim = limits_of(&c, &f);
    fxi_params par;
    fxi_http_error e = {0};
    assert_true(fxi_params_parse(&par, FXI_API_CHAT, body, strlen(body), &lim, &e));
    assert_true(fxi_params_resolve(&par, eng, &e));
    assert_string_equal(fake_engine_form(par.grammar),
                        "seq(free(text </think>),text </think>,regex [ \\n]{0,4},seq(alt(" CALL_G
                        ")))");
    fxi_params_free(&par);
    fx_engine_close(eng);
}

typedef struct refused_case {
    const char *tools, *members, *param;
} refused_case;

static const refused_case refused_cases[] = {
    {"", "\"tool_choice\":\"required\"", "tool_choice"},
    {F, "\"tool_choice\":" NAMED("g"), "tool_choice"},
    {F, "\"tool_choice\":{}", "tool_choice"},
    {F, "\"tool_choice\":{\"type\":\"spoon\"}", "tool_choice"},
    {F, "\"tool_choice\":{\"type\":\"allowed_tools\"}", "tool_choice.mode"},
    {F, "\"tool_choice\":" ALLOWED("none", NAMED("f")), "tool_choice.mode"},
    {F, "\"tool_choice\":" ALLOWED("auto", ""), "tool_choice.tools"},
    {F, "\"tool_choice\":" ALLOWED("auto", "1"), "tool_choice.tools"},
    {F, "\"tool_choice\":" ALLOWED("auto", "{\"type\":\"function\"}"), "tool_choice.tools"},
    {F, "\"tool_choice\":" ALLOWED("auto", "{\"type\":\"mcp\",\"name\":\"f\"}"),
     "tool_choice.tools"},
    {F, "\"tool_choice\":" ALLOWED("auto", NAMED("f") "," NAMED("g")), "tool_choice"},
    {"", "\"tool_choice\":" ALLOWED("required", NAMED("f")), "tool_choice"},
    {F "," G "," F, "\"tool_choice\":\"auto\"", "tools"},
    {F "," F, "\"tool_choice\":\"none\"", "tools"},
    {F, "\"tool_choice\":{\"type\":\"function\"}", "tool_choice.function.name"},
    {F, "\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}",
     "tool_choice"},
    {"{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}", "\"tool_choice\":\"required\"",
     "tools[0].function.name"},
    {"{\"type\":\"function\",\"function\":{\"name\":\"a|b\",\"strict\":true}}",
     "\"tool_choice\":\"auto\"", "tools[0].function.name"},
};

FX_TEST(test_what_cannot_be_called_is_refused)
{
    for (size_t i = 0; i < sizeof refused_cases / sizeof *refused_cases; i++) {
        const refused_case *r = &refused_cases[i];
        const tool_case c = {"hermes", NULL, r->tools, r->members, NULL};
        fxi_params par;
        fxi_formats f;
        fxi_http_error e = {0};
        if (parse_case(&c, &f, &par, &e)) fail_msg("%s is taken", r->members);
        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, r->param);
    }
}

typedef struct unsayable_case {
    const char *calls, *parameters, *word;
} unsayable_case;

// Strict tools beside text: what the model's format cannot say is refused by name.
static const unsayable_case unsayable_cases[] = {
    {"pythonic", "{\"type\":\"object\",\"properties\":{\"a-b\":{}}}", "'a-b'"},
    {"qwen3_coder", "{\"type\":\"object\",\"properties\":{\"a>b\":{}}}", "'a>b'"},
    {"qwen3_coder", "{\"type\":\"object\",\"anyOf\":[{}]}", "'anyOf'"},
    {"glm45", "{\"type\":\"object\",\"patternProperties\":{\"a\":{}}}", "'patternProperties'"},
    {"lfm2", "{\"type\":\"object\",\"required\":[\"z\"]}", "'z'"},
    {"minimax_m2", "{\"type\":\"array\"}", "'object'"},
};

FX_TEST(test_strict_tools_that_a_format_cannot_say_are_refused)
{
    for (size_t i = 0; i < sizeof unsayable_cases / sizeof *unsayable_cases; i++) {
        const unsayable_case *u = &unsayable_cases[i];
        char tools[512];
        const tool_case c = {u->calls, NULL, tools, "\"tool_choice\":\"auto\"", NULL};
        const tool_case must = {u->calls, NULL, tools, "\"tool_choice\":\"required\"", NULL};
        fxi_params par;
        fxi_formats f;
        fxi_http_error e = {0};
        snprintf(tools, sizeof tools,
                 "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":true,"
                 "\"parameters\":%s}}",
                 u->parameters);
        assert_false(parse_case(&c, &f, &par, &e));
        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, "tools[0].function");
        if (!strstr(e.message, u->word) || !strstr(e.message, u->calls)) fail_msg("%s", e.message);
        assert_true(parse_case(&must, &f, &par, &e)); // a plain list can
        assert_true(par.plain_calls);
        fxi_params_free(&par);
    }
}

// A schema that the grammar does not know is blamed on the tools.
FX_TEST(test_a_schema_that_is_refused_is_blamed_on_the_tools)
{
    fx_engine *eng = fake_engine_new();
    const tool_case c = {
        "hermes", NULL,
        "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"bad\":1}}}",
        "\"tool_choice\":\"required\"", NULL};
    fxi_params par;
    fxi_formats f;
    fxi_http_error e = {0};
    assert_true(parse_case(&c, &f, &par, &e));
    assert_false(fxi_params_resolve(&par, eng, &e));
    assert_int_equal(e.status, 400);
    assert_string_equal(e.param, "tools");
    fxi_params_free(&par);
    fx_engine_close(eng);
}

// ---- what a grammar lets through is parsed as calls ---------------------------------------------

typedef struct counted {
    int n_call, n_done;
    fxi_buf args;
} counted;

static bool count_event(void *ud, const fxi_output_event *ev)
{
    counted *c = ud;
    c->n_call += ev->kind == FXI_OUTPUT_CALL;
    c->n_done += ev->kind == FXI_OUTPUT_DONE;
    return ev->kind != FXI_OUTPUT_ARGS || fxi_buf_add(&c->args, ev->p, ev->n);
}

// The arguments {"a": 1}, as the body writes them.
static bool spell_one(fxi_buf *b, const fxi_call_format *f)
{
    const fxi_call_spelling *w = &f->spelling;
    if (f->body == FXI_BODY_PYTHON) return fxi_buf_str(b, "a=1");
    if (f->body != FXI_BODY_TAGS) return fxi_buf_str(b, "{\"a\": 1}");
    return fxi_buf_fmt(b, "%sa%s1%s", w->key, w->key_end, w->value_end);
}

static bool spell_call(fxi_buf *b, const fxi_call_format *f, const char *name, bool has_args)
{
    const fxi_call_spelling *w = &f->spelling;
    const bool is_json = f->body != FXI_BODY_PYTHON && f->body != FXI_BODY_TAGS;
    return fxi_buf_fmt(b, "%s%s%s%s", w->before, name, f->head_is_id ? ":0" : "", w->name_end) &&
           (has_args ? spell_one(b, f) : fxi_buf_str(b, is_json ? "{}" : "")) &&
           fxi_buf_str(b, w->after);
}

static void check_spelling(const fxi_call_format *f)
{
    const fxi_call_spelling *w = &f->spelling;
    const fxi_output_spec spec = {.calls = f};
    fxi_output_parser *a = fxi_output_parser_new(&spec);
    counted c = {0};
    fxi_buf b = {0};
    assert_true(fxi_buf_str(&b, w->first) && spell_call(&b, f, "f", true) &&
                fxi_buf_str(&b, w->between) && spell_call(&b, f, "g", false) &&
                fxi_buf_str(&b, w->last));
    assert_true(fxi_output_parser_add(a, b.p, b.n, count_event, &c) &&
                fxi_output_parser_end(a, false, count_event, &c));
    if (c.n_call != 2 || c.n_done != 2 || strcmp(c.args.p, "{\"a\": 1}{}") != 0)
        fail_msg("%s is not parsed: %s", f->name, b.p);
    fxi_buf_free(&c.args);
    fxi_buf_free(&b);
    fxi_output_parser_free(a);
}

FX_TEST(test_each_format_parses_how_it_is_spelled)
{
    int n = 0;
    check_spelling(fxi_call_format_plain());
    for (size_t i = 0; fxi_call_format_at(i); i++) {
        check_spelling(fxi_call_format_at(i));
        n++;
    }
    assert_int_equal(n, 18);
}

FX_RUN(test_tool_grammar)
