// SPDX-License-Identifier: BSL-1.0
// Two units that include every header link, and share what they must share.
#include "unit.hpp"

#include <iostream>

static bool caught() {
    try {
        fail_there();
    } catch (const echo::error& e) {
        return e.node() == "node" && e.key() == "key";
    } catch (...) {
        return false;
    }
}

int main() {
    const unit here{&echo::version, &typeid(echo::error), &echo::detail::printable};
    if (here != there()) {
        std::cerr << "two units see two versions of one entity\n";
        return 1;
    }
    if (!caught()) {
        std::cerr << "an exception thrown in one unit is not caught in the other\n";
        return 1;
    }
}
