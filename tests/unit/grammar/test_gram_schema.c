// test_gram_schema.c - JSON Schema: every valid instance of the public test suite is a text of its
// schema's grammar and no invalid one is, in any order of members; what the grammar writes at
// random is valid; what is not supported is refused by name.
//
// tests/vectors/make_schema_vectors.py makes the vectors.
#include "unit/cmocka_all.h"

#include <jansson.h>

#include "base/number/rng.h"
#include "base/text/buf.h"
#include "grammar/schema/schema.h"
#include "unit/grammar/gram_machine.h"

#define VECTORS FX_SOURCE_DIR "/tests/vectors/schemas.json"

static fx_status try_schema(gram_machine *w, const json_t *schema, fx_error *err)
{
    fxi_gram_json json;
    uint32_t node = 0;
    *w = (gram_machine){0};
    fx_status st = fxi_gram_json_add(&w->g, &json, err);
    if (!st) st = fxi_schema_add(&w->g, &json, schema, &node, err);
    return start_machine(w, st, node, err);
}

// ---- instances ----------------------------------------------------------------------------------

static void write_text(fxi_buf *b, const json_t *v, size_t order);

static void write_members(fxi_buf *b, const json_t *v, size_t order)
{
    const char *name[16];
    size_t n = 0;
    for (void *it = json_object_iter((json_t *)v); it;
         it = json_object_iter_next((json_t *)v, it)) {
        assert_true(n < 16);
        name[n++] = json_object_iter_key(it);
    }
    for (size_t left = n; left; left--) { // a permutation by its number
        const size_t k = order % left;
        order /= left;
        json_t *key = json_string(name[k]);
        char *s = json_dumps(key, JSON_ENCODE_ANY);
        fxi_buf_fmt(b, "%s%s: ", left == n ? "" : ", ", s);
        write_text(b, json_object_get(v, name[k]), order);
        memmove(name + k, name + k + 1, (left - k - 1) * sizeof *name);
        free(s);
        json_decref(key);
    }
}

static void write_text(fxi_buf *b, const json_t *v, size_t order)
{
    if (json_is_object(v)) {
        fxi_buf_str(b, "{");
        write_members(b, v, order);
        fxi_buf_str(b, "}");
    } else if (json_is_array(v)) {
        fxi_buf_str(b, "[");
        for (size_t i = 0; i < json_array_size(v); i++) {
            fxi_buf_str(b, i ? ", " : "");
            write_text(b, json_array_get(v, i), order);
        }
        fxi_buf_str(b, "]");
    } else {
        char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        fxi_buf_str(b, s);
        free(s);
    }
}

static size_t most_members(const json_t *v)
{
    size_t most = json_object_size(v);
    const char *key;
    json_t *x;
    json_object_foreach((json_t *)v, key, x) if (most_members(x) > most) most = most_members(x);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (most_members(json_array_get(v, i)) > most) most = most_members(json_array_get(v, i));
    return most;
}

static bool accepts_value(gram_machine *w, const json_t *v)
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

static void check_group(const json_t *group, size_t *n_case, size_t *n_wrong)
{
    gram_machine w;
    fx_error err = {0};
    const char *name = json_string_value(json_object_get(group, "name"));
    const json_t *tests = json_object_get(group, "tests");
    const fx_status st = try_schema(&w, json_object_get(group, "schema"), &err);
    const bool is_never = st && !strcmp(err.text, "nothing matches the grammar");
    if (st && !is_never) print_message("%s: %s\n", name, err.text);
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *t = json_array_get(tests, i), *data = json_object_get(t, "data");
        const bool want = json_is_true(json_object_get(t, "valid"));
        ++*n_case;
        if (is_never ? !want : !st && accepts_value(&w, data) == want) continue;
        ++*n_wrong;
        char *s = json_dumps(data, JSON_ENCODE_ANY);
        if (!st) print_message("%s: %s: %d is wanted\n", name, s, want);
        free(s);
    }
    close_machine(&w);
}

static json_t *load_vectors(void)
{
    json_error_t e;
    json_t *root = json_load_file(VECTORS, 0, &e);
    if (!root) fail_msg("%s: %s", VECTORS, e.text);
    return root;
}

FX_TEST(test_instances_of_the_public_suite)
{
    json_t *root = load_vectors();
    const json_t *groups = json_object_get(root, "groups");
    size_t n_case = 0, n_wrong = 0;
    for (size_t i = 0; i < json_array_size(groups); i++)
        check_group(json_array_get(groups, i), &n_case, &n_wrong);
    print_message("%zu cases, %zu wrong\n", n_case, n_wrong);
    assert_int_equal(n_wrong, 0);
    json_decref(root);
}

// ---- refusals -----------------------------------------------------------------------------------

FX_TEST(test_what_is_not_supported_is_named)
{
    json_t *root = load_vectors();
    const json_t *refused = json_object_get(root, "refused");
    assert_true(json_array_size(refused) > 20);
    for (size_t i = 0; i < json_array_size(refused); i++) {
        gram_machine w;
        fx_error err = {0};
        const json_t *g = json_array_get(refused, i);
        const char *what = json_string_value(json_object_get(g, "for"));
        assert_int_equal(try_schema(&w, json_object_get(g, "schema"), &err), FX_EINVAL);
        if (!strstr(err.text, what) || !strstr(err.text, " at #"))
            fail_msg("%s: '%s' does not name '%s'", json_string_value(json_object_get(g, "name")),
                     err.text, what);
        close_machine(&w);
    }
    json_decref(root);
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
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gram_machine w;
        fx_error err = {0};
        json_t *schema = json_loads(rows[i].schema, JSON_DECODE_ANY, NULL);
        const fx_status st = try_schema(&w, schema, &err);
        if (rows[i].error[0]) assert_int_equal(st, FX_EINVAL);
        if (!strstr(err.text, rows[i].error)) fail_msg("%s: %s", rows[i].schema, err.text);
        close_machine(&w);
        json_decref(schema);
    }
}

// Conditions on a text are bounded: what is beyond is refused, not forgotten.
FX_TEST(test_too_many_conditions_are_refused)
{
    static const int n_pattern[] = {64, 65, 200};
    for (int i = 0; i < 3; i++) {
        gram_machine w;
        fx_error err = {0};
        json_t *schema = json_pack("{s:s,s:[]}", "type", "string", "allOf");
        json_t *all = json_object_get(schema, "allOf");
        for (int k = 1; k < n_pattern[i]; k++) {
            char pattern[16];
            snprintf(pattern, sizeof pattern, "^.{%d}", k);
            json_array_append_new(all, json_pack("{s:s}", "pattern", pattern));
        }
        json_array_append_new(all, json_pack("{s:i}", "minLength", 300));
        const fx_status st = try_schema(&w, schema, &err);
        const bool is_told = strstr(err.text, "more than 64 conditions on a text") != NULL;
        if (n_pattern[i] > 64 ? st != FX_EINVAL || !is_told : is_told)
            fail_msg("%d patterns: %d %s", n_pattern[i], (int)st, err.text);
        close_machine(&w);
        json_decref(schema);
    }
}

static json_t *list_numbers(int from, int to)
{
    json_t *list = json_array();
    for (int i = from; i < to; i++) json_array_append_new(list, json_integer(i));
    return list;
}

// An object with three patterns of names, which meet in eight ways.
static json_t *object_with_patterns(int i)
{
    char name[16];
    snprintf(name, sizeof name, "m%d", i);
    return json_pack("{s:s,s:{s:{}},s:{s:b,s:b,s:b}}", "type", "object", "properties", name,
                     "patternProperties", "^m.*5", 1, "[0-9]{3}", 1, "(a|b)*c", 1);
}

static void expect_schema(json_t *schema, fx_status want, const char *says)
{
    gram_machine w;
    fx_error err = {0};
    const fx_status st = try_schema(&w, schema, &err);
    if (st != want || !strstr(err.text, says)) fail_msg("%d: %s", (int)st, err.text);
    close_machine(&w);
    json_decref(schema);
}

// What would take minutes is refused: each of these once did. An enum is compared with no value of
// its own.
FX_TEST(test_work_is_bounded)
{
    static const char too_many[] = "too many to be written down";
    expect_schema(json_pack("{s:o}", "enum", list_numbers(0, 100000)), FX_OK, "");
    expect_schema(json_pack("{s:[{s:o},{s:o}]}", "allOf", "enum", list_numbers(0, 30000), "enum",
                            list_numbers(15000, 45000)),
                  FX_EINVAL, too_many);
    json_t *objects = json_object(), *anchors = json_object(), *refs = json_object();
    json_object_set_new(anchors, "o", json_pack("{s:o}", "examples", list_numbers(0, 100000)));
    for (int i = 0; i < 4000; i++) {
        char name[16], anchor[16];
        snprintf(name, sizeof name, "p%d", i);
        snprintf(anchor, sizeof anchor, "#a%d", i);
        if (i < 400) json_object_set_new(objects, name, object_with_patterns(i));
        json_object_set_new(anchors, name, json_pack("{s:s}", "$anchor", anchor + 1));
        json_object_set_new(refs, name, json_pack("{s:s}", "$ref", anchor));
    }
    expect_schema(json_pack("{s:o}", "properties", objects), FX_EINVAL, too_many);
    expect_schema(json_pack("{s:o,s:o}", "$defs", anchors, "properties", refs), FX_EINVAL,
                  too_many);
}

FX_RUN(test_gram_schema)
