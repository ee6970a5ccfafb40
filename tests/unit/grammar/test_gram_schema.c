// test_gram_schema.c - JSON Schema: every valid instance of the public test suite is a text of its
// schema's grammar and no invalid one is, in any order of members; what the grammar writes at
// random is valid; what is not supported is refused by name.
//
// tests/vectors/make_schema_vectors.py makes the vectors.
#include "json_doc.h"
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "base/text/buf.h"
#include "grammar/schema/schema.h"
#include "unit/grammar/gram_machine.h"

#define VECTORS FX_SOURCE_DIR "/tests/vectors/schemas.json"

static fx_status try_schema(gram_machine *w, const fxi_json *schema, fx_error *err)
{
    fxi_gram_json json;
    uint32_t node = 0;
    *w = (gram_machine){0};
    fx_status st = fxi_gram_json_add(&w->g, &json, err);
    if (!st) st = fxi_schema_add(&w->g, &json, &(fxi_schema_ask){.schema = schema}, &node, err);
    return start_machine(w, st, node, err);
}

// ---- instances ----------------------------------------------------------------------------------

static void write_text(fxi_buf *b, const fxi_json *v, size_t order);

static void write_members(fxi_buf *b, const fxi_json *v, size_t order)
{
    fxi_json_iter member[16];
    size_t n = 0;
    for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);) {
        assert_true(n < 16);
        member[n++] = it;
    }
    for (size_t left = n; left; left--) { // a permutation by its number
        const size_t k = order % left;
        order /= left;
        fxi_buf_str(b, left == n ? "" : ", ");
        fxi_json_str(b, member[k].key, member[k].key_bytes);
        fxi_buf_str(b, ": ");
        write_text(b, member[k].value, order);
        memmove(member + k, member + k + 1, (left - k - 1) * sizeof *member);
    }
}

static void write_text(fxi_buf *b, const fxi_json *v, size_t order)
{
    if (fxi_json_is_object(v)) {
        fxi_buf_str(b, "{");
        write_members(b, v, order);
        fxi_buf_str(b, "}");
    } else if (fxi_json_is_array(v)) {
        fxi_buf_str(b, "[");
        for (size_t i = 0; i < fxi_json_array_size(v); i++) {
            fxi_buf_str(b, i ? ", " : "");
            write_text(b, fxi_json_at(v, i), order);
        }
        fxi_buf_str(b, "]");
    } else {
        fxi_json_value(b, v);
    }
}

static size_t most_members(const fxi_json *v)
{
    size_t most = fxi_json_object_size(v);
    for (fxi_json_iter it = fxi_json_items(v); fxi_json_next(&it);)
        if (most_members(it.value) > most) most = most_members(it.value);
    return most;
}

static bool accepts_value(gram_machine *w, const fxi_json *v)
{
    size_t n_order = 1;
    bool yes = false;
    for (size_t n = most_members(v); n > 1; n--) n_order *= n;
    if (n_order > 120) n_order = 120;
    for (size_t order = 0; !yes && order < n_order; order++) {
        fxi_buf b = {0};
        write_text(&b, v, order);
        yes = machine_accepts(w, b.p, b.n);
        fxi_buf_free(&b);
    }
    return yes;
}

static void check_group(const fxi_json *group, size_t *n_case, size_t *n_wrong)
{
    gram_machine w;
    fx_error err = {0};
    const char *name = fxi_json_text(fxi_json_get(group, "name"));
    const fxi_json *tests = fxi_json_get(group, "tests");
    const fx_status st = try_schema(&w, fxi_json_get(group, "schema"), &err);
    const bool is_never = st && !strcmp(err.text, "nothing matches the grammar");
    if (st && !is_never) print_message("%s: %s\n", name, err.text);
    for (size_t i = 0; i < fxi_json_array_size(tests); i++) {
        const fxi_json *t = fxi_json_at(tests, i), *data = fxi_json_get(t, "data");
        const bool want = fxi_json_is_true(fxi_json_get(t, "valid"));
        ++*n_case;
        if (is_never ? !want : !st && accepts_value(&w, data) == want) continue;
        ++*n_wrong;
        char *s = json_text_of(data);
        if (!st) print_message("%s: %s: %d is wanted\n", name, s, want);
        free(s);
    }
    close_machine(&w);
}

FX_TEST(test_instances_of_the_public_suite)
{
    fxi_json_doc root_doc = json_doc_file(VECTORS);
    const fxi_json *root = root_doc.root;
    const fxi_json *groups = fxi_json_get(root, "groups");
    size_t n_case = 0, n_wrong = 0;
    for (size_t i = 0; i < fxi_json_array_size(groups); i++)
        check_group(fxi_json_at(groups, i), &n_case, &n_wrong);
    print_message("%zu cases, %zu wrong\n", n_case, n_wrong);
    assert_int_equal(n_wrong, 0);
    fxi_json_doc_free(&root_doc);
}

// ---- refusals -----------------------------------------------------------------------------------

// No blanks without end: one around a colon, and a line break with up to 12 elsewhere.
FX_TEST(test_white_space_is_bounded)
{
#define TWELVE "            "
    static const struct {
        const char *text;
        bool want;
    } cases[] = {
        {"{\"a\":[1,2]}", true},
        {"{\n  \"a\": [\n    1,\n    2\n  ]\n}", true},
        {"{ \"a\" : [ 1 , 2 ] }", true},
        {"{\n" TWELVE "\"a\":[1,\n" TWELVE "2\n" TWELVE "]\n}", true},
        {"{\n" TWELVE " \"a\":[1,2]}", false},
        {"{\"a\":[1,\n" TWELVE " 2]}", false},
        {"{\"a\":[1,  2]}", false},
        {"{\"a\":  [1,2]}", false},
        {"{\"a\"\n:[1,2]}", false},
        {"{\"a\":\n[1,2]}", false},
    };
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":"
        "\"integer\"}}},\"required\":[\"a\"]}",
        "{\"const\":{\"a\":[1,2]}}", "true"};
    for (size_t k = 0; k < sizeof schemas / sizeof schemas[0]; k++) {
        gram_machine w;
        fx_error err = {0};
        fxi_json_doc doc = {0};
        assert_int_equal(fxi_json_parse(&doc, fxi_str_of(schemas[k]), &(fxi_json_rules){0}, &err),
                         FX_OK);
        assert_int_equal(try_schema(&w, doc.root, &err), FX_OK);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            if (machine_accepts(&w, cases[i].text, strlen(cases[i].text)) != cases[i].want)
                fail_msg("%s: %s", schemas[k], cases[i].text);
        close_machine(&w);
        fxi_json_doc_free(&doc);
    }
}

FX_TEST(test_what_is_not_supported_is_named)
{
    fxi_json_doc root_doc = json_doc_file(VECTORS);
    const fxi_json *root = root_doc.root;
    const fxi_json *refused = fxi_json_get(root, "refused");
    assert_true(fxi_json_array_size(refused) > 20);
    for (size_t i = 0; i < fxi_json_array_size(refused); i++) {
        gram_machine w;
        fx_error err = {0};
        const fxi_json *g = fxi_json_at(refused, i);
        const char *what = fxi_json_text(fxi_json_get(g, "for"));
        assert_int_equal(try_schema(&w, fxi_json_get(g, "schema"), &err), FX_EINVAL);
        if (!strstr(err.text, what) || !strstr(err.text, " at #"))
            fail_msg("%s: '%s' does not name '%s'", fxi_json_text(fxi_json_get(g, "name")),
                     err.text, what);
        close_machine(&w);
    }
    fxi_json_doc_free(&root_doc);
}

FX_TEST(test_broken_schemas_are_refused)
{
    static const struct {
        const char *schema, *error;
    } rows[] = {
        {"3", "must be an object"},
        {"{\"type\":\"strng\"}", "\"type\" must be the name of a type"},
        {"{\"type\":[]}", "\"type\" must be"},
        {"{\"properties\":{\"a\":{\"minLength\":-1}}}", "\"minLength\" must be an integer"},
        {"{\"properties\":{\"a\":{\"minLength\":-1}}}", "at #/properties/a"},
        {"{\"properties\":{\"a\":1}}", "\"properties\" must be an object of schemas"},
        {"{\"anyOf\":[]}", "\"anyOf\" must list schemas"},
        {"{\"required\":[1]}", "\"required\" must list strings"},
        {"{\"$ref\":\"#/$defs/a\"}", "\"#/$defs/a\", which is not there"},
        {"{\"$ref\":\"x.json\"}", "another document"},
        {"{\"minlength\":1}", "\"minlength\" is not supported"},
        {"{\"pattern\":\"a(?=b)\",\"type\":\"string\"}", "lookahead"},
        {"{\"format\":\"iri\",\"type\":\"string\"}", "format \"iri\""},
        {"{\"type\":\"string\",\"pattern\":\"(a|b|c){1,300}\",\"maxLength\":900,"
         "\"format\":\"uri\"}",
         ""},
        {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}",
         "nothing matches"},
        {"{\"const\":true,\"enum\":[false,0,null]}", "nothing matches"},
        {"{\"const\":[true],\"enum\":[[false],[]]}", "nothing matches"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gram_machine w;
        fx_error err = {0};
        fxi_json_doc schema = json_doc_of(rows[i].schema);
        const fx_status st = try_schema(&w, schema.root, &err);
        if (rows[i].error[0]) assert_int_equal(st, FX_EINVAL);
        if (!strstr(err.text, rows[i].error)) fail_msg("%s: %s", rows[i].schema, err.text);
        close_machine(&w);
        fxi_json_doc_free(&schema);
    }
}

// Takes the text.
static fx_status try_text(fxi_buf *schema, fx_error *err)
{
    gram_machine w;
    fxi_json_doc doc = json_doc_sized(schema->p, schema->n);
    assert_non_null(doc.root);
    *err = (fx_error){0};
    const fx_status st = try_schema(&w, doc.root, err);
    close_machine(&w);
    fxi_json_doc_free(&doc);
    fxi_buf_free(schema);
    return st;
}

// Conditions on a text are bounded: what is beyond is refused, not forgotten.
FX_TEST(test_too_many_conditions_are_refused)
{
    static const int n_pattern[] = {64, 65, 200};
    for (int i = 0; i < 3; i++) {
        fx_error err;
        fxi_buf schema = {0};
        fxi_buf_str(&schema, "{\"type\":\"string\",\"allOf\":[");
        for (int k = 1; k < n_pattern[i]; k++) fxi_buf_fmt(&schema, "{\"pattern\":\"^.{%d}\"},", k);
        fxi_buf_str(&schema, "{\"minLength\":300}]}");
        const fx_status st = try_text(&schema, &err);
        const bool is_told = strstr(err.text, "more than 64 conditions on a text") != NULL;
        if (n_pattern[i] > 64 ? st != FX_EINVAL || !is_told : is_told)
            fail_msg("%d patterns: %d %s", n_pattern[i], (int)st, err.text);
    }
}

static void add_numbers(fxi_buf *b, int from, int to)
{
    for (int i = from; i < to; i++) fxi_buf_fmt(b, "%s%d", i > from ? "," : "[", i);
    fxi_buf_str(b, "]");
}

static void expect_schema(fxi_buf *schema, fx_status want, const char *says)
{
    fx_error err;
    const fx_status st = try_text(schema, &err);
    if (st != want || !strstr(err.text, says)) fail_msg("%d: %s", (int)st, err.text);
}

// What would take minutes is refused: each of these once did. An enum is compared with no value of
// its own.
FX_TEST(test_work_is_bounded)
{
    static const char too_many[] = "too many to be written down";
    fxi_buf b = {0};
    fxi_buf_str(&b, "{\"enum\":");
    add_numbers(&b, 0, 100000);
    fxi_buf_str(&b, "}");
    expect_schema(&b, FX_OK, "");
    fxi_buf_str(&b, "{\"allOf\":[{\"enum\":");
    add_numbers(&b, 0, 30000);
    fxi_buf_str(&b, "},{\"enum\":");
    add_numbers(&b, 15000, 45000);
    fxi_buf_str(&b, "}]}");
    expect_schema(&b, FX_EINVAL, too_many);
    // Objects with three patterns of names, which meet in eight ways.
    for (int i = 0; i < 400; i++)
        fxi_buf_fmt(&b,
                    "%s\"p%d\":{\"type\":\"object\",\"properties\":{\"m%d\":{}},"
                    "\"patternProperties\":{\"^m.*5\":true,\"[0-9]{3}\":true,\"(a|b)*c\":true}}",
                    i ? "," : "{\"properties\":{", i, i);
    fxi_buf_str(&b, "}}");
    expect_schema(&b, FX_EINVAL, too_many);
    fxi_buf_str(&b, "{\"$defs\":{\"o\":{\"examples\":");
    add_numbers(&b, 0, 100000);
    fxi_buf_str(&b, "}");
    for (int i = 0; i < 4000; i++) fxi_buf_fmt(&b, ",\"p%d\":{\"$anchor\":\"a%d\"}", i, i);
    fxi_buf_str(&b, "},\"properties\":{");
    for (int i = 0; i < 4000; i++)
        fxi_buf_fmt(&b, "%s\"p%d\":{\"$ref\":\"#a%d\"}", i ? "," : "", i, i);
    fxi_buf_str(&b, "}}");
    expect_schema(&b, FX_EINVAL, too_many);
}

FX_RUN(test_gram_schema)
