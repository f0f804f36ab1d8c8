/* SPDX-License-Identifier: BSL-1.0 */
/* A library that trains with ggml, as a program finds it that loads it with RTLD_LOCAL. */
#include <ggml.h>

static int joint_of(int odd) {
    const struct ggml_init_params memory = {.mem_size = 1 << 22, .no_alloc = true};
    struct ggml_context* const c = ggml_init(memory);
    struct ggml_tensor* const x = ggml_new_tensor_2d(c, GGML_TYPE_F32, 64, 64);
    struct ggml_tensor* const w = ggml_new_tensor_2d(c, GGML_TYPE_F32, 64, 64);
    ggml_set_param(w);
    struct ggml_tensor* const y = ggml_silu(c, ggml_mul_mat(c, w, x));
    struct ggml_tensor* const loss = ggml_sum(c, y);
    ggml_set_loss(loss);
    struct ggml_cgraph* const graph = ggml_new_graph_custom(c, 256, true);
    ggml_build_forward_expand(graph, loss);
    if (odd) ggml_build_forward_expand(graph, ggml_sqr(c, ggml_view_tensor(c, y)));
    const int forward = ggml_graph_n_nodes(graph);
    ggml_build_backward_expand(c, graph, NULL);
    const int joint = ggml_graph_n_nodes(graph);
    ggml_free(c);
    return joint > forward ? 0 : 1;
}

int train(void) { return joint_of(0); }

/* A graph that Echo cannot read: it holds a view that no op has made. */
int train_odd(void) { return joint_of(1); }
