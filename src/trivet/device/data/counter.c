/* A plugin for QEMU that counts executed instructions: all so far, whenever a mark is executed, and those of every block
 * of code while one phase runs. Counts are the same in every run.
 *
 *     -plugin counter.so,out=FILE,marks=ADDRESS,count=N,phase=MARK,profile=FILE
 *
 * `marks` are N instructions of two bytes each, one after the other. A line of the first file is the number of a mark
 * and the instructions before it; one of the second is an address, and the instructions that were executed from there
 * between the marks `phase` and `phase` + 1, in their first run. The few declarations that are needed are here, so that no header of QEMU is. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef uint64_t plugin_id;

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*callback)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, void (*callback)(unsigned, void *),
                                                 int flags, void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id id, void (*callback)(plugin_id, void *), void *data);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int qemu_plugin_version = PLUGIN_VERSION;
EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments);

/* A block of code without branches in it. */
typedef struct block {
    struct block *next;
    uint64_t address;
    uint64_t instructions;
    uint64_t executed; /* times, while the phase runs */
    uint64_t mark;     /* NO_MARK: none */
} block;

#define NO_MARK UINT64_MAX

static block *blocks;
static uint64_t total, marks, mark_count, phase;
static bool in_phase, was_in_phase;
static FILE *out;
static const char *profile;

static void execute(unsigned cpu, void *data) {
    block *executed = data;
    (void)cpu;
    if (executed->mark != NO_MARK) {
        fprintf(out, "%" PRIu64 " %" PRIu64 "\n", executed->mark, total);
        if (executed->mark == phase) {
            in_phase = !was_in_phase;
            was_in_phase = true;
        } else if (executed->mark == phase + 1) {
            in_phase = false;
        }
    }
    total += executed->instructions;
    executed->executed += in_phase;
}

static void translate(plugin_id id, struct qemu_plugin_tb *translated) {
    block *made = calloc(1, sizeof *made);
    (void)id;
    if (made == NULL) {
        abort();
    }
    made->address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(translated, 0));
    made->instructions = qemu_plugin_tb_n_insns(translated);
    const uint64_t distance = made->address - marks;
    made->mark = distance < 2 * mark_count ? distance / 2 : NO_MARK;
    made->next = blocks;
    blocks = made;
    qemu_plugin_register_vcpu_tb_exec_cb(translated, execute, 0, made);
}

static void finish(plugin_id id, void *data) {
    (void)id;
    (void)data;
    fclose(out);
    FILE *file = fopen(profile, "w");
    for (const block *b = blocks; file != NULL && b != NULL; b = b->next) {
        if (b->executed != 0) {
            fprintf(file, "%" PRIu64 " %" PRIu64 "\n", b->address, b->executed * b->instructions);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static const char *value_of(const char *argument, const char *name) {
    const size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

int qemu_plugin_install(plugin_id id, const void *info, int count, char **arguments) {
    (void)info;
    for (int i = 0; i < count; i++) {
        const char *text;
        if ((text = value_of(arguments[i], "out")) != NULL) {
            out = fopen(text, "w");
        } else if ((text = value_of(arguments[i], "profile")) != NULL) {
            profile = strdup(text);
        } else if ((text = value_of(arguments[i], "marks")) != NULL) {
            marks = strtoull(text, NULL, 0);
        } else if ((text = value_of(arguments[i], "count")) != NULL) {
            mark_count = strtoull(text, NULL, 0);
        } else if ((text = value_of(arguments[i], "phase")) != NULL) {
            phase = strtoull(text, NULL, 0);
        }
    }
    if (out == NULL || profile == NULL) {
        fprintf(stderr, "counter: out= and profile= must name files that can be written\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, finish, NULL);
    return 0;
}
