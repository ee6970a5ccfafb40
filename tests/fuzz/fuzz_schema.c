// fuzz_schema.c - any JSON as a schema: it is refused with a line of text, or it makes a form that
// can be walked, and what the walk writes is JSON.
#include "json_doc.h"

#include "fuzz.h"
#include "gram_walk.h"
#include "grammar/schema/schema.h"

FUZZ_TARGET(fuzz_schema);

static void walk_schema(const fxi_gram *g)
{
    char s[MAX_GRAM_WALK];
    for (uint64_t seed = 0; seed < 2; seed++) {
        const size_t n = walk_gram(g, seed, s);
        fxi_json_doc v_doc = json_doc_sized(s, n);
        FUZZ_CHECK(!n || v_doc.root);
        fxi_json_doc_free(&v_doc);
    }
}

int fuzz_schema_run(const uint8_t *data, size_t n_bytes)
{
    fxi_gram g = {0};
    fxi_gram_json json;
    fx_error err = {0};
    uint32_t node = 0;
    static const fxi_json_rules rules = {0};
    fxi_json_doc schema = {0};
    fx_status st = fxi_json_parse(&schema, (fxi_str){(const char *)data, n_bytes}, &rules, &err);
    if (st != FX_OK) {
        FUZZ_CHECK((st == FX_EINVAL || st == FX_EFORMAT) && err.text[0]);
        fxi_json_doc_free(&schema);
        return 0;
    }
    st = fxi_gram_json_add(&g, &json, &err);
    if (!st) st = fxi_schema_add(&g, &json, &(fxi_schema_ask){.schema = schema.root}, &node, &err);
    if (!st) st = fxi_gram_finish(&g, node, &err);
    FUZZ_CHECK(st == FX_OK || (st == FX_EINVAL && err.text[0]));
    if (!st) walk_schema(&g);
    fxi_gram_free(&g);
    fxi_json_doc_free(&schema);
    return 0;
}

FUZZ_JSON_SEEDS(
    fuzz_schema,
    "{'type':'object','properties':{'a':{'type':'integer','minimum':-5,'maximum':123},"
    "'b':{'enum':[1,'x',null,[{'k':1.5}]]}},'required':['b','z'],'additionalProperties':false}",
    "{'type':'array','prefixItems':[{'type':'string','maxLength':3,'pattern':'^a|b$'}],"
    "'items':{'$ref':'#'},'minItems':1,'maxItems':4}",
    "{'anyOf':[{'type':['null','number'],'exclusiveMinimum':0.25,'multipleOf':0.01},"
    "{'format':'date','type':'string'}]}",
    "{'$defs':{'n':{'oneOf':[{'type':'null'},{'type':'object',"
    "'properties':{'next':{'$ref':'#/$defs/n'}}}]}},'$ref':'#/$defs/n'}",
    "{'type':'object','patternProperties':{'^x':{'const':1},'y$':true},"
    "'additionalProperties':{'type':'boolean'},'minProperties':1}",
    "{'allOf':[{'minimum':1},{'maximum':9.5},{'multipleOf':3}],'type':'number'}", "{'not':{}}",
    "false")
