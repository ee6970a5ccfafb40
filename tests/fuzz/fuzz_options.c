// fuzz_options.c - files of options: any bytes give entries that can be written and read again, or
// one line that names the file and the line.
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/option/opt.h"

FUZZ_TARGET(fuzz_options);

static bool is_key(const char *s)
{
    return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")] == 0;
}

static void write_entry(fxi_buf *b, const fxi_opt_entry *e)
{
    if (e->section[0]) fxi_buf_fmt(b, "[%s]\n", e->section);
    fxi_buf_fmt(b, "%s = \"", e->key);
    for (const char *s = e->value; *s; s++) {
        if (*s == '\n' || *s == '\t')
            fxi_buf_str(b, *s == '\n' ? "\\n" : "\\t");
        else
            fxi_buf_fmt(b, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    fxi_buf_str(b, "\"\n");
}

// Reads the bytes as a file whose name becomes *path.
static fx_status read_bytes(const void *p, size_t n, char path[32], fxi_opt_file *out,
                            fx_error *err)
{
    const int fd = memfd_create("fuzz", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    const fx_status st = fxi_opt_file_read(path, out, err);
    close(fd);
    return st;
}

static void check_again(const fxi_opt_file *f)
{
    fxi_buf text = {0};
    fxi_opt_file again;
    char path[32];
    for (size_t i = 0; i < f->n_entry; i++) write_entry(&text, &f->entry[i]);
    FUZZ_CHECK(read_bytes(text.p ? text.p : "", text.n, path, &again, NULL) == FX_OK);
    FUZZ_CHECK(again.n_entry == f->n_entry);
    for (size_t i = 0; i < f->n_entry; i++) {
        FUZZ_CHECK(strcmp(again.entry[i].section, f->entry[i].section) == 0);
        FUZZ_CHECK(strcmp(again.entry[i].key, f->entry[i].key) == 0);
        FUZZ_CHECK(strcmp(again.entry[i].value, f->entry[i].value) == 0);
    }
    fxi_opt_file_free(&again);
    fxi_buf_free(&text);
}

int fuzz_options_run(const uint8_t *data, size_t n_bytes)
{
    fxi_opt_file f;
    fx_error err = {.text = ""};
    char path[32];
    if (read_bytes(data, n_bytes, path, &f, &err) != FX_OK) {
        FUZZ_CHECK(!strncmp(err.text, path, strlen(path)) && !strpbrk(err.text, "\n"));
        return 0;
    }
    for (size_t i = 0; i < f.n_entry; i++)
        FUZZ_CHECK(is_key(f.entry[i].key) && f.entry[i].value[0] && f.entry[i].line > 0);
    check_again(&f);
    fxi_opt_file_free(&f);
    return 0;
}

FUZZ_SEEDS(fuzz_options,
           "# options\nport = 8080\nhost=127.0.0.1 # here\n\n[serve]\nkv-memory = 4G\n",
           "model = \"a \\\"b\\\" \\\\ \\n\\t\" # c\r\n[run]\r\n\tseed = 1\r\n[serve]\r\nseed = 2")
