// test_opt.c - the option table: precedence, every type at its bounds, every kind of wrong input,
// help.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/option/opt.h"
#include "unit/cmocka_all.h"

enum { CMD_A = 1, CMD_B = 2, CMD_ALL = 3 };

typedef struct values {
    bool json;
    int port;
    uint64_t seed, memory;
    float top_p;
    const char *model, *note, *style, *config;
    fxi_opt_ints batch;
    int room;
} values;

#define AT(field) offsetof(values, field)

static const fxi_opt rows[] = {
    {"json", 'j', NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(json), CMD_ALL, "prints JSON"},
    {"port", 0, "PORT", FXI_OPT_INT, 0, 65535, "8080", AT(port), CMD_A, "port"},
    {"port", 0, "DOOR", FXI_OPT_STR, 0, 0, "back", AT(note), CMD_B, "another port"},
    {"seed", 's', "SEED", FXI_OPT_U64, 0, 0x1p64, "7", AT(seed), CMD_ALL, "seed"},
    {"kv-memory", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p62, NULL, AT(memory), CMD_ALL, "budget"},
    {"top-p", 0, "P", FXI_OPT_FLOAT, 0.25, 1, "1", AT(top_p), CMD_ALL, "nucleus"},
    {"model", 'm', "FILE", FXI_OPT_STR, 0, 0, NULL, AT(model), CMD_ALL, "the model"},
    {"batch", 0, "LIST", FXI_OPT_INTS, 1, 64, "1,8", AT(batch), CMD_ALL, "sizes"},
    {"style", 0, "plain|rich", FXI_OPT_CHOICE, 0, 0, "plain", AT(style), CMD_A, "looks"},
    {"config", 0, "FILE", FXI_OPT_CONFIG, 0, 0, NULL, AT(config), CMD_ALL, "options"},
    {"room", 0, "N", FXI_OPT_INT, 0, 9, "0", AT(room), CMD_ALL, "places (default: half of all)"},
    {"secret", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(json), CMD_A, NULL},
};
static const fxi_opt_section sections[] = {{"a", CMD_A}, {"b", CMD_B}};
static const fxi_opt_renamed renamed[] = {{"style", "lavish", "rich"}, {"style", "bare", "plain"}};
static const fxi_opt_alias aliases[] = {{"-np --harbour --pt", "port", NULL},
                                        {"-ns --no-such", NULL, "there is nothing of the kind"}};
static const fxi_opt_table table = {
    rows, sizeof rows / sizeof rows[0], "OPTTEST_", sections, 2, renamed, 2, aliases, 2};

static values got;
static fxi_opt_rest rest;
static fx_error err;

// Parses a NULL-terminated list of arguments for `command`.
static fx_status parse(unsigned command, char *const *argv)
{
    int argc = 0;
    while (argv[argc]) argc++;
    memset(&got, 0, sizeof got);
    memset(&err, 0, sizeof err);
    fxi_opt_rest_free(&rest);
    return fxi_opt_parse(&table, command, argc, argv, &got, &rest, &err);
}

#define PARSE(command, ...) parse(command, (char *[]){__VA_ARGS__, NULL})
#define OK(...)             assert_int_equal(PARSE(CMD_A, __VA_ARGS__), FX_OK)

static void fails(const char *text, char *const *argv)
{
    assert_int_equal(parse(CMD_A, argv), FX_EINVAL);
    assert_string_equal(err.text, text);
}

#define FAILS(text, ...) fails(text, (char *[]){__VA_ARGS__, NULL})

FX_TEST(test_defaults)
{
    assert_int_equal(parse(CMD_A, (char *[]){NULL}), FX_OK);
    assert_int_equal(got.port, 8080);
    assert_int_equal(got.seed, 7);
    assert_true(got.top_p == 1.0f && !got.json && !got.model && got.memory == 0);
    assert_int_equal(got.batch.n, 2);
    assert_int_equal(got.batch.v[1], 8);
    assert_null(got.note); // another command's
}

FX_TEST(test_forms)
{
    OK("--port", "1", "--model=a=b", "-s5", "-j", "in", "--", "--port", "-x");
    assert_int_equal(got.port, 1);
    assert_string_equal(got.model, "a=b");
    assert_int_equal(got.seed, 5);
    assert_true(got.json);
    assert_int_equal(rest.n, 3);
    assert_string_equal(rest.arg[0], "in");
    assert_string_equal(rest.arg[1], "--port");
    OK("-m", "-s", "-", "--port=1", "--port", "2");
    assert_string_equal(got.model, "-s"); // a value may begin with a dash
    assert_string_equal(rest.arg[0], "-");
    assert_int_equal(got.port, 2); // the last one wins
    OK("--json", "--json=no", "--model=");
    assert_false(got.json);
    assert_string_equal(got.model, "");
}

FX_TEST(test_rows_of_a_command)
{
    assert_int_equal(PARSE(CMD_B, "--port", "front"), FX_OK);
    assert_string_equal(got.note, "front");
    assert_int_equal(got.port, 0);
    assert_int_equal(PARSE(CMD_B, "--secret"), FX_EINVAL);
}

FX_TEST(test_help_stops)
{
    OK("--port", "3", "--help", "--nonsense");
    assert_true(rest.help);
    OK("-h");
    assert_true(rest.help);
    OK("--", "-h");
    assert_false(rest.help);
}

FX_TEST(test_bounds)
{
    OK("--port", "65535", "--top-p", "0.25", "--seed", "18446744073709551615", "--batch", "64,1,1");
    assert_int_equal(got.port, 65535);
    assert_true(got.top_p == 0.25f && got.seed == UINT64_MAX);
    assert_int_equal(got.batch.n, 3);
    FAILS("--port: '65536' is not a whole number from 0 to 65535", "--port", "65536");
    FAILS("--port: '-1' is not a whole number from 0 to 65535", "--port", "-1");
    FAILS("--top-p: '0.24' is not a number from 0.25 to 1", "--top-p", "0.24");
    FAILS("--batch: '0' is not a list of whole numbers from 1 to 64", "--batch", "0");
    FAILS("-s: '18446744073709551616' is not a whole number of at least 0", "-s",
          "18446744073709551616");
}

FX_TEST(test_wrong_numbers)
{
    static char *const bad[] = {
        "", " 1", "1 ", "1x", "x", "0x10", "1.5", "+1", "--1", "1e3", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(PARSE(CMD_A, "--port", bad[i]), FX_EINVAL);
        assert_int_equal(PARSE(CMD_A, "--seed", bad[i]), FX_EINVAL);
        assert_int_equal(PARSE(CMD_A, "--batch", bad[i]), FX_EINVAL);
    }
    static char *const bad_float[] = {"",    " 1",  "1 ", "x",     "0x1",
                                      "nan", "inf", "1e", "1e999", "1.0.0"};
    for (size_t i = 0; i < sizeof bad_float / sizeof bad_float[0]; i++)
        assert_int_equal(PARSE(CMD_A, "--top-p", bad_float[i]), FX_EINVAL);
    static char *const bad_list[] = {",",
                                     "1,",
                                     ",1",
                                     "1,,2",
                                     "1 2",
                                     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1",
                                     "00000000000000000001"};
    for (size_t i = 0; i < sizeof bad_list / sizeof bad_list[0]; i++)
        assert_int_equal(PARSE(CMD_A, "--batch", bad_list[i]), FX_EINVAL);
}

FX_TEST(test_sizes)
{
    static const struct {
        char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"4096", 4096},
                {"3k", 3072},
                {"1.5G", 3ull << 29},
                {"2GiB", 2ull << 30},
                {"512MB", 512ull << 20},
                {"1T", 1ull << 40}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        OK("--kv-memory", good[i].text);
        assert_true(got.memory == good[i].bytes);
    }
    static char *const bad[] = {"",     "G",   "-1",   "1X",           "1 G", "1Gi",
                                "1GBs", "nan", "0x1G", "99999999999T", ".5G"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(PARSE(CMD_A, "--kv-memory", bad[i]), FX_EINVAL);
    FAILS("--kv-memory: 'lots' is not a size in bytes (like 512M or 2G)", "--kv-memory=lots");
}

FX_TEST(test_wrong_options)
{
    FAILS("unknown option '--prot'; did you mean '--port'?", "--prot", "1");
    FAILS("unknown option '--kv-memry'; did you mean '--kv-memory'?", "--kv-memry=1G");
    FAILS("unknown option '--zzz'", "--zzz");
    FAILS("unknown option '--'", "--=x");
    FAILS("unknown option '-q'", "-q");
    FAILS("unknown option '-jm'", "-jm");
    FAILS("--port: missing value (PORT)", "--port");
    FAILS("-m: missing value (FILE)", "-m");
    FAILS("--json: 'maybe' is not yes or no", "--json=maybe");
    FAILS("unexpected argument '9'", "1", "2", "3", "4", "5", "6", "7", "8", "9");
}

FX_TEST(test_environment)
{
    setenv("OPTTEST_PORT", "9", 1);
    setenv("OPTTEST_KV_MEMORY", "1M", 1);
    setenv("OPTTEST_JSON", "yes", 1);
    setenv("OPTTEST_TOP_P", "", 1); // counts as unset
    OK("--kv-memory=2M");
    assert_int_equal(got.port, 9);
    assert_int_equal(got.memory, 2 << 20);
    assert_true(got.json && got.top_p == 1.0f);
    setenv("OPTTEST_PORT", "nine", 1);
    FAILS("OPTTEST_PORT: 'nine' is not a whole number from 0 to 65535", "-j");
    assert_int_equal(PARSE(CMD_B, "-j"), FX_OK); // a string there
    assert_string_equal(got.note, "nine");
    unsetenv("OPTTEST_PORT");
    unsetenv("OPTTEST_KV_MEMORY");
    unsetenv("OPTTEST_JSON");
    unsetenv("OPTTEST_TOP_P");
}

static const char *config_file(const char *text)
{
    static char path[] = "/tmp/test_opt_XXXXXX";
    static bool made;
    if (!made) close(mkstemp(path));
    made = true;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

FX_TEST(test_choices)
{
    OK("--style", "rich");
    assert_string_equal(got.style, "rich");
    FAILS("--style: 'ric' is not one of plain|rich", "--style", "ric");
    FAILS("--style: '' is not one of plain|rich", "--style=");
    FAILS("--style: 'plain|rich' is not one of plain|rich", "--style", "plain|rich");
}

// A flag wins over the environment, that over the file, that over the default.
FX_TEST(test_sources_in_order)
{
    char *path =
        (char *)config_file("port = 1\nseed = 2 # two\n kv-memory=3K\njson = on\n"
                            "model = \"a \\\"b\\\" # c\\\\\"\n[b]\nseed = 9\n[a]\nport = 5\n");
    OK("--config", path);
    assert_int_equal(got.port, 5); // of our section
    assert_int_equal(got.seed, 2);
    assert_int_equal(got.memory, 3 << 10);
    assert_true(got.json);
    assert_string_equal(got.model, "a \"b\" # c\\");
    setenv("OPTTEST_PORT", "6", 1);
    setenv("OPTTEST_CONFIG", path, 1);
    OK("-s", "4", "rest");
    assert_int_equal(got.port, 6);
    assert_int_equal(got.seed, 4);
    assert_int_equal(rest.n, 1);
    assert_int_equal(PARSE(CMD_B, "-j"), FX_OK);
    assert_int_equal(got.seed, 9);
    unsetenv("OPTTEST_PORT");
    unsetenv("OPTTEST_CONFIG");
}

FX_TEST(test_wrong_files)
{
    static const struct {
        const char *text, *wrong; // after the name of the file
    } file_rows[] = {
        {"\n\nprot = 1\n", ":3: unknown option 'prot'; did you mean 'port'?"},
        {"nothing-like-it = 1", ":1: unknown option 'nothing-like-it'"},
        {"[b]\nstyle = rich", ":2: unknown option 'style'"},
        {"[c]\nport = 1", ":2: unknown command 'c'"},
        {"port = 70000", ":1: port: '70000' is not a whole number from 0 to 65535"},
        {"style = poor", ":1: style: 'poor' is not one of plain|rich"},
        {"port", ":1: not 'key = value': 'port'"},
        {"port =", ":1: no value for 'port'"},
        {"port = # 7", ":1: no value for 'port'"},
        {"Port = 7", ":1: not an option name: 'Port'"},
        {"= 7", ":1: not an option name: ''"},
        {"port = 7\nport = 8", ":2: 'port' is set twice, first in line 1"},
        {"port = 7\npt = 8", ":2: 'pt' is set twice, first in line 1"},
        {"no-such = 8", ":1: no option 'no-such' here: there is nothing of the kind"},
        {"model = \"a", ":1: missing closing '\"'"},
        {"model = \"a\" b", ":1: unexpected text after the quotes: 'b'"},
        {"model = \"\\q\"", ":1: unknown escape sequence in the quoted text"},
        {"[a\nport = 1", ":1: missing ']'"},
        {"[]", ":1: not a section name: ''"},
        {"[a] b", ":1: unexpected text after ']': 'b'"},
        {"model = \033[2J", ":1: control character"},
        {"config = x", ":1: 'config' cannot be set in a file"},
    };
    for (size_t i = 0; i < sizeof file_rows / sizeof file_rows[0]; i++) {
        char *path = (char *)config_file(file_rows[i].text), want[256];
        snprintf(want, sizeof want, "%s%s", path, file_rows[i].wrong);
        FAILS(want, "--config", path);
    }
    assert_int_equal(PARSE(CMD_A, "--config", "/nowhere/x"), FX_EIO);
    assert_string_equal(err.text, "cannot open /nowhere/x: No such file or directory");
    assert_int_equal(PARSE(CMD_A, "--config", "/tmp"), FX_EIO);
}

// What is shown is a file that gives the same values.
FX_TEST(test_values_in_effect)
{
    char *path = (char *)config_file("# a comment\r\nmodel = \"x \\\"\\t#\"\r\nseed = 11\r\n");
    fxi_buf text = {0}, again = {0};
    OK("--config", path, "--port=9");
    assert_true(fxi_opt_show(&table, CMD_A, &rest, &text));
    assert_non_null(strstr(text.p, "port = 9  # --port\n"));
    assert_non_null(strstr(text.p, ":3\n")); // seed
    assert_non_null(strstr(text.p, "\nbatch = 1,8\n"));
    assert_non_null(strstr(text.p, "# kv-memory =\n"));
    assert_non_null(strstr(text.p, "\nroom = 0  # half of all\n"));
    assert_non_null(strstr(text.p, "model = \"x \\\"\\t#\"  # "));
    assert_null(strstr(text.p, "secret"));
    const values first = got;
    path = (char *)config_file(text.p);
    OK("--config", path);
    assert_int_equal(got.port, 9);
    assert_int_equal(got.seed, first.seed);
    assert_string_equal(got.model, "x \"\t#");
    assert_true(fxi_opt_show(&table, CMD_A, &rest, &again));
    fxi_buf_free(&text);
    fxi_buf_free(&again);
}

FX_TEST(test_help_text)
{
    fxi_buf text = {0};
    assert_true(fxi_opt_help(&table, CMD_A, &text));
    assert_non_null(strstr(text.p, "  -m, --model FILE          the model\n"));
    assert_non_null(strstr(text.p, "      --port PORT           port (default: 8080)\n"));
    assert_non_null(strstr(text.p, "      --room N              places (default: half of all)\n"));
    assert_null(strstr(text.p, "DOOR"));
    assert_null(strstr(text.p, "secret"));
    fxi_buf_free(&text);
}

// What was renamed works for one version more, from every source, and leaves a note.
FX_TEST(test_old_names)
{
    char note[100] = "";
    OK("--port", "5", "--style", "rich");
    assert_false(fxi_opt_note(&table, &rest, 0, note, sizeof note));
    assert_false(fxi_opt_note(&table, &rest, 1, note, sizeof note));
    OK("--style", "Lavish");
    assert_string_equal(got.style, "rich");
    assert_true(fxi_opt_note(&table, &rest, 0, note, sizeof note));
    assert_string_equal(
        note, "--style lavish is now --style rich; the next version will not know the old name");
    setenv("OPTTEST_STYLE", "bare", 1);
    OK("--json");
    assert_string_equal(got.style, "plain");
    assert_true(fxi_opt_note(&table, &rest, 1, note, sizeof note));
    unsetenv("OPTTEST_STYLE");
    OK("--config", (char *)config_file("style = lavish\n"));
    assert_string_equal(got.style, "rich");
    assert_true(fxi_opt_note(&table, &rest, 0, note, sizeof note));
}

// Other programs' spellings, from every source; the option's own name wins.
FX_TEST(test_aliases)
{
    OK("-np", "5", "-s3");
    assert_int_equal(got.port, 5);
    OK("--harbour=6", "--pt", "7");
    assert_int_equal(got.port, 7);
    assert_int_equal(PARSE(CMD_B, "-np", "x"), FX_OK); // the row of that command
    assert_string_equal(got.note, "x");
    FAILS("-np: 'x' is not a whole number from 0 to 65535", "-np", "x");
    FAILS("--harbour: 'x' is not a whole number from 0 to 65535", "--harbour=x");
    FAILS("unknown option '-np5'", "-np5");
    FAILS("unknown option '--np'", "--np");
    FAILS("unknown option '-harbour'", "-harbour");
    FAILS("unknown option '--harbor'; did you mean '--harbour'?", "--harbor", "1");
    FAILS("no option '-ns' here: there is nothing of the kind", "-ns");
    FAILS("no option '--no-such' here: there is nothing of the kind", "--no-such=1");
    setenv("OPTTEST_HARBOUR", "8", 1);
    setenv("OPTTEST_NO_SUCH", "8", 1); // variables that nothing reads are no errors
    OK("-j");
    assert_int_equal(got.port, 8);
    fxi_buf text = {0};
    assert_true(fxi_opt_show(&table, CMD_A, &rest, &text));
    assert_non_null(strstr(text.p, "port = 8  # OPTTEST_HARBOUR\n"));
    fxi_buf_free(&text);
    setenv("OPTTEST_PORT", "9", 1);
    OK("-j");
    assert_int_equal(got.port, 9);
    unsetenv("OPTTEST_PORT");
    unsetenv("OPTTEST_HARBOUR");
    unsetenv("OPTTEST_NO_SUCH");
    OK("--config", (char *)config_file("harbour = 4\n"));
    assert_int_equal(got.port, 4);
}

FX_TEST(test_find)
{
    assert_ptr_equal(fxi_opt_find(&table, CMD_A, "--port=1"), &rows[1]);
    assert_ptr_equal(fxi_opt_find(&table, CMD_B, "-np"), &rows[2]);
    assert_ptr_equal(fxi_opt_find(&table, CMD_A, "-s"), &rows[3]);
    static const char *const none[] = {"", "-", "--", "port", "-sx", "-ns", "-z", "--ports"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_null(fxi_opt_find(&table, CMD_A, none[i]));
    OK("-j");
    assert_int_equal(fxi_opt_give(&table, &rows[1], "77", &got, &rest, &err), FX_OK);
    assert_int_equal(got.port, 77);
    assert_int_equal(rest.set[1].from, FXI_OPT_FROM_FLAG);
    assert_int_equal(fxi_opt_give(&table, &rows[1], "x", &got, &rest, &err), FX_EINVAL);
    assert_string_equal(err.text, "port: 'x' is not a whole number from 0 to 65535");
}

static int forget_config(void **state)
{
    (void)state;
    unlink(config_file(""));
    fxi_opt_rest_free(&rest);
    return 0;
}

FX_RUN_GROUP(test_opt, NULL, forget_config)
