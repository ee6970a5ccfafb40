// test_api_form.c - fields that say what the answer must look like: what they compile, and which of
// them is blamed for a form that is refused.
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "server/fake_engine.h"
#include "server/request/api_request.h"

static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};

typedef struct form_case {
    const char *members, *form; // form NULL: refused, and the field that is blamed is in
    const char *blamed;         // this
} form_case;

static const form_case form_cases[] = {
    {"\"stream\":false", "", NULL},
    {"\"response_format\":{\"type\":\"json_object\"}", "json", NULL},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":"
     "true,"
     "\"schema\":{\"type\":\"integer\"}}}",
     "schema {\"type\":\"integer\"}", NULL},
    {"\"guided_json\":{\"const\":1}", "schema {\"const\":1}", NULL},
    {"\"guided_json\":\"{\\\"const\\\":1}\"", "schema {\"const\":1}", NULL},
    {"\"guided_json\":true", "schema true", NULL},
    {"\"json_schema\":{}", "schema {}", NULL},
    {"\"guided_regex\":\"a+\"", "regex a+", NULL},
    {"\"guided_choice\":[\"a\",\"b c\"]", "alt(text a,text b c)", NULL},
    {"\"guided_grammar\":\"root ::= x\"", "rules root ::= x", NULL},
    {"\"grammar\":\"root ::= x\"", "rules root ::= x", NULL},
    {"\"structured_outputs\":{\"json\":{\"const\":1}}", "schema {\"const\":1}", NULL},
    {"\"structured_outputs\":{\"json\":\"true\"}", "schema true", NULL},
    {"\"structured_outputs\":{\"regex\":\"a+\",\"json\":null}", "regex a+", NULL},
    {"\"structured_outputs\":{\"choice\":[\"a\"]}", "alt(text a)", NULL},
    {"\"structured_outputs\":{\"grammar\":\"start: x\"}", "rules start: x", NULL},
    {"\"structured_outputs\":{\"json_object\":true}", "json", NULL},
    {"\"guided_regex\":\"bad\"", NULL, "guided_regex"},
    {"\"guided_choice\":[\"a\",\"bad\"]", NULL, "guided_choice"},
    {"\"structured_outputs\":{\"json\":{\"bad\":1}}", NULL, "structured_outputs"},
};

static void check_form(fx_engine *eng, const form_case *c, fxi_api api)
{
    char body[512];
    fxi_params par;
    fxi_http_error e = {0};
    snprintf(body, sizeof body, "{%s,%s}",
             api == FXI_API_CHAT ? "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
                                 : "\"prompt\":\"a\"",
             c->members);
    if (!fxi_params_parse(&par, api, body, strlen(body), &limits, &e))
        fail_msg("%s: %s", body, e.message);
    assert_int_equal(fxi_params_resolve(&par, eng, &e), c->form != NULL);
    if (c->form) {
        assert_string_equal(fake_engine_form(par.grammar), c->form);
        assert_ptr_equal(fxi_params_request(&par, 0).grammar, par.grammar);
    } else {
        assert_int_equal(e.status, 400);
        assert_string_equal(e.param, c->blamed);
        assert_string_equal(e.code, "invalid_value");
    }
    fxi_params_free(&par);
}

FX_TEST(test_forms_are_compiled)
{
    fx_engine *eng = fake_engine_new();
    for (size_t i = 0; i < sizeof form_cases / sizeof form_cases[0]; i++) {
        check_form(eng, &form_cases[i], FXI_API_COMPLETIONS);
        check_form(eng, &form_cases[i], FXI_API_CHAT);
    }
    fx_engine_close(eng);
}

FX_RUN(test_api_form)
