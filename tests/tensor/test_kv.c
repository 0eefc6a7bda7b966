/* SPDX-License-Identifier: MIT
 *
 * KV caches: append, fork and truncate against a model that copies whole sequences; every slot is
 * owned by those who see it and free otherwise; what does not fit changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/memory.h"
#include "nn/kv.h"
#include "tensor/support_count.h"
#include "tensor/support_tensor.h"

enum { ROWS = 5, LENGTH = 12, SLOTS = 31 };

static vo_kv *create(int rows, int max_length, int slots) {
    vo_error err = {0};
    vo_kv *kv = NULL;
    vo_kv_params p = {.layers = 2,
                      .heads = 3,
                      .head_dim = 4,
                      .rows = rows,
                      .max_length = max_length,
                      .slots = slots};
    assert_int_equal(vo_kv_create(p, &kv, &err), VO_OK);
    return kv;
}

static int32_t slot_of(const vo_kv *kv, int row, int position) {
    return vo_kv_table(kv)[row * vo_kv_max_length(kv) + position];
}

/* How many positions one row can still take: appends all, counts, gives them back. */
static int room(vo_kv *kv, int row) {
    int length = vo_kv_length(kv, row), n = 0;
    int32_t slot;
    while (vo_kv_append(kv, row, 1, &slot, NULL) == VO_OK) n++;
    assert_int_equal(vo_kv_truncate(kv, row, length, NULL), VO_OK);
    return n;
}

static void test_append(void **state) {
    (void)state;
    vo_error err = {0};
    vo_kv *kv = create(2, 6, 8);
    int32_t slots[8];
    assert_int_equal(vo_kv_slots(kv), 8);
    assert_int_equal(vo_kv_max_length(kv), 6);
    assert_int_equal(vo_kv_table_entries(kv), 12);
    assert_int_equal(vo_kv_append(kv, 0, 4, slots, &err), VO_OK);
    assert_int_equal(vo_kv_length(kv, 0), 4);
    assert_int_equal(vo_kv_length(kv, 1), 0);
    for (int i = 0; i < 4; i++) {
        assert_in_range(slots[i], 0, 7);
        assert_int_equal(slots[i], slot_of(kv, 0, i));
        for (int j = 0; j < i; j++) assert_int_not_equal(slots[i], slots[j]);
    }
    assert_int_equal(vo_kv_append(kv, 0, 0, slots, &err), VO_OK);
    assert_int_equal(vo_kv_append(kv, 0, 3, slots, &err), VO_ERR_LIMIT); /* the row is full */
    assert_int_equal(vo_kv_length(kv, 0), 4);
    assert_int_equal(vo_kv_append(kv, 1, 5, slots, NULL), VO_ERR_LIMIT); /* the cache is full */
    assert_int_equal(vo_kv_length(kv, 1), 0);
    assert_int_equal(room(kv, 1), 4);
    assert_int_equal(room(kv, 0), 2);
    assert_int_equal(vo_kv_truncate(kv, 0, 1, NULL), VO_OK);
    assert_int_equal(room(kv, 1), 6);
    vo_kv_destroy(kv);
}

static void test_fork_shares(void **state) {
    (void)state;
    vo_kv *kv = create(3, 6, 8);
    int32_t slots[6], mine, theirs;
    assert_int_equal(vo_kv_append(kv, 0, 5, slots, NULL), VO_OK);
    assert_int_equal(vo_kv_fork(kv, 0, 3, (const int[]){0, 0, 0}, 3, NULL), VO_OK);
    for (int row = 0; row < 3; row++) {
        assert_int_equal(vo_kv_length(kv, row), 5);
        for (int i = 0; i < 5; i++) assert_int_equal(slot_of(kv, row, i), slots[i]);
    }
    /* Three slots are left: each row goes on in its own. */
    assert_int_equal(vo_kv_append(kv, 1, 1, &mine, NULL), VO_OK);
    assert_int_equal(vo_kv_append(kv, 2, 1, &theirs, NULL), VO_OK);
    assert_int_not_equal(mine, theirs);
    assert_int_equal(room(kv, 0), 1);
    /* A shared position is free only when its last owner lets go. */
    assert_int_equal(vo_kv_truncate(kv, 0, 0, NULL), VO_OK);
    assert_int_equal(vo_kv_truncate(kv, 1, 0, NULL), VO_OK);
    assert_int_equal(room(kv, 0), 2);
    assert_int_equal(vo_kv_truncate(kv, 2, 0, NULL), VO_OK);
    assert_int_equal(room(kv, 0), 6);
    /* Fewer rows: the others are emptied. */
    assert_int_equal(vo_kv_append(kv, 1, 3, slots, NULL), VO_OK);
    assert_int_equal(vo_kv_append(kv, 2, 2, slots, NULL), VO_OK);
    assert_int_equal(vo_kv_fork(kv, 0, 3, (const int[]){2}, 1, NULL), VO_OK);
    assert_int_equal(vo_kv_length(kv, 0), 2);
    assert_int_equal(vo_kv_length(kv, 1), 0);
    assert_int_equal(vo_kv_length(kv, 2), 0);
    assert_int_equal(vo_kv_fork(kv, 0, 3, NULL, 0, NULL), VO_OK);
    assert_int_equal(room(kv, 2), 6);
    vo_kv_destroy(kv);
}

static void test_fork_of_a_range(void **state) {
    (void)state;
    vo_kv *kv = create(4, 6, 16);
    int32_t slots[4][3];
    for (int row = 0; row < 4; row++)
        assert_int_equal(vo_kv_append(kv, row, row < 3 ? row + 1 : 3, slots[row], NULL), VO_OK);
    /* Rows 2 and 3 change places; rows 0 and 1 keep what they have. */
    assert_int_equal(vo_kv_truncate(kv, 3, 1, NULL), VO_OK);
    assert_int_equal(vo_kv_fork(kv, 2, 2, (const int[]){1, 0}, 2, NULL), VO_OK);
    assert_int_equal(vo_kv_length(kv, 0), 1);
    assert_int_equal(vo_kv_length(kv, 1), 2);
    assert_int_equal(vo_kv_length(kv, 2), 1);
    assert_int_equal(vo_kv_length(kv, 3), 3);
    assert_int_equal(slot_of(kv, 2, 0), slots[3][0]);
    for (int i = 0; i < 3; i++) assert_int_equal(slot_of(kv, 3, i), slots[2][i]);
    assert_int_equal(slot_of(kv, 1, 1), slots[1][1]);
    /* A parent is counted from the first row of the range. */
    assert_int_equal(vo_kv_fork(kv, 2, 2, (const int[]){2}, 1, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_fork(kv, 3, 2, (const int[]){0}, 1, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_fork(kv, 1, 3, (const int[]){0}, 1, NULL), VO_OK);
    assert_int_equal(vo_kv_length(kv, 0), 1);
    assert_int_equal(vo_kv_length(kv, 1), 2);
    assert_int_equal(room(kv, 2), 6);
    vo_kv_destroy(kv);
}

static void test_wrong_arguments(void **state) {
    (void)state;
    vo_kv *kv = create(2, 6, 0);
    int32_t slots[8];
    assert_int_equal(vo_kv_slots(kv), 12);
    assert_int_equal(vo_kv_append(kv, 0, 2, slots, NULL), VO_OK);
    assert_int_equal(vo_kv_append(kv, 2, 1, slots, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_append(kv, -1, 1, slots, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_append(kv, 0, -1, slots, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_append(kv, 0, INT32_MAX, slots, NULL), VO_ERR_LIMIT);
    assert_int_equal(vo_kv_fork(kv, 0, 2, (const int[]){0, 2}, 2, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_fork(kv, 0, 2, (const int[]){0, -1}, 2, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_fork(kv, 0, 2, (const int[]){0, 0, 0}, 3, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_truncate(kv, 0, 3, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_truncate(kv, 0, -1, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_truncate(kv, 9, 0, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_kv_length(kv, 0), 2);
    vo_kv_destroy(kv);
    vo_kv_destroy(NULL);
    static const vo_kv_params wrong[] = {
        {0, 1, 1, 1, 1, 0, VO_F32},         {1, 0, 1, 1, 1, 0, VO_F32}, {1, 1, 0, 1, 1, 0, VO_F32},
        {1, 1, 1, 0, 1, 0, VO_F32},         {1, 1, 1, 1, 0, 0, VO_F32}, {1, 1, 1, 1, 1, -1, VO_F32},
        {1, 1, 1, 65536, 65536, 0, VO_F32}, {1, 1, 1, 1, 1, 0, VO_BF16}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vo_error err = {0};
        kv = NULL;
        assert_int_equal(vo_kv_create(wrong[i], &kv, &err), VO_ERR_ARGUMENT);
        assert_null(kv);
    }
}

/* ---- random operations ---------------------------------------------------------------------- */

typedef struct naive {
    int tokens[ROWS][LENGTH], length[ROWS];
    int stored[SLOTS]; /* what the owner wrote to each slot */
    int next;
} naive;

/* Every sequence reads back as the model has it, and slots are shared only by equal positions. */
static void compare(vo_kv *kv, const naive *m) {
    bool used[SLOTS] = {false};
    int distinct = 0;
    for (int row = 0; row < ROWS; row++) {
        assert_int_equal(vo_kv_length(kv, row), m->length[row]);
        for (int i = 0; i < m->length[row]; i++) {
            int32_t slot = slot_of(kv, row, i);
            assert_in_range(slot, 0, SLOTS - 1);
            assert_int_equal(m->stored[slot], m->tokens[row][i]);
            distinct += !used[slot];
            used[slot] = true;
        }
    }
    int left = LENGTH - m->length[0], n_free = SLOTS - distinct;
    assert_int_equal(room(kv, 0), left < n_free ? left : n_free);
}

static int free_slots(const vo_kv *kv, const naive *m) {
    bool used[SLOTS] = {false};
    int n = SLOTS;
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < m->length[row]; i++) {
            n -= !used[slot_of(kv, row, i)];
            used[slot_of(kv, row, i)] = true;
        }
    return n;
}

static void random_append(vo_kv *kv, naive *m) {
    int row = (int)rnd_between(0, ROWS - 1), n = (int)rnd_between(0, 5);
    int32_t slots[5];
    bool fits = n <= LENGTH - m->length[row] && n <= free_slots(kv, m);
    assert_int_equal(vo_kv_append(kv, row, n, slots, NULL), fits ? VO_OK : VO_ERR_LIMIT);
    for (int i = 0; fits && i < n; i++)
        m->stored[slots[i]] = m->tokens[row][m->length[row]++] = ++m->next;
}

static void random_fork(vo_kv *kv, naive *m) {
    naive old = *m;
    int parents[ROWS], n = (int)rnd_between(0, ROWS);
    memset(m->length, 0, sizeof m->length);
    for (int i = 0; i < n; i++) {
        parents[i] = (int)rnd_between(0, ROWS - 1);
        memcpy(m->tokens[i], old.tokens[parents[i]], sizeof m->tokens[i]);
        m->length[i] = old.length[parents[i]];
    }
    assert_int_equal(vo_kv_fork(kv, 0, ROWS, parents, n, NULL), VO_OK);
}

static void test_random_operations(void **state) {
    (void)state;
    vo_kv *kv = create(ROWS, LENGTH, SLOTS);
    naive m = {.next = 0};
    const int32_t *table = vo_kv_table(kv);
    uint64_t ours = vo_memory_get_stats().allocations;
    rnd_seed(3);
    for (int step = 0; step < 5000; step++) {
        int64_t what = rnd_between(0, 9);
        if (what < 6) {
            random_append(kv, &m);
        } else if (what < 8) {
            random_fork(kv, &m);
        } else {
            int row = (int)rnd_between(0, ROWS - 1);
            m.length[row] = (int)rnd_between(0, m.length[row]);
            assert_int_equal(vo_kv_truncate(kv, row, m.length[row], NULL), VO_OK);
        }
        compare(kv, &m);
    }
    assert_int_equal(vo_memory_get_stats().allocations, ours);
    assert_ptr_equal(vo_kv_table(kv), table); /* plans hold the address */
    vo_kv_destroy(kv);
}

/* ---- with the ops --------------------------------------------------------------------------- */

/* Two rows that were forked and went apart attend to what each of them has seen. */
static void test_forked_attention(void **state) {
    (void)state;
    rig cpu;
    assert_true(rig_open(&cpu, 2, vo_cpu_detect()));
    vo_kv *kv = create(2, 8, 12);
    vo_graph *g = vo_graph_create(NULL);
    test_input x = input_random(g, 2, 12, false, VO_PARAM_ROWS, 1, -1, 1);
    vo_array *slots = vo_input(g, VO_I32, 2, 0, VO_PARAM_ROWS, 1);
    vo_array *row = vo_input(g, VO_I32, 2, 0, VO_PARAM_ROWS, 1);
    vo_array *length = vo_input(g, VO_I32, 2, 0, VO_PARAM_ROWS, 1);
    vo_array *table = vo_input(g, VO_I32, 16, 0, VO_PARAM_NONE, 0);
    vo_array *k = vo_kv_store(g, vo_kv_keys(kv, g, 1), x.array, slots);
    vo_array *v = vo_kv_store(g, vo_kv_values(kv, g, 1), x.array, slots);
    /* Scale 0: every position counts alike, so the result is the mean of what a row has seen. */
    vo_array *y = vo_attention_cached(g, x.array, k, v, table, row, length, 8, 0);
    vo_plan *plan = plan_of(&cpu, g, &y, 1, false);
    float *in = vo_plan_data(plan, x.leaf);
    double sum[2] = {0};
    for (int step = 0; step < 6; step++) {
        int rows = step < 2 ? 1 : 2;
        if (step == 2) { /* a common past of two positions */
            assert_int_equal(vo_kv_fork(kv, 0, 2, (const int[]){0, 0}, 2, NULL), VO_OK);
            sum[1] = sum[0];
        }
        for (int r = 0; r < rows; r++) {
            assert_int_equal(vo_kv_append(kv, r, 1, (int32_t *)vo_plan_data(plan, slots) + r, NULL),
                             VO_OK);
            for (int j = 0; j < 12; j++) in[r * 12 + j] = (float)(step * 10 + r);
            sum[r] += step * 10 + r;
            ((int32_t *)vo_plan_data(plan, row))[r] = r;
            ((int32_t *)vo_plan_data(plan, length))[r] = step + 1;
        }
        memcpy(vo_plan_data(plan, table), vo_kv_table(kv), 16 * sizeof(int32_t));
        vo_plan_set(plan, VO_PARAM_ROWS, rows);
        plan_run(plan);
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < 12; j++)
                expect_near("mean", r, j, (double)result_at(plan, y, r, j), sum[r] / (step + 1),
                            1e-4);
    }
    vo_plan_destroy(plan);
    vo_kv_destroy(kv);
    input_free(&x);
    rig_close(&cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_fork_shares),
        cmocka_unit_test(test_fork_of_a_range),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_random_operations),
        cmocka_unit_test(test_forked_attention),
    };
    return cmocka_run_group_tests_name("tensor: kv", tests, NULL, NULL);
}
