// SPDX-License-Identifier: BSL-1.0
// An engine's own graph, as "Plug in an engine" of README.md takes it as given.
#include <iostream>
#include <string>
#include <vector>

struct node {
    std::string op;
    echo::phase phase;
    std::vector<echo::value_of<node*>> inputs;
    std::vector<echo::tensor> tensors;
};

struct graph {
    std::vector<node*> order;
    std::vector<echo::value_of<node*>> results;
    const std::vector<node*>& execution_order() const { return order; }
};

// block

void plan(const graph& g) {
    // block
}
